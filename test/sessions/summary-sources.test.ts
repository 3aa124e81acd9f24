import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { messagesAmong, type TestLog, text } from '../support/log.ts';
import { openHouse, placeOf, said, type LogHouse } from './log-house.ts';
import {
  declare,
  isInLedger,
  leftIn,
  listed,
  long,
  note,
  shownIn,
  writtenLog,
} from './summary-house.ts';

// What a summary came from, and whom it binds: asked again before it is sent, and told once it is.

let gateway: TestGateway;
let house: LogHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
  house = await openHouse(gateway);
});

afterAll(() => gateway.close());

describe('a source that a summary names', () => {
  const changes = [
    ['is deleted', 'remove', 'source_revoked'],
    ['is closed to a reader', 'close', 'source_revoked'],
    ['is edited', 'edit', 'source_changed'],
  ] as const;

  test.each(changes)(
    'and that %s before it was sent takes it away, and its entries go raw',
    async (_what, change) => {
      const { log, ids } = await writtenLog(house);
      const from = await note(house);
      const { summary } = ok(await declare(log, [ids.one, ids.two], [from.source]));
      const above = ok(await log.trySummarize({ of: [summary], text: 'above' }));
      const other = await log.summarize({ from: ids.three, to: ids.three }, 'other');
      await from[change]();
      expect((await listed(log)).map(({ id }) => id)).toEqual([other]);
      expect(await shownIn(log)).toEqual(['one', 'two', 'S: other', 'four']);
      for (const of of [[summary], [above.summary]])
        expect((await log.trySummarize({ of, text: 'x' })).code).toBe('not_found');
      expect(await shownIn(await log.fork('side'))).toEqual(['one', 'two', 'S: other', 'four']);
    },
  );

  test.each(changes)(
    'and that %s after it was sent ends the session',
    async (_what, change, code) => {
      for (const read of [
        (log: TestLog) => log.compile(),
        (log: TestLog) => log.preview(),
        (log: TestLog) => log.summaries(),
        async (log: TestLog) => {
          const of = (
            await gateway.owner`select id from earshot.log_summaries where session_id = ${log.session}`
          ).map(({ id }) => String(id));
          return log.call('POST', '/summary-input', { of });
        },
      ]) {
        const { log, ids } = await writtenLog(house);
        const from = await note(house);
        ok(await declare(log, [ids.one, ids.two], [from.source]));
        expect(await isInLedger(house, log, from.source)).toBe(false);
        ok(await read(log));
        expect(await isInLedger(house, log, from.source)).toBe(true);
        await from[change]();
        expect((await log.compile()).code).toBe(code);
        expect((await log.entries()).code).toBe('session_quarantined');
      }
    },
  );

  test('has to be in the turn’s scope: another one is not there, and nothing is left behind', async () => {
    const { log, ids } = await writtenLog(house);
    const diary = `diary ${randomUUID()}`;
    await house.acme.conversation(diary, ['ana']);
    const seq = await house.acme.say(diary, 'ana', 'CANARY');
    const { source } = await note(house);
    const before = await leftIn(house, log);
    for (const other of [
      { conversation: diary, seq },
      { conversation: 'nowhere', seq: '1' },
      { ...source, seq: '99' },
    ]) {
      const answer = await declare(log, [ids.one, ids.two], [source, other], 'key');
      expect(answer.code).toBe('not_found');
    }
    expect(await leftIn(house, log)).toEqual(before);
    expect(await listed(log)).toEqual([]);
    ok(await declare(log, [ids.one, ids.two], [source], 'key'));
  });

  test('is told with it, and with what is made of it, beside those of what is under it', async () => {
    const { log } = await house.enter();
    const [mine, under, other] = [await note(house), await note(house), await note(house)];
    const [one = '', two = ''] = await log.append(
      { ...said(text(long('one'))), sources: [under.source] },
      { ...said(text(long('two'))), sources: [other.source] },
    );
    const { summary } = ok(await declare(log, [one, one], [mine.source]));
    const second = await log.summarize({ from: two, to: two }, 'second');
    const named = (sources: Parameters<typeof messagesAmong>[0]) =>
      new Set(messagesAmong(sources).map(({ conversation }) => conversation));
    const expected = [mine, under].map(({ source }) => source.conversation);
    const [first] = ok(await log.compile()).provenance;
    expect(named(first?.sources)).toEqual(new Set(expected));
    ok(await log.trySummarize({ of: [summary, second], text: 'both' }));
    const [both] = ok(await log.compile()).provenance;
    expect(named(both?.sources)).toEqual(new Set([...expected, other.source.conversation]));
  });

  test('is not that of a block which the view hides', async () => {
    const { log } = await house.enter();
    const [open, hidden, whole] = [await note(house), await note(house), await note(house)];
    const [id = ''] = await log.append({
      ...said(text(long('open')), text('of ana', 'ana')),
      sources: [{ ...open.source, block: 0 }, { ...hidden.source, block: 1 }, whole.source],
    });
    const [ana, ben] = [await placeOf(log, 'ana'), await placeOf(log, 'ben')];
    for (const [at, expected] of [
      [ben, [open, whole]],
      [ana, [open, hidden, whole]],
    ] as const) {
      await at.summarize({ from: id, to: id }, 'short');
      const [summary] = await listed(at);
      expect(
        messagesAmong(summary?.sources)
          .map(({ conversation }) => conversation)
          .sort(),
      ).toEqual(expected.map(({ source }) => source.conversation).sort());
    }
  });

  test('binds a fork that takes the summary over, as it binds its parent', async () => {
    const { log, ids } = await writtenLog(house);
    const [told, untold] = [await note(house), await note(house)];
    ok(await declare(log, [ids.one, ids.two], [told.source]));
    ok(await log.compile());
    ok(await declare(log, [ids.three, ids.four], [untold.source]));
    const fork = await log.fork('side');
    expect(await isInLedger(house, fork, told.source)).toBe(true);
    expect(await isInLedger(house, fork, untold.source)).toBe(false);
    await untold.remove();
    expect(await shownIn(fork)).toEqual(['S: short', 'three', 'four']);
    await told.remove();
    expect((await fork.compile()).code).toBe('source_revoked');
  });
});

