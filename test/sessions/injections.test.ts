import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { contentHash } from '../../sessions/compile/content-hash.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, text } from '../support/log.ts';
import { injectionHouse, outline, said, unit, type InjectionHouse } from './injection-house.ts';

// What of the context that is injected at a start is stored, and when it is stored again.

const MOST = 1000;

let gateway: TestGateway;
let house: InjectionHouse;
let log: InjectionHouse['log'];
let stored: InjectionHouse['stored'];

beforeAll(async () => {
  gateway = await openTestGateway({ INJECTION_BYTES_PER_TURN: MOST.toString() });
});

afterAll(() => gateway.close());

beforeEach(async () => {
  house = await injectionHouse(gateway);
  ({ log, stored } = house);
  await log.append(said('the question'));
});

const send = async (...injections: Parameters<typeof log.inject>) =>
  outline(ok(await log.compile({ injections })));
const inject = async (...units: Parameters<typeof log.inject>) =>
  ok(await log.inject(...units)).outcomes;

describe('a unit', () => {
  test('is stored where the agent sees it: one entry after all else, its parts in their order', async () => {
    expect(await send(unit('memory', 'first', 'second'))).toEqual([
      'entry: the question',
      'injection of memory: first|second',
    ]);
    expect(await stored()).toEqual(['memory: first|second']);
    await log.append(entry(text('the answer')), said('the next question'));
    expect(await send()).toEqual([
      'entry: the question',
      'injection of memory: first|second',
      'entry: the answer',
      'entry: the next question',
    ]);
  });

  test.each<[what: string, more: object, seen: string[]]>([
    [
      'goes before the user message',
      { position: 'before_user' },
      ['placed of memory: words', 'entry: the question'],
    ],
    [
      'goes to the system messages',
      { position: 'system' },
      ['placed of memory: words', 'entry: the question'],
    ],
    [
      'was opted out by its source',
      { placement: 'each_compile' },
      ['entry: the question', 'placed of memory: words'],
    ],
    [
      'is of blank text only',
      { parts: [{ text: ' \n' }, { text: '\u00a0\t' }] },
      ['entry: the question', 'placed of memory:  \n|\u00a0\t'],
    ],
  ])('that %s is placed at each compile and never stored', async (_what, more, seen) => {
    const given = { ...unit('memory', 'words'), ...more };
    expect(await send(given)).toEqual(seen);
    expect(await send(given)).toEqual(seen);
    expect(await inject(given)).toEqual(['placed']);
    expect(await stored()).toEqual([]);
  });

  test('with one text among blank ones is stored as it is', async () => {
    expect(await inject(unit('memory', ' ', 'words', ''))).toEqual(['stored']);
    expect(await stored()).toEqual(['memory:  |words']);
  });

  test('of no text at all gives no message', async () => {
    expect(await send(unit('memory', ''))).toEqual(['entry: the question']);
    expect(await stored()).toEqual([]);
  });
});

describe('the same unit', () => {
  test('is stored once as long as each compile that was sent held it', async () => {
    for (let turn = 0; turn < 3; turn++) {
      await send(unit('memory', 'words'));
      await log.append(entry(text('an answer')), said('a question'));
    }
    expect(await inject(unit('memory', 'words'))).toEqual(['unchanged']);
    expect(await stored()).toEqual(['memory: words']);
  });

  test('counts as held where it was cut to fit', async () => {
    const long = unit('memory', 'one two three four five six seven eight nine ten '.repeat(5));
    const compiled = ok(await log.compile({ injections: [long], maxEntryTokens: 16 }));
    expect(compiled.provenance.at(-1)).toMatchObject({ kind: 'injection', cut: true });
    expect(await inject(long)).toEqual(['unchanged']);
  });

  test('is another one with its parts parted otherwise, or from another source', async () => {
    await send(unit('memory', 'one', 'two'));
    expect(await inject(unit('memory', 'onetwo'), unit('notes', 'one', 'two'))).toEqual([
      'stored',
      'stored',
    ]);
  });

  test('is known by its content, and not by a hash alone', async () => {
    await send(unit('memory', 'words'));
    const other = JSON.stringify([{ text: 'other', type: 'text' }]);
    await gateway.owner`
      update earshot.log_entries set content_hash = decode(${contentHash(other)}, 'hex')
      where session_id = ${log.session} and injection = 'memory'`;
    expect(await inject(unit('memory', 'other'))).toEqual(['stored']);
    expect(await inject(unit('memory', 'other'))).toEqual(['unchanged']);
  });

  test('is stored again where what was sent last held it under a summary', async () => {
    await send(unit('memory', 'words'));
    const held = ok(await log.compile()).provenance.find(({ kind }) => kind === 'injection');
    expect(await inject(unit('memory', 'words'))).toEqual(['unchanged']);
    await log.append(entry(text('the answer '.repeat(20))), said('the next question'));
    const [first, , third] = ok(await log.compile()).provenance.map((one) => one.entry ?? '');
    expect(held?.entry).toBeDefined();
    await log.summarize({ from: first ?? '', to: third ?? '' }, 'short');
    expect(await send()).toEqual([
      expect.stringContaining('summary: '),
      'entry: the next question',
    ]);
    expect(await send(unit('memory', 'words'))).toEqual([
      expect.stringContaining('summary: '),
      'entry: the next question',
      'injection of memory: words',
    ]);
    expect(await stored()).toEqual(['memory: words', 'memory: words']);
  });
});

