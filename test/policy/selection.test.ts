import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Half } from '../../policy/pairing.ts';
import { choose, type WeighedEntry, type WeighedSummary } from '../../policy/selection.ts';
import { plainChoice } from './plain-selection.ts';
import { randomChoice } from './random-choice.ts';

const call = (id: string): Half => ({ kind: 'call', id });
const result = (id: string): Half => ({ kind: 'result', id });

/** Entries of ten tokens with these halves; `undefined` for one without. */
function logOf(...halves: (readonly Half[] | undefined)[]): WeighedEntry[] {
  return halves.map((own = []) => ({ tokens: 10, stored: 10, pinned: false, halves: own }));
}
const plain = (length: number) => logOf(...Array.from({ length }, () => undefined));

function pin(entries: readonly WeighedEntry[], ...pins: number[]): WeighedEntry[] {
  return entries.map((entry, index) => ({ ...entry, pinned: pins.includes(index) }));
}

function over(covers: readonly number[], price = 1, level = 1): WeighedSummary {
  return { level, covers, price };
}

const NO_WINDOWS = { headTokens: 0, recentTokens: 0 };

/** The entries that go raw. */
function rawOf(...given: Parameters<typeof choose>): number[] {
  const { raw } = choose(...given);
  return [...raw.keys()].filter((entry) => raw[entry]);
}

