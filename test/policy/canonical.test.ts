import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeParts, hexDigestParts } from '../../policy/canonical.ts';

test('no two different lists of texts have one encoding', () => {
  const texts = fc.array(
    fc.string({ unit: fc.constantFrom('a', 'b', '|', '\0', '\u0001', '\u{1f600}'), maxLength: 3 }),
    {
      maxLength: 3,
    },
  );
  fc.assert(
    fc.property(texts, texts, (a, b) => {
      const same = JSON.stringify(a) === JSON.stringify(b);
      expect(Buffer.compare(encodeParts(a), encodeParts(b)) === 0).toBe(same);
    }),
    { numRuns: 1_000 },
  );
});

test('an integer takes eight bytes, also the highest', () => {
  expect(Buffer.from(encodeParts([1n])).toString('hex')).toBe('00000008' + '0000000000000001');
  expect(Buffer.from(encodeParts([2n ** 63n - 1n])).toString('hex')).toBe(
    '00000008' + '7fffffffffffffff',
  );
});

test('text is preceded by its length in bytes, not in characters', () => {
  expect(Buffer.from(encodeParts(['\u00e9'])).toString('hex')).toBe('00000002' + 'c3a9');
});

test('a digest of nothing is that of no bytes', () => {
  expect(hexDigestParts([])).toBe(
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  );
});
