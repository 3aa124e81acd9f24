import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization } from '../support/organization.ts';

// The places of agents in a log: whose each is, and what a handle opens.

let gateway: TestGateway;
let acme: TestOrganization;
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
  log = logOf(gateway, await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' }));
  await log.append(entry(text('plain'), text('of ana', 'ana')));
});

const registered = () => gateway.owner`
  select name, agent, reader, handle, claimed from earshot.namespaces where session_id = ${log.session} order by name`;

describe('a session', () => {
  test('opens with a resident agent, who is the primary one', async () => {
    const { agents, namespaces } = ok(await log.describe());
    expect(agents).toEqual([{ name: 'resident', kind: 'resident', primary: true }]);
    expect(namespaces.map(({ name, agent }) => [name, agent])).toEqual([['default', 'resident']]);
  });

  test('takes another agent of its log for the primary one, and none that is not there', async () => {
    await log.open({ name: 'desk', agent: 'helper' });
    expect((await log.call('PUT', '/primary', { agent: 'ghost' })).code).toBe('not_found');
    ok(await log.call('PUT', '/primary', { agent: 'helper' }));
    expect(ok(await log.describe()).agents).toEqual([
      { name: 'resident', kind: 'resident', primary: false },
      { name: 'helper', kind: 'sub_agent', primary: true },
    ]);
  });

  test('that was closed answers nothing more, nor do its forks, and the next turn has a fresh one', async () => {
    const fork = await log.fork('side');
    ok(await log.close());
    for (const of of [log, fork]) expect((await of.compile()).code).toBe('session_quarantined');
    expect((await log.tryFork('late')).code).toBe('session_quarantined');
    const next = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
    expect(next.grant.sessionId).not.toBe(log.session);
    expect(await logOf(gateway, next).texts()).toEqual([]);
  });
});

