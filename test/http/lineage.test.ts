import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Delivery } from '../support/organization.ts';
import {
  artifactHouse,
  TEXT,
  type ArtifactHouse,
  type Lineage,
  type Saved,
} from './artifact-house.ts';

// Where a text came from and where it went, for those who have to repair it.

let gateway: TestGateway;
let house: ArtifactHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());
beforeEach(async () => {
  house = await artifactHouse(gateway);
});

const message = (seq: string, more: object = {}) => ({
  ...{
    type: 'message',
    conversation: 'notes',
    seq,
    revision: '1',
    state: 'live',
    inherited: false,
  },
  ...more,
});
const stretch = (conversation: string) => ({
  ...{ type: 'stretch', conversation, fromSeq: '1', state: 'live', inherited: false },
});

/** A memory of the notes, a draft made from it in another thread, and an answer there that was delivered. */
async function chain(): Promise<{ first: Saved; second: Saved; delivery: Delivery }> {
  const first = await house.saveNotes();
  const turn = await house.start('second');
  ok(await house.read(turn, first.id));
  const second = await house.save(turn, { kind: 'draft', title: 'It sang', text: 'A canary.' });
  const delivery = ok(await turn.propose('The canary sang.'));
  ok(await house.acme.release(delivery));
  ok(await house.acme.acknowledge(delivery, 'delivered', 'a1'));
  return { first, second, delivery };
}

describe('the lineage of an artifact', () => {
  test('tells its sources, what was made from it and where that went, and no text', async () => {
    const { first, second, delivery } = await chain();
    const told = await house.lineage(first.id);
    expect(told).toEqual({
      ...{ decision: expect.any(String) as string, at: expect.any(String) as string },
      artifact: {
        ...{ id: first.id, kind: 'memory', conversation: 'thread', state: 'live', asserted: false },
        ...{ persona: 'assistant', textSha256: first.textSha256, createdAt: first.createdAt },
      },
      stale: false,
      sources: [message('1'), message('2'), stretch('thread')],
      derived: [
        {
          ...{ artifact: second.id, kind: 'draft', conversation: 'second', how: 'direct' },
          ...{ state: 'live', stale: false, asserted: false, at: second.createdAt },
        },
      ],
      deliveries: [
        {
          ...{ id: delivery.id, destination: 'second', how: 'direct', status: 'delivered' },
          ...{ at: expect.any(String) as string, message: 'a1' },
        },
      ],
      complete: true,
    });
    const [of] = [await house.lineage(second.id)];
    expect(of.sources).toEqual([
      stretch('second'),
      stretch('thread'),
      {
        ...{ type: 'artifact', conversation: 'thread', artifact: first.id, revision: '1' },
        ...{ state: 'live', stale: false, inherited: false },
      },
      ...['1', '2'].map((seq) => {
        const { revision: _revision, ...inherited } = message(seq, { inherited: true });
        return inherited;
      }),
    ]);
    for (const text of [TEXT, 'A canary.', 'It sang', 'canary']) {
      expect(JSON.stringify([told, of])).not.toContain(text);
    }
  });

  test('says what became of each source, and what is stale by it at any remove', async () => {
    const { first, second } = await chain();
    await house.write('notes', 'n2', 'it was not loud');
    const told = await house.lineage(first.id);
    expect(told.stale).toBe(true);
    expect(told.sources).toEqual([
      message('1'),
      message('2', { state: 'edited' }),
      stretch('thread'),
    ]);
    expect(told.derived).toMatchObject([{ artifact: second.id, state: 'live', stale: true }]);
    const after = await house.lineage(second.id);
    expect(after.stale).toBe(true);
    expect(after.sources.find(({ type }) => type === 'artifact')).toMatchObject({ stale: true });
  });

  test('outlives a source that is deleted, and its own text', async () => {
    const { first, second, delivery } = await chain();
    await house.acme.remove('conversations/notes/messages/n1');
    const told = await house.lineage(first.id);
    expect(told).toMatchObject({ stale: true, artifact: { state: 'deleted' } });
    expect(told.sources).toEqual([
      message('1', { state: 'deleted' }),
      message('2'),
      stretch('thread'),
    ]);
    expect(told.derived).toMatchObject([{ artifact: second.id, state: 'deleted', stale: true }]);
    expect(told.deliveries).toMatchObject([
      { id: delivery.id, status: 'delivered', message: 'a1' },
    ]);
    expect(await house.lineage(second.id)).toMatchObject({
      stale: true,
      sources: expect.arrayContaining([
        expect.objectContaining({ type: 'artifact', state: 'deleted' }) as object,
        expect.objectContaining({ seq: '1', state: 'deleted', inherited: true }) as object,
      ]) as object[],
    });
  });

  test('of an artifact that was deleted makes what was made from it stale', async () => {
    const { first, second } = await chain();
    ok(await house.remove(first.id));
    expect(await house.lineage(second.id)).toMatchObject({ stale: true });
  });

  test('of a whole conversation is stale once that is deleted', async () => {
    const { id } = await house.assert([{ conversation: 'notes', fromSeq: '1' }]);
    expect(await house.lineage(id)).toMatchObject({
      ...{ stale: false, sources: [stretch('notes')], artifact: { asserted: true } },
    });
    await house.acme.remove('conversations/notes');
    expect(await house.lineage(id)).toMatchObject({
      ...{ stale: true, sources: [{ ...stretch('notes'), state: 'deleted' }] },
    });
  });
});

