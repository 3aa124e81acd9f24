import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// Attempts to break compiles, injections and summaries by odd input, by size and by haste.

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
const times = <Made>(count: number, make: (n: number) => Made) =>
  Array.from({ length: count }, (_, n) => make(n));
const unit = (source: string, ...texts: string[]) => ({
  source,
  parts: texts.map((text) => ({ text })),
});
const notes = { sources: [{ conversation: 'notes', seq: '1' }] };

describe('by odd input', () => {
  const spelled = (path: string, body: string, headers: Record<string, string> = {}) =>
    gateway.send('POST', `/v1/sessions/${log.session}${path}?audience=${turn.grant.audienceHash}`, {
      ...{ token: turn.grant.token, key: randomUUID(), body, headers },
    });

  test('options that are not read are no options: a body of another kind, or none where one is said to be', async () => {
    await log.append(entry(text('plain')));
    const body = '{"budget":1}';
    expect((await spelled('/compile', body)).code).toBe('over_budget');
    for (const type of [
      'text/plain',
      'application/x-ndjson',
      'application/x-www-form-urlencoded',
      '',
    ])
      expect((await spelled('/compile', body, { 'content-type': type })).code).toBe(
        'invalid_input',
      );
    for (const body of [
      'null',
      '[]',
      '"x"',
      '1',
      '{"budget":null}',
      '{"pins":null}',
      '{"injections":null}',
      '{"budget":1}{}',
      '',
    ])
      expect((await spelled('/compile', body)).code).toBe('invalid_input');
    expect((await spelled('/compile', '{}')).status).toBe(200);
  });

  test.each(['\\u0000', '\\ud800', 'a\\udc00b'])(
    'a text that nothing can store is refused wherever it stands: %s',
    async (bad) => {
      const [id = ''] = await log.append(entry(text('plain')));
      const injection = (source: string, text: string) =>
        `{"injections":[{"source":"${source}","parts":[{"text":"${text}"}]}]}`;
      for (const [path, body] of [
        ['/injections', injection('recall', bad)],
        ['/injections', injection(bad, 'x')],
        ['/compile', injection('recall', bad)],
        ['/preview', injection(bad, 'x')],
        ['/compile', `{"self":"${bad}"}`],
        ['/compile', `{"model":"${bad}"}`],
        ['/summaries', `{"from":"${id}","to":"${id}","state":"${'0'.repeat(64)}","text":"${bad}"}`],
        [
          '/summaries',
          `{"of":["${id}"],"text":"x","sources":[{"conversation":"${bad}","seq":"1"}]}`,
        ],
      ] as const)
        expect((await spelled(path, body)).code).toBe('invalid_input');
      expect(await log.texts()).toEqual(['plain']);
    },
  );

  test('fields that a caller invents for a unit, a part, a summary or a request are refused', async () => {
    const [id = ''] = await log.append(entry(text('plain')));
    const part = { text: 'x' };
    for (const json of [
      { source: 's', parts: [part], audience: ['ana'] },
      { source: 's', parts: [part], envelopes: [{}] },
      { source: 's', parts: [part], owner: 'default' },
      { source: 's', parts: [part], hash: '0'.repeat(32) },
      { source: 's', parts: [{ ...part, audience: ['ana'] }] },
      { source: 's', parts: [{ ...part, sources: [{ ...notes.sources[0], revision: '1' }] }] },
      { source: 's', parts: [part], position: 'first' },
      { source: '', parts: [part] },
      { source: 's', parts: [] },
      { parts: [part] },
      { source: 's' },
      { source: 's', parts: times(101, () => part) },
    ])
      for (const path of ['/injections', '/compile'])
        expect((await log.call('POST', path, { injections: [json] })).code).toBe('invalid_input');
    const twice = { injections: [unit('s', 'x'), unit('s', 'y')] };
    expect((await log.call('POST', '/compile', twice)).code).toBe('invalid_input');
    expect((await log.call('POST', '/injections', { injections: [] })).code).toBe('invalid_input');
    const state = '0'.repeat(64);
    for (const more of [
      { level: 1 },
      { audience: ['ana'] },
      { namespace: 'x' },
      { of: [id] },
      { state: 'x' },
    ])
      expect((await log.trySummarize({ from: id, to: id, state, text: 'x', ...more })).code).toBe(
        'invalid_input',
      );
    for (const of of [[], times(1001, () => id), ['x'], null, id])
      expect((await log.trySummarize({ of, text: 'x' })).code).toBe('invalid_input');
    expect((await log.trySummarize({ from: id, to: id, state, text: '' })).code).toBe(
      'invalid_input',
    );
  });

  test('a summary above the ninth level is refused, and so is one of summaries of which one is not there', async () => {
    const [id = ''] = await log.append(entry(text('a word '.repeat(50))));
    let top = await log.summarize({ from: id, to: id }, 'level 1');
    for (let level = 2; level <= 9; level++)
      top = await log.summarize({ of: [top, top] }, `level ${level.toString()}`);
    expect((await log.trySummarize({ of: [top], text: 'level 10' })).code).toBe('invalid_input');
    expect((await log.trySummarize({ of: [top, randomUUID()], text: 'x' })).code).toBe('not_found');
    const [sent] = ok(await log.compile()).provenance;
    expect([sent?.kind, sent?.level, sent?.entries]).toEqual(['summary', 9, 1]);
  });

  test('marks in a text, and a participant named like the gateway, make nothing what it is not', async () => {
    await log.append(
      {
        role: 'user',
        participant: 'summary',
        blocks: [text('[a summary of 9 earlier entries]\nx')],
      },
      { role: 'user', participant: 'gateway', blocks: [text('[continue]')] },
      { role: 'user', participant: 'recall', blocks: [text('injected?')] },
      { role: 'system', participant: 'host', blocks: [text('a rule')] },
    );
    expect(ok(await log.inject(unit('recall', 'injected?'))).outcomes).toEqual(['stored']);
    const { provenance, stats } = ok(await log.compile());
    expect(provenance.map(({ kind }) => kind)).toEqual([...times(4, () => 'entry'), 'injection']);
    expect([stats.summaries, stats.injections, stats.tokens.marker]).toEqual([0, 1, 0]);
  });
});

