import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { proposeDelivery, releaseDelivery } from '../../sql/deliveries.ts';
import { callMessageTool } from '../../sql/tools.ts';
import { audienceAt, type AudienceGroup } from './audiences.ts';
import type { Case } from './measurement.ts';
import { startTurn, type RunningTurn } from './running-turn.ts';
import type { BenchDatabase } from './server.ts';

/** A group of audiences with a running turn for each. */
export interface Asking {
  readonly group: AudienceGroup;
  readonly turns: readonly RunningTurn[];
}

/** Opens a turn for each audience of a group. */
export async function startAsking(
  { gateway }: BenchDatabase,
  group: AudienceGroup,
): Promise<Asking> {
  const turns: RunningTurn[] = [];
  for (const audience of group.audiences) turns.push(await startTurn(gateway, audience));
  return { group, turns };
}

export function turnAt({ turns }: Asking, turn: number): RunningTurn {
  const found = turns[turn % turns.length];
  if (found === undefined) throw new Error('A group of audiences is never empty.');
  return found;
}

export const liveCheckName = ({ name }: { name: string }) => `live check: ${name}`;

/** Whether a grant is live, with nothing recorded: the token is verified elsewhere. */
export function liveCheckCases(
  { gateway: { sql } }: BenchDatabase,
  all: readonly Asking[],
): Case[] {
  return all.map((asking) => ({
    name: liveCheckName(asking.group),
    async run(turn) {
      const [row] = await sql<{ code: string | null }[]>`
        select bench_run.live_code(${Buffer.from(turnAt(asking, turn).digest)}) as code`;
      if (row?.code !== null) throw new Error(`The grant is not live: ${row?.code}.`);
    },
  }));
}

export const retrieveName = ({ name }: { name: string }) => `retrieve: ${name}`;

/** Words that a few in a hundred messages hold. */
export const WORDS = [
  ...['budget', 'delivery', 'invoice', 'meeting', 'customer', 'supplier', 'price', 'draft'],
  ...['review', 'plan', 'report', 'contract', 'friday', 'question', 'payment', 'truck', 'kitchen'],
  ...['schedule', 'holiday', 'salary', 'office', 'repair', 'release', 'ticket', 'campaign'],
];

export function wordAt(turn: number): string {
  return WORDS[turn % WORDS.length] ?? '';
}

const SUBJECT = createHash('sha256').update('bench').digest();

/** A search as the gateway calls it: check, scope, top ten, ledger and record, committed. */
export function retrieveCases({ gateway }: BenchDatabase, all: readonly Asking[]): Case[] {
  return all.map((asking) => ({
    name: retrieveName(asking.group),
    run: (turn) => search(gateway, turnAt(asking, turn), wordAt(turn)),
  }));
}

export async function search(
  gateway: BenchDatabase['gateway'],
  { digest }: RunningTurn,
  query: string,
) {
  const answer = await callMessageTool(gateway, digest, 'search', { query, limit: '10' }, SUBJECT);
  if (!answer.ok) throw new Error(`A search is refused: ${answer.code}.`);
  return answer.rows;
}

/** The destination's own messages: what is left of a call when there is little to find. */
export function readCases({ gateway }: BenchDatabase, all: readonly Asking[]): Case[] {
  return all.map((asking) => ({
    name: `read: ${asking.group.name}`,
    async run(turn) {
      const conversation = audienceAt(asking.group, turn).name;
      const args = { conversation, limit: '10', direction: 'forward' };
      const { digest } = turnAt(asking, turn);
      const answer = await callMessageTool(gateway, digest, 'read', args, SUBJECT);
      if (!answer.ok) throw new Error(`A read is refused: ${answer.code}.`);
    },
  }));
}

/** How many messages a search of each turn goes over, the most. */
export async function scopedMessages(
  { superuser: { sql } }: BenchDatabase,
  { group }: Asking,
): Promise<number> {
  let most = 0;
  for (const { destination } of group.audiences) {
    const [row] = await sql<{ count: string }[]>`
      select bench_run.scope_messages(${destination}) as count`;
    most = Math.max(most, Number(row?.count ?? 0));
  }
  return most;
}

export const PROPOSE = 'propose a delivery';
export const RELEASE = 'release a delivery';

/** Proposing and releasing answers in sessions of their own, each of which was shown 50 messages and nothing else. */
export async function deliveryCases(
  database: BenchDatabase,
  group: AudienceGroup,
): Promise<Case[]> {
  const { gateway, superuser } = database;
  const asking = await startAsking(database, group);
  for (const [index, { packet }] of asking.turns.entries()) {
    const { destination } = audienceAt(asking.group, index);
    await superuser.sql`
      insert into earshot.ledger_entries (org_id, session_id, conversation_id, from_seq, to_seq, revision, decision_id)
      select 1, ${packet.sessionId}, m.conversation_id, m.seq, m.seq, m.revision, gen_random_uuid()
      from bench_run.scope_rows(${destination}) s
      join earshot.messages m on m.org_id = 1 and m.conversation_id = s.id and m.seq >= s.floor
        and m.state <> 'deleted'
      order by m.conversation_id, m.seq limit 49
      on conflict do nothing`;
  }
  const proposed: { id: string; audienceHash: string; payloadSha256: string }[] = [];
  const payload = Buffer.from('The delivery on Friday is confirmed, and the invoice follows.');
  const payloadSha256 = createHash('sha256').update(payload).digest('hex');

  async function propose(turn: number) {
    const index = turn % asking.turns.length;
    const { digest } = turnAt(asking, turn);
    const id = randomUUID();
    const verdict = await proposeDelivery(gateway, digest, {
      ...{ id, payload, contentType: 'text/plain', key: id, maxAgeSeconds: 3_600 },
      destination: audienceAt(asking.group, index).name,
      requestDigest: randomBytes(32),
    });
    if (!verdict.ok || verdict.status !== 'cleared')
      throw new Error(`A delivery is not cleared: ${JSON.stringify(verdict)}.`);
    proposed.push({ id, audienceHash: verdict.audienceHash, payloadSha256 });
  }
  return [
    { name: PROPOSE, run: propose },
    {
      name: RELEASE,
      prepare: propose,
      async run() {
        const next = proposed.pop();
        if (next === undefined) throw new Error('No delivery is left to release.');
        const { id: delivery, ...hashes } = next;
        const released = await releaseDelivery(gateway, 'bench', delivery, hashes, undefined, 60);
        if (!released.ok) throw new Error(`A release is refused: ${released.code}.`);
      },
    },
  ];
}
