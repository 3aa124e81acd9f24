import { describe, expect, test } from 'vitest';
import {
  gatherInjections,
  InjectionUnits,
  type InjectionSource,
  type SkippedSource,
} from '../../sessions/injections.ts';

// What the sources of injected context give at one start.

const source = (name: string, gather: () => unknown, more: object = {}): InjectionSource => ({
  name,
  gather: () => Promise.resolve().then(gather) as ReturnType<InjectionSource['gather']>,
  ...more,
});
const part = (text: string) => [{ text }];

/** What is gathered, in short, and what was skipped. */
async function gathered(sources: readonly InjectionSource[], timeoutMs = 60_000) {
  const skipped: SkippedSource[] = [];
  const units = await gatherInjections(sources, {
    timeoutMs,
    skipped: (one) => void skipped.push(one),
  });
  return {
    units,
    texts: units.map((one) => [one.source, ...one.parts.map(({ text }) => text)]),
    skipped: skipped.map(({ source, reason }) => [source, reason]),
    errors: skipped.map(({ error }) => error),
  };
}

/** Sources that answer only once all are asked, in the order that is given. */
function answeringInOrder(names: readonly string[], finish: readonly string[]): InjectionSource[] {
  const asked = new Map<string, (parts: readonly { text: string }[]) => void>();
  return names.map((name) => ({
    name,
    gather: () =>
      new Promise((resolve) => {
        asked.set(name, resolve);
        if (asked.size < names.length) return;
        void finish.reduce(
          (before, next) => before.then(() => asked.get(next)?.(part(next))),
          Promise.resolve(),
        );
      }),
  }));
}

