import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';
import { readOf, textsFor, writeTo } from './addressing.ts';

// What was written to the agent of a fork that is closed before a model was sent it: it goes on to the log that the
// forks began with, once.

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;
let log: TestLog;
let fork: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.say('thread', 'ana', 'a question');
  for (const body of ['one', 'two', 'three']) await acme.say('notes', 'ben', body);
  turn = await start();
  log = logOf(gateway, turn);
  fork = await log.fork('side');
});

const sources = (...seqs: string[]) => ({
  sources: seqs.map((seq) => ({ conversation: 'notes', seq })),
});
const alive = async (of: TestLog) => {
  const other = await start();
  await of.by(other).texts();
  return other;
};
const times = <Made>(count: number, make: (n: number) => Made) =>
  Array.from({ length: count }, (_, n) => make(n));

describe('a fork that is closed', () => {
  test('hands on what no model was sent, once, as it was written, with its sources', async () => {
    const form = { id: 'form', provider: 'lab', value: [1] };
    const written = {
      ...{ role: 'user', participant: 'tool' },
      blocks: [
        { ...text('a result'), replay: form },
        { type: 'tool_result', call: 'c', value: { audience: ['x'] } },
      ],
      ...sources('1', '2'),
    };
    const { ids } = ok(await writeTo(log, 'side', written));
    const before = ok(await readOf(log, 'side')).entries;
    await fork.append(entry(text('not for anybody by name')));
    ok(await fork.close());
    const { entries } = ok(await log.entries());
    expect(entries).toEqual(before);
    expect(entries.map(({ id }) => id)).toEqual(ids);
    expect(entries[0]?.sources).toMatchObject([{ seq: '1' }, { seq: '2' }]);
    const ledger = await gateway.owner`
      select l.from_seq, d.tool from earshot.ledger_entries l
      join earshot.decisions d on d.org_id = l.org_id and d.id = l.decision_id
      where l.session_id = ${log.session} and l.to_seq is not null order by l.from_seq`;
    expect(ledger).toEqual([
      { from_seq: '1', tool: 'close' },
      { from_seq: '2', tool: 'close' },
    ]);
    expect((await log.tryAppend([entry({ ...text('rival'), replay: form })])).code).toBe(
      'conflict',
    );
    expect((await fork.close()).code).toBe('session_quarantined');
    expect(await textsFor(log, 'resident')).toEqual(['a result', undefined]);
    await acme.remove('conversations/notes/members/ben');
    expect((await log.compile()).code).toBe('source_revoked');
  });

  test('hands on what waits for its turn too, all of it in the order in which it was written', async () => {
    ok(await writeTo(log, 'side', ...times(20, (n) => entry(text(`a${n.toString()}`)))));
    await alive(fork);
    // What that turn was sent stays. The rest waits for it.
    for (const name of ['b', 'c'])
      expect(
        ok(await writeTo(log, 'side', ...times(100, (n) => entry(text(`${name}${n.toString()}`)))))
          .held,
      ).toBe(true);
    ok(await fork.close());
    expect(await textsFor(log, 'resident')).toEqual(
      ['b', 'c'].flatMap((name) => times(100, (n) => `${name}${n.toString()}`)),
    );
  });

  test('hands on nothing that a model was sent, and all that it was not', async () => {
    ok(await writeTo(log, 'side', entry(text('sent'))));
    expect(await fork.texts()).toEqual(['sent']);
    ok(await writeTo(log, 'side', entry(text('never sent, and many words'))));
    await turn.end('complete');
    const next = await start();
    const [later, side] = [log.by(next), fork.by(next)];
    // None of these is a request that was sent.
    ok(await side.preview());
    ok(await side.entries());
    ok(await side.search('sent'));
    expect((await side.compile({ budget: 1 })).code).toBe('over_budget');
    ok(await side.close());
    expect(await later.texts()).toEqual(['never sent, and many words']);
  });

  test('hands on what only an agent was sent that does not see it', async () => {
    const desk = fork.through((await fork.open({ name: 'desk', agent: 'helper' })).handle);
    ok(await writeTo(fork, 'helper', entry(text('for the helper alone'))));
    ok(await writeTo(fork, 'side', entry(text('for the fork'))));
    expect(await fork.texts()).toEqual(['for the fork']);
    ok(await fork.close());
    expect(await log.texts()).toEqual(['for the helper alone']);
    expect((await desk.compile()).code).toBe('session_quarantined');
  });

  test('hands on what a compile left out because it is for another reader', async () => {
    ok(await writeTo(log, 'side', entry(text('for ana', 'ana')), entry(text('for both'))));
    expect(await fork.texts()).toEqual(['for both']);
    ok(await fork.close());
    expect(await log.texts()).toEqual([]);
    const ana = log.through((await log.open({ name: 'ana', reader: 'ana' })).handle);
    expect(await ana.texts()).toEqual(['for ana']);
  });

  test('hands on nothing that a model was sent, also where one that holds less is put on record later', async () => {
    const [slow, fast] = [await start(), await start()];
    await fork.append(entry(text('first')));
    const condition = `new.turn_id = '${slow.id}'`;
    await holding('turn_places', 'before insert', condition, async (letGo) => {
      const overtaken = fork.by(slow).compile();
      await whenBlocked(gateway);
      ok(await writeTo(log, 'side', entry(text('a result'))));
      expect(await fork.by(fast).texts()).toEqual(['first', 'a result']);
      await letGo();
      expect(JSON.stringify(ok(await overtaken))).not.toContain('a result');
    });
    ok(await fork.close());
    expect(await log.texts()).toEqual([]);
  });

  test('hands on an entry that was edited, as it is then', async () => {
    const { ids } = ok(await writeTo(log, 'side', entry(text('a result'))));
    ok(await fork.edit(ids[0] ?? '', '1', [text('a better result')]));
    ok(await fork.close());
    expect(await log.texts()).toEqual(['a better result']);
  });

  test('hands on to the primary agent, when no turn of it is alive', async () => {
    await log.open({ name: 'desk', agent: 'helper' });
    ok(await log.call('PUT', '/primary', { agent: 'helper' }));
    const desk = log.through((await log.open({ name: 'desk' })).handle);
    ok(await writeTo(log, 'side', entry(text('a result'))));
    const working = await alive(desk);
    ok(await fork.close());
    expect(await textsFor(log, 'helper')).toEqual([]);
    expect(await log.texts()).toEqual([]);
    await working.end('complete');
    expect(await textsFor(log, 'helper')).toEqual(['a result']);
  });

  test('hands on a text without its replay form where the log has one of that name already', async () => {
    const form = { id: 'form', provider: 'lab', value: 'x' };
    await log.append(entry({ ...text('own'), replay: form }));
    ok(await writeTo(log, 'side', entry({ ...text('a result'), replay: form }, text('more'))));
    ok(await fork.close());
    const [, handed] = ok(await log.entries()).entries;
    expect(handed?.blocks).toEqual([text('a result'), text('more')]);
  });

  test('hands on nothing when its own ledger does not stand', async () => {
    ok(await writeTo(log, 'side', entry(text('CANARY'))));
    ok(await writeTo(log, 'side', { ...entry(text('CANARY of it')), ...sources('1') }));
    await acme.remove('conversations/notes/members/ben');
    ok(await fork.close());
    expect(await log.texts()).toEqual([]);
    expect(
      await gateway.owner`select from earshot.log_mail where session_id = ${fork.session}`,
    ).toEqual([]);
  });

  test('that was in quarantine by then hands on nothing', async () => {
    ok(await writeTo(log, 'side', { ...entry(text('CANARY')), ...sources('1') }));
    await acme.remove('conversations/notes/members/ben');
    expect((await fork.compile()).code).toBe('source_revoked');
    expect((await fork.close()).code).toBe('session_quarantined');
    expect(await log.texts()).toEqual([]);
  });
});

