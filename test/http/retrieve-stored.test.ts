import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { logOf, type TestLog } from '../support/log.ts';
import { holdOpen, whenBlocked } from './blocked.ts';
import { read, retrievalHouse, search, type RetrievalHouse } from './retrieval-house.ts';

// What is retrieved goes into the log, where the agent sees it.

let gateway: TestGateway;
let acme: RetrievalHouse['acme'];
let write: RetrievalHouse['write'];
let start: RetrievalHouse['start'];
let turn: RetrievalHouse['turn'];
let log: TestLog;
let retrieve: RetrievalHouse['retrieve'];
let held: RetrievalHouse['held'];

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  ({ acme, write, start, turn, log, retrieve, held } = await retrievalHouse(gateway));
});

async function injected(of = log) {
  const { messages, provenance } = ok(await of.compile());
  return provenance.map((one, nth) => ({ ...one, content: messages[nth]?.content }));
}

describe('what is stored', () => {
  const stored = { calls: [read('shared', { limit: 2 }), search('s2')], store: true };

  test('is one injection of each message once, whose envelopes a compile tells', async () => {
    const { results, ...packet } = ok(await retrieve(stored, held()));
    expect(packet.outcome).toBe('stored');
    const first = results[0]?.items ?? [];
    const [entry, ...rest] = await injected();
    expect(rest).toEqual([]);
    expect(entry).toMatchObject({
      ...{ kind: 'injection', source: 'retrieval' },
      envelopes: first.map(({ envelope }) => envelope),
      sources: ['s1', 's2'].map((id, nth) => ({
        ...{ conversation: 'shared', id, seq: (nth + 1).toString(), revision: '1' },
      })),
      content: first.map(({ text, sentAt, source: { seq } }) => ({
        type: 'text',
        text: `[shared #${seq}, ana, ${sentAt}]\n${text}`,
      })),
    });
    expect(first.every(({ envelope }) => envelope.decision.id === packet.decision)).toBe(true);
  });

  test('has the source that is named, and goes where the namespace stands', async () => {
    const { handle } = await log.open({ name: 'desk', agent: 'helper' });
    ok(await retrieve({ ...stored, source: 'memory' }, `${held()}&namespace=${handle}`));
    expect(await injected()).toEqual([]);
    expect(await injected(log.through(handle))).toMatchObject([{ source: 'memory' }]);
  });

  test('stays unchanged when it is retrieved again, and is stored anew when it changed', async () => {
    ok(await retrieve(stored, held()));
    const before = await injected();
    expect(ok(await retrieve(stored, held())).outcome).toBe('unchanged');
    expect((await injected()).map(({ envelopes }) => envelopes)).toEqual(
      before.map(({ envelopes }) => envelopes),
    );
    const more = { ...stored, calls: [...stored.calls, search('s3')] };
    expect(ok(await retrieve(more, held())).outcome).toBe('stored');
    expect(await injected()).toHaveLength(2);
  });

  test('is held while another agent has a turn alive, and is given all the same', async () => {
    const { handle } = await log.open({ name: 'desk', agent: 'helper' });
    ok(
      await log
        .by(await start())
        .through(handle)
        .compile(),
    );
    const { outcome, results } = ok(await retrieve(stored, held()));
    expect([outcome, results[1]?.items.length]).toEqual(['held', 1]);
    expect(await injected()).toEqual([]);
  });

  test('is nothing where no message was found, or where only conversations were listed', async () => {
    for (const call of [search('nothing'), { tool: 'list_conversations', arguments: {} }]) {
      const packet = ok(await retrieve({ calls: [call], store: true }, held()));
      expect(packet).not.toHaveProperty('stored');
    }
    expect(await injected()).toEqual([]);
  });

  test('binds the session: it is quarantined once a message of it is revoked', async () => {
    ok(await retrieve(stored, held()));
    await acme.remove('conversations/shared/messages/s2');
    expect((await log.compile()).code).toBe('source_revoked');
  });

  test.each([
    ['neither', () => ''],
    ['no session', () => `?audience=${turn.grant.audienceHash}`],
    ['no audience', () => `?session=${turn.grant.sessionId}`],
  ])('needs a session and its audience: with %s nothing is given', async (_what, query) => {
    const refused = await retrieve(stored, query());
    expect([refused.status, refused.code]).toEqual([400, 'invalid_input']);
    expect(refused.body).not.toHaveProperty('results');
    const plain = await retrieve({ ...stored, store: false }, query());
    expect(plain.code).toBe(query() === '' ? undefined : 'invalid_input');
  });

  test('goes to no session of another destination or audience, nor to one that is not there', async () => {
    await acme.conversation('desk', ['ana'], { aiThread: true });
    await acme.say('desk', 'ana', 'go');
    const other = await acme.turn({ destination: 'desk', requester: 'ana', trigger: '1' });
    const { sessionId, audienceHash } = other.grant;
    for (const query of [
      held(sessionId),
      held(sessionId, audienceHash),
      held(turn.grant.sessionId, audienceHash),
      held('00000000-0000-4000-8000-000000000000'),
    ]) {
      const refused = await retrieve(stored, query);
      expect([refused.status, refused.code]).toEqual([404, 'session_not_yours']);
      expect(refused.body).not.toHaveProperty('results');
    }
    expect(await injected(logOf(gateway, other))).toEqual([]);
  });

  test.each([
    ['the log of its session', () => Promise.resolve(log)],
    ['a fork', () => log.fork('side')],
  ])('is not taken for unchanged in %s where it was edited on the way there', async (_what, of) => {
    const into = await of();
    const writer = await holdOpen(
      gateway,
      (sql) => sql`select 1 from earshot.log_heads where session_id = ${into.session} for update`,
    );
    const retrieving = retrieve(stored, held(into.session));
    await whenBlocked(gateway);
    await write('shared', 's1', 'other words', { editedAt: '2050-01-02T00:00:00Z' });
    await writer.commit();
    const answer = await retrieving;
    const compiled = await into.compile();
    expect([answer.code, compiled.code]).not.toEqual([undefined, undefined]);
  });
});

describe('a body that is sent as another type', () => {
  test.each(['text/plain', 'application/x-www-form-urlencoded', 'application/octet-stream'])(
    'is refused as %s, and not read as one without options',
    async (type) => {
      const headers = { 'content-type': type };
      const { token } = turn.grant;
      const at = `/v1/sessions/${log.session}`;
      const audience = `?audience=${turn.grant.audienceHash}`;
      const unit = { source: 'memory', parts: [{ text: 'words' }] };
      for (const [path, json] of [
        [`/v1/retrieve${held()}`, { calls: [search('s1')], store: true }],
        [`${at}/compile${audience}`, { injections: [unit] }],
        [`${at}/preview${audience}`, { budget: 0, injections: [unit] }],
        [`${at}/injections${audience}`, { injections: [unit] }],
      ] as const) {
        const body = JSON.stringify(json);
        const { status } = await gateway.send('POST', path, { token, headers, body });
        expect([path, status >= 400 && status < 500]).toEqual([path, true]);
      }
    },
  );

  test('is none where there is none', async () => {
    ok(await log.compile());
    ok(await log.preview());
  });
});
