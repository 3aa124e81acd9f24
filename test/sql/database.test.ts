import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseDatabaseUrl } from '../../sql/database-url.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { faultOf, retrying } from '../../sql/faults.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let target: TestDatabase;
let database: Database;
let other: Database;

beforeAll(async () => {
  target = await createTestDatabase({ empty: true });
  database = openDatabase(target.adminUrl, { max: 3 });
  other = openDatabase(target.superuserUrl, { max: 1 });
  await database.sql`create table notes (id int primary key, text text not null check (text <> ''))`;
});

afterAll(async () => {
  await database.close();
  await other.close();
  await target.drop();
});

test('a transaction whose backend is killed fails as unavailable, leaves nothing, and the next request is served', async () => {
  const { sql } = database;

  const failure = await sql
    .begin(async (transaction) => {
      await transaction`insert into notes values (1, 'lost')`;
      const [backend] = await transaction<{ pid: number }[]>`select pg_backend_pid() as pid`;
      await other.sql`select pg_terminate_backend(${backend?.pid ?? 0}, 10000)`;
      await transaction`insert into notes values (2, 'lost')`;
    })
    .catch(faultOf);

  expect(failure).toMatchObject({ kind: 'unavailable' });
  expect(await sql`select from notes`).toHaveLength(0);
});

test('statements sent after a transaction lost its connection do not run outside of it', async () => {
  const { sql } = database;

  const outcomes = await sql
    .begin(async (transaction) => {
      const [backend] = await transaction<{ pid: number }[]>`select pg_backend_pid() as pid`;
      await other.sql`select pg_terminate_backend(${backend?.pid ?? 0}, 10000)`;
      const later = [1, 2, 3].map((id) =>
        transaction`insert into notes values (${id}, 'stray')`.catch(faultOf),
      );
      return Promise.all(later);
    })
    .catch(faultOf);

  expect(outcomes).toMatchObject({ kind: 'unavailable' });
  expect(await sql`select from notes`).toHaveLength(0);
});