describe('changed content', () => {
  test('is stored as the newest, and the earlier copy stays where it stood', async () => {
    await send(unit('memory', 'old'));
    await log.append(entry(text('the answer')), said('the next question'));
    expect(await send(unit('memory', 'new'))).toEqual([
      'entry: the question',
      'injection of memory: old',
      'entry: the answer',
      'entry: the next question',
      'injection of memory: new',
    ]);
  });

  test('that changes back is stored again: what counts is the newest copy', async () => {
    await send(unit('memory', 'old'));
    await send(unit('memory', 'new'));
    await send(unit('memory', 'old'));
    await send(unit('memory', 'old'));
    expect(await stored()).toEqual(['memory: old', 'memory: new', 'memory: old']);
  });
});

describe('what was stored since the last compile that was sent', () => {
  test('decides first: the same is not stored twice, though nothing that held it was sent', async () => {
    expect(await inject(unit('memory', 'words'))).toEqual(['stored']);
    expect(await inject(unit('memory', 'words'))).toEqual(['unchanged']);
    expect(await send(unit('memory', 'words'))).toEqual([
      'entry: the question',
      'injection of memory: words',
    ]);
    expect(await stored()).toEqual(['memory: words']);
  });

  test('decides first: content that changed back in between is stored, as the newest', async () => {
    await send(unit('memory', 'old'));
    expect(await inject(unit('memory', 'new'))).toEqual(['stored']);
    expect(await inject(unit('memory', 'old'))).toEqual(['stored']);
    expect(await send(unit('memory', 'old'))).toEqual([
      'entry: the question',
      ...['old', 'new', 'old'].map((words) => `injection of memory: ${words}`),
    ]);
  });
});

describe('the units of one start', () => {
  test('are stored in the order in which they are given, and each decides for itself', async () => {
    await send(unit('c', 'same'), unit('a', 'old'));
    expect(
      await inject(unit('z', '1'), unit('c', 'same'), unit('b', ' '), unit('a', 'new')),
    ).toEqual(['stored', 'unchanged', 'placed', 'stored']);
    expect(await stored()).toEqual(['c: same', 'a: old', 'z: 1', 'a: new']);
  });

  test('are placed in that order by a preview, which stores nothing', async () => {
    const injections = [unit('z', '1'), unit('a', '2')];
    const seen = outline(ok(await log.preview({ injections })));
    expect(seen).toEqual(['entry: the question', 'placed of z: 1', 'placed of a: 2']);
    expect(await stored()).toEqual([]);
    expect(await inject(...injections)).toEqual(['stored', 'stored']);
  });

  test('name each source once', async () => {
    const twice = [unit('memory', 'one'), unit('memory', 'two')];
    expect((await log.inject(...twice)).code).toBe('invalid_input');
    expect((await log.compile({ injections: twice })).code).toBe('invalid_input');
    expect(await stored()).toEqual([]);
  });
});

describe('what a source may store in one turn', () => {
  const third = (name: string) => unit('memory', name.repeat(MOST / 3));

  test('has a bound, beyond which it is placed; another source has its own', async () => {
    expect(await inject(third('a'), unit('notes', 'small'))).toEqual(['stored', 'stored']);
    expect(await inject(third('b'))).toEqual(['stored']);
    expect(await inject(third('c'), unit('notes', 'more'))).toEqual(['bound', 'stored']);
    const seen = await send(third('c'), unit('notes', 'more'));
    expect(seen.map((line) => line.slice(0, 21))).toEqual([
      ...['entry: the question', 'injection of memory: ', 'injection of notes: s'],
      ...['injection of memory: ', 'injection of notes: m', 'placed of memory: ccc'],
    ]);
    expect(await inject(third('b'))).toEqual(['unchanged']);
  });

  test('is counted anew in the next turn', async () => {
    await inject(third('a'), unit('notes', 'small'));
    await inject(third('b'));
    expect(await inject(third('c'))).toEqual(['bound']);
    const next = log.by(await house.start());
    expect(ok(await next.inject(third('c'))).outcomes).toEqual(['stored']);
  });

  test('is refused to one unit that is larger by itself, at every start', async () => {
    const large = unit('memory', 'x'.repeat(MOST));
    expect(await inject(large)).toEqual(['bound']);
    expect((await send(large)).at(-1)).toContain('placed of memory: xxx');
    expect(await stored()).toEqual([]);
  });
});

describe('a log that is held by another agent whose turn is alive', () => {
  test('stores nothing: the compile places it, and the first start afterwards stores it', async () => {
    const other = await house.start();
    const { handle } = await log.open({ name: 'desk', agent: 'helper' });
    ok(await log.by(other).through(handle).compile());
    expect(await inject(unit('memory', 'words'))).toEqual(['held']);
    expect(await send(unit('memory', 'words'))).toEqual([
      'entry: the question',
      'placed of memory: words',
    ]);
    expect(await stored()).toEqual([]);
    ok(await other.end('complete'));
    expect(await inject(unit('memory', 'words'))).toEqual(['stored']);
  });

  test('finds what is stored already unchanged', async () => {
    await send(unit('memory', 'words'));
    const other = await house.start();
    const { handle } = await log.open({ name: 'desk', agent: 'helper' });
    ok(await log.by(other).through(handle).compile());
    expect(await inject(unit('memory', 'words'))).toEqual(['unchanged']);
    expect(await inject(unit('memory', 'new'))).toEqual(['held']);
  });

  test('is not held by another turn of the same agent, nor by this turn as another agent', async () => {
    ok(await log.by(await house.start()).compile());
    const { handle } = await log.open({ name: 'desk', agent: 'helper' });
    ok(await log.through(handle).compile());
    expect(await inject(unit('memory', 'words'))).toEqual(['stored']);
  });
});

test('nothing is stored while the organization is paused', async () => {
  await house.acme.put('guard', { guard: 'paused' });
  expect((await log.inject(unit('memory', 'words'))).code).toBe('organization_paused');
  expect(await stored()).toEqual([]);
});
