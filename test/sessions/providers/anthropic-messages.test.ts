import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  OPENING,
  toAnthropic,
  type AnthropicRequest,
} from '../../../sessions/providers/anthropic-messages.ts';
import { sentCallIds } from '../../../sessions/providers/call-ids.ts';
import type { Block } from '../../../sessions/entry-shape.ts';
import type { SentMessage } from '../../../sessions/compile/message-tokens.ts';
import { IMAGE_OF_AGENT } from '../../../sessions/providers/request-turns.ts';
import { AnthropicShape } from './provider-shapes.ts';
import { markedLog, marksIn } from './random-messages.ts';

const text = (words: string): Block => ({ type: 'text', text: words });
const call = (id: string, args: unknown = {}): Block => ({
  ...{ type: 'tool_call', id, name: 'look', arguments: args },
});
const result = (id: string, value: unknown = 'found'): Block => ({
  ...{ type: 'tool_result', call: id, value },
});
const image: Block = { type: 'image', mediaType: 'image/png', data: 'AAAA' };
const sentImage = {
  type: 'image',
  source: { type: 'base64', media_type: 'image/png', data: 'AAAA' },
};
const raw = (value: unknown, provider = 'anthropic'): Block => ({ type: 'raw', provider, value });
const thinking = { type: 'thinking', thinking: 'hm', signature: 's' };

const by = (role: SentMessage['role'], ...content: readonly Block[]): SentMessage => ({
  ...{ role, participant: 'someone', content },
});

/** The messages that these become, if the API would take them. */
function sent(...messages: readonly SentMessage[]): AnthropicRequest['messages'] {
  const request = toAnthropic(messages);
  AnthropicShape.parse(request);
  return request.messages;
}

const user = (...content: readonly unknown[]) => ({ role: 'user', content });
const assistant = (...content: readonly unknown[]) => ({ role: 'assistant', content });
const words = (some: string) => ({ type: 'text', text: some });
const use = (id: string, input: unknown = {}) => ({ type: 'tool_use', id, name: 'look', input });
const answer = (id: string, value = '"found"') => ({
  ...{ type: 'tool_result', tool_use_id: id, content: [words(value)] },
});

describe('roles', () => {
  test('alternate: messages of one side that follow each other are one', () => {
    expect(
      sent(
        by('user', text('one')),
        by('user', text('two')),
        by('agent', text('three')),
        by('agent', text('four')),
        by('user', text('five')),
      ),
    ).toEqual([
      user(words('one'), words('two')),
      assistant(words('three'), words('four')),
      user(words('five')),
    ]);
  });

  test('begin with the user, by an opening where the agent spoke first', () => {
    expect(sent(by('agent', text('hello')), by('user', text('hi')))).toEqual([
      user(words(OPENING)),
      assistant(words('hello')),
      user(words('hi')),
    ]);
  });
});

describe('system messages', () => {
  test('go to the system prompt where they lead', () => {
    const request = toAnthropic([
      by('system', text('Be brief.'), text('Be kind.')),
      by('system', text('It is Monday.')),
      by('user', text('hi')),
    ]);
    expect(AnthropicShape.parse(request)).toEqual({
      system: [words('Be brief.'), words('Be kind.'), words('It is Monday.')],
      messages: [user(words('hi'))],
    });
  });

  test('are tagged text of the user where they come later, at their place', () => {
    expect(
      sent(by('user', text('hi')), by('system', text('It is Monday.')), by('agent', text('hello'))),
    ).toEqual([
      user(words('hi'), words('<system>\nIt is Monday.\n</system>')),
      assistant(words('hello')),
    ]);
  });

  test('give their images to the user, and no form of a provider', () => {
    const request = toAnthropic([
      by('system', text('Look:'), image, {
        ...{ type: 'raw', provider: 'anthropic', value: [words('other')] },
      }),
      by('user', text('hi')),
    ]);
    expect(request).toEqual({ system: [words('Look:')], messages: [user(sentImage, words('hi'))] });
  });

  test('alone give no message', () => {
    expect(toAnthropic([by('system', text('Be brief.'))])).toEqual({
      ...{ system: [words('Be brief.')], messages: [] },
    });
    expect(toAnthropic([])).toEqual({ messages: [] });
  });
});

