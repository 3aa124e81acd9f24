import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { markOfResult } from '../../../sessions/compile/arrangement.ts';
import { planCompile } from '../../../sessions/compile/compile-plan.ts';
import { CUT_MARK } from '../../../sessions/compile/cut-text.ts';
import type { Block } from '../../../sessions/entry-shape.ts';
import { blocksOf, isStorable, type StartUnit } from '../../../sessions/injections.ts';
import { PRUNED } from '../../../sessions/compile/pruned-results.ts';
import {
  estimatorNamed,
  remembered,
  type EstimatorName,
  type TokenEstimator,
} from '../../../sessions/compile/token-estimator.ts';
import { hostileText, isWellFormed } from '../hostile-text.ts';
import {
  attempt,
  compiledOf,
  isOfEntry,
  pinnedIn,
  plainWeight,
  taking,
  type Sent,
} from './plain-compile.ts';
import { plainText, randomCompile, type RandomCompile } from './random-material.ts';

// What holds of every compile, whatever the log, its summaries, the options and the budget.

const ESTIMATORS = {
  characters: await estimatorNamed('characters'),
  o200k_base: remembered(await estimatorNamed('o200k_base'), 100_000),
} as const satisfies Record<EstimatorName, TokenEstimator>;
const { characters } = ESTIMATORS;

const someCompile = randomCompile(plainText);
const hostileCompile = randomCompile(hostileText);

/** What can be cut to any size. */
const isOneText = ([first, ...others]: readonly Block[]) =>
  first?.type === 'text' && first.replay === undefined && others.length === 0;
const isResult = ({ type }: Block) => type === 'tool_result';

