import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import {
  entry,
  entryMessages,
  entryProvenance,
  logOf,
  messagesAmong,
  type TestLog,
  text,
} from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// What each reader of a log is shown of it, by every way out.

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;
let log: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'a question');
  turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  log = logOf(gateway, turn);
});

/** A log with something for everybody, for each reader, for both, and for nobody. */
async function mixedLog(): Promise<string[]> {
  return log.append(
    entry(text('plain one'), text('ana only CANARY', 'ana')),
    entry(text('ben only CANARY', 'ben')),
    entry(text('for both CANARY', 'ana', 'ben')),
    entry({ type: 'text', text: 'nobody CANARY', audience: [] }),
    entry(text('plain two')),
  );
}

const reader = async (name: string) =>
  log.through((await log.open({ name: `of ${name}`, reader: name })).handle);

describe('a compile', () => {
  test('holds the blocks of its own reader and the plain ones, without the field', async () => {
    await mixedLog();
    const seen = async (of: TestLog) => {
      const compiled = ok(await of.compile());
      expect(JSON.stringify(compiled)).not.toContain('audience');
      return entryMessages(compiled).map(({ content }) => content.map((block) => block.text));
    };
    expect(await seen(await reader('ana'))).toEqual([
      ['plain one', 'ana only CANARY'],
      ['for both CANARY'],
      ['plain two'],
    ]);
    expect(await seen(await reader('ben'))).toEqual([
      ['plain one'],
      ['ben only CANARY'],
      ['for both CANARY'],
      ['plain two'],
    ]);
    expect(await seen(log)).toEqual([['plain one'], ['for both CANARY'], ['plain two']]);
    expect(await seen(await reader('stranger'))).toEqual([['plain one'], ['plain two']]);
  });

  test('tells the entries and blocks that it holds, and no others', async () => {
    const ids = await mixedLog();
    const compiled = ok(await log.compile());
    expect(entryProvenance(compiled).map(({ entry }) => entry)).toEqual([ids[0], ids[2], ids[4]]);
    expect(compiled.stats).toMatchObject({ entries: 3, blocks: 3 });
    const { entries, blocks } = ok(await log.describe());
    expect([entries, blocks]).toEqual(['3', '3']);
  });

  test('is the same when it is previewed', async () => {
    await mixedLog();
    ok(await log.compile());
    const { decision: _first, ...compiled } = ok(await log.compile()) as { decision?: string };
    const { decision: _second, ...previewed } = ok(await log.preview()) as { decision?: string };
    expect(previewed).toEqual(compiled);
  });

  test('of an audience with a class in it holds no block for some readers: nobody can name a class', async () => {
    await acme.conversation('open', [], {
      aiThread: true,
      visibility: 'organization',
      kind: 'channel',
    });
    await acme.say('open', 'ana', 'a question');
    const wide = logOf(
      gateway,
      await acme.turn({ destination: 'open', requester: 'ana', trigger: '1' }),
    );
    await wide.append(
      entry(text('plain')),
      entry(text('CANARY', 'ana', 'ben', 'cleo', 'class:organization')),
    );
    expect(await wide.texts()).toEqual(['plain']);
  });

  test('leaves out the form of its provider where it would cover a hidden block', async () => {
    const raw = { type: 'raw', provider: 'lab', value: { all: 'CANARY' } };
    const shared = { id: 'r', provider: 'lab', value: 'CANARY' };
    await log.append(
      entry(text('open'), text('ben CANARY', 'ben'), raw),
      entry({ ...text('kept'), replay: shared }, { ...text('ben CANARY', 'ben'), replay: shared }),
      entry(text('whole'), { type: 'raw', provider: 'lab', value: 'sound' }),
    );
    const messages = entryMessages(ok(await log.compile()));
    expect(messages.map(({ content }) => content)).toEqual([
      [text('open')],
      [text('kept')],
      [text('whole'), { type: 'raw', provider: 'lab', value: 'sound' }],
    ]);
    const ofBen = ok(await (await reader('ben')).compile());
    expect(ofBen.messages[0]?.content).toContainEqual(raw);
    expect(ofBen.messages[1]?.content).toContainEqual({ ...text('kept'), replay: shared });
  });

  test('keeps a field of that name in the own data of a tool', async () => {
    const call = { type: 'tool_call', id: 'c', name: 'send', arguments: { audience: ['x'] } };
    const result = { type: 'tool_result', call: 'c', value: { audience: 'all' } };
    await log.append(entry(call), entry(result));
    const messages = entryMessages(ok(await log.compile()));
    expect(messages.map(({ content }) => content)).toEqual([[call], [result]]);
  });
});

/** Every way in which what a log holds gets out of it. */
const waysOut: Record<string, (of: TestLog, ids: string[]) => Promise<unknown>> = {
  compile: async (of) => ok(await of.compile()),
  preview: async (of) => ok(await of.preview()),
  'summary input': async (of, ids) => ok(await of.summaryInput(ids[0] ?? '', ids[4] ?? '')),
  search: async (of) => ok(await of.search('canary')),
  entries: async (of) => ok(await of.entries()),
  'entries after a cursor': async (of) => {
    const first = ok(await of.entries('limit=1'));
    return ok(await of.entries(`after=${first.cursor ?? ''}`));
  },
  'pinned range': async (of, ids) => {
    for (const id of ids) await of.pin(id);
    return ok(await of.pins());
  },
  fork: async (of) => ok(await (await of.fork(`f${Math.random()}`)).compile()),
};

