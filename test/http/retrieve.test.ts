import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import {
  read,
  retrievalHouse,
  search,
  type Packet,
  type RetrievalHouse,
} from './retrieval-house.ts';

// Several calls of tools in one: one snapshot, one decision, and for each its own answer.

let gateway: TestGateway;
let acme: RetrievalHouse['acme'];
let write: RetrievalHouse['write'];
let turn: RetrievalHouse['turn'];
let retrieve: RetrievalHouse['retrieve'];

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  ({ acme, write, turn, retrieve } = await retrievalHouse(gateway));
});

const texts = ({ items }: Pick<Packet['results'][number], 'items'>) =>
  items.map(({ text }) => text);

describe('several calls', () => {
  test('are each answered as by themselves, in their order', async () => {
    const around = { conversation: 'shared', seq: '2', before: 1, after: 0 };
    const { results } = ok(
      await retrieve({
        calls: [
          search('s2'),
          read('shared', { limit: 2 }),
          { tool: 'around', arguments: around },
          { tool: 'thread', arguments: { conversation: 'shared', seq: '3' } },
          { tool: 'list_conversations', arguments: {} },
        ],
      }),
    );
    const alone = [
      await turn.tool('search', { query: 's2' }),
      await turn.tool('read', { conversation: 'shared', limit: 2 }),
      await turn.tool('around', around),
      await turn.tool('thread', { conversation: 'shared', seq: '3' }),
      await turn.tool('list_conversations', {}),
    ].map(ok);
    const bare = (one: object) =>
      JSON.parse(
        JSON.stringify(one, (key, value: unknown) =>
          ['decision', 'cursor'].includes(key) ? undefined : value,
        ),
      ) as unknown;
    expect(results.map(bare)).toEqual(alone.map(bare));
  });

  test('are under one decision, which the ledger and every envelope name', async () => {
    const { decision, results } = ok(
      await retrieve({ calls: [read('shared', { limit: 1 }), search('s3'), search('canary s1')] }),
    );
    const told = results.flatMap(({ items }) => items.map((item) => item.envelope.decision.id));
    expect(new Set(told)).toEqual(new Set([decision]));
    const decisions = await gateway.owner`
      select kind, tool, verdict, items, detail from earshot.decisions where id = ${decision}`;
    expect(decisions).toEqual([
      {
        kind: 'tool',
        tool: 'retrieve',
        verdict: 'allowed',
        items: told.length,
        detail: { calls: 3 },
      },
    ]);
    const shown = await gateway.owner`
      select from_seq, revision, decision_id from earshot.ledger_entries
      where session_id = ${turn.grant.sessionId} and to_seq is not null order by from_seq`;
    const seqs = new Set(
      results.flatMap(({ items }) => items.map(({ source }) => source.seq)).toSorted(),
    );
    expect(shown).toEqual(
      [...seqs].map((from_seq) => ({ from_seq, revision: '1', decision_id: decision })),
    );
  });

  test('see one state of the facts, whatever is written meanwhile', async () => {
    const writing = new AbortController();
    const writer = (async () => {
      for (let n = 0; !writing.signal.aborted; n++)
        await write('shared', `w${n.toString()}`, 'canary later');
    })();
    const calls = Array.from({ length: 10 }, () => read('shared', { limit: 100 }));
    for (let packet = 0; packet < 10; packet++) {
      const { results } = ok(await retrieve({ calls }));
      expect(new Set(results.map(({ items }) => items.length)).size).toBe(1);
    }
    writing.abort();
    await writer;
  });

  test('go on from cursors of their own, which are those of the tools', async () => {
    const first = ok(await retrieve({ calls: [read('shared', { limit: 1 }), search('s2')] }));
    expect(first.results.map(({ complete }) => complete)).toEqual([false, true]);
    const cursor = first.results[0]?.cursor;
    expect(first.results[1]).not.toHaveProperty('cursor');
    const next = { limit: 1, cursor };
    const { results } = ok(await retrieve({ calls: [read('shared', next), search('s3')] }));
    expect(results.map(texts)).toEqual([['canary s2'], ['canary s3']]);
    const alone = ok(await turn.tool('read', { conversation: 'shared', ...next }));
    expect(texts(alone)).toEqual(['canary s2']);
  });

  test('are all refused where one has the cursor of another question', async () => {
    const { results } = ok(await retrieve({ calls: [read('shared', { limit: 1 })] }));
    const cursor = results[0]?.cursor;
    const refused = await retrieve({ calls: [search('s1'), read('thread', { limit: 1, cursor })] });
    expect(refused.code).toBe('invalid_input');
  });
});