describe('what is sent', () => {
  test('is each entry, raw once or under exactly one summary, and a pinned one raw', () => {
    fc.assert(
      fc.property(someCompile, (given) => {
        const { entries, summaries } = given.material;
        const { options } = given;
        const { sent } = compiledOf(given, characters);
        const sentSummaries = sent.flatMap(({ from }) =>
          from.kind === 'summary' ? summaries.filter(({ id }) => id === from.summary) : [],
        );
        expect(new Set(sentSummaries).size).toBe(sentSummaries.length);
        const { pinned, bound } = pinnedIn(given);
        for (const [index, { at, entry, blocks }] of entries.entries()) {
          const own = sent.filter((one) => isOfEntry(one) && one.from.entry === entry);
          const over = sentSummaries.filter(({ covers }) => covers.includes(at));
          if (bound.has(index)) expect(own).not.toEqual([]);
          else expect(over.length).toBe(own.length > 0 ? 0 : 1);
          const [first] = own;
          if (first === undefined) continue;
          expect(first.from.pinned ?? false).toBe(pinned.has(index));
          if (options.maxEntryTokens !== undefined && isOneText(blocks))
            expect(first.from.tokens).toBeLessThanOrEqual(options.maxEntryTokens);
          if (first.from.cut) continue;
          const left = own.flatMap(({ content }) => content);
          const told = (some: readonly Block[]) => some.filter(({ type }) => type !== 'raw').length;
          expect(told(left)).toBe(told(blocks));
          for (const block of blocks)
            if (block.type === 'text' || block.type === 'thinking')
              expect(
                left.filter((one) => one.type === block.type && one.text === block.text),
              ).toHaveLength(1);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test('keeps the order of the log, a summary where the first entry under it stands', () => {
    fc.assert(
      fc.property(someCompile, (given) => {
        const { entries, summaries } = given.material;
        const { sent } = compiledOf(given, characters);
        const raw = new Set(sent.filter(isOfEntry).map(({ from }) => from.entry));
        const placeOf = ({ from, content }: Sent) => {
          // A result comes with its call.
          if (content.some(isResult)) return [];
          if (from.kind !== 'summary')
            return entries.filter(({ entry }) => entry === from.entry).map(({ at }) => at);
          const covers = summaries.find(({ id }) => id === from.summary)?.covers ?? [];
          const under = entries.filter(({ at, entry }) => covers.includes(at) && !raw.has(entry));
          return under.slice(0, 1).map(({ at }) => at);
        };
        const places = sent.flatMap(placeOf);
        expect(places).toEqual([...places].sort((a, b) => a - b));
      }),
      { numRuns: 700 },
    );
  });

  test('has each result straight after the message with its call, in the order of the calls, and no half alone', () => {
    fc.assert(
      fc.property(someCompile, (given) => {
        let open: string[] = [];
        for (const { content } of compiledOf(given, characters).sent) {
          const results = content.flatMap((one) => (one.type === 'tool_result' ? [one.call] : []));
          if (results.length > 0) {
            expect(content.every((one) => isResult(one) || one.type === 'raw')).toBe(true);
            expect(open.slice(0, results.length)).toEqual(results);
            open = open.slice(results.length);
          } else {
            expect(open).toEqual([]);
            open = content.flatMap((one) => (one.type === 'tool_call' ? [one.id] : []));
          }
        }
        expect(open).toEqual([]);
      }),
      { numRuns: 1_000 },
    );
  });

  test('holds of a start’s units those that no copy in the log puts before the agent, each once and where it goes', () => {
    fc.assert(
      fc.property(someCompile, ({ material, units, options }) => {
        const storable = units.filter(isStorable);
        const { sent } = compiledOf({ material, units, options }, characters);
        // A copy that goes raw is before the agent, one under a summary is not.
        const isBefore = (unit: StartUnit) => {
          const newest = material.entries.findLast(({ injection }) => injection === unit.source);
          const isNewest = material.verdicts[storable.indexOf(unit)] === 'unchanged';
          return isNewest && sent.some(({ from }) => from.entry === newest?.entry);
        };
        const expected = units.filter((unit) => !isBefore(unit) && blocksOf(unit).length > 0);
        const placed = sent.flatMap((one, nth) =>
          one.from.kind === 'placed' ? [{ source: one.from.source, nth }] : [],
        );
        // What is placed takes room in the newest window, so that in rare logs a copy comes out from under its summary again.
        const sources = placed.map(({ source }) => source);
        expect(new Set(sources).size).toBe(sources.length);
        expect(sources).toEqual(expect.arrayContaining(expected.map(({ source }) => source)));
        expect(units.map(({ source }) => source)).toEqual(expect.arrayContaining(sources));
        const isWord = (one: Block) =>
          !isResult(one) && !(one.type === 'text' && one.text === markOfResult());
        const saysWords = ({ from, role, content }: Sent) =>
          from.kind === 'entry' &&
          role === 'user' &&
          !content.some(isResult) &&
          content.some(isWord);
        const latest = sent.findLastIndex(saysWords);
        const { entry } = sent[latest]?.from ?? {};
        const others = (first: number, end = sent.length) =>
          sent
            .slice(first, end)
            .filter(
              ({ from, content }) => !/placed|marker/.test(from.kind) && !content.some(isResult),
            );
        for (const { source, nth } of placed) {
          const position = units.find((unit) => unit.source === source)?.position;
          if (position === 'system') expect(others(0, nth)).toEqual([]);
          else if (position === 'after_user' || latest === -1) expect(others(nth)).toEqual([]);
          else {
            expect(nth).toBeLessThan(latest);
            expect(others(nth, latest).filter(({ from }) => from.entry !== entry)).toEqual([]);
          }
        }
      }),
      { numRuns: 500 },
    );
  });

  test('ends with the marker where the agent’s own words are the last but for injections, and nowhere else', () => {
    fc.assert(
      fc.property(someCompile, (given) => {
        const { sent } = compiledOf(given, characters);
        const { self } = given.options;
        const last = sent.findLast(({ from }) => from.kind === 'entry' || from.kind === 'summary');
        const isOwn =
          last?.role === 'agent' &&
          (self === undefined || last.participant === self) &&
          !last.content.some(isResult);
        const markers = [...sent.keys()].filter((nth) => sent[nth]?.from.kind === 'marker');
        expect(markers).toEqual(isOwn ? [sent.length - 1] : []);
      }),
      { numRuns: 700 },
    );
  });
});

describe.each<[EstimatorName, number]>([
  ['characters', 400],
  ['o200k_base', 40],
])('counted by %s', (name, numRuns) => {
  const by = ESTIMATORS[name];

  test('a request never has more tokens than its budget, is refused only where it would, and is the same at each', () => {
    fc.assert(
      fc.property(someCompile, fc.integer({ min: 1, max: 10_000 }), (given, some) => {
        const { sent, ...whole } = compiledOf(given, by);
        const { total } = whole.stats.tokens;
        const counted = sent.map(({ content }) => plainWeight(by, content));
        expect(counted).toEqual(sent.map(({ from }) => from.tokens));
        expect(counted.reduce((sum, tokens) => sum + tokens, 0)).toBe(total);
        for (const budget of [some, total, ...(total > 0 ? [total - 1] : [])]) {
          const outcome = attempt(given, by, budget);
          expect(outcome.ok).toBe(total <= budget);
          if (outcome.ok) expect(JSON.stringify(outcome.compiled)).toBe(JSON.stringify(whole));
          else expect(outcome).toMatchObject({ over: { budget, tokens: total } });
        }
      }),
      { numRuns },
    );
  });

  test('each step of a refusal frees what it says, or less if a summary is long, and no other one frees anything', () => {
    fc.assert(
      fc.property(someCompile, (given) => {
        const { total } = compiledOf(given, by).stats.tokens;
        fc.pre(total > 0);
        const outcome = attempt(given, by, total - 1);
        if (outcome.ok || outcome.code !== 'over_budget') throw new Error('not refused');
        const { steps } = outcome.over;
        const freed = (of: RandomCompile) => total - compiledOf(of, by).stats.tokens.total;
        for (const step of steps) {
          expect(step.frees, step.step).toBeGreaterThan(0);
          expect(freed(taking(given, step)), JSON.stringify(step)).toBe(step.frees);
          expect(step.clears).toBe(step.frees > 0);
          if (step.step !== 'summarize') continue;
          const long = taking(given, step, 'a longer text than none');
          // One that is dearer than what it is of is not sent, and frees or costs what it pleases.
          if (compiledOf(long, by).provenance.some(({ summary }) => summary === 'written'))
            expect(freed(long), step.step).toBeLessThanOrEqual(step.frees);
        }
        for (const step of OPTIONS)
          if (!steps.some((named) => named.step === step))
            expect(freed(taking(given, { step })), step).toBeLessThanOrEqual(0);
      }),
      { numRuns },
    );
  });

  test('a summary that is replaced costs more than what goes in its place', () => {
    fc.assert(
      fc.property(someCompile, ({ material, units, options }) => {
        const { pinned: pins } = pinnedIn({ material, units, options });
        const planned = (dearer: 'replace' | 'keep') => {
          const plan = planCompile(material, units, { ...options, pins, dearer }, by);
          // The marker stands for no entry: it is there where the last one goes raw.
          const some = plan.messages.filter(({ origin }) => origin.kind !== 'marker');
          const tokens = some.reduce((sum, one) => sum + one.tokens, 0);
          return { tokens, replaced: plan.choice.replaced.length };
        };
        const { tokens, replaced } = planned('replace');
        expect(tokens).toBeLessThanOrEqual(planned('keep').tokens - replaced);
      }),
      { numRuns: 5 * numRuns },
    );
  });
});

const OPTIONS = [
  'recentTokens',
  'headTokens',
  'pins',
  'pruneToolResults',
  'maxEntryTokens',
  'injections',
] as const;

describe('hostile text', () => {
  test('is well formed at every budget, and cut between graphemes with a mark where it is cut', () => {
    const few = fc.integer({ min: 16, max: 60 });
    fc.assert(
      fc.property(hostileCompile, few, fc.integer({ min: 1, max: 200 }), (given, most, budget) => {
        const cutting = { ...given, options: { ...given.options, maxEntryTokens: most } };
        const refused = attempt(cutting, characters, budget);
        expect(isWellFormed(JSON.stringify(refused))).toBe(true);
        const stored = new Set(textsIn([given.material.entries, given.units, PRUNED]));
        for (const { content, from } of compiledOf(cutting, characters).sent) {
          for (const text of textsIn(content)) {
            expect(isWellFormed(text)).toBe(true);
            if (from.cut !== true || stored.has(text) || !text.endsWith(CUT_MARK)) continue;
            const left = text.slice(0, -CUT_MARK.length);
            const beginnings = [...stored].filter((whole) => whole.startsWith(left));
            expect(beginnings.some((whole) => isBoundary(whole, left.length))).toBe(true);
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  test('stays as it is where nothing is cut', () => {
    fc.assert(
      fc.property(hostileCompile, (given) => {
        const { maxEntryTokens: _, ...options } = given.options;
        const { sent } = compiledOf({ ...given, options }, characters);
        for (const { entry, blocks } of given.material.entries) {
          const own = sent.filter((one) => isOfEntry(one) && one.from.entry === entry);
          const words = (some: readonly Block[]) =>
            some.flatMap((one) =>
              one.type === 'text' || one.type === 'thinking' ? [one.text] : [],
            );
          const left = new Set(words(own.flatMap(({ content }) => content)));
          if (own.length > 0) expect(words(blocks).filter((text) => !left.has(text))).toEqual([]);
        }
      }),
      { numRuns: 300 },
    );
  });
});

/** Every text in a value. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(textsIn);
}

const CLUSTERS = new Intl.Segmenter('en', { granularity: 'grapheme' });

function isBoundary(text: string, place: number): boolean {
  return (CLUSTERS.segment(text).containing(place)?.index ?? place) === place;
}

test('the same view, units and options give the same bytes, and are not changed', () => {
  fc.assert(
    fc.property(someCompile, (given) => {
      const copy = structuredClone(given);
      const first = JSON.stringify(attempt(given, characters));
      expect(given).toEqual(copy);
      expect(JSON.stringify(attempt(copy, remembered(characters, 10)))).toBe(first);
    }),
    { numRuns: 300 },
  );
});

test('a request shares all of itself with the same one, and nothing with one that begins with something else', () => {
  fc.assert(
    fc.property(someCompile, (given) => {
      const first = attempt(given, characters);
      if (!first.ok) throw new Error(first.code);
      const { messages } = first.compiled;
      const last = first.chain.hashes.toString('hex');
      const sharedBy = (units = given.units) => {
        const material = { ...given.material, last };
        return compiledOf({ ...given, material, units }, characters).stats.shared;
      };
      const bytes = messages.reduce((sum, one) => sum + Buffer.byteLength(JSON.stringify(one)), 0);
      expect(sharedBy()).toEqual({ messages: messages.length, bytes, ofBytes: bytes });
      const parts = [{ text: 'another beginning' }];
      const unit = { source: 'new', position: 'system', placement: 'stored', parts } as const;
      expect(sharedBy([unit, ...given.units])).toMatchObject({ messages: 0, bytes: 0 });
    }),
    { numRuns: 300 },
  );
});
