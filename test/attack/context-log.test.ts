import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { LogRange } from '../../sessions/view-shape.ts';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// Attempts to get what a log holds for some readers out of it by haste, by odd input and through forks.

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
  turn = await start();
  log = logOf(gateway, turn);
});

const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
const place = async (of: TestLog, reader: string) =>
  of.through((await of.open({ name: `of ${reader}`, reader })).handle);
const times = <Made>(count: number, make: (n: number) => Made) =>
  Array.from({ length: count }, (_, n) => make(n));
const textsOf = (entries: LogRange['entries']) =>
  entries.flatMap(({ blocks }) => blocks.map((block) => String(block.text)));

/** Sends entries as they are spelled. */
const spelled = (blocks: string) =>
  gateway.send('POST', `/v1/sessions/${log.session}/entries?audience=${turn.grant.audienceHash}`, {
    token: turn.grant.token,
    key: crypto.randomUUID(),
    body: `{"entries":[{"role":"agent","participant":"assistant","blocks":[${blocks}]}]}`,
  });

describe('in haste', () => {
  test('a namespace that several claim at once has one reader, and shows what is another’s through no handle', async () => {
    await log.append(
      entry(text('plain'), text('of ana', 'ana')),
      entry(text('plain'), text('of ben', 'ben')),
    );
    for (const name of times(8, (n) => `desk ${n.toString()}`)) {
      const openAndRead = async (reader?: string) => {
        const opened = await log.tryOpen({ name, ...(reader !== undefined && { reader }) });
        if (opened.status !== 200) return opened.code;
        const read = await log.through(opened.body.handle).compile();
        if (read.status !== 200) return read.code;
        const shown = JSON.stringify(read.body);
        // One that named no reader may have opened it before or after the claim.
        if (opened.body.reader !== 'ana') expect(shown).not.toContain('of ana');
        if (opened.body.reader !== 'ben') expect(shown).not.toContain('of ben');
        return opened.body.reader ?? 'everybody';
      };
      const outcomes = await Promise.all(
        ['ana', undefined, 'ben', 'ana', undefined, 'ben'].map(openAndRead),
      );
      const readers = outcomes.filter(
        (outcome) => outcome !== 'conflict' && outcome !== 'not_found',
      );
      expect(new Set(readers).size).toBe(1);
    }
  });

  test('an entry is shown to all before it is narrowed or hidden, and never both', async () => {
    const writer = log.by(await start());
    for (let round = 0; round < 10; round++) {
      const secret = `secret ${round.toString()}`;
      const [id = ''] = await log.append(entry(text(secret)));
      const [seen, edit] = await Promise.all([
        log.texts(),
        writer.edit(id, '1', [text(secret, 'ana')]),
        log.search('nothing'),
      ]);
      if (seen.includes(secret)) expect(edit.code).toBe('narrowing_refused');
      if (edit.status === 200) expect(seen).not.toContain(secret);
      expect([200, 409]).toContain(edit.status);
    }
  });

  test('an answer that was proposed while a block for some readers was read does not leave', async () => {
    await log.append(entry(text('plain'), text('of ana', 'ana')));
    const { handle } = await log.open({ name: 'ana', reader: 'ana' });
    for (let round = 0; round < 5; round++) {
      const next = await start();
      const ana = log.through(handle).by(next);
      const [, proposed, later] = await Promise.all([
        ana.compile().then(ok),
        next.propose('an answer'),
        next.propose('another'),
      ]);
      for (const { status, body } of [proposed, later]) {
        expect(status).toBe(200);
        if (body.status === 'cleared')
          expect((await acme.release(body)).code).toBe('narrowing_refused');
        else expect(body.code).toBe('narrowing_refused');
      }
      expect((await log.by(next).tryAppend([entry(text('made'))])).code).toBe('narrowing_refused');
    }
  });

  test('a key appends once in each turn and each log, however many send it at once', async () => {
    const fork = await log.fork('side');
    const next = await start();
    const places = [log, log.by(next), fork, fork.by(next)];
    const sent = await Promise.all(
      places.flatMap((at) => times(3, () => at.tryAppend([entry(text('once'))], 'key'))),
    );
    const ids = sent.map((answer) => ok(answer).ids.join());
    for (let n = 0; n < ids.length; n += 3)
      expect(new Set(ids.slice(n, n + 3))).toEqual(new Set([ids[n]]));
    expect(new Set(ids).size).toBe(4);
    expect(await log.texts()).toEqual(['once', 'once']);
    expect(await fork.texts()).toEqual(['once', 'once']);
    const rivals = await Promise.all(
      times(6, (n) => log.tryAppend([entry(text(`rival ${n.toString()}`))], 'contested')),
    );
    expect(rivals.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(rivals.filter(({ code }) => code === 'conflict')).toHaveLength(5);
  });

  test('an append that its caller gave up is there once when it is sent again', async () => {
    const held = await holdOpen(
      gateway,
      (sql) => sql`select from earshot.log_heads where session_id = ${log.session} for update`,
    );
    const given = new AbortController();
    const path = `/v1/sessions/${log.session}/entries?audience=${turn.grant.audienceHash}`;
    const json = { entries: [entry(text('once'))] };
    const options = { token: turn.grant.token, key: 'key', json };
    const first = gateway
      .send('POST', path, { ...options, signal: given.signal })
      .catch(() => undefined);
    await whenBlocked(gateway);
    given.abort();
    const second = gateway.send('POST', path, options);
    await whenBlocked(gateway);
    await held.commit();
    await first;
    ok(await second);
    expect(await log.texts()).toEqual(['once']);
  });

  test('whatever is asked of a log at once is answered, and nothing is lost or doubled', async () => {
    const [first = ''] = await log.append(entry(text('first')), entry(text('second')));
    const forked = await log.fork('side');
    const turns = await Promise.all(times(3, start));
    const minting = await start();
    const written: string[] = [];
    const answers: Answer[] = [];
    const keep = async (asked: Promise<Answer>) => {
      answers.push(await asked);
    };
    const append = async (at: TestLog, body: string) => {
      const { status } = await at.tryAppend([entry(text(body))], body);
      if (status === 200) written.push(body);
      else answers.push({ status } as Answer);
    };
    const carry = async (by: TestTurn, worker: number) => {
      const at = log.by(by);
      const name = `desk ${(worker % 2).toString()}`;
      for (let round = 0; round < 6; round++) {
        const body = `${worker.toString()}:${round.toString()}`;
        const side = forked.by(by);
        await Promise.all([
          append(at, body),
          keep(at.edit(first, (round + 1).toString(), [text(`first ${body}`)])),
          keep(at.compile()),
          keep(at.tryOpen({ name, reader: `reader ${worker.toString()}` })),
        ]);
        await Promise.all([
          keep(at.pin(first)),
          keep(at.unpin(first)),
          keep(at.tryFork(`fork ${round.toString()}`)),
          keep(at.call('PUT', '/primary', { agent: 'resident' })),
          keep(side.tryAppend([entry(text(body))])),
          keep(side.search('first')),
          keep(by.propose(body)),
          keep(minting.mint()),
        ]);
      }
      await Promise.all([keep(forked.by(by).close()), keep(by.end('complete')), keep(at.pins())]);
    };
    await Promise.all(turns.map(carry));

    expect(answers.filter(({ status }) => status >= 500 || status === 429)).toEqual([]);
    expect(written).toHaveLength(18);
    const shown = ok(await log.entries('limit=1000')).entries;
    const ownTexts = textsOf(shown).filter((body) => !body.startsWith('first'));
    expect(ownTexts.sort()).toEqual(['second', ...written].sort());
    expect(shown).toHaveLength(20);
  });
});

describe('by odd input', () => {
  test('an id that only looks like a reader’s is another reader', async () => {
    const names = ['ANA', 'аna', 'ana ', ' ana', 'ana\u200b', '\u00adana', 'аnа', '*', '{ana}'];
    const inherited = ['__proto__', 'constructor', 'null', 'true', '0'];
    for (const name of [...names, ...inherited])
      await log.append(entry(text(`CANARY of ${name}`, name)));
    const reading = log.by(await start());
    for (const name of [...names, ...inherited])
      expect(await (await place(reading, name)).texts()).toEqual([`CANARY of ${name}`]);
    const later = log.by(await start());
    expect(await (await place(later, 'ana')).texts()).toEqual([]);
    expect(await later.texts()).toEqual([]);
    for (const name of ['ana\u0301', 'ana\n', 'ana\0', '', ['ana'], null])
      expect((await log.tryOpen({ name: 'odd', reader: name })).code).toBe('invalid_input');
  });

  test('a reader who is named twice, or among a thousand, is named', async () => {
    const crowd = times(998, (n) => `reader ${n.toString()}`);
    await log.append(
      entry(text('twice', 'ana', 'ana')),
      entry({ ...text('crowd'), audience: [...crowd, 'ben', 'ana'] }),
      entry({ ...text('others'), audience: [...crowd, 'ana'] }),
    );
    expect((await log.tryAppend([entry(text('too many', ...crowd, '1', '2', '3'))])).code).toBe(
      'invalid_input',
    );
    expect(await log.texts()).toEqual(['crowd']);
    const later = log.by(await start());
    expect(await (await place(later, 'ana')).texts()).toEqual(['twice', 'crowd', 'others']);
  });

  test('a field of that name inside the data of a tool hides nothing and takes nobody in', async () => {
    const data = { audience: ['ben'], content: [{ audience: null }], replay: { id: 'r' } };
    const blocks = [
      { type: 'tool_call', id: 'c', name: 'n', arguments: data },
      { type: 'tool_result', call: 'c', content: [text('x')], value: data },
      { ...text('shared'), replay: { id: 'q', provider: 'lab', value: data } },
      { type: 'raw', provider: 'lab', value: data },
    ];
    await log.append(entry(...blocks));
    expect(ok(await log.entries()).entries[0]?.blocks).toEqual(blocks);
    expect(ok(await turn.propose('to all')).status).toBe('cleared');
  });

  test('data with names that every object has comes back as it was', async () => {
    const data = '{"__proto__":{"audience":["x"]},"constructor":{"prototype":1},"":[],"a":{"":0}}';
    ok(
      await spelled(
        `{"type":"tool_call","id":"__proto__","name":"constructor","arguments":${data}}`,
      ),
    );
    const [stored] = ok(await log.entries()).entries;
    const given = stored?.blocks[0]?.arguments as Record<string, unknown>;
    expect(Object.keys(given).sort()).toEqual(['', '__proto__', 'a', 'constructor']);
    expect(given.a).toEqual({ '': 0 });
    expect(({} as Record<string, unknown>).audience).toBeUndefined();
  });

  test.each(['"\\u0000"', '"\\ud800"', '{"\\u0000":1}', '{"a":[{"\\udc00":1}]}'])(
    'text that nothing can store is refused wherever it stands: %s',
    async (value) => {
      for (const block of [
        `{"type":"tool_call","id":"c","name":"n","arguments":${value}}`,
        `{"type":"tool_result","call":"c","value":${value}}`,
        `{"type":"raw","provider":"lab","value":${value}}`,
        `{"type":"text","text":"x","replay":{"id":"r","provider":"lab","value":${value}}}`,
      ])
        expect((await spelled(block)).code).toBe('invalid_input');
      expect(await log.texts()).toEqual([]);
    },
  );

  test('a cursor, a handle and an entry of another log open nothing', async () => {
    const request = { destination: 'thread', requester: 'ana', trigger: '1', threadKey: 'other' };
    const other = logOf(gateway, await acme.turn(request));
    const [id = ''] = await other.append(entry(text('CANARY')));
    const { handle } = await other.open({ name: 'ana', reader: 'ana' });
    await log.append(entry(text('mine')));
    expect((await log.entries(`after=${id}.1`)).code).toBe('invalid_input');
    expect((await log.entries(`after=${id}.9999999999999999999`)).code).toBe('invalid_input');
    for (const answer of [
      await log.through(handle).compile(),
      await log.tryOpen({ name: 'derived', from: handle }),
      await log.through(handle).tryFork('side'),
      await log.summaryInput(id, id),
      await log.pin(id),
      await log.edit(id, '1', [text('x')]),
    ])
      expect(answer.code).toBe('not_found');
    const repeated = await log.entries(`audience=${turn.grant.audienceHash}`);
    expect(repeated.code).toBe('invalid_input');
  });
});

describe('through forks', () => {
  test('a block for another reader is in no fork of a fork, and in no place that is derived there', async () => {
    await log.append(
      entry(text('plain'), text('CANARY of ana', 'ana'), text('CANARY of nobody')),
      entry(text('CANARY of ana alone', 'ana')),
    );
    const [mixed = ''] = ok(await log.entries()).entries.map(({ id }) => id);
    const writer = log.by(await start());
    expect((await writer.edit(mixed, '1', [text('plain'), text('hidden', 'ana')])).code).toBe(
      'narrowing_refused',
    );
    const ben = await place(log, 'ben');
    const second = await (await ben.fork('first')).fork('second');
    const derived = await second.open({ name: 'derived', reader: 'ben' });
    const ana = await place(second, 'ana');
    for (const at of [second, second.through(derived.handle), ana]) {
      const shown = JSON.stringify([ok(await at.compile()), ok(await at.search('canary'))]);
      expect(shown).not.toContain('of ana');
      const { entries } = ok(await at.describe());
      expect(entries).toBe('1');
    }
  });

  test('a turn that was shown a block in a fork is bound in every log of its session', async () => {
    await log.append(entry(text('of ana', 'ana')));
    const ana = await place(log, 'ana');
    const fork = await (await ana.fork('first')).fork('second');
    expect(await fork.texts()).toEqual(['of ana']);
    for (const at of [log, fork])
      expect((await at.tryAppend([entry(text('made'))])).code).toBe('narrowing_refused');
    expect(ok(await turn.propose('made')).code).toBe('narrowing_refused');
    const minted = log.by({ grant: ok(await turn.mint()) });
    expect((await minted.tryAppend([entry(text('made'))])).code).toBe('narrowing_refused');
  });

  test('of a closed session, none is made, read or written to, also where a call waited for the close', async () => {
    await log.append(entry(text('CANARY')));
    const fork = await log.fork('side');
    const held = await holdOpen(
      gateway,
      (sql) => sql`select from earshot.log_heads where session_id = ${fork.session} for update`,
    );
    const closing = fork.close();
    await whenBlocked(gateway);
    const waiting = [
      fork.compile(),
      fork.tryAppend([entry(text('late'))]),
      fork.tryFork('late'),
      fork.tryOpen({ name: 'late' }),
    ];
    await whenBlocked(gateway, 1 + waiting.length);
    await held.commit();
    ok(await closing);
    // Each of them came before the close or after it.
    for (const { status, code } of await Promise.all<Answer>(waiting))
      expect(status === 200 || code === 'session_quarantined').toBe(true);
    for (const answer of await Promise.all<Answer>([
      fork.compile(),
      fork.entries(),
      fork.describe(),
      fork.pins(),
      fork.search('canary'),
      fork.tryAppend([entry(text('late'))]),
      fork.tryFork('later'),
      fork.tryOpen({ name: 'later' }),
      fork.close(),
    ]))
      expect(answer.code).toBe('session_quarantined');
    expect(await log.texts()).toEqual(['CANARY']);
  });
});
