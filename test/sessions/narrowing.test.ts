import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import {
  entry,
  entryMessages,
  entryProvenance,
  logOf,
  messagesAmong,
  type TestLog,
  text,
} from '../support/log.ts';
import type { TestOrganization } from '../support/organization.ts';

// Hiding what may have been read already: nothing takes a block out of a summary or a request.

let gateway: TestGateway;
let acme: TestOrganization;
let log: TestLog;
let id: string;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'a question');
  log = logOf(gateway, await start());
  [id = ''] = await log.append(entry(text('a secret')));
});

const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
const reader = async (name: string, more: object = {}) =>
  log.through((await log.open({ name: `of ${name}`, reader: name, ...more })).handle);
const forNobody = (of: string) => ({ ...text(of), audience: [] });
const forAna = [text('a secret', 'ana')];

describe('an edit that hides a block', () => {
  test('goes through before anything read it', async () => {
    expect(ok(await log.edit(id, '1', forAna)).revision).toBe('2');
    expect(await log.texts()).toEqual([]);
    expect(await (await reader('ana')).texts()).toEqual(['a secret']);
  });

  test.each([
    ['a compile', (of: TestLog) => of.compile()],
    ['a preview', (of: TestLog) => of.preview()],
    ['a summary input', (of: TestLog) => of.summaryInput(id, id)],
    ['a page of entries', (of: TestLog) => of.entries()],
    ['a search, also one that found nothing', (of: TestLog) => of.search('something else')],
    ['a look at the pins', (of: TestLog) => of.pins()],
  ])('is refused after %s', async (_what, read) => {
    ok<unknown>(await read(log));
    const answer = await log.edit(id, '1', forAna);
    expect([answer.status, answer.code]).toEqual([409, 'narrowing_refused']);
    expect(await log.texts()).toEqual(['a secret']);
  });

  test('is refused where an earlier revision of it was read', async () => {
    await log.compile();
    ok(await log.edit(id, '1', [text('the same secret')]));
    expect((await log.edit(id, '2', forAna)).code).toBe('narrowing_refused');
  });

  test('goes through on an entry above the watermark', async () => {
    await log.compile();
    const [later = ''] = await log.append(entry(text('another secret')));
    ok(await log.edit(later, '1', [text('another secret', 'ana')]));
    expect(await log.texts()).toEqual(['a secret']);
  });

  test('is refused away from the reader of another namespace, whatever that one has read', async () => {
    await reader('ben');
    expect((await log.edit(id, '1', forAna)).code).toBe('narrowing_refused');
    ok(await log.edit(id, '1', [text('a secret', 'ben')]));
  });

  test('is refused away from the session’s audience, by a namespace of one reader', async () => {
    const ana = await reader('ana');
    expect((await ana.edit(id, '1', forAna)).code).toBe('narrowing_refused');
  });

  test('is refused while another namespace of the same reader may have read the block', async () => {
    const ana = await reader('ana');
    const second = log.through((await log.open({ name: 'second', reader: 'ana' })).handle);
    const [mine = ''] = await log.append(entry(text('mine', 'ana'), text('rest', 'ana')));
    await second.compile();
    expect((await ana.edit(mine, '1', [forNobody('mine'), text('rest', 'ana')])).code).toBe(
      'narrowing_refused',
    );
    const [late = ''] = await log.append(entry(text('late', 'ana')));
    ok(await ana.edit(late, '1', [forNobody('late')]));
  });

  test('is refused where it takes one name of several', async () => {
    const [both = ''] = await log.append(entry(text('for both', 'ana', 'ben')));
    await log.compile();
    expect((await log.edit(both, '1', [text('for both', 'ana')])).code).toBe('narrowing_refused');
  });
});

