import { randomUUID } from 'node:crypto';
import type { ContextLog } from '../../sessions/context-log.ts';
import type { SummarizedRange } from '../../sessions/summary-shape.ts';
import type { Audience } from './audiences.ts';
import { pairsOf } from './compile-texts.ts';
import type { BenchDatabase } from './server.ts';
import { drawEntries, fillLog, granted, type FilledLog } from './session-logs.ts';

/** A log whose older part is under summaries. */
export interface SummarizedLog extends FilledLog {
  readonly length: number;
  readonly summaries: { readonly first: number; readonly second: number };
}

/** How many entries one summary is of, and how many of those one of the second level. */
const OF_ENTRIES = 50;
const OF_SUMMARIES = 10;
/** The share of a log that is under summaries. */
const SUMMARIZED = 0.8;

/** Characters of a summary: it is of some 25,000. */
const CHARACTERS = 600;

/** How many texts entries are put together from. */
const TEXTS = 200_000;

/** Fills a log by the product's own doors with these sentences, and has its first four fifths summarized, in two levels. */
export async function fillSummarized(
  database: BenchDatabase,
  audience: Audience,
  length: number,
  sentences: readonly string[],
): Promise<SummarizedLog> {
  const phrases = pairsOf(sentences, TEXTS);
  const filled = await fillLog(database, audience, length, drawEntries(phrases, 'unused', []));
  const { log, ids } = filled;
  const text = (nth: number) => {
    let said = '';
    for (let next = nth; said.length < CHARACTERS; next++)
      said += `${sentences[next % sentences.length] ?? ''} `;
    return said.slice(0, CHARACTERS);
  };
  const first: string[] = [];
  let second = 0;
  for (let start = 0; start + OF_ENTRIES <= length * SUMMARIZED; start += OF_ENTRIES) {
    const range = { from: ids[start] ?? '', to: ids[start + OF_ENTRIES - 1] ?? '' };
    first.push(await summarize(log, range, text(start)));
    if (first.length % OF_SUMMARIES > 0) continue;
    await summarize(log, { of: first.slice(-OF_SUMMARIES) }, text(start + 1));
    second += 1;
  }
  return { ...filled, length, summaries: { first: first.length, second } };
}

/** Writes a summary as a host does: from what it is given of what is to be summarized. */
export async function summarize(
  log: ContextLog,
  range: SummarizedRange,
  text: string,
): Promise<string> {
  const { state } = granted(await log.summaryInput(range)).result;
  const key = randomUUID();
  if ('of' in range) return granted(await log.summarize(key, { ...range, text })).summary;
  if (state === undefined) throw new Error('A summary of entries is written from their state.');
  return granted(await log.summarize(key, { ...range, state, text })).summary;
}
