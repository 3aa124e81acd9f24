import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { newCanary, placesOf, trySave } from '../http/planting.ts';
import { openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text } from '../support/log.ts';
import type { TestOrganization } from '../support/organization.ts';

// What is being written from a text, while the text is being deleted: it comes before and is found, or after and is refused.

/** The advisory lock of the test, at which whatever is to be held open waits. */
const HELD = 8601;

let gateway: TestGateway;

beforeAll(async () => {
  gateway = await openTestGateway();
  await gateway.owner.unsafe(`
    create function hold_open() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock_shared(${HELD}, tg_argv[0]::integer); return null; end $$`);
  for (const [nth, table] of HOLDS.entries()) {
    const event = table === 'conversation_revisions' ? 'update' : 'insert';
    await gateway.owner.unsafe(`
      create trigger aa_hold after ${event} on earshot.${table} for each row execute function hold_open(${nth})`);
  }
});
afterAll(() => gateway.close());

const HOLDS = ['conversation_revisions', 'log_sources', 'deliveries', 'messages'] as const;

/** Starts the first, which is stopped once it has written there, then the second, which comes to wait; lets both go on. */
async function inThatOrder<A, B>(
  at: (typeof HOLDS)[number],
  first: () => Promise<A>,
  second: () => Promise<B>,
): Promise<[A, B]> {
  const held = await holdOpen(
    gateway,
    (sql) => sql`select pg_advisory_xact_lock(${HELD}, ${HOLDS.indexOf(at)})`,
  );
  const one = first();
  await whenBlocked(gateway);
  const two = second();
  await whenBlocked(gateway, 2);
  await held.commit();
  return Promise.all([one, two]);
}

async function house() {
  const acme = await gateway.organization();
  const canary = newCanary();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.say('thread', 'ana', 'a question');
  await acme.put('conversations/notes/messages/m1', written('ben', canary));
  const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  const log = logOf(gateway, turn);
  const sources = [{ conversation: 'notes', seq: '1' }];
  return {
    ...{ acme, canary, turn, log, sources },
    read: () => turn.tool('read', { conversation: 'notes' }),
    append: () => log.tryAppend([{ ...entry(text(canary)), sources }]),
    propose: () => turn.propose(canary),
    remove: () => acme.remove('conversations/notes/messages/m1'),
  };
}

const written = (user: string, body: string) => ({
  ...{ author: { user }, body, sentAt: '2030-01-01T00:00:00Z' },
});

describe('what is written while its source is being deleted', () => {
  test('is erased with it, where it came before: an entry of a log, and a delivery', async () => {
    const one = await house();
    await one.read();
    const [appended] = await inThatOrder('log_sources', one.append, one.remove);
    expect(appended.status).toBe(200);
    expect(await placesOf(gateway, one.canary)).toEqual({});

    const two = await house();
    await two.read();
    const [{ body }] = await inThatOrder('deliveries', two.propose, two.remove);
    expect(body.status).toBe('cleared');
    expect(await placesOf(gateway, two.canary)).toEqual({});
    expect(await two.acme.delivery(body.id)).toMatchObject({
      ...{ status: 'held', code: 'source_revoked' },
    });
  });

  test('is refused, where it came after', async () => {
    const one = await house();
    await one.read();
    const [, appended] = await inThatOrder('conversation_revisions', one.remove, one.append);
    expect(appended.code).toBe('not_found');
    const two = await house();
    await two.read();
    const [, { body }] = await inThatOrder('conversation_revisions', two.remove, two.propose);
    expect(body).toMatchObject({ status: 'held', code: 'source_revoked' });
    for (const { canary } of [one, two]) expect(await placesOf(gateway, canary)).toEqual({});
  });

  test('is found by a release, which holds it, and finds a release, which has handed it out', async () => {
    const one = await house();
    await one.read();
    const { body: delivery } = await one.propose();
    const [, released] = await inThatOrder('conversation_revisions', one.remove, () =>
      one.acme.release(delivery),
    );
    expect(released.code).toBe('source_revoked');
    const two = await house();
    await two.read();
    const { body: other } = await two.propose();
    expect((await two.acme.release(other)).status).toBe(200);
    await two.remove();
    expect((await two.acme.delivery(other.id)).status).toBe('released');
  });

  test('goes with a user who is being deleted, or is not kept', async () => {
    const one = await house();
    const message = written('ben', one.canary);
    const put = () => one.acme.put('conversations/notes/messages/m2', message);
    const [stored] = await inThatOrder('messages', put, () => one.acme.remove('users/ben'));
    expect(stored.outcome).toBe('appended');
    expect(await placesOf(gateway, one.canary)).toEqual({});

    const two = await house();
    const [, later] = await inThatOrder(
      'conversation_revisions',
      () => two.acme.remove('users/ben'),
      () => two.acme.put('conversations/notes/messages/m2', written('ben', two.canary)),
    );
    // The messages go ahead of the user: what comes in between is found by the user's own end.
    expect(['appended', 'gone']).toContain(later.outcome);
    expect(await placesOf(gateway, two.canary)).toEqual({});
  });
});