test('a session that is closed itself hands on nothing', async () => {
  ok(await writeTo(log, 'side', entry(text('a result'))));
  ok(await log.close());
  const next = logOf(gateway, await start());
  expect(await next.texts()).toEqual([]);
  expect(
    await gateway.owner`
    select from earshot.log_entries where session_id = ${log.session}`,
  ).toEqual([]);
});

describe('a fork for one reader', () => {
  test('hands on what says in each block for whom it is, to them alone, and nothing else', async () => {
    const ana = log.through((await log.open({ name: 'ana', reader: 'ana' })).handle);
    await ana.fork('of ana');
    ok(
      await writeTo(
        log,
        'of ana',
        entry(text('CANARY of the fork')),
        entry(text('for ana', 'ana')),
        entry(text('for ana too', 'ana'), text('CANARY beside it')),
        entry({ type: 'tool_call', id: 'c', name: 'n', arguments: 'CANARY' }),
        { role: 'system', participant: 'host', blocks: [text('CANARY rule')] },
      ),
    );
    const closing = await ana.fork('of ana');
    ok(await closing.close());
    expect(await log.texts()).toEqual([]);
    expect(await ana.texts()).toEqual(['for ana']);
    const shown = await gateway.owner`
      select from earshot.log_entries where session_id = ${log.session} and blocks::text like '%CANARY%'`;
    expect(shown).toEqual([]);
  });
});

