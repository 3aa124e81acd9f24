import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, text } from '../support/log.ts';
import { openHouse, placeOf, said, type LogHouse } from './log-house.ts';
import { leftIn, listed, long, shownIn, writtenLog } from './summary-house.ts';

// What a host's model writes of a log in fewer words: whose it is, and how long it stands.

let gateway: TestGateway;
let house: LogHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
  house = await openHouse(gateway);
});

afterAll(() => gateway.close());

describe('a summary of entries', () => {
  test('is sent in their place, and listed with its level, its ends and how many it is of', async () => {
    const { log, ids } = await writtenLog(house);
    const summary = await log.summarize({ from: ids.one, to: ids.three }, 'three things');
    expect(await shownIn(log)).toEqual(['S: three things', 'four']);
    expect(await listed(log)).toEqual([
      { id: summary, level: 1, from: ids.one, to: ids.three, entries: 3, text: 'three things' },
    ]);
    const { provenance } = ok(await log.compile());
    expect(provenance[0]).toMatchObject({
      ...{ kind: 'summary', summary, level: 1, from: ids.one, to: ids.three, entries: 3 },
    });
  });

  test('is made from an input that has them as they are shown, with the state they are in', async () => {
    const { log, words, ids } = await writtenLog(house);
    const { entries, state, ...rest } = ok(await log.summaryInput(ids.two, ids.three));
    expect(entries.map(({ blocks }) => blocks[0]?.text)).toEqual(words.slice(1, 3));
    expect(state).toMatch(/^[0-9a-f]{64}$/u);
    expect(Object.keys(rest)).toEqual(['decision']);
    expect(ok(await log.summaryInput(ids.three, ids.two)).state).toBe(state);
  });

  test('is not taken for entries that were edited since its writer saw them', async () => {
    const { log, writer, ids } = await writtenLog(house);
    const { state } = ok(await log.summaryInput(ids.one, ids.two));
    const summary = { from: ids.one, to: ids.two, state, text: 'of what was' };
    ok(await log.by(writer).edit(ids.two, '1', [text(long('deux'))]));
    const before = await leftIn(house, log);
    expect((await log.trySummarize(summary)).code).toBe('conflict');
    const other = { ...summary, state: '0'.repeat(64) };
    expect((await log.trySummarize(other)).code).toBe('conflict');
    expect((await log.trySummarize({ ...summary, to: ids.three })).code).toBe('conflict');
    expect(await leftIn(house, log)).toEqual(before);
    expect(await shownIn(log)).toEqual(['one', 'deux', 'three', 'four']);
  });

  test('is taken where only what it is not of has changed', async () => {
    const { log, ids } = await writtenLog(house);
    const { state } = ok(await log.summaryInput(ids.one, ids.two));
    ok(await log.edit(ids.three, '1', [text(long('trois'))]));
    await log.append(said(text(long('five'))));
    ok(await log.trySummarize({ from: ids.one, to: ids.two, state, text: 'of two' }));
    expect(await shownIn(log)).toEqual(['S: of two', 'trois', 'four', 'five']);
  });

  test('goes once an entry under it is edited, through whichever place, and its entries take its place', async () => {
    for (const desk of [false, true]) {
      const { log, ids } = await writtenLog(house);
      await log.summarize({ from: ids.one, to: ids.two }, 'of two');
      await log.summarize({ from: ids.three, to: ids.four }, 'of the rest');
      const editor = desk ? log.through((await log.open({ name: 'desk' })).handle) : log;
      ok(await editor.edit(ids.two, '1', [text(long('deux'))]));
      expect(await shownIn(log)).toEqual(['one', 'deux', 'S: of the rest']);
      expect((await listed(log)).map((one) => one.text)).toEqual(['of the rest']);
      await log.summarize({ from: ids.one, to: ids.two }, 'of two again');
      expect(await shownIn(log)).toEqual(['S: of two again', 'S: of the rest']);
    }
  });

  test('names entries that its view shows: another one is not there', async () => {
    const { log, ids } = await writtenLog(house);
    const [hidden = ''] = await log.append(said(text('of ana', 'ana')));
    const elsewhere = (await writtenLog(house)).ids.one;
    const ben = await placeOf(log, 'ben');
    for (const to of [hidden, elsewhere, randomUUID()]) {
      expect((await ben.summaryInput(ids.one, to)).code).toBe('not_found');
      const state = '0'.repeat(64);
      expect((await ben.trySummarize({ from: ids.one, to, state, text: 'x' })).code).toBe(
        'not_found',
      );
    }
  });
});