describe('the lineage of a message', () => {
  test('tells everything made from it, at whatever remove, and where that went', async () => {
    const { first, second, delivery } = await chain();
    const told = await house.lineageOf('notes', '1');
    expect(told.message).toEqual({
      ...{ conversation: 'notes', seq: '1', id: 'n1', state: 'live', revision: '1' },
    });
    expect(told).not.toHaveProperty('stale');
    expect(told.sources).toEqual([]);
    expect(told.derived.map(({ artifact, how }) => [artifact, how])).toEqual([
      [second.id, 'inherited'],
      [first.id, 'direct'],
    ]);
    expect(told.deliveries.map(({ id, how, message: became }) => [id, how, became])).toEqual([
      [delivery.id, 'inherited', 'a1'],
    ]);
  });

  test('tells of what only had its conversation before it', async () => {
    const { second } = await chain();
    const told = await house.lineageOf('second', '1');
    expect(told.derived.map(({ artifact, how }) => [artifact, how])).toEqual([
      [second.id, 'stretch'],
    ]);
    expect(told.deliveries.map(({ how }) => how)).toEqual(['stretch']);
  });

  test('of an answer tells what the answer was made from', async () => {
    const { first, delivery } = await chain();
    const author = { author: { persona: 'assistant' } };
    await house.write('second', 'a1', 'The canary sang.', author);
    const told = await house.lineageOf('second', '2');
    expect(told.message).toMatchObject({ id: 'a1', delivery: delivery.id });
    expect(told.sources.map(({ artifact }) => artifact)).toContain(first.id);
  });

  test('tells how each delivery stands', async () => {
    const turn = await house.start();
    ok(await turn.tool('read', { conversation: 'notes' }));
    const held = ok(await turn.propose('To the room.', { destination: 'room' }));
    const cleared = ok(await turn.propose('To the thread.'));
    const released = ok(await turn.propose('To be reconciled.'));
    ok(await house.acme.release(released));
    const standing = async () =>
      new Map(
        (await house.lineageOf('notes', '1')).deliveries.map(({ id, status }) => [id, status]),
      );
    expect(await standing()).toEqual(
      new Map([
        [held.id, 'held'],
        [cleared.id, 'cleared'],
        [released.id, 'released'],
      ]),
    );
    await gateway.owner`update earshot.deliveries set acknowledge_by = now() where id = ${released.id}`;
    expect((await standing()).get(released.id)).toBe('reconciling');
  });

  test('keeps apart the messages of one sequence in two conversations', async () => {
    await chain();
    const told = await house.lineageOf('board', '1');
    expect([told.derived, told.deliveries]).toEqual([[], []]);
  });
});