describe('a call that is refused by itself', () => {
  test('is refused alike for what is absent and for what is out of scope, and the others are answered', async () => {
    for (const more of [
      (conversation: string) => read(conversation),
      (conversation: string) => ({ tool: 'around', arguments: { conversation, seq: '1' } }),
      (conversation: string) => ({ tool: 'thread', arguments: { conversation, seq: '1' } }),
    ]) {
      const { results } = ok(
        await retrieve({ calls: [more('private'), search('s1'), more('ghost'), more('shared')] }),
      );
      const [outside, found, absent, inside] = results;
      expect(outside).toEqual({ items: [], complete: false, code: 'not_found' });
      expect(absent).toEqual(outside);
      expect(found?.items).toHaveLength(1);
      expect(inside).not.toHaveProperty('code');
    }
    const within = (conversation: string) => search('canary', { conversation });
    const { results } = ok(await retrieve({ calls: [within('private'), within('ghost')] }));
    expect(results[0]).toEqual({ items: [], complete: true });
    expect(results[1]).toEqual(results[0]);
  });

  test('puts nothing into the ledger', async () => {
    ok(await retrieve({ calls: [read('private'), read('ghost')] }));
    expect(
      await gateway.owner`select 1 from earshot.ledger_entries
        where session_id = ${turn.grant.sessionId} and to_seq is not null`,
    ).toEqual([]);
  });

  test('never finds what one of the audience does not read', async () => {
    expect(JSON.stringify(ok(await retrieve({ calls: [search('canary')] })))).not.toContain(
      'of ana',
    );
  });
});

describe('all calls are refused', () => {
  test('where the turn does not allow one of their tools, with that on record', async () => {
    const tools = ['search'];
    const narrow = await acme.turn({
      ...{ destination: 'thread', requester: 'ana', trigger: '1', tools },
    });
    ok(await retrieve({ calls: [search('s1')] }, '', narrow));
    const refused = await retrieve({ calls: [search('s1'), read('shared')] }, '', narrow);
    expect([refused.status, refused.code]).toEqual([403, 'tool_not_allowed']);
    const { decision } = refused.body as { decision?: string };
    expect(
      await gateway.owner`select verdict, code, items from earshot.decisions where id = ${decision ?? ''}`,
    ).toEqual([{ verdict: 'refused', code: 'tool_not_allowed', items: 0 }]);
  });

  test('where the grant has ended, or is none', async () => {
    ok(await turn.end('stop'));
    expect((await retrieve({ calls: [search('s1')] })).code).toBe('turn_not_running');
    const none = { grant: { ...turn.grant, token: 'none' } };
    expect((await retrieve({ calls: [search('s1')] }, '', { ...turn, ...none })).code).toBe(
      'malformed_token',
    );
  });

  const one = { calls: [search('s1')] };
  test.each<[what: string, json: unknown, query?: string]>([
    ['readers', { ...one, readers: ['ana'] }],
    ['an audience', { ...one, audience: ['ana'] }],
    ['a floor', { ...one, floor: '0' }],
    ['a mode', { ...one, mode: 'private' }],
    ['readers in a call', { calls: [{ ...search('s1'), readers: ['ana'] }] }],
    ['readers in arguments', { calls: [search('s1', { readers: ['ana'] })] }],
    ['a scope in arguments', { calls: [read('shared', { scope: 'all' })] }],
    ['readers in the query', one, '?readers=ana'],
    ['a turn in the query', one, '?turn=x'],
    ['a tool that is none', { calls: [{ tool: 'grep', arguments: {} }] }],
    ['the arguments of another tool', { calls: [{ tool: 'read', arguments: { query: 'x' } }] }],
    ['an envelope to store', { ...one, envelopes: [] }],
    ['a place to store it at', { ...one, position: 'system' }],
    ['no call', { calls: [] }],
    ['too many calls', { calls: Array.from({ length: 11 }, () => search('s1')) }],
  ])('where the request names %s', async (_what, json, query) => {
    const refused = await retrieve(json, query);
    expect([refused.status, refused.code]).toEqual([400, 'invalid_input']);
  });
});
