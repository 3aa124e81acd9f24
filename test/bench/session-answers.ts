import { isDeepStrictEqual } from 'node:util';
import { markOfCall } from '../../sessions/compile/arrangement.ts';
import type { CompiledLog } from '../../sessions/compile/compile-shape.ts';
import type { LogEntry } from '../../sessions/entry-shape.ts';
import { wordAt } from './grant-cases.ts';
import type { BenchDatabase } from './server.ts';
import { HITS, PAGE, plainBlocks, rangeAt, SUMMARY, viewedBlocks } from './session-cases.ts';
import { granted, logName, type MeasuredLog } from './session-logs.ts';

/** A log gave something else than was appended to it: the bench measures nothing then. */
export class DifferentLog extends Error {}

/** Compares what a log gives in every way of reading it with what was appended, and says how many answers it were. */
export async function compareLog(database: BenchDatabase, measured: MeasuredLog): Promise<number> {
  const { length, use, read, redraw } = measured;
  const stored = Array.from({ length }, redraw()).map(({ blocks }) => blocks);
  const shown = stored.map(forEverybody);
  let compared = 0;
  const same = (what: string, found: unknown, expected: unknown) => {
    if (!isDeepStrictEqual(found, expected))
      throw new DifferentLog(`${what} of ${logName(length, use)} is not what was appended.`);
    compared += 1;
  };
  const blocksOf = (entries: readonly { readonly blocks: unknown }[]) =>
    entries.map(({ blocks }) => blocks);

  const { result: compiled } = granted(await read.log.compile());
  same('A compile', blocksByEntry(compiled), withoutLoneCalls(shown));

  const after = `${read.ids[0] ?? ''}.1`;
  const { result: page } = granted(await read.log.entries({ limit: PAGE, after }));
  same('A page', blocksOf(page.entries), shown.slice(1, 1 + PAGE));

  const { result: range } = granted(await read.log.summaryInput(rangeAt(read, 0)));
  same('A summary input', blocksOf(range.entries), shown.slice(0, SUMMARY));

  const query = wordAt(0);
  const { result: found } = granted(await read.log.search({ query, limit: HITS }));
  const matching = shown.filter((blocks) => holds(blocks, query));
  same('A search', blocksOf(found.entries), matching.slice(0, HITS));
  same('What a search counts', found.total, matching.length.toString());

  same('A plain select', blocksOf(await plainBlocks(database, read)), stored);
  same('The view', blocksOf(await viewedBlocks(database, measured)), shown);
  return compared;
}

/** What a compile sent of each entry, which may be in several messages. */
function blocksByEntry({ messages, provenance }: CompiledLog): unknown[] {
  const found = new Map<string, unknown[]>();
  for (const [nth, { kind, entry = '' }] of provenance.entries()) {
    if (kind !== 'entry') continue;
    found.set(entry, [...(found.get(entry) ?? []), ...(messages[nth]?.content ?? [])]);
  }
  return [...found.values()];
}

/** Blocks as a compile sends them: a call without its result, which a log may end with, gives way to a text. */
function withoutLoneCalls(entries: readonly unknown[][]): unknown[] {
  const all = entries as readonly LogEntry['blocks'][];
  const answered = new Set(
    all.flat().flatMap((block) => (block.type === 'tool_result' ? [block.call] : [])),
  );
  return all.map((blocks) =>
    blocks.map((block) =>
      block.type === 'tool_call' && !answered.has(block.id)
        ? { type: 'text', text: markOfCall(block.name) }
        : block,
    ),
  );
}

/** Blocks as a view gives them: without the field that says for whom. */
function forEverybody(blocks: LogEntry['blocks']): unknown[] {
  return blocks.map((block) => {
    if (block.type !== 'text') return block;
    const { audience: _, ...rest } = block;
    return rest;
  });
}

function holds(blocks: readonly unknown[], query: string): boolean {
  return (blocks as LogEntry['blocks']).some(
    (block) => block.type === 'text' && block.text.toLowerCase().includes(query),
  );
}
