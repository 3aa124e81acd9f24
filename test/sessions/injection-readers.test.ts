import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, text, type TestLog } from '../support/log.ts';
import {
  injectionHouse,
  noted,
  noteOf,
  outline,
  said,
  unit,
  type InjectionHouse,
} from './injection-house.ts';

// Who sees what was injected, where it came from, and who may have it stored.

let gateway: TestGateway;
let house: InjectionHouse;
let log: TestLog;
let stored: InjectionHouse['stored'];

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  house = await injectionHouse(gateway);
  ({ log, stored } = house);
});

const CANARY = unit('memory', 'CANARY');
/** The entry of what was injected last. */
const injected = async () =>
  ok(await log.compile()).provenance.findLast(({ kind }) => kind === 'injection')?.entry ?? '';

describe('what was injected for one agent', () => {
  const others: [who: string, other: () => Promise<TestLog>][] = [
    [
      'another agent that reads the same log',
      async () => log.through((await log.open({ name: 'desk', agent: 'helper' })).handle),
    ],
    [
      'another place of the same agent',
      async () => log.through((await log.open({ name: 'aside' })).handle),
    ],
    [
      'a place derived from its own',
      async () => {
        const { handle } = await log.open({ name: 'aside' });
        ok(await log.through(handle).inject(CANARY));
        return log.through((await log.open({ name: 'derived', from: handle })).handle);
      },
    ],
    ['a fork of its log', () => log.fork('side')],
  ];

  test.each(others)('is not seen by %s, for which the same is stored anew', async (_who, open) => {
    await log.append(said('the question'));
    ok(await log.compile({ injections: [CANARY] }));
    const other = await open();
    const first = (await log.entries()).body as { entries: { id: string }[] };
    const [id = ''] = first.entries.map((one) => one.id);
    for (const told of [
      await other.compile(),
      await other.preview(),
      await other.summaryInput(id, id),
      await other.entries(),
      await other.search('canary'),
      await other.describe(),
    ])
      expect(JSON.stringify(ok<unknown>(told))).not.toContain('CANARY');
    const entry = await injected();
    expect((await other.summaryInput(entry, entry)).code).toBe('not_found');
    expect((await other.compile({ pins: [entry] })).code).toBe('not_found');
    expect(ok(await other.inject(CANARY)).outcomes).toEqual(['stored']);
    expect(outline(ok(await other.compile()))).toEqual([
      'entry: the question',
      'injection of memory: CANARY',
    ]);
  });

  test('is no entry that a page, a search, a count, a pin or an edit finds, even at its own place', async () => {
    const [own = ''] = await log.append(said('the CANARY question'));
    const before = ok(await log.describe());
    ok(await log.compile({ injections: [CANARY] }));
    const entry = await injected();
    const ids = (page: { entries: { id: string }[] }) => page.entries.map(({ id }) => id);
    expect(ids(ok(await log.entries()))).toEqual([own]);
    expect(ids(ok(await log.entries('agent=resident')))).toEqual([own]);
    expect(ok(await log.search('canary'))).toMatchObject({ total: '1', entries: [{ id: own }] });
    expect(ok(await log.describe())).toMatchObject({
      entries: before.entries,
      blocks: before.blocks,
    });
    expect((await log.pin(entry)).code).toBe('not_found');
    expect((await log.edit(entry, '1', [text('forged')])).code).toBe('not_found');
    expect(ok(await log.pins()).entries).toEqual([]);
    ok(await log.pin(own));
    expect(ids(ok(await log.pins()))).toEqual([own]);
  });

  test('is given to who summarizes its own place, with the source that it is of', async () => {
    const [own = ''] = await log.append(said('the question'));
    ok(await log.compile({ injections: [CANARY] }));
    const input = ok(await log.summaryInput(own, await injected()));
    expect(input.entries).toMatchObject([
      { participant: 'ana' },
      { participant: 'memory', injection: 'memory', blocks: [text('CANARY')] },
    ]);
    expect(input.entries[0]).not.toHaveProperty('injection');
  });

  test('leaves no gap in what is paged', async () => {
    await log.append(said('one'));
    ok(await log.inject(CANARY));
    await log.append(said('two'));
    ok(await log.inject(unit('memory', 'CANARY again')));
    const first = ok(await log.entries('limit=1'));
    const second = ok(await log.entries(`limit=1&after=${encodeURIComponent(first.cursor ?? '')}`));
    expect([first.complete, second.complete]).toEqual([false, true]);
    expect(JSON.stringify([first, second])).not.toContain('CANARY');
  });
});

