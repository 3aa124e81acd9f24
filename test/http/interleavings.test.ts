import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Sql } from '../../sql/database.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';
import { holdOpen, whenBlocked } from './blocked.ts';
import { contentOf } from './stored.ts';

// Cases 19, 20, 22 and 23: explicit interleavings, one side held open by a transaction or a lock.

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.say('shared', 'ben', 'canary one');
  await acme.say('thread', 'ana', 'which canary');
  turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  await turn.search('canary');
});

const members = (ids: string[]) => JSON.stringify(ids.map((user) => ({ user, history: 'all' })));

describe('readers who change while a delivery is under way', () => {
  test.each([
    ['somebody joins', ['ana', 'ben', 'cleo'], 'audience_changed'],
    ['somebody leaves', ['ana'], 'audience_changed'],
    ['the requester leaves', ['ben'], 'requester_left'],
  ])(
    'before its locks are seen, although the change commits after it began: %s',
    async (_what, ids, code) => {
      const cleared = ok(await turn.propose('It sang.'));
      const change = await holdOpen(
        gateway,
        (sql) =>
          sql`select earshot.put_members(${acme.name}, 'thread', ${members(ids)}::text::jsonb, true)`,
      );
      const release = acme.release(cleared);
      await whenBlocked(gateway);
      await change.commit();

      expect((await release).code).toBe(code);
      expect(
        await gateway.owner`select status, payload from earshot.deliveries where id = ${cleared.id}`,
      ).toEqual([{ status: 'held', payload: null }]);
    },
  );

  test('hold back a proposal as well', async () => {
    const change = await holdOpen(
      gateway,
      (sql) =>
        sql`select earshot.put_members(${acme.name}, 'thread', ${members(['ana', 'ben', 'cleo'])}::text::jsonb, true)`,
    );
    const proposal = turn.propose('It sang.');
    await whenBlocked(gateway);
    await change.commit();

    expect((await proposal).body).toMatchObject({ status: 'held', code: 'audience_changed' });
  });

  test.each([
    [
      'a source is revoked',
      'source_revoked',
      (sql: Sql) => sql`select earshot.remove_member(${acme.name}, 'shared', 'ben')`,
    ],
    [
      'a source is edited',
      'source_changed',
      (sql: Sql) =>
        sql`update earshot.messages set body = 'x', revision = 2 where body = 'canary one'
            and org_id = (select id from earshot.organizations where external_id = ${acme.name})`,
    ],
  ])('and so are sources: %s', async (_what, code, work) => {
    const cleared = ok(await turn.propose('It sang.'));
    const change = await holdOpen(gateway, work);
    const release = acme.release(cleared);
    await whenBlocked(gateway);
    await change.commit();

    expect((await release).code).toBe(code);
  });

  test('after its locks come after it: the change waits, and the answer leaves to those it was made for', async () => {
    const cleared = ok(await turn.propose('It sang.'));
    const barrier = await holdOpen(
      gateway,
      (sql) => sql`lock table earshot.decisions in share mode`,
    );
    const release = acme.release(cleared);
    await whenBlocked(gateway);
    const join = acme.put('conversations/thread/members/cleo', { history: 'all' });
    await whenBlocked(gateway, 2);
    await barrier.commit();

    expect((await release).status).toBe(200);
    expect((await join).outcome).toBe('updated');
    expect((await turn.tool('search', { query: 'canary' })).code).toBe('audience_changed');
  });
});

test('nothing is remembered from a call that was under way when a source was revoked', async () => {
  const barrier = await holdOpen(
    gateway,
    (sql) => sql`lock table earshot.messages in access exclusive mode`,
  );
  const first = turn.tool('search', { query: 'canary' });
  await whenBlocked(gateway);
  await acme.remove('conversations/shared/members/ben');
  await barrier.commit();
  ok(await first);

  expect(await turn.search('canary')).toEqual(['which canary']);
  expect((await turn.propose('It sang.')).body).toMatchObject({
    status: 'held',
    code: 'source_revoked',
  });
});

test('the same question by one reader alone and then by two is never answered from the same place', async () => {
  await acme.conversation('alone', ['ana'], { aiThread: true, owner: 'ana', kind: 'private' });
  await acme.conversation('diary', ['ana']);
  await acme.say('diary', 'ana', 'canary of ana');
  await acme.say('alone', 'ana', 'mine');
  const request = { destination: 'alone', requester: 'ana', trigger: '1' };
  const alone = await acme.turn(request);
  expect(await alone.search('"canary of ana"')).toEqual(['canary of ana']);
  await acme.put('conversations/alone/members/ben', { history: 'all' });

  expect((await alone.tool('search', { query: '"canary of ana"' })).code).toBe('mode_changed');
  const both = await acme.turn(request);
  expect(await both.search('"canary of ana"')).toEqual([]);
  expect(both.grant.sessionId).not.toBe(alone.grant.sessionId);
});

