import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { CONTINUE } from '../../sessions/compile/compile-plan.ts';
import type { CompileOptions } from '../../sessions/compile/compile-shape.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, text, type TestLog } from '../support/log.ts';
import { injectionHouse, outline, said, unit } from './injection-house.ts';

// What woke the agent: the last message that is not injected, and no injection.

let gateway: TestGateway;
let log: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  ({ log } = await injectionHouse(gateway));
});

const MARKER = `marker: ${CONTINUE}`;
const memory = unit('memory', 'words');
const ends = async (options: CompileOptions = {}) => outline(ok(await log.compile(options)));

describe('the marker', () => {
  test('goes after all that is injected where the agent itself spoke last', async () => {
    await log.append(said('the question'), entry(text('the answer')));
    const late = { ...unit('late', 'more'), placement: 'each_compile' as const };
    expect(await ends({ injections: [memory, late] })).toEqual([
      ...['entry: the question', 'entry: the answer', 'injection of memory: words'],
      ...['placed of late: more', MARKER],
    ]);
  });

  test('stays after what was stored at an earlier start, until somebody speaks', async () => {
    await log.append(said('the question'), entry(text('the answer')));
    await ends({ injections: [memory] });
    expect((await ends()).at(-1)).toBe(MARKER);
    await log.append(said('the next question'));
    expect(await ends()).toEqual([
      ...['entry: the question', 'entry: the answer', 'injection of memory: words'],
      'entry: the next question',
    ]);
  });

  test('is there without any injection, where the request would end on the agent', async () => {
    await log.append(said('the question'), entry(text('the answer')));
    expect((await ends()).at(-1)).toBe(MARKER);
  });

  test('is charged, and is no entry and no injection', async () => {
    await log.append(entry(text('the answer')));
    const { stats, provenance } = ok(await log.compile({ injections: [memory] }));
    expect(provenance.map(({ kind }) => kind)).toEqual(['entry', 'injection', 'marker']);
    expect(stats).toMatchObject({ entries: 1, injections: 1, placed: 0 });
    const { total, entries, injections, marker } = stats.tokens;
    expect(marker).toBeGreaterThan(0);
    expect(total).toBe(entries + injections + marker);
  });

  test('is not stored: another start finds the log without it', async () => {
    await log.append(entry(text('the answer')));
    await ends();
    expect(ok(await log.entries()).entries).toHaveLength(1);
  });
});

describe('there is no marker', () => {
  const result = { type: 'tool_result', call: 'c', content: [text('seen')] };
  const call = { type: 'tool_call', id: 'c', name: 'look', arguments: {} };
  const other = { ...entry(text('from another agent')), participant: 'helper' };

  test.each<[who: string, last: object[], options: CompileOptions]>([
    ['a person spoke last', [said('the question')], {}],
    ['a tool answered last', [entry(call), { ...said(''), blocks: [result] }], {}],
    ['a tool answered within the entry of the agent', [entry(call, result)], {}],
    ['another agent spoke last', [entry(text('mine')), other], { self: 'assistant' }],
    ['nobody spoke', [], {}],
  ])('where %s, whatever was injected after it', async (_who, last, options) => {
    if (last.length > 0) await log.append(...last);
    const first = await ends({ ...options, injections: [memory] });
    expect(first.at(-1)).toBe('injection of memory: words');
    expect((await ends(options)).at(-1)).toBe('injection of memory: words');
  });

  test('for another agent alone: the agent itself has one where it spoke after that', async () => {
    await log.append(other, entry(text('mine')));
    expect((await ends({ injections: [memory], self: 'assistant' })).at(-1)).toBe(MARKER);
    expect((await ends({ self: 'helper' })).at(-1)).toBe('injection of memory: words');
  });
});
