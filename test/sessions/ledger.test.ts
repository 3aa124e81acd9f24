import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog, entryProvenance } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// What a session was shown, asked again before it is built on, and before anything made from it leaves.

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;
let log: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.say('thread', 'ana', 'a question');
  await acme.put('conversations/notes/messages/m1', message('the canary sang'));
  turn = await start();
  log = logOf(gateway, turn);
});

function message(body: string, more: object = {}) {
  return { author: { user: 'ben' }, body, sentAt: '2026-01-01T00:00:00Z', ...more };
}

const fromNotes = {
  ...entry(text('made from the notes')),
  sources: [{ conversation: 'notes', seq: '1' }],
};
const edited = () =>
  acme.put(
    'conversations/notes/messages/m1',
    message('another text', { editedAt: '2026-01-02T00:00:00Z' }),
  );

/** What happens to a source, and the code of what was built on it. */
const changes: [what: string, change: () => Promise<unknown>, code: string][] = [
  ['is edited', edited, 'source_changed'],
  ['is deleted', () => acme.remove('conversations/notes/messages/m1'), 'source_revoked'],
  ['is closed to a reader', () => acme.remove('conversations/notes/members/ben'), 'source_revoked'],
  [
    'is below a floor that moved',
    () => acme.put('conversations/notes/members/ben', { history: { fromSeq: '2' } }),
    'source_revoked',
  ],
];

/** What asks the ledger. */
const asks: [what: string, ask: (of: TestLog) => Promise<{ code: string | undefined }>][] = [
  ['a compile', (of) => of.compile()],
  ['a preview', (of) => of.preview()],
  ['a fork', (of) => of.tryFork('late')],
  ['a look at the session', (of) => of.describe()],
  ['a page of entries', (of) => of.entries()],
  ['a search', (of) => of.search('made')],
  ['a look at the pins', (of) => of.pins()],
];

describe.each(changes)('a source that %s', (_what, change, code) => {
  test.each(asks)('refuses %s, whatever brought it into the session', async (_ask, ask) => {
    await log.append(fromNotes);
    await change();
    expect((await ask(log)).code).toBe(code);
    expect((await log.entries()).code).toBe('session_quarantined');
  });

  test('that a tool showed quarantines as well, and the next turn begins in a fresh epoch', async () => {
    expect(await turn.search('canary')).toHaveLength(1);
    await log.append(entry(text('the answer')));
    await change();
    expect((await log.compile()).code).toBe(code);
    expect((await turn.mint()).code).toBe('session_quarantined');
    const next = await start();
    expect(next.grant.sessionEpoch).toBe('2');
    expect(await logOf(gateway, next).texts()).toEqual([]);
  });

  test('holds what was proposed in a turn that worked in a fork, and nothing of another turn', async () => {
    const fork = await log.fork('side');
    const other = await start();
    await fork.append(fromNotes);
    await change();
    expect(ok(await other.propose('not from the fork')).status).toBe('cleared');
    expect(ok(await turn.propose('from the fork')).status).toBe('held');
  });

  test('holds what was proposed from a fork that is in quarantine already', async () => {
    const fork = await log.fork('side');
    await fork.append(fromNotes);
    await change();
    expect((await fork.compile()).code).toBe(code);
    const held = ok(await turn.propose('from the fork'));
    expect([held.status, held.code]).toEqual(['held', code]);
  });
});

describe('a fork', () => {
  test('begins with the ledger of where it came from', async () => {
    await log.append(fromNotes);
    const fork = await log.fork('side');
    await edited();
    expect((await fork.compile()).code).toBe('source_changed');
  });

  test('that was closed is not given again under its name', async () => {
    const fork = await log.fork('side');
    ok(await fork.close());
    expect((await log.tryFork('side')).code).toBe('session_quarantined');
    ok(await log.compile());
  });

  test('that is quarantined leaves the session it came from', async () => {
    const fork = await log.fork('side');
    await fork.append(fromNotes);
    await edited();
    expect((await fork.compile()).code).toBe('source_changed');
    expect((await fork.entries()).code).toBe('session_quarantined');
    ok(await log.compile());
  });
});

