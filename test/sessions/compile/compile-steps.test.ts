import { describe, expect, test } from 'vitest';
import type { CompileOptions, OverBudget } from '../../../sessions/compile/compile-shape.ts';
import { estimatorNamed } from '../../../sessions/compile/token-estimator.ts';
import { attempt } from './plain-compile.ts';
import type { RandomCompile } from './random-material.ts';

// Which steps a refusal names, case by case; that each frees what it says is in compile-property.test.ts.

const characters = await estimatorNamed('characters');

/** A log of entries of so many tokens, the first at place 0, with summaries that cost so much. */
function logOf(
  tokens: readonly number[],
  summaries: readonly {
    readonly level?: number;
    readonly covers: number[];
    readonly price: number;
  }[],
  { pins = [], ...options }: Omit<CompileOptions, 'pins'> & { readonly pins?: number[] } = {},
): RandomCompile {
  const sized = (text: string, tokens: number) => text.padEnd(4 * (tokens - 4), '.');
  return {
    material: {
      ...{ mark: '1', pins, verdicts: [], last: null },
      entries: tokens.map((tokens, at) => ({
        ...{ at, entry: `entry ${at.toString()}`, revision: '1', role: 'user', participant: 'ana' },
        blocks: [{ type: 'text', text: sized('', tokens) }],
      })),
      summaries: summaries.map(({ level = 1, covers, price }, index) => {
        const said = `[a summary of ${covers.length.toString()} earlier entries]\n`;
        const text = sized(said, price).slice(said.length);
        return { id: `summary ${index.toString()}`, level, covers, text };
      }),
    },
    units: [],
    options,
  };
}

/** The steps that are named at a budget, without how many tokens they free. */
function stepsOf(given: RandomCompile, budget = 0): Omit<OverBudget['steps'][number], 'frees'>[] {
  const outcome = attempt(given, characters, budget);
  if (outcome.ok || outcome.code !== 'over_budget') throw new Error('it is not refused');
  return outcome.over.steps.map(({ frees: _, ...step }) => step);
}

const summarize = (from: number, to: number) => ({
  ...{ step: 'summarize', from: `entry ${from.toString()}`, to: `entry ${to.toString()}` },
});

describe('entries to summarize are named', () => {
  test('from the first to the last of those in a row that no summary is over', () => {
    const given = logOf([40, 50, 60, 70], [{ covers: [0], price: 20 }]);
    expect(stepsOf(given)).toContainEqual({ ...summarize(1, 3), clears: false });
    expect(stepsOf(given, 40)).toContainEqual({ ...summarize(1, 3), clears: true });
  });

  test('where they are heaviest, if there are several rows of them', () => {
    const given = logOf([40, 50, 60, 200, 60], [{ covers: [2], price: 20 }]);
    const named = stepsOf(given).filter(({ step, from }) => step === 'summarize' && from);
    expect(named).toEqual([{ ...summarize(3, 4), clears: false }]);
  });

  test('around those that are pinned, which go raw beside it', () => {
    const given = logOf([40, 50, 60], [], { pins: [0, 1] });
    expect(stepsOf(given)).toContainEqual({ ...summarize(2, 2), clears: false });
    expect(stepsOf(logOf([40, 50, 60], [], { pins: [1] }))).toContainEqual({
      ...summarize(0, 2),
      clears: false,
    });
  });

  test('without those that go raw in the place of a summary, which no other one would take in', () => {
    const given = logOf([40, 40, 40], [{ covers: [0, 1], price: 200 }]);
    expect(stepsOf(given).filter(({ step }) => step === 'summarize')).toEqual([
      { ...summarize(2, 2), clears: false },
      { step: 'summarize', of: ['summary 0'], clears: false },
    ]);
  });

  test('not where one would cost as much as they do', () => {
    expect(stepsOf(logOf([10], []))).toEqual([]);
    expect(stepsOf(logOf([13], []))).toEqual([]);
    expect(stepsOf(logOf([14], []))).toEqual([{ ...summarize(0, 0), clears: false }]);
  });
});

describe('summaries to summarize are named', () => {
  test('all that are sent, and all that were left out for their price', () => {
    const given = logOf(
      [40, 40, 40, 40],
      [
        { covers: [2], price: 20 },
        { covers: [0], price: 20 },
        { covers: [3], price: 90 },
      ],
    );
    const of = ['summary 1', 'summary 0', 'summary 2'];
    expect(stepsOf(given)).toContainEqual({ step: 'summarize', of, clears: false });
  });

  test('not above the ninth level, nor where that would free nothing', () => {
    const top = { level: 9, covers: [0], price: 30 };
    expect(stepsOf(logOf([40], [top]))).toEqual([]);
    expect(stepsOf(logOf([40], [{ ...top, level: 8 }]))).toHaveLength(1);
    expect(stepsOf(logOf([40], [{ ...top, level: 8, price: 13 }]))).toEqual([]);
  });
});

describe('windows and pins are named', () => {
  test('each where it alone keeps entries raw that a summary is over', () => {
    const summaries = [
      { covers: [0], price: 14 },
      { covers: [1], price: 14 },
      { covers: [2], price: 14 },
    ];
    const options = { headTokens: 40, recentTokens: 60, pins: [1] };
    for (const step of ['recentTokens', 'headTokens', 'pins'])
      expect(stepsOf(logOf([40, 50, 60], summaries, options))).toContainEqual({
        step,
        clears: false,
      });
  });

  test('together where each of them keeps the same entries raw', () => {
    const summaries = [{ covers: [0, 1], price: 14 }];
    const steps = stepsOf(logOf([40, 50], summaries, { headTokens: 90, recentTokens: 90 }), 14);
    expect(steps).toContainEqual({ step: 'recentTokens', needs: ['headTokens'], clears: true });
    expect(steps).not.toContainEqual({ step: 'recentTokens', clears: true });
  });

  test('not together where one of them frees as much', () => {
    const summaries = [{ covers: [1], price: 14 }];
    const steps = stepsOf(logOf([40, 50], summaries, { headTokens: 40, recentTokens: 50 }));
    expect(steps).toContainEqual({ step: 'recentTokens', clears: false });
    expect(steps.filter(({ step, needs }) => step === 'recentTokens' && needs)).toEqual([]);
  });

  test('with what to summarize then, where there is no summary yet', () => {
    const steps = stepsOf(logOf([40, 50], [], { recentTokens: 90 }), 30);
    expect(steps).toContainEqual({ ...summarize(0, 1), needs: ['recentTokens'], clears: true });
  });
});