describe('the units of a start', () => {
  test.each([[['a', 'b', 'c']], [['c', 'b', 'a']], [['b', 'c', 'a']]])(
    'stand in the order of their sources where they finish as %j, and all are asked at once',
    async (finish) => {
      const { texts, skipped } = await gathered(answeringInOrder(['a', 'b', 'c'], finish));
      expect(texts).toEqual([
        ['a', 'a'],
        ['b', 'b'],
        ['c', 'c'],
      ]);
      expect(skipped).toEqual([]);
    },
  );

  test('have the place that their source was registered with, and are ready for a start', async () => {
    const { units } = await gathered([
      source('plain', () => [
        { text: 'one', sources: [{ conversation: 'notes', seq: '1' }] },
        { text: 'two' },
      ]),
      source('early', () => part('x'), { position: 'before_user' }),
      source('moving', () => part('x'), { placement: 'each_compile' }),
    ]);
    expect(units).toEqual([
      {
        ...{ source: 'plain', position: 'after_user', placement: 'stored' },
        parts: [{ text: 'one', sources: [{ conversation: 'notes', seq: '1' }] }, { text: 'two' }],
      },
      {
        ...{ source: 'early', position: 'before_user', placement: 'stored' },
        parts: part('x'),
      },
      {
        ...{ source: 'moving', position: 'after_user', placement: 'each_compile' },
        parts: part('x'),
      },
    ]);
    expect(InjectionUnits.parse(units)).toEqual(units);
  });

  test('are none of a source that has nothing, which is no fault', async () => {
    const { texts, skipped } = await gathered([
      source('a', () => []),
      source('b', () => part('b')),
    ]);
    expect(texts).toEqual([['b', 'b']]);
    expect(skipped).toEqual([]);
  });

  test('are as they were given, whatever their source does with its parts later', async () => {
    const kept = part('as given');
    const { units } = await gathered([source('a', () => kept)]);
    kept.push({ text: 'later' });
    kept[0] = { text: 'changed' };
    expect(units[0]?.parts).toEqual(part('as given'));
  });

  test('may come from sources that keep something', async () => {
    class Counter implements InjectionSource {
      readonly name = 'counter';
      readonly #words = 'kept';
      gather() {
        return Promise.resolve(part(this.#words));
      }
    }
    expect(await gathered([new Counter()])).toMatchObject({
      texts: [['counter', 'kept']],
      skipped: [],
    });
  });
});

describe('a source is skipped and told of, and the others are not', () => {
  const among = async (bad: InjectionSource, timeoutMs?: number) => {
    const { texts, skipped, errors } = await gathered(
      [source('a', () => part('a')), bad, source('z', () => part('z'))],
      timeoutMs,
    );
    expect(texts).toEqual([
      ['a', 'a'],
      ['z', 'z'],
    ]);
    return { skipped, errors };
  };

  test('where it rejects, and where it throws at once', async () => {
    const error = new Error('planned');
    const rejecting = source('bad', () => Promise.reject(error));
    const throwing = {
      name: 'bad',
      gather: () => {
        throw error;
      },
    };
    for (const bad of [rejecting, throwing])
      expect(await among(bad)).toEqual({ skipped: [['bad', 'failed']], errors: [error] });
  });

  test('where it never answers', async () => {
    const silent = { name: 'bad', gather: () => new Promise<never>(() => undefined) };
    const { skipped } = await gathered([silent], 1);
    expect(skipped).toEqual([['bad', 'timed_out']]);
  });

  test('where it answers, or throws, only when its time is over and its signal is aborted', async () => {
    const late = (
      end: (resolve: (parts: { text: string }[]) => void, reject: () => void) => void,
    ) =>
      ({
        name: 'bad',
        gather: (signal) =>
          new Promise((resolve, reject) => {
            signal.addEventListener('abort', () => {
              end(resolve, () => {
                reject(new Error('aborted'));
              });
            });
          }),
      }) satisfies InjectionSource;
    for (const bad of [
      late((resolve) => {
        resolve(part('late'));
      }),
      late((_resolve, reject) => {
        reject();
      }),
    ]) {
      const { texts, skipped } = await gathered([bad], 1);
      expect({ texts, skipped }).toEqual({ texts: [], skipped: [['bad', 'timed_out']] });
    }
  });

  const shapes: [what: string, answer: unknown][] = [
    ['nothing', undefined],
    ['null', null],
    ['a text', 'words'],
    ['one part that is in no list', { text: 'words' }],
    ['texts', ['words']],
    ['one part of many without a text', [{ text: 'words' }, {}]],
    ['a text that is none', [{ text: 1 }]],
    ['a text with a NUL', [{ text: 'a\0b' }]],
    ['a text with a lone surrogate', [{ text: '\ud800' }]],
    ['a text that is too long', [{ text: 'x'.repeat(100_001) }]],
    ['too many parts', Array.from({ length: 101 }, () => ({ text: 'x' }))],
    ['a part for some readers', [{ text: 'words', audience: ['ana'] }]],
    ['a part that opts out by a field of its own', [{ text: 'words', placement: 'each_compile' }]],
    ['a part that names its place', [{ text: 'words', position: 'system' }]],
    ['a part with a mark', [{ text: 'words', injection: 'memory' }]],
    ['a part with an envelope', [{ text: 'words', envelope: {} }]],
    [
      'a source with a wrong sequence',
      [{ text: 'x', sources: [{ conversation: 'n', seq: '01' }] }],
    ],
    ['a whole unit, to choose its place', { source: 'a', parts: [], placement: 'each_compile' }],
    [
      'a part that throws when it is read',
      [
        {
          get text() {
            throw new Error('planned');
          },
        },
      ],
    ],
  ];

  test.each(shapes)('where it answers with %s', async (_what, answer) => {
    const { skipped } = await among(source('bad', () => answer));
    expect(skipped).toEqual([['bad', 'wrong_shape']]);
  });

  test('where its own name is none that a unit may have', async () => {
    for (const name of ['', 'a\0b', 'x'.repeat(200)])
      expect((await among(source(name, () => part('x')))).skipped).toEqual([[name, 'wrong_shape']]);
  });

  test('and nothing of what it gave before the fault counts', async () => {
    const { texts } = await gathered([source('bad', () => [{ text: 'sound' }, { text: 1 }])]);
    expect(texts).toEqual([]);
  });
});
