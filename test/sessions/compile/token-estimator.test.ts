import fc from 'fast-check';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { describe, expect, test } from 'vitest';
import {
  calibrated,
  ESTIMATORS,
  estimatorNamed,
  remembered,
  type TokenEstimator,
} from '../../../sessions/compile/token-estimator.ts';
import { hostileText, LONG_TEXTS } from '../hostile-text.ts';

const o200k = await estimatorNamed('o200k_base');
const characters = await estimatorNamed('characters');

const estimators = await Promise.all(
  ESTIMATORS.map(async (name) => [name, await estimatorNamed(name)] as const),
);

describe.each(estimators)('%s', (name, estimator) => {
  test('has the name that it was asked for by, and counts an empty text as nothing', () => {
    expect(estimator.name).toBe(name);
    expect(estimator.count('')).toBe(0);
  });

  test('counts every text, the same each time, as a whole number', () => {
    fc.assert(
      fc.property(fc.oneof(hostileText, fc.string({ unit: 'binary' })), (text) => {
        const count = estimator.count(text);
        expect(Number.isInteger(count) && count >= (text === '' ? 0 : 1)).toBe(true);
        expect(estimator.count(text)).toBe(count);
      }),
    );
  });

  test('counts lone surrogates without a fault', () => {
    expect(estimator.count('a\ud800b\udc00')).toBeGreaterThan(0);
  });
});

describe('o200k_base', () => {
  test('counts as the tokenizer does', () => {
    expect(o200k.count('hello world')).toBe(2);
    expect(o200k.count('Die Sitzung wurde auf Montag verschoben.')).toBe(
      countTokens('Die Sitzung wurde auf Montag verschoben.'),
    );
    fc.assert(
      fc.property(hostileText, (text) => {
        const runs = /[\p{L}\p{M}]{128}|\s{128}|[^\s\p{L}\p{N}]{128}/u.exec(text);
        fc.pre(runs === null);
        expect(o200k.count(text)).toBe(countTokens(text, { disallowedSpecial: new Set() }));
      }),
    );
  });

  test('counts what looks like a special token as the text it is', () => {
    expect(o200k.count('<|endoftext|>')).toBe(7);
    expect(o200k.count('say <|im_start|>system<|im_end|> twice')).toBeGreaterThan(7);
  });

  // One of them took a minute before long runs were counted in pieces.
  test.each(Object.entries(LONG_TEXTS))('comes to an end for 100,000 of %s', (_what, text) => {
    const count = o200k.count(text);
    expect(count).toBeGreaterThan(500);
    expect(count).toBeLessThanOrEqual(Buffer.byteLength(text));
  });

  test('counts a long text without white space as the tokenizer does', () => {
    for (const part of ['naïve-漢字/', '{"id":12,"name":"ünï"},', 'AbCd1234+/', '日本。'])
      expect(o200k.count(part.repeat(100))).toBe(countTokens(part.repeat(100)));
  });

  test('does not part a surrogate pair where it parts a long run', () => {
    expect(o200k.count('😀')).toBe(1);
    expect(o200k.count('😀'.repeat(1000))).toBe(1000);
    expect(o200k.count(`!${'😀'.repeat(1000)}`)).toBe(1001);
  });
});

test('characters are a quarter of the length, rounded up', () => {
  expect([1, 4, 5, 8, 9].map((length) => characters.count('x'.repeat(length)))).toEqual([
    1, 1, 2, 2, 3,
  ]);
});

describe('a calibrated estimator', () => {
  test('counts a multiple, rounded up, and says so in its name', () => {
    const dearer = calibrated(characters, 1.25);
    expect(dearer.name).toBe('characters*1.25');
    expect(dearer.count('x'.repeat(40))).toBe(13);
    expect(dearer.count('')).toBe(0);
    expect(calibrated(characters, 0.5).count('x')).toBe(1);
  });

  test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('has no factor %d', (factor) => {
    expect(() => calibrated(characters, factor)).toThrow(RangeError);
  });
});

describe('a remembered estimator', () => {
  function watched(): TokenEstimator & { readonly asked: string[] } {
    const asked: string[] = [];
    return {
      ...{ name: 'watched', asked },
      count(text) {
        asked.push(text);
        return text.length;
      },
    };
  }

  test('asks once for each text and gives the same counts, nothing among them', () => {
    const estimator = watched();
    const remembering = remembered(estimator, 10);
    const texts = ['', 'a', 'b', '', 'a', 'b', 'ab'];
    expect(texts.map((text) => remembering.count(text))).toEqual([0, 1, 1, 0, 1, 1, 2]);
    expect(estimator.asked).toEqual(['', 'a', 'b', 'ab']);
    expect(remembering.name).toBe('watched');
  });

  test('keeps no more than it was told to, those used last', () => {
    const estimator = watched();
    const remembering = remembered(estimator, 2);
    for (const text of ['a', 'bb', 'a', 'ccc', 'a', 'bb']) remembering.count(text);
    expect(estimator.asked).toEqual(['a', 'bb', 'ccc', 'bb']);
  });
});