describe('an edit', () => {
  test('that names more readers, or all, goes through whatever was read', async () => {
    const [ofAna = ''] = await log.append(entry(text('first', 'ana')));
    const ana = await reader('ana');
    expect(await ana.texts()).toEqual(['a secret', 'first']);
    // By a turn that was not shown it: what it writes is not made from it.
    const host = ana.by(await start());
    ok(await host.edit(ofAna, '1', [text('first', 'ana', 'ben')]));
    expect(await (await reader('ben')).texts()).toEqual(['a secret', 'first']);
    ok(await host.edit(ofAna, '2', [text('first')]));
    expect(await log.texts()).toEqual(['a secret', 'first']);
  });

  test('leaves what its namespace does not show where it was', async () => {
    const [mixed = ''] = await log.append(
      entry(text('one'), text('of ben', 'ben'), text('two'), text('of ben too', 'ben')),
    );
    const ana = await reader('ana');
    ok(await ana.edit(mixed, '1', [text('uno'), text('due')]));
    expect(await ana.texts()).toEqual(['a secret', 'uno', 'due']);
    expect(await (await reader('ben')).texts()).toEqual([
      'a secret',
      'uno',
      'of ben',
      'due',
      'of ben too',
    ]);
  });

  test('that shortens an entry hides nothing, and does not tell of what it does not show', async () => {
    const [mixed = ''] = await log.append(entry(text('one'), text('two'), text('of ben', 'ben')));
    const ana = await reader('ana');
    ok(await ana.edit(mixed, '1', [text('uno')]));
    expect(await ana.texts()).toEqual(['a secret', 'uno']);
    expect(await (await reader('ben')).texts()).toEqual(['a secret', 'uno', 'of ben']);
  });

  test('leaves no replay form on what it does not show, which may hold what was edited', async () => {
    const replay = { id: 'r', provider: 'lab', value: 'holds the plain one' };
    const [mixed = ''] = await log.append(
      entry({ ...text('plain'), replay }, { ...text('of ben', 'ben'), replay }),
    );
    ok(await log.edit(mixed, '1', [text('plain', 'ana')]));
    const messages = entryMessages(ok(await (await reader('ben')).compile()));
    expect(messages.at(-1)?.content).toEqual([text('of ben')]);
  });

  test('keeps the sources of what it does not show, and puts its own to its own blocks', async () => {
    await acme.conversation('notes', ['ana', 'ben']);
    for (const body of ['first', 'second', 'third']) await acme.say('notes', 'ana', body);
    const source = (seq: string, block: number) => ({ conversation: 'notes', seq, block });
    const [mixed = ''] = await log.append({
      ...entry(text('of ben', 'ben'), text('plain')),
      sources: [source('1', 0), source('2', 1)],
    });
    const ana = await reader('ana');
    const edit = { blocks: [text('new')], sources: [source('3', 0)] };
    ok(await ana.call('PATCH', `/entries/${mixed}`, { revision: '1', edit }));
    const seqs = async (of: TestLog) =>
      messagesAmong(entryProvenance(ok(await of.compile())).at(-1)?.sources).map(({ seq }) => seq);
    expect(await seqs(ana)).toEqual(['3']);
    expect(await seqs(await reader('ben'))).toEqual(['1', '3']);
    const fork = await ana.fork('side');
    const ben = await fork.open({ name: 'ben', reader: 'ben' });
    expect(await seqs(fork.through(ben.handle))).toEqual(['3']);
  });

  test('of a revision that is no longer the last is a conflict', async () => {
    ok(await log.edit(id, '1', [text('second')]));
    expect((await log.edit(id, '1', [text('third')])).code).toBe('conflict');
    expect(await log.texts()).toEqual(['second']);
  });

  test('puts no audience on a system entry', async () => {
    const [rule = ''] = await log.append({
      role: 'system',
      participant: 'host',
      blocks: [text('rule')],
    });
    expect((await log.edit(rule, '1', [text('rule', 'ana')])).code).toBe('invalid_input');
  });
});

describe('a fork', () => {
  test('made before a read decides by what it inherited', async () => {
    const fork = await log.fork('before');
    await log.compile();
    ok(await fork.edit(id, '1', forAna));
    expect(await fork.texts()).toEqual([]);
    expect(await log.texts()).toEqual(['a secret']);
    expect((await log.edit(id, '1', forAna)).code).toBe('narrowing_refused');
  });

  test('made after a read refuses, though nothing has read the fork', async () => {
    await log.compile();
    const fork = await log.fork('after');
    expect((await fork.edit(id, '1', forAna)).code).toBe('narrowing_refused');
  });
});

describe('two connections', () => {
  test('an edit waits for a read that has been announced, and is refused', async () => {
    await gateway.owner.unsafe(`
      create or replace function hold_open() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(7); return new; end $$;
      create trigger zz_hold before update on earshot.namespaces for each row execute function hold_open()`);
    const held = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
    const read = log.compile();
    await whenBlocked(gateway);
    const edit = log.edit(id, '1', forAna);
    await whenBlocked(gateway, 2);
    await held.commit();
    expect((await edit).code).toBe('narrowing_refused');
    expect(entryMessages(ok(await read))).toHaveLength(1);
    await gateway.owner.unsafe('drop trigger zz_hold on earshot.namespaces');
  });

  test('a read waits for an edit that is under way, and sees it', async () => {
    await gateway.owner.unsafe(`
      create or replace function hold_open() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(7); return new; end $$;
      create trigger zz_hold before update on earshot.log_entries for each row execute function hold_open()`);
    const held = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
    const edit = log.edit(id, '1', forAna);
    await whenBlocked(gateway);
    const read = log.compile();
    await whenBlocked(gateway, 2);
    await held.commit();
    expect(ok(await edit).revision).toBe('2');
    expect(ok(await read).messages).toEqual([]);
    await gateway.owner.unsafe('drop trigger zz_hold on earshot.log_entries');
  });

  test('a read whose announcement cannot be kept does not happen', async () => {
    await gateway.owner.unsafe(`
      create or replace function fail() returns trigger language plpgsql as $$
        begin raise exception 'disk full' using errcode = '53100'; end $$;
      create trigger zz_fail before update on earshot.namespaces for each row execute function fail()`);
    const answers = await Promise.all([
      log.compile(),
      log.preview(),
      log.entries(),
      log.search('secret'),
    ]);
    await gateway.owner.unsafe('drop trigger zz_fail on earshot.namespaces');
    for (const answer of answers) {
      expect(answer.status).toBeGreaterThanOrEqual(500);
      expect(JSON.stringify(answer.body)).not.toContain('a secret');
    }
    ok(await log.edit(id, '1', forAna));
  });
});
