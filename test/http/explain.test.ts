import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { explainingOf, type Explaining } from './explaining.ts';

let gateway: TestGateway;
let acme: Explaining['acme'];
let write: Explaining['write'];
let start: Explaining['start'];
let ask: Explaining['ask'];
let told: Explaining['told'];

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());
beforeEach(async () => {
  ({ acme, write, start, ask, told } = await explainingOf(gateway));
});

const NOT_READ_BY_BEN = {
  verdict: 'out',
  mode: 'thread',
  reasons: [{ kind: 'not_read', readers: [1] }],
  grid: {
    readers: [
      { reader: 'user:ana', kind: 'user', destinationFloor: '1', floor: '1' },
      { reader: 'user:ben', kind: 'user', destinationFloor: '1', floor: null },
    ],
    floor: null,
  },
};

describe('an operator is told', () => {
  test('that a source is in from the floor of all of them, as the turn finds it', async () => {
    await acme.conversation('shared', ['ana', { user: 'ben', history: { fromSeq: '2' } }]);
    await write('shared', 's1', 'canary low');
    await write('shared', 's2', 'canary high');

    expect(await told('shared')).toEqual({
      ...{ destination: 'thread', source: 'shared', verdict: 'in', mode: 'thread' },
      ...{ effectiveFloor: '2', reasons: [], changes: [] },
      grid: {
        readers: [
          { reader: 'user:ana', kind: 'user', destinationFloor: '1', floor: '1' },
          { reader: 'user:ben', kind: 'user', destinationFloor: '1', floor: '2' },
        ],
        floor: '2',
      },
    });
    expect((await told('shared', { seq: '2' })).verdict).toBe('in');
    expect(await told('shared', { seq: '1' })).toMatchObject({
      ...{ seq: '1', verdict: 'out', effectiveFloor: '2' },
      reasons: [{ kind: 'below_floor', readers: [1] }],
      changes: [{ kind: 'floor', readers: [1], atMost: '1' }],
    });
    expect(await (await start()).search('canary')).toEqual(['canary high']);
  });

  test('who lacks it; the change that is named brings it in, and one that would not is not named', async () => {
    await acme.conversation('of-ana', ['ana']);
    await write('of-ana', 'a1', 'canary');
    // Two people less one is a thread that was shared, which gives no more than itself.
    expect(await told('of-ana')).toMatchObject({
      ...NOT_READ_BY_BEN,
      changes: [{ kind: 'floor', readers: [1] }],
    });
    await acme.put('conversations/of-ana/members/ben', { history: 'all' });
    expect((await told('of-ana')).verdict).toBe('in');

    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    expect((await told('of-ana')).changes).toEqual([
      { kind: 'without', readers: [2] },
      { kind: 'floor', readers: [2] },
    ]);
    await acme.remove('conversations/thread/members/cleo');
    expect((await told('of-ana')).verdict).toBe('in');
  });

  test('that the mode cuts it, and the project bound', async () => {
    await acme.conversation('shared', ['ana', 'ben']);
    await acme.conversation('talk', ['ana', 'ben']);
    expect(await told('shared', { destination: 'talk' })).toMatchObject({
      ...{ verdict: 'out', mode: 'mention', grid: { floor: '1' }, changes: [] },
      reasons: [{ kind: 'mode', mode: 'mention' }],
    });
    expect((await told('talk', { destination: 'talk' })).verdict).toBe('in');
    expect((await told('shared', { destination: 'talk', trigger: 'disclosure' })).verdict).toBe(
      'in',
    );

    await acme.facts({ fact: 'project', id: 'apollo' });
    await acme.conversation('plans', ['ana', 'ben'], { aiThread: true, project: 'apollo' });
    expect(await told('shared', { destination: 'plans' })).toMatchObject({
      ...{ verdict: 'out', mode: 'project', projectBound: 'apollo', changes: [] },
      reasons: [{ kind: 'project_bound', project: 'apollo' }],
    });
    expect((await told('plans', { destination: 'plans' })).verdict).toBe('in');
  });

  test('that a message is deleted, is an answer nobody accounts for, or is made from what somebody lacks', async () => {
    await acme.conversation('shared', ['ana', 'ben']);
    await acme.conversation('talk', ['ana', 'ben', 'cleo'], { aiThread: true });
    const { seq: gone = '' } = await write('talk', 'gone', 'canary');
    await acme.remove('conversations/talk/messages/gone');
    const { seq: loose = '' } = await write('talk', 'loose', 'canary', {
      author: { persona: 'assistant' },
    });
    expect((await told('talk', { seq: gone })).reasons).toEqual([{ kind: 'message_deleted' }]);
    expect((await told('talk', { seq: loose })).reasons).toEqual([{ kind: 'unaccounted_answer' }]);
    expect((await told('talk', { seq: loose, destination: 'talk' })).verdict).toBe('in');

    // An answer made from the shared room comes back to the thread, where cleo joins.
    await write('shared', 's1', 'canary sings');
    const turn = await start();
    await turn.search('canary');
    const { body: delivery } = await turn.propose('it sings');
    ok(await acme.release(delivery));
    ok(await acme.acknowledge(delivery, 'delivered', 'answer'));
    const { seq = '' } = await write('thread', 'answer', 'it sings', {
      author: { persona: 'assistant' },
    });
    expect((await told('thread', { seq })).verdict).toBe('in');
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    expect(await told('thread', { seq })).toMatchObject({
      verdict: 'out',
      reasons: [{ kind: 'lineage', readers: [2] }],
      changes: [{ kind: 'without', readers: [2] }],
    });
    await acme.remove('conversations/thread/members/cleo');
    expect((await told('thread', { seq })).verdict).toBe('in');
  });

  test('why no turn stands, with the readers where they can be listed', async () => {
    await acme.conversation('shared', ['ana', 'ben']);
    const refusal = async (more: Readonly<Record<string, string>>) => {
      const { verdict, mode, effectiveFloor, reasons, grid, changes } = await told('shared', more);
      expect({ verdict, mode, effectiveFloor, changes }).toEqual({ verdict: 'out', changes: [] });
      return [reasons, grid.readers.length];
    };
    const code = (name: string) => [{ kind: 'turn_refused', code: name }];

    expect(await refusal({ persona: 'other' })).toEqual([code('persona_not_designated'), 2]);
    expect(await refusal({ requester: 'cleo' })).toEqual([code('requester_left'), 2]);
    expect(await refusal({ requester: 'nobody' })).toEqual([code('requester_left'), 2]);
    expect(await refusal({ trigger: 'thread', triggerSeq: '7' })).toEqual([
      code('trigger_out_of_scope'),
      2,
    ]);
    expect((await told('shared', { trigger: 'thread', triggerSeq: '1' })).verdict).toBe('in');
    await acme.conversation('mirrored', ['ana'], { externalReaders: true });
    expect(await refusal({ destination: 'mirrored' })).toEqual([code('unlistable_audience'), 0]);
    const abroad = await gateway.addCaller({
      id: `other personas of ${acme.name}`,
      scopes: ['operator'],
      personas: ['other'],
    });
    expect((await told('shared', {}, abroad)).reasons).toEqual(code('persona_not_designated'));
  });

  test('classes by name, and never to take one out', async () => {
    await acme.conversation('open', [], { aiThread: true, visibility: 'organization' });
    await acme.conversation('shared', ['ana', 'ben']);
    expect(await told('shared', { destination: 'open' })).toMatchObject({
      verdict: 'out',
      reasons: [{ kind: 'not_read', readers: [0] }],
      grid: {
        readers: [{ reader: 'class:organization', kind: 'class:organization', floor: null }],
      },
      changes: [{ kind: 'floor', readers: [0] }],
    });
  });
});

test('a question that names what the server decides, or lacks what it needs, is refused', async () => {
  for (const more of [
    { requester: undefined },
    { persona: undefined },
    { trigger: 'thread' },
    { trigger: 'private' },
    { triggerSeq: '1' },
    { seq: '0' },
    { seq: '01' },
    { mode: 'private' },
    { audience: 'ana' },
    { floor: '1' },
    { viewer: '' },
  ]) {
    expect((await ask('thread', more)).code).toBe('invalid_input');
  }
});
