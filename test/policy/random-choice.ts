import fc from 'fast-check';
import type { Half } from '../../policy/pairing.ts';
import type { ChoiceOptions, WeighedEntry, WeighedSummary } from '../../policy/selection.ts';

export interface RandomChoice {
  readonly entries: readonly WeighedEntry[];
  readonly summaries: readonly WeighedSummary[];
  readonly options: ChoiceOptions;
}

const MOST_ENTRIES = 16;

/**
 * Logs with calls whose results come later, some ids reused and some halves alone; summaries of runs and of scattered
 * entries, some merged into higher ones whole and some by half; pins and windows.
 */
export const randomChoice: fc.Arbitrary<RandomChoice> = fc
  .record({
    weights: fc.array(
      fc.record({
        tokens: fc.nat(9),
        stored: fc.nat(9),
        pinned: fc.nat(11).map((n) => n === 0),
      }),
      { minLength: 1, maxLength: MOST_ENTRIES },
    ),
    calls: fc.array(
      fc.record({
        at: fc.nat(MOST_ENTRIES),
        later: fc.oneof(fc.constantFrom(0, 1, 2), fc.nat(MOST_ENTRIES), fc.constant(undefined)),
        id: fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, fc.constantFrom('x', 'y')),
      }),
      { maxLength: 5 },
    ),
    strays: fc.array(fc.record({ at: fc.nat(MOST_ENTRIES), id: fc.constantFrom('x', '0') }), {
      maxLength: 1,
    }),
    runs: fc.array(
      fc.record({
        from: fc.nat(MOST_ENTRIES),
        count: fc.integer({ min: 1, max: 5 }),
        skipped: fc.nat(8),
        price: fc.nat(40),
      }),
      { maxLength: 7 },
    ),
    merges: fc.array(
      fc.record({
        level: fc.constantFrom(2, 2, 3),
        under: fc.array(fc.nat(7), { minLength: 1, maxLength: 3 }),
        lost: fc.option(fc.nat(MOST_ENTRIES)),
        price: fc.nat(80),
      }),
      { maxLength: 4 },
    ),
    headTokens: fc.constantFrom(0, 3, 10, 30),
    recentTokens: fc.constantFrom(0, 3, 10, 30),
  })
  .map(({ weights, calls, strays, runs, merges, headTokens, recentTokens }) => {
    const halves = weights.map((): Half[] => []);
    for (const [index, { at, later, id = index.toString() }] of calls.entries()) {
      halves[at]?.push({ kind: 'call', id });
      if (later !== undefined) halves[at + later]?.push({ kind: 'result', id });
    }
    for (const { at, id } of strays) halves[at]?.push({ kind: 'result', id });

    const summaries: WeighedSummary[] = runs.map(({ from, count, skipped, price }) => ({
      level: 1,
      covers: [...weights.keys()].filter(
        (entry) => entry >= from && entry < from + count && entry !== from + skipped,
      ),
      price,
    }));
    for (const { level, under, lost, price } of merges) {
      const covered = new Set(under.flatMap((index) => summaries[index]?.covers ?? []));
      if (lost !== null) covered.delete(lost);
      summaries.push({ level, covers: [...covered].sort((a, b) => a - b), price });
    }
    return {
      entries: weights.map((weight, entry) => ({ ...weight, halves: halves[entry] ?? [] })),
      summaries,
      options: { headTokens, recentTokens },
    };
  });
