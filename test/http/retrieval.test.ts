import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Conversations, Messages, TestTurn } from '../support/organization.ts';
import { pairOf, type Pair } from './pair.ts';

// Cases 1, 3, 5 and 6.

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

describe('an empty or meaningless question', () => {
  test.each([
    '',
    ' ',
    'the and of',
    'a & (',
    '!',
    '"',
    '-',
    '"" -"',
    '\u{1F600}',
    '***',
    ':*',
    'a:b:c',
    '\\',
    '%_',
  ])('the query %j finds no recent rows and is no fault', async (query) => {
    await acme.conversation('shared', ['ana', 'ben']);
    await write('shared', 's1', 'canary in plain words');
    const turn = await start();
    const answer = await turn.tool('search', { query });

    expect([200, 400]).toContain(answer.status);
    if (answer.status === 200) expect(answer.body).toMatchObject({ items: [], complete: true });
    expect(await turn.search('canary')).toHaveLength(1);
  });

  test('readers who share nothing get an empty answer, not an unfiltered one', async () => {
    await acme.conversation('of-ana', ['ana']);
    await acme.conversation('of-ben', ['ben']);
    await write('of-ana', 'a1', 'canary');
    await write('of-ben', 'b1', 'canary', { author: { user: 'ben' } });
    const turn = await start();

    expect(await turn.search('canary')).toEqual([]);
    const listed = ok(await turn.tool<Conversations>('list_conversations', {}));
    expect(listed.items.map(({ conversation }) => conversation)).toEqual(['thread']);
  });
});

describe('a floor known by time', () => {
  const before = '2026-01-01T00:00:00.123400Z';
  const after = '2026-01-01T00:00:00.123950Z';

  test('keeps its microseconds by search, by id and by paging one by one', async () => {
    await acme.conversation('shared', ['ana']);
    await write('shared', 's1', 'canary below', { sentAt: before });
    await write('shared', 's2', 'canary above', { sentAt: after });
    await acme.put('conversations/shared/members/ben', {
      history: { fromTime: '2026-01-01T00:00:00.123900Z' },
    });
    const turn = await start();

    expect(await turn.search('canary')).toEqual(['canary above']);
    expect((await turn.tool('around', { conversation: 'shared', seq: '1' })).code).toBe(
      'not_found',
    );
    const paged = await pages(turn, 'read', { conversation: 'shared', limit: 1 });
    expect(paged.map(({ text, sentAt }) => [text, sentAt])).toEqual([['canary above', after]]);
  });

  test('a message at that very microsecond is above it, and the filters cut as sharply', async () => {
    await acme.conversation('shared', ['ana']);
    await write('shared', 's1', 'canary below', { sentAt: before });
    await write('shared', 's2', 'canary at', { sentAt: '2026-01-01T00:00:00.123900Z' });
    await acme.put('conversations/shared/members/ben', {
      history: { fromTime: '2026-01-01T00:00:00.1239Z' },
    });
    const turn = await start();

    expect(await turn.search('canary')).toEqual(['canary at']);
    expect(await turn.search('canary', { since: '2026-01-01T00:00:00.123901Z' })).toEqual([]);
    expect(await turn.search('canary', { until: '2026-01-01T00:00:00.123900Z' })).toEqual([]);
  });
});

test.each([
  '0001-01-01T00:00:00+23:59',
  '9999-12-31T23:59:59.999999-23:59',
  '0001-01-01T00:00:00Z',
])(
  'a time at the edge of what can be stored is kept or refused, and is no fault: %s',
  async (time) => {
    await acme.conversation('shared', ['ana', 'ben']);
    const turn = await start();
    const token = gateway.tokens.ingest;
    const json = { body: 'canary', sentAt: time };
    const place = `/v1/organizations/${acme.name}/conversations/shared/messages/m`;

    expect((await turn.tool('search', { query: 'x', since: time })).status).toBeLessThan(500);
    expect((await gateway.send('PUT', place, { token, json })).status).toBeLessThan(500);
  },
);

