import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestLog } from '../support/log.ts';
import { call, COUNTED, result, saying, sentOf, summaryWorth } from './compile-house.ts';
import { openHouse, type LogHouse } from './log-house.ts';

// Summaries that cost more than what they are of: their entries go raw, unless that would send one twice or pair calls otherwise.

let gateway: TestGateway;
let house: LogHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
  house = await openHouse(gateway);
});

afterAll(() => gateway.close());

/** A log of these entries, with a way to summarize some of them by their numbers for a price. */
async function logOf(...entries: readonly object[]) {
  const { log } = await house.enter();
  const ids = await log.append(...entries);
  const at = (index: number) => ids[index] ?? '';
  const summarize = (first: number, last: number, price: number) =>
    log.summarize({ from: at(first), to: at(last) }, summaryWorth(price, last - first + 1));
  /** Summaries of summaries, that are of so many entries. */
  const merge = (of: string[], entries: number, price: number) =>
    log.summarize({ of }, summaryWorth(price, entries));
  return { log, ids, at, summarize, merge };
}

const tens = (count: number) => Array.from({ length: count }, () => saying(10));

/** What is sent is the same at every budget at which anything is. */
async function isTheSame(log: TestLog): Promise<void> {
  const { decision: _, ...whole } = ok(await log.preview(COUNTED)) as {
    decision?: string;
  } & object;
  const { total } = ok(await log.preview(COUNTED)).stats.tokens;
  for (const budget of [0, 1, total - 1, total, total + 1, 10 * total, 100_000_000]) {
    const answer = await log.preview({ ...COUNTED, budget });
    expect(answer.code).toBe(budget < total ? 'over_budget' : undefined);
    if (answer.code === undefined) expect(answer.body).toMatchObject(whole);
  }
}

describe('a summary that costs more than its entries', () => {
  test('is left out: 400 tokens go raw, and not as 700, at a budget of 1000', async () => {
    const { log, ids, summarize } = await logOf(saying(150), saying(250));
    await summarize(0, 1, 700);
    const { sent, stats } = await sentOf(log, ids, { budget: 1000 });
    expect(sent).toEqual(['0', '1']);
    expect(stats).toMatchObject({ entries: 2, summaries: 0, dearerReplaced: 1 });
    expect(stats.tokens).toMatchObject({ total: 400, entries: 400, summaries: 0 });
  });

  test('is left out as well at a budget that its entries fit and it does not', async () => {
    const { log, ids, summarize } = await logOf(saying(150), saying(250));
    await summarize(0, 1, 700);
    expect((await sentOf(log, ids, { budget: 400 })).sent).toEqual(['0', '1']);
    expect((await log.compile({ ...COUNTED, budget: 399 })).code).toBe('over_budget');
    await isTheSame(log);
  });

  test('is one that costs a token more, and no one that costs the same', async () => {
    for (const [price, expected] of [
      [40, ['L1', '2']],
      [41, ['0', '1', '2']],
    ] as const) {
      const { log, ids, summarize } = await logOf(saying(20), saying(20), saying(20));
      await summarize(0, 1, price);
      expect((await sentOf(log, ids)).sent).toEqual(expected);
      await isTheSame(log);
    }
  });

  test('is weighed against what is stored of an entry where less of it is sent', async () => {
    const { log, ids, summarize } = await logOf(saying(200), saying(20));
    await summarize(0, 0, 150);
    const cut = await sentOf(log, ids, { maxEntryTokens: 50 });
    expect(cut.sent).toEqual(['L1', '1']);
    expect(cut.stats.dearerReplaced).toBe(0);
  });

  test('is weighed against all that is sent of an entry, which is parted around a result', async () => {
    const parts = [call('a'), result('a', 10), saying(10)].flatMap(({ blocks }) => blocks);
    const { log, ids, summarize } = await logOf({ ...call('a'), blocks: parts }, saying(20));
    // 30 in three messages, and 22 if it were one.
    await summarize(0, 0, 30);
    expect((await sentOf(log, ids)).sent).toEqual(['L1', '1']);
    expect((await sentOf(log, ids)).stats.tokens.total).toBe(50);
  });
});

describe('the rule holds at every level', () => {
  test('a dear one of the second takes all under it along, and is counted once', async () => {
    const { log, ids, summarize, merge } = await logOf(...tens(4));
    const [first, second] = [await summarize(0, 1, 15), await summarize(2, 3, 15)];
    expect((await sentOf(log, ids)).sent).toEqual(['L1', 'L1']);
    await merge([first, second], 4, 41);
    const { sent, stats } = await sentOf(log, ids);
    expect(sent).toEqual(['0', '1', '2', '3']);
    expect(stats).toMatchObject({ summaries: 0, dearerReplaced: 1 });
    await isTheSame(log);
  });

  test('a dear one of the third takes those of two levels along', async () => {
    const { log, ids, summarize, merge } = await logOf(...tens(4));
    const [first, second] = [await summarize(0, 1, 15), await summarize(2, 3, 15)];
    const both = await merge([first, second], 4, 20);
    expect((await sentOf(log, ids)).sent).toEqual(['L2']);
    await merge([both], 4, 50);
    const { sent, stats } = await sentOf(log, ids);
    expect(sent).toEqual(['0', '1', '2', '3']);
    expect(stats).toMatchObject({ summaries: 0, dearerReplaced: 1 });
    await isTheSame(log);
  });

  test('a cheap one above a dear one is sent, and nothing is replaced', async () => {
    const { log, ids, summarize, merge } = await logOf(...tens(4));
    const [first, second] = [await summarize(0, 1, 90), await summarize(2, 3, 90)];
    expect((await sentOf(log, ids)).stats.dearerReplaced).toBe(2);
    await merge([first, second], 4, 20);
    const { sent, stats } = await sentOf(log, ids);
    expect(sent).toEqual(['L2']);
    expect(stats.dearerReplaced).toBe(0);
  });

  test('a tree that is merged by half sends no entry twice and none under two', async () => {
    const { log, ids, summarize, merge } = await logOf(...tens(6));
    const first = await summarize(0, 1, 14);
    const second = await summarize(1, 3, 14);
    await summarize(3, 4, 14);
    // Of the second alone: the first and the third both hold an entry that it holds.
    await merge([second], 3, 14);
    expect((await sentOf(log, ids)).sent).toEqual(['0', 'L2', '4', '5']);
    await merge([first, second], 4, 90);
    const { sent, stats } = await sentOf(log, ids);
    // Of the same level the one that begins earlier: it is dear, and its entries go under nothing else.
    expect(sent).toEqual(['0', '1', '2', '3', '4', '5']);
    expect(stats.dearerReplaced).toBe(1);
    await isTheSame(log);
  });
});