describe('it is told', () => {
  const path = (what: string, organization = house.acme.name) =>
    `/v1/${what}${what.includes('?') ? '&' : '?'}organization=${organization}`;
  const ask = (what: string, token: string, organization?: string) =>
    gateway.send('GET', path(what, organization), { token });
  const questions = (id: string) => [`artifacts/${id}/lineage`, 'lineage?conversation=notes&seq=1'];

  test('to operators and ingest callers of the organization, and to nobody else', async () => {
    const { first } = await chain();
    const { bridge, deliver, ingest, operator } = gateway.tokens;
    const { grant } = await house.start();
    const abroad = { id: `o-${house.acme.name}`, organizations: ['another'] };
    const stranger = await gateway.addCaller({ ...abroad, scopes: ['operator', 'ingest'] });
    for (const question of questions(first.id)) {
      for (const token of [operator, ingest]) expect((await ask(question, token)).status).toBe(200);
      for (const [token, code] of [
        [bridge, 'not_permitted'],
        [deliver, 'not_permitted'],
        [stranger, 'not_permitted'],
        [grant.token, 'malformed_token'],
      ] as const) {
        expect((await ask(question, token)).code).toBe(code);
      }
    }
  });

  test('of nothing that is not there, in another organization either', async () => {
    const { first } = await chain();
    const { operator } = gateway.tokens;
    const other = await gateway.organization();
    for (const question of questions(first.id)) {
      expect((await ask(question, operator, other.name)).code).toBe('not_found');
      expect((await ask(question, operator, 'no-such-organization')).code).toBe('not_found');
    }
    for (const question of [
      `artifacts/${randomUUID()}/lineage`,
      'lineage?conversation=notes&seq=9',
      'lineage?conversation=nowhere&seq=1',
    ]) {
      expect((await ask(question, operator)).code).toBe('not_found');
    }
    for (const question of ['lineage?conversation=notes&seq=0', 'lineage?conversation=notes']) {
      expect((await ask(question, operator)).code).toBe('invalid_input');
    }
  });

  test('without what is of a persona that the caller is not registered for', async () => {
    const { first } = await chain();
    const asserted = await house.assert([{ conversation: 'notes', seq: '1' }]);
    const another = { id: `p-${house.acme.name}`, personas: ['another'] };
    const token = await gateway.addCaller({ ...another, scopes: ['operator'] });
    const [ofArtifact = '', ofMessage = ''] = questions(first.id);
    expect((await ask(ofArtifact, token)).code).toBe('not_found');
    const told = ok(await ask(ofMessage, token)) as Lineage;
    expect(told.derived.map(({ artifact }) => artifact)).toEqual([asserted.id]);
    expect(told.deliveries).toEqual([]);
    const whole = ok(await ask(ofMessage, gateway.tokens.operator)) as Lineage;
    expect([whole.derived.length, whole.deliveries.length]).toEqual([3, 1]);
  });

  test('up to a thousand of each, and that there are more', async () => {
    const { first } = await chain();
    await gateway.owner`
      insert into earshot.artifacts (org_id, conversation_id, seq, id, kind, body, body_sha256, content_type, asserted,
        created_at, client_id, idempotency_key, request_digest, terms)
      select a.org_id, a.conversation_id, -n, gen_random_uuid(), 'note', 'n', a.body_sha256, 'text/plain', true,
        now(), 'many', n::text, '', ''
      from earshot.artifacts a cross join generate_series(1, 1000) n where a.id = ${first.id}`;
    await gateway.owner`
      insert into earshot.lineage (org_id, derived_id, conversation_id, from_seq, to_seq, revision)
      select m.org_id, a.id, m.conversation_id, m.seq, m.seq, 1 from earshot.artifacts a
      join earshot.conversations c on c.org_id = a.org_id and c.external_id = 'notes'
      join earshot.messages m on m.org_id = a.org_id and m.conversation_id = c.id and m.seq = 1
      where a.client_id = 'many'
        and a.org_id = (select id from earshot.organizations where external_id = ${house.acme.name})`;
    const told = await house.lineageOf('notes', '1');
    expect([told.derived.length, told.complete]).toEqual([1000, false]);
    expect((await house.lineageOf('notes', '2')).complete).toBe(true);
  });

  test('and is on record, with how much it was and not what', async () => {
    const { first } = await chain();
    const { decision } = await house.lineage(first.id);
    await ask(`artifacts/${randomUUID()}/lineage`, gateway.tokens.operator);
    const rows = await gateway.owner`
      select id, verdict, code, items, octet_length(subject_sha256) as digest, detail from earshot.decisions
      where kind = 'lineage' and org_id = (select id from earshot.organizations where external_id = ${house.acme.name})
      order by decided_at`;
    expect(rows).toEqual([
      { id: decision, verdict: 'allowed', code: null, items: 1, digest: 32, detail: null },
      {
        ...{ id: expect.any(String) as string, verdict: 'refused', code: 'not_found' },
        ...{ items: null, digest: 32, detail: null },
      },
    ]);
  });
});