describe('calls and results', () => {
  test('are a turn of the assistant and the turn of the user after it, the results first', () => {
    expect(
      sent(
        by('user', text('hi')),
        by('agent', text('wait'), call('a', { at: 1 }), call('b')),
        by('agent', result('a')),
        by('system', text('Hurry.')),
        by('user', result('b', { n: [1] })),
        by('user', text('so?')),
      ),
    ).toEqual([
      user(words('hi')),
      assistant(words('wait'), use('a', { at: 1 }), use('b')),
      user(
        answer('a'),
        answer('b', '{"n":[1]}'),
        words('<system>\nHurry.\n</system>'),
        words('so?'),
      ),
    ]);
  });

  test('keep texts and images of a result, its value after them, and that it is an error', () => {
    const full: Block = {
      ...{ type: 'tool_result', call: 'a', value: null, isError: true },
      content: [{ type: 'text', text: 'broken' }, { type: 'text', text: ' ' }, image],
    };
    expect(sent(by('user', text('hi')), by('agent', call('a')), by('agent', full))[2]).toEqual(
      user({
        ...{ type: 'tool_result', tool_use_id: 'a', is_error: true },
        content: [words('broken'), sentImage, words('null')],
      }),
    );
    expect(
      sent(by('agent', call('a')), by('agent', { type: 'tool_result', call: 'a' }))[2],
    ).toEqual(user({ type: 'tool_result', tool_use_id: 'a' }));
  });

  test('have ids, names and inputs that the API admits', () => {
    const odd: Block = { type: 'tool_call', id: 'a b', name: 'mcp.x/ö', arguments: [1] };
    const [, turn, answers] = sent(by('agent', odd), by('agent', result('a b')));
    expect(turn?.content).toMatchObject([{ name: 'mcp_x__', input: { arguments: [1] } }]);
    const { id } = turn?.content[0] as { id: string };
    expect(answers?.content).toMatchObject([{ tool_use_id: id }]);
  });
});

describe('images', () => {
  test('that the agent made are shown to it by the user, after its calls', () => {
    expect(
      sent(by('agent', text('see'), image, call('a')), by('agent', result('a'))).slice(1),
    ).toEqual([
      assistant(words('see'), use('a')),
      user(answer('a'), words(IMAGE_OF_AGENT), sentImage),
    ]);
  });

  test('of a type that is not taken, or of nothing, give way to a text', () => {
    const odd: Block = { ...image, mediaType: 'image/svg+xml' };
    expect(sent(by('user', odd, { ...image, data: '' }))).toEqual([
      user(
        words('[an image of type image/svg+xml is left out]'),
        words('[an image of type image/png is left out]'),
      ),
    ]);
  });
});

test('blank text is left out, and a message of nothing else', () => {
  expect(
    sent(
      by('user', text('hi'), text(' \n\t\u2003\u001f')),
      by('agent', text('')),
      by('user', text('there')),
    ),
  ).toEqual([user(words('hi'), words('there'))]);
});

test('white space at the end of what the agent said last is left out, and nowhere else', () => {
  expect(sent(by('user', text('hi  ')), by('agent', text('a '), text('b \n')))).toEqual([
    user(words('hi  ')),
    assistant(words('a '), words('b')),
  ]);
});

