import { randomUUID } from 'node:crypto';
import type { CompiledLog } from '../../sessions/compile/compile-shape.ts';
import { contextLog } from '../../sessions/context-log.ts';
import type { LogEntry } from '../../sessions/entry-shape.ts';
import type { InjectionUnit } from '../../sessions/injections.ts';
import type { Audience } from './audiences.ts';
import { search, wordAt } from './grant-cases.ts';
import { startTurn } from './running-turn.ts';
import type { BenchDatabase } from './server.ts';
import { drawEntries, granted, phrasesOf } from './session-logs.ts';

/** Where what was retrieved for a start goes. */
export const PLACEMENTS = ['stored', 'each_compile'] as const;
export type Placement = (typeof PLACEMENTS)[number];

/** What was sent in the course of a conversation. */
export interface Conversation {
  readonly placement: Placement;
  /** The messages of each request, as the bytes of their JSON. */
  readonly requests: readonly Buffer[];
  /** Units that a start gave and that were in the log as it had sent them. */
  readonly unchanged: number;
  readonly units: number;
}

/**
 * Has a conversation in a new log: at each turn a user writes, sources give what they found, the model is sent what a compile
 * gives, and its answer, with a call of a tool and the result, is appended. It is the same conversation for each placement.
 */
export async function converse(
  database: BenchDatabase,
  audience: Audience,
  placement: Placement,
  turns: number,
): Promise<Conversation> {
  const { gateway } = database;
  const running = await startTurn(gateway, audience);
  const { sessionId: session, audienceHash } = running.packet;
  const log = contextLog(gateway, { digest: running.digest, session, audienceHash });
  const phrases = await phrasesOf(database);
  const draw = drawEntries(phrases, 'unused', []);
  const append = async (...entries: LogEntry[]) => granted(await log.append(randomUUID(), entries));
  const requests: Buffer[] = [];
  let unchanged = 0;
  let units = 0;
  for (let turn = 0; turn < turns; turn++) {
    await append(draw());
    const injections = [memoryAt(phrases, turn), await foundAt(database, running, turn)].map(
      (unit) => ({ ...unit, placement }),
    );
    // What a compile does first, here by itself to see what becomes of each unit.
    if (placement === 'stored') {
      const { outcomes } = granted(await log.inject(injections));
      unchanged += outcomes.filter((outcome) => outcome === 'unchanged').length;
    }
    units += injections.length;
    const { result } = granted(await log.compile({ injections }));
    const placed = placement === 'stored' ? 0 : injections.length;
    if (result.stats.placed !== placed)
      throw new Error(`A compile placed ${result.stats.placed} units and not ${placed}.`);
    requests.push(bytesOf(result));
    await append(draw(), draw());
  }
  return { placement, requests, unchanged, units };
}

/** What an assistant knows of who it talks to: another at every tenth turn. */
function memoryAt(phrases: readonly string[], turn: number): InjectionUnit {
  const stretch = Math.floor(turn / 10) * 5;
  const parts = phrases.slice(stretch, stretch + 5).map((text) => ({ text }));
  return { source: 'memory', parts };
}

/** A search of what the audience may read: the same one as at the turn before at every third. */
async function foundAt(
  { gateway }: BenchDatabase,
  running: Awaited<ReturnType<typeof startTurn>>,
  turn: number,
): Promise<InjectionUnit> {
  const rows = await search(gateway, running, wordAt(turn - Math.floor(turn / 3)));
  const parts = rows.map(({ conversation, seq, sentAt, text }) => ({
    text: `[${conversation} #${seq}, ${sentAt}]\n${text}`,
    sources: [{ conversation, seq }],
  }));
  return { source: 'search', parts: parts.length > 0 ? parts : [{ text: 'Nothing was found.' }] };
}

/** Messages without the brackets around them, which are no message's. */
function bytesOf({ messages }: CompiledLog): Buffer {
  return Buffer.from(messages.map((message) => JSON.stringify(message)).join(','));
}

/** How many bytes two requests have in common from their beginning. */
export function sharedBytes(one: Buffer, other: Buffer): number {
  const most = Math.min(one.length, other.length);
  let shared = 0;
  while (shared < most && one[shared] === other[shared]) shared++;
  return shared;
}
