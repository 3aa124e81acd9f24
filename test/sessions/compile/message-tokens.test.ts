import { expect, test } from 'vitest';
import type { Block } from '../../../sessions/entry-shape.ts';
import {
  CALL_TOKENS,
  IMAGE_TOKENS,
  MESSAGE_TOKENS,
  weighMessage,
} from '../../../sessions/compile/message-tokens.ts';

/** Counts code units, and keeps what it was asked. */
function counting() {
  const asked: string[] = [];
  const count = (text: string) => {
    asked.push(text);
    return text.length;
  };
  return { name: 'units', count, asked };
}

function weigh(...content: readonly Block[]): number {
  return weighMessage(counting(), { role: 'user', participant: 'ana', content }) - MESSAGE_TOKENS;
}

const form = (id: string, length: number) => ({
  id,
  provider: 'p',
  value: 'x'.repeat(length - 2),
});

test('a message has its frame even where it is empty', () => {
  expect(weighMessage(counting(), { role: 'user', participant: 'ana', content: [] })).toBe(4);
});

test('every kind of block weighs what is sent of it, data as JSON', () => {
  expect(weigh({ type: 'text', text: 'hello' })).toBe(5);
  expect(weigh({ type: 'thinking', text: 'hm' })).toBe(2);
  expect(weigh({ type: 'image', mediaType: 'image/png', data: 'AAAA' })).toBe(IMAGE_TOKENS);
  expect(weigh({ type: 'tool_call', id: 'a', name: 'look', arguments: { at: 1 } })).toBe(
    CALL_TOKENS + 4 + '{"at":1}'.length,
  );
  expect(weigh({ type: 'raw', provider: 'p', value: [1, 2] })).toBe(5);
});

test('a result weighs its texts, its images and its value', () => {
  expect(weigh({ type: 'tool_result', call: 'a' })).toBe(CALL_TOKENS);
  expect(weigh({ type: 'tool_result', call: 'a', value: null })).toBe(CALL_TOKENS + 4);
  expect(
    weigh({
      type: 'tool_result',
      call: 'a',
      content: [
        { type: 'text', text: 'two' },
        { type: 'image', mediaType: 'image/png', data: 'AAAA' },
      ],
      value: 'v',
    }),
  ).toBe(CALL_TOKENS + 3 + IMAGE_TOKENS + 3);
});

test('blocks that share a replay form weigh the larger of the form and of themselves, once', () => {
  const sharing = (length: number): Block[] => [
    { type: 'thinking', text: 'x'.repeat(30), replay: form('r', length) },
    { type: 'text', text: 'y'.repeat(20), replay: form('r', length) },
  ];
  expect(weigh(...sharing(80))).toBe(80);
  expect(weigh(...sharing(40))).toBe(50);
  expect(weigh(...sharing(80), { type: 'text', text: 'z', replay: form('s', 10) })).toBe(90);
});

test('each string is counted once', () => {
  const estimator = counting();
  const content: Block[] = [
    { type: 'text', text: 'one', replay: form('r', 9) },
    { type: 'thinking', text: 'two', replay: form('r', 9) },
    { type: 'tool_result', call: 'a', content: [{ type: 'text', text: 'three' }], value: 4 },
  ];
  weighMessage(estimator, { role: 'agent', participant: 'a', content });
  expect(estimator.asked.toSorted()).toEqual(['"xxxxxxx"', '4', 'one', 'three', 'two']);
});
