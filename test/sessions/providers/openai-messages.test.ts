import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sentCallIds } from '../../../sessions/providers/call-ids.ts';
import type { Block } from '../../../sessions/entry-shape.ts';
import type { SentMessage } from '../../../sessions/compile/message-tokens.ts';
import {
  ERROR,
  IMAGES_FOLLOW,
  toOpenAi,
  type OpenAiRequest,
} from '../../../sessions/providers/openai-messages.ts';
import { IMAGE_OF_AGENT } from '../../../sessions/providers/request-turns.ts';
import { OpenAiShape } from './provider-shapes.ts';
import { markedLog, marksIn } from './random-messages.ts';

const text = (words: string): Block => ({ type: 'text', text: words });
const call = (id: string, args: unknown = {}): Block => ({
  ...{ type: 'tool_call', id, name: 'look', arguments: args },
});
const result = (id: string, value: unknown = 'found'): Block => ({
  ...{ type: 'tool_result', call: id, value },
});
const image: Block = { type: 'image', mediaType: 'image/png', data: 'AAAA' };
const sentImage = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
const raw = (value: unknown, provider = 'openai'): Block => ({ type: 'raw', provider, value });

const by = (
  role: SentMessage['role'],
  participant: string,
  ...content: readonly Block[]
): SentMessage => ({ role, participant, content });

/** The messages that these become, if the API would take them. */
function sent(...messages: readonly SentMessage[]): OpenAiRequest['messages'] {
  const request = toOpenAi(messages);
  OpenAiShape.parse(request);
  return request.messages;
}

const words = (some: string) => ({ type: 'text', text: some });
const used = (id: string, args = '{}') => ({
  ...{ id, type: 'function', function: { name: 'look', arguments: args } },
});
const called = (...calls: readonly unknown[]) => ({
  ...{ role: 'assistant', content: null, tool_calls: calls },
});
const answer = (id: string, content = '"found"') => ({ role: 'tool', tool_call_id: id, content });

describe('messages', () => {
  test('keep their order, their roles, and who speaks where the API takes the name', () => {
    expect(
      sent(
        by('system', 'host', text('Be brief.')),
        by('user', 'ana', text('one')),
        by('user', 'Ben O.', text('two')),
        by('agent', 'agent:main', text('three')),
        by('agent', 'assistant', text('four'), text('five')),
        by('system', 'host', text('It is Monday.')),
      ),
    ).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', name: 'ana', content: 'one' },
      { role: 'user', content: 'two' },
      { role: 'assistant', content: 'three' },
      { role: 'assistant', name: 'assistant', content: [words('four'), words('five')] },
      { role: 'system', content: 'It is Monday.' },
    ]);
  });

  test.each(['', 'a b', 'ö', 'x'.repeat(65), 'a\n'])('have no name %j', (participant) => {
    expect(sent(by('user', participant, text('hi')))).toEqual([{ role: 'user', content: 'hi' }]);
  });

  test('of blank text and bare thinking alone are left out', () => {
    expect(
      sent(
        by('user', 'ana', text(' \n')),
        by('agent', 'a', { type: 'thinking', text: 'hm' }),
        by('user', 'ana', text('hi'), text('')),
      ),
    ).toEqual([{ role: 'user', name: 'ana', content: 'hi' }]);
    expect(toOpenAi([])).toEqual({ messages: [] });
  });
});

