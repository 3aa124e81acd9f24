import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';

// Where an audience may stand, and what else an entry may not hold: refused with the place named.

let gateway: TestGateway;
let log: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway();
  const acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'a question');
  log = logOf(gateway, await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' }));
});

afterAll(() => gateway.close());

const audience = ['ana'];
const misplaced: [what: string, entry: unknown, place: string][] = [
  [
    'on a tool call',
    entry({ type: 'tool_call', id: 'c', name: 'n', arguments: {}, audience }),
    'blocks.0',
  ],
  ['on a tool result', entry({ type: 'tool_result', call: 'c', value: 1, audience }), 'blocks.0'],
  [
    'on inline media',
    entry(text('x'), { type: 'image', mediaType: 'image/png', data: 'AA', audience }),
    'blocks.1',
  ],
  ['on thinking', entry({ type: 'thinking', text: 'x', audience }), 'blocks.0'],
  ['on a raw form', entry({ type: 'raw', provider: 'p', value: 1, audience }), 'blocks.0'],
  [
    'in a block within a block',
    entry({ type: 'tool_result', call: 'c', content: [{ type: 'text', text: 'x', audience }] }),
    'blocks.0.content.0',
  ],
  [
    'on a system entry',
    { role: 'system', participant: 'host', blocks: [text('x', 'ana')] },
    'blocks.0.audience',
  ],
  ['on an entry', { ...entry(text('x')), audience }, 'entries.0'],
  ['as a text', entry({ type: 'text', text: 'x', audience: 'ana' }), 'blocks.0.audience'],
  ['as null', entry({ type: 'text', text: 'x', audience: null }), 'blocks.0.audience'],
  [
    'as an object',
    entry({ type: 'text', text: 'x', audience: { ana: true } }),
    'blocks.0.audience',
  ],
  ['as numbers', entry({ type: 'text', text: 'x', audience: [1] }), 'blocks.0.audience.0'],
  ['as an empty id', entry({ type: 'text', text: 'x', audience: [''] }), 'blocks.0.audience.0'],
  [
    'as a nested list',
    entry({ type: 'text', text: 'x', audience: [['ana']] }),
    'blocks.0.audience.0',
  ],
];

test.each(misplaced)('an audience is refused %s', async (_what, bad, place) => {
  const answer = await log.tryAppend([bad]);
  expect([answer.status, answer.code]).toEqual([400, 'invalid_input']);
  expect((answer.body as unknown as { detail: string }).detail).toContain(place);
});

test.each([
  ['no entries', []],
  ['no blocks', [entry()]],
  ['an unknown kind of block', [entry({ type: 'video', url: 'x' })]],
  ['an unknown role', [{ ...entry(text('x')), role: 'owner' }]],
  ['no participant', [{ role: 'user', blocks: [text('x')] }]],
  ['a NUL', [entry(text('a\0b'))]],
  ['a lone surrogate', [entry(text('a\ud800b'))]],
  [
    'a NUL in the data of a tool',
    [entry({ type: 'tool_call', id: 'c', name: 'n', arguments: 'a\0' })],
  ],
  [
    'a source of a block that is not there',
    [{ ...entry(text('x')), sources: [{ conversation: 'thread', seq: '1', block: 1 }] }],
  ],
  [
    'a source twice',
    [
      {
        ...entry(text('x')),
        sources: [
          { conversation: 'thread', seq: '1' },
          { conversation: 'thread', seq: '1' },
        ],
      },
    ],
  ],
  [
    'a source with a number for a sequence',
    [{ ...entry(text('x')), sources: [{ conversation: 'thread', seq: 1 }] }],
  ],
])('an entry is refused with %s', async (_what, entries) => {
  const answer = await log.tryAppend(entries);
  expect([answer.status, answer.code]).toEqual([400, 'invalid_input']);
});

describe('a request that names', () => {
  test.each(['reader', 'readers', 'scope', 'floor', 'mode'])('%s is refused', async (name) => {
    for (const [method, path] of [
      ['POST', '/compile'],
      ['GET', '/entries'],
      ['GET', '/pins'],
    ] as const) {
      expect((await log.call(method, `${path}?${name}=ana`)).status).toBe(400);
    }
    expect((await log.call('POST', '/search', { query: 'x', [name]: 'ana' })).status).toBe(400);
  });
});
