import { expect, test } from 'vitest';
import { cacheKeyFor, scopeDigest, type CacheKeyParts } from '../../sessions/cache-key.ts';

const parts: CacheKeyParts = {
  organization: 'acme',
  audienceHash: 'a'.repeat(64),
  scopeDigest: scopeDigest([{ conversation: 'thread', fromSeq: 1n }]),
  policyRevision: 1n,
  query: '{"tool":"search","query":"monday"}',
};

test('a key differs as soon as anything that can change readability does', () => {
  const others: Partial<CacheKeyParts>[] = [
    {},
    { organization: 'acme2' },
    { audienceHash: 'b'.repeat(64) },
    { scopeDigest: scopeDigest([{ conversation: 'thread', fromSeq: 2n }]) },
    { scopeDigest: scopeDigest([]) },
    { policyRevision: 2n },
    { query: '{"tool":"search","query":"tuesday"}' },
    { organization: 'acm', query: 'e{"tool":"search","query":"monday"}' },
  ];
  const keys = others.map((other) => cacheKeyFor({ ...parts, ...other }));
  expect(new Set(keys).size).toBe(keys.length);
  for (const key of keys) expect(key).toMatch(/^[0-9a-f]{64}$/);
});

test('a key is the same for the same parts, in whatever order a scope is listed', () => {
  const scope = [
    { conversation: 'b', fromSeq: 7n },
    { conversation: 'a', fromSeq: 1n },
    { conversation: '\uff5e', fromSeq: 2n },
    { conversation: '\u{1f600}', fromSeq: 3n },
  ];
  expect(scopeDigest([...scope].reverse())).toBe(scopeDigest(scope));
  expect(cacheKeyFor({ ...parts })).toBe(cacheKeyFor(parts));
});

test.each([
  ['no audience', { audienceHash: '' }],
  ['an audience that is no fingerprint', { audienceHash: 'A'.repeat(64) }],
  ['a query that is not well formed', { query: 'a\ud800' }],
  ['halves that only fit together', { organization: 'a\ud83d', query: '\ude00' }],
  ['no scope', { scopeDigest: '' }],
  ['no organization', { organization: '' }],
  ['undefined', { audienceHash: undefined }],
  ['null', { scopeDigest: null }],
])('there is no key for %s', (_what, other) => {
  expect(() => cacheKeyFor({ ...parts, ...(other as Partial<CacheKeyParts>) })).toThrow(TypeError);
});

test('a scope with a conversation listed twice has no digest', () => {
  const twice = [
    { conversation: 'a', fromSeq: 1n },
    { conversation: 'a', fromSeq: 2n },
  ];
  expect(() => scopeDigest(twice)).toThrow(TypeError);
});
