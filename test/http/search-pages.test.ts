import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Messages, TestTurn } from '../support/organization.ts';
import { withMutant } from '../worlds/mutant.ts';
import { pairOf, type Pair } from './pair.ts';

// What narrows a search, how it goes on, and how many there are in all.

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
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.conversation('open', [], { visibility: 'organization' });
});

async function search(turn: TestTurn, args: object): Promise<Messages> {
  return ok(await turn.tool('search', args));
}

async function ids(turn: TestTurn, args: object): Promise<string[]> {
  return (await search(turn, args)).items.map(({ source }) => source.id).sort();
}

describe('filters', () => {
  const at = (second: number) => `2050-01-01T00:00:0${second}.000000Z`;
  const fill = async () => {
    for (const place of ['shared', 'open']) {
      const put = (id: string, second: number, more: object) =>
        write(place, `${place}-${id}`, 'canary', { sentAt: at(second), ...more });
      await put('a', 1, {});
      await put('b', 2, { author: { user: 'ben' } });
      await put('c', 3, { kind: 'event' });
      await put('d', 4, { author: { user: 'ben' }, kind: 'event' });
    }
    return start();
  };

  test.each([
    [{}, 'abcd', 'abcd'],
    [{ conversation: 'shared' }, 'abcd', ''],
    [{ conversation: 'open' }, '', 'abcd'],
    [{ author: 'ana' }, 'ac', 'ac'],
    [{ author: 'ben' }, 'bd', 'bd'],
    [{ kind: 'message' }, 'ab', 'ab'],
    [{ kind: 'event' }, 'cd', 'cd'],
    [{ since: at(2) }, 'bcd', 'bcd'],
    [{ since: '2050-01-01T00:00:02.000001Z' }, 'cd', 'cd'],
    [{ until: at(2) }, 'a', 'a'],
    [{ until: '2050-01-01T01:00:02.000001+01:00' }, 'ab', 'ab'],
    [{ since: at(2), until: at(4) }, 'bc', 'bc'],
    [{ since: at(4), until: at(2) }, '', ''],
    [{ author: 'ben', kind: 'event' }, 'd', 'd'],
    [{ conversation: 'open', author: 'ben', kind: 'message', since: at(2), until: at(3) }, '', 'b'],
    [{ conversation: 'nowhere' }, '', ''],
    [{ conversation: 'of-cleo' }, '', ''],
    [{ author: 'nobody' }, '', ''],
    [{ author: 'cleo' }, '', ''],
  ])('%j let through what they name, and the total follows', async (filter, shared, open) => {
    await acme.conversation('of-cleo', ['cleo']);
    await write('of-cleo', 'x', 'canary');
    const turn = await fill();
    const expected = [
      ...Array.from(open, (id) => `open-${id}`),
      ...Array.from(shared, (id) => `shared-${id}`),
    ];

    expect(await ids(turn, { query: 'canary', ...filter })).toEqual(expected);
    const first = await search(turn, { query: 'canary', ...filter, limit: 1, total: true });
    expect(first.total).toEqual({ messages: String(expected.length), complete: true });
    expect(first.items).toHaveLength(Math.min(1, expected.length));
  });

  test('a search in one conversation ranks by that one alone', async () => {
    await write('shared', 's1', 'lantern pewter');
    await write('shared', 's2', 'lantern');
    await write('shared', 's3', 'harbor');
    const turn = await start();
    const scores = async () =>
      (await search(turn, { query: 'lantern pewter', conversation: 'shared' })).items.map(
        ({ score }) => score,
      );
    const before = await scores();
    for (const n of [1, 2, 3, 4]) await write('open', `o${n}`, 'pewter pewter');

    expect(await scores()).toEqual(before);
  });
});

