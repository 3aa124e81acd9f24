import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';
import { readOf, textsFor, writeTo } from './addressing.ts';

// What is written to one agent by its name: where it goes, who sees it there, and when.

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
const detailOf = ({ body }: Answer) => (body as { detail?: string }).detail;

/** All that a write to an agent could leave behind. */
const written = () => gateway.owner`
  select (select count(*) from earshot.log_entries) as entries, (select count(*) from earshot.log_mail) as mail,
    (select count(*) from earshot.log_replays) as replays, (select count(*) from earshot.log_appends) as appends,
    (select count(*) from earshot.ledger_entries where to_seq is not null) as ledger,
    (select count(*) from earshot.agents) as agents`;

describe('an agent', () => {
  test('is written to and read by its name: a sub-agent, a fork’s, and the shared one from within a fork', async () => {
    await place('desk', 'helper');
    const fork = await log.fork('side');
    const deep = await fork.fork('deep');
    for (const [from, agent, body] of [
      [log, 'helper', 'to the helper'],
      [fork, 'helper', 'to the helper from the fork'],
      [log, 'side', 'to the fork'],
      [fork, 'side', 'to itself'],
      [fork, 'deep', 'to the fork of the fork'],
      [deep, 'resident', 'to the shared one from deep'],
      [log, 'resident', 'to the shared one'],
    ] as const)
      expect(ok(await writeTo(from, agent, entry(text(body))))).not.toHaveProperty('held');
    expect(await log.texts()).toEqual(['to the shared one from deep', 'to the shared one']);
    expect(await fork.texts()).toEqual(['to the fork', 'to itself']);
    expect(await deep.texts()).toEqual(['to the fork of the fork']);
    const shared = ['to the shared one from deep', 'to the shared one'];
    const ofHelper = ['to the helper', 'to the helper from the fork', ...shared];
    for (const from of [log, fork, deep]) {
      expect(await textsFor(from, 'helper')).toEqual(ofHelper);
      expect(await textsFor(from, 'resident')).toEqual(shared);
    }
    expect(await textsFor(log, 'side')).toEqual(['to the fork', 'to itself']);
    expect(await textsFor(fork, 'deep')).toEqual(['to the fork of the fork']);
  });

  test('is read page by page, each cursor for its own log', async () => {
    await log.fork('side');
    for (const body of ['one', 'two', 'three']) ok(await writeTo(log, 'side', entry(text(body))));
    const first = ok(await readOf(log, 'side', '&limit=2'));
    expect(first.complete).toBe(false);
    const rest = ok(await readOf(log, 'side', `&limit=2&after=${first.cursor ?? ''}`));
    expect(rest.entries.map(({ blocks }) => blocks[0]?.text)).toEqual(['three']);
    expect((await log.entries(`after=${first.cursor ?? ''}`)).code).toBe('invalid_input');
  });

  test('is read through its place for everybody where it has one, and then binds nobody', async () => {
    await log.append(entry(text('of ana', 'ana'), text('plain')));
    await place('a desk', 'helper', 'ana');
    expect(await textsFor(log.by(await start()), 'helper')).toEqual(['of ana', 'plain']);
    await place('the desk', 'helper');
    const reading = await start();
    expect(await textsFor(log.by(reading), 'helper')).toEqual(['plain']);
    expect(ok(await reading.propose('an answer')).status).toBe('cleared');
  });

  test.each(['resident', 'helper', 'side'])(
    'that is not there is refused, naming those that are: written to and read from as %s of another session',
    async (agent) => {
      const request = { destination: 'thread', requester: 'ana', trigger: '1', threadKey: 'other' };
      const other = logOf(gateway, await acme.turn(request));
      await other.open({ name: 'desk', agent: 'theirs' });
      await other.fork('their fork');
      await place('desk', 'helper');
      const fork = await log.fork('side');
      await fork.open({ name: 'inside', agent: 'within the fork' });
      const closed = await log.fork('gone');
      ok(await closed.close());
      const before = await written();
      const from = agent === 'side' ? fork : log;
      const names =
        from === fork ? 'side, within the fork, helper, resident' : 'helper, resident, side';
      for (const name of ['ghost', '', 'theirs', 'their fork', 'gone', 'Resident', 'resident ']) {
        for (const answer of [
          await writeTo(from, name, entry(text('lost'))),
          await readOf(from, name),
        ]) {
          expect([answer.status, answer.code]).toEqual([404, 'not_found']);
          expect(detailOf(answer)).toBe(`There is no such agent; there are ${names}.`);
        }
      }
      expect(await written()).toEqual(before);
      ok(await writeTo(from, agent, entry(text('found'))));
    },
  );

  test('of no name among many is told of twenty, and how many more there are', async () => {
    for (let n = 0; n < 25; n++)
      await place(`desk ${n.toString()}`, `agent ${(n + 10).toString()}`);
    const detail = detailOf(await writeTo(log, 'ghost', entry(text('lost')))) ?? '';
    expect(detail).toMatch(
      /^There is no such agent; there are agent 10, .*, agent 29 and 6 more\.$/,
    );
    expect(detail.split(', ')).toHaveLength(20);
  });

  test('is never asked for by what is no name', async () => {
    await place('desk', 'helper');
    for (const name of ['a\0', 'e\u0301', 'a\n', 'x'.repeat(129), '\u0085'])
      expect((await writeTo(log, name, entry(text('lost')))).code).toBe('invalid_input');
    const twice = await readOf(log, 'helper', '&agent=resident');
    expect(twice.code).toBe('invalid_input');
  });
});

