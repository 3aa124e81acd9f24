import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CUT_MARK, cutMessage } from '../../../sessions/compile/cut-text.ts';
import type { Block } from '../../../sessions/entry-shape.ts';
import {
  replayOf,
  weighMessage,
  type SentMessage,
} from '../../../sessions/compile/message-tokens.ts';
import { ESTIMATORS, estimatorNamed } from '../../../sessions/compile/token-estimator.ts';
import { hostileText, isWellFormed, LONG_TEXTS } from '../hostile-text.ts';

/** Counts code units: what fits can be read off. */
const units = { name: 'units', count: (text: string) => text.length };
const FRAME = 4;

const text = (words: string): Block => ({ type: 'text', text: words });
const replay = (id: string, length = 2) => ({
  replay: { id, provider: 'p', value: 'x'.repeat(length - 2) },
});

function message(...content: readonly Block[]): SentMessage {
  return { role: 'agent', participant: 'a', content };
}

/** The blocks that are left in `most` units, the frame of the message apart. */
function cut(most: number, ...content: readonly Block[]): readonly Block[] {
  return cutMessage(units, message(...content), most + FRAME).message.content;
}

describe('a message', () => {
  test('that fits is given back as it is', () => {
    const fitting = message(text('hello'), { type: 'raw', provider: 'p', value: 1 });
    const given = cutMessage(units, fitting, FRAME + 6);
    expect(given).toEqual({ message: fitting, cut: false });
    expect(given.message).toBe(fitting);
  });

  test('that does not is cut to what fits, with a mark at the end', () => {
    expect(cut(10, text('hello world'))).toEqual([text(`hell${CUT_MARK}`)]);
    expect(cutMessage(units, message(text('hello world')), FRAME + 10).cut).toBe(true);
  });

  test('of any length keeps as much of its text as fits', () => {
    const long = 'x'.repeat(20_000);
    for (const kept of [1, 4095, 4096, 4097, 5000, 8192, 19_993])
      expect(cut(kept + CUT_MARK.length, text(long))).toEqual([text('x'.repeat(kept) + CUT_MARK)]);
  });

  test('fits also where a text and the mark have more tokens together than apart', () => {
    const joining = {
      name: 'joining',
      count: (some: string) => some.length + (some.endsWith(`x${CUT_MARK}`) ? 3 : 0),
    };
    const { message: shorter } = cutMessage(joining, message(text('x'.repeat(50))), FRAME + 30);
    expect(shorter.content).toEqual([text('x'.repeat(21) + CUT_MARK)]);
  });

  test('keeps its role and its participant', () => {
    const long = { role: 'user' as const, participant: 'ana', content: [text('x'.repeat(99))] };
    expect(cutMessage(units, long, 20).message).toMatchObject({ role: 'user', participant: 'ana' });
  });

  test('loses its last text first, and one of which nothing is left becomes the mark', () => {
    const [first, second, third] = [
      text('a'.repeat(20)),
      text('b'.repeat(20)),
      text('c'.repeat(20)),
    ];
    expect(cut(50, first, second, third)).toEqual([first, second, text(`cccc${CUT_MARK}`)]);
    expect(cut(46, first, second, third)).toEqual([first, second, text(CUT_MARK)]);
    expect(cut(40, first, second, third)).toEqual([
      first,
      text(`${'b'.repeat(8)}${CUT_MARK}`),
      text(CUT_MARK),
    ]);
    expect(cut(1, first, second, third)).toEqual([text(CUT_MARK), text(CUT_MARK), text(CUT_MARK)]);
  });

  test('keeps a text that is no longer than the mark', () => {
    expect(cut(20, text('a'.repeat(20)), text('ok'))).toEqual([
      text(`${'a'.repeat(12)}${CUT_MARK}`),
      text('ok'),
    ]);
  });

  test('of nothing that can be cut stays as it is', () => {
    const call: Block = { type: 'tool_call', id: 'i', name: 'n', arguments: 'x'.repeat(50) };
    const image: Block = { type: 'image', mediaType: 'image/png', data: 'AAAA' };
    const raw: Block = { type: 'raw', provider: 'p', value: 'x'.repeat(50) };
    for (const content of [[call, image], [raw], [text('short')]]) {
      const whole = message(...content);
      expect(cutMessage(units, whole, 1)).toEqual({ message: whole, cut: false });
    }
  });
});

