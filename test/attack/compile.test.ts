import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// Attempts to get by compiles, injections, summaries and addressed entries what is not theirs to give: what is for other
// readers, what has no source on record, an answer twice, or none.

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;
let log: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway({ MAX_BODY_BYTES: '20000000' });
});
afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.conversation('private', ['ana']);
  await acme.say('thread', 'ana', 'a question');
  await acme.put('conversations/notes/messages/m1', message('the canary sang'));
  await acme.say('private', 'ana', 'a secret');
  turn = await start();
  log = logOf(gateway, turn);
});

const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
const message = (body: string, more: object = {}) => ({
  ...{ author: { user: 'ben' }, body, sentAt: '2026-01-01T00:00:00Z' },
  ...more,
});
const rewritten = () =>
  acme.put(
    'conversations/notes/messages/m1',
    message('another text', { editedAt: '2026-01-02T00:00:00Z' }),
  );
const place = async (of: TestLog, reader: string, name = `of ${reader}`) =>
  of.through((await of.open({ name, reader })).handle);
const times = <Made>(count: number, make: (n: number) => Made) =>
  Array.from({ length: count }, (_, n) => make(n));
const unit = (source: string, ...texts: string[]) => ({
  source,
  parts: texts.map((text) => ({ text })),
});
const notes = { sources: [{ conversation: 'notes', seq: '1' }] };
const over = ({ body }: Answer) => (body as { over?: object }).over;
const told = ({ status, body }: Answer) => [status, { ...(body as object), decision: '' }];

describe('for what is another reader’s', () => {
  test('neither numbers nor states nor verdicts tell of it', async () => {
    const [first = '', last = ''] = await log.append(
      entry(text('a first word')),
      entry(text('a last word')),
    );
    await log.summarize({ from: first, to: first }, 'one');
    const asked = async () => ({
      over: over(await log.preview({ budget: 1 })),
      compiled: told(await log.preview()),
      input: ok(await log.summaryInput(first, last)).state,
      summaries: ok(await log.summaries()).summaries,
      described: told(await log.describe()),
    });
    const before = await asked();
    const later = log.by(await start());
    const ana = await place(later, 'ana');
    const [ofAna = ''] = await later.append(entry(text('CANARY of ana, with many words', 'ana')));
    ok(await ana.inject(unit('recall', 'CANARY')));
    ok(await ana.compile({ injections: [{ ...unit('now', 'CANARY'), position: 'system' }] }));
    await ana.summarize({ from: ofAna, to: ofAna }, 'CANARY');
    expect(await asked()).toEqual(before);
    expect(over(await log.preview({ budget: 1 }))).toBeDefined();
    for (const at of [log, await place(log, 'ben')]) {
      expect(ok(await at.inject(unit('recall', 'CANARY'))).outcomes).toEqual(['stored']);
      expect(ok(await at.inject(unit('recall', 'CANARY'))).outcomes).toEqual(['unchanged']);
    }
  });

  test('a turn that was shown it puts nothing of its own before anybody else', async () => {
    await log.append(entry(text('plain')), entry(text('CANARY of ana', 'ana')));
    const ana = await place(log, 'ana');
    const ben = await place(log, 'ben');
    const crew = await place(log, 'agent:crew');
    const [id = ''] = ok(await log.entries()).entries.map(({ id }) => id);
    const { state = '' } = ok(await log.summaryInput(id, id));
    expect(await ana.texts()).toEqual(['plain', 'CANARY of ana']);
    const stored = () => gateway.owner`
      select (select count(*) from earshot.log_entries) as entries, (select count(*) from earshot.log_summaries) as summaries`;
    const before = await stored();
    for (const at of [log, ben, crew]) {
      for (const answer of [
        await at.inject(unit('recall', 'CANARY')),
        await at.compile({ injections: [unit('recall', 'CANARY')] }),
        await at.trySummarize({ from: id, to: id, state, text: 'CANARY' }),
      ])
        expect(answer.code).toBe('narrowing_refused');
    }
    expect(await stored()).toEqual(before);
    const second = await place(log, 'ana', 'a second place');
    ok(await second.inject(unit('recall', 'CANARY')));
    await second.summarize({ from: id, to: id }, 'CANARY');
    for (const derive of [
      (of: TestLog) => Promise.resolve(of),
      (of: TestLog) => of.fork('of the second'),
    ]) {
      const reading = await start();
      ok(await (await derive(second.by(reading))).by(reading).summaries());
      expect(ok(await reading.propose('made')).code).toBe('narrowing_refused');
    }
  });

  test('how much a request shares with the last one says nothing of what a bound turn placed in it', async () => {
    await log.append(entry(text('plain')), entry(text('CANARY of ana', 'ana')));
    const bound = await start();
    await (await place(log.by(bound), 'ana')).texts();
    const guess = async (code: string) => {
      const placed = { ...unit('code', code), placement: 'each_compile' as const };
      const { stats } = ok(await log.by(await start()).preview({ injections: [placed] }));
      return stats.shared.messages;
    };
    const placed = { ...unit('code', 'CANARY 1234'), placement: 'each_compile' as const };
    ok(await log.by(bound).compile({ injections: [placed] }));
    expect(await guess('CANARY 1234')).toBe(await guess('CANARY 4321'));
  });

  test('a source of a block that is hidden is in no provenance, no summary and no fork', async () => {
    const [id = ''] = await log.append({
      ...entry(text('plain'), text('of ana', 'ana')),
      sources: [{ conversation: 'notes', seq: '1', block: 1 }],
    });
    await log.summarize({ from: id, to: id }, 'in short');
    const fork = await log.fork('side');
    for (const at of [log, fork]) {
      const shown = [
        ok(await at.compile()),
        ok(await at.entries()),
        ok(await at.summaries()),
        ok(await at.summaryInput(id, id)),
      ];
      expect(JSON.stringify(shown)).not.toMatch(/notes|sources/);
    }
    const ana = await place(log, 'ana');
    await ana.summarize({ from: id, to: id }, 'in short');
    expect(ok(await ana.summaries()).summaries[0]?.sources).toMatchObject([{ id: 'm1' }]);
  });

  test('a summary, an entry or an injection of another place is answered like one that is not there', async () => {
    const [first = ''] = await log.append(entry(text('plain')));
    const [ofAna = ''] = await log.append(entry(text('CANARY', 'ana')));
    const ana = await place(log.by(await start()), 'ana');
    const summary = await ana.summarize({ from: first, to: ofAna }, 'CANARY');
    ok(await ana.inject(unit('recall', 'CANARY')));
    const injected = ok(await ana.compile()).provenance.find(({ kind }) => kind === 'injection');
    const other = logOf(
      gateway,
      await acme.turn({
        ...{ destination: 'thread', requester: 'ana', trigger: '1', threadKey: 'other' },
      }),
    );
    const [elsewhere = ''] = await other.append(entry(text('CANARY')));
    const ofOther = await other.summarize({ from: elsewhere, to: elsewhere }, 'CANARY');
    const asked = (entry: string, of: string) => [
      log.call('POST', '/summary-input', { of: [of] }),
      log.trySummarize({ of: [of], text: 'x' }),
      log.summaryInput(first, entry),
      log.trySummarize({ from: first, to: entry, state: '0'.repeat(64), text: 'x' }),
      log.compile({ pins: [entry] }),
      log.pin(entry),
      log.edit(entry, '1', [text('x')]),
    ];
    const nothing = (await Promise.all(asked(randomUUID(), randomUUID()))).map(told);
    for (const [entry, of] of [
      [ofAna, summary],
      [injected?.entry ?? '', summary],
      [elsewhere, ofOther],
      [summary, first],
    ] as const)
      expect((await Promise.all(asked(entry, of))).map(told)).toEqual(nothing);
  });
});