describe('a replay form', () => {
  const replay = (value: unknown, id = 'r', provider = 'anthropic') => ({
    replay: { id, provider, value },
  });

  test('stands for its block; thinking without one is left out', () => {
    expect(
      sent(
        by('user', text('hi')),
        by('agent', { type: 'thinking', text: 'hm', ...replay(thinking) }, text('so')),
        by('user', text('and?')),
        by('agent', { type: 'thinking', text: 'hm' }, text('thus')),
      ),
    ).toEqual([
      user(words('hi')),
      assistant(thinking, words('so')),
      user(words('and?')),
      assistant(words('thus')),
    ]);
  });

  test('that several blocks share stands once, where the first of them is', () => {
    const shared = replay([thinking, use('a', { from: 'form' })]);
    expect(
      sent(
        by('user', text('hi')),
        by('agent', { type: 'thinking', text: 'hm', ...shared }, text('so'), {
          ...call('a'),
          ...shared,
        }),
        by('agent', result('a')),
      )[1],
    ).toEqual(assistant(thinking, use('a', { from: 'form' }), words('so')));
  });

  test.each([
    ['of another provider', replay(words('form'), 'r', 'openai')],
    ['that is no content block', replay('form')],
    ['of no content blocks', replay([])],
    ['of more than content blocks', replay([words('form'), 'form'])],
    ['that makes a call which is not there', replay([words('form'), use('b')])],
  ])('%s is not used', (_what, other) => {
    expect(sent(by('user', { type: 'text', text: 'hi', ...other }))).toEqual([user(words('hi'))]);
  });

  test('of a call is not used where the call has another id, or none', () => {
    const messages = (value: unknown) => [
      by('agent', { ...call('a'), ...replay(value) }),
      by('agent', result('a')),
    ];
    for (const value of [words('form'), use('b'), [use('a'), use('b')]])
      expect(sent(...messages(value))[1]).toEqual(assistant(use('a')));
    expect(sent(...messages(use('a', { form: 1 })))[1]).toEqual(assistant(use('a', { form: 1 })));
  });

  test('of a call whose id was used before is not used: the provider takes an id once', () => {
    const again = { ...call('a'), ...replay(use('a', { form: 1 })) };
    const [, , , turn] = sent(
      by('agent', call('a')),
      by('agent', result('a')),
      by('agent', again),
      by('agent', result('a')),
    );
    expect(turn?.content).toMatchObject([{ type: 'tool_use', input: {} }]);
  });

  test('that blocks of two messages share is used for neither: it would be sent twice', () => {
    const shared = { type: 'text' as const, ...replay(words('form')) };
    expect(
      sent(by('user', { ...shared, text: 'one' }), by('user', { ...shared, text: 'two' })),
    ).toEqual([user(words('one'), words('two'))]);
  });
});

describe('a raw form', () => {
  test.each([
    ['as content', [thinking, words('form'), words('')]],
    ['as a message', { role: 'assistant', content: [thinking, words('form')], id: 'msg_1' }],
  ])('stands for the content of its message, %s', (_what, value) => {
    expect(sent(by('user', text('hi')), by('agent', text('so'), raw(value)))[1]).toEqual(
      assistant(thinking, words('form')),
    );
  });

  test.each([
    ['of another provider', raw([words('form')], 'openai')],
    ['that is a text', raw('form')],
    ['in another role than its message', raw({ role: 'user', content: [use('a', { form: 1 })] })],
    ['of a message without content', raw({ role: 'assistant', content: 'form' })],
    ['without the calls of its message', raw([words('form')])],
    ['with a call more', raw([words('form'), use('a'), use('b')])],
  ])('%s is not used', (_what, other) => {
    expect(sent(by('agent', call('a'), other), by('agent', result('a')))[1]).toEqual(
      assistant(use('a')),
    );
  });

  test('stands alone where its message has no other block, and gives results their place', () => {
    expect(
      sent(
        by('user', raw([words('hi')])),
        by('agent', raw([words('wait'), use('a')])),
        by('user', raw([words('so?'), answer('a')])),
      ),
    ).toEqual([
      user(words('hi')),
      assistant(words('wait'), use('a')),
      user(answer('a'), words('so?')),
    ]);
  });

  test("keeps a provider's own tools in what the assistant said", () => {
    const used = { type: 'server_tool_use', id: 's', name: 'web_search', input: {} };
    const found = { type: 'web_search_tool_result', tool_use_id: 's', content: [] };
    const messages = [by('user', text('hi')), by('agent', raw([used, found, words('so')]))];
    expect(toAnthropic(messages).messages[1]).toEqual(assistant(used, found, words('so')));
  });
});

