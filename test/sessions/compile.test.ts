import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CompileOptions, OverBudget } from '../../sessions/compile/compile-shape.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, text, type TestLog } from '../support/log.ts';
import {
  bytesOf,
  call,
  COUNTED,
  decisionOf,
  logOf,
  overOf,
  result,
  saying,
  sentOf,
  stateOf,
  summaryWorth,
  worth,
} from './compile-house.ts';
import { isWellFormed } from './hostile-text.ts';
import { openHouse, placeOf, said, type LogHouse } from './log-house.ts';

// What a model is sent within a budget, over HTTP: what counts, what is refused, and what is put on record as sent.

let gateway: TestGateway;
let house: LogHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
  house = await openHouse(gateway);
});

afterAll(() => gateway.close());

type Step = OverBudget['steps'][number];

describe('a budget', () => {
  test('of nothing is enough for an empty log, and too little for anything else', async () => {
    const { log } = await logOf(house);
    expect(ok(await log.compile({ budget: 0 }))).toMatchObject({
      messages: [],
      stats: { tokens: { total: 0 } },
    });
    await log.append(said(text('x')));
    expect(overOf(await log.compile({ ...COUNTED, budget: 0 }))).toMatchObject({
      budget: 0,
      tokens: 5,
    });
  });

  test('is charged what tools were asked and what they gave', async () => {
    const args = { query: 'x'.repeat(400) };
    const { log, ids } = await logOf(house, call('a', args), result('a', 120));
    const { stats } = await sentOf(log, ids);
    // Each message 4; the call 4, its name 1 and its arguments; the result 4 and its text.
    const asked = 4 + 4 + 1 + Math.ceil(JSON.stringify(args).length / 4);
    expect(stats.tokens.total).toBe(asked + 120);
    expect((await log.compile({ ...COUNTED, budget: asked + 119 })).code).toBe('over_budget');
    expect((await log.compile({ ...COUNTED, budget: asked + 120 })).code).toBeUndefined();
  });

  test('is charged by the estimator that is named, a real tokenizer by default', async () => {
    const { log } = await logOf(house, said(text('antidisestablishmentarianism '.repeat(20))));
    const [real, rough] = [ok(await log.compile()), ok(await log.compile(COUNTED))];
    expect(real.stats.tokens.estimator).toBe('o200k_base');
    expect(rough.stats.tokens).toMatchObject({ estimator: 'characters', total: 4 + 145 });
    expect(real.stats.tokens.total).not.toBe(rough.stats.tokens.total);
  });

  test('that what goes raw does not fit is refused, with what would free something and whether it is enough', async () => {
    const { log, at } = await logOf(house, saying(30), saying(40), saying(50), saying(60));
    await log.summarize({ from: at(0), to: at(2) }, summaryWorth(20, 3));
    const asked = { ...COUNTED, headTokens: 30, recentTokens: 60, pins: [at(1)] };
    const unit = { source: 'wiki', placement: 'each_compile' as const };
    const injections = [{ ...unit, parts: [{ text: worth(10).text }] }];
    const { steps, ...over } = overOf(await log.compile({ ...asked, injections, budget: 100 }));
    expect(over).toMatchObject({ budget: 100, tokens: 30 + 40 + 50 + 60 + 10 });
    // Without the head the summary is sent for the first and the third, beside the pinned one.
    expect(steps).toContainEqual({ step: 'headTokens', frees: 30 + 50 - 20, clears: false });
    expect(steps).toContainEqual({ step: 'injections', frees: 10, clears: false });
    const summarize = { step: 'summarize', from: at(2), to: at(2) };
    expect(steps).toContainEqual(expect.objectContaining({ ...summarize, clears: false }));
    for (const step of steps)
      expect([step.frees > 0, step.clears]).toEqual([true, step.frees >= 90]);
    expect(steps.filter(({ clears }) => clears)).not.toEqual([]);
  });

  test('is kept to by following the steps of its refusals', async () => {
    const { log, at } = await logOf(
      house,
      ...[saying(60), call('a'), result('a', 200), saying(60), saying(90), saying(20)],
    );
    const windows = { headTokens: 60, recentTokens: 20, pins: [at(4)] };
    let asked: CompileOptions = { ...COUNTED, ...windows, budget: 20 };
    for (let steps = 0; ; steps++) {
      const answer = await log.compile(asked);
      if (answer.code === undefined) break;
      const over = overOf(answer);
      const [step] = over.steps;
      if (step === undefined || steps > 20) throw new Error('no step leads there');
      asked = await taking(log, asked, step);
      const { total } = ok(await log.preview({ ...asked, budget: 10_000 })).stats.tokens;
      expect(over.tokens - total).toBeGreaterThan(0);
      expect(over.tokens - total).toBeLessThanOrEqual(step.frees);
    }
    expect(ok(await log.compile(asked)).stats).toMatchObject({ entries: 0, summaries: 1 });
  });

  async function taking(
    log: TestLog,
    asked: CompileOptions,
    { step, from = '', to = '', of, needs = [] }: Omit<Step, 'frees' | 'clears'>,
  ): Promise<CompileOptions> {
    const [first, ...others] = needs;
    if (first !== undefined) {
      const without = await taking(log, asked, { step: first, needs: others });
      return taking(log, without, { step, from, to, ...(of !== undefined && { of }) });
    }
    switch (step) {
      case 'summarize':
        await log.summarize(of === undefined ? { from, to } : { of }, 'x');
        return asked;
      case 'recentTokens':
      case 'headTokens':
      case 'pruneToolResults':
        return { ...asked, [step]: 0 };
      case 'maxEntryTokens':
        return { ...asked, maxEntryTokens: 16 };
      case 'pins':
        return { ...asked, pins: [] };
      case 'injections':
        return { ...asked, injections: [] };
    }
  }

  test('of 1 to 200 tokens never cuts what is hostile, and never fails', async () => {
    for (const broken of ['a\0b', 'a\ud83db', '\udc00'])
      expect((await (await logOf(house)).log.tryAppend([said(text(broken))])).status).toBe(400);
    const texts = [
      '👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪',
      '\\u0000 \\ud800 \\x00',
      'e\u0301\u0323 क्षि 각',
      '\u202eשלום\u202c \u0001',
    ];
    const { log } = await logOf(house, ...texts.map((body) => said(text(body.repeat(4)))));
    const { total } = ok(await log.preview()).stats.tokens;
    expect(total).toBeGreaterThan(60);
    expect(total).toBeLessThan(200);
    for (let budget = 1; budget <= 200; budget++) {
      const answer = await log.preview({ budget });
      expect(answer.code).toBe(budget < total ? 'over_budget' : undefined);
      expect(isWellFormed(JSON.stringify(answer.body))).toBe(true);
      if (answer.code !== undefined) continue;
      const sent = ok(answer).messages.map(({ content }) => content[0]?.text);
      expect(sent).toEqual(texts.map((body) => body.repeat(4)));
    }
  });
});