describe('past the ledger', () => {
  test('a text that the log has already is asked about by what it is said to come from now', async () => {
    ok(await log.inject(unit('recall', 'the canary sang')));
    const again = { source: 'recall', parts: [{ text: 'the canary sang', ...notes }] };
    expect(ok(await log.inject(again)).outcomes).toEqual(['unchanged']);
    await rewritten();
    expect((await log.compile()).code).toBe('source_changed');
  });

  test('a unit that is not stored again names no message that the audience does not read', async () => {
    ok(await log.inject(unit('recall', 'a secret')));
    const again = {
      source: 'recall',
      parts: [{ text: 'a secret', sources: [{ conversation: 'private', seq: '1' }] }],
    };
    for (const answer of [
      await log.inject(again),
      await log.compile({ injections: [again] }),
      await log.preview({ injections: [again] }),
    ])
      expect(answer.code).toBe('not_found');
  });

  test.each(['after_user', 'before_user', 'system'] as const)(
    'what is placed at %s is asked about with the request, and nothing of it leaves where it does not stand',
    async (position) => {
      const placed = {
        ...{ source: 'recall', position, placement: 'each_compile' as const },
        parts: [{ text: 'the canary sang', ...notes }],
      };
      for (const sources of [
        [{ conversation: 'private', seq: '1' }],
        [{ conversation: 'ghost', seq: '1' }],
        [...notes.sources, { conversation: 'notes', seq: '9' }],
      ]) {
        const parts = [{ text: 'fine' }, { text: '', sources }];
        const answer = await log.compile({ injections: [{ ...placed, parts }] });
        expect([answer.status, answer.code]).toEqual([404, 'not_found']);
      }
      ok(await log.preview({ injections: [placed] }));
      await rewritten();
      expect((await log.compile()).code).toBe('source_changed');
    },
  );

  test('what was retrieved for a fork is not kept there as the words of a later revision', async () => {
    const fork = await log.fork('side');
    const held = await holdOpen(
      gateway,
      (sql) => sql`select from earshot.log_heads where session_id = ${fork.session} for update`,
    );
    const retrieving = gateway.send(
      'POST',
      `/v1/retrieve?session=${fork.session}&audience=${turn.grant.audienceHash}`,
      {
        token: turn.grant.token,
        json: { calls: [{ tool: 'search', arguments: { query: 'canary' } }], store: true },
      },
    );
    await whenBlocked(gateway);
    await rewritten();
    await held.commit();
    await retrieving;
    const shown = await fork.compile();
    expect(JSON.stringify(shown.body)).not.toContain('the canary sang');
  });

  test('what was made in a fork and written to the shared log stands and falls with what the fork was shown', async () => {
    const fork = await log.fork('side');
    await fork.append({ ...entry(text('the canary sang')), ...notes });
    const working = await start();
    ok(await fork.by(working).compile());
    const path = '/entries?agent=resident';
    const result = { entries: [entry(text('it sang'))] };
    ok(await fork.by(working).call('POST', path, result, randomUUID()));
    expect(await log.texts()).toEqual(['it sang']);
    await rewritten();
    expect((await log.compile()).code).toBe('source_changed');
  });

  test('what a closed fork hands on stands and falls with all that the fork was shown, named or not', async () => {
    const fork = await log.fork('side');
    await fork.append({ ...entry(text('the canary sang')), ...notes });
    const unnamed = { entries: [entry(text('it sang'))] };
    ok(await log.call('POST', '/entries?agent=side', unnamed, randomUUID()));
    const closing = await start();
    ok(await fork.by(closing).close());
    expect(await log.texts()).toEqual(['it sang']);
    await rewritten();
    expect((await log.compile()).code).toBe('source_changed');
  });

  test('a summary whose source is revoked is sent nowhere, nor what was made of it, and its entries are', async () => {
    const [id = ''] = await log.append(entry(text('plain')));
    const { state = '' } = ok(await log.summaryInput(id, id));
    const first = ok(
      await log.trySummarize({ from: id, to: id, state, text: 'CANARY', ...notes }),
    ).summary;
    const second = ok(await log.trySummarize({ of: [first], text: 'CANARY above' })).summary;
    const fork = await log.fork('side');
    await acme.remove('conversations/notes/messages/m1');
    for (const at of [log, fork]) {
      const shown = [ok(await at.compile()), ok(await at.summaries())];
      expect(JSON.stringify(shown)).not.toContain('CANARY');
      for (const of of [first, second]) {
        expect((await at.call('POST', '/summary-input', { of: [of] })).code).toBe('not_found');
        expect((await at.trySummarize({ of: [of], text: 'x' })).code).toBe('not_found');
      }
    }
    expect(await log.texts()).toEqual(['plain']);
  });

  test('a summary that was shown once binds its session to what it came from', async () => {
    const [id = ''] = await log.append(entry(text('plain')));
    const { state = '' } = ok(await log.summaryInput(id, id));
    ok(await log.trySummarize({ from: id, to: id, state, text: 'x', ...notes }));
    ok(await log.summaries());
    await rewritten();
    expect((await log.compile()).code).toBe('source_changed');
  });
});