describe('a pinned entry', () => {
  test('goes raw once beside the summary over it, whose price the others are weighed against', async () => {
    const { log, ids, at, summarize } = await logOf(saying(50), saying(20), saying(20));
    await summarize(0, 2, 40);
    const pins = [at(0)];
    expect((await sentOf(log, ids)).sent).toEqual(['L1']);
    expect((await sentOf(log, ids, { pins })).sent).toEqual(['0', 'L1']);
    ok(await log.pin(at(1)));
    const both = await sentOf(log, ids, { pins });
    expect(both.sent).toEqual(['0', '1', '2']);
    expect(both.stats.dearerReplaced).toBe(1);
    await isTheSame(log);
  });

  test('leaves no summary that would be of nothing else', async () => {
    const { log, ids, at, summarize } = await logOf(saying(50), saying(50));
    await summarize(0, 0, 20);
    const { sent, stats } = await sentOf(log, ids, { pins: [at(0), at(0)] });
    expect(sent).toEqual(['0', '1']);
    expect(stats).toMatchObject({ summaries: 0, dearerReplaced: 0 });
  });

  test('takes the other half of its pair along, out of the summary', async () => {
    const { log, ids, at, summarize } = await logOf(
      ...[saying(60), call('a'), saying(60), result('a'), saying(60)],
    );
    await summarize(0, 4, 30);
    expect((await sentOf(log, ids, { pins: [at(3)] })).sent).toEqual(['L1', '1', '3']);
  });
});

describe('a dear summary with tool calls', () => {
  test('is replaced where call and result are both under it: they go raw once, adjacent', async () => {
    const { log, ids, summarize } = await logOf(saying(10), call('a'), saying(10), result('a'));
    await summarize(0, 3, 90);
    const { sent, stats } = await sentOf(log, ids);
    expect(sent).toEqual(['0', '1', '3', '2']);
    expect(stats.dearerReplaced).toBe(1);
    await isTheSame(log);
  });

  test('stays where it holds one half of a pair, and another summary the other', async () => {
    const { log, ids, summarize } = await logOf(call('a'), saying(10), result('a'), saying(10));
    await summarize(0, 1, 90);
    await summarize(2, 3, 14);
    const { sent, stats } = await sentOf(log, ids);
    expect(sent).toEqual(['L1', 'L1']);
    expect(stats.dearerReplaced).toBe(0);
    await isTheSame(log);
  });

  test('stays where its entries lie between a call in the head and its result in the newest window', async () => {
    const { log, ids, summarize } = await logOf(call('a'), saying(10), saying(10), result('a'));
    await summarize(1, 2, 90);
    const windows = { headTokens: 10, recentTokens: 20 };
    const { sent, stats } = await sentOf(log, ids, windows);
    expect(sent).toEqual(['0', '3', 'L1']);
    expect(stats.dearerReplaced).toBe(0);
  });

  test('is not sent where a window goes on to the other half of a pair under it', async () => {
    const { log, ids, summarize } = await logOf(
      ...[saying(60), call('a'), saying(60), result('a'), saying(60)],
    );
    await summarize(0, 1, 20);
    expect((await sentOf(log, ids, { recentTokens: 59 })).sent).toEqual(['L1', '2', '3', '4']);
    expect((await sentOf(log, ids, { recentTokens: 80 })).sent).toEqual(['0', '1', '3', '2', '4']);
  });

  test('stays where a call under it has an id that is used again', async () => {
    const { log, ids, summarize } = await logOf(
      ...[call('a'), result('a'), saying(10), call('a'), result('a')],
    );
    await summarize(0, 2, 90);
    expect((await sentOf(log, ids)).sent).toEqual(['L1', '3', '4']);
    const { stats } = await sentOf(log, ids);
    expect(stats.dearerReplaced).toBe(0);
  });

  test('goes where only what is beside it uses an id again, and calls pair as in the log', async () => {
    const { log, ids, summarize } = await logOf(
      ...[saying(10), saying(10), call('a'), result('a'), call('a'), result('a')],
    );
    await summarize(0, 1, 90);
    expect((await sentOf(log, ids)).sent).toEqual(['0', '1', '2', '3', '4', '5']);
  });
});
