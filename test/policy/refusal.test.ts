import { describe, expect, test } from 'vitest';
import { isRefusalCode, refuse, REFUSALS, type RefusalCode } from '../../policy/refusal.ts';

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

  test.each(['', 'allowed', 'toString', '__proto__', 'Not_found'])(
    'is no other text: %j',
    (text) => {
      expect(isRefusalCode(text)).toBe(false);
      expect(isRefusalCode('not_found')).toBe(true);
    },
  );
});