test('a pool under load serves again after all its connections were cut many times', async () => {
  const { sql } = database;
  let busy = true;
  const load = Array.from({ length: 8 }, async () => {
    while (busy) await sql`select ${'x'}::text`.catch(faultOf);
  });

  for (let round = 0; round < 20; round++) {
    await other.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`;
    await Promise.all([1, 2, 3, 4].map(() => sql`select 1`.catch(faultOf)));
  }
  busy = false;
  await Promise.all(load);

  expect(await Promise.all([1, 2, 3, 4].map((n) => sql`select ${n}::int as n`))).toMatchObject([
    [{ n: 1 }],
    [{ n: 2 }],
    [{ n: 3 }],
    [{ n: 4 }],
  ]);
});

test('a transaction with a failed statement that nobody looked at is an error, not a commit', async () => {
  const failed = database.sql.begin(async (transaction) => {
    await transaction`insert into notes values (1, 'unseen')`;
    await transaction`insert into notes values (1, 'unseen')`.catch(() => undefined);
  });

  await expect(failed).rejects.toMatchObject({ code: '23505' });
  expect(await database.sql`select from notes`).toHaveLength(0);
});

test('a statement of a transaction that has ended is refused', async () => {
  const ended = await database.sql.begin((transaction) => Promise.resolve({ transaction }));

  await expect(ended.transaction`select 1`).rejects.toThrow('has ended');
});

test('what fails inside a savepoint is undone alone', async () => {
  await database.sql.begin(async (transaction) => {
    await transaction`insert into notes values (1, 'outer')`;
    await transaction
      .savepoint(async (inner) => {
        await inner`insert into notes values (2, 'inner')`;
        await inner`select 1 / 0`;
      })
      .catch(faultOf);
  });

  expect(await database.sql`delete from notes returning text`).toEqual([{ text: 'outer' }]);
});

test('what a reserved connection leaves in its session is gone when it is released', async () => {
  const single = openDatabase(target.adminUrl, { max: 1 });
  const reserved = await single.sql.reserve();
  await reserved`select set_config('earshot.organization', '1', false)`;
  reserved.release();

  expect(await single.sql`select current_setting('earshot.organization', true) as left`).toEqual([
    { left: null },
  ]);
  await single.close();
});

test('a statement that waits too long for a connection fails as unavailable', async () => {
  const single = openDatabase(target.adminUrl, { max: 1, connectTimeoutSeconds: 0.05 });
  const reserved = await single.sql.reserve();

  expect(await single.sql`select 1`.catch(faultOf)).toEqual({
    kind: 'unavailable',
    code: 'CONNECT_TIMEOUT',
  });
  reserved.release();
  await single.close();
});

test('a closed database lets running statements finish and refuses new ones', async () => {
  const closing = openDatabase(target.adminUrl);
  const running = closing.sql`select pg_sleep(0.05), 1 as one`.execute();
  await closing.sql`select 1`;
  const closed = closing.close();

  expect(await closing.sql`select 1`.catch(faultOf)).toMatchObject({ kind: 'unavailable' });
  expect(await running).toMatchObject([{ one: 1 }]);
  await closed;
});

test('arrays keep their nulls and every character, those of domains included', async () => {
  const { sql, close } = openDatabase(target.adminUrl);
  await sql`create domain name_of_note as text`;
  await close();
  const later = openDatabase(target.adminUrl);
  const awkward = ['', 'null', 'a,b', '{"\\"}', null];

  const [row] = await later.sql`
    select ${awkward}::text[] as plain, ${later.sql.array(awkward)}::name_of_note[] as domains,
      array[[1, 2], [3, null]] as nested, '{}'::int8[] as empty`;

  expect(row).toEqual({
    plain: awkward,
    domains: awkward,
    nested: [
      [1, 2],
      [3, null],
    ],
    empty: [],
  });
  await later.close();
});

test('large integers and instants keep every digit, both ways', async () => {
  const instant = '2026-01-02T03:04:05.678901Z';
  const [row] = await database.sql`
    select 9007199254740993::int8 as large, ${instant}::timestamptz as instant, ${database.sql.array([instant])}::timestamptz[] as list`;

  expect(row).toEqual({
    large: '9007199254740993',
    instant: '2026-01-02 03:04:05.678901+00',
    list: ['2026-01-02 03:04:05.678901+00'],
  });
});

test('faults are told apart by their code, and what they tell holds no value of a row', async () => {
  const { sql } = database;
  const slow = openDatabase(target.adminUrl, { statementTimeoutMs: 20 });
  const nowhere = openDatabase('postgresql://nobody@/nothing?host=/nonexistent');
  const insert = (text: string) => sql`insert into notes values (7, ${text})`;
  await insert('canary');

  const faults = {
    conflict: await insert('canary').catch(faultOf),
    check: await sql`insert into notes values (8, '')`.catch(faultOf),
    value: await sql`select ${'canary'}::text::int`.catch(faultOf),
    timeout: await slow.sql`select pg_sleep(60)`.catch(faultOf),
    unavailable: await nowhere.sql`select 1`.catch(faultOf),
    fault: await sql`select canary`.catch(faultOf),
  };

  const row = { table: 'notes', column: undefined };
  expect(faults).toEqual({
    conflict: { kind: 'conflict', code: '23505', constraint: 'notes_pkey', ...row },
    check: { kind: 'invalid', code: '23514', constraint: 'notes_text_check', ...row },
    value: {
      kind: 'invalid',
      code: '22P02',
      constraint: undefined,
      table: undefined,
      column: undefined,
    },
    timeout: { kind: 'timeout', code: '57014' },
    unavailable: { kind: 'unavailable', code: 'ENOENT' },
    fault: { kind: 'fault', code: '42703' },
  });
  await sql`delete from notes`;
  await slow.close();
  await nowhere.close();
});

test('work that lost to another transaction is run again, and other failures are not', async () => {
  const failing = (code: string, times: number) => {
    let runs = 0;
    return () =>
      runs++ < times
        ? Promise.reject(Object.assign(new Error('lost'), { code }))
        : Promise.resolve(runs);
  };

  expect(await retrying(failing('40001', 2))).toBe(3);
  expect(await retrying(failing('40P01', 1))).toBe(2);
  await expect(retrying(failing('40001', 9), { attempts: 3 })).rejects.toMatchObject({
    code: '40001',
  });
  await expect(retrying(failing('23505', 1))).rejects.toMatchObject({ code: '23505' });
});

test.each([
  [
    'postgresql://u@/db?host=/run/pg&port=5433',
    { user: 'u', database: 'db', host: '/run/pg', port: 5433, tls: false },
  ],
  [
    'postgres://u:p%40ss@db.example/one',
    { password: 'p@ss', database: 'one', host: 'db.example', port: 5432, tls: 'prefer' },
  ],
  ['postgresql://u@%2Frun%2Fpg/db', { host: '/run/pg', database: 'db', tls: false }],
  ['postgresql://u@[::1]:1/', { host: '::1', port: 1, database: 'u' }],
  ['postgresql://u@h/db?sslmode=verify-full', { tls: {} }],
])('a database URL is read as libpq reads it: %s', (url, expected) => {
  expect(parseDatabaseUrl(url)).toMatchObject(expected);
});

test.each([
  'http://u:canary@h/db',
  'postgresql://u:canary@h/db?pool=9',
  'postgresql://u:canary@h/db?sslmode=maybe',
  'postgresql://u:canary@one,two/db',
  'postgresql://u:canary@h/db?port=0',
  'postgresql://h/db?password=canary',
])('a database URL that is not understood is refused without repeating its password: %s', (url) => {
  expect(() => parseDatabaseUrl(url)).toThrow(/^((?!canary).)*$/);
});
