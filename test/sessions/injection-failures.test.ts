import { decodeJwt } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openGateway } from '../../gateway/public.ts';
import { digestOf } from '../../gateway/tokens/grant-token.ts';
import type { CompiledLog } from '../../sessions/compile/compile-shape.ts';
import { contextLog } from '../../sessions/context-log.ts';
import type { Database } from '../../sql/database.ts';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestLog } from '../support/log.ts';
import { injectionHouse, outline, said, unit, type InjectionHouse } from './injection-house.ts';

// Whatever fails between the start of a write and the end of a send: each unit is there whole, once, and paid for once.

let gateway: TestGateway;
let house: InjectionHouse;
let log: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway();
  await gateway.owner.unsafe(`
    create sequence rows_seen;
    grant usage on sequence rows_seen to public;
    create function fail_at() returns trigger language plpgsql as $$
      begin
        if nextval('public.rows_seen') = tg_argv[0]::bigint then raise exception 'planned'; end if;
        return new;
      end $$;
    create function hold_open() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(7); return new; end $$`);
});

afterAll(() => gateway.close());

beforeEach(async () => {
  house = await injectionHouse(gateway);
  ({ log } = house);
  await log.append(said('the question'));
});

const undo: string[] = [];
afterEach(async () => {
  for (const statement of undo.splice(0)) await gateway.owner.unsafe(statement);
});

/** Lets the nth row that is written to a table fail, until what it gives is called. */
async function failAt(event: string, table: string, nth: number): Promise<() => Promise<unknown>> {
  await gateway.owner.unsafe(`
    alter sequence rows_seen restart;
    create trigger zz_fail before ${event} on earshot.${table} for each row
      execute function fail_at('${nth.toString()}')`);
  const mend = `drop trigger if exists zz_fail on earshot.${table}`;
  undo.push(mend);
  return () => gateway.owner.unsafe(mend);
}

/** Lets a write to a table wait until what it gives is called. */
async function holdAt(event: string, table: string) {
  await gateway.owner.unsafe(`
    create trigger zz_hold before ${event} on earshot.${table} for each row execute function hold_open()`);
  const mend = `drop trigger if exists zz_hold on earshot.${table}`;
  undo.push(mend);
  const held = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
  return async () => {
    await held.commit();
    await gateway.owner.unsafe(mend);
  };
}