// Everything at once, in one organization: nothing fails, nothing waits for each other, and of what was deleted nothing is left.
test('deletions among appends, proposals and releases take turns, and leave nothing', async () => {
  const acme = await gateway.organization();
  const people = ['ana', 'ben', 'cleo', 'dan', 'eve'];
  await acme.users(...people);
  for (const place of ['thread', 'other'])
    await acme.conversation(place, ['ana', 'ben'], { aiThread: true });
  for (const place of ['notes', 'board']) await acme.conversation(place, ['ana', 'ben']);
  for (const place of ['thread', 'other']) await acme.say(place, 'ana', 'a question');
  const before = await deadlocks();
  const answers: string[] = [];
  const canaries: string[] = [];
  const keep = (step: string, { status, code }: Answer) => {
    answers.push(`${step} ${status === 200 ? 'ok' : (code ?? status.toString())}`);
  };

  await Promise.all(
    Array.from({ length: 6 }, async (_, worker) => {
      for (let round = 0; round < 12; round++) {
        const canary = newCanary();
        canaries.push(canary);
        const [place, elsewhere] = worker % 2 === 0 ? ['notes', 'board'] : ['board', 'notes'];
        const destination = worker % 3 === 0 ? 'other' : 'thread';
        const author = people[(worker + round) % 2] ?? '';
        const id = randomUUID();
        const { seq = '' } = await acme.put(
          `conversations/${place}/messages/${id}`,
          written(author, canary),
        );
        await carry(acme, { destination, canary, keep, source: { conversation: place, seq } }, () =>
          Promise.all([
            gateway
              .send(
                'DELETE',
                `/v1/organizations/${acme.name}/conversations/${place}/messages/${id}`,
                {
                  token: gateway.tokens.ingest,
                },
              )
              .then((answer) => keep('delete', answer)),
            acme.put(
              `conversations/${elsewhere}/messages/${randomUUID()}`,
              written(author, 'more'),
            ),
          ]),
        );
      }
    }),
  );

  expect(await deadlocks()).toBe(before);
  const known = [
    ...['append ok', 'append not_found', 'append session_quarantined', 'append conflict'],
    ...['save ok', 'save source_revoked', 'save grant_revoked', 'save session_quarantined'],
    ...['propose ok', 'propose grant_revoked', 'release ok', 'release source_revoked'],
    ...[
      'release source_changed',
      'release grant_revoked',
      'release session_quarantined',
      'delete ok',
    ],
  ];
  expect(answers.filter((answer) => !known.includes(answer))).toEqual([]);
  expect(answers.filter((answer) => answer === 'delete ok')).toHaveLength(canaries.length);
  // Both orders came about, or nothing raced.
  for (const step of ['append ok', 'append not_found', 'release ok'])
    expect(answers).toContain(step);
  for (const canary of canaries) expect(await placesOf(gateway, canary)).toEqual({});
}, 120_000);