describe('calls and results', () => {
  test('are an assistant message and the tool messages straight after it', () => {
    expect(
      sent(
        by('agent', 'a b', text('wait'), call('a', { at: 1 }), call('b', 'now')),
        by('agent', 'a b', result('a')),
        by('system', 'host', text('Hurry.')),
        by('user', 'tool', result('b', { n: [1] })),
        by('user', 'ana', text('so?')),
      ),
    ).toEqual([
      {
        ...{ role: 'assistant', content: 'wait' },
        tool_calls: [used('a', '{"at":1}'), used('b', '"now"')],
      },
      answer('a'),
      answer('b', '{"n":[1]}'),
      { role: 'system', content: 'Hurry.' },
      { role: 'user', name: 'ana', content: 'so?' },
    ]);
  });

  test('keep the texts of a result, its value after them, and that it is an error', () => {
    const full: Block = {
      ...{ type: 'tool_result', call: 'a', value: null, isError: true },
      content: [
        { type: 'text', text: 'broken' },
        { type: 'text', text: 'badly' },
      ],
    };
    expect(sent(by('agent', 'a b', call('a')), by('agent', 'a b', full))[1]).toEqual(
      answer('a', `${ERROR} broken\nbadly\nnull`),
    );
    expect(
      sent(by('agent', 'a b', call('a')), by('user', 'x', { type: 'tool_result', call: 'a' }))[1],
    ).toEqual(answer('a', ''));
  });

  test('show the images of results in one user message after all of them', () => {
    const seen = (id: string, ...more: readonly { type: 'text'; text: string }[]): Block => ({
      ...{ type: 'tool_result', call: id },
      content: [...more, { type: 'image', mediaType: 'image/png', data: 'AAAA' }],
    });
    expect(
      sent(
        by('agent', 'a b', call('a'), call('b'), call('c')),
        by('agent', 'a b', seen('a')),
        by('agent', 'a b', result('b'), seen('c', { type: 'text', text: 'see' })),
        by('user', 'ana', text('so?')),
      ).slice(1),
    ).toEqual([
      answer('a', IMAGES_FOLLOW),
      answer('b'),
      answer('c', 'see'),
      {
        role: 'user',
        content: [
          words('[images of the result of a]'),
          sentImage,
          words('[images of the result of c]'),
          sentImage,
        ],
      },
      { role: 'user', name: 'ana', content: 'so?' },
    ]);
  });

  test('have ids and names that the API admits', () => {
    const odd: Block = { type: 'tool_call', id: 'x'.repeat(41), name: 'mcp.x/ö', arguments: {} };
    const [turn, reply] = sent(by('agent', 'a b', odd), by('user', 'x', result('x'.repeat(41))));
    expect(turn).toMatchObject({ tool_calls: [{ function: { name: 'mcp_x__' } }] });
    const [{ id } = { id: '' }] = (turn as { tool_calls: { id: string }[] }).tool_calls;
    expect(id).toHaveLength(37);
    expect(reply).toMatchObject({ tool_call_id: id });
  });
});

test('images of the agent and of the system are shown by a user', () => {
  expect(
    sent(
      by('system', 'host', image, text('Look.')),
      by('user', 'ana', text('and'), image),
      by('agent', 'assistant', text('see'), image, call('a')),
      by('user', 'x y', result('a')),
    ),
  ).toEqual([
    { role: 'system', content: 'Look.' },
    { role: 'user', content: [sentImage] },
    { role: 'user', name: 'ana', content: [words('and'), sentImage] },
    { role: 'assistant', name: 'assistant', content: 'see', tool_calls: [used('a')] },
    answer('a'),
    { role: 'user', name: 'assistant', content: [words(IMAGE_OF_AGENT), sentImage] },
  ]);
});

describe('a replay form', () => {
  const replay = (value: unknown, provider = 'openai') => ({
    replay: { id: 'r', provider, value },
  });

  test('of texts and calls stands for them, once', () => {
    const shared = replay([words('form'), used('a', '{"form":1}')]);
    expect(
      sent(
        by(
          'agent',
          'a b',
          { type: 'thinking', text: 'hm', ...shared },
          { ...call('a'), ...shared },
        ),
        by('agent', 'a b', { ...result('a'), ...replay(answer('a', 'form')) }),
      ),
    ).toEqual([called(used('a')), answer('a')]);
    expect(
      sent(
        by(
          'agent',
          'a b',
          { type: 'thinking', text: 'hm', ...shared },
          { ...call('a'), ...shared },
        ),
        by('agent', 'a b', result('a')),
      )[0],
    ).toEqual({ role: 'assistant', content: 'form', tool_calls: [used('a', '{"form":1}')] });
  });

  test('of a refusal is what the assistant said', () => {
    const refusal = { type: 'refusal', refusal: 'No.' };
    const messages = [by('agent', 'a b', { type: 'text', text: 'No.', ...replay(refusal) })];
    expect(toOpenAi(messages).messages).toEqual([{ role: 'assistant', content: [refusal] }]);
  });

  test('of a result stands for it', () => {
    expect(
      sent(
        by('agent', 'a b', call('a')),
        by('agent', 'a b', { ...result('a'), ...replay(answer('a', 'form')) }),
      )[1],
    ).toEqual(answer('a', 'form'));
  });

  test.each([
    ['of another provider', replay(words('form'), 'anthropic')],
    ['of another API of the provider', replay({ type: 'reasoning', id: 'rs_1', summary: [] })],
    ['that is a text', replay('form')],
    ['that makes a call which is not there', replay(used('b'))],
    ['that is a message of its own', replay({ role: 'system', content: 'form' })],
  ])('%s is not used', (_what, other) => {
    expect(sent(by('user', 'ana', { type: 'text', text: 'hi', ...other }))).toEqual([
      { role: 'user', name: 'ana', content: 'hi' },
    ]);
  });
});