describe('a source of an entry', () => {
  test.each([
    ['another conversation that the audience does not read', 'private', '1'],
    ['a conversation that is not there', 'ghost', '1'],
    ['a message that is not there', 'notes', '99'],
    ['a message below a floor', 'thread', '99'],
  ])('is not there: %s', async (_what, conversation, seq) => {
    await acme.conversation('private', ['ana']);
    await acme.say('private', 'ana', 'CANARY');
    const before =
      await gateway.owner`select * from earshot.log_heads where session_id = ${log.session}`;
    const answer = await log.tryAppend([
      entry(text('first')),
      { ...fromNotes, sources: [{ conversation, seq }] },
    ]);
    expect([answer.status, answer.code]).toEqual([404, 'not_found']);
    expect(await log.texts()).toEqual([]);
    expect(
      await gateway.owner`select * from earshot.log_heads where session_id = ${log.session}`,
    ).toEqual(before);
  });

  test('is in the ledger under the decision that let it in', async () => {
    await log.append(fromNotes);
    const rows = await gateway.owner`
      select d.kind, d.tool from earshot.ledger_entries l
      join earshot.decisions d on d.org_id = l.org_id and d.id = l.decision_id
      where l.session_id = ${log.session} and l.to_seq is not null`;
    expect(rows).toEqual([{ kind: 'session', tool: 'append' }]);
  });

  test('is told with what was compiled', async () => {
    const [id] = await log.append(fromNotes);
    expect(entryProvenance(ok(await log.compile()))).toEqual([
      {
        entry: id,
        revision: '1',
        sources: [{ conversation: 'notes', id: 'm1', seq: '1', revision: '1' }],
      },
    ]);
  });
});