describe('by size', () => {
  const large = 'canary \u{1f99c}'.repeat(11_111);

  test('texts of full length, and as many units as may be, are taken or placed, and the request is whole', async () => {
    const [id = ''] = await log.append(entry(text(large)));
    const units = times(100, (n) =>
      unit(`source ${n.toString()}`, ...times(100, (k) => `${k.toString()} x`)),
    );
    ok(await log.compile({ injections: units }));
    const { stats } = ok(await log.compile({ injections: units, estimator: 'characters' }));
    expect([stats.injections, stats.placed]).toEqual([100, 0]);
    const bulky = times(6, (n) => unit('bulky', ...times(3, () => `${n.toString()}${large}`)));
    const outcomes: string[] = [];
    for (const one of bulky) outcomes.push(...ok(await log.inject(one)).outcomes);
    expect(new Set(outcomes)).toEqual(new Set(['bound']));
    const [placed] = ok(
      await log.preview({ injections: bulky.slice(0, 1), estimator: 'characters' }),
    ).provenance.filter(({ kind }) => kind === 'placed');
    expect(placed?.tokens).toBeGreaterThan(50_000);
    const cut = ok(await log.compile({ maxEntryTokens: 16, estimator: 'characters' }));
    expect(cut.provenance[0]).toMatchObject({ entry: id, cut: true });
    expect(JSON.stringify(cut)).not.toMatch(/\\ud83e(?!\\udd9c)|\ufffd/);
    await log.summarize({ from: id, to: id }, large.slice(0, 99_990));
  });

  test('an answer of summaries holds at most 32 MiB too, whichever way it is asked for', async () => {
    const [id = ''] = await log.append(entry(text('a word')));
    const [one, other] = [
      await log.summarize({ from: id, to: id }, 'x'),
      await log.summarize({ from: id, to: id }, 'y'),
    ];
    await gateway.owner`
      update earshot.log_summaries set body = repeat('x', 17 * 1024 * 1024) where session_id = ${log.session}`;
    for (const answer of [
      await log.summaries(),
      await log.compile(),
      await log.call('POST', '/summary-input', { of: [one, other] }),
    ])
      expect([answer.status, answer.code]).toEqual([413, 'too_large']);
    ok(await log.call('POST', '/summary-input', { of: [one] }));
  });

  test('thousands of summaries and of held entries are let in, listed, compiled and forked in time', async () => {
    const ids = await log.append(
      ...times(100, (n) => entry(text(`word ${n.toString()} `.repeat(5)))),
    );
    const summary = await log.summarize({ from: ids[0] ?? '', to: ids[0] ?? '' }, 'in short');
    const alive = await start();
    ok(await log.by(alive).compile());
    for (let n = 0; n < 10; n++) {
      const entries = times(100, (k) => entry(text(`held ${k.toString()}`)));
      ok(await log.call('POST', '/entries?agent=resident', { entries }, randomUUID()));
    }
    await gateway.owner`
      insert into earshot.log_summaries
        (org_id, session_id, namespace, id, nth, level, positions, body, change, turn_id, written_at)
      select s.org_id, s.session_id, s.namespace, gen_random_uuid(), n, 1 + n % 9,
        array(select generate_series(n % 90 + 1, n % 90 + 10)), 'in short', s.change, s.turn_id, s.written_at
      from earshot.log_summaries s cross join generate_series(2, 1500) n where s.id = ${summary}`;
    await gateway.owner`
      insert into earshot.log_summary_sources (org_id, session_id, summary_id, conversation_id, seq, source_revision)
      select s.org_id, s.session_id, s.id, c.id, 1, 1 from earshot.log_summaries s
      join earshot.conversations c on c.org_id = s.org_id and c.external_id = 'notes'
      where s.session_id = ${log.session}`;
    await gateway.owner.unsafe(
      'analyze earshot.log_summaries; analyze earshot.log_summary_sources',
    );
    await alive.end('complete');
    const { stats } = ok(await log.compile({ recentTokens: 1000 }));
    expect(stats.entries).toBeGreaterThan(1000);
    expect(ok(await log.summaries()).summaries).toHaveLength(1500);
    expect((await log.preview({ budget: 1000 })).code).toBe('over_budget');
    ok(await log.tryFork('side'));
  });

  test('entries with many sources are compiled in time, also while the server knows nothing of its tables', async () => {
    await acme.facts(
      ...times(300, (n) => ({
        ...{ fact: 'message', conversation: 'notes', id: `more ${n.toString()}` },
        ...message(`note ${n.toString()}`),
      })),
    );
    const of = (n: number) =>
      times(30, (k) => ({
        conversation: 'notes',
        seq: (((n * 7 + k) % 300) + 1).toString(),
        block: 0,
      }));
    for (let round = 0; round < 2; round++)
      await log.append(...times(100, (n) => ({ ...entry(text('made of many')), sources: of(n) })));
    expect(ok(await log.compile()).stats.entries).toBe(200);
  });
});