describe('a mark of the gateway', () => {
  const marks: [field: string, value: unknown][] = [
    ['injection', 'memory'],
    ['owner', 'default'],
    ['envelopes', [{ origin: 'conversation' }]],
    ['contentHash', '00'.repeat(16)],
    ['content_hash', '00'.repeat(16)],
    ['addressee', 'helper'],
    ['passes', true],
    ['hash', '00'.repeat(16)],
  ];

  test.each(marks)('is not taken from who writes: %s', async (field, value) => {
    const forged = { [field]: value };
    const given = { ...CANARY, ...forged };
    const part = { ...CANARY, parts: [{ text: 'CANARY', ...forged }] };
    for (const refused of [
      await log.tryAppend([{ ...said('x'), ...forged }]),
      await log.tryAppend([{ ...said('x'), blocks: [{ ...text('x'), ...forged }] }]),
      await log.inject(given),
      await log.inject(part),
      await log.compile({ injections: [given] }),
      await log.preview({ injections: [part] }),
    ])
      expect([refused.status, refused.code]).toEqual([400, 'invalid_input']);
    expect(await stored()).toEqual([]);
    expect(outline(ok(await log.compile()))).toEqual([]);
  });

  test('is not given by a name: who writes as a source writes an entry like any other', async () => {
    await log.append(said('CANARY', 'memory'));
    expect(outline(ok(await log.compile()))).toEqual(['entry: CANARY']);
    expect(ok(await log.search('canary')).total).toBe('1');
    expect(ok(await log.inject(CANARY)).outcomes).toEqual(['stored']);
  });
});

describe('an audience', () => {
  test.each([
    ['a unit', { ...CANARY, audience: ['ana'] }, 'injections.0'],
    ['a part', { ...CANARY, parts: [{ text: 'x', audience: ['ana'] }] }, 'injections.0.parts.0'],
  ])('on %s is refused, saying where', async (_what, given, where) => {
    for (const refused of [await log.inject(given), await log.compile({ injections: [given] })]) {
      expect(refused.code).toBe('invalid_input');
      expect((refused.body as { detail?: unknown }).detail).toContain(`json ${where}`);
    }
    expect(await stored()).toEqual([]);
  });
});

