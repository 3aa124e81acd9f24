import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { pairCalls } from '../../../policy/pairing.ts';
import {
  arrange,
  markOfCall,
  markOfResult,
  type Message,
  type Piece,
} from '../../../sessions/compile/arrangement.ts';
import type { Block } from '../../../sessions/entry-shape.ts';
import { halfOf, plainArrangement } from './plain-arrangement.ts';

const text = (words: string): Block => ({ type: 'text', text: words });
const call = (id: string): Block => ({ type: 'tool_call', id, name: 'look', arguments: {} });
const result = (id: string): Block => ({ type: 'tool_result', call: id, value: 'found' });
const raw: Block = { type: 'raw', provider: 'p', value: 'whole' };
function replayed(block: Block, id: string): Block {
  return { ...block, replay: { id, provider: 'p', value: id } } as Block;
}

function pieces(...all: readonly (readonly Block[])[]): Piece<number>[] {
  return all.map((blocks, origin) => ({
    role: 'agent',
    participant: `p${origin}`,
    blocks,
    origin,
  }));
}

/** The messages, short: the origin and what it holds. */
function shown(messages: readonly Message<number>[]): string[] {
  return messages.map(({ origin, content }) => `${origin}: ${content.map(nameOf).join(' ')}`);
}

function nameOf(block: Block): string {
  if (block.type === 'text') return block.text;
  if (block.type === 'tool_call') return `call-${block.id}`;
  if (block.type === 'tool_result') return `result-${block.call}`;
  return block.type;
}

const arranged = (...all: readonly (readonly Block[])[]) => shown(arrange(pieces(...all)));

describe('results', () => {
  test('come straight after the message with their call, over what was said in between', () => {
    expect(arranged([text('hi')], [text('wait'), call('a')], [text('so?')], [result('a')])).toEqual(
      ['0: hi', '1: wait call-a', '3: result-a', '2: so?'],
    );
  });

  test('of one message follow in the order of its calls, those of one entry as one message', () => {
    const calls = [call('a'), call('b'), call('c')];
    expect(arranged(calls, [result('c')], [result('b'), result('a')])).toEqual([
      '0: call-a call-b call-c',
      '2: result-a result-b',
      '1: result-c',
    ]);
  });

  test('keep the order of their calls also where those of two entries alternate', () => {
    const calls = [call('a'), call('b'), call('c')];
    expect(arranged(calls, [result('a'), result('c')], [result('b')])).toEqual([
      '0: call-a call-b call-c',
      '1: result-a',
      '2: result-b',
      '1: result-c',
    ]);
  });

  test('of several calls of one id go each to the call that it pairs with', () => {
    const [first, second] = [replayed(result('a'), '1'), replayed(result('a'), '2')];
    const messages = arrange(pieces([call('a')], [call('a')], [first], [second]));
    expect(messages.map(({ content }) => content[0])).toEqual([
      call('a'),
      second,
      call('a'),
      first,
    ]);
  });

  test('carry role, participant and origin of their own entry', () => {
    const [asked, between, found] = pieces([call('a')], [text('hm')], [result('a')]);
    if (!asked || !between || !found) throw new Error('three pieces');
    const messages = arrange<object>([
      { ...asked, origin: {} },
      { ...between, origin: {} },
      { ...found, role: 'user', participant: 'tool', origin: found },
    ]);
    expect(messages[1]).toEqual({
      role: 'user',
      participant: 'tool',
      content: [result('a')],
      origin: found,
    });
    expect(messages[1]?.origin).toBe(found);
  });
});

