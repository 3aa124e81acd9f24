import { randomBytes, randomUUID } from 'node:crypto';
import { ok, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { Delivery, TestOrganization, TestTurn } from '../support/organization.ts';
import { writeTo } from '../sessions/addressing.ts';
import type { Saved } from './artifact-house.ts';

/** A word of letters alone that no stemmer changes and nothing else holds. */
export function newCanary(): string {
  const letters = [...randomBytes(10)].map((byte) => 'bdfghjkmnpqrtvwxz'[byte % 17]);
  return `zebrafinch${letters.join('')}`;
}

/** Everything in the database in which this word is, as its owner sees it: a table, and how many of its rows. */
export async function placesOf(
  { owner }: Pick<TestGateway, 'owner'>,
  word: string,
): Promise<Record<string, number>> {
  const tables = await owner<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'earshot'::regnamespace and relkind = 'r' order by 1`;
  // As text, and as bytes are written.
  const patterns = [`%${word}%`, `%${Buffer.from(word).toString('hex')}%`];
  const found = await Promise.all(
    tables.map(async ({ name }) => {
      const [row] = await owner.unsafe<{ rows: number }[]>(
        `select count(*)::integer as rows from earshot.${name} t where t::text ilike any ($1)`,
        [patterns],
      );
      return [name, row?.rows ?? 0] as const;
    }),
  );
  return Object.fromEntries(found.filter(([, rows]) => rows > 0));
}

/** What a message left behind, and where. */
export interface Planted {
  readonly acme: TestOrganization;
  readonly canary: string;
  readonly turn: TestTurn;
  readonly log: TestLog;
  readonly cleared: Delivery;
  /** Deliveries that wait in the queue, each under its status; and one that was handed out and is kept for another try. */
  readonly queued: Readonly<
    Record<'waiting' | 'scheduled' | 'cleared' | 'claimed' | 'released', string>
  >;
  /** A memory made from the message, and one that was made from the memory. */
  readonly artifacts: readonly [string, string];
  /** The entries of the log that came from it. */
  readonly entries: readonly string[];
}

/**
 * An organization in which ben wrote a word on a board that is open to all. It is found there, was edited, was replied to, stands in
 * whatever a turn of ana's made from it, and a second one was kept apart because it came late.
 */
export async function plant(gateway: TestGateway): Promise<Planted> {
  const canary = newCanary();
  const acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('board', [], { kind: 'channel', visibility: 'organization' });
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.say('thread', 'ana', 'a question');
  const write = (place: string, id: string, more: object) =>
    acme.put(`conversations/${place}/messages/${id}`, {
      ...{ author: { user: 'ben' }, sentAt: '2030-01-01T00:00:00Z', body: 'a word' },
      ...more,
    });
  await write('board', 'm1', { body: `the ${canary}` });
  await write('board', 'm1', { body: `the ${canary} sang`, editedAt: '2030-01-02T00:00:00Z' });
  await write('board', 'r1', { author: { user: 'ana' }, replyTo: 'm1' });
  await write('notes', 'n1', {
    author: { user: 'ana' },
    embeds: [{ conversation: 'board', message: 'm1' }],
  });

  // Somebody joins after it; what comes then and was sent before is kept apart.
  await acme.conversation('kept', ['ben']);
  await write('kept', 'k1', {});
  await acme.put('conversations/kept/members/ana', { history: 'from_join' });
  await write('kept', 'late', { body: canary, sentAt: '2001-01-01T00:00:00Z' });

  const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  const writer = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  ok(await turn.tool('read', { conversation: 'board' }));
  const artifacts = await plantArtifacts(gateway, turn, canary);
  const log = logOf(gateway, turn);
  const entries = await plantLog(log, log.by(writer), canary, artifacts[0]);
  const cleared = ok(await turn.propose(`It is the ${canary}.`));
  const queued = await plantQueue(acme, turn, canary);
  return { acme, canary, turn, log, cleared, queued, artifacts, entries };
}

async function plantQueue(
  acme: TestOrganization,
  turn: TestTurn,
  canary: string,
): Promise<Planted['queued']> {
  const queue = async (name: string, more: object = {}) =>
    ok(await turn.propose(`${canary} ${name}`, { queue: true, ...more })).id;
  const [released, claimed] = [await queue('released'), await queue('claimed')];
  for (const delivery of await acme.claim()) {
    if (delivery.id === released) ok(await acme.release(delivery, { fence: delivery.fence }));
  }
  return {
    ...{ released, claimed, cleared: await queue('cleared') },
    waiting: await queue('waiting', { approval: true }),
    scheduled: await queue('scheduled', { sendAt: new Date(Date.now() + 3_600_000).toISOString() }),
  };
}

/** Saves a memory under a turn's grant. */
export function trySave(
  { send }: Pick<TestGateway, 'send'>,
  { grant: { token } }: Pick<TestTurn, 'grant'>,
  words: string,
): Promise<Answer<Saved>> {
  const json = { kind: 'memory', title: words, text: words };
  return send('POST', '/v1/artifacts', { token, key: randomUUID(), json }) as Promise<
    Answer<Saved>
  >;
}

/** A memory of what the turn was shown, and one of that memory. */
async function plantArtifacts(
  gateway: TestGateway,
  turn: TestTurn,
  canary: string,
): Promise<readonly [string, string]> {
  const first = ok(await trySave(gateway, turn, `the ${canary}`)).id;
  ok(await gateway.send('GET', `/v1/artifacts/${first}`, { token: turn.grant.token }));
  return [first, ok(await trySave(gateway, turn, `of the ${canary}`)).id];
}

/** Entries, of which one was edited, one holds a provider's forms and one is from a memory; a unit injected; summaries in two levels; a letter. */
async function plantLog(
  log: TestLog,
  writer: TestLog,
  canary: string,
  artifact: string,
): Promise<string[]> {
  const sources = [{ conversation: 'board', seq: '1' }];
  const form = (id: string) => ({ id, provider: 'host', value: { canary } });
  const [said = '', worked = ''] = await log.append(
    { ...{ role: 'user', participant: 'ben', blocks: [text(`${canary} first`)] }, sources },
    {
      ...entry(
        text('of somebody else'),
        { type: 'tool_call', id: 'call', name: 'look', arguments: { canary }, replay: form('f') },
        { type: 'tool_result', call: 'call', content: [text(canary)], value: { canary } },
        { type: 'thinking', text: canary, replay: form('f') },
        { type: 'raw', provider: 'host', value: { canary } },
      ),
      sources: [1, 2, 3].map((block) => ({ conversation: 'board', seq: '1', block })),
    },
  );
  ok(await log.edit(said, '1', [text(`${canary} edited`)]));
  ok(
    await log.inject({
      source: 'memory',
      parts: [{ text: `${canary} injected`, sources: [{ conversation: 'board', seq: '1' }] }],
    }),
  );
  const summary = await log.summarize({ from: said, to: worked }, `${canary} in short`);
  await log.summarize({ of: [summary] }, `${canary} in shorter`);
  await log.append({ ...entry(text(`${canary} remembered`)), sources: [{ artifact }] });
  await log.fork('aside');
  ok(await log.compile());
  ok(await writeTo(writer, 'resident', { ...entry(text(`${canary} for you`)), sources }));
  return [said, worked];
}