describe('a turn that was shown a block for some readers', () => {
  test('delivers to them, and to nobody else', async () => {
    await acme.conversation('desk', ['ana'], { aiThread: true, kind: 'private', owner: 'ana' });
    await log.append(entry(text('plain'), text('of ana', 'ana')));
    expect(ok(await turn.propose('before')).status).toBe('cleared');
    const ana = log.through((await log.open({ name: 'ana', reader: 'ana' })).handle);
    expect(await ana.texts()).toEqual(['plain', 'of ana']);
    const held = ok(await turn.propose('after'));
    expect([held.status, held.code]).toEqual(['held', 'narrowing_refused']);
    expect(ok(await turn.propose('to ana', { destination: 'desk' })).status).toBe('cleared');
  });

  test('releases nothing that was cleared before it was shown it', async () => {
    await log.append(entry(text('of ana', 'ana')));
    const cleared = ok(await turn.propose('before'));
    const ana = log.through((await log.open({ name: 'ana', reader: 'ana' })).handle);
    await ana.search('of ana');
    expect((await acme.release(cleared)).code).toBe('narrowing_refused');
  });

  test.each([
    ['a search that found nothing', (of: TestLog) => of.search('nothing of the kind')],
    ['a count of entries', (of: TestLog) => of.describe()],
  ])('is one that was told by %s', async (_what, look) => {
    await log.append(entry(text('plain')), entry(text('of ana', 'ana')));
    const ana = log.through((await log.open({ name: 'ana', reader: 'ana' })).handle);
    ok<unknown>(await look(ana));
    expect(ok(await turn.propose('there is none')).code).toBe('narrowing_refused');
  });

  test('stays so for every later turn that reads through the same place', async () => {
    await log.append(entry(text('of ana', 'ana')));
    const { handle } = await log.open({ name: 'ana', reader: 'ana' });
    await log.through(handle).compile();
    const next = await start();
    const again = log.by(next);
    expect(ok(await next.propose('from its own view')).status).toBe('cleared');
    const derived = await again.open({ name: 'derived', from: handle });
    // Nothing of it is shown again, and the model that works there has seen it.
    ok(await again.through(derived.handle).search('nothing'));
    expect(ok(await next.propose('from the view of ana')).code).toBe('narrowing_refused');
  });

  test.each([
    ['a fork of its place', (of: TestLog) => of.tryFork('side')],
    [
      'a place derived from its own',
      (of: TestLog, from: string) => of.tryOpen({ name: 'next', from }),
    ],
  ])('is waited for, while it is shown it, by %s', async (_what, derive) => {
    await log.append(entry(text('of ana', 'ana')));
    const { handle } = await log.open({ name: 'ana', reader: 'ana' });
    const ana = log.through(handle);
    await gateway.owner.unsafe(`
      create or replace function hold_open() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(7); return new; end $$;
      create trigger zz_hold before update of only_for on earshot.turns for each row execute function hold_open()`);
    const held = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
    const read = ana.compile();
    await whenBlocked(gateway);
    const derived = derive(ana, handle);
    await whenBlocked(gateway, 2);
    await held.commit();
    ok(await read);
    ok<unknown>(await derived);
    await gateway.owner.unsafe('drop trigger zz_hold on earshot.turns');
    const bound = await gateway.owner`
      select distinct n.only_for from earshot.namespaces n
      where n.session_id in (select s.id from earshot.sessions s where s.parent_id = ${log.session})
        or (n.session_id = ${log.session} and n.name in ('ana', 'next'))`;
    expect(bound).toEqual([{ only_for: ['ana'] }]);
  });

  test('keeps nothing in the log for other readers', async () => {
    await log.append(entry(text('of ana', 'ana')));
    const ana = log.through((await log.open({ name: 'ana', reader: 'ana' })).handle);
    await ana.compile();
    for (const blocks of [
      [text('plain')],
      [text('x', 'ana', 'ben')],
      [text('x', 'ana'), text('plain')],
    ])
      expect((await log.tryAppend([entry(...blocks)])).code).toBe('narrowing_refused');
    const [kept = ''] = await log.append(entry(text('made for ana', 'ana')));
    expect((await ana.edit(kept, '1', [text('for all')])).code).toBe('narrowing_refused');
    const call = { type: 'tool_call', id: 'c', name: 'send', arguments: { what: 'of ana' } };
    expect((await log.tryAppend([entry(call)])).code).toBe('narrowing_refused');
    const rule = { role: 'system', participant: 'host', blocks: [text('of ana')] };
    expect((await log.tryAppend([rule])).code).toBe('narrowing_refused');
    const person = (participant: string, block: object) => ({
      ...{ role: 'user', participant, blocks: [block] },
    });
    await log.append(person('ben', text('the next question')));
    for (const entry of [
      person('stranger', text('of ana')),
      person('ben', { type: 'thinking', text: 'of ana' }),
      person('ben', { ...text('a'), replay: { id: 'r', provider: 'lab', value: 'of ana' } }),
    ])
      expect((await log.tryAppend([entry])).code).toBe('narrowing_refused');
  });

  test('for all of its audience delivers there', async () => {
    await log.append(entry(text('for both', 'ana', 'ben')));
    expect(await log.texts()).toEqual(['for both']);
    expect(ok(await turn.propose('to both')).status).toBe('cleared');
    await log.append(entry({ type: 'tool_call', id: 'c', name: 'n', arguments: {} }));
  });

  test('for agents, as its writer named them, is held back from nobody', async () => {
    const desk = await log.open({ name: 'desk', agent: 'helper', reader: 'agent:helper' });
    await log.append(entry(text('a note among agents', 'agent:helper', 'agent:other')));
    expect(await log.through(desk.handle).texts()).toEqual(['a note among agents']);
    const fork = await log.through(desk.handle).fork('side');
    expect(await fork.texts()).toEqual(['a note among agents']);
    expect(ok(await turn.propose('an answer')).status).toBe('cleared');
  });

  test.each([
    ['an agent that is registered under the name later', 'stranger'],
    ['a user whose id is written like an agent', 'agent:zoe'],
  ])('is not freed by %s', async (_what, name) => {
    await acme.users('agent:zoe');
    await log.append(entry(text('of one', name)));
    const place = await log.open({ name: 'place', agent: name, reader: name });
    expect(await log.through(place.handle).texts()).toEqual(['of one']);
    expect(ok(await turn.propose('an answer')).code).toBe('narrowing_refused');
  });
});
