import fc from 'fast-check';
import type { CompileMaterial, MaterialEntry } from '../../../sessions/compile/compile-material.ts';
import type { CompileOptions } from '../../../sessions/compile/compile-shape.ts';
import type { Block } from '../../../sessions/entry-shape.ts';
import { blocksOf, isStorable, type StartUnit } from '../../../sessions/injections.ts';

/** What a compile is made from. */
export interface RandomCompile {
  readonly material: CompileMaterial;
  readonly units: readonly StartUnit[];
  readonly options: Omit<CompileOptions, 'injections' | 'budget'>;
}

const MOST_ENTRIES = 12;

const place = fc.nat(MOST_ENTRIES - 1);
/** How long a text is: mostly short beside a few that weigh more than all others. */
const length = fc.oneof(
  { weight: 6, arbitrary: fc.nat(60) },
  { weight: 2, arbitrary: fc.nat(600) },
  { weight: 1, arbitrary: fc.nat(4_000) },
);
const filler = (texts: fc.Arbitrary<string>) =>
  fc.record({
    kind: fc.constantFrom(
      'text' as const,
      'text' as const,
      'text' as const,
      'thinking' as const,
      'raw' as const,
      'image' as const,
    ),
    text: texts,
    shares: fc.nat(5).map((n) => n === 0),
  });

/**
 * Logs in which calls have their results later, elsewhere in the same entry, or not at all, some ids again and again, with
 * stored injections among the entries; summaries of runs and of scattered entries at three levels, whole and by half;
 * pins, windows, and units of a start. Each text of an entry begins with a mark of its own, as `#3#`.
 */
