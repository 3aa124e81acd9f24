import { createHash } from 'node:crypto';
import { contextLog, type ContextLog } from '../../sessions/context-log.ts';
import type { Block, LogEntry } from '../../sessions/entry-shape.ts';
import { appendLog, type LogRefusal, type SessionCaller } from '../../sql/context-log.ts';
import type { Audience } from './audiences.ts';
import { startTurn } from './running-turn.ts';
import type { BenchDatabase } from './server.ts';

/** How many of a log's texts are for some readers only. */
export const USES = ['unused', 'one in a hundred', 'every block'] as const;
export type Use = (typeof USES)[number];

/** A log with a session of its own, held by a grant that lasts for the length of a bench. */
export interface FilledLog {
  readonly caller: SessionCaller;
  readonly log: ContextLog;
  /** Of the entries that it was filled with, in order. */
  readonly ids: readonly string[];
  /** Draws the next entry of the same kind. */
  readonly draw: () => LogEntry;
}

/** What one line of a table is about: the same log twice, so that what is read stays as it was filled. */
export interface MeasuredLog {
  readonly length: number;
  readonly use: Use;
  readonly readers: readonly string[];
  readonly read: FilledLog;
  readonly written: FilledLog;
  /** Draws the entries of either again, from the first. */
  readonly redraw: () => () => LogEntry;
}

export const logName = (length: number, use: Use) => `${length} entries, ${use}`;

const BATCH = 100;

/** Fills a log of each use by the product's own door, in a thread of this audience. */
export async function fillLogs(
  database: BenchDatabase,
  audience: Audience,
  length: number,
): Promise<MeasuredLog[]> {
  const phrases = await phrasesOf(database);
  const readers = audience.users.map((id) => `u${id}`);
  const others = Array.from({ length: database.sizes.users }, (_, index) => `u${index + 1}`);
  const audiences = audiencesOf(
    readers,
    others.filter((name) => !readers.includes(name)),
  );
  const logs: MeasuredLog[] = [];
  for (const use of USES) {
    const redraw = () => drawEntries(phrases, use, audiences);
    const read = await fillLog(database, audience, length, redraw());
    const written = await fillLog(database, audience, length, redraw());
    logs.push({ length, use, readers, read, written, redraw });
  }
  return logs;
}

/** Fills a log of its own with the entries that are drawn. */
export async function fillLog(
  { gateway }: BenchDatabase,
  audience: Audience,
  length: number,
  draw: () => LogEntry,
): Promise<FilledLog> {
  const { packet, digest } = await startTurn(gateway, audience);
  const caller = { digest, session: packet.sessionId, audienceHash: packet.audienceHash };
  const ids: string[] = [];
  while (ids.length < length) {
    const entries = Array.from({ length: Math.min(BATCH, length - ids.length) }, draw);
    const request = createHash('sha256').update(JSON.stringify(entries)).digest();
    const key = `fill-${ids.length}`;
    ids.push(...granted(await appendLog(gateway, caller, key, request, entries)).ids);
  }
  return { caller, log: contextLog(gateway, caller), ids, draw };
}

/** What a call gave. A refusal ends the bench. */
export function granted<Value>(answer: ({ readonly ok: true } & Value) | LogRefusal): Value {
  if (!answer.ok) throw new Error(`A call of a log is refused: ${JSON.stringify(answer)}.`);
  return answer;
}

/** The words of the messages: common ones often, rare ones seldom. */
export async function phrasesOf({ superuser: { sql } }: BenchDatabase): Promise<string[]> {
  const rows = await sql<{ phrase: string }[]>`select phrase from bench.phrases order by id`;
  return rows.map(({ phrase }) => phrase);
}

/**
 * For whom blocks are. All name every reader of the thread, so that its view shows the whole log whatever the use,
 * and calls differ by nothing but the field; they differ in who else is named.
 */
function audiencesOf(readers: readonly string[], others: readonly string[]): string[][] {
  return [0, 1, 2, 3].map((more) => [...readers, ...others.slice(0, more)]);
}

type Kind = 'text' | 'tool_call' | 'tool_result';

/** Entries come in these shapes, one after the other. Each has a text, for some readers or for all. */
const SHAPES: readonly (readonly ['user' | 'agent', ...Kind[]])[] = [
  ['user', 'text'],
  ['agent', 'text', 'tool_call'],
  ['agent', 'tool_result', 'text'],
  ['user', 'text'],
  ['agent', 'text', 'text', 'tool_call'],
  ['agent', 'tool_result', 'text'],
];

/** Draws entries of some 400 characters of text, the same ones for each use but for the readers of their blocks. */
export function drawEntries(
  phrases: readonly string[],
  use: Use,
  audiences: readonly string[][],
): () => LogEntry {
  let entries = 0;
  let texts = 0;
  let drawn = 0;
  // A prime of this size goes through all phrases before one comes again.
  const phrase = () => phrases[(drawn++ * 7_919) % phrases.length] ?? '';

  function text(characters: number): string {
    let said = phrase();
    while (said.length < characters) said += ` ${phrase()}`;
    return said;
  }

  function readersOfNext(): { audience?: string[] } {
    const nth = texts++;
    const audience = audiences[nth % audiences.length];
    const restricted = use === 'every block' || (use === 'one in a hundred' && nth % 100 === 50);
    return restricted && audience !== undefined ? { audience } : {};
  }

  function block(kind: Kind, characters: number): Block {
    switch (kind) {
      case 'text':
        return { type: 'text', text: text(characters), ...readersOfNext() };
      case 'tool_call':
        return {
          ...{ type: 'tool_call', id: `call-${entries}`, name: 'search' },
          arguments: { query: phrase(), limit: 10 },
        };
      case 'tool_result':
        return {
          ...{ type: 'tool_result', call: `call-${entries - 1}` },
          content: [{ type: 'text', text: text(characters) }],
        };
    }
  }

  return () => {
    const [role, ...kinds] = SHAPES[entries % SHAPES.length] ?? ['user', 'text'];
    const characters = 250 + ((entries * 7_919) % 300);
    const spoken = kinds.filter((kind) => kind !== 'tool_call').length;
    const blocks = kinds.map((kind) => block(kind, characters / spoken));
    entries += 1;
    return { role, participant: role === 'user' ? 'u1' : 'assistant', blocks };
  };
}
