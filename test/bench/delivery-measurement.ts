import { findAudiences, type AudienceGroup, type AudienceLimits } from './audiences.ts';
import { proposalCases, startAnswering, type Answering } from './delivery-cases.ts';
import { measureQueue, type QueueRun } from './delivery-queue.ts';
import { floorCases } from './floor.ts';
import { measure, type Case, type Effort, type Measurement } from './measurement.ts';
import type { BenchDatabase } from './server.ts';

/** What a run of the delivery bench found. */
export interface DeliveryResult {
  readonly answering: readonly Pick<Answering, 'group' | 'rows'>[];
  readonly measured: readonly Measurement[];
  readonly queue: readonly QueueRun[];
  /** Whose answers the queue held. */
  readonly queued: Pick<Answering, 'group' | 'rows'>;
}

export interface DeliveryEffort extends Effort, AudienceLimits {
  /** How many deliveries each run of the queue takes: 400 unless given. */
  readonly queueLength?: number;
  /** How many are claimed at once: 10 and 100 unless given. */
  readonly batches?: readonly number[];
}

/** Rows of a turn's ledger: its destination alone, what a usual turn has read, and what a very long one has. */
export const ROWS = [1, 50, 1_000] as const;
/** The readers of each size: people who share much, where there are such. */
const SIZES: readonly (readonly string[])[] = [
  ['squad2', 'uni2'],
  ['squad20', 'uni20'],
  ['team100', 'uni100'],
  ['team1000', 'uni1000'],
];

/** Measures proposing and releasing beside the floor, by readers and rows, and then the queue. */
export async function measureDelivery(
  database: BenchDatabase,
  effort: DeliveryEffort,
  say: (line: string) => void,
): Promise<DeliveryResult> {
  const { queueLength = 400, batches = [10, 100] } = effort;
  const found = await findAudiences(database, effort);
  const groups = SIZES.map((names) =>
    names.map((name) => found.find((group) => group.name === name)).find(isThere),
  ).filter(isThere);
  say('Opening turns.');
  const answering: Answering[] = [];
  for (const group of groups) {
    for (const rows of ROWS) {
      const started = await startAnswering(database, group, rows);
      if (started === undefined) say(`${group.name} has no ${rows} messages to be shown.`);
      else answering.push(started);
    }
  }
  const queued =
    answering.find(({ group, rows }) => group.size === 20 && rows === 50) ?? answering[0];
  if (queued === undefined) throw new Error('The data has no audience.');
  say('Measuring.');
  const cases: Case[] = answering.flatMap((one) => proposalCases(database, one));
  const measured = await measure([...floorCases(database), ...cases], effort);
  say('Emptying queues.');
  const queue = await measureQueue(database, queued, queueLength, batches);
  return { answering, measured, queue, queued };
}

function isThere(group: AudienceGroup | undefined): group is AudienceGroup {
  return group !== undefined;
}
