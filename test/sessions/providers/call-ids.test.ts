import fc from 'fast-check';
import { expect, test } from 'vitest';
import { pairCalls, type Half } from '../../../policy/pairing.ts';
import { sentCallIds } from '../../../sessions/providers/call-ids.ts';
import type { Block } from '../../../sessions/entry-shape.ts';
import { markedLog } from './random-messages.ts';

const USABLE = /^[a-zA-Z0-9_-]{1,40}$/;
const call = (id: string): Block => ({ type: 'tool_call', id, name: 'look', arguments: {} });
const result = (id: string): Block => ({ type: 'tool_result', call: id });
const idsOf = (...messages: readonly (readonly Block[])[]) =>
  sentCallIds(
    messages.map((content) => ({ content })),
    USABLE,
  );

test('an id that the provider admits is kept, and what is no call has none', () => {
  expect(idsOf([{ type: 'text', text: 'hi' }, call('toolu_1')], [result('toolu_1')])).toEqual([
    [undefined, 'toolu_1'],
    ['toolu_1'],
  ]);
});

test.each(['a b', 'ид', '', 'a\nb', 'x'.repeat(41), `call_${'0'.repeat(32)}`])(
  'the id %j is made anew, the same for a call and its result',
  (id) => {
    const [[of] = [], [by] = []] = idsOf([call(id)], [result(id)]);
    expect(of).toMatch(/^call_[0-9a-f]{32}$/);
    expect(of).not.toBe(id);
    expect(by).toBe(of);
  },
);

test('an id that is used again is another one, also in one message', () => {
  const [first, , second, answers] = idsOf(
    [call('a')],
    [result('a')],
    [call('a'), call('b'), call('a')],
    [result('a'), result('b'), result('a')],
  );
  expect(first).toEqual(['a']);
  expect(new Set([...(first ?? []), ...(second ?? [])]).size).toBe(4);
  expect(answers).toEqual(second);
});

test('a result has the id of the last call, where an earlier one of that id has no result', () => {
  const [, second, answers] = idsOf([call('a')], [call('a')], [result('a')]);
  expect(answers).toEqual(second);
  expect(answers).not.toEqual(['a']);
});

test('what follows changes no id', () => {
  const log = [[call('a')], [result('a')], [call('a'), call('ид')], [result('a'), result('ид')]];
  for (let length = 0; length <= log.length; length++)
    expect(idsOf(...log.slice(0, length))).toEqual(idsOf(...log).slice(0, length));
});

test('no two calls have one id, every id is usable, and each result has that of its call', () => {
  fc.assert(
    fc.property(markedLog, ({ messages }) => {
      const ids = sentCallIds(messages, USABLE);
      const halves = messages.map(({ content }, index) =>
        content.flatMap(({ type }, block): Half[] => {
          const id = ids[index]?.[block] ?? '';
          if (type === 'tool_call') return [{ kind: 'call', id }];
          return type === 'tool_result' ? [{ kind: 'result', id }] : [];
        }),
      );
      expect(pairCalls(halves)).toMatchObject({ unpaired: [], reused: new Set() });
      for (const { id } of halves.flat()) expect(id).toMatch(USABLE);
    }),
  );
});
