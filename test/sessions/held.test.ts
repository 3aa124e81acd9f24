import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';
import { readOf, textsFor, writeTo, writeUnder } from './addressing.ts';

// What is written to one agent by its name while a turn of it is alive: when it is there, and what it came from.

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
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.conversation('private', ['ana']);
  await acme.say('thread', 'ana', 'a question');
  await acme.say('notes', 'ben', 'a note');
  await acme.say('private', 'ana', 'a secret');
  turn = await start();
  log = logOf(gateway, turn);
});

const place = async (name: string, agent: string, reader?: string) =>
  log.through((await log.open({ name, agent, ...(reader !== undefined && { reader }) })).handle);

/** All that a write to an agent could leave behind. */
const written = () => gateway.owner`
  select (select count(*) from earshot.log_entries) as entries, (select count(*) from earshot.log_mail) as mail,
    (select count(*) from earshot.log_replays) as replays, (select count(*) from earshot.log_appends) as appends,
    (select count(*) from earshot.ledger_entries where to_seq is not null) as ledger,
    (select count(*) from earshot.agents) as agents`;

describe('what is written to an agent of which a turn is alive', () => {
  const ends: [how: string, end: (of: TestTurn) => Promise<unknown>][] = [
    ['is complete', (of) => of.end('complete')],
    ['is stopped', (of) => of.end('stop')],
    [
      'has expired',
      (of) =>
        gateway.owner`update earshot.turns set expires_at = clock_timestamp() where id = ${of.id}`,
    ],
  ];

  test.each(ends)(
    'waits until the turn %s, in that turn and in others, and is there then, as it was written',
    async (_how, end) => {
      await place('desk', 'helper');
      const alive = await start();
      const desk = log.by(alive).through((await log.open({ name: 'desk' })).handle);
      expect(await desk.texts()).toEqual([]);
      const own = ok(await writeTo(log.by(alive), 'helper', entry(text('one'))));
      const other = ok(await writeTo(log, 'helper', entry(text('two')), entry(text('three'))));
      expect([own.held, other.held]).toEqual([true, true]);
      await log.append(entry(text('for all')));
      expect(await desk.texts()).toEqual(['for all']);
      expect(await textsFor(log, 'helper')).toEqual(['for all']);
      expect(ok(await desk.describe()).entries).toBe('1');
      await end(alive);
      expect(await textsFor(log, 'helper')).toEqual(['for all', 'one', 'two', 'three']);
      const { entries } = ok(await readOf(log, 'helper'));
      expect(entries.slice(1).map(({ id, revision }) => [id, revision])).toEqual(
        [...own.ids, ...other.ids].map((id) => [id, '1']),
      );
      expect(ok(await writeTo(log, 'helper', entry(text('four'))))).not.toHaveProperty('held');
    },
  );

  test('waits for the last of several turns', async () => {
    const [one, two] = [await start(), await start()];
    for (const alive of [one, two]) await log.by(alive).texts();
    expect(ok(await writeTo(log, 'resident', entry(text('late')))).held).toBe(true);
    await one.end('complete');
    expect(await textsFor(log, 'resident')).toEqual([]);
    await two.end('complete');
    expect(await textsFor(log, 'resident')).toEqual(['late']);
  });

  test('waits in a fork for the fork’s turn, and in the shared log for nobody', async () => {
    const fork = await log.fork('side');
    const alive = await start();
    await fork.by(alive).texts();
    expect(ok(await writeTo(log, 'side', entry(text('to the fork')))).held).toBe(true);
    expect(ok(await writeTo(fork, 'resident', entry(text('back'))))).not.toHaveProperty('held');
    expect(await textsFor(log, 'side')).toEqual([]);
    await alive.end('complete');
    expect(await textsFor(log, 'side')).toEqual(['to the fork']);
  });

  test('does not wait for a turn that a model was sent nothing in, or that works as another agent', async () => {
    await place('desk', 'helper');
    const [idle, looking, elsewhere] = [await start(), await start(), await start()];
    ok(await log.by(looking).preview());
    ok(await log.by(looking).entries());
    ok(await log.by(elsewhere).compile());
    const side = await log.fork('side');
    ok(await side.by(idle).compile());
    expect(ok(await writeTo(log, 'helper', entry(text('at once'))))).not.toHaveProperty('held');
    expect(await textsFor(log, 'helper')).toEqual(['at once']);
  });

  test('comes in the order in which it was written, each agent’s when its own turns are over', async () => {
    const desk = await place('desk', 'helper');
    const [ofHelper, ofResident] = [await start(), await start()];
    await desk.by(ofHelper).texts();
    await log.by(ofResident).texts();
    for (let n = 0; n < 6; n++) {
      const many = Array.from({ length: 4 }, (_, k) =>
        entry(text(`${n.toString()}.${k.toString()}`)),
      );
      ok(await writeTo(log, n % 2 === 0 ? 'helper' : 'resident', ...many));
    }
    const of = (...rounds: number[]) =>
      rounds.flatMap((n) => [0, 1, 2, 3].map((k) => `${n.toString()}.${k.toString()}`));
    await ofResident.end('complete');
    expect(await textsFor(log, 'resident')).toEqual(of(1, 3, 5));
    ok(await writeTo(log, 'helper', entry(text('last'))));
    await ofHelper.end('complete');
    expect(await textsFor(log, 'helper')).toEqual([...of(1, 3, 5), ...of(0, 2, 4), 'last']);
    expect(await textsFor(log, 'resident')).toEqual(of(1, 3, 5));
  });

  test('comes once, however many reads and writes let it in at once', async () => {
    const alive = await start();
    await log.by(alive).texts();
    const bodies = Array.from({ length: 20 }, (_, n) => `held ${n.toString()}`);
    for (const body of bodies) ok(await writeTo(log, 'resident', entry(text(body))));
    await alive.end('complete');
    const answers = await Promise.all([
      ...Array.from({ length: 6 }, () => log.compile()),
      ...Array.from({ length: 6 }, () => log.entries()),
      ...Array.from({ length: 6 }, (_, n) => log.tryAppend([entry(text(`new ${n.toString()}`))])),
    ] as Promise<Answer>[]);
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const shown = ok(await log.entries('limit=1000')).entries.map(({ blocks }) => blocks[0]?.text);
    expect(shown.slice(0, 20)).toEqual(bodies);
    expect(shown).toHaveLength(26);
    expect(new Set(shown).size).toBe(26);
  });

  test('is written once under its key, and the repetition says the same', async () => {
    const alive = await start();
    await log.by(alive).texts();
    const key = randomUUID();
    const once = () => writeUnder(log, 'resident', key, entry(text('once')));
    const [first, ...again] = await Promise.all([once(), once(), once()]);
    expect(ok(first)).toMatchObject({ held: true });
    for (const answer of again)
      expect(ok(answer)).toMatchObject({ ids: ok(first).ids, held: true });
    expect((await writeUnder(log, 'resident', key, entry(text('another')))).code).toBe('conflict');
    expect((await log.tryAppend([entry(text('once'))], key)).code).toBe('conflict');
    await alive.end('complete');
    expect(await textsFor(log, 'resident')).toEqual(['once']);
    const late = ok(await once());
    expect(late.ids).toEqual(ok(first).ids);
    expect(late).not.toHaveProperty('held');
    expect(await textsFor(log, 'resident')).toEqual(['once']);
  });
});