describe('windows', () => {
  const all = [0, 1, 2, 3, 4, 5].map((entry) => over([entry]));

  test('the head is the longest prefix that keeps to its tokens, the newest window the longest suffix', () => {
    expect(rawOf(plain(6), all, { headTokens: 20, recentTokens: 10 })).toEqual([0, 1, 5]);
    expect(rawOf(plain(6), all, { headTokens: 19, recentTokens: 9 })).toEqual([0]);
    expect(rawOf(plain(6), all, { headTokens: 60, recentTokens: 0 })).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test('a window counts what is sent of an entry, not what is stored', () => {
    const cut = plain(6).map((entry) => ({ ...entry, tokens: 1 }));
    expect(rawOf(cut, all, { headTokens: 2, recentTokens: 0 })).toEqual([0, 1]);
  });

  test('the head goes on to the results of its calls, and of the calls on the way there', () => {
    const log = logOf([call('a')], [call('b')], [result('a')], [result('b')], undefined);
    expect(rawOf(log, all.slice(0, 5), { headTokens: 10, recentTokens: 0 })).toEqual([0, 1, 2, 3]);
  });

  test('the newest window goes back to the calls of its results, and of the results on the way there', () => {
    const log = logOf(undefined, [call('a')], [call('b')], [result('a')], [result('b')]);
    expect(rawOf(log, all.slice(0, 5), { headTokens: 0, recentTokens: 10 })).toEqual([1, 2, 3, 4]);
  });

  test('a call in the head and its result in the newest window are split by neither', () => {
    const log = logOf([call('a')], undefined, undefined, [result('a')]);
    expect(rawOf(log, all.slice(0, 4), { headTokens: 10, recentTokens: 10 })).toEqual([0, 3]);
  });

  test('a summary that reaches into a window is not taken', () => {
    const windows = { headTokens: 10, recentTokens: 0 };
    expect(choose(plain(3), [over([0, 1]), over([1, 2])], windows).taken).toEqual([1]);
  });
});

describe('pins', () => {
  test('a pinned entry goes raw beside the summary over it', () => {
    const choice = choose(pin(plain(3), 1), [over([0, 1, 2])], NO_WINDOWS);
    expect(choice).toEqual({
      raw: [false, true, false],
      open: [true, false, true],
      taken: [0],
      standsAt: [0],
      replaced: [],
    });
  });

  test('a summary stands where its first entry that is not pinned stands', () => {
    expect(choose(pin(plain(3), 0), [over([0, 1, 2])], NO_WINDOWS).standsAt).toEqual([1]);
  });

  test('what holds the other half of a pair with a pinned entry goes raw, and so on from there', () => {
    const log = logOf([call('a')], [result('a'), call('b')], undefined, [result('b')]);
    expect(rawOf(pin(log, 0), [over([0, 1, 2, 3])], NO_WINDOWS)).toEqual([0, 1, 3]);
  });

  test('a pinned entry that two summaries cover, or a window holds, is in the way of none', () => {
    const log = pin(plain(3), 1);
    expect(choose(log, [over([0, 1]), over([1, 2])], NO_WINDOWS).taken).toEqual([0, 1]);
    const windows = { headTokens: 10, recentTokens: 0 };
    expect(choose(pin(plain(3), 0), [over([0, 1])], windows).taken).toEqual([0]);
  });

  test('a summary over nothing but pinned entries is neither sent nor counted as replaced', () => {
    const choice = choose(pin(plain(2), 0, 1), [over([0, 1], 99), over([])], NO_WINDOWS);
    expect(choice).toMatchObject({ raw: [true, true], taken: [], standsAt: [], replaced: [] });
  });
});

test('an entry is open if neither a window nor a pin makes it go raw, whatever is over it', () => {
  const windows = { headTokens: 10, recentTokens: 10 };
  const log = logOf([call('a')], [result('a')], undefined, [call('b')], [result('b')], undefined);
  const { open } = choose(pin(log, 3), [over([2], 99)], windows);
  expect(open).toEqual([false, false, true, false, false, false]);
});

describe('order', () => {
  test('the highest summaries are taken, and what they leave open goes under lower ones', () => {
    const summaries = [over([0]), over([1]), over([2]), over([0, 1], 1, 2), over([3])];
    const { taken, standsAt } = choose(plain(4), summaries, NO_WINDOWS);
    expect(taken).toEqual([3, 2, 4]);
    expect(standsAt).toEqual([0, 2, 3]);
  });

  test('of one level the one that begins earlier is taken, then the one given last', () => {
    expect(choose(plain(3), [over([1, 2]), over([0, 1])], NO_WINDOWS).taken).toEqual([1]);
    expect(choose(plain(3), [over([0, 2]), over([0, 1])], NO_WINDOWS).taken).toEqual([1]);
  });

  test('a summary over what is not in the log is not taken', () => {
    expect(choose(plain(1), [over([0, 1])], NO_WINDOWS).taken).toEqual([]);
  });
});

describe('a dear summary', () => {
  test('is replaced by its entries if it costs more than they do, and stays if it costs the same', () => {
    const choice = choose(plain(2), [over([0, 1], 21)], NO_WINDOWS);
    expect(choice).toMatchObject({ raw: [true, true], taken: [], standsAt: [], replaced: [0] });
    expect(choose(plain(2), [over([0, 1], 20)], NO_WINDOWS).taken).toEqual([0]);
  });

  test('is weighed against the larger form of each entry, pinned ones aside', () => {
    const log = plain(3).map((entry, index) =>
      index === 0 ? { ...entry, stored: 30 } : { ...entry, stored: 1 },
    );
    expect(choose(log, [over([0, 1, 2], 50)], NO_WINDOWS).replaced).toEqual([]);
    expect(choose(log, [over([0, 1, 2], 51)], NO_WINDOWS).replaced).toEqual([0]);
    expect(choose(pin(log, 1), [over([0, 1, 2], 41)], NO_WINDOWS).replaced).toEqual([0]);
  });

  test('takes with it all summaries under it, counted once, and no share goes to another', () => {
    const summaries = [over([0]), over([1]), over([0, 1], 50, 2), over([1, 2])];
    const choice = choose(plain(3), summaries, NO_WINDOWS);
    expect(choice).toMatchObject({ raw: [true, true, true], taken: [], replaced: [2] });
  });

  test('that costs nothing stays over an entry that costs nothing', () => {
    const log = plain(3).map((entry, index) =>
      index === 1 ? { ...entry, tokens: 0, stored: 0 } : entry,
    );
    expect(choose(log, [over([1], 0)], NO_WINDOWS).taken).toEqual([0]);
  });

  test('is kept where the rule is asked to be left out', () => {
    const choice = choose(plain(2), [over([0, 1], 99)], { ...NO_WINDOWS, dearer: 'keep' });
    expect(choice).toMatchObject({ raw: [false, false], taken: [0], replaced: [] });
  });

  test.each([
    ['a pair is wholly under it', logOf(undefined, [call('a')], [result('a')], undefined)],
    ['a pair is beside it', logOf([call('a'), result('a')], undefined, undefined, [call('b')])],
    ['it has a call without a result', logOf(undefined, [call('a')], undefined, undefined)],
    ['it has a result without a call', logOf(undefined, [result('a')], undefined, undefined)],
    ['another id is reused', logOf([call('a'), call('a')], [call('b')], undefined, undefined)],
  ])('is replaced all the same where %s', (_where, log) => {
    expect(choose(log, [over([1, 2], 99)], NO_WINDOWS).replaced).toEqual([0]);
  });

  test.each([
    [
      'a call under it has its result outside',
      logOf(undefined, [call('a')], undefined, [result('a')]),
    ],
    [
      'a result under it has its call outside',
      logOf([call('a')], undefined, [result('a')], undefined),
    ],
    ['the id of a call under it is reused', logOf([call('a')], [call('a')], undefined, undefined)],
    [
      'the id of a result under it is reused',
      logOf([call('a'), result('a'), call('a'), result('a')], undefined, [result('a')], undefined),
    ],
    [
      'it lies between a call and its result',
      logOf([call('a')], undefined, undefined, [result('a')]),
    ],
  ])('stays where %s', (_where, log) => {
    expect(choose(log, [over([1, 2], 99)], NO_WINDOWS)).toMatchObject({ taken: [0], replaced: [] });
  });

  test('stays where one of its entries lies between a call and its result that are in its gap or pinned', () => {
    const gap = logOf(undefined, [call('a')], undefined, [result('a')], undefined);
    expect(choose(gap, [over([0, 2, 4], 99)], NO_WINDOWS).taken).toEqual([0]);
    expect(choose(gap, [over([0, 4], 99)], NO_WINDOWS).replaced).toEqual([0]);
    expect(choose(pin(gap, 1), [over([0, 1, 2, 3, 4], 99)], NO_WINDOWS).taken).toEqual([0]);
  });

  test('stays where a pair outside lies around one of its entries after a pair within has ended', () => {
    const log = logOf([call('a')], [result('a')], [call('b')], undefined, [result('b')]);
    expect(choose(log, [over([0, 1, 3], 99)], NO_WINDOWS).taken).toEqual([0]);
  });

  test('stays where a pair outside lies around it, though one within lies around its entries too', () => {
    const log = logOf([call('a')], [call('b')], undefined, [result('b')], [result('a')]);
    expect(choose(log, [over([1, 2, 3], 99)], NO_WINDOWS).taken).toEqual([0]);
    expect(choose(log, [over([0, 1, 2, 3, 4], 99)], NO_WINDOWS).replaced).toEqual([0]);
  });
});

describe('every log', () => {
  const runs = { numRuns: 3_000 };

  test('is chosen from as the rules are said', () => {
    fc.assert(
      fc.property(randomChoice, ({ entries, summaries, options }) => {
        const { held: _, ...expected } = plainChoice(entries, summaries, options);
        expect(choose(entries, summaries, options)).toEqual(expected);
      }),
      runs,
    );
  });

  test('is sent whole: each entry raw or under exactly one taken summary', () => {
    fc.assert(
      fc.property(randomChoice, ({ entries, summaries, options }) => {
        const { raw, taken, standsAt, replaced } = choose(entries, summaries, options);
        const under = taken.map((index) =>
          (summaries[index]?.covers ?? []).filter((entry) => !raw[entry]),
        );
        const covered = under.flat().sort((a, b) => a - b);
        expect(covered).toEqual([...raw.keys()].filter((entry) => !raw[entry]));
        expect(standsAt).toEqual(under.map(([first]) => first));
        expect(standsAt).toEqual([...standsAt].sort((a, b) => a - b));
        const instead = replaced.flatMap((index) =>
          (summaries[index]?.covers ?? []).filter((entry) => !entries[entry]?.pinned),
        );
        expect(instead.every((entry) => raw[entry])).toBe(true);
      }),
      runs,
    );
  });

  test('gives the same choice twice, and is not changed by it', () => {
    fc.assert(
      fc.property(randomChoice, ({ entries, summaries, options }) => {
        const copy = structuredClone({ entries, summaries, options });
        const first = choose(entries, summaries, options);
        expect({ entries, summaries, options }).toEqual(copy);
        expect(choose(copy.entries, copy.summaries, copy.options)).toEqual(first);
      }),
    );
  });

  test('is under the same summaries without the rule of dear ones, the replaced among them', () => {
    fc.assert(
      fc.property(randomChoice, ({ entries, summaries, options }) => {
        const chosen = choose(entries, summaries, options);
        const kept = choose(entries, summaries, { ...options, dearer: 'keep' });
        expect(kept.replaced).toEqual([]);
        expect([...kept.taken].sort()).toEqual([...chosen.taken, ...chosen.replaced].sort());
      }),
      runs,
    );
  });

  test('that is made up here meets each reason for which a dear summary goes or stays alone', () => {
    const met = new Set<string>();
    for (const { entries, summaries, options } of fc.sample(randomChoice, {
      seed: 1,
      numRuns: 2_000,
    })) {
      const { held, replaced } = plainChoice(entries, summaries, options);
      for (const reasons of held) met.add(reasons.join('+'));
      if (replaced.length > 0) met.add('none');
    }
    for (const reason of ['none', 'half', 'reused', 'between']) expect(met).toContain(reason);
  });
});