describe('a raw form', () => {
  test('stands for its message', () => {
    const form = { role: 'assistant', content: 'form', tool_calls: [used('a', '{"form":1}')] };
    expect(
      sent(by('agent', 'a b', text('so'), call('a'), raw(form)), by('agent', 'a b', result('a'))),
    ).toEqual([form, answer('a')]);
    expect(sent(by('user', 'ana', raw({ role: 'user', content: 'form' })))).toEqual([
      { role: 'user', content: 'form' },
    ]);
  });

  test('of results stands for them', () => {
    expect(
      sent(
        by('agent', 'a b', call('a'), call('b')),
        by('user', 'x', result('a'), result('b'), raw([answer('a', 'one'), answer('b', 'two')])),
      ).slice(1),
    ).toEqual([answer('a', 'one'), answer('b', 'two')]);
  });

  test.each([
    ['of another provider', raw({ role: 'user', content: 'form' }, 'anthropic')],
    ['in the role of the system', raw({ role: 'system', content: 'form' })],
    ['in the role of the agent', raw({ role: 'assistant', content: 'form' })],
    ['with a message of another role', raw([{ role: 'user', content: 'form' }, answer('a')])],
    ['with a call that is not there', raw({ role: 'user', content: 'x', tool_calls: [used('a')] })],
    ['that is no message', raw(words('form'))],
  ])('%s is not used', (_what, other) => {
    expect(sent(by('user', 'ana', text('hi'), other))).toEqual([
      { role: 'user', name: 'ana', content: 'hi' },
    ]);
  });
});

describe('any log', () => {
  test('gives a request that the API takes, each call with its own result straight after it', () => {
    fc.assert(
      fc.property(markedLog, ({ messages, pairs }) => {
        const request = OpenAiShape.parse(toOpenAi(messages));
        const resultOf = new Map(pairs);
        const seen = new Set<string>();
        const waiting = new Map<string, string>();
        for (const message of request.messages) {
          if (message.role === 'tool') {
            const mark = marksIn(message.content).at(-1);
            expect(mark).toBe(waiting.get(message.tool_call_id));
            waiting.delete(message.tool_call_id);
            continue;
          }
          expect([...waiting.keys()]).toEqual([]);
          for (const one of message.role === 'assistant' ? (message.tool_calls ?? []) : []) {
            expect(seen.has(one.id)).toBe(false);
            seen.add(one.id);
            waiting.set(one.id, resultOf.get(marksIn(one.function.arguments)[0] ?? '') ?? '');
          }
        }
        expect([...waiting.keys()]).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test('loses no block but thinking, and sends none twice', () => {
    fc.assert(
      fc.property(markedLog, ({ messages }) => {
        const blocks = messages.flatMap(({ content }) => content);
        const kept = blocks.filter(({ type }) => type !== 'thinking').flatMap(marksIn);
        const request = toOpenAi(messages);
        expect(marksIn(request).toSorted()).toEqual(kept.toSorted());
        expect(toOpenAi(messages)).toEqual(request);
      }),
      { numRuns: 300 },
    );
  });

  test('has its forms or its blocks sent, never both and never neither', () => {
    const choices = fc.array(fc.boolean(), { minLength: 40, maxLength: 40 });
    fc.assert(
      fc.property(markedLog, choices, ({ messages }, chosen) => {
        const ids = sentCallIds(messages, /^[a-zA-Z0-9_-]{1,40}$/);
        const usesForms = (index: number) =>
          chosen[index] === true && messages[index]?.role !== 'system';
        const mark = (index: number, at: number) => `#9${index}9${at}#`;
        const decorated = messages.map((message, index): SentMessage => {
          const content = message.content.map((block, at): Block => {
            const id = ids[index]?.[at] ?? '';
            const own = mark(index, at);
            if (chosen[index] !== true || block.type === 'raw') return block;
            const value =
              block.type === 'tool_call'
                ? used(id, `"${own}"`)
                : block.type === 'tool_result'
                  ? answer(id, own)
                  : words(own);
            return { ...block, replay: { id: own, provider: 'openai', value } };
          });
          return { ...message, content };
        });
        const request = OpenAiShape.parse(toOpenAi(decorated));
        const expected = messages.flatMap(({ content }, index) =>
          usesForms(index)
            ? content.map((_, at) => mark(index, at))
            : content.filter(({ type }) => type !== 'thinking').flatMap(marksIn),
        );
        expect(marksIn(request).toSorted()).toEqual(expected.toSorted());
      }),
      { numRuns: 300 },
    );
  });
});
