import { randomBytes, randomUUID } from 'node:crypto';
import { sha256Hex } from '../../policy/canonical.ts';
import type { Fact, History } from '../../policy/fact.ts';
import { externalId } from '../../policy/identity.ts';
import { parseInstant } from '../../policy/instant.ts';
import type { Database } from '../../sql/database.ts';
import { proposeDelivery, releaseDelivery, type Released } from '../../sql/deliveries.ts';
import { writeFacts } from '../../sql/facts/fact-writer.ts';
import { mintGrant } from '../../sql/grants.ts';
import type { Refusal } from '../../policy/refusal.ts';
import { openTurn, takeLease } from '../../sql/turns.ts';

export const ORG = externalId('acme');
const HOST = externalId('host');
const CALLER = { client: 'bridge', personas: ['*'], seesNames: false };

/** A thread of its own with an answer that is cleared and waits for its release. */
export interface AnswerInWaiting {
  readonly thread: string;
  readonly source: string;
  /** Who asks, who reads along, and who does not yet. */
  readonly people: readonly [requester: string, reader: string, newcomer: string];
  readonly turn: string;
  readonly delivery: string;
  readonly digest: Uint8Array;
  release(server: Database): Promise<Released | Refusal>;
}

/** The organization and the persona that {@link prepareAnswer} works with. */
export async function prepareOrganization(database: Database): Promise<void> {
  await database.sql`select earshot.create_organization(${ORG})`;
  await writeOne(database, {
    fact: 'persona',
    id: externalId('helper'),
    custody: 'service',
    status: 'active',
    designated: true,
  });
}

/** Somebody asks in a thread shared with one reader; the answer draws on a source that both read. */
export async function prepareAnswer(server: Database): Promise<AnswerInWaiting> {
  const name = randomBytes(6).toString('hex');
  const thread = `thread-${name}`;
  const source = `source-${name}`;
  const [requester, reader, newcomer] = [`ann-${name}`, `ben-${name}`, `cid-${name}`];
  await must(
    writeFacts(server, ORG, HOST, [
      ...[requester, reader, newcomer].map((id): Fact => ({
        fact: 'user',
        id: externalId(id),
        kind: 'member',
        status: 'active',
      })),
      ...conversation(thread, true),
      ...conversation(source, false),
      memberFact(thread, requester, 'all'),
      memberFact(thread, reader, 'all'),
      memberFact(source, requester, 'all'),
      memberFact(source, reader, 'all'),
      memberFact(source, newcomer, 'all'),
      message(source, 'm1', reader, `canary ${name}`),
      message(thread, 'm1', requester, 'what is it?'),
    ]),
  );
  const key = { key: name, digest: Buffer.from(name) };
  const request = {
    persona: 'helper',
    destination: thread,
    requester,
    trigger: 'thread' as const,
    triggerSeq: 1n,
    tools: ['search', 'read'],
  };
  const { turn } = await must(openTurn(server, ORG, CALLER, key, randomUUID(), request, 3600));
  const { lease } = await must(takeLease(server, ORG, CALLER, turn, 'worker', 60));
  const digest = Buffer.from(sha256Hex(name), 'hex');
  const grant = { id: randomUUID(), digest, lifetimeSeconds: 600 };
  await must(mintGrant(server, ORG, CALLER, turn, lease, grant));
  await server.sql`select earshot.call_tool(${digest}, 'search',
    ${JSON.stringify({ query: name, limit: '10' })}::text::jsonb, ${Buffer.alloc(0)})`;
  const payload = Buffer.from(`It is ${name}.`);
  const proposal = {
    id: randomUUID(),
    destination: thread,
    payload,
    contentType: 'text/plain',
    key: 'answer',
    requestDigest: Buffer.from(name),
    maxAgeSeconds: 600,
  };
  const verdict = await must(proposeDelivery(server, digest, proposal));
  if (verdict.status !== 'cleared') throw new Error('the prepared answer is not cleared');
  const { audienceHash } = verdict;
  const clearance = { audienceHash, payloadSha256: sha256Hex(payload) };
  return {
    thread,
    source,
    people: [requester, reader, newcomer],
    turn,
    delivery: verdict.id,
    digest,
    release: (other) => releaseDelivery(other, ORG, verdict.id, clearance, undefined, 60),
  };
}

export function memberFact(place: string, user: string, history: History): Fact {
  return { fact: 'member', conversation: externalId(place), user: externalId(user), history };
}

export function writeOne(server: Database, fact: Fact) {
  return must(writeFacts(server, ORG, HOST, [fact]));
}

export function message(place: string, id: string, user: string, body: string): Fact {
  return {
    fact: 'message',
    conversation: externalId(place),
    id: externalId(id),
    kind: 'message',
    author: { user: externalId(user) },
    body,
    sentAt: parseInstant('2026-01-01T00:00:00Z') ?? 0n,
  };
}

export function conversation(id: string, aiThread: boolean): Fact[] {
  return [
    {
      fact: 'conversation',
      id: externalId(id),
      kind: 'group',
      visibility: 'members',
      aiThread,
      externalReaders: false,
      archived: false,
    },
  ];
}

/** What was asked for, or an error that names the refusal. */
export async function must<T extends { ok: true }>(work: Promise<T | Refusal>): Promise<T> {
  const result = await work;
  if (!result.ok) throw new Error(`refused: ${result.code} ${result.detail ?? ''}`);
  return result;
}
