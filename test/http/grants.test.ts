import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// Whose a turn is, what its key opens, and where a cursor goes on.

let gateway: TestGateway;
let acme: TestOrganization;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.conversation('other', ['ana', 'cleo'], { aiThread: true });
  for (const body of ['canary one', 'canary two', 'canary three'])
    await acme.say('shared', 'ben', body);
  await acme.say('thread', 'ana', 'which canary');
  await acme.say('other', 'ana', 'which canary elsewhere');
});

function start(destination = 'thread'): Promise<TestTurn> {
  return acme.turn({ destination, requester: 'ana', trigger: '1' });
}

describe('a turn belongs to who opened it', () => {
  test('a caller that is not registered for its persona finds no turn', async () => {
    const turn = await start();
    const token = await gateway.addCaller({
      id: `c-${acme.name}`,
      scopes: ['bridge', 'operator'],
      personas: ['another'],
    });
    const json = { organization: acme.name };
    const at = `/v1/turns/${turn.id}`;
    const ghost = `/v1/turns/00000000-0000-4000-8000-000000000000`;

    const calls = (path: string) => [
      gateway.send('GET', `${path}?organization=${acme.name}`, { token }),
      gateway.send('POST', `${path}/lease`, { token, json: { ...json, owner: 'x' } }),
      gateway.send('POST', `${path}/heartbeat`, { token, json: { ...json, lease: turn.lease } }),
      gateway.send('POST', `${path}/grants`, { token, json: { ...json, lease: turn.lease } }),
      gateway.send('POST', `${path}/complete`, { token, json: { ...json, lease: turn.lease } }),
      gateway.send('POST', `${path}/stop`, { token, json }),
    ];
    const bodies = async (path: string) =>
      (await Promise.all(calls(path))).map(({ status, body }) => [status, body]);
    const foreign = (await bodies(at)).map(([status, body]) => [
      status,
      { ...(body as object), decision: undefined },
    ]);
    expect(foreign).toEqual(
      (await bodies(ghost)).map(([status, body]) => [
        status,
        { ...(body as object), decision: undefined },
      ]),
    );
    expect(foreign.every(([status]) => status === 404)).toBe(true);
    expect((await turn.tool('search', { query: 'canary' })).status).toBe(200);
  });

  test('an organization that a caller is not registered for is closed, whatever turn it names', async () => {
    const turn = await start();
    const other = await gateway.organization();
    const token = await gateway.addCaller({
      id: `o-${acme.name}`,
      scopes: ['bridge', 'deliver', 'operator'],
      organizations: [other.name],
    });

    const at = `/v1/turns/${turn.id}`;
    expect((await gateway.send('GET', `${at}?organization=${acme.name}`, { token })).code).toBe(
      'not_permitted',
    );
    expect((await gateway.send('GET', `${at}?organization=${other.name}`, { token })).code).toBe(
      'not_found',
    );
    expect(
      (await gateway.send('POST', `${at}/stop`, { token, json: { organization: other.name } }))
        .code,
    ).toBe('not_found');
    const mint = { organization: other.name, lease: turn.lease };
    expect((await gateway.send('POST', `${at}/grants`, { token, json: mint })).code).toBe(
      'not_found',
    );
  });

  test('an idempotency key gives the same turn to the same caller and body, and to nobody else', async () => {
    const key = 'the-key';
    const request = { destination: 'thread', requester: 'ana', trigger: '1' };
    const token = await gateway.addCaller({ id: `i-${acme.name}`, scopes: ['bridge'] });
    const turnOf = async (more: object, options: object = {}) => {
      const { body, code } = await acme.openTurn({ ...request, ...more }, { key, ...options });
      return code ?? (body as { turnId: string }).turnId;
    };
    const first = await turnOf({});

    expect(await turnOf({})).toBe(first);
    expect(await turnOf({ destination: 'other' })).toBe('conflict');
    expect(await turnOf({ tools: ['search'] })).toBe('conflict');
    const another = await turnOf({}, { token });
    expect(another).not.toBe(first);
    expect(await turnOf({}, { token })).toBe(another);
    const elsewhere = await gateway.organization();
    expect((await elsewhere.openTurn(request, { key })).code).toBe('not_found');
  });

  test('many requests with one key at once open one turn', async () => {
    const request = { destination: 'thread', requester: 'ana', trigger: '1' };
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => acme.openTurn(request, { key: 'once' })),
    );
    const turns = new Set(answers.map((answer) => (ok(answer) as { turnId: string }).turnId));

    expect(turns.size).toBe(1);
  });

  test('of many requests with one key and two bodies at once, one body opens a turn and the other is a conflict', async () => {
    const request = { destination: 'thread', requester: 'ana', trigger: '1' };
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        acme.openTurn({ ...request, threadKey: `key ${i % 2}` }, { key: 'twice' }),
      ),
    );

    expect(answers.map(({ code }) => code ?? 'opened').sort()).toEqual([
      ...Array<string>(4).fill('conflict'),
      ...Array<string>(4).fill('opened'),
    ]);
  });

  test.each([
    ['the guard is paused', () => acme.put('guard', { guard: 'paused' }), 'organization_paused'],
    ['the requester left', () => acme.remove('conversations/thread/members/ana'), 'not_found'],
    [
      'the trigger was deleted',
      () =>
        gateway.owner`update earshot.messages set state = 'deleted' where body = 'which canary'`,
      'trigger_out_of_scope',
    ],
    [
      'the persona is not designated',
      () => acme.put('personas/assistant', { custody: 'service', designated: false }),
      'persona_not_designated',
    ],
  ])('a repeated request is judged again: %s', async (_what, change, code) => {
    const request = { destination: 'thread', requester: 'ana', trigger: '1' };
    ok(await acme.openTurn(request, { key: 'replay' }));
    await change();

    expect((await acme.openTurn(request, { key: 'replay' })).code).toBe(code);
  });
});

