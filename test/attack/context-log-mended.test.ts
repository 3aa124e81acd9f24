import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, messagesAmong, type TestLog, text } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// Attempts that once got something out of a log, or broke it, in the smallest form that did.

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
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.say('thread', 'ana', 'a question');
  for (const body of ['one', 'two', 'three']) await acme.say('notes', 'ben', body);
  turn = await start();
  log = logOf(gateway, turn);
});

const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
const reader = async (name: string, of = log) =>
  of.through((await of.open({ name: `of ${name}`, reader: name })).handle);
const times = <Made>(count: number, make: (n: number) => Made) =>
  Array.from({ length: count }, (_, n) => make(n));
const raw = { type: 'raw', provider: 'lab', value: 'all of it' };
const proposed = async (by: TestTurn) => {
  const { status, code } = ok(await by.propose('an answer'));
  return code ?? status;
};

describe('through edits', () => {
  test('the form of a provider, which goes, moves none of the blocks that an editor does not see', async () => {
    const [id = ''] = await log.append(
      entry(raw, text('one'), text('of ben', 'ben'), text('two'), text('of ben too', 'ben')),
    );
    ok(await (await reader('ana')).edit(id, '1', [text('uno'), text('due')]));
    expect(await (await reader('ben')).texts()).toEqual(['uno', 'of ben', 'due', 'of ben too']);
  });

  test('a replay form is of one entry, whether that is appended or edited', async () => {
    const of = (id: string) => ({ replay: { id, provider: 'lab', value: 'CANARY' } });
    const shared = [
      entry({ ...text('plain'), ...of('r') }),
      entry({ ...text('of ben', 'ben'), ...of('r') }),
    ];
    expect((await log.tryAppend(shared)).code).toBe('conflict');
    expect(await log.texts()).toEqual([]);

    await log.append(entry({ ...text('of ben', 'ben'), ...of('r') }));
    const [plain = ''] = await log.append(entry({ ...text('plain'), ...of('q') }));
    const fork = await log.fork('side');
    for (const at of [log, fork]) {
      expect((await at.edit(plain, '1', [{ ...text('plain'), ...of('r') }])).code).toBe('conflict');
      ok(await at.edit(plain, '1', [{ ...text('again'), ...of('q') }]));
      expect(ok(await at.compile()).messages[0]?.content).toEqual([
        { ...text('again'), ...of('q') },
      ]);
    }
  });
});

describe('through forks and places', () => {
  test('a source stays with its block in a fork that leaves out the form of a provider before it', async () => {
    await log.append({
      ...entry(raw, text('of both', 'ana', 'ben'), text('plain'), text('of ben', 'ben')),
      sources: [
        { conversation: 'notes', seq: '1', block: 1 },
        { conversation: 'notes', seq: '2', block: 2 },
      ],
    });
    const fork = await (await reader('ana')).fork('side');
    const seqs = async (of: TestLog) =>
      messagesAmong(ok(await of.compile()).provenance[0]?.sources).map(({ seq }) => seq);
    expect(await seqs(await reader('ben', fork))).toEqual(['1', '2']);
    expect(await seqs(await reader('stranger', fork))).toEqual(['2']);
  });

  test('a place that is there, and is opened from one that was read in, forks as if it had read there', async () => {
    const [id = ''] = await log.append(entry(text('of ana', 'ana')));
    const { handle } = await log.open({ name: 'read', reader: 'ana' });
    await log.through(handle).compile();
    const unread = await log.open({ name: 'unread', reader: 'ana' });
    const edit = async (name: string) => {
      const fork = await log.through(unread.handle).fork(name);
      return fork.by(await start()).edit(id, '1', [{ ...text('of ana'), audience: [] }]);
    };
    ok(await edit('before'));
    expect((await log.open({ name: 'unread', from: handle })).handle).toBe(unread.handle);
    expect((await edit('after')).code).toBe('narrowing_refused');
  });

  test.each([
    ['in the log', () => log.open({ name: 'desk', agent: 'stranger' })],
    ['as a fork', () => log.fork('stranger')],
    ['in a fork', async () => (await log.fork('side')).open({ name: 'desk', agent: 'stranger' })],
  ])(
    'an agent that is registered first, %s, makes no name an agent’s',
    async (_where, register) => {
      await register();
      await log.append(entry(text('of a stranger', 'stranger')));
      expect(await (await reader('stranger')).texts()).toEqual(['of a stranger']);
      expect(await proposed(turn)).toBe('narrowing_refused');
    },
  );

  test('a block for agents and a person is for that person, and one for agents alone binds nobody', async () => {
    await log.append(entry(text('among agents', 'agent:desk')));
    const desk = await reader('agent:desk');
    expect(await desk.texts()).toEqual(['among agents']);
    expect(await proposed(turn)).toBe('cleared');
    await log.append(entry(text('of ana', 'agent:desk', 'ana')));
    expect(await desk.texts()).toEqual(['among agents', 'of ana']);
    expect(await proposed(turn)).toBe('narrowing_refused');
  });
});