describe('what is written to a sub-agent', () => {
  test('is seen in its own places, and through no other way out of the log', async () => {
    const [first = ''] = await log.append(entry(text('first word')));
    const desk = await place('desk', 'helper');
    const second = await place('second desk', 'helper');
    const ofAna = await place('desk of ana', 'helper', 'ana');
    const aide = await place('aside', 'aide');
    const { ids } = ok(await writeTo(log, 'helper', entry(text('CANARY word'))));
    const [id = ''] = ids;
    const [last = ''] = await log.append(entry(text('last word')));

    for (const at of [log, aide, await log.fork('side'), await aide.fork('aide side')]) {
      const shown = [
        ok(await at.compile()),
        ok(await at.preview()),
        ok(await at.entries()),
        ok(await at.search('word')),
        ok(await at.summaryInput(first, last)),
        ok(await at.pins()),
      ];
      expect(JSON.stringify(shown)).not.toMatch(/CANARY|helper/);
      expect(JSON.stringify(shown)).not.toContain(id);
      expect(ok(await at.search('canary')).total).toBe('0');
      expect(ok(await at.describe())).toMatchObject({ entries: '2', blocks: '2' });
      for (const answer of [
        await at.summaryInput(id, id),
        await at.summaryInput(first, id),
        await at.pin(id),
        await at.unpin(id),
        await at.edit(id, '1', [text('x')]),
        await at.compile({ pins: [id] }),
        await at.trySummarize({ from: first, to: id, state: '0'.repeat(64), text: 'x' }),
      ])
        expect([answer.status, answer.code]).toEqual([404, 'not_found']);
      expect((await at.entries(`after=${id}.1`)).code).toBe(
        at.session === log.session ? undefined : 'invalid_input',
      );
    }
    for (const at of [desk, second, ofAna, await desk.fork('of the helper')]) {
      const texts = ['first word', 'CANARY word', 'last word'];
      expect(await at.texts()).toEqual(texts);
      expect(ok(await at.summaryInput(first, last)).entries).toHaveLength(3);
      expect(ok(await at.search('canary')).total).toBe('1');
      expect(ok(await at.describe()).entries).toBe('3');
      ok(await at.pin(id));
    }
  });

  test('stays the sub-agent’s when it is edited', async () => {
    const desk = await place('desk', 'helper');
    const { ids } = ok(await writeTo(log, 'helper', entry(text('CANARY'))));
    ok(await desk.edit(ids[0] ?? '', '1', [text('CANARY again')]));
    expect(await desk.texts()).toEqual(['CANARY again']);
    expect(await log.texts()).toEqual([]);
    expect(ok(await log.entries()).entries).toEqual([]);
  });

  test('is under no summary of another agent, and its own agent’s summary of it is nobody else’s', async () => {
    const [first = ''] = await log.append(entry(text('a first entry with many words in it')));
    const desk = await place('desk', 'helper');
    ok(await writeTo(log, 'helper', entry(text('CANARY and many words more than that'))));
    const [last = ''] = await log.append(entry(text('a last entry with many words in it')));
    await desk.summarize({ from: first, to: last }, 'CANARY');
    await log.summarize({ from: first, to: last }, 'in short');
    expect(ok(await log.summaries()).summaries.map(({ text, entries }) => [text, entries])).toEqual(
      [['in short', 2]],
    );
    expect(JSON.stringify(ok(await log.compile({ headTokens: 0 })))).not.toContain('CANARY');
    expect(
      ok(await desk.summaries()).summaries.map(({ text, entries }) => [text, entries]),
    ).toEqual([['CANARY', 3]]);
  });
});

test('a turn that was shown a block for some readers writes to an agent what names them, and nothing else', async () => {
  await log.append(entry(text('of ana', 'ana')));
  const ofAna = await place('of ana', 'helper', 'ana');
  await log.fork('side');
  expect(await ofAna.texts()).toEqual(['of ana']);
  for (const agent of ['helper', 'resident', 'side']) {
    for (const blocks of [[text('made')], [text('made', 'ben')], [text('made', 'ana'), text('x')]])
      expect((await writeTo(log, agent, entry(...blocks))).code).toBe('narrowing_refused');
    ok(await writeTo(log, agent, entry(text('CANARY for ana', 'ana'))));
  }
  const reading = log.by(await start());
  for (const at of [reading, await reading.fork('later')]) {
    const shown = [ok(await at.compile()), ok(await at.entries()), ok(await at.search('canary'))];
    expect(JSON.stringify(shown)).not.toContain('CANARY');
  }
});

test('a mark of the gateway’s own that a caller forges is refused, in an entry and in a block', async () => {
  await place('desk', 'helper');
  const before = await written();
  for (const mark of [
    { passes: true },
    { addressee: 'helper' },
    { held: true },
    { agent: 'helper' },
    { owner: 'default' },
    { injection: 'recall' },
    { envelopes: [] },
    { id: randomUUID() },
    { turn_id: turn.id },
  ]) {
    for (const forged of [{ ...entry(text('x')), ...mark }, entry({ ...text('x'), ...mark })])
      for (const answer of [await log.tryAppend([forged]), await writeTo(log, 'helper', forged)])
        expect(answer.code).toBe('invalid_input');
  }
  expect(await written()).toEqual(before);
});
