import { describe, expect, test } from 'vitest';
import { sessionIdFor, type SessionParts } from '../../policy/session-id.ts';

const audience = {
  persona: 'helper',
  audienceHash: 'ab'.repeat(32),
  mode: 'thread',
  policyRevision: 1n,
} as const;
const parts = {
  organization: 'acme',
  threadKey: 'general',
  salt: 's',
  epoch: 1n,
  audience,
} as const;

describe('a session id', () => {
  test('is a UUID of version 8', () => {
    expect(sessionIdFor(parts)).toMatch(
      /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
  });

  test('is the same for the same parts', () => {
    expect(sessionIdFor({ ...parts, audience: { ...audience } })).toBe(sessionIdFor(parts));
  });

  test.each<[string, SessionParts]>([
    ['organization', { ...parts, organization: 'acme2' }],
    ['thread key', { ...parts, threadKey: 'random' }],
    ['salt', { ...parts, salt: 't' }],
    ['epoch', { ...parts, epoch: 2n }],
    ['persona', { ...parts, audience: { ...audience, persona: 'other' } }],
    ['audience', { ...parts, audience: { ...audience, audienceHash: 'ac'.repeat(32) } }],
    ['mode', { ...parts, audience: { ...audience, mode: 'private' } }],
    ['project bound', { ...parts, audience: { ...audience, projectBound: 'p' } }],
    ['empty project bound', { ...parts, audience: { ...audience, projectBound: '' } }],
    ['policy revision', { ...parts, audience: { ...audience, policyRevision: 2n } }],
    ['lack of a grant', { organization: 'acme', threadKey: 'general', salt: 's', epoch: 1n }],
    ['border between two parts', { ...parts, organization: 'acmeg', threadKey: 'eneral' }],
  ])('is another for another %s', (_, other) => {
    expect(sessionIdFor(other)).not.toBe(sessionIdFor(parts));
  });
});
