import fc from 'fast-check';
import { pairCalls, type Half, type HalfPlace } from '../../../policy/pairing.ts';
import { arrange } from '../../../sessions/compile/arrangement.ts';
import type { Block } from '../../../sessions/entry-shape.ts';
import type { SentMessage } from '../../../sessions/compile/message-tokens.ts';
import { hostileText } from '../hostile-text.ts';

const ID = fc.constantFrom(
  'a',
  'b',
  'toolu_1',
  'call 1',
  'ид',
  `call_${'0'.repeat(32)}`,
  'x'.repeat(128),
);

const someImage = fc.record({
  type: fc.constant('image' as const),
  mediaType: fc.constantFrom('image/png', 'image/jpeg', 'image/svg+xml'),
  data: fc.constantFrom('AAAA', 'AAEC', ''),
});
const someText = fc.record({ type: fc.constant('text' as const), text: hostileText });

const someBlock: fc.Arbitrary<Block> = fc.oneof(
  { weight: 3, arbitrary: someText },
  { weight: 1, arbitrary: fc.constant({ type: 'text' as const, text: ' \n\u001f' }) },
  { weight: 1, arbitrary: someImage },
  {
    weight: 3,
    arbitrary: fc.record({
      ...{ type: fc.constant('tool_call' as const), id: ID },
      name: fc.constantFrom('look', 'mcp.server/look', 'смотри', 'n'.repeat(100)),
      arguments: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue()),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record(
      {
        ...{ type: fc.constant('tool_result' as const), call: ID },
        content: fc.array(fc.oneof(someText, someImage), { maxLength: 3 }),
        value: fc.jsonValue(),
        isError: fc.boolean(),
      },
      { requiredKeys: ['type', 'call'] },
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constant('thinking' as const), text: hostileText }),
  },
);

/** Pieces of a log in which calls and results are anywhere, ids used again and again. */
const somePieces = fc.array(
  fc.record({
    role: fc.constantFrom('user' as const, 'agent' as const, 'agent' as const, 'system' as const),
    participant: fc.constantFrom('ana', 'Ben O.', 'agent:main', 'assistant'),
    blocks: fc.array(someBlock, { minLength: 1, maxLength: 5 }),
  }),
  { maxLength: 8 },
);

/** A log as it is sent, in which each text, call and result is told by a mark. */
export interface MarkedLog {
  /** As a compile gives them to an adapter. */
  readonly messages: readonly SentMessage[];
  /** Of each call that has a result, with that of its result. */
  readonly pairs: readonly (readonly [string, string])[];
}

export const markedLog: fc.Arbitrary<MarkedLog> = somePieces.map((some) => {
  let marks = 0;
  const mark = () => `#${(marks++).toString()}#`;
  const pieces = some.map((piece) => ({
    ...{ ...piece, origin: undefined },
    blocks: piece.blocks.map((block): Block => {
      switch (block.type) {
        case 'text':
          return block.text.trim() === '' ? block : { ...block, text: `${mark()} ${block.text}` };
        case 'thinking':
          return { ...block, text: `${mark()} ${block.text}` };
        case 'tool_call':
          return { ...block, arguments: { mark: mark(), value: block.arguments } };
        case 'tool_result':
          return { ...block, value: { mark: mark(), value: block.value ?? null } };
        case 'image':
        case 'raw':
          return block;
      }
    }),
  }));
  const halves = pieces.map(({ blocks }) =>
    blocks.flatMap((block): (Half & { readonly mark: string })[] => {
      if (block.type === 'tool_call')
        return [{ kind: 'call', id: block.id, mark: marksIn(block)[0] ?? '' }];
      if (block.type === 'tool_result')
        return [{ kind: 'result', id: block.call, mark: marksIn(block.value)[0] ?? '' }];
      return [];
    }),
  );
  const markAt = ({ entry, half }: HalfPlace) => halves[entry]?.[half]?.mark ?? '';
  return {
    messages: arrange(pieces).map(({ role, participant, content }) => ({
      ...{ role, participant, content },
    })),
    pairs: pairCalls(halves).pairs.map(
      ({ call, result }) => [markAt(call), markAt(result)] as const,
    ),
  };
});

/** The marks in a value, in their order. */
export function marksIn(value: unknown): string[] {
  return [...JSON.stringify([value]).matchAll(/#\d+#/g)].map(([mark]) => mark);
}