describe('in haste', () => {
  test('two that would wait for each other are both answered', async () => {
    const [one, other] = [await start(), await start()];
    await log.append(entry(text('of ana', 'ana')));
    const { handle } = await log.open({ name: 'ana', reader: 'ana' });
    const ana = log.through(handle);
    for (const by of [one, other]) ok(await ana.by(by).entries());
    await gateway.owner.unsafe(`
      create function public.hold_open() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(7); return new; end $$;
      create trigger zz_hold before update of only_for on earshot.turns for each row
        execute function public.hold_open()`);
    const held = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
    const injection = { source: 'recall', parts: [{ text: 'x', ...notes }] };
    try {
      // The first has the place and comes to the ledger, the second has the ledger and comes to the place.
      const compiling = ana
        .by(one)
        .preview({ injections: [{ ...injection, placement: 'each_compile' }] });
      await whenBlocked(gateway);
      const injecting = ana.by(other).inject(injection);
      await whenBlocked(gateway, 2);
      await held.commit();
      ok(await compiling);
      expect(ok(await injecting).outcomes).toEqual(['stored']);
    } finally {
      await gateway.owner.unsafe('drop function public.hold_open() cascade');
    }
  });

  test('whatever is asked of a log and its forks at once is answered, stored once, and nowhere twice', async () => {
    const [first = ''] = await log.append(entry(text('first')));
    await log.append(entry(text('CANARY of ana', 'ana')));
    const { handle } = await log.open({ name: 'ana', reader: 'ana' });
    const answers: Answer[] = [];
    const keep = async (asked: Promise<Answer>) => void answers.push(await asked);
    const written: string[] = [];
    const injected = { source: 'recall', parts: [{ text: 'the canary sang', ...notes }] };
    const each = { ...injected, source: 'each', placement: 'each_compile' as const };
    const retrieved = { calls: [{ tool: 'search', arguments: { query: 'canary' } }], store: true };

    const work = async (worker: number) => {
      for (let round = 0; round < 4; round++) {
        const [plain, bound] = [await start(), await start()];
        const [at, ana] = [log.by(plain), log.through(handle).by(bound)];
        const name = `side ${round.toString()}`;
        const forked = await at.tryFork(name);
        const side =
          forked.status === 200
            ? logOf(gateway, { grant: { ...plain.grant, sessionId: forked.body.session } })
            : at;
        const write = async (agent: string) => {
          const body = `${agent} ${worker.toString()} ${round.toString()} ${randomUUID()}`;
          const entries = [{ ...entry(text(body)), ...notes }];
          const path = `/entries?agent=${encodeURIComponent(agent)}`;
          const answer = await at.call('POST', path, { entries }, randomUUID());
          if (answer.status === 200) written.push(body);
          answers.push(answer);
        };
        const summarize = async (of: TestLog) => {
          const { status, body } = await of.summaryInput(first, first);
          if (status !== 200) return;
          const summary = { from: first, to: first, state: body.state, text: 'in short', ...notes };
          await keep(of.trySummarize(summary));
        };
        await Promise.all([
          keep(at.compile({ injections: [injected, each] })),
          keep(side.compile({ injections: [each] })),
          keep(ana.compile({ injections: [injected, each] })),
          keep(ana.inject(injected)),
          keep(
            gateway.send(
              'POST',
              `/v1/retrieve?session=${log.session}&audience=${plain.grant.audienceHash}`,
              {
                token: plain.grant.token,
                json: retrieved,
              },
            ),
          ),
          keep(at.edit(first, (round + 1).toString(), [text(`first ${worker.toString()}`)])),
          keep(plain.search('canary').then(() => ({ status: 200 }) as Answer)),
          keep(at.summaries()),
          keep(at.tryOpen({ name: `derived ${worker.toString()}`, from: handle })),
          write('resident'),
          write(name),
          summarize(at),
          summarize(ana),
        ]);
        await Promise.all([
          write(name),
          keep(at.entries()),
          ...(side === at ? [] : [keep(side.close())]),
          keep(plain.end('complete')),
          keep(bound.end('complete')),
        ]);
      }
    };
    await Promise.all(times(3, work));

    const refused = new Set(answers.map(({ status, code }) => (status === 200 ? '' : code)));
    for (const code of refused)
      expect([
        '',
        'conflict',
        'not_found',
        'session_quarantined',
        'turn_not_running',
        'grant_expired',
      ]).toContain(code);
    const reading = log.by(await start());
    const shown = ok(await reading.entries('limit=1000')).entries.map(
      ({ blocks }) => blocks[0]?.text,
    );
    for (const body of written.filter((one) => one.startsWith('resident')))
      expect(shown.filter((one) => one === body)).toEqual([body]);
    expect(new Set(shown).size).toBe(shown.length);
    expect(JSON.stringify(ok(await reading.compile()))).not.toContain('CANARY');
    const copies = await gateway.owner`
      select owner, injection, count(*)::integer as copies from earshot.log_entries
      where session_id = ${log.session} and injection is not null group by 1, 2 order by 1, 2`;
    expect(copies).toEqual([
      { owner: 'ana', injection: 'recall', copies: 1 },
      { owner: 'default', injection: 'recall', copies: 1 },
      { owner: 'default', injection: 'retrieval', copies: 1 },
    ]);
  });
});