describe('an entry', () => {
  test('stays whole if nothing in it needs a move', () => {
    const image: Block = { type: 'image', mediaType: 'image/png', data: '' };
    const thought: Block = { type: 'thinking', text: 'hm' };
    expect(arranged([text('a'), image, text('b')], [thought, call('a'), call('b')])).toContain(
      '0: a image b',
    );
    expect(arranged([call('a'), call('b')], [result('a'), result('b')])).toEqual([
      '0: call-a call-b',
      '1: result-a result-b',
    ]);
  });

  test('with a call, its result and a text becomes three messages of one origin', () => {
    expect(arranged([call('a'), result('a'), text('so')])).toEqual([
      '0: call-a',
      '0: result-a',
      '0: so',
    ]);
  });

  test('that holds a result and a text is parted, also straight after its call', () => {
    expect(arranged([call('a')], [result('a'), text('and?')])).toEqual([
      '0: call-a',
      '1: result-a',
      '1: and?',
    ]);
  });

  test('whose results go to two messages is parted between them', () => {
    expect(arranged([call('a')], [call('b')], [result('a'), result('b')])).toEqual([
      '0: call-a',
      '2: result-a',
      '1: call-b',
      '2: result-b',
    ]);
  });

  test('without blocks gives no message', () => {
    expect(arranged([], [text('a')])).toEqual(['1: a']);
  });
});

describe('a half alone', () => {
  test('gives way to a text in its place, be it the newest', () => {
    expect(arranged([text('a'), result('x'), text('b')], [text('c'), call('y')])).toEqual([
      `0: a ${markOfResult()} b`,
      `1: c ${markOfCall('look')}`,
    ]);
    expect(markOfCall('look')).toBe('[a call of look is left out: its result is not here]');
    expect(markOfResult()).toBe('[a result is left out: its call is not here]');
  });

  test('is one whose result stands before its call', () => {
    expect(arranged([result('a')], [call('a')])).toEqual([
      `0: ${markOfResult()}`,
      `1: ${markOfCall('look')}`,
    ]);
  });

  test('is one whose other half is not sent, though another of its id is', () => {
    const log = pieces([call('a')], [result('a')], [call('a')], [result('a')]);
    const some = log.map((piece) => ({ ...piece, sent: piece.origin === 0 || piece.origin === 3 }));
    expect(shown(arrange(some))).toEqual([`0: ${markOfCall('look')}`, `3: ${markOfResult()}`]);
    expect(shown(arrange(log)).length).toBe(4);
  });

  test('takes its replay form with it, and from the blocks that share it', () => {
    const blocks = [
      replayed(text('shared'), 'r1'),
      replayed(text('other'), 'r2'),
      replayed(call('a'), 'r1'),
    ];
    expect(arrange(pieces(blocks))[0]?.content).toEqual([
      text('shared'),
      replayed(text('other'), 'r2'),
      text(markOfCall('look')),
    ]);
  });
});

describe("the provider's own form of an entry", () => {
  test('is kept where the entry goes as it is, moved or not', () => {
    expect(
      arranged([raw, text('a'), call('a')], [text('b'), raw], [raw, result('a')], [raw]),
    ).toEqual(['0: raw a call-a', '2: raw result-a', '1: b raw', '3: raw']);
  });

  test('is dropped where the entry is parted', () => {
    expect(arranged([raw, call('a'), result('a')])).toEqual(['0: call-a', '0: result-a']);
    expect(arranged([call('a')], [call('b')], [raw, result('a'), result('b')])).not.toContain(
      expect.stringContaining('raw'),
    );
  });

  test('is dropped where the results in it are put in another order', () => {
    expect(arranged([call('a'), call('b')], [raw, result('b'), result('a')])).toEqual([
      '0: call-a call-b',
      '1: result-a result-b',
    ]);
  });

  test('is dropped where a half gave way to a text', () => {
    expect(arranged([text('a'), call('a'), raw])).toEqual([`0: a ${markOfCall('look')}`]);
  });
});