describe('a fork of a fork', () => {
  test('hands on to the log that the forks began with, while the one between stays open', async () => {
    const deep = await fork.fork('deep');
    ok(await writeTo(fork, 'deep', entry(text('from deep'))));
    ok(await deep.close());
    expect(await log.texts()).toEqual(['from deep']);
    expect(await fork.texts()).toEqual([]);
  });

  test('hands on with the one that it came from, each entry once', async () => {
    ok(await writeTo(log, 'side', entry(text('to the fork'))));
    const deep = await fork.fork('deep');
    ok(await writeTo(fork, 'deep', entry(text('to the deep one'))));
    expect(await textsFor(fork, 'deep')).toEqual(['to the fork', 'to the deep one']);
    ok(await fork.close());
    expect((await deep.compile()).code).toBe('session_quarantined');
    expect((await log.texts()).sort()).toEqual(['to the deep one', 'to the fork']);
  });
});

describe('an entry that is written while its fork is being closed', () => {
  const rows: [what: string, table: string, condition: string][] = [
    ['as the entry is stored', 'log_entries', 'true'],
    ['as its key is', 'log_appends', 'true'],
    ['as its decision is', 'decisions', `new.tool = 'append'`],
  ];

  test.each(rows)(
    'first is handed on, also where the close waits for it: %s',
    async (_what, table, condition) => {
      await holding(table, 'before insert', condition, async (letGo) => {
        const writing = writeTo(log, 'side', entry(text('in time')));
        await whenBlocked(gateway);
        const closing = fork.close();
        await whenBlocked(gateway, 2);
        await letGo();
        ok(await writing);
        ok(await closing);
      });
      expect(await log.texts()).toEqual(['in time']);
    },
  );

  test('after the close is refused, also where it waits for the close, and is nowhere', async () => {
    await holding('sessions', 'before update', `new.state = 'closed'`, async (letGo) => {
      const closing = fork.close();
      await whenBlocked(gateway);
      const writing = writeTo(log, 'side', entry(text('too late')));
      await whenBlocked(gateway, 2);
      await letGo();
      ok(await closing);
      expect((await writing).code).toBe('session_quarantined');
    });
    expect(await log.texts()).toEqual([]);
  });

  test('and was sent by a compile that is put on record as the close comes, is in one place alone', async () => {
    ok(await writeTo(log, 'side', entry(text('a result'))));
    let sent: Answer | undefined;
    await holding('log_sends', 'before insert', 'true', async (letGo) => {
      const compiling = fork.compile();
      await whenBlocked(gateway);
      const closing = fork.close();
      await answeredOrBlocked(closing, 2);
      await letGo();
      sent = await compiling;
      ok(await closing);
    });
    const handed = (await log.texts()).length;
    expect([sent?.status === 200 ? 1 : 0, handed]).toEqual(sent?.status === 200 ? [1, 0] : [0, 1]);
  });

  test('is never lost and never doubled, whatever comes at once', async () => {
    for (let round = 0; round < 8; round++) {
      const name = `fork ${round.toString()}`;
      const side = await log.fork(name);
      const [writer, reader] = [await start(), await start()];
      const bodies = times(6, (n) => `${round.toString()}:${n.toString()}`);
      const [written, sent] = await Promise.all([
        Promise.all(bodies.map((body) => writeTo(log.by(writer), name, entry(text(body))))),
        side.by(reader).compile(),
        side.close(),
      ]);
      const stored = bodies.filter((_, n) => written[n]?.status === 200);
      for (const { code, status } of [...written, sent])
        expect(status === 200 || code === 'session_quarantined' || code === 'not_found').toBe(true);
      const inFork = sent.status === 200 ? JSON.stringify(sent.body) : '';
      await Promise.all([writer.end('complete'), reader.end('complete')]);
      const inLog = await textsFor(log, 'resident');
      for (const body of bodies) {
        const times = inLog.filter((one) => one === body).length;
        const expected = stored.includes(body) && !inFork.includes(`"${body}"`) ? 1 : 0;
        expect([body, times]).toEqual([body, expected]);
      }
    }
  });
});

/** Waits until a call is answered, or until so many wait for a lock. */
async function answeredOrBlocked(call: Promise<unknown>, count: number): Promise<void> {
  const waiting = { ended: false };
  const end = () => {
    waiting.ended = true;
  };
  call.then(end, end);
  for (;;) {
    const blocked = await gateway.owner`
      select from pg_stat_activity
      where datname = current_database() and usename = 'earshot_gateway' and wait_event_type = 'Lock'`;
    if (waiting.ended || blocked.length >= count) return;
  }
}

/** Holds whoever reaches this row, until it is let go. */
async function holding(
  table: string,
  when: string,
  condition: string,
  work: (letGo: () => Promise<void>) => Promise<void>,
) {
  await gateway.owner.unsafe(`
    create function public.hold_open() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(7); return new; end $$;
    create trigger zz_hold ${when} on earshot.${table} for each row when (${condition})
      execute function public.hold_open()`);
  const held = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
  let isHeld = true;
  const letGo = async () => {
    if (isHeld) await held.commit();
    isHeld = false;
  };
  try {
    await work(letGo);
  } finally {
    await letGo();
    await gateway.owner.unsafe('drop function public.hold_open() cascade');
  }
}
