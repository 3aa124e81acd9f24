import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Conversations, TestTurn } from '../support/organization.ts';
import { pairOf, type Pair } from './pair.ts';

// Cases 7, 12 and 13.

let gateway: TestGateway;
let acme: Pair['acme'];
let start: Pair['start'];
let write: Pair['write'];

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  ({ acme, start, write } = await pairOf(gateway));
});

describe('what is out of scope looks like what does not exist', () => {
  test('to every tool that takes an id, of this organization and of another', async () => {
    await acme.conversation('of-ana', ['ana']);
    await write('of-ana', 'a1', 'canary hidden');
    await acme.conversation('staged', ['ana', 'ben'], { staged: true });
    await acme.conversation('deleted', ['ana', 'ben']);
    await acme.remove('conversations/deleted');
    const other = await gateway.organization();
    await other.users('ana');
    await other.conversation('foreign', ['ana']);
    await other.say('foreign', 'ana', 'canary abroad');
    const turn = await start();

    const places = ['of-ana', 'staged', 'deleted', 'foreign', 'never-was'];
    for (const [tool, args] of [
      ['read', {}],
      ['read', { fromSeq: '1', direction: 'backward' }],
      ['around', { seq: '1' }],
      ['thread', { seq: '1' }],
      ['search', { query: 'canary' }],
    ] as const) {
      const answers = await Promise.all(
        places.map(async (conversation) => {
          const { status, body, headers } = await turn.tool(tool, { conversation, ...args });
          const { decision: _id, ...rest } = body as Record<string, unknown>;
          return { status, body: rest, type: headers.get('content-type') };
        }),
      );
      expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toHaveLength(1);
    }
    const authors = await Promise.all(
      ['cleo', 'nobody'].map((author) => turn.tool('search', { query: 'canary', author })),
    );
    expect(authors.map(({ status, body }) => [status, body.items])).toEqual([
      [200, []],
      [200, []],
    ]);
  });

  test('a recipient narrows or does nothing, and tells nothing about who exists', async () => {
    await acme.users('dora');
    await acme.put('users/gone', { kind: 'member', status: 'deactivated' });
    await acme.put('users/relay', { kind: 'bot' });
    await acme.conversation('shared', ['ana', 'ben', 'cleo']);
    await write('shared', 's1', 'canary');
    const turn = await start();

    expect(await turn.search('canary', { recipient: 'cleo' })).toEqual(['canary']);
    expect(await turn.search('canary', { recipient: 'ana' })).toEqual(['canary']);
    for (const recipient of ['dora', 'gone', 'relay', 'nobody', acme.name]) {
      expect(await turn.search('canary', { recipient })).toEqual([]);
      expect((await turn.tool('read', { conversation: 'shared', recipient })).code).toBe(
        'not_found',
      );
      const listed = ok(await turn.tool<Conversations>('list_conversations', { recipient }));
      expect(listed.items).toEqual([]);
    }
  });

  test('a destination of a turn and of a delivery, in whatever state it is', async () => {
    await acme.put('users/relay', { kind: 'bot' });
    await acme.conversation('of-ben', ['ben']);
    await acme.conversation('archived', ['ben'], { archived: true });
    await acme.conversation('mirrored', ['ben'], { externalReaders: true });
    await acme.conversation('unresolved', ['ben', 'unknown']);
    await acme.conversation('empty', []);
    await acme.conversation('of-bots', ['relay']);
    await acme.conversation('stopped', ['ben']);
    await acme.put('stops/conversation/stopped', {});
    await acme.conversation('staged', ['ana', 'ben'], { staged: true });
    const turn = await start();

    for (const destination of [
      ...['of-ben', 'archived', 'mirrored', 'unresolved', 'empty', 'of-bots', 'stopped', 'staged'],
      'never-was',
    ]) {
      const asked = { destination, requester: 'ana', trigger: { kind: 'schedule' } };
      const codes = [
        (await acme.openTurn(asked)).code,
        (await turn.propose('x', { destination })).code,
      ];
      expect({ destination, codes }).toEqual({ destination, codes: ['not_found', 'not_found'] });
    }
    const known = await turn.propose('x', { destination: 'of-ben' });
    expect(known.body).toEqual((await turn.propose('x', { destination: 'never-was' })).body);
    expect(await gateway.owner`select from earshot.deliveries where turn_id = ${turn.id}`).toEqual(
      [],
    );
  });

  test('a destination, to a grant that has ended too', async () => {
    await acme.conversation('of-ben', ['ben']);
    await acme.conversation('pair', ['ana', 'ben']);
    for (const [end, code] of [
      [(turn: TestTurn) => turn.end('complete'), 'turn_not_running'],
      [(turn: TestTurn) => turn.mint(), 'grant_expired'],
      [() => acme.put('conversations/thread/members/cleo', { history: 'all' }), 'audience_changed'],
    ] as const) {
      const turns = [await start(), await start()] as const;
      for (const turn of turns) await end(turn);
      const [hidden, absent] = await Promise.all([
        turns[0].propose('x', { destination: 'of-ben' }),
        turns[1].propose('x', { destination: 'never-was' }),
      ]);

      expect(hidden.code).toBe(code);
      expect([hidden.status, hidden.body]).toEqual([absent.status, absent.body]);
    }
  });

  test('hidden rows change no score, count, highlight, page or completeness of an answer', async () => {
    await acme.conversation('shared', ['ana', 'ben']);
    await acme.conversation('of-ana', ['ana']);
    for (const id of ['1', '2', '3']) await write('shared', id, `canary sings ${id}`);
    const look = async () => {
      const turn = await start();
      const found = ok(await turn.tool('search', { query: 'canary sings', limit: 2 }));
      const listed = ok(await turn.tool<Conversations>('list_conversations', {}));
      return JSON.stringify([
        found.items.map(({ text, score, highlights }) => [text, score, highlights]),
        [found.complete, found.cursor === undefined],
        listed.items.map(({ conversation, messages, latestAt }) => [
          conversation,
          messages,
          latestAt,
        ]),
        turn.grant.conversations,
      ]);
    };
    const before = await look();
    for (let n = 0; n < 50; n++) await write('of-ana', `h${n}`, 'canary canary sings sings');

    expect(await look()).toBe(before);
  });
});