describe('by what is told of what is not shown', () => {
  test.each([
    [
      'the total of a search that shows less',
      async (ana: TestLog) => {
        const found = await ana.call<{ total: string; entries: { blocks: object[] }[] }>(
          'POST',
          '/search',
          { query: '30', limit: 1 },
        );
        const { total, entries } = ok(found);
        expect([total, entries.map(({ blocks }) => blocks)]).toEqual(['2', [[text('10 20 30')]]]);
      },
    ],
    [
      'a page that says that there is more',
      async (ana: TestLog) => {
        const { complete, entries } = ok(await ana.entries('limit=1'));
        expect(complete).toBe(false);
        expect(entries.map(({ blocks }) => blocks)).toEqual([[text('10 20 30')]]);
      },
    ],
  ])('%s binds like what it tells of', async (_what, look) => {
    await log.append(entry(text('10 20 30')), entry(text('ana has 30', 'ana')));
    await look(await reader('ana'));
    expect(await proposed(turn)).toBe('narrowing_refused');
  });

  test('a page binds by nothing that it neither shows nor says is there', async () => {
    const [, last = ''] = await log.append(entry(text('ana has 30', 'ana')), entry(text('plain')));
    const { complete, entries } = ok(await (await reader('ana')).entries(`after=${last}.1`));
    expect([complete, entries]).toEqual([true, []]);
    expect(await proposed(turn)).toBe('cleared');
  });
});

describe('in haste', () => {
  test('no fork outlives the close of what it came from, however far below and however late it is made', async () => {
    const first = await log.fork('first');
    const second = await first.fork('second');
    const held = await heldAt('sessions', "new.fork_name = 'third'");
    try {
      const forking = second.tryFork('third');
      await whenBlocked(gateway);
      const closing = first.close();
      await answeredOrBlocked(closing, 2);
      await held.commit();
      ok(await closing);
      const { session } = ok(await forking);
      const path = `/v1/sessions/${session}/compile?audience=${turn.grant.audienceHash}`;
      const read = await gateway.send('POST', path, { token: turn.grant.token });
      expect(read.code).toBe('session_quarantined');
    } finally {
      await held.end();
    }
    ok(await log.compile());
  });

  test('an append and a read that bring the same messages into a session never wait for each other', async () => {
    const held = await heldAt('log_entries', "new.blocks #>> '{0,text}' = 'second'");
    await gateway.owner.unsafe(`
      create trigger zz_hold before insert on earshot.ledger_entries for each row
        when (new.from_seq = 2) execute function public.hold_open('counted')`);
    try {
      const append = log.tryAppend(
        ['3', '1'].map((seq) => ({
          ...entry(text(seq === '3' ? 'first' : 'second')),
          sources: [{ conversation: 'notes', seq }],
        })),
      );
      await whenBlocked(gateway);
      const read = turn.tool('read', { conversation: 'notes' });
      await answeredOrBlocked(read, 2);
      await held.commit();
      expect([(await append).status, (await read).status]).toEqual([200, 200]);
      // Each of them once: one that lost to the other would have been run again.
      const [attempts] = await gateway.owner`select last_value::integer as n from public.attempts`;
      expect(attempts?.n).toBe(2);
    } finally {
      await held.end();
    }
  });
});

describe('by odd input', () => {
  const holding = (value: string) => [
    `{"type":"tool_call","id":"c","name":"n","arguments":${value}}`,
    `{"type":"tool_result","call":"c","value":${value}}`,
    `{"type":"raw","provider":"lab","value":${value}}`,
    `{"type":"text","text":"x","replay":{"id":"r","provider":"lab","value":${value}}}`,
  ];
  const nested = (levels: number) => [
    `${'['.repeat(levels)}${']'.repeat(levels)}`,
    `${'{"a":'.repeat(levels - 1)}1${'}'.repeat(levels - 1)}`,
  ];

  test.each([65, 4107, 20_000])(
    'data that is nested %i levels deep is refused wherever it stands, and a log stays readable',
    async (levels) => {
      const [id = ''] = await log.append(entry(text('plain')));
      for (const block of nested(levels).flatMap(holding)) {
        expect((await appended(block)).code).toBe('invalid_input');
        expect((await edited(id, block)).code).toBe('invalid_input');
      }
      expect(await log.texts()).toEqual(['plain']);
    },
  );

  test('data that is nested 64 levels deep comes back as it was', async () => {
    const values = nested(64);
    for (const value of values) ok(await appended(holding(value)[0] ?? ''));
    const { entries } = ok(await log.entries());
    expect(entries.map(({ blocks }) => JSON.stringify(blocks[0]?.arguments))).toEqual(values);
  });

  test.each(['1e400', '-1e400', '9007199254740993', '-12345678901234567890', '1e300'])(
    'a number that would come back as another one is refused: %s',
    async (number) => {
      for (const block of [number, `{"a":[${number}]}`].flatMap(holding))
        expect((await appended(block)).code).toBe('invalid_input');
      expect(await log.texts()).toEqual([]);
    },
  );

  test('a number that can be kept comes back as it was', async () => {
    const numbers = [9007199254740991, -9007199254740991, 0.1, -2.5e-7, 5e-324, 1e15, 0];
    ok(await appended(holding(JSON.stringify(numbers))[0] ?? ''));
    expect(ok(await log.entries()).entries[0]?.blocks[0]?.arguments).toEqual(numbers);
  });
});