describe('a namespace', () => {
  test('without a name, and with an empty one, is the default one', async () => {
    const { handle } = await log.open({});
    expect((await log.open({ name: '' })).handle).toBe(handle);
    expect((await log.open({ name: 'default' })).handle).toBe(handle);
    expect(await log.through(handle).texts()).toEqual(['plain']);
  });

  test('gives its handle again to its reader, and to who names none', async () => {
    const opened = await log.open({ name: 'desk', agent: 'helper', reader: 'ana' });
    expect(opened).toMatchObject({ name: 'desk', agent: 'helper', reader: 'ana' });
    expect((await log.open({ name: 'desk', reader: 'ana' })).handle).toBe(opened.handle);
    expect(await log.open({ name: 'desk' })).toMatchObject({
      handle: opened.handle,
      reader: 'ana',
    });
  });

  test('is refused to another reader, and nothing is registered', async () => {
    await log.open({ name: 'desk', reader: 'ana' });
    const before = await registered();
    for (const request of [
      { name: 'desk', reader: 'ben' },
      { name: 'desk', agent: 'new', reader: 'ben' },
      { name: 'desk', agent: 'new' },
      { name: 'default', reader: 'ana' },
      { reader: 'ana' },
    ]) {
      expect((await log.tryOpen(request)).code).toBe('conflict');
    }
    expect(await registered()).toEqual(before);
    expect(ok(await log.describe()).agents).toHaveLength(1);
  });

  test('takes no empty reader', async () => {
    for (const reader of ['', null, ['ana'], { user: 'ana' }, 'ana\0', 'e\u0301'])
      expect((await log.tryOpen({ name: 'desk', reader })).code).toBe('invalid_input');
    expect(await registered()).toHaveLength(1);
  });

  test('that was read through belongs to the audience, and nobody claims it', async () => {
    const { handle } = await log.open({ name: 'desk' });
    expect(await log.through(handle).texts()).toEqual(['plain']);
    expect((await log.tryOpen({ name: 'desk', reader: 'ana' })).code).toBe('conflict');
    expect(await log.through(handle).texts()).toEqual(['plain']);
  });

  test('that another reader claims leaves a handle that opens nothing, for every read', async () => {
    const [id = ''] = await log.append(entry(text('more')));
    const { handle } = await log.open({ name: 'desk' });
    const stale = log.through(handle);
    const claimed = await log.open({ name: 'desk', reader: 'ana' });
    expect(claimed.handle).not.toBe(handle);
    const reads = [
      stale.compile(),
      stale.preview(),
      stale.summaryInput(id, id),
      stale.entries(),
      stale.search('plain'),
      stale.pins(),
      stale.pin(id),
      stale.describe(),
      stale.edit(id, '1', [text('x')]),
      stale.tryFork('stale'),
      log.tryOpen({ name: 'derived', from: handle }),
    ];
    for (const answer of await Promise.all(reads)) {
      expect([answer.status, answer.code]).toEqual([404, 'not_found']);
    }
    expect(await log.through(claimed.handle).texts()).toEqual(['plain', 'of ana', 'more']);
  });

  test('that is derived has the reader and the watermark of where it came from', async () => {
    const ana = await log.open({ name: 'ana', reader: 'ana' });
    const [id = ''] = await log.append(entry(text('late', 'ana')));
    await log.through(ana.handle).compile();
    const derived = await log.open({ name: 'derived', from: ana.handle });
    expect(derived.reader).toBe('ana');
    expect((await log.tryOpen({ name: 'other', from: ana.handle, reader: 'ben' })).code).toBe(
      'conflict',
    );
    expect(
      (await log.through(derived.handle).edit(id, '1', [{ ...text('late'), audience: [] }])).code,
    ).toBe('narrowing_refused');
    const marks = await gateway.owner<{ name: string; watermark: string }[]>`
      select name, watermark from earshot.namespaces where session_id = ${log.session} and name in ('ana', 'derived')`;
    expect(new Set(marks.map(({ watermark }) => watermark)).size).toBe(1);
  });

  test('shows the places of its own reader, and of nobody else', async () => {
    const ana = await log.open({ name: 'ana', reader: 'ana' });
    await log.open({ name: 'ben', reader: 'ben' });
    const names = async (of: TestLog) => ok(await of.describe()).namespaces.map(({ name }) => name);
    expect(await names(log)).toEqual(['default']);
    expect(await names(log.through(ana.handle))).toEqual(['ana']);
  });
});

describe('a fork', () => {
  test('has the reader of the namespace it was made through, and the same one under the same name', async () => {
    const ana = log.through((await log.open({ name: 'ana', reader: 'ana' })).handle);
    const fork = await ana.fork('side');
    expect(await fork.texts()).toEqual(['plain', 'of ana']);
    expect(ok(await fork.describe())).toMatchObject({
      reader: 'ana',
      parent: log.session,
      fork: 'side',
      agents: [{ name: 'side', kind: 'fork', primary: true }],
    });
    expect((await ana.fork('side')).session).toBe(fork.session);
    expect((await log.tryFork('side')).code).toBe('conflict');
  });

  test('has a log of its own: what is written to one is not in the other', async () => {
    const fork = await log.fork('side');
    await fork.append(entry(text('in the fork')));
    await log.append(entry(text('in the log')));
    expect(await fork.texts()).toEqual(['plain', 'in the fork']);
    expect(await log.texts()).toEqual(['plain', 'in the log']);
  });

  test('that is refused leaves nothing behind', async () => {
    const rows = () => gateway.owner`
      select (select count(*) from earshot.sessions) as sessions, (select count(*) from earshot.agents) as agents,
        (select count(*) from earshot.log_entries) as entries, (select count(*) from earshot.ledger_entries) as ledger`;
    const before = await rows();
    expect((await log.through('00000000-0000-4000-8000-000000000000').tryFork('x')).code).toBe(
      'not_found',
    );
    expect((await log.tryFork('')).code).toBe('invalid_input');
    expect(await rows()).toEqual(before);
  });
});
