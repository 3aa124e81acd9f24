import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { CompiledLog, CompileOptions } from '../../sessions/compile/compile-shape.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, text, type TestLog } from '../support/log.ts';
import { injectionHouse, outline, said, unit, type InjectionHouse } from './injection-house.ts';

// Byte for byte: where an injection stands, and that it stays there.

let gateway: TestGateway;
let house: InjectionHouse;
let log: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  house = await injectionHouse(gateway);
  ({ log } = house);
});

const FORMATS = [undefined, 'anthropic', 'openai'] as const;
const call = (id: string) => ({ type: 'tool_call', id, name: 'look', arguments: { at: id } });
const result = (id: string) => ({
  ...{ role: 'user', participant: 'tools' },
  blocks: [{ type: 'tool_result', call: id, content: [text(`seen at ${id}`)] }],
});

/** What a model is sent, as bytes: the messages, and the request in its provider's shape. */
function bytesOf({ messages, request }: CompiledLog) {
  return { messages: JSON.stringify(messages), request: JSON.stringify(request) };
}

/** The messages of a request without the end of their list. */
function begun({ messages, request }: CompiledLog): string[] {
  const inShape = (request as { messages: unknown[] } | undefined)?.messages;
  return [messages, inShape ?? []].map((list) => JSON.stringify(list).slice(0, -1));
}

/** That the messages of a request begin with the bytes of those of an earlier one. */
function expectPrefix(earlier: CompiledLog, later: CompiledLog): void {
  const [before, after] = [begun(earlier), begun(later)];
  for (const [nth, start] of before.entries())
    expect(after[nth]?.slice(0, start.length)).toBe(start);
  const bytes = earlier.messages.reduce((sum, one) => sum + JSON.stringify(one).length, 0);
  expect(later.stats.shared).toMatchObject({ messages: earlier.messages.length, bytes });
}

const windows: [end: string, entries: object[]][] = [
  ['a user message', [said('the question')]],
  ['a tool result', [said('the question'), entry(call('a')), result('a')]],
  [
    'the results of several calls',
    [said('the question'), entry(call('a'), call('b')), result('b'), result('a')],
  ],
  ['a message of another agent to whom it listens', [entry(text('hello')), said('go on', 'ben')]],
  ['nothing at all', []],
];
const units = [unit('memory', 'what is known', ' and more '), unit('notes', 'a note')];

describe.each(FORMATS)('in the shape %s', (format) => {
  const options: CompileOptions = format === undefined ? {} : { format };

  test.each(windows)('what is stored after %s is what a preview places', async (_end, entries) => {
    if (entries.length > 0) await log.append(...entries);
    const given = { ...options, injections: units };
    const previewed = bytesOf(ok(await log.preview(given)));
    const compiled = ok(await log.compile(given));
    expect(bytesOf(compiled)).toEqual(previewed);
    expect(compiled.stats).toMatchObject({ injections: 2, placed: 0 });
    expect(bytesOf(ok(await log.compile(options)))).toEqual(previewed);
    await log.append(entry(text('the answer')), said('the next question'));
    expectPrefix(compiled, ok(await log.compile(given)));
  });

  test('an unchanged one is stored once over ten turns, each of which goes on from the last', async () => {
    let last: CompiledLog | undefined;
    for (let turn = 0; turn < 10; turn++) {
      await log.append(said(`question ${turn.toString()}`));
      for (const calls of [[], [`a${turn.toString()}`]]) {
        for (const id of calls) await log.append(entry(call(id)), result(id));
        const compiled = ok(await log.compile({ ...options, injections: units }));
        if (last !== undefined) expectPrefix(last, compiled);
        last = compiled;
      }
      await log.append(entry(text(`answer ${turn.toString()}`)));
    }
    expect(await house.stored()).toEqual(['memory: what is known| and more ', 'notes: a note']);
    expect(last?.stats).toMatchObject({ injections: 2, placed: 0 });
  });

  test('one that changes is stored after the message that opens each turn, and what was sent stays', async () => {
    let last: CompiledLog | undefined;
    for (let turn = 0; turn < 4; turn++) {
      await log.append(said(`question ${turn.toString()}`));
      const injections = [unit('memory', 'constant'), unit('clock', `it is ${turn.toString()}`)];
      const compiled = ok(await log.compile({ ...options, injections }));
      if (last !== undefined) expectPrefix(last, compiled);
      last = compiled;
      await log.append(entry(text(`answer ${turn.toString()}`)));
    }
    const turns = ['0', '1', '2', '3'].flatMap((turn) => [
      `entry: question ${turn}`,
      ...(turn === '0' ? ['injection of memory: constant'] : []),
      `injection of clock: it is ${turn}`,
      ...(turn === '3' ? [] : [`entry: answer ${turn}`]),
    ]);
    expect(last === undefined ? [] : outline(last)).toEqual(turns);
  });

  test('one that is placed at each compile moves, and what was sent after it is shared no more', async () => {
    const injections = [{ ...unit('memory', 'words'), placement: 'each_compile' as const }];
    await log.append(said('the question'));
    ok(await log.compile({ ...options, injections }));
    await log.append(entry(text('the answer')), said('the next question'));
    expect(ok(await log.compile({ ...options, injections })).stats.shared.messages).toBe(1);
  });
});