export function randomCompile(texts: fc.Arbitrary<string>): fc.Arbitrary<RandomCompile> {
  return fc
    .record({
      entries: fc.array(
        fc.record({
          role: fc.constantFrom(
            'user' as const,
            'agent' as const,
            'agent' as const,
            'system' as const,
          ),
          participant: fc.constantFrom('ana', 'assistant'),
          injection: fc.oneof(
            { weight: 4, arbitrary: fc.constant(undefined) },
            { weight: 1, arbitrary: fc.constantFrom('wiki', 'mail', 'news') },
          ),
          fillers: fc.array(filler(texts), { maxLength: 3 }),
          pinned: fc.nat(11).map((n) => n === 0),
        }),
        { maxLength: MOST_ENTRIES },
      ),
      calls: fc.array(
        fc.record({
          at: place,
          later: fc.oneof(fc.constantFrom(0, 1, 2), place, fc.constant(undefined)),
          id: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, fc.constantFrom('x', 'y')),
          among: fc.tuple(fc.nat(3), fc.nat(3)),
          given: fc.tuple(texts, texts),
        }),
        { maxLength: 6 },
      ),
      runs: fc.array(
        fc.record({
          from: place,
          count: fc.integer({ min: 1, max: 5 }),
          skipped: fc.nat(8),
          text: texts,
        }),
        { maxLength: 6 },
      ),
      merges: fc.array(
        fc.record({
          level: fc.constantFrom(2, 2, 3),
          under: fc.array(fc.nat(6), { minLength: 1, maxLength: 3 }),
          lost: fc.option(place),
          text: texts,
        }),
        { maxLength: 3 },
      ),
      starts: fc.uniqueArray(
        fc.record({
          source: fc.constantFrom('wiki', 'mail', 'news'),
          parts: fc.array(fc.record({ text: texts, blank: fc.nat(5).map((n) => n === 0) }), {
            minLength: 1,
            maxLength: 2,
          }),
          position: fc.constantFrom(
            ...(['after_user', 'after_user', 'after_user', 'before_user', 'system'] as const),
          ),
          placement: fc.constantFrom(...(['stored', 'stored', 'stored', 'each_compile'] as const)),
        }),
        { maxLength: 3, selector: ({ source }) => source },
      ),
      verdicts: fc.array(
        fc.constantFrom(...(['unchanged', 'unchanged', 'held', 'bound', 'store'] as const)),
        { minLength: 3, maxLength: 3 },
      ),
      asked: fc.array(place, { maxLength: 2 }),
      options: fc.record(
        {
          headTokens: fc.constantFrom(0, 10, 60, 400),
          recentTokens: fc.constantFrom(0, 10, 60, 400),
          maxEntryTokens: fc.constantFrom(16, 20, 60, 300),
          pruneToolResults: fc.nat(3),
          self: fc.constantFrom('assistant', 'ana'),
        },
        { requiredKeys: [] },
      ),
    })
    .map(({ entries, calls, runs, merges, starts, verdicts, asked, options }) => {
      let marks = 0;
      const marked = (text: string) => `#${(marks++).toString()}#${text}`;
      const blocks = entries.map(({ fillers, injection }, entry) =>
        fillers.map(({ kind, text, shares }): Block => {
          if (injection !== undefined) return { type: 'text', text: marked(text) };
          const id = `${entry.toString()}.r`;
          const replay = { id, provider: 'lab', value: { form: 'a form '.repeat(entry) } };
          const more = shares ? { replay } : {};
          if (kind === 'raw') return { type: 'raw', provider: 'lab', value: text };
          if (kind === 'image') return { type: 'image', mediaType: 'image/png', data: '', ...more };
          return { type: kind, text: marked(text), ...more };
        }),
      );
      for (const [index, { at, later, id = index.toString(), among, given }] of calls.entries()) {
        const [asks, gives] = given;
        const put = (place: number, among: number, block: Block) => {
          if (entries[place]?.injection === undefined) blocks[place]?.splice(among, 0, block);
        };
        put(at, among[0], { type: 'tool_call', id, name: 'look', arguments: { asks } });
        const content = [{ type: 'text' as const, text: marked(gives) }];
        if (later !== undefined)
          put(at + later, among[1] + 1, { type: 'tool_result', call: id, content });
      }
      for (const own of blocks) if (own.length === 0) own.push({ type: 'text', text: marked('') });
      const units = starts.map(({ parts, ...unit }): StartUnit => {
        const texts = parts.map(({ text, blank }) => ({ text: blank ? ' ' : marked(text) }));
        return { ...unit, parts: texts };
      });

      /** Places in a log have gaps where a view hides something. */
      const at = (entry: number) => 3 * entry + 1;
      const log = entries.map(({ role, participant, injection }, entry): MaterialEntry => ({
        ...{ at: at(entry), entry: `entry ${entry.toString()}`, revision: '1' },
        ...(injection !== undefined
          ? { role: 'user', participant: injection, injection }
          : { role, participant }),
        blocks: blocks[entry] ?? [],
      }));
      const judged = units.filter(isStorable).map((unit, nth) => {
        const newest = log.findLast(({ injection }) => injection === unit.source);
        const verdict = verdicts[nth] ?? 'store';
        if (verdict !== 'unchanged') return verdict;
        if (newest === undefined) return 'store';
        newest.blocks = blocksOf(unit);
        return verdict;
      });
      const ats = log.map((entry) => entry.at);
      const summaries = runs.map(({ from, count, skipped, text }) => ({
        ...{ level: 1, text },
        covers: ats.slice(from, from + count).filter((_, index) => index !== skipped),
      }));
      for (const { level, under, lost, text } of merges) {
        const covered = new Set(under.flatMap((index) => summaries[index]?.covers ?? []));
        if (lost !== null) covered.delete(at(lost));
        summaries.push({ level, text, covers: [...covered].sort((a, b) => a - b) });
      }
      return {
        material: {
          mark: '1',
          entries: log,
          summaries: summaries
            .filter(({ covers }) => covers.length > 0)
            .map((summary, index) => ({ id: `summary ${index.toString()}`, ...summary })),
          pins: ats.filter((_, entry) => entries[entry]?.pinned),
          verdicts: judged,
          last: null,
        },
        units,
        options: {
          ...options,
          pins: asked.flatMap((entry) => log[entry]?.entry ?? []),
        },
      };
    });
}

/** Plain words of many lengths, which an estimator that counts characters is cheap for. */
export const plainText = length.map((size) => 'word '.repeat(size).slice(0, size));