function latch() {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

/** A database at which the statements that call a door wait until `goOn` is called. */
function pausedAt({ sql, close }: Database, door: string) {
  const [open, reached] = [latch(), latch()];
  const database: Database = {
    close,
    sql: new Proxy(sql, {
      apply(target, _this, args: [TemplateStringsArray]) {
        const run = () => Reflect.apply(target, undefined, args) as unknown;
        if (!args[0].join('').includes(door)) return run();
        reached.open();
        return open.opened.then(run);
      },
    }),
  };
  return { database, reached: reached.opened, goOn: open.open };
}

const sources = [{ conversation: 'notes', seq: '1' }];
const injections = ['first', 'second', 'third'].map((name) => ({
  source: name,
  parts: [
    { text: `${name} one `, sources },
    { text: 'CANARY two', sources },
  ],
}));
const WHOLE = injections.map(({ source }) => `${source}: ${source} one |CANARY two`);

/** That a request holds each unit whole and once, that it is paid for once, and that the log has one copy. */
async function expectOnce(compiled: CompiledLog): Promise<void> {
  const lines = ['entry: the question', ...WHOLE.map((line) => `injection of ${line}`)];
  expect(outline(compiled)).toEqual(lines);
  const { stats, provenance } = compiled;
  const [question = 0, ...each] = provenance.map(({ tokens }) => tokens);
  expect(stats).toMatchObject({ injections: 3, placed: 0 });
  expect(stats.tokens).toMatchObject({
    total: question + stats.tokens.injections,
    injections: each.reduce((sum, tokens) => sum + tokens, 0),
    placed: 0,
  });
  expect(await house.stored()).toEqual(WHOLE);
}

/** That the start, made again as often as one likes, sends each unit once. */
async function expectMended(): Promise<void> {
  const compiled = ok(await log.compile({ injections }));
  await expectOnce(compiled);
  const again = ok(await log.compile({ injections }));
  await expectOnce(again);
  expect(again.stats.shared.messages).toBe(4);
  expect(again.stats.tokens).toEqual(compiled.stats.tokens);
}

describe('a write that fails', () => {
  test.each([
    ['before the first unit', 'insert', 'log_entries', 1],
    ['in the middle of the first unit, before its first source', 'insert', 'log_sources', 1],
    ['in the middle of a unit, between its sources', 'insert', 'log_sources', 4],
    ['between two units', 'insert', 'log_entries', 2],
    ['before the last unit', 'insert', 'log_entries', 3],
    ['after the last unit, before the ledger', 'insert', 'ledger_entries', 1],
    ['after the last unit, before the counters', 'update', 'log_heads', 1],
    ['after the counters, before the place is bound', 'update', 'namespaces', 1],
    ['after all of it, before its record', 'insert', 'decisions', 1],
  ])('%s leaves nothing, and is completed once', async (_where, event, table, nth) => {
    const mend = await failAt(event, table, nth);
    const failed = await log.compile({ injections });
    expect([failed.status, failed.code]).toEqual([500, 'fault']);
    expect(await house.stored()).toEqual([]);
    await mend();
    await expectMended();
  });

  test('beside an earlier copy leaves that one as the newest', async () => {
    ok(await log.inject(unit('first', 'old')));
    const mend = await failAt('insert', 'log_entries', 2);
    expect((await log.inject(...injections)).code).toBe('fault');
    expect(await house.stored()).toEqual(['first: old']);
    await mend();
    expect(ok(await log.inject(unit('first', 'old'))).outcomes).toEqual(['unchanged']);
    expect(ok(await log.inject(...injections)).outcomes).toEqual(['stored', 'stored', 'stored']);
    expect(await house.stored()).toEqual(['first: old', ...WHOLE]);
  });
});

describe('a compile that fails after it has stored', () => {
  test.each([
    ['as it announces what it reads', 'update', 'namespaces', 2],
    ['as it reads', 'insert', 'turn_places', 1],
    ['as the read is put on record', 'insert', 'decisions', 2],
    ['as it is sent', 'insert', 'log_sends', 1],
    ['as the sending is put on record', 'insert', 'decisions', 3],
  ])('%s has stored once, and was not sent', async (_where, event, table, nth) => {
    const mend = await failAt(event, table, nth);
    const failed = await log.compile({ injections });
    expect([failed.status, failed.code]).toEqual([500, 'fault']);
    await mend();
    expect(await house.stored()).toEqual(WHOLE);
    const sent = await gateway.owner`
      select 1 from earshot.log_sends where session_id = ${log.session}`;
    expect(sent).toEqual([]);
    await expectMended();
  });

  test('over its budget has stored once, however often it is tried', async () => {
    for (const budget of [1, 2, 3])
      expect((await log.compile({ injections, budget })).code).toBe('over_budget');
    await expectMended();
  });

  test('over its budget still decides what the newest copy is', async () => {
    const [first = unit('first')] = injections;
    await expectOnce(ok(await log.compile({ injections })));
    const changed = [unit('first', 'changed')];
    expect((await log.compile({ injections: changed, budget: 1 })).code).toBe('over_budget');
    expect(ok(await log.compile({ injections: [first] })).stats.injections).toBe(5);
    expect(ok(await log.inject(first)).outcomes).toEqual(['unchanged']);
    expect(await house.stored()).toEqual([...WHOLE, 'first: changed', WHOLE[0]]);
  });

  test.each([
    ['the store', 'update', 'log_heads', []],
    ['the read', 'insert', 'turn_places', WHOLE],
    ['the send', 'insert', 'log_sends', WHOLE],
  ])('for its connection, lost in %s, is made up for', async (_where, event, table, left) => {
    const goOn = await holdAt(event, table);
    const compiling = log.compile({ injections });
    for (const pid of await whenBlocked(gateway))
      await gateway.owner`select pg_terminate_backend(${pid})`;
    expect((await compiling).code).toBe('unavailable');
    await goOn();
    expect(await house.stored()).toEqual(left);
    await expectMended();
  });

  test('for its process, after the store, is made up for by another one', async () => {
    ok(await log.inject(...injections));
    const other = await openGateway({
      DATABASE_URL: gateway.target.gatewayUrl,
      EARSHOT_DATA_DIR: gateway.gateway.config.dataDir,
    });
    const { token, audienceHash } = house.turn.grant;
    const opened = await other.log(token, log.session, audienceHash);
    const compiled = opened.ok ? await opened.log.compile({ injections }) : opened;
    await other.close();
    if (!compiled.ok) throw new Error(compiled.code);
    await expectOnce(compiled.result);
    await expectMended();
  });

  test('that nobody makes again leaves what it stored to the next start', async () => {
    ok(await log.inject(...injections));
    await expectOnce(ok(await log.compile()));
    await expectMended();
  });
});

describe('three resumes at once', () => {
  test('with the same units store one copy, and each sends it once', async () => {
    const starts = await Promise.all([1, 2, 3].map(() => log.compile({ injections })));
    for (const start of starts) await expectOnce(ok(start));
    await expectMended();
  });

  test('of which two wait for the first find what it stored', async () => {
    const goOn = await holdAt('insert', 'log_entries');
    const stores = [1, 2, 3].map(() => log.inject(...injections));
    await whenBlocked(gateway, 3);
    await goOn();
    const outcomes = (await Promise.all(stores)).map((store) => ok(store).outcomes[0]);
    expect(outcomes.sort()).toEqual(['stored', 'unchanged', 'unchanged']);
    await expectMended();
  });

  test('of which the first fails store one copy all the same', async () => {
    const mend = await failAt('insert', 'log_entries', 2);
    const starts = await Promise.all([1, 2, 3].map(() => log.inject(...injections)));
    expect(starts.map(({ status }) => status).sort()).toEqual([200, 200, 500]);
    await mend();
    await expectMended();
  });

  test('with different contents store each once, and none is lost', async () => {
    const contents = ['one', 'two', 'three'].map((words) => unit('memory', words));
    const starts = await Promise.all(contents.map((one) => log.compile({ injections: [one] })));
    for (const [nth, start] of starts.entries()) {
      const own = `of memory: ${contents[nth]?.parts[0]?.text ?? ''}`;
      expect(outline(ok(start)).filter((line) => line.endsWith(own)).length).toBeGreaterThan(0);
    }
    const stored = await house.stored();
    expect(stored.toSorted()).toEqual(['memory: one', 'memory: three', 'memory: two']);
    const next = ok(await log.compile());
    expect(outline(next).slice(1)).toEqual(stored.map((line) => `injection of ${line}`));
    expect(next.stats).toMatchObject({ injections: 3, placed: 0 });
  });
});

test('a start sends its own once, where another one stores in between its store and its read', async () => {
  const { grant } = house.turn;
  const { database, reached, goOn } = pausedAt(gateway.gateway.database, 'raise_watermark');
  const digest = digestOf(decodeJwt(grant.token).jti ?? '');
  const caller = { digest, session: log.session, audienceHash: grant.audienceHash };
  const compiling = contextLog(database, caller).compile({ injections: [unit('memory', 'own')] });
  await reached;
  expect(ok(await log.inject(unit('memory', 'other'))).outcomes).toEqual(['stored']);
  goOn();
  const compiled = await compiling;
  if (!compiled.ok) throw new Error(compiled.code);
  const own = outline(compiled.result).filter((line) => line.endsWith(': own'));
  expect(own).toEqual(['injection of memory: own']);
  expect(await house.stored()).toEqual(['memory: own', 'memory: other']);
});

describe('a start while another agent holds the log', () => {
  test('places each unit whole and once, and once it is free it is stored once', async () => {
    const other = await house.start();
    const { handle } = await log.open({ name: 'desk', agent: 'helper' });
    ok(await log.by(other).through(handle).compile());
    for (let start = 0; start < 2; start++) {
      const { stats, ...compiled } = ok(await log.compile({ injections }));
      expect(outline({ stats, ...compiled }).slice(1)).toEqual(
        WHOLE.map((line) => `placed of ${line}`),
      );
      expect(stats).toMatchObject({ injections: 0, placed: 3, tokens: { injections: 0 } });
    }
    expect(await house.stored()).toEqual([]);
    ok(await other.end('stop'));
    await expectMended();
  });
});