describe('the sources of what waits', () => {
  const sourced = (conversation: string, seq: string, ...blocks: object[]) => ({
    ...entry(...blocks),
    sources: [{ conversation, seq }],
  });
  const alive = async () => {
    const other = await start();
    await log.by(other).texts();
    return other;
  };

  test('are not there where the turn may not read them, and nothing is left behind', async () => {
    await alive();
    const before = await written();
    for (const [conversation, seq] of [
      ['private', '1'],
      ['ghost', '1'],
      ['notes', '99'],
    ] as const) {
      const replay = { id: 'r', provider: 'lab', value: 1 };
      const answer = await writeTo(
        log,
        'resident',
        sourced('notes', '1', { ...text('sound'), replay }),
        sourced(conversation, seq, text('not theirs')),
      );
      expect([answer.status, answer.code]).toEqual([404, 'not_found']);
    }
    expect(await written()).toEqual(before);
  });

  test('are in the ledger at once, and told with the entry when it is there', async () => {
    const other = await alive();
    ok(await writeTo(log, 'resident', sourced('notes', '1', text('of a note'))));
    const ledger = await gateway.owner`
      select d.tool from earshot.ledger_entries l join earshot.decisions d on d.org_id = l.org_id and d.id = l.decision_id
      where l.session_id = ${log.session} and l.to_seq is not null`;
    expect(ledger).toEqual([{ tool: 'append' }]);
    await other.end('complete');
    const [told] = ok(await readOf(log, 'resident')).entries;
    expect(told?.sources).toMatchObject([{ conversation: 'notes', seq: '1', revision: '1' }]);
  });

  test.each([
    ['before it is let in', false],
    ['after', true],
  ])(
    'quarantine the session if they are revoked %s, and the text is never shown',
    async (_when, ended) => {
      const other = await alive();
      ok(await writeTo(log, 'resident', sourced('notes', '1', text('CANARY'))));
      if (ended) await other.end('complete');
      await acme.remove('conversations/notes/members/ben');
      if (!ended) await other.end('complete');
      const answers = [
        await log.compile(),
        await log.entries(),
        await readOf(log, 'resident'),
        await log.search('canary'),
        await log.tryFork('side'),
      ];
      expect(answers[0]?.code).toBe('source_revoked');
      for (const { code, body } of answers.slice(1)) {
        expect(code).toBe('session_quarantined');
        expect(JSON.stringify(body)).not.toContain('CANARY');
      }
    },
  );

  test('and its replay forms are its own: another entry does not take them, before and after it is let in', async () => {
    const other = await alive();
    const withForm = (body: string) =>
      entry({ ...text(body), replay: { id: 'form', provider: 'lab', value: body } });
    const { ids } = ok(await writeTo(log, 'resident', withForm('held')));
    const refused = async () => {
      expect((await writeTo(log, 'resident', withForm('rival'))).code).toBe('conflict');
      expect((await log.tryAppend([entry(text('x')), withForm('rival')])).code).toBe('conflict');
    };
    await refused();
    await other.end('complete');
    expect(await textsFor(log, 'resident')).toEqual(['held']);
    await refused();
    const form = { id: 'form', provider: 'lab', value: 'held' };
    ok(await log.edit(ids[0] ?? '', '1', [{ ...text('edited'), replay: form }]));
    expect(await textsFor(log, 'resident')).toEqual(['edited']);
  });
});