test('users and conversations that are deleted at once, while they are written to, take turns too', async () => {
  const before = await deadlocks();
  const answers: string[] = [];
  const canaries = [newCanary(), newCanary(), newCanary()];
  const acme = await gateway.organization();
  const people = ['ana', 'ben', 'cleo', 'dan', 'eve', 'fay'];
  await acme.users(...people);
  for (const place of ['one', 'two', 'three']) await acme.conversation(place, people);
  const send = async (step: string, method: string, path: string, json?: object) => {
    const { status, code } = await gateway.send(method, `/v1/organizations/${acme.name}/${path}`, {
      token: gateway.tokens.ingest,
      ...(json !== undefined && { json }),
    });
    answers.push(`${step} ${status === 200 ? 'ok' : (code ?? status.toString())}`);
  };
  await Promise.all([
    ...people.flatMap((person, nth) =>
      ['one', 'two', 'three'].map(async (place, at) => {
        for (let round = 0; round < 8; round++) {
          const body = canaries[(nth + round) % 3] ?? '';
          const path = `conversations/${place}/messages/${person}-${(round + at).toString()}`;
          await send('write', 'PUT', path, written(person, body));
        }
      }),
    ),
    ...people.slice(1).map(async (person, nth) => {
      for (let sent = 0; sent < 10 * nth; sent++) await gateway.owner`select 1`;
      await send('delete', 'DELETE', `users/${person}`);
    }),
    (async () => {
      for (let sent = 0; sent < 25; sent++) await gateway.owner`select 1`;
      await send('delete', 'DELETE', 'conversations/two');
    })(),
  ]);
  await send('delete', 'DELETE', 'users/ana');
  expect(
    answers.filter((answer) => !['write ok', 'write not_found', 'delete ok'].includes(answer)),
  ).toEqual([]);
  expect(await deadlocks()).toBe(before);
  for (const canary of canaries) expect(await placesOf(gateway, canary)).toEqual({});
}, 60_000);

/** A turn of its own that reads a message, and writes it here and there while it is being deleted. */
async function carry(
  acme: TestOrganization,
  {
    destination,
    canary,
    keep,
    source,
  }: {
    readonly destination: string;
    readonly canary: string;
    readonly keep: (step: string, answer: Answer) => void;
    readonly source: { readonly conversation: string; readonly seq: string };
  },
  deleting: () => Promise<unknown>,
): Promise<void> {
  const threadKey = randomUUID();
  const turn = await acme.turn({ destination, requester: 'ana', trigger: '1', threadKey });
  await turn.tool('around', { ...source, before: 0, after: 0 });
  const log = logOf(gateway, turn);
  const write = async (nth: number) => {
    for (let sent = 0; sent < nth; sent++) await gateway.owner`select 1`;
    keep('append', await log.tryAppend([{ ...entry(text(canary)), sources: [source] }]));
  };
  const deliver = async () => {
    const proposed = await turn.propose(canary);
    keep('propose', proposed);
    if (proposed.body.status === 'cleared') keep('release', await acme.release(proposed.body));
  };
  const save = async () => keep('save', await trySave(gateway, turn, canary));
  await Promise.all([write(0), deliver(), save(), deleting(), write(8)]);
}

/** How many the server has had to break up here, as each connection has told by now. */
async function deadlocks(): Promise<string | undefined> {
  const { sql } = gateway.gateway.database;
  await Promise.all(Array.from({ length: 40 }, () => sql`select pg_stat_force_next_flush()`));
  const [row] = await gateway.owner<{ n: string }[]>`
    select deadlocks::text as n from pg_stat_database where datname = current_database()`;
  return row?.n;
}