test('appends come one after the other: no reader sees a later message and then an earlier one', async () => {
  const read = async (more: object = {}) =>
    ok(await turn.tool('read', { conversation: 'shared', ...more }));
  const stated = JSON.stringify([
    {
      id: 'n',
      kind: 'message',
      authorUser: 'ben',
      body: 'canary n',
      sentAt: '2050-01-01T00:00:00Z',
    },
  ]);
  const first = await holdOpen(
    gateway,
    (sql) =>
      sql`select earshot.put_messages(${acme.name}, 'shared', ${stated}::text::jsonb, false)`,
  );
  const later = acme.say('shared', 'ben', 'canary n + 1');
  await whenBlocked(gateway);
  const before = await read();
  await first.commit();
  const seq = await later;
  const next = await read({ fromSeq: '2' });

  expect(before.items.map(({ text }) => text)).toEqual(['canary one']);
  expect(seq).toBe('3');
  expect(next.items.map(({ text, source }) => [source.seq, text])).toEqual([
    ['2', 'canary n'],
    ['3', 'canary n + 1'],
  ]);
});

test('a join is below the message that commits after it and above the one that commits before', async () => {
  const stated = JSON.stringify([
    {
      id: 'n',
      kind: 'message',
      authorUser: 'ben',
      body: 'canary n',
      sentAt: '2050-01-01T00:00:00Z',
    },
  ]);
  const append = await holdOpen(
    gateway,
    (sql) =>
      sql`select earshot.put_messages(${acme.name}, 'shared', ${stated}::text::jsonb, false)`,
  );
  const join = acme.put('conversations/shared/members/cleo', { history: 'from_join' });
  await whenBlocked(gateway);
  await append.commit();
  await join;
  await acme.say('shared', 'ben', 'canary after', { sentAt: '2051-01-01T00:00:00Z' });

  const floors = await gateway.owner`
    select floor from earshot.memberships m join earshot.users u on u.id = m.user_id
    where u.external_id = 'cleo' and m.floor > 1
      and m.org_id = (select id from earshot.organizations where external_id = ${acme.name})`;
  expect(floors).toEqual([{ floor: '3' }]);
});

describe('a backend that is lost in the middle', () => {
  async function lose(
    table: string,
    request: () => Promise<{ code: string | undefined; status: number }>,
  ) {
    const before = await contentOf(gateway.owner);
    const barrier = await holdOpen(gateway, (sql) =>
      sql.unsafe(`lock table earshot.${table} in share mode`),
    );
    const answer = request();
    const [pid] = await whenBlocked(gateway);
    await gateway.owner`select pg_terminate_backend(${pid ?? 0}, 10000)`;
    const { code, status } = await answer;
    await barrier.commit();
    expect({ code, status }).toEqual({ code: 'unavailable', status: 503 });
    expect(await contentOf(gateway.owner)).toEqual(before);
  }

  test('of a mint leaves no row, and the next request is served', async () => {
    await lose('grants', () => turn.mint());
    expect((await turn.mint()).status).toBe(200);
  });

  test('of a tool call leaves no row of what it would have shown', async () => {
    await lose('decisions', () => turn.tool('search', { query: 'canary' }));
    expect(await turn.search('canary')).toHaveLength(2);
  });

  test('of a proposal stores no delivery, and its key is free', async () => {
    await lose('decisions', () => turn.propose('It sang.', { key: 'k' }));
    expect((await turn.propose('It sang again.', { key: 'k' })).body.status).toBe('cleared');
  });

  test('of a release hands out nothing, and the delivery waits as it did', async () => {
    const cleared = ok(await turn.propose('It sang.'));
    await lose('decisions', () => acme.release(cleared));
    expect(ok(await acme.release(cleared)).payload).toBe('It sang.');
  });

  test.each(['users', 'messages'])(
    'of a batch of facts writes none of them: at %s',
    async (table) => {
      const lines = [
        { fact: 'user', id: 'dora', kind: 'member' },
        {
          ...{ fact: 'message', conversation: 'shared', id: 'x' },
          ...{ body: 'x', sentAt: '2050-01-01T00:00:00Z' },
        },
      ];
      await lose(table, () =>
        gateway.send('POST', `/v1/facts?organization=${acme.name}`, {
          token: gateway.tokens.ingest,
          body: lines.map((line) => JSON.stringify(line)).join('\n'),
          headers: { 'content-type': 'application/x-ndjson' },
        }),
      );
    },
  );
});
