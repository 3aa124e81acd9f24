import { expect, test } from 'vitest';
import { chainedHash, contentHash } from '../../../sessions/compile/content-hash.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

test('the hash is the published xxh3-128, leading zeros kept', () => {
  expect(contentHash('')).toBe('99aa06d3014798d86001c324468d497f');
  expect(contentHash('abc')).toBe('06b05ab6733a618578af5f94892f3950');
});

test('a text has the hash of its bytes, also of bytes that are a part of others', () => {
  for (const text of ['', 'abc', 'naïve 漢字 👩‍🚀', 'x'.repeat(100_000)]) {
    const inside = bytes(`--${text}--`).subarray(2, -2);
    expect(contentHash(inside)).toBe(contentHash(text));
  }
});

test('chains share their links as far as their contents are equal, and none after', () => {
  const chain = (...contents: readonly string[]) => {
    let link: Uint8Array = new Uint8Array(0);
    return contents.map((content) => {
      link = chainedHash(link, bytes(content));
      expect(link).toHaveLength(16);
      return Buffer.from(link).toString('hex');
    });
  };
  const one = chain('a', 'b', 'c', 'd');
  const other = chain('a', 'b', 'x', 'd');
  expect(one.map((link, index) => link === other[index])).toEqual([true, true, false, false]);
  expect(chain('a', 'bc').at(-1)).not.toBe(chain('a', 'b', 'c').at(-1));
});