describe('by size', () => {
  test('blocks that name very many readers are read within the time that a statement has', async () => {
    const crowd = times(997, (n) => `name ${n.toString()}`);
    const blocks = (from: number) =>
      times(60, (n) => ({
        ...text('many'),
        audience: [...crowd, `another ${(from + n).toString()}`, 'ana', 'ben'],
      }));
    await log.append(entry(...blocks(0)));
    await log.append(entry(...blocks(60)));
    expect(await log.texts()).toHaveLength(120);
    expect(ok(await log.search('many')).total).toBe('2');
    expect(await proposed(turn)).toBe('cleared');
  });

  test('an answer holds at most 32 MiB of a log: a page ends there, and what has no pages is refused', async () => {
    const [first = '', second = '', third = ''] = await log.append(
      ...['one', 'two', 'three'].map((body) => entry(text(body))),
    );
    await gateway.owner`
      update earshot.log_entries
      set blocks = jsonb_set(blocks, '{0,text}', to_jsonb(blocks #>> '{0,text}' || repeat('x', 17 * 1024 * 1024)))
      where session_id = ${log.session} and id <> ${first}`;
    for (const id of [second, third]) ok(await log.pin(id));
    for (const answer of [
      await log.compile(),
      await log.preview(),
      await log.summaryInput(first, third),
      await log.pins(),
    ])
      expect([answer.status, answer.code]).toEqual([413, 'too_large']);

    const page = ok(await log.entries());
    expect([page.entries.map(({ id }) => id), page.complete]).toEqual([[first, second], false]);
    const rest = ok(await log.entries(`after=${page.cursor ?? ''}`));
    expect([rest.entries.map(({ id }) => id), rest.complete]).toEqual([[third], true]);
    const found = ok(await log.search('t'));
    expect([found.entries.map(({ id }) => id), found.total]).toEqual([[second], '2']);
    expect(ok(await log.summaryInput(first, second)).entries).toHaveLength(2);
    ok(await log.unpin(second));
    expect(ok(await log.pins()).entries).toHaveLength(1);
  });
});

interface HeldRows {
  /** Lets them be written. */
  commit(): Promise<void>;
  end(): Promise<void>;
}

/** Lets no row of a table that is like this be written until the end of it, and counts the attempts. */
async function heldAt(table: string, like: string): Promise<HeldRows> {
  await gateway.owner.unsafe(`
    create sequence public.attempts;
    create function public.hold_open() returns trigger language plpgsql security definer as $$
      begin
        perform nextval('public.attempts');
        if tg_argv[0] = 'held' then perform pg_advisory_xact_lock(7); end if;
        return new;
      end $$;
    create trigger zz_hold before insert on earshot.${table} for each row
      when (${like}) execute function public.hold_open('held')`);
  const held = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
  let isHeld = true;
  const commit = async () => {
    if (isHeld) await held.commit();
    isHeld = false;
  };
  return {
    commit,
    async end() {
      await commit();
      await gateway.owner`drop function public.hold_open() cascade`;
      await gateway.owner`drop sequence public.attempts`;
    },
  };
}

/** Waits until a call is answered, or until so many wait for a lock. */
async function answeredOrBlocked(call: Promise<unknown>, count: number): Promise<void> {
  const waiting = { ended: false };
  const end = () => {
    waiting.ended = true;
  };
  call.then(end, end);
  for (;;) {
    const rows = await gateway.owner`
      select from pg_stat_activity
      where datname = current_database() and usename = 'earshot_gateway' and wait_event_type = 'Lock'`;
    if (waiting.ended || rows.length >= count) return;
  }
}

/** Sends a block as it is spelled. */
const spelled = (method: string, path: string, body: string) =>
  gateway.send(method, `/v1/sessions/${log.session}${path}?audience=${turn.grant.audienceHash}`, {
    token: turn.grant.token,
    key: crypto.randomUUID(),
    body,
  });
const appended = (block: string) =>
  spelled(
    'POST',
    '/entries',
    `{"entries":[{"role":"agent","participant":"assistant","blocks":[${block}]}]}`,
  );
const edited = (id: string, block: string) =>
  spelled('PATCH', `/entries/${id}`, `{"revision":"1","edit":{"blocks":[${block}]}}`);
