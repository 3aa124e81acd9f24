import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatInstant, parseInstant } from '../../policy/instant.ts';

describe('a time from outside', () => {
  test('keeps its microseconds', () => {
    const early = parseInstant('2021-03-01T10:00:00.123400Z') ?? 0n;
    const late = parseInstant('2021-03-01T10:00:00.123950Z') ?? 0n;
    expect(late - early).toBe(550n);
    expect(formatInstant(late)).toBe('2021-03-01T10:00:00.123950Z');
  });

  test('counts its offset', () => {
    const utc = parseInstant('2021-03-01T10:00:00Z');
    expect(parseInstant('2021-03-01T12:30:00+02:30')).toBe(utc);
    expect(parseInstant('2021-03-01T07:30:00-02:30')).toBe(utc);
    expect(parseInstant('2021-03-01T12:30:00+02:31')).not.toBe(utc);
  });

  test('may have fewer than six fractional digits', () => {
    expect(parseInstant('2021-03-01T10:00:00.5Z')).toBe(
      parseInstant('2021-03-01T10:00:00.500000Z'),
    );
  });

  test('is a day that the calendar has', () => {
    expect(parseInstant('2024-02-29T00:00:00Z')).toBeDefined();
    expect(parseInstant('2023-02-29T00:00:00Z')).toBeUndefined();
  });

  test.each([
    '2021-03-01T10:00:00',
    '2021-03-01T10:00:00.1234567Z',
    '2021-03-01T10:00:60Z',
    '2021-03-01T24:00:00Z',
    '2021-13-01T00:00:00Z',
    '2021-00-10T00:00:00Z',
    '2021-03-01 10:00:00Z',
    '2021-03-01T10:00:00+24:00',
    '2021-03-01',
    '0000-01-01T00:00:00Z',
    ' 2021-03-01T10:00:00Z',
    '2021-03-01T10:00:00Z\n',
    '1614592800',
  ])('is refused when it is not RFC 3339 with an offset: %j', (text) => {
    expect(parseInstant(text)).toBeUndefined();
  });

  test('comes back from its text, also before 1970', () => {
    const [least, most] = ['0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999999Z'].map(parseInstant);
    fc.assert(
      fc.property(fc.bigInt({ min: least ?? 0n, max: most ?? 0n }), (instant) => {
        expect(parseInstant(formatInstant(instant))).toBe(instant);
      }),
    );
  });
});