describe('in a fork', () => {
  test('a later summary comes after those that were copied, and before them in the choice', async () => {
    const ids = await log.append(
      ...times(4, (n) => entry(text(`a word ${n.toString()} `.repeat(9)))),
    );
    const [a = '', b = '', c = '', d = ''] = ids;
    for (const id of [a, b]) await log.summarize({ from: id, to: id }, 'of before');
    await log.summarize({ from: c, to: d }, 'copied');
    for (const id of [a, b]) ok(await log.edit(id, '1', [text('edited')]));
    const fork = await log.fork('side');
    await fork.summarize({ from: c, to: d }, 'written later');
    const texts = ok(await fork.summaries()).summaries.map(({ text }) => text);
    expect(texts).toEqual(['copied', 'written later']);
    expect(await fork.texts()).toContain('[a summary of 2 earlier entries]\nwritten later');
  });

  test('what is injected, pinned, summarized or edited changes nothing where it came from, nor the other way', async () => {
    const [first = '', last = ''] = await log.append(
      ...times(2, (n) => entry(text(`a long word ${n.toString()} `.repeat(9)))),
    );
    const summary = await log.summarize({ from: first, to: last }, 'in short');
    const fork = await log.fork('side');
    const before = told(await log.preview());
    ok(await fork.inject(unit('recall', 'x')));
    ok(await fork.pin(first));
    await fork.summarize({ of: [summary] }, 'shorter');
    ok(await fork.edit(last, '1', [text('edited')]));
    ok(await fork.compile());
    expect(told(await log.preview())).toEqual(before);
    const other = await log.fork('other');
    const kept = told(await other.preview());
    ok(await log.edit(first, '1', [text('edited')]));
    ok(await log.inject(unit('recall', 'x')));
    expect(told(await other.preview())).toEqual(kept);
  });
});