describe('a block for another reader', () => {
  test.each(Object.entries(waysOut))('is not in %s', async (_way, out) => {
    const ids = await mixedLog();
    const ben = await reader('ben');
    const found = JSON.stringify(await out(ben, ids));
    expect(found).not.toContain('ana only');
    expect(found).not.toContain('nobody');
    expect(found).toContain('ben only');
    const both = JSON.stringify(await out(log, ids));
    expect(both).not.toMatch(/ana only|ben only|nobody/);
    expect(both).toContain('for both');
  });

  test('is not in a fork, whoever opens a place there', async () => {
    await mixedLog();
    const fork = await log.fork('side');
    const ana = await fork.open({ name: 'ana', reader: 'ana' });
    expect(await fork.through(ana.handle).texts()).toEqual([
      'plain one',
      'for both CANARY',
      'plain two',
    ]);
  });

  test('counts in no total, no page and no description', async () => {
    await mixedLog();
    const { total, entries } = ok(await log.search('canary'));
    expect([total, entries.length]).toEqual(['1', 1]);
    expect(ok(await log.search('ana only')).total).toBe('0');
    expect(ok(await log.entries('limit=3')).complete).toBe(true);
    expect(ok(await (await reader('stranger')).describe()).entries).toBe('2');
  });

  test('leaves its entry unnamed: it is not there to be summarized, pinned or edited', async () => {
    const [, ofBen = ''] = await mixedLog();
    const ana = await reader('ana');
    const absent = '00000000-0000-4000-8000-000000000000';
    for (const id of [ofBen, absent]) {
      expect((await ana.summaryInput(id, id)).code).toBe('not_found');
      expect((await ana.pin(id)).code).toBe('not_found');
      expect((await ana.edit(id, '1', [text('x')])).code).toBe('not_found');
    }
  });

  test('keeps its sources to itself in a shared entry', async () => {
    await acme.conversation('notes', ['ana', 'ben']);
    await acme.say('notes', 'ana', 'the first');
    await acme.say('notes', 'ana', 'the second');
    await log.append({
      ...entry(text('from the first'), text('from the second', 'ana')),
      sources: [
        { conversation: 'notes', seq: '1', block: 0 },
        { conversation: 'notes', seq: '2', block: 1 },
      ],
    });
    const sourcesOf = async (of: TestLog) =>
      messagesAmong(ok(await of.compile()).provenance[0]?.sources).map(({ seq }) => seq);
    expect(await sourcesOf(log)).toEqual(['1']);
    expect(await sourcesOf(await reader('ana'))).toEqual(['1', '2']);
  });

  test('keeps the sources of a form that covers it, and a fork has each at its block', async () => {
    await acme.conversation('notes', ['ana', 'ben']);
    for (const body of ['first', 'second', 'third']) await acme.say('notes', 'ana', body);
    await log.append({
      ...entry({ type: 'raw', provider: 'lab', value: 1 }, text('of ana', 'ana'), text('open')),
      sources: ['1', '2', '3'].map((seq, block) => ({ conversation: 'notes', seq, block })),
    });
    const seqs = async (of: TestLog) =>
      messagesAmong(ok(await of.compile()).provenance[0]?.sources).map(({ seq }) => seq);
    expect(await seqs(log)).toEqual(['3']);
    expect(await seqs(await reader('ana'))).toEqual(['1', '2', '3']);
    expect(await seqs(await log.fork('side'))).toEqual(['3']);
    const ofAna = await (await reader('ana')).fork('of ana');
    expect(await seqs(ofAna)).toEqual(['1', '2', '3']);
    const ben = await ofAna.open({ name: 'ben', reader: 'ben' });
    expect(await seqs(ofAna.through(ben.handle))).toEqual(['3']);
  });
});

test('how much of an answer is hidden does not tell by what fits into it', async () => {
  const [id = ''] = await log.append(entry(text('plain'), text('of ben', 'ben')));
  await gateway.owner`
    update earshot.log_entries
    set blocks = jsonb_set(blocks, '{1,text}', to_jsonb(repeat('x', 34 * 1024 * 1024))) where id = ${id}`;
  await log.append(entry(text('plain too')));
  expect(await log.texts()).toEqual(['plain', 'plain too']);
  expect(ok(await log.entries()).entries).toHaveLength(2);
  expect(ok(await log.search('plain')).entries).toHaveLength(2);
  expect((await (await reader('ben')).compile()).code).toBe('too_large');
});

describe('what an older version stored in another place', () => {
  const stored = async (blocks: unknown[]) => {
    const [id] = await log.append(entry(text('replaced')));
    await gateway.owner`
      update earshot.log_entries set blocks = ${JSON.stringify(blocks)}::text::jsonb where id = ${id ?? ''}`;
  };

  test.each([
    ['on a tool call', { type: 'tool_call', id: 'c', name: 'x', arguments: {}, audience: ['ben'] }],
    ['on inline media', { type: 'image', mediaType: 'image/png', data: 'AA', audience: ['ben'] }],
    ['as a text', { type: 'text', text: 'x', audience: 'ana' }],
    ['as null', { type: 'text', text: 'x', audience: null }],
    ['as a list of something else', { type: 'text', text: 'x', audience: ['ana', 7] }],
    [
      'in a block within a block',
      { type: 'tool_result', call: 'c', content: [{ type: 'text', text: 'x', audience: ['ana'] }] },
    ],
  ])('is shown to nobody who is not named: %s', async (_where, block) => {
    await stored([block]);
    expect(ok(await (await reader('ana')).compile()).messages).toEqual([]);
    expect(ok(await log.compile()).messages).toEqual([]);
  });

  test('is shown to whom it names', async () => {
    await stored([{ type: 'tool_call', id: 'c', name: 'x', arguments: {}, audience: ['ben'] }]);
    const { entries } = ok(await (await reader('ben')).entries());
    expect(entries[0]?.blocks).toEqual([{ type: 'tool_call', id: 'c', name: 'x', arguments: {} }]);
  });
});
