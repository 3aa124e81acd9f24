import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { proposeDelivery, releaseDelivery } from '../../sql/deliveries.ts';
import { audienceAt, type AudienceGroup } from './audiences.ts';
import { startAsking, turnAt, type Asking } from './grant-cases.ts';
import type { Case } from './measurement.ts';
import type { BenchDatabase } from './server.ts';

/** Turns of one group of audiences, each of which was shown so many messages and nothing else. */
export interface Answering extends Asking {
  /** Rows of each turn's ledger: its destination, and the messages. */
  readonly rows: number;
}

const ORGANIZATION = 'bench';
const PAYLOAD = Buffer.from('The delivery on Friday is confirmed, and the invoice follows.');
const PAYLOAD_SHA256 = createHash('sha256').update(PAYLOAD).digest('hex');
/** So many messages of one conversation are shown at most: what a few searches and reads come to. */
const OF_ONE_CONVERSATION = 10;

/**
 * Opens a turn for each audience and fills its ledger with messages that all of its readers may have, the private ones first;
 * undefined where the data has too few of them.
 */
export async function startAnswering(
  database: BenchDatabase,
  group: AudienceGroup,
  rows: number,
): Promise<Answering | undefined> {
  const asking = await startAsking(database, group);
  const { sql } = database.superuser;
  for (const [index, { packet }] of asking.turns.entries()) {
    const { destination } = audienceAt(group, index);
    const shown = await sql`
      insert into earshot.ledger_entries (org_id, session_id, conversation_id, from_seq, to_seq, revision, decision_id)
      select 1, ${packet.sessionId}, m.conversation_id, m.seq, m.seq, m.revision, gen_random_uuid()
      from bench_run.messages_in_scope(${destination}, ${OF_ONE_CONVERSATION}, ${rows - 1}) m
      on conflict do nothing returning from_seq`;
    if (shown.length < rows - 1) return undefined;
  }
  // As the server does by itself before long.
  await sql`analyze earshot.ledger_entries`;
  return { ...asking, rows };
}

type Named = Pick<Answering, 'group' | 'rows'>;
export const proposeName = ({ group, rows }: Named) => `propose: ${group.name}, ${rows} rows`;
export const releaseName = ({ group, rows }: Named) => `release: ${group.name}, ${rows} rows`;

/** Proposing and releasing by the gateway's own calls, each committed. */
export function proposalCases(database: BenchDatabase, answering: Answering): Case[] {
  const { gateway } = database;
  const proposed: { id: string; audienceHash: string }[] = [];
  async function propose(turn: number): Promise<void> {
    proposed.push(await proposeAt(database, answering, turn));
  }
  return [
    { name: proposeName(answering), run: propose },
    {
      name: releaseName(answering),
      prepare: propose,
      async run() {
        const next = proposed.pop();
        if (next === undefined) throw new Error('No delivery is left to release.');
        const { id, audienceHash } = next;
        const clearance = { audienceHash, payloadSha256: PAYLOAD_SHA256 };
        const released = await releaseDelivery(
          ...([gateway, ORGANIZATION, id, clearance, undefined, 60] as const),
        );
        if (!released.ok) throw new Error(`A release is refused: ${released.code}.`);
      },
    },
  ];
}

async function proposeAt({ gateway }: BenchDatabase, answering: Answering, turn: number) {
  const id = randomUUID();
  const { digest } = turnAt(answering, turn);
  const verdict = await proposeDelivery(gateway, digest, {
    ...{ id, payload: PAYLOAD, contentType: 'text/plain', key: id, maxAgeSeconds: 3_600 },
    destination: audienceAt(answering.group, turn % answering.turns.length).name,
    requestDigest: randomBytes(32),
  });
  if (!verdict.ok || verdict.status !== 'cleared')
    throw new Error(`A delivery is not cleared: ${JSON.stringify(verdict)}.`);
  return { id, audienceHash: verdict.audienceHash };
}

/** Puts so many deliveries into the queue, in turn toward each audience; gives their ids. */
export async function fillQueue(
  { gateway }: BenchDatabase,
  answering: Answering,
  count: number,
): Promise<string[]> {
  const ids: string[] = [];
  for (let turn = 0; turn < count; turn++) {
    const id = randomUUID();
    const verdict = await proposeDelivery(gateway, turnAt(answering, turn).digest, {
      ...{ id, payload: PAYLOAD, contentType: 'text/plain', key: id, maxAgeSeconds: 3_600 },
      destination: audienceAt(answering.group, turn % answering.turns.length).name,
      requestDigest: randomBytes(32),
      wishes: { queue: true, approval: false },
    });
    if (!verdict.ok || verdict.status !== 'standing' || verdict.delivery.status !== 'cleared')
      throw new Error(`A delivery is not queued: ${JSON.stringify(verdict)}.`);
    ids.push(id);
  }
  return ids;
}
