import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// Writing to a log, and reading on in it.

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;
let log: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'a question');
  turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  log = logOf(gateway, turn);
});

/** Reads on from a cursor, page by page, to the end. */
async function readOn(
  of: TestLog,
  after?: string,
  limit = 2,
): Promise<[string[], string | undefined]> {
  const texts: string[] = [];
  for (;;) {
    const page = ok(
      await of.entries(`limit=${limit.toString()}${after === undefined ? '' : `&after=${after}`}`),
    );
    texts.push(...page.entries.flatMap(({ blocks }) => blocks.map((block) => String(block.text))));
    after = page.cursor;
    if (page.complete) return [texts, after];
  }
}

describe('appending', () => {
  test('keeps the order, role, participant and blocks as they are', async () => {
    const blocks = [
      text('hello, \\u0000 wörld 👩‍👩‍👧 "10.5"'),
      { type: 'image', mediaType: 'image/png', data: 'AAAA' },
      { type: 'tool_call', id: 'c1', name: 'sum', arguments: { of: [1, 2.5, null, true] } },
      { type: 'tool_result', call: 'c1', content: [text('3.5')], value: '10.5', isError: false },
      { type: 'thinking', text: 'so' },
      { type: 'raw', provider: 'lab', value: { any: [{}] } },
    ];
    await log.append(
      { role: 'system', participant: 'host', blocks: [text('be kind')] },
      { role: 'user', participant: 'ana', blocks: [text('first')] },
      { role: 'agent', participant: 'assistant', blocks },
    );
    const { entries } = ok(await log.entries());
    expect(entries.map(({ role, participant, blocks }) => ({ role, participant, blocks }))).toEqual(
      [
        { role: 'system', participant: 'host', blocks: [text('be kind')] },
        { role: 'user', participant: 'ana', blocks: [text('first')] },
        { role: 'agent', participant: 'assistant', blocks },
      ],
    );
  });

  test('under one key appends once, and another request with it is a conflict', async () => {
    const entries = [entry(text('once')), entry(text('and once'))];
    const first = ok(await log.tryAppend(entries, 'key'));
    expect(ok(await log.tryAppend(entries, 'key')).ids).toEqual(first.ids);
    const twice = await Promise.all([1, 2, 3].map(() => log.tryAppend(entries, 'many')));
    expect(new Set(twice.map((answer) => ok(answer).ids.join())).size).toBe(1);
    expect((await log.tryAppend([entry(text('other'))], 'key')).code).toBe('conflict');
    expect(await log.texts()).toEqual(['once', 'and once', 'once', 'and once']);
  });

  test('by a repetition is checked live', async () => {
    const entries = [entry(text('once'))];
    ok(await log.tryAppend(entries, 'key'));
    await acme.put('conversations/thread/members/cleo', { history: 'all' }).catch(() => undefined);
    await turn.end('stop');
    expect((await log.tryAppend(entries, 'key')).code).toBe('turn_not_running');
  });

  test('from many at once loses and doubles nothing', async () => {
    const bodies = Array.from({ length: 40 }, (_, n) => `number ${n.toString()}`);
    await Promise.all(bodies.map((body) => log.append(entry(text(body)))));
    expect((await log.texts()).sort()).toEqual([...bodies].sort());
    const [texts] = await readOn(log);
    expect(texts.sort()).toEqual([...bodies].sort());
  });
});

describe('reading on', () => {
  test('gives each entry once, and one that was edited again', async () => {
    const [first = ''] = await log.append(
      entry(text('one')),
      entry(text('two')),
      entry(text('three')),
    );
    const [texts, cursor] = await readOn(log);
    expect(texts).toEqual(['one', 'two', 'three']);
    await log.append(entry(text('four')));
    ok(await log.edit(first, '1', [text('uno')]));
    expect(await readOn(log, cursor)).toEqual([['four', 'uno'], expect.any(String)]);
    expect(await log.texts()).toEqual(['uno', 'two', 'three', 'four']);
  });

  test('does not skip an entry that commits late', async () => {
    await gateway.owner.unsafe(`
      create or replace function hold_open() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(7); return new; end $$;
      create trigger zz_hold before insert on earshot.log_entries for each row
        when (new.blocks #>> '{0,text}' = 'late') execute function hold_open()`);
    const held = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
    await log.append(entry(text('before')));
    const late = log.append(entry(text('late')));
    await whenBlocked(gateway);
    const after = log.append(entry(text('after')));
    await whenBlocked(gateway, 2);
    // Whoever reads now waits for what is under way, or does not see what comes after it.
    const reading = readOn(log);
    await whenBlocked(gateway, 3);
    await held.commit();
    const [texts, cursor] = await reading;
    await Promise.all([late, after]);
    const [rest] = await readOn(log, cursor);
    expect([...texts, ...rest]).toEqual(['before', 'late', 'after']);
    await gateway.owner.unsafe('drop trigger zz_hold on earshot.log_entries');
  });

  test('while others append and edit gives everything, each once', async () => {
    const seen: string[] = [];
    const writing = { ended: false };
    const writers = Promise.all(
      [1, 2, 3].map(async (writer) => {
        for (let n = 0; n < 12; n++)
          await log.append(entry(text(`${writer.toString()}:${n.toString()}`)));
      }),
    ).then(() => {
      writing.ended = true;
    });
    let cursor: string | undefined;
    for (let last = false; !last;) {
      last = writing.ended;
      const [texts, next] = await readOn(log, cursor, 3);
      seen.push(...texts);
      cursor = next;
    }
    await writers;
    expect(new Set(seen).size).toBe(36);
    expect(seen).toHaveLength(36);
  });

  test('from a cursor that nobody gave is refused', async () => {
    await log.append(entry(text('one')));
    for (const after of ['1', `${randomUUID()}.1`, randomUUID(), `${randomUUID()}.0`])
      expect((await log.entries(`after=${after}`)).code).toBe('invalid_input');
  });
});

describe('several agents on one log', () => {
  test('read it each through its own view, at their own pace', async () => {
    const one = log.through(
      (await log.open({ name: 'one', agent: 'first', reader: 'agent:first' })).handle,
    );
    const two = log.through(
      (await log.open({ name: 'two', agent: 'second', reader: 'agent:second' })).handle,
    );
    await log.append(entry(text('for all'), text('for the first', 'agent:first')));
    const [, cursor] = await readOn(one);
    await log.append(entry(text('for the second', 'agent:second')), entry(text('again for all')));
    expect((await readOn(one, cursor))[0]).toEqual(['again for all']);
    expect((await readOn(two))[0]).toEqual(['for all', 'for the second', 'again for all']);
  });

  test('pin each for itself', async () => {
    const [id = ''] = await log.append(entry(text('keep')), entry(text('let go')));
    const one = log.through((await log.open({ name: 'one' })).handle);
    ok(await one.pin(id));
    ok(await one.pin(id));
    expect(ok(await one.pins()).entries.map(({ id }) => id)).toEqual([id]);
    expect(ok(await log.pins()).entries).toEqual([]);
    ok(await one.unpin(id));
    expect(ok(await one.pins()).entries).toEqual([]);
  });
});