test('texts of results are cut, the last first; calls, values, images and errors stay', () => {
  const image = { type: 'image' as const, mediaType: 'image/png', data: 'AAAA' };
  const words = (some: string) => ({ type: 'text' as const, text: some });
  const result: Block = {
    ...{ type: 'tool_result', call: 'i', value: { kept: 1 }, isError: true },
    content: [words('a'.repeat(20)), image, words('b'.repeat(20))],
  };
  const value = '{"kept":1}'.length + 1600 + 4;
  expect(cut(value + 30, result)).toEqual([
    { ...result, content: [words('a'.repeat(20)), image, words(`bbbb${CUT_MARK}`)] },
  ]);
  expect(cut(value + 14, result)).toEqual([
    { ...result, content: [words(`aa${CUT_MARK}`), image, words(CUT_MARK)] },
  ]);
});

describe('a form of a provider', () => {
  test('of the whole message goes first, whole, and alone if that is enough', () => {
    const raw: Block = { type: 'raw', provider: 'p', value: 'x'.repeat(50) };
    expect(cut(30, raw, text('a'.repeat(20)))).toEqual([text('a'.repeat(20))]);
    expect(cut(15, raw, text('a'.repeat(20)))).toEqual([text(`${'a'.repeat(9)}${CUT_MARK}`)]);
  });

  test('goes from a text that is cut, and from all blocks that share it', () => {
    const call: Block = { type: 'tool_call', id: 'i', name: 'n', arguments: {} };
    const other: Block = { type: 'tool_call', id: 'j', name: 'n', arguments: {} };
    expect(
      cut(
        30,
        { ...call, ...replay('r') },
        { ...other, ...replay('s') },
        { type: 'text', text: 'a'.repeat(50), ...replay('r') },
      ),
    ).toEqual([call, { ...other, ...replay('s') }, text(`${'a'.repeat(10)}${CUT_MARK}`)]);
  });

  test('goes alone where the text fits without it', () => {
    expect(cut(30, { type: 'text', text: 'a'.repeat(20), ...replay('r', 90) })).toEqual([
      text('a'.repeat(20)),
    ]);
    expect(cut(30, { type: 'text', text: 'ok', ...replay('r', 90) })).toEqual([text('ok')]);
  });

  test('stays on what is not cut', () => {
    const short: Block = { type: 'text', text: 'ok', ...replay('r') };
    expect(cut(15, text('a'.repeat(50)), short)).toEqual([
      text(`${'a'.repeat(7)}${CUT_MARK}`),
      short,
    ]);
  });
});

test('thinking goes before any text, whole, the last first, and the form it shares with it', () => {
  const thinking = (some: string): Block => ({ type: 'thinking', text: some, ...replay('r') });
  const words: Block = { type: 'text', text: 'a'.repeat(20), ...replay('r') };
  expect(cut(45, thinking('t'.repeat(20)), words, thinking('u'.repeat(20)))).toEqual([
    { type: 'thinking', text: 't'.repeat(20) },
    text('a'.repeat(20)),
  ]);
  expect(cut(15, thinking('t'.repeat(20)), words)).toEqual([text(`${'a'.repeat(9)}${CUT_MARK}`)]);
  expect(cut(10, thinking('t'.repeat(20)))).toEqual([text(CUT_MARK)]);
});