describe('every log', () => {
  const id = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');
  const block = fc.oneof(
    { weight: 3, arbitrary: id.map(call) },
    { weight: 4, arbitrary: id.map(result) },
    { weight: 2, arbitrary: fc.constantFrom('x', 'y').map(text) },
    { weight: 1, arbitrary: fc.constant<Block>({ type: 'thinking', text: 'hm' }) },
    { weight: 1, arbitrary: fc.constant(raw) },
  );
  const replay = fc.constantFrom(undefined, undefined, undefined, 'r', 's');
  /** Blocks are objects of their own, so that each can be told from its like. */
  const log = fc
    .array(
      fc.record({
        blocks: fc.array(fc.tuple(block, replay), { maxLength: 5 }),
        sent: fc.nat(5).map((n) => n > 0),
        role: fc.constantFrom('user' as const, 'agent' as const, 'system' as const),
      }),
      { maxLength: 8 },
    )
    .map((all) =>
      all.map(({ blocks, sent, role }, origin): Piece<number> => ({
        role,
        participant: `p${origin}`,
        sent,
        origin,
        blocks: blocks.map(([one, shared]) =>
          shared === undefined || one.type === 'raw'
            ? { ...one }
            : replayed(one, `${origin}.${shared}`),
        ),
      })),
    );
  const halvesOf = (messages: readonly Message<number>[]) =>
    messages.map(({ content }) => content.map(halfOf).filter((half) => half !== undefined));
  const runs = { numRuns: 2_000 };

  test('is arranged as the rules are said', () => {
    fc.assert(
      fc.property(log, (all) => {
        expect(arrange(all)).toEqual(plainArrangement(all));
      }),
      runs,
    );
  });

  test('has no half alone in its messages, and results straight after the message with their calls', () => {
    fc.assert(
      fc.property(log, (all) => {
        const messages = arrange(all);
        const { unpaired } = pairCalls(halvesOf(messages));
        expect(unpaired).toEqual([]);
        let open: string[] = [];
        for (const { content } of messages) {
          expect(content.length).toBeGreaterThan(0);
          const halves = content.map(halfOf).filter((half) => half !== undefined);
          const found = halves.filter(({ kind }) => kind === 'result').map((half) => half.id);
          if (found.length > 0) {
            expect(halves.length).toBe(content.filter(({ type }) => type !== 'raw').length);
            expect(open.slice(0, found.length)).toEqual(found);
            open = open.slice(found.length);
          } else {
            expect(open).toEqual([]);
            open = halves.map((half) => half.id);
          }
        }
        expect(open).toEqual([]);
      }),
      runs,
    );
  });

  test('loses no block but raw forms, sends none twice, and keeps the order of all but results', () => {
    fc.assert(
      fc.property(log, (all) => {
        const messages = arrange(all);
        const sent = all.filter((piece) => piece.sent);
        const plain = ({ type }: Block) => type === 'text' || type === 'thinking';
        const counted = (
          some: readonly { readonly origin: number; readonly content: readonly Block[] }[],
        ) =>
          some.flatMap(({ origin, content }) =>
            content.filter(({ type }) => type !== 'raw').map(() => origin),
          );
        const before = sent.map(({ origin, blocks }) => ({ origin, content: blocks }));
        expect(counted(messages).sort()).toEqual(counted(before).sort());
        const words = messages.flatMap(({ origin, content }) =>
          content
            .filter((one) => plain(one) && !nameOf(one).startsWith('['))
            .map((one) => `${origin} ${nameOf(one)}`),
        );
        expect(words).toEqual(
          sent.flatMap(({ origin, blocks }) =>
            blocks.filter(plain).map((one) => `${origin} ${nameOf(one)}`),
          ),
        );
      }),
      runs,
    );
  });

  test('once arranged stays as it is, unless one message calls twice with one id', () => {
    fc.assert(
      fc.property(log, (all) => {
        const messages = arrange(all);
        const calls = halvesOf(messages).map((halves) => halves.map((half) => half.id));
        fc.pre(calls.every((ids) => new Set(ids).size === ids.length));
        const again = messages.map(({ content, ...rest }) => ({ ...rest, blocks: content }));
        expect(arrange(again)).toEqual(messages);
      }),
      { numRuns: 500 },
    );
  });

  test('is not changed by it', () => {
    fc.assert(
      fc.property(log, (all) => {
        const copy = structuredClone(all);
        arrange(all);
        expect(all).toEqual(copy);
      }),
    );
  });
});