describe('a cursor', () => {
  /** Many that tie by score, and by sequence too. */
  const fill = async () => {
    await acme.conversation('another', ['ana', 'ben']);
    for (let n = 1; n <= 9; n++) {
      for (const place of ['shared', 'another', 'open']) {
        await write(place, `${place}-${n}`, n % 3 === 0 ? 'canary canary' : 'canary bird');
      }
    }
    return start();
  };

  async function walk(turn: TestTurn, args: object, limit: number) {
    const found: Messages['items'] = [];
    for (let cursor: string | undefined; ;) {
      const page = await search(turn, { ...args, limit, ...(cursor !== undefined && { cursor }) });
      found.push(...page.items);
      expect(page.complete).toBe(page.cursor === undefined);
      if (!page.complete) expect(page.items).toHaveLength(limit);
      if (page.cursor === undefined) return found;
      cursor = page.cursor;
    }
  }

  test.each([
    [{ query: 'canary' }, 27],
    [{ query: 'bird canar*' }, 27],
    [{ query: 'canary -bird' }, 9],
    [{ query: '"canary bird"', conversation: 'open' }, 6],
    [{ query: 'canary', author: 'ana', kind: 'message', until: '2051-01-01T00:00:00Z' }, 27],
  ])(
    'walks all pages of %j without a gap or a repeat, whatever their size',
    async (args, count) => {
      const turn = await fill();
      const whole = await walk(turn, args, 100);
      const named = whole.map(({ source }) => source.id);

      expect(new Set(named).size).toBe(count);
      expect(whole).toHaveLength(count);
      for (const limit of [1, 2, 5, 9, 26]) {
        const ids = (await walk(turn, args, limit)).map(({ source }) => source.id);
        expect({ limit, ids }).toEqual({ limit, ids: named });
      }
      const places = whole.map(({ score, source }) => [
        -(score ?? 0),
        -Number(source.seq),
        source.conversation,
      ]);
      expect(places).toEqual(
        [...places].sort((a, b) =>
          a[0] !== b[0]
            ? Number(a[0]) - Number(b[0])
            : a[1] !== b[1]
              ? Number(a[1]) - Number(b[1])
              : String(a[2]) < String(b[2])
                ? -1
                : 1,
        ),
      );
    },
  );

  describe('walks through more that tie in every way than a first window holds', () => {
    const rooms = Array.from({ length: 12 }, (_, n) => `room-${String.fromCharCode(108 - n)}`);
    const enter = async () => {
      for (const room of rooms) {
        await acme.conversation(room, ['ana', 'ben']);
        await write(room, 'm', 'canary');
      }
      return start();
    };
    const walked = async (turn: TestTurn, limit: number) =>
      (await walk(turn, { query: 'canary' }, limit)).map(({ source }) => source.conversation);

    test('by the order of their names', async () => {
      const turn = await enter();
      for (const limit of [1, 2, 5, 100]) {
        expect(await walked(turn, limit)).toEqual([...rooms].sort());
      }
    });

    test.each([
      {
        title: 'a window cuts what ties',
        routine: 'search_candidates',
        from: 'where (s.score, s.seq) >= (',
        to: 'where (s.score, s.seq) > (',
      },
      {
        title: 'a page takes those that tie the other way round',
        routine: 'search_messages',
        from: 'n.external_id\n      limit',
        to: 'n.external_id desc\n      limit',
      },
    ])('and would not if $title', async (change) => {
      const turn = await enter();
      await withMutant(gateway.owner, change, async () => {
        expect(await walked(turn, 1)).not.toEqual([...rooms].sort());
      });
    });
  });

  test('of another question, another grant or altered by a bit is refused', async () => {
    const turn = await fill();
    const { cursor = '' } = await search(turn, { query: 'canary', limit: 2 });
    const refused = async (by: TestTurn, args: object) =>
      (await by.tool('search', { query: 'canary', limit: 2, cursor, ...args })).code;

    expect(await refused(turn, {})).toBeUndefined();
    for (const args of [
      { query: 'canary ' },
      { query: 'bird' },
      { limit: 3 },
      { total: true },
      { author: 'ana' },
      { conversation: 'shared' },
      { recipient: 'ben' },
      { since: '2050-01-01T00:00:00Z' },
      { cursor: `${cursor.slice(0, -1)}${cursor.endsWith('A') ? 'B' : 'A'}` },
      { cursor: cursor.replace('.', '..') },
      { cursor: `${cursor.split('.').slice(0, 2).join('.')}.` },
      { cursor: '' },
      { cursor: 'x' },
    ]) {
      expect({ args, code: await refused(turn, args) }).toEqual({ args, code: 'invalid_input' });
    }
    expect(await refused(await start(), {})).toBe('invalid_input');
    expect((await turn.tool('read', { conversation: 'shared', cursor })).code).toBe(
      'invalid_input',
    );
  });

  test('lets in nothing that the readers have lost since the page before', async () => {
    const turn = await fill();
    const { cursor } = await search(turn, { query: 'canary', limit: 2 });
    await acme.remove('conversations/another/members/ben');
    const rest = await search(turn, { query: 'canary', limit: 2, cursor });

    expect(rest.items.map(({ source }) => source.conversation)).not.toContain('another');
  });
});