describe('a compile that is over its budget', () => {
  test('is on record as refused, and nothing of it counts as sent', async () => {
    const { log } = await logOf(house, saying(50));
    ok(await log.compile(COUNTED));
    await log.append(saying(60));
    const before = await stateOf(house, log);
    const asked = { ...COUNTED, budget: 100 };
    const refused = await log.compile(asked);
    expect(overOf(refused).tokens).toBe(110);
    expect(await decisionOf(house, refused)).toMatchObject({
      ...{ kind: 'session', tool: 'send', verdict: 'refused', code: 'over_budget' },
    });
    expect(overOf(await log.preview(asked)).tokens).toBe(110);
    expect(await stateOf(house, log)).toEqual(before);
    expect(ok(await log.compile(COUNTED)).stats.shared.messages).toBe(1);
  });

  test('and stored what a start gave stores it no second time', async () => {
    const { log } = await logOf(house, saying(50));
    const injections = [{ source: 'wiki', parts: [{ text: 'something to know' }] }];
    overOf(await log.compile({ ...COUNTED, budget: 20, injections }));
    const { entries } = (await stateOf(house, log)) ?? {};
    const compiled = ok(await log.compile({ ...COUNTED, injections }));
    expect((await stateOf(house, log))?.entries).toBe(entries);
    expect(compiled.stats).toMatchObject({ injections: 1, placed: 0 });
  });
});