describe('a gap between leaving and coming back', () => {
  const gone = async () => {
    await write('shared', 's1', 'canary before');
    await acme.remove('conversations/shared/members/ben');
    await write('shared', 's2', 'canary in the gap');
  };

  test.each([
    ['a single join', () => acme.put('conversations/shared/members/ben', { history: 'from_join' })],
    [
      'a whole set of members',
      () =>
        acme.put('conversations/shared/members', {
          members: [
            { user: 'ana', history: 'all' },
            { user: 'ben', history: 'from_join' },
          ],
        }),
    ],
    [
      'a stream of facts',
      () =>
        acme.facts({ fact: 'member', conversation: 'shared', user: 'ben', history: 'from_join' }),
    ],
    [
      'a sequence',
      () => acme.put('conversations/shared/members/ben', { history: { fromSeq: '3' } }),
    ],
    [
      'an expiry that passed in between',
      async () => {
        const expiresAt = '2001-01-01T00:00:00Z';
        await acme.put('conversations/shared/members/ben', { history: 'all', expiresAt });
        await acme.put('conversations/shared/members/ben', { history: 'from_join' });
      },
    ],
  ])('stays invisible when the way back is %s', async (_way, rejoin) => {
    await acme.conversation('shared', ['ana', 'ben']);
    await gone();
    await rejoin();
    await write('shared', 's3', 'canary after', { sentAt: '2099-01-01T00:00:00Z' });
    const turn = await start();

    expect(await turn.search('canary')).toEqual(['canary after']);
    expect(
      (await pages(turn, 'read', { conversation: 'shared', limit: 1 })).map(({ text }) => text),
    ).toEqual(['canary after']);
    const whole = await turn.tool('around', {
      conversation: 'shared',
      seq: '3',
      before: 50,
    });
    expect(ok(whole).items.map(({ text }) => text)).toEqual(['canary after']);
  });

  test('a message that was sent in the gap and arrives late is kept apart until it is admitted', async () => {
    await acme.conversation('shared', ['ana', 'ben']);
    await gone();
    await acme.put('conversations/shared/members/ben', { history: 'from_join' });
    const late = await write('shared', 's3', 'canary late', { sentAt: '2026-01-01T00:00:05Z' });
    expect(late.outcome).toBe('late');
    expect(await (await start()).search('canary')).toEqual([]);

    const token = gateway.tokens.ingest;
    const room = `/v1/organizations/${acme.name}/conversations/shared/late`;
    const { body } = await gateway.send('GET', room, { token });
    expect(body).toMatchObject({ messages: [{ id: 's3', sentAt: '2026-01-01T00:00:05.000000Z' }] });
    ok(await gateway.send('POST', `${room}/s3/admit`, { token }));
    expect(await (await start()).search('canary')).toEqual(['canary late']);
  });
});

describe('a reply and an embed across a floor', () => {
  test('carry no text, snippet, author, id or link of what is below it', async () => {
    await acme.conversation('shared', ['ana', { user: 'ben', history: { fromSeq: '2' } }]);
    await acme.conversation('of-ana', ['ana']);
    await write('of-ana', 'secret-embed', 'canary hidden');
    await write('shared', 'secret-root', 'canary root', { author: { user: 'cleo' } });
    await write('shared', 'reply', 'canary reply', {
      replyTo: 'secret-root',
      embeds: [
        { conversation: 'of-ana', message: 'secret-embed' },
        { conversation: 'shared', message: 'secret-root' },
      ],
    });
    const turn = await start();

    for (const answer of [
      await turn.tool('search', { query: 'canary' }),
      await turn.tool('read', { conversation: 'shared' }),
      await turn.tool('around', { conversation: 'shared', seq: '2', before: 50 }),
      await turn.tool('thread', { conversation: 'shared', seq: '2' }),
    ]) {
      const { items } = ok(answer);
      expect(items.map(({ text, replyTo, embeds }) => ({ text, replyTo, embeds }))).toEqual([
        { text: 'canary reply', replyTo: undefined, embeds: undefined },
      ]);
      expect(JSON.stringify(answer.body)).not.toMatch(/secret|root|hidden|cleo|of-ana/);
    }
    expect((await turn.tool('thread', { conversation: 'shared', seq: '1' })).code).toBe(
      'not_found',
    );
  });

  test('name what is above it', async () => {
    await acme.conversation('shared', ['ana', 'ben']);
    await write('shared', 'root', 'canary root');
    await write('shared', 'reply', 'canary reply', {
      replyTo: 'root',
      embeds: [{ conversation: 'shared', message: 'root' }],
    });
    const turn = await start();
    const { items } = ok(await turn.tool('thread', { conversation: 'shared', seq: '1' }));

    expect(items.map(({ text }) => text)).toEqual(['canary root', 'canary reply']);
    const root = { conversation: 'shared', id: 'root', seq: '1' };
    expect(items[1]).toMatchObject({ replyTo: root, embeds: [root] });
  });
});

describe('pages', () => {
  test('of every tool are whole and without repeats, whatever their size', async () => {
    await acme.conversation('shared', ['ana', 'ben']);
    for (let n = 1; n <= 7; n++) {
      await write('shared', `m${n}`, `canary ${n % 2 ? 'canary' : ''} ${n}`, { replyTo: 'm1' });
    }
    const turn = await start();
    for (const [tool, args] of [
      ['search', { query: 'canary' }],
      ['read', { conversation: 'shared' }],
      ['read', { conversation: 'shared', direction: 'backward' }],
      ['thread', { conversation: 'shared', seq: '1' }],
    ] as const) {
      const whole = (await pages(turn, tool, { ...args, limit: 100 })).map(
        ({ source }) => source.id,
      );
      expect(whole).toHaveLength(7);
      for (const limit of [1, 2, 3, 7]) {
        const ids = (await pages(turn, tool, { ...args, limit })).map(({ source }) => source.id);
        expect({ tool, limit, ids }).toEqual({ tool, limit, ids: whole });
      }
    }
  });
});

/** Every page of a tool, by its cursors. */
async function pages(turn: TestTurn, tool: string, args: object): Promise<Messages['items']> {
  const items: Messages['items'] = [];
  let cursor: string | undefined;
  for (let page = 0; page < 50; page++) {
    const answer = ok(await turn.tool(tool, { ...args, ...(cursor !== undefined && { cursor }) }));
    items.push(...answer.items);
    cursor = answer.cursor;
    expect(answer.complete).toBe(cursor === undefined);
    if (cursor === undefined) return items;
  }
  throw new Error('the pages do not end');
}
