import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, text } from '../support/log.ts';
import {
  bytesOf,
  call,
  COUNTED,
  decisionOf,
  logOf,
  result,
  saying,
  stateOf,
  summaryWorth,
  worth,
} from './compile-house.ts';
import { openHouse, said, type LogHouse } from './log-house.ts';

// What a compile is asked, and what it tells of what it did.

let gateway: TestGateway;
let house: LogHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
  house = await openHouse(gateway);
});

afterAll(() => gateway.close());

describe('what is asked of a compile', () => {
  test.each<[string, object]>([
    ['an option that there is not', { depth: 3 }],
    ['a budget below nothing', { budget: -1 }],
    ['a budget in parts', { budget: 1.5 }],
    ['a budget that is no number', { budget: '100' }],
    ['a budget beyond all numbers', { budget: 1e300 }],
    ['a budget that is null', { budget: null }],
    ['a window below nothing', { headTokens: -1 }],
    ['entries cut to less than is left of one', { maxEntryTokens: 15 }],
    ['a part of a result', { pruneToolResults: 0.5 }],
    ['an estimator that there is not', { estimator: 'gpt2' }],
    ['a shape that there is not', { format: 'gemini' }],
    ['a pin that is no id', { pins: ['first'] }],
    ['more pins than a thousand', { pins: Array.from({ length: 1001 }, () => randomUUID()) }],
    ['an audience', { audience: ['ana'] }],
    ['readers', { readers: ['ana'] }],
    [
      'two units of one source',
      { injections: [1, 2].map(() => ({ source: 'a', parts: [{ text: 'x' }] })) },
    ],
  ])('is refused where it is %s', async (_what, options) => {
    const { log } = await logOf(house, saying(10));
    const before = await stateOf(house, log);
    for (const path of ['/compile', '/preview']) {
      const answer = await log.call('POST', path, options);
      expect([answer.status, answer.code]).toEqual([400, 'invalid_input']);
    }
    expect(await stateOf(house, log)).toEqual(before);
  });

  test('is nothing where the request has no body, or an empty one', async () => {
    const { log } = await logOf(house, saying(10), saying(20));
    expect(await bytesOf(log, {}, 'preview')).toBe(await bytesOf(log, undefined, 'preview'));
  });

  test('as a pin is an entry that the view shows: another one is not there, and that is on record', async () => {
    const { log, at } = await logOf(house, saying(10), said(text('of ana', 'ana')), saying(10));
    const elsewhere = await logOf(house, saying(10));
    ok(await log.compile({ pins: [at(0), at(2), at(0)] }));
    const before = await stateOf(house, log);
    for (const pin of [at(1), elsewhere.at(0), randomUUID()]) {
      for (const by of ['compile', 'preview'] as const) {
        const answer = await log[by]({ pins: [at(0), pin] });
        expect([answer.status, answer.code]).toEqual([404, 'not_found']);
        expect(await decisionOf(house, answer)).toMatchObject({
          verdict: 'refused',
          code: 'not_found',
        });
      }
    }
    expect(await stateOf(house, log)).toEqual(before);
  });

  test('as a longest entry cuts others with a mark, and its provenance says so', async () => {
    const { log, at } = await logOf(house, saying(100, 'long'), saying(20, 'short'));
    const { messages, provenance, stats } = ok(
      await log.compile({ ...COUNTED, maxEntryTokens: 30 }),
    );
    expect(provenance[0]).toMatchObject({ entry: at(0), cut: true, tokens: 30 });
    expect(provenance[1]).not.toHaveProperty('cut');
    expect(messages[0]?.content[0]?.text).toMatch(/^long\.+…\[cut\]$/u);
    expect(stats.tokens.total).toBe(50);
  });

  test('as the newest results leaves out the content of those before them, each still a result', async () => {
    const { log } = await logOf(house, call('a'), result('a', 100), call('b'), result('b', 100));
    const { messages, provenance } = ok(await log.compile({ ...COUNTED, pruneToolResults: 1 }));
    const [, pruned, , kept] = messages.map(({ content }) => content[0]);
    expect(pruned).toMatchObject({ type: 'tool_result', call: 'a' });
    expect(JSON.stringify(pruned)).toContain('left out');
    expect(kept).toEqual((result('b', 100) as { blocks: object[] }).blocks[0]);
    expect(provenance.map((one) => one.pruned ?? false)).toEqual([false, true, false, false]);
  });

  test('as the newest results leaves what is shorter than the mark that would stand for it', async () => {
    const { log } = await logOf(house, call('a'), result('a', 10), call('b'), result('b', 100));
    const { provenance, messages } = ok(await log.compile({ ...COUNTED, pruneToolResults: 0 }));
    expect(provenance.map((one) => one.pruned ?? false)).toEqual([false, false, false, true]);
    expect(messages[1]?.content).toEqual(result('a', 10).blocks);
  });
});

describe('what a compile tells of itself', () => {
  test('is where each message is from and what it costs, and the sums of that by kind', async () => {
    const { log, at, ids } = await logOf(
      house,
      ...[saying(60), saying(60), call('a'), result('a'), entry(worth(30), worth(10))],
    );
    const summary = await log.summarize({ from: at(0), to: at(1) }, summaryWorth(20, 2));
    ok(
      await log.inject({
        source: 'wiki',
        parts: [worth(16), worth(8)].map(({ text }) => ({ text })),
      }),
    );
    const injections = [
      { source: 'news', position: 'system' as const, parts: [{ text: 'news'.repeat(4) }] },
    ];
    const { provenance, stats } = ok(await log.compile({ ...COUNTED, injections }));
    expect(provenance.map(({ kind, tokens }) => [kind, tokens])).toEqual([
      ['placed', 8],
      ['summary', 20],
      ['entry', 10],
      ['entry', 20],
      ['entry', 36],
      ['injection', 20],
      ['marker', 7],
    ]);
    expect(provenance[1]).toEqual({
      ...{ kind: 'summary', summary, level: 1, from: at(0), to: at(1), entries: 2, tokens: 20 },
    });
    expect(provenance[2]).toEqual({ kind: 'entry', entry: ids[2], revision: '1', tokens: 10 });
    expect(provenance[5]).toMatchObject({ kind: 'injection', source: 'wiki' });
    expect(stats).toMatchObject({
      ...{ entries: 3, blocks: 4, summaries: 1, dearerReplaced: 0, injections: 1, placed: 1 },
      tokens: {
        ...{ total: 121, entries: 66, summaries: 20, injections: 20, placed: 8, marker: 7 },
        estimator: 'characters',
      },
    });
  });

  test('has the request in a provider’s shape where that is asked for, of the same messages', async () => {
    const { log } = await logOf(
      house,
      saying(10, 'first'),
      call('a'),
      result('a'),
      saying(10, 'last'),
    );
    const plain = ok(await log.compile(COUNTED));
    expect(plain).not.toHaveProperty('request');
    const shapes = {
      anthropic: ['user', 'assistant', 'user'],
      openai: ['user', 'assistant', 'tool', 'user'],
    } as const;
    for (const format of ['anthropic', 'openai'] as const) {
      const { request, messages } = ok(await log.compile({ ...COUNTED, format }));
      expect(messages).toEqual(plain.messages);
      const { messages: shaped } = request as { messages: { role: string }[] };
      expect(shaped.map(({ role }) => role)).toEqual(shapes[format]);
      expect(JSON.stringify(shaped)).toContain('last');
    }
  });
});