describe('a source of what is injected', () => {
  test.each([
    ['a conversation that not all of the audience read', 'private', '1'],
    ['a conversation that is not there', 'ghost', '1'],
    ['a message that is not there', 'notes', '99'],
  ])(
    'is not there: %s; and then nothing of the start is stored',
    async (_what, conversation, seq) => {
      const given = [
        unit('first', 'words'),
        { ...CANARY, parts: [{ text: 'CANARY', sources: [{ conversation, seq }] }] },
      ];
      for (const placement of ['stored', 'each_compile'] as const) {
        const injections = given.map((one) => ({ ...one, placement }));
        for (const refused of [
          await log.preview({ injections }),
          await log.compile({ injections }),
        ])
          expect([refused.status, refused.code]).toEqual([404, 'not_found']);
      }
      expect((await log.inject(...given)).code).toBe('not_found');
      expect(await stored()).toEqual([]);
      const ledger = await gateway.owner`
      select 1 from earshot.ledger_entries where session_id = ${log.session} and to_seq is not null`;
      expect(ledger).toEqual([]);
    },
  );

  test('is told with the message, and is in the ledger under the decision that let it in', async () => {
    const { decision } = ok(await log.inject(noted('memory', 'words'))) as { decision?: string };
    expect(ok(await log.compile()).provenance).toMatchObject([
      {
        kind: 'injection',
        source: 'memory',
        sources: [{ conversation: 'notes', id: 'n1', seq: '1', revision: '1' }],
      },
    ]);
    const rows = await gateway.owner`
      select d.id, d.tool from earshot.ledger_entries l
      join earshot.decisions d on d.org_id = l.org_id and d.id = l.decision_id
      where l.session_id = ${log.session} and l.to_seq is not null`;
    expect(rows).toEqual([{ id: decision, tool: 'inject' }]);
  });

  test('counts for words too that are in the log already, as from elsewhere', async () => {
    const { source, parts } = noted('memory', 'words');
    const from = (conversation: string) => ({
      source,
      parts: parts.map(({ text }) => ({ text, sources: [{ conversation, seq: '1' }] })),
    });
    expect(ok(await log.inject(unit('memory', 'words'))).outcomes).toEqual(['stored']);
    for (const conversation of ['private', 'ghost'])
      expect((await log.inject(from(conversation))).code).toBe('not_found');
    expect(ok(await log.inject(from('notes'))).outcomes).toEqual(['unchanged']);
    expect(ok(await log.inject(from('notes'))).outcomes).toEqual(['unchanged']);
    await house.acme.remove('conversations/notes/messages/n1');
    expect((await log.compile()).code).toBe('source_revoked');
  });

  test.each<[what: string, change: () => Promise<unknown>, code: string]>([
    ['is deleted', () => house.acme.remove('conversations/notes/messages/n1'), 'source_revoked'],
    [
      'is closed to a reader',
      () => house.acme.remove('conversations/notes/members/ben'),
      'source_revoked',
    ],
    [
      'is edited',
      () =>
        house.acme.put(
          'conversations/notes/messages/n1',
          noteOf('else', { editedAt: '2026-01-02T00:00:00Z' }),
        ),
      'source_changed',
    ],
  ])(
    'that %s quarantines the session, whether it was stored or placed',
    async (_w, change, code) => {
      const fork = await log.fork('side');
      const placed = { ...noted('memory', 'words'), placement: 'each_compile' as const };
      ok(await log.inject(noted('memory', 'words')));
      ok(await fork.compile({ injections: [placed] }));
      await change();
      for (const session of [fork, log]) {
        expect((await session.compile()).code).toBe(code);
        expect((await session.inject(unit('memory', 'more'))).code).toBe('session_quarantined');
      }
    },
  );
});

describe('a turn that was shown a block for some readers', () => {
  const bound = async () => {
    await log.append(said('plain'), entry(text('of ana', 'ana')));
    const ana = log.through((await log.open({ name: 'ana', reader: 'ana' })).handle);
    ok(await ana.compile());
    return ana;
  };

  test('has nothing stored before other readers, as it appends nothing for them', async () => {
    await bound();
    expect((await log.tryAppend([entry(text('CANARY'))])).code).toBe('narrowing_refused');
    expect((await log.inject(CANARY)).code).toBe('narrowing_refused');
    expect((await log.compile({ injections: [CANARY] })).code).toBe('narrowing_refused');
    const ben = log.through((await log.open({ name: 'ben', reader: 'ben' })).handle);
    expect((await ben.inject(CANARY)).code).toBe('narrowing_refused');
    expect(await stored()).toEqual([]);
    const free = log.by(await house.start());
    expect(ok(await free.inject(CANARY)).outcomes).toEqual(['stored']);
  });

  test('may have it stored before the same readers, whose later turns are then bound as well', async () => {
    const ana = await bound();
    expect(ok(await ana.inject(CANARY)).outcomes).toEqual(['stored']);
    const next = await house.start();
    ok(
      await log
        .by(next)
        .through((await log.open({ name: 'ana', reader: 'ana' })).handle)
        .compile(),
    );
    expect(ok(await next.propose('an answer')).code).toBe('narrowing_refused');
  });

  test('binds a place of the same reader that was shown nothing for some readers itself', async () => {
    await bound();
    const second = await log.open({ name: 'second', reader: 'ana' });
    ok(await log.through(second.handle).inject(CANARY));
    const next = await house.start();
    const [{ only_for: readers = null } = {}] = await gateway.owner<{ only_for?: string[] }[]>`
      select only_for from earshot.namespaces where session_id = ${log.session} and name = 'second'`;
    expect(readers).toEqual(['ana']);
    ok(await log.by(next).through(second.handle).compile());
    expect(ok(await next.propose('an answer')).code).toBe('narrowing_refused');
  });
});
