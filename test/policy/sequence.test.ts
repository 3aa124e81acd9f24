import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_SEQUENCE, parseSequence } from '../../policy/sequence.ts';

test('a sequence is read exactly, also above 2^53', () => {
  expect(parseSequence('0')).toBe(0n);
  expect(parseSequence('9007199254740993')).toBe(9007199254740993n);
  expect(parseSequence('9223372036854775807')).toBe(MAX_SEQUENCE);
});

test('a sequence above 64 bits is refused', () => {
  expect(parseSequence('9223372036854775808')).toBeUndefined();
  expect(parseSequence('99999999999999999999')).toBeUndefined();
});

test.each([
  '',
  '00',
  '01',
  '+1',
  '-1',
  '-0',
  '1.0',
  '1e3',
  ' 1',
  '1 ',
  '1\n',
  '0x1',
  '1_000',
  '\u0661',
  'NaN',
])('a number that is not in canonical form is refused: %j', (text) => {
  expect(parseSequence(text)).toBeUndefined();
});

test('every sequence comes back from its text', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: MAX_SEQUENCE }), (value) => {
      expect(parseSequence(String(value))).toBe(value);
    }),
  );
});