describe('a turn that was shown something for some readers', () => {
  async function shownAna() {
    const entered = await house.enter();
    const { log } = entered;
    const ana = await placeOf(log, 'ana');
    const [open = ''] = await log.append(said(text(long('open'))), said(text('of ana', 'ana')));
    ok(await ana.compile());
    return { ...entered, ana, open };
  }

  test('writes no summary where others read, as it writes no entry', async () => {
    const { log, writer, open } = await shownAna();
    const ben = await placeOf(log, 'ben');
    for (const at of [log, ben]) {
      const { state } = ok(await at.by(writer).summaryInput(open, open));
      const summary = { from: open, to: open, state, text: 'told' };
      const before = await leftIn(house, log);
      expect((await at.trySummarize(summary)).code).toBe('narrowing_refused');
      expect(await leftIn(house, log)).toEqual(before);
      expect(await listed(at.by(writer))).toEqual([]);
    }
    await log.by(writer).summarize({ from: open, to: open }, 'by one that was shown nothing');
  });

  test('writes one where these alone read, and who reads there later is bound as it is', async () => {
    const { log, writer, another, open } = await shownAna();
    const second = await placeOf(log, 'ana', 'second');
    const { state } = ok(await second.by(writer).summaryInput(open, open));
    ok(await second.trySummarize({ from: open, to: open, state, text: 'told to ana' }));
    const later = await another();
    expect(await shownIn(second.by(later))).toEqual(['S: told to ana', 'of ana']);
    expect(ok(await later.propose('an answer'))).toMatchObject({
      status: 'held',
      code: 'narrowing_refused',
    });
  });

  test('binds who reads there later by its summary alone', async () => {
    const { log, another, open } = await shownAna();
    const second = await placeOf(log, 'ana', 'second');
    const unbound = await another();
    const { state } = ok(await second.by(unbound).summaryInput(open, open));
    ok(await second.by(unbound).summaries());
    expect(ok(await unbound.propose('before')).status).toBe('cleared');
    ok(await second.trySummarize({ from: open, to: open, state, text: 'told to ana' }));
    const later = await another();
    ok(await second.by(later).summaries());
    expect(ok(await later.propose('after'))).toMatchObject({
      status: 'held',
      code: 'narrowing_refused',
    });
  });
});
