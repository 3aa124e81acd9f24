import { randomUUID } from 'node:crypto';
import { ok, type Answer } from '../support/gateway.ts';
import type { TestLog } from '../support/log.ts';

type Written = Answer<{ ids: string[]; held?: boolean }>;
interface Shown {
  readonly id: string;
  readonly revision: string;
  readonly role: string;
  readonly participant: string;
  readonly writtenAt: string;
  readonly blocks: Record<string, unknown>[];
  readonly sources?: object[];
}

/** Writes entries to an agent by its name. */
export function writeTo(log: TestLog, agent: string, ...entries: object[]): Promise<Written> {
  return writeUnder(log, agent, randomUUID(), ...entries);
}

/** The same, under a key. */
export function writeUnder(
  log: TestLog,
  agent: string,
  key: string,
  ...entries: object[]
): Promise<Written> {
  return log.call('POST', `/entries?agent=${encodeURIComponent(agent)}`, { entries }, key);
}

/** A page of an agent's log, by its name. */
export function readOf(
  log: TestLog,
  agent: string,
  more = '',
): Promise<Answer<{ entries: Shown[]; cursor?: string; complete: boolean }>> {
  return log.call('GET', `/entries?agent=${encodeURIComponent(agent)}${more}`);
}

/** The texts in an agent's log, in its order. */
export async function textsFor(log: TestLog, agent: string): Promise<unknown[]> {
  const { entries } = ok(await readOf(log, agent, '&limit=1000'));
  return entries.flatMap(({ blocks }) => blocks.map((block) => block.text));
}