describe('ids that nearly are another', () => {
  test('large sequences round-trip exactly, and numbers in their place are refused', async () => {
    const [low, high] = ['9007199254740992', '9007199254740993'];
    await acme.conversation('shared', ['ana']);
    await write('shared', 's1', 'canary low');
    await gateway.owner`update earshot.conversations set head = ${low} where external_id = 'shared' and org_id = (select id from earshot.organizations where external_id = ${acme.name})`;
    const { seq } = await write('shared', 's2', 'canary high');
    await acme.put('conversations/shared/members/ben', { history: { fromSeq: high } });
    const turn = await start();

    expect(seq).toBe(high);
    const { items } = ok(await turn.tool('read', { conversation: 'shared', fromSeq: low }));
    expect(items.map(({ source }) => source.seq)).toEqual([high]);
    expect(items[0]?.envelope.history.fromSeq).toBe(high);
    expect((await turn.tool('around', { conversation: 'shared', seq: low })).code).toBe(
      'not_found',
    );
    expect(ok(await turn.tool('around', { conversation: 'shared', seq: high })).items).toHaveLength(
      1,
    );
    for (const fromSeq of [
      Number(high),
      '9007199254740993.0',
      '+1',
      '01',
      '-1',
      '1e3',
      '0x1',
      ' 1',
      '9223372036854775808',
    ]) {
      expect((await turn.tool('read', { conversation: 'shared', fromSeq })).code).toBe(
        'invalid_input',
      );
    }
  });

  test('no case folding, compatibility form or invisible character obtains another one’s scope', async () => {
    await acme.users('k');
    await acme.conversation('k-room', ['ana', 'ben', 'k']);
    await write('k-room', 'm1', 'canary');
    const turn = await start();

    expect(await turn.search('canary', { recipient: 'k' })).toEqual(['canary']);
    for (const id of ['K', '\uff4b', 'k\u200b', 'k\u200d', '\u043a']) {
      expect(await turn.search('canary', { recipient: id })).toEqual([]);
      expect((await turn.tool('read', { conversation: `${id}-room` })).code).toBe('not_found');
    }
    for (const id of ['\u212a', 'k\u0301\u0327', ' \0']) {
      expect((await turn.tool('read', { conversation: id })).code).toBe('invalid_input');
    }
  });

  test('an id of any sound text passes the path, the body and the answer unchanged', async () => {
    const ids = [
      'a/b',
      '..',
      '.',
      'a%2Fb',
      '%',
      '%25',
      'a b',
      '+',
      'a+b',
      '?x=1',
      '#',
      'é',
      '\u{1F600}\u{FF5E}',
      "'; drop table x",
      '\\',
      '"',
      '{"a":1}',
      '*',
      ':org',
      '{org}',
      '__proto__',
      'constructor',
      '\u{E000}',
      'ａ',
      '\u202e',
      'null',
      '0',
      '1'.repeat(128),
    ];
    await acme.users(...ids);
    const put: unknown[] = [];
    for (const id of ids) {
      const segment = encodeURIComponent(id).replace(/^\.+$/, (dots) =>
        dots.replaceAll('.', '%2E'),
      );
      const answer = await gateway.send('PUT', `/v1/organizations/${acme.name}/users/${segment}`, {
        token: gateway.tokens.ingest,
        json: { kind: 'member' },
      });
      put.push([id, (answer.body as { outcome?: string }).outcome]);
    }
    const stored = await gateway.owner<{ id: string }[]>`
      select external_id as id from earshot.users u
      where org_id = (select id from earshot.organizations where external_id = ${acme.name})`;

    // A path of dots is taken away by whoever normalizes an address; such an id goes by the stream of facts.
    expect(
      put.filter((one) => (one as string[])[1] !== 'unchanged').map((one) => (one as string[])[0]),
    ).toEqual(['..', '.']);
    expect(stored.map(({ id }) => id).sort()).toEqual(['ana', 'ben', 'cleo', ...ids].sort());
  });
});