describe('a text is never cut inside', () => {
  test.each([
    ['a surrogate pair', '😀'],
    ['combining marks', 'e\u0301\u0323\u0301'],
    ['a joined emoji', '👨‍👩‍👧‍👦'],
    ['a flag', '🇩🇪'],
    ['a syllable', '\u1100\u1161\u11a8'],
    ['a line break', '\r\n'],
  ])('%s', (_what, cluster) => {
    const long = cluster.repeat(30);
    for (let most = CUT_MARK.length; most < long.length; most++) {
      const [block] = cut(most, text(long));
      const kept = Math.floor((most - CUT_MARK.length) / cluster.length);
      expect(block).toEqual(text(cluster.repeat(kept) + CUT_MARK));
    }
  });
});

const estimators = await Promise.all(
  ESTIMATORS.map(async (name) => [name, await estimatorNamed(name)] as const),
);

describe.each(estimators)('by %s', (_name, estimator) => {
  const clusters = new Intl.Segmenter('en', { granularity: 'grapheme' });

  // Listing the clusters of one of them takes half a minute.
  test.each(Object.entries(LONG_TEXTS))('100,000 of %s are cut to what fits', (_what, long) => {
    const most = 400;
    const given = cutMessage(estimator, message(text('before'), text(long)), most);
    const [before, block] = given.message.content;
    const words = block?.type === 'text' ? block.text : '';
    expect(before).toEqual(text('before'));
    expect(words.endsWith(CUT_MARK) && long.startsWith(words.slice(0, -CUT_MARK.length))).toBe(
      true,
    );
    expect(isWellFormed(words)).toBe(true);
    expect(weighMessage(estimator, given.message)).toBeLessThanOrEqual(most);
  });

  const form = fc.option(
    fc.record({
      id: fc.constantFrom('r', 's'),
      provider: fc.constant('p'),
      value: fc.string({ maxLength: 200 }),
    }),
    { nil: undefined },
  );
  const words = fc.record({ type: fc.constant('text' as const), text: hostileText });
  const image = fc.constant({ type: 'image' as const, mediaType: 'image/png', data: 'AAAA' });
  const someBlock = fc.oneof(
    { weight: 4, arbitrary: words },
    fc.record({ type: fc.constant('thinking' as const), text: hostileText }),
    fc.record({
      ...{ type: fc.constant('tool_call' as const), id: fc.constant('i'), name: fc.constant('n') },
      arguments: fc.jsonValue(),
    }),
    fc.record(
      {
        ...{ type: fc.constant('tool_result' as const), call: fc.constant('i') },
        content: fc.array(fc.oneof(words, image), { maxLength: 4 }),
        value: fc.jsonValue(),
      },
      { requiredKeys: ['type', 'call'] },
    ),
    image,
  );
  const block = fc.oneof(
    {
      weight: 9,
      arbitrary: fc
        .tuple(someBlock, form)
        .map(([some, replay]): Block => (replay === undefined ? some : { ...some, replay })),
    },
    fc.record({
      ...{ type: fc.constant('raw' as const), provider: fc.constant('p') },
      value: fc.jsonValue(),
    }),
  );
  const given = fc.record({
    content: fc.array(block, { minLength: 1, maxLength: 6 }),
    most: fc.oneof(fc.nat(60), fc.nat(3000)),
  });
  const textsOf = (some: Block) =>
    some.type === 'text'
      ? [some.text]
      : some.type === 'tool_result'
        ? (some.content ?? []).flatMap((part) => (part.type === 'text' ? [part.text] : []))
        : [];

  /** The message with nothing left in it that can go. */
  function least(content: readonly Block[]): SentMessage {
    const kept = content.filter(
      ({ type }) =>
        type !== 'thinking' && (type !== 'raw' || content.every((one) => one.type === 'raw')),
    );
    const spoilt = content.flatMap((one) =>
      one.type === 'thinking' || textsOf(one).length > 0 ? [replayOf(one)?.id] : [],
    );
    const shortest = <Part extends { type: string }>(part: Part): Part =>
      'text' in part && estimator.count(String(part.text)) > estimator.count(CUT_MARK)
        ? { ...part, text: CUT_MARK }
        : part;
    const blocks = kept.map((one): Block => {
      const { replay: _, ...bare } = one.type === 'raw' ? { ...one, replay: undefined } : one;
      const short =
        bare.type === 'tool_result' && bare.content !== undefined
          ? { ...bare, content: bare.content.map(shortest) }
          : shortest(bare);
      const own = replayOf(one);
      return own === undefined || spoilt.includes(own.id)
        ? short
        : ({ ...short, replay: own } as Block);
    });
    return message(...(blocks.length > 0 ? blocks : [text(CUT_MARK)]));
  }

  test('a message has no more than it may wherever what cannot be cut allows it', () => {
    fc.assert(
      fc.property(given, ({ content, most }) => {
        const { message: shorter, cut } = cutMessage(estimator, message(...content), most);
        const weight = weighMessage(estimator, shorter);
        expect(weight).toBeLessThanOrEqual(Math.max(most, weighMessage(estimator, least(content))));
        expect(cut).toBe(JSON.stringify(shorter.content) !== JSON.stringify(content));
        if (!cut)
          expect(weight <= most || weight <= weighMessage(estimator, least(content))).toBe(true);
      }),
      { numRuns: 400 },
    );
  });

  test('a text is cut between clusters or not at all, and stays well formed', () => {
    fc.assert(
      fc.property(given, ({ content, most }) => {
        const before = content.filter(({ type }) => type === 'text' || type === 'tool_result');
        const after = cutMessage(estimator, message(...content), most).message.content.filter(
          ({ type }) => type === 'text' || type === 'tool_result',
        );
        if (before.length === 0) return;
        const texts = after.flatMap(textsOf);
        expect(after.map(({ type }) => type)).toEqual(before.map(({ type }) => type));
        for (const [index, whole] of before.flatMap(textsOf).entries()) {
          const left = texts[index] ?? '';
          expect(isWellFormed(left)).toBe(true);
          if (left === whole) continue;
          expect(left.endsWith(CUT_MARK)).toBe(true);
          const end = left.length - CUT_MARK.length;
          const ends = [...clusters.segment(whole)].map((cluster) => cluster.index);
          expect(whole.startsWith(left.slice(0, end)) && ends.includes(end)).toBe(true);
        }
      }),
      { numRuns: 400 },
    );
  });

  test('nothing but texts, thinking and forms changes, no form is left beside a change, and no input', () => {
    fc.assert(
      fc.property(given, ({ content, most }) => {
        const whole = message(...content);
        const before = structuredClone(whole);
        const { message: shorter, cut } = cutMessage(estimator, whole, most);
        expect(whole).toEqual(before);
        expect(cutMessage(estimator, whole, most).message).toEqual(shorter);
        if (!cut) return;
        const rest = (some: readonly Block[]) =>
          some.flatMap((one): unknown[] => {
            if (one.type === 'raw' || one.type === 'thinking' || one.type === 'text') return [];
            const { replay: _, ...bare } = one;
            if (bare.type !== 'tool_result' || bare.content === undefined) return [bare];
            const content = bare.content.map((part) => (part.type === 'text' ? 'text' : part));
            return [{ ...bare, content }];
          });
        expect(rest(shorter.content)).toEqual(rest(content));
        const bodies = content.filter(({ type }) => type !== 'raw' && type !== 'thinking');
        if (bodies.length === 0) return;
        expect(shorter.content.some(({ type }) => type === 'raw')).toBe(false);
        const kept = new Set(shorter.content.map((one) => replayOf(one)?.id));
        const left = shorter.content.filter(({ type }) => type !== 'thinking');
        for (const [index, one] of bodies.entries())
          if (
            textsOf(one).join('|') !== textsOf(left[index] ?? text('')).join('|') &&
            replayOf(one)
          )
            expect(kept.has(replayOf(one)?.id)).toBe(false);
      }),
      { numRuns: 400 },
    );
  });
});
