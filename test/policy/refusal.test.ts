import { describe, expect, test } from 'vitest';
import {
  isRefusalCode,
  RECOVERIES,
  recoveryBody,
  refuse,
  REFUSALS,
  type Recovery,
  type RefusalCode,
} from '../../policy/refusal.ts';

const codes = Object.keys(REFUSALS) as RefusalCode[];

describe('a refusal', () => {
  test.each(codes)(
    'has a status that is an error, a sentence, a recovery and a page: %s',
    (code) => {
      const { status, sentence, recovery, page } = REFUSALS[code];
      expect(status).toBeGreaterThanOrEqual(400);
      expect(status).toBeLessThan(600);
      expect(sentence).toMatch(/^[A-Z].*\.$/);
      expect(page).toMatch(/^[a-z]+$/);
      expect(refuse(code)).toEqual({ ok: false, code, recovery });
    },
  );

  test('may be recovered from in another way than usual, which is said', () => {
    expect(refuse('conflict', { recovery: 'retry', detail: 'Again.' })).toEqual({
      ok: false,
      code: 'conflict',
      recovery: 'retry',
      detail: 'Again.',
    });
  });

  test.each(Object.keys(RECOVERIES) as Recovery[])(
    'that is recovered from by %s says who acts, and the state that comes of it',
    (recovery) => {
      const { owner, next, sentence } = RECOVERIES[recovery];
      expect(['agent', 'bridge', 'requester', 'source_owner', 'operator', 'endpoint']).toContain(
        owner,
      );
      expect(next).toMatch(/^[a-z_]+$/);
      expect(sentence).toMatch(/^[A-Z].*\.$/);
      expect(recoveryBody(recovery)).toEqual({ recovery, recoveryOwner: owner, next });
    },
  );

  test.each(['', 'allowed', 'toString', '__proto__', 'Not_found'])(
    'is no other text: %j',
    (text) => {
      expect(isRefusalCode(text)).toBe(false);
      expect(isRefusalCode('not_found')).toBe(true);
    },
  );
});