describe('two compiles of one log', () => {
  test('give the same bytes, whatever was compiled in between, and a preview gives them too', async () => {
    const { log, at } = await logOf(
      house,
      saying(30),
      call('a'),
      result('a'),
      saying(40),
      saying(20),
    );
    await log.summarize({ from: at(0), to: at(2) }, 'short');
    const asked = { ...COUNTED, recentTokens: 30, pins: [at(1)], budget: 1000 };
    const first = await bytesOf(log, asked, 'preview');
    expect(await bytesOf(log, asked)).toBe(first);
    const second = await bytesOf(log, asked);
    await log.compile({ ...COUNTED, headTokens: 1000 });
    const strip = (bytes: string) => bytes.replace(/"shared":\{[^}]*\}/u, '');
    expect(strip(await bytesOf(log, asked))).toBe(strip(second));
    expect(strip(second)).toBe(strip(first));
  });

  test('share what of the later one is the same, in whole messages and their bytes', async () => {
    const { log, at } = await logOf(house, saying(30), saying(40));
    expect(ok(await log.compile()).stats.shared).toMatchObject({ messages: 0, bytes: 0 });
    const { messages } = ok(await log.compile());
    const bytes = (some: readonly unknown[]) =>
      some.reduce<number>((sum, one) => sum + Buffer.byteLength(JSON.stringify(one)), 0);
    await log.append(saying(50));
    const grown = ok(await log.preview());
    expect(grown.stats.shared).toEqual({
      ...{ messages: 2, bytes: bytes(messages), ofBytes: bytes(grown.messages) },
    });
    // A preview is not sent, so the next one is compared with the same.
    expect(ok(await log.compile()).stats.shared.messages).toBe(2);
    expect(ok(await log.preview()).stats.shared.messages).toBe(3);
    ok(await log.edit(at(1), '1', [text('another')]));
    expect(ok(await log.compile()).stats.shared.messages).toBe(1);
    ok(await log.edit(at(0), '1', [text('yet another')]));
    expect(ok(await log.compile()).stats.shared).toMatchObject({ messages: 0, bytes: 0 });
  });
});

describe('a preview', () => {
  test('gives what a compile would, and writes nothing that counts', async () => {
    const { log } = await logOf(house, saying(30), call('a'), result('a'), entry(text('so')));
    const injections = [
      { source: 'wiki', parts: [{ text: 'to be stored' }] },
      { source: 'news', position: 'before_user' as const, parts: [{ text: 'to be placed' }] },
    ];
    const asked = { ...COUNTED, injections };
    const before = await stateOf(house, log);
    const previewed = ok(await log.preview(asked));
    expect(await stateOf(house, log)).toEqual(before);
    const compiled = ok(await log.compile(asked));
    expect(previewed.messages).toEqual(compiled.messages);
    expect(previewed.stats.tokens.total).toBe(compiled.stats.tokens.total);
    expect(previewed.stats).toMatchObject({ injections: 0, placed: 2 });
    expect(compiled.stats).toMatchObject({ injections: 1, placed: 1 });
    const after = await stateOf(house, log);
    expect(after).not.toEqual(before);
    ok(await log.preview(asked));
    expect(await stateOf(house, log)).toEqual(after);
  });
});

describe('the record of what was sent last', () => {
  test('is each place’s own, and no other place, fork, session or audience is compared with it', async () => {
    const entries = [saying(30), saying(40)];
    const { log, another } = await logOf(house, ...entries);
    ok(await log.compile());
    const desk = log.through((await log.open({ name: 'desk' })).handle);
    const places = [
      desk,
      await placeOf(log, 'ana'),
      await placeOf(log, 'ben'),
      await log.fork('side'),
    ];
    const others = [(await logOf(house, ...entries)).log, (await house.enter('open')).log];
    await others[1]?.append(...entries);
    for (const at of [...places, ...others]) {
      for (const by of ['preview', 'compile'] as const)
        expect(ok(await at[by]()).stats.shared.messages).toBe(0);
      expect(ok(await at.preview()).stats.shared.messages).toBe(2);
    }
    // Another turn goes on in the same place.
    expect(ok(await log.by(await another()).preview()).stats.shared.messages).toBe(2);
  });

  test('of injections is each place’s own: one that another place holds is stored again', async () => {
    const { log, another } = await logOf(house, saying(30));
    const injections = [{ source: 'wiki', parts: [{ text: 'to know' }] }];
    expect(ok(await log.inject(...injections)).outcomes).toEqual(['stored']);
    expect(ok(await log.inject(...injections)).outcomes).toEqual(['unchanged']);
    const desk = log.through((await log.open({ name: 'desk' })).handle);
    for (const at of [desk, await placeOf(log, 'ana'), await log.fork('side')]) {
      expect(JSON.stringify(ok(await at.preview()))).not.toContain('to know');
      expect(ok(await at.inject(...injections)).outcomes).toEqual(['stored']);
      expect(ok(await at.by(await another()).preview()).stats.injections).toBe(1);
    }
  });
});