describe('a preview shows what the start would send', () => {
  const both = async (options: CompileOptions) => {
    const previewed = await log.preview(options);
    return [previewed, await log.compile(options)] as const;
  };

  test('with units that are stored, changed, opted out and for other places', async () => {
    await log.append(said('the question'));
    ok(await log.compile({ injections: [unit('a', 'same'), unit('b', 'old')] }));
    await log.append(entry(text('the answer')), said('the next question'));
    const injections = [
      { ...unit('e', 'at the end'), placement: 'each_compile' as const },
      unit('c', 'fresh'),
      { ...unit('s', 'rules'), position: 'system' as const },
      unit('b', 'new'),
      unit('blank', ' '),
      { ...unit('f', 'before'), position: 'before_user' as const },
      unit('a', 'same'),
    ];
    const [previewed, compiled] = await both({ injections });
    expect(bytesOf(ok(previewed))).toEqual(bytesOf(ok(compiled)));
    expect(outline(ok(compiled))).toEqual([
      'placed of s: rules',
      ...['entry: the question', 'injection of a: same', 'injection of b: old'],
      ...['entry: the answer', 'placed of f: before', 'entry: the next question'],
      ...['injection of c: fresh', 'injection of b: new'],
      ...['placed of e: at the end', 'placed of blank:  '],
    ]);
  });

  test('with one that is longer than an entry may be: it is cut alike', async () => {
    await log.append(said('the question'));
    const long = unit('memory', 'one two three four five six seven eight nine ten '.repeat(20));
    const [previewed, compiled] = await both({ injections: [long], maxEntryTokens: 32 });
    expect(ok(compiled).stats.tokens.injections).toBeLessThanOrEqual(32);
    expect(bytesOf(ok(previewed))).toEqual(bytesOf(ok(compiled)));
  });

  test('with one that takes its share of the newest window: the same goes raw', async () => {
    const [first = ''] = await log.append(said('an old question '.repeat(10)), said('the newest'));
    await log.summarize({ from: first, to: first }, 'short');
    const { tokens } = ok(await log.compile({ recentTokens: 1000 })).stats;
    const injections = [unit('memory', 'what is known')];
    const [previewed, compiled] = await both({ injections, recentTokens: tokens.total });
    expect(bytesOf(ok(previewed))).toEqual(bytesOf(ok(compiled)));
  });

  test('with a budget that only what it would store exceeds', async () => {
    await log.append(said('the question'));
    const { total } = ok(await log.compile()).stats.tokens;
    const [previewed, compiled] = await both({ injections: units, budget: total });
    expect([previewed.code, compiled.code]).toEqual(['over_budget', 'over_budget']);
    expect((previewed.body as { detail?: string }).detail).toContain(
      `budget is ${total.toString()}`,
    );
  });
});

test('what was written to the agent while its turn was alive stands before what the next start injects', async () => {
  await log.append(said('the question'));
  ok(await log.compile());
  const late = { entries: [said('a late message', 'ben')] };
  ok(await log.call('POST', '/entries?agent=resident', late, 'late'));
  ok(await house.turn.end('complete'));
  const next = log.by(await house.start());
  expect(outline(ok(await next.compile({ injections: [unit('memory', 'words')] })))).toEqual([
    ...['entry: the question', 'entry: a late message', 'injection of memory: words'],
  ]);
});