describe('any log', () => {
  test('gives a request that the API takes, each call with its own result in the next message', () => {
    fc.assert(
      fc.property(markedLog, ({ messages, pairs }) => {
        const request = AnthropicShape.parse(toAnthropic(messages));
        const resultOf = new Map(pairs);
        const seen = new Set<string>();
        for (const [index, { role, content }] of request.messages.entries()) {
          expect(role).toBe(index % 2 === 0 ? 'user' : 'assistant');
          const calls = content.flatMap((block) => (block.type === 'tool_use' ? [block] : []));
          const next = request.messages[index + 1]?.content ?? [];
          const answers = next.flatMap((block) => (block.type === 'tool_result' ? [block] : []));
          if (role === 'user') {
            const kinds = content.map(({ type }) => type === 'tool_result');
            expect(kinds).toEqual(kinds.toSorted((a, b) => Number(b) - Number(a)));
            continue;
          }
          expect(answers.map((block) => block.tool_use_id).toSorted()).toEqual(
            calls.map(({ id }) => id).toSorted(),
          );
          for (const one of calls) {
            expect(seen.has(one.id)).toBe(false);
            seen.add(one.id);
            const its = answers.find((block) => block.tool_use_id === one.id);
            expect(marksIn(its?.content)[0]).toBe(resultOf.get(marksIn(one.input)[0] ?? ''));
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  test('loses no block but thinking, and sends none twice', () => {
    fc.assert(
      fc.property(markedLog, ({ messages }) => {
        const blocks = messages.flatMap(({ content }) => content);
        const kept = blocks.filter(({ type }) => type !== 'thinking').flatMap(marksIn);
        const request = toAnthropic(messages);
        expect(marksIn(request).toSorted()).toEqual(kept.toSorted());
        expect(toAnthropic(messages)).toEqual(request);
      }),
      { numRuns: 300 },
    );
  });

  test('has its forms or its blocks sent, never both and never neither', () => {
    const choices = fc.array(fc.constantFrom('none', 'raw', 'wrong raw', 'replay'), {
      ...{ minLength: 40, maxLength: 40 },
    });
    fc.assert(
      fc.property(markedLog, choices, ({ messages }, chosen) => {
        const ids = sentCallIds(messages, /^[a-zA-Z0-9_-]{1,64}$/);
        const formOf = (block: Block, id: string, mark: string) => {
          if (block.type === 'tool_call') return use(id, { mark });
          return block.type === 'tool_result' ? answer(id, mark) : words(mark);
        };
        const decorated = messages.map((message, index): SentMessage => {
          const mark = (block: number) => `#9${index}9${block}#`;
          const forms = message.content.map((block, at) =>
            formOf(block, ids[index]?.[at] ?? '', mark(at)),
          );
          switch (chosen[index] ?? 'none') {
            case 'raw':
              return { ...message, content: [...message.content, raw(forms)] };
            case 'wrong raw':
              return { ...message, content: [...message.content, raw([...forms, use('none')])] };
            case 'replay': {
              const replayed = message.content.map((block, at): Block => {
                const form = { id: mark(at), provider: 'anthropic', value: forms[at] };
                return block.type === 'raw' ? block : { ...block, replay: form };
              });
              return { ...message, content: replayed };
            }
            case 'none':
              return message;
          }
        });
        const request = toAnthropic(decorated);
        const usesForms = (index: number) =>
          messages[index]?.role !== 'system' && ['raw', 'replay'].includes(chosen[index] ?? '');
        const expected = messages.flatMap(({ content }, index) =>
          usesForms(index)
            ? content.map((_, at) => `#9${index}9${at}#`)
            : content.filter(({ type }) => type !== 'thinking').flatMap(marksIn),
        );
        expect(marksIn(request).toSorted()).toEqual(expected.toSorted());
        AnthropicShape.parse(request);
      }),
      { numRuns: 300 },
    );
  });
});