describe('a cursor', () => {
  const page = (turn: TestTurn, more: object = {}) =>
    turn.tool('search', { query: 'canary', limit: 1, ...more });

  test('goes on only with its grant and its question', async () => {
    const turn = await start();
    const { cursor = '' } = ok(await page(turn));
    const another = await start();
    const other = await start('other');

    expect(ok(await page(turn, { cursor })).items).toHaveLength(1);
    for (const answer of [
      await page(another, { cursor }),
      await page(other, { cursor }),
      await page(turn, { cursor, query: 'which' }),
      await page(turn, { cursor, limit: 2 }),
      await page(turn, { cursor, conversation: 'shared' }),
      await page(turn, { cursor, recipient: 'ben' }),
      await turn.tool('read', { conversation: 'shared', cursor }),
      await turn.tool('list_conversations', { limit: 1, cursor }),
      await page(turn, { cursor: `${cursor.slice(0, -2)}AA` }),
      await page(turn, { cursor: turn.grant.token }),
      await page(turn, { cursor: 'e30.e30.e30' }),
    ]) {
      expect(answer.code).toBe('invalid_input');
    }
  });

  test('permits nothing once the audience has changed', async () => {
    const turn = await start();
    const { cursor = '' } = ok(await page(turn));
    await acme.put('conversations/thread/members/cleo', { history: 'all' });

    expect((await page(turn, { cursor })).code).toBe('audience_changed');
  });

  test('shows the scope of now, not the one it was made in', async () => {
    const turn = await start();
    const first = ok(await page(turn));
    await acme.remove('conversations/shared/members/ben');
    const next = ok(await page(turn, { cursor: first.cursor }));

    expect(next.items.map(({ source }) => source.conversation)).not.toContain('shared');
  });
});

test('ids are never used again for something else', async () => {
  await acme.remove('users/cleo');
  await acme.remove('conversations/shared');
  await acme.put('conversations/thread/messages/m2', {
    author: { user: 'ana' },
    body: 'canary',
    sentAt: '2050-01-01T00:00:00Z',
  });
  await acme.remove('conversations/thread/messages/m2');

  await expect(acme.put('users/cleo', { kind: 'member' })).rejects.toThrow('conflict');
  await expect(
    acme.put('conversations/shared', { kind: 'group', visibility: 'members' }),
  ).rejects.toThrow('conflict');
  const again = await acme.put('conversations/thread/messages/m2', {
    author: { user: 'ana' },
    body: 'canary again',
    sentAt: '2051-01-01T00:00:00Z',
  });
  expect(again.outcome).toBe('gone');
  expect(await (await start()).search('again')).toEqual([]);
});