test('what was given to be summarized is hidden from nobody who was given it', async () => {
  const { log, writer } = await house.enter();
  const entries = await log.append(said(text('one')), said(text('two')), said(text('three')));
  const [one = '', two = '', three = ''] = entries;
  ok(await log.by(writer).edit(one, '1', [text('for ana', 'ana')]));
  ok(await log.summaryInput(two, two));
  expect((await log.by(writer).edit(two, '1', [text('for ana', 'ana')])).code).toBe(
    'narrowing_refused',
  );
  // Whatever part of the log was asked for, all of it was announced.
  expect((await log.by(writer).edit(three, '1', [text('for ana', 'ana')])).code).toBe(
    'narrowing_refused',
  );
});

describe('a summary of summaries', () => {
  test('is one level above the highest of them, of all their entries, and is sent in their place', async () => {
    const { log, ids } = await writtenLog(house);
    const first = await log.summarize({ from: ids.one, to: ids.two }, 'first');
    const second = await log.summarize({ from: ids.two, to: ids.three }, 'second');
    const both = await log.summarize({ of: [second, first, second] }, 'both');
    const last = await log.summarize({ from: ids.four, to: ids.four }, 'last');
    expect(await shownIn(log)).toEqual(['S: both', 'S: last']);
    await log.summarize({ of: [last, both] }, 'all');
    expect(await shownIn(log)).toEqual(['S: all']);
    expect((await listed(log)).map((one) => [one.text, one.level, one.entries])).toEqual([
      ['first', 1, 2],
      ['second', 1, 2],
      ['both', 2, 3],
      ['last', 1, 1],
      ['all', 3, 4],
    ]);
  });

  test('is made from an input that has them, in the order in which they were written', async () => {
    const { log, ids } = await writtenLog(house);
    const first = await log.summarize({ from: ids.three, to: ids.four }, 'first');
    const second = await log.summarize({ from: ids.one, to: ids.two }, 'second');
    const input = ok(await log.call<object>('POST', '/summary-input', { of: [second, first] }));
    expect(input).toMatchObject({
      entries: [],
      summaries: [
        { id: first, text: 'first' },
        { id: second, text: 'second' },
      ],
    });
    expect(input).not.toHaveProperty('state');
  });

  test('names those of its own place that stand: one that is stale, another place’s or unknown is not there', async () => {
    const { log, ids } = await writtenLog(house);
    const ana = await placeOf(log, 'ana');
    const own = await log.summarize({ from: ids.one, to: ids.one }, 'own');
    const stale = await log.summarize({ from: ids.two, to: ids.two }, 'stale');
    const ofAna = await ana.summarize({ from: ids.three, to: ids.three }, 'of ana');
    ok(await log.edit(ids.two, '1', [text(long('deux'))]));
    const before = await leftIn(house, log);
    for (const other of [stale, ofAna, randomUUID(), ids.one]) {
      const range = { of: [own, other] };
      expect((await log.call('POST', '/summary-input', range)).code).toBe('not_found');
      expect((await log.trySummarize({ ...range, text: 'x' })).code).toBe('not_found');
    }
    expect(await leftIn(house, log)).toEqual(before);
    ok(await log.trySummarize({ of: [own], text: 'x' }));
  });

  test('goes once an entry far under it is edited, with all on the way there', async () => {
    const { log, ids } = await writtenLog(house);
    const first = await log.summarize({ from: ids.one, to: ids.two }, 'first');
    const second = await log.summarize({ from: ids.three, to: ids.four }, 'second');
    const both = await log.summarize({ of: [first, second] }, 'both');
    await log.summarize({ of: [both] }, 'above');
    ok(await log.edit(ids.two, '1', [text(long('deux'))]));
    expect(await shownIn(log)).toEqual(['one', 'deux', 'S: second']);
  });

  test('is of the ninth level at most', async () => {
    const { log, ids } = await writtenLog(house);
    let top = await log.summarize({ from: ids.one, to: ids.two }, 'level 1');
    for (let level = 2; level <= 9; level++)
      top = await log.summarize({ of: [top] }, `level ${level.toString()}`);
    expect(await shownIn(log)).toEqual(['S: level 9', 'three', 'four']);
    expect((await log.trySummarize({ of: [top], text: 'above' })).code).toBe('invalid_input');
    expect((await listed(log)).map(({ level }) => level)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});

describe('a view', () => {
  test('is sent no summary of another one, be it of the same readers', async () => {
    const { log, ids } = await writtenLog(house);
    const desk = log.through((await log.open({ name: 'desk' })).handle);
    const [ana, ben] = [await placeOf(log, 'ana'), await placeOf(log, 'ben')];
    for (const [at, name] of [
      [log, 'default'],
      [desk, 'desk'],
      [ana, 'ana'],
    ] as const)
      await at.summarize({ from: ids.one, to: ids.four }, `in ${name}`);
    expect(await shownIn(log)).toEqual(['S: in default']);
    expect(await shownIn(desk)).toEqual(['S: in desk']);
    expect(await shownIn(ana)).toEqual(['S: in ana']);
    expect(await shownIn(ben)).toEqual(['one', 'two', 'three', 'four']);
    expect(await listed(ben)).toEqual([]);
  });

  test('never shows anything of a summary that a reader’s own was written of an entry for some', async () => {
    const { log, writer, another } = await house.enter();
    const [, secret = '', last = ''] = await log.append(
      said(text(long('first'))),
      said(text(long('a secret'), 'ana'), text('and open')),
      said(text(long('last'))),
    );
    const ana = (await placeOf(log, 'ana')).by(writer);
    await ana.summarize({ from: secret, to: last }, 'CANARY');
    expect(await shownIn(ana)).toEqual(['first', 'S: CANARY']);
    const ben = await placeOf(log, 'ben');
    const places = [log, ben, log.through((await log.open({ name: 'desk' })).handle)];
    const forks = [await log.fork('side'), await ben.fork('of ben')];
    for (const at of [...places, ...forks]) {
      const by = at.by(await another());
      const answers = [
        ...[await by.compile(), await by.preview(), await by.entries(), await by.search('a')],
        ...[await by.summaryInput(secret, last), await by.pins(), await by.describe()],
        await by.summaries(),
      ];
      for (const { code, body } of answers)
        expect([code, JSON.stringify(body)]).toEqual([
          undefined,
          expect.not.stringContaining('CANARY'),
        ]);
    }
  });
});

describe('a fork', () => {
  test('takes over the summaries of the place that it is made through, and no other’s', async () => {
    const { log, ids } = await writtenLog(house);
    const ana = await placeOf(log, 'ana');
    const first = await log.summarize({ from: ids.one, to: ids.two }, 'own');
    await log.summarize({ of: [first] }, 'above');
    await ana.summarize({ from: ids.one, to: ids.four }, 'of ana');
    const [fork, ofAna] = [await log.fork('side'), await ana.fork('of ana')];
    expect(await shownIn(fork)).toEqual(['S: above', 'three', 'four']);
    expect(await shownIn(ofAna)).toEqual(['S: of ana']);
    expect((await listed(fork)).map(({ text, level }) => [text, level])).toEqual([
      ['own', 1],
      ['above', 2],
    ]);
  });

  test('takes over none that is stale, and what is edited in it leaves those of its parent', async () => {
    const { log, ids } = await writtenLog(house);
    await log.summarize({ from: ids.one, to: ids.one }, 'stale');
    await log.summarize({ from: ids.three, to: ids.four }, 'own');
    ok(await log.edit(ids.one, '1', [text(long('un'))]));
    const fork = await log.fork('side');
    expect(await shownIn(fork)).toEqual(['un', 'two', 'S: own']);
    ok(await fork.edit(ids.four, '1', [text(long('quatre'))]));
    expect(await shownIn(fork)).toEqual(['un', 'two', 'three', 'quatre']);
    expect(await shownIn(log)).toEqual(['un', 'two', 'S: own']);
  });
});

describe('a summary that is sent again', () => {
  test('under its key is written once, and another request with it is a conflict', async () => {
    const { log, ids } = await writtenLog(house);
    const { state } = ok(await log.summaryInput(ids.one, ids.two));
    const request = { from: ids.one, to: ids.two, state, text: 'once' };
    const answers = await Promise.all([1, 2, 3].map(() => log.trySummarize(request, 'key')));
    const [summary, ...others] = new Set(answers.map((answer) => ok(answer).summary));
    expect(others).toEqual([]);
    expect(ok(await log.trySummarize(request, 'key')).summary).toBe(summary);
    expect((await log.trySummarize({ ...request, text: 'other' }, 'key')).code).toBe('conflict');
    const desk = log.through((await log.open({ name: 'desk' })).handle);
    expect((await desk.trySummarize(request, 'key')).code).toBe('conflict');
    expect((await log.tryAppend([entry(text('x'))], 'key')).code).toBe('conflict');
    expect((await listed(log)).map(({ id }) => id)).toEqual([summary]);
  });

  test('after an entry under it was edited is the same one, and stale', async () => {
    const { log, ids } = await writtenLog(house);
    const { state } = ok(await log.summaryInput(ids.one, ids.two));
    const request = { from: ids.one, to: ids.two, state, text: 'once' };
    const { summary } = ok(await log.trySummarize(request, 'key'));
    ok(await log.edit(ids.one, '1', [text(long('un'))]));
    expect(ok(await log.trySummarize(request, 'key')).summary).toBe(summary);
    expect(await listed(log)).toEqual([]);
  });

  test('is checked live', async () => {
    const { log, turn, ids } = await writtenLog(house);
    const { state } = ok(await log.summaryInput(ids.one, ids.two));
    const request = { from: ids.one, to: ids.two, state, text: 'once' };
    ok(await log.trySummarize(request, 'key'));
    await turn.end('stop');
    expect((await log.trySummarize(request, 'key')).code).toBe('turn_not_running');
  });
});

describe('a summary that is not well formed', () => {
  const state = '0'.repeat(64);
  const id = randomUUID();
  const range = { from: id, to: id, state };

  test.each<[string, object]>([
    ['of nothing', { text: 'x' }],
    ['of an empty list', { of: [], text: 'x' }],
    ['of more than a thousand', { of: Array.from({ length: 1001 }, () => id), text: 'x' }],
    ['of entries and of summaries', { ...range, of: [id], text: 'x' }],
    ['of what has no such ids', { ...range, from: 'first', text: 'x' }],
    ['without a state', { from: id, to: id, text: 'x' }],
    ['with a state that is none', { ...range, state: 'STATE', text: 'x' }],
    ['without a text', range],
    ['with an empty text', { ...range, text: '' }],
    ['with a text that is too long', { ...range, text: 'x'.repeat(100_001) }],
    ['with a NUL', { ...range, text: 'a\0b' }],
    ['with a lone surrogate', { ...range, text: 'a\ud800b' }],
    ['with a level of its own', { ...range, level: 3, text: 'x' }],
    ['with an audience', { ...range, audience: ['ana'], text: 'x' }],
    [
      'with a source that is none',
      { ...range, text: 'x', sources: [{ conversation: 'a', seq: '0' }] },
    ],
    [
      'with a source of a block',
      { ...range, text: 'x', sources: [{ conversation: 'a', seq: '1', block: 0 }] },
    ],
    [
      'with too many sources',
      {
        ...range,
        text: 'x',
        sources: Array.from({ length: 201 }, () => ({ conversation: 'a', seq: '1' })),
      },
    ],
  ])('%s is refused', async (_what, summary) => {
    const { log } = await house.enter();
    const answer = await log.trySummarize(summary);
    expect([answer.status, answer.code]).toEqual([400, 'invalid_input']);
    expect(JSON.stringify(answer.body)).not.toContain('\\u0000');
  });

  test('for having no key is refused', async () => {
    const { log, ids } = await writtenLog(house);
    const { state } = ok(await log.summaryInput(ids.one, ids.two));
    const answer = await log.call('POST', '/summaries', {
      from: ids.one,
      to: ids.two,
      state,
      text: 'x',
    });
    expect(answer.code).toBe('invalid_input');
  });
});

test.each(['x', 'x'.repeat(100_000), '\\u0000 👩‍👩‍👧 \u202eשלום e\u0301 \u0001', '\n'])(
  'a summary that is short, long or strange is kept as it is (%#)',
  async (body) => {
    const { log } = await house.enter();
    const [from = ''] = await log.append(said(text('several words '.repeat(7_000))));
    const [to = ''] = await log.append(said(text('several words '.repeat(7_000))));
    await log.summarize({ from, to }, body);
    expect((await listed(log)).map((one) => one.text)).toEqual([body]);
    expect(await log.texts()).toEqual([`[a summary of 2 earlier entries]\n${body}`]);
  },
);
