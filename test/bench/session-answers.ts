import { isDeepStrictEqual } from 'node:util';
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
  const content = compiled.messages.map((message) => message.content);
  same('A compile', content, shown);

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