describe('the total', () => {
  test('is absent unless it is asked for', async () => {
    await write('shared', 's1', 'canary');
    const turn = await start();

    expect(await search(turn, { query: 'canary' })).not.toHaveProperty('total');
    expect(await search(turn, { query: 'canary', total: false })).not.toHaveProperty('total');
    expect((await search(turn, { query: 'the', total: true })).total).toEqual({
      messages: '0',
      complete: true,
    });
  });

  test('is of all pages, on each of them', async () => {
    for (let n = 0; n < 7; n++) await write(n % 2 ? 'shared' : 'open', `m${n}`, 'canary bird');
    await write('shared', 'other', 'bird canary');
    const turn = await start();
    const totals: unknown[] = [];
    for (let cursor: string | undefined, page = 0; page === 0 || cursor !== undefined; page++) {
      const found = await search(turn, {
        ...{ query: '"canary bird"', limit: 3, total: true },
        ...(cursor !== undefined && { cursor }),
      });
      totals.push(found.total);
      cursor = found.cursor;
    }

    expect(totals).toEqual(Array(3).fill({ messages: '7', complete: true }));
    expect((await search(turn, { query: 'canary -"canary bird"', total: true })).total).toEqual({
      messages: '1',
      complete: true,
    });
  });

  test('counts no answer whose lineage is not readable, and one whose lineage is', async () => {
    await acme.conversation('lab', ['ana', 'ben'], { aiThread: true });
    await acme.conversation('secret', ['ana', 'ben']);
    await acme.conversation('trio', ['ana', 'ben', 'cleo'], { aiThread: true });
    await write('secret', 'source', 'canary');
    await acme.say('lab', 'ana', 'what is it');
    await acme.say('trio', 'ana', 'go');
    const lab = await acme.turn({ destination: 'lab', requester: 'ana', trigger: '1' });
    await lab.search('canary');
    const delivery = ok(await lab.propose('lantern by an assistant'));
    ok(await acme.release(delivery));
    ok(await acme.acknowledge(delivery, 'delivered', 'answer'));
    await write('lab', 'answer', 'lantern by an assistant', { author: { persona: 'assistant' } });
    await write('lab', 'plain', 'lantern by ana');
    await acme.put('conversations/lab/members/cleo', { history: 'all' });

    const count = async (turn: TestTurn) => {
      const { items, total } = await search(turn, { query: 'lantern', total: true });
      return [items.map(({ source }) => source.id).sort(), total?.messages];
    };
    expect(await count(await start())).toEqual([['answer', 'plain'], '2']);
    expect(
      await count(await acme.turn({ destination: 'trio', requester: 'ana', trigger: '1' })),
    ).toEqual([['plain'], '1']);
  });

  test('counts nothing that is hidden', async () => {
    await acme.conversation('of-ana', ['ana']);
    await acme.conversation('later', ['ana', { user: 'ben', history: { fromSeq: '2' } }]);
    for (const place of ['shared', 'open', 'of-ana', 'later']) await write(place, 'm', 'canary');
    await write('open', 'gone', 'canary');
    await acme.remove('conversations/open/messages/gone');

    expect((await search(await start(), { query: 'canary', total: true })).total).toEqual({
      messages: '2',
      complete: true,
    });
  });
});
