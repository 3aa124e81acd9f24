import { randomUUID } from 'node:crypto';
import type { z } from '@hono/zod-openapi';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ReplayShape } from '../../gateway/shapes/replay-shape.ts';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';
import { bytesOf } from './explaining.ts';
import { trySave } from './planting.ts';
import { contentOf } from './stored.ts';

// A recorded decision, asked again on the facts of now.

type Replay = z.infer<typeof ReplayShape>;

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());
beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben', 'cleo']);
  await acme.say('thread', 'ana', 'a question');
  for (const id of ['n1', 'n2', 'n3']) await note(id, `the canary of ${id}`);
  turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
});

const note = (id: string, body: string, more: object = {}) =>
  acme.put(`conversations/notes/messages/${id}`, {
    ...{ author: { user: 'ben' }, body, sentAt: '2030-01-01T00:00:00Z', ...more },
  });

function ask(decision: string, token = gateway.tokens.operator, org = acme.name): Promise<Answer> {
  const path = `/v1/organizations/${org}/decisions/${decision}/replay`;
  return gateway.send('POST', path, { token });
}
const replay = async (decision: string, token?: string) => ok(await ask(decision, token)) as Replay;

/** The newest decision of a kind here. */
async function newest(kind: string): Promise<string> {
  const [row] = await gateway.owner<{ id: string }[]>`
    select d.id from earshot.decisions d join earshot.organizations o on o.id = d.org_id
    where o.external_id = ${acme.name} and d.kind = ${kind} order by d.decided_at desc limit 1`;
  return row?.id ?? '';
}

/** What the sources of a replay come to. */
const sourcesOf = ({ sources }: Replay) =>
  sources.map(({ conversation, seq, fromSeq, now, reasons }) => [
    `${conversation}/${seq ?? `from ${fromSeq ?? ''}`}`,
    now,
    ...reasons.map((reason) => reason.kind),
  ]);

async function read(): Promise<string> {
  return ok(await turn.tool('read', { conversation: 'notes' })).decision;
}

describe('a call of a tool', () => {
  test('is as it was while nothing changed, whatever became of the turn', async () => {
    const decision = await read();
    ok(await turn.end('complete'));
    const told = await replay(decision);
    expect(told).toMatchObject({
      of: { decision, kind: 'tool', tool: 'read', items: 3, turn: turn.id, destination: 'thread' },
      ...{ outcome: 'same', changes: [], complete: true, comparable: true },
      then: { verdict: 'allowed', mode: 'thread', policyRevision: '1' },
      now: { verdict: 'allowed', mode: 'thread', policyRevision: '1' },
      notRepeated: ['course'],
    });
    expect(told.now?.fingerprint).toBe(told.then.fingerprint);
    expect(sourcesOf(told)).toEqual(['1', '2', '3'].map((seq) => [`notes/${seq}`, 'shown']));
  });

  test('is told of each source that it showed: edited, deleted, below a floor, not read', async () => {
    const decision = await read();
    await note('n1', 'another', { editedAt: '2030-01-02T00:00:00Z' });
    await acme.remove('conversations/notes/messages/n2');
    const edited = await replay(decision);
    expect(edited).toMatchObject({
      outcome: 'changed',
      changes: [{ kind: 'sources', edited: 1, out: 1 }],
      now: { verdict: 'allowed' },
    });
    expect(sourcesOf(edited)).toEqual([
      ['notes/1', 'edited'],
      ['notes/2', 'out', 'deleted'],
      ['notes/3', 'shown'],
    ]);
    expect(edited.sources[0]).toMatchObject({ revision: '1', revisionNow: '2' });

    await acme.put('conversations/notes/members/ben', { history: { fromSeq: '3' } });
    const floored = await replay(decision);
    expect(sourcesOf(floored)[0]).toEqual(['notes/1', 'out', 'below_floor']);
    expect(floored.sources[0]?.reasons).toEqual([
      { kind: 'below_floor', readers: [{ kind: 'user', count: 1 }] },
    ]);
    await acme.remove('conversations/notes/members/ben');
    expect((await replay(decision)).sources[2]).toMatchObject({
      now: 'out',
      reasons: [{ kind: 'not_read', readers: [{ kind: 'user', count: 1 }] }],
    });
    await acme.remove('conversations/notes');
    expect(sourcesOf(await replay(decision))).toEqual(
      ['1', '2', '3'].map((seq) => [`notes/${seq}`, 'out', 'deleted']),
    );
  });

  test('is told who came, who went and whose floor moved by kind, and by name for who may see names', async () => {
    const decision = await read();
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    await acme.put('conversations/thread/members/ana', { history: { fromSeq: '1' } });
    await acme.put('conversations/thread/members/ben', { history: { fromSeq: '2' } });
    // What a floor hides of the turn's own message is another matter.
    await acme.put('conversations/thread/members/ben', { history: { fromSeq: '1' } });
    await acme.remove('conversations/thread/members/ben');
    const told = await replay(decision);
    const one = [{ kind: 'user', count: 1 }];
    expect(told.now).toMatchObject({ verdict: 'refused', code: 'audience_changed' });
    expect(told.changes).toEqual([
      {
        kind: 'verdict',
        then: { verdict: 'allowed' },
        now: { verdict: 'refused', code: 'audience_changed' },
      },
      { kind: 'audience', came: one, gone: one, floorsMoved: [] },
    ]);
    expect(JSON.stringify(told)).not.toMatch(/cleo|ben/);
    const names = await gateway.addCaller({ id: randomUUID(), scopes: ['operator', 'names'] });
    expect((await replay(decision, names)).changes).toContainEqual({
      kind: 'audience',
      came: [{ kind: 'user', count: 1, ids: ['cleo'] }],
      gone: [{ kind: 'user', count: 1, ids: ['ben'] }],
      floorsMoved: [],
    });
    await acme.put('conversations/thread', {
      ...{ kind: 'group', visibility: 'organization', aiThread: true, defaultFloor: '1' },
    });
    expect((await replay(decision)).changes).toContainEqual({
      kind: 'audience',
      came: [{ kind: 'class:organization', count: 1, ids: [''] }],
      gone: [{ kind: 'user', count: 2 }],
      floorsMoved: [],
    });
  });

  test('is told of mode, bound and policy, and of what ends a turn', async () => {
    const decision = await read();
    await acme.put('', { policyRevision: '2' });
    expect((await replay(decision)).changes).toEqual([
      {
        kind: 'verdict',
        then: { verdict: 'allowed' },
        now: { verdict: 'refused', code: 'policy_changed' },
      },
      { kind: 'policy_revision', then: '1', now: '2' },
    ]);
    await acme.facts({ fact: 'project', id: 'apollo', members: ['ana', 'ben'] });
    await acme.put('conversations/thread', {
      ...{ kind: 'group', visibility: 'members', aiThread: true, project: 'apollo' },
    });
    const bound = await replay(decision);
    expect(bound.now).toMatchObject({
      code: 'mode_changed',
      mode: 'project',
      projectBound: 'apollo',
    });
    expect(bound.changes).toContainEqual({ kind: 'mode', then: 'thread', now: 'project' });
    expect(bound.changes).toContainEqual({ kind: 'project_bound', now: 'apollo' });
    expect(sourcesOf(bound)[0]).toEqual(['notes/1', 'out', 'project_bound']);
    await acme.put('guard', { guard: 'paused' });
    const paused = await replay(decision);
    expect(paused.now).toMatchObject({ code: 'organization_paused' });
    expect(sourcesOf(paused)[0]).toEqual(['notes/1', 'out', 'turn_refused']);
  });

  test('that was refused for what has passed since is told as what it would be now', async () => {
    await acme.put('guard', { guard: 'paused' });
    const refused = await turn.tool('read', { conversation: 'notes' });
    expect(refused.code).toBe('organization_paused');
    const decision = await newest('tool');
    expect(await replay(decision)).toMatchObject({
      outcome: 'same',
      then: { code: 'organization_paused' },
    });
    await acme.put('guard', { guard: 'running' });
    expect((await replay(decision)).changes).toEqual([
      {
        kind: 'verdict',
        then: { verdict: 'refused', code: 'organization_paused' },
        now: { verdict: 'allowed' },
      },
    ]);
    ok(await turn.end('complete'));
    expect((await turn.tool('read', { conversation: 'notes' })).code).toBe('turn_not_running');
    expect(await replay(await newest('tool'))).toMatchObject({
      ...{ outcome: 'same', comparable: false, now: { verdict: 'allowed' } },
    });
    const other = await acme.turn({
      ...{ destination: 'thread', requester: 'ana', trigger: '1', tools: ['read'] },
    });
    expect((await other.tool('search', { query: 'canary' })).code).toBe('tool_not_allowed');
    const told = await replay(await newest('tool'));
    expect(told).toMatchObject({ outcome: 'same', now: { code: 'tool_not_allowed' } });
    expect(told.then).toMatchObject({ mode: 'thread' });
    expect(told.notRepeated).toEqual(['query', 'course']);
  });
});

describe('other decisions of a turn', () => {
  test('are told as well: that it was opened, a grant, a packet, a call of its session', async () => {
    expect(await replay(await newest('open'))).toMatchObject({
      ...{ outcome: 'same', sources: [], notRepeated: [], then: { mode: 'thread' } },
    });
    const mint = await newest('mint');
    expect(sourcesOf(await replay(mint))).toEqual([['thread/from 1', 'shown']]);
    ok(
      await gateway.send('POST', `/v1/retrieve`, {
        token: turn.grant.token,
        json: { calls: [{ tool: 'search', arguments: { query: 'canary' } }] },
      }),
    );
    const packet = await replay(await newest('tool'));
    expect(packet).toMatchObject({ of: { tool: 'retrieve' }, notRepeated: ['query', 'course'] });
    expect(packet.sources).toHaveLength(3);
    await acme.conversation('more', ['ana', 'ben']);
    await acme.say('more', 'ben', 'a word');
    const log = logOf(gateway, turn);
    await log.append({ ...entry(text('x')), sources: [{ conversation: 'more', seq: '1' }] });
    const call = await newest('session');
    expect(sourcesOf(await replay(call))).toEqual([['more/1', 'shown']]);
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    const after = await replay(call);
    expect(after).toMatchObject({ outcome: 'changed', now: { code: 'audience_changed' } });
    expect(after.sources[0]).toMatchObject({ reasons: [{ kind: 'not_read' }] });
    for (const decision of [mint, await newest('open')])
      expect((await replay(decision)).outcome).toBe('changed');
  });

  test('that are steps, requests or acts are told not to be judged again', async () => {
    ok(await turn.end('complete'));
    await acme.put('stops/persona/other', {});
    ok(
      await gateway.send(
        'GET',
        `/v1/explain?organization=${acme.name}&destination=thread&source=notes&requester=ana&persona=assistant`,
        { token: gateway.tokens.operator },
      ),
    );
    expect(
      (await acme.openTurn({ destination: 'none', requester: 'ana', trigger: '1' })).code,
    ).toBe('not_found');
    for (const [kind, why] of [
      ['lease', 'course'],
      ['complete', 'course'],
      ['stop set', 'act'],
      ['explain', 'request_not_kept'],
      ['open', 'request_not_kept'],
      ['replay', 'request_not_kept'],
    ] as const) {
      const told = await replay(await newest(kind));
      expect([told.of.kind, told.outcome, told.why]).toEqual([kind, 'not_judged', why]);
      expect(told).not.toHaveProperty('now');
    }
  });
});

describe('a delivery', () => {
  beforeEach(async () => {
    await read();
  });

  test('is judged again by what it was made from, whatever became of it', async () => {
    const delivery = ok(await turn.propose('It sang.'));
    const propose = await newest('propose');
    ok(await acme.release(delivery));
    const release = await newest('release');
    ok(await acme.acknowledge(delivery, 'delivered'));
    for (const decision of [propose, release]) {
      const told = await replay(decision);
      expect(told).toMatchObject({
        ...{ outcome: 'same', then: { verdict: 'allowed' }, now: { verdict: 'allowed' } },
        of: { delivery: delivery.id, destination: 'thread' },
      });
      expect(sourcesOf(told).map(([name, now]) => [name, now])).toEqual([
        ['notes/1', 'shown'],
        ['notes/2', 'shown'],
        ['notes/3', 'shown'],
        ['thread/from 1', 'shown'],
      ]);
    }
    expect((await replay(release)).notRepeated).toEqual(['course', 'shown_readers']);

    await note('n1', 'another', { editedAt: '2030-01-02T00:00:00Z' });
    expect((await replay(propose)).changes).toEqual([
      {
        kind: 'verdict',
        then: { verdict: 'allowed' },
        now: { verdict: 'refused', code: 'source_changed' },
      },
      { kind: 'sources', edited: 1, out: 0 },
    ]);
    await acme.remove('conversations/notes/messages/n1');
    expect((await replay(release)).now).toMatchObject({ code: 'source_revoked' });
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    expect((await replay(release)).now).toMatchObject({ code: 'audience_changed' });
  });

  test('to another place is judged by that place', async () => {
    await acme.conversation('room', ['ana', 'ben', 'cleo']);
    const held = ok(await turn.propose('It sang.', { destination: 'room' }));
    expect(held.code).toBe('source_revoked');
    const propose = await newest('propose');
    const told = await replay(propose);
    expect(told).toMatchObject({
      ...{ outcome: 'same', of: { destination: 'room' }, now: { code: 'source_revoked' } },
    });
    expect(told.sources.at(-1)).toMatchObject({
      ...{ conversation: 'thread', now: 'out' },
      reasons: [{ kind: 'not_read', readers: [{ kind: 'user', count: 1 }] }],
    });
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    await acme.remove('conversations/room/members/cleo');
    await acme.remove('conversations/thread/members/cleo');
    const now = await replay(propose);
    expect(now.now).toMatchObject({ verdict: 'allowed' });
    // Nobody listed who read the room then.
    expect(now.changes).toContainEqual({ kind: 'audience' });
  });

  test('that waits for an approval and gets one is told like a release', async () => {
    const delivery = ok(await turn.propose('It sang.', { approval: true }));
    ok(
      await gateway.send('POST', `/v1/deliveries/${delivery.id}/approve`, {
        token: gateway.tokens.operator,
        json: { organization: acme.name, payloadSha256: delivery.payloadSha256 },
      }),
    );
    const approve = await newest('approve');
    expect((await replay(approve)).outcome).toBe('same');
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    expect((await replay(approve)).now).toMatchObject({ code: 'audience_changed' });
  });
});

describe('an artifact', () => {
  test('that a turn saved is judged again by all that it was made from', async () => {
    await read();
    const { decision } = ok(await trySave(gateway, turn, 'It sang.'));
    const same = await replay(decision);
    expect(same).toMatchObject({
      ...{ outcome: 'same', of: { kind: 'artifact' }, now: { verdict: 'allowed' } },
    });
    expect(same.sources).toHaveLength(4);
    await note('n1', 'another', { editedAt: '2030-01-02T00:00:00Z' });
    expect((await replay(decision)).changes).toEqual([
      {
        kind: 'verdict',
        then: { verdict: 'allowed' },
        now: { verdict: 'refused', code: 'source_changed' },
      },
      { kind: 'sources', edited: 1, out: 0 },
    ]);
    // What was made of it goes by it, and what is behind it by its own place.
    const second = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
    const { artifact } = (await replay(decision)).of;
    ok(await gateway.send('GET', `/v1/artifacts/${artifact ?? ''}`, { token: second.grant.token }));
    const of = await newest('tool');
    expect((await replay(of)).sources).toMatchObject([
      { type: 'artifact', artifact, now: 'shown' },
    ]);
    await acme.remove('conversations/notes/members/ben');
    expect((await replay(of)).sources).toMatchObject([
      { now: 'out', reasons: [{ kind: 'lineage' }] },
    ]);
    await acme.remove('conversations/notes/messages/n2');
    expect((await replay(of)).sources).toMatchObject([
      { now: 'out', reasons: [{ kind: 'deleted' }] },
    ]);
  });

  test('that a caller registered is for nobody in particular: its sources are told, as they are', async () => {
    ok(
      await gateway.send('POST', `/v1/organizations/${acme.name}/artifacts`, {
        ...{ token: gateway.tokens.ingest, key: randomUUID() },
        json: {
          ...{ kind: 'memory', text: 'It sang.' },
          sources: ['1', '2'].map((seq) => ({ conversation: 'notes', seq })),
        },
      }),
    );
    await note('n1', 'another', { editedAt: '2030-01-02T00:00:00Z' });
    const told = await replay(await newest('artifact'));
    expect(told).toMatchObject({ outcome: 'not_judged', why: 'assertion' });
    expect(sourcesOf(told)).toEqual([
      ['notes/1', 'edited'],
      ['notes/2', 'kept'],
    ]);
  });
});

describe('a replay', () => {
  test('changes nothing but its own record, which names what it was of and nobody', async () => {
    const decision = await read();
    const before = await contentOf(gateway.owner);
    const told = await replay(decision);
    const after = await contentOf(gateway.owner);
    expect(Object.keys(before).filter((table) => before[table] !== after[table])).toEqual([
      'decisions',
    ]);
    const [row] = await gateway.owner`
      select kind, verdict, turn_id, detail from earshot.decisions where id = ${told.decision}`;
    expect(row).toEqual({
      ...{ kind: 'replay', verdict: 'allowed', turn_id: turn.id },
      detail: { of: decision, kind: 'tool' },
    });
  });

  test('is for operators of the organization and of the persona; what is not theirs is not there', async () => {
    const decision = await read();
    for (const token of [gateway.tokens.bridge, gateway.tokens.ingest, turn.grant.token])
      expect((await ask(decision, token)).status).toBeGreaterThanOrEqual(400);
    const abroad = await gateway.addCaller({
      ...{ id: randomUUID(), scopes: ['operator'], personas: ['other'] },
    });
    const foreign = await ask(decision, abroad);
    expect(foreign.code).toBe('not_found');
    expect(bytesOf(foreign)).toBe(bytesOf(await ask(randomUUID(), abroad)));
    const other = await gateway.organization();
    expect((await ask(decision, gateway.tokens.operator, other.name)).code).toBe('not_found');
    expect((await ask('no-decision')).code).toBe('invalid_input');
  });

  test('tells no text', async () => {
    const decision = await read();
    await acme.remove('conversations/notes/messages/n1');
    expect(JSON.stringify(await replay(decision))).not.toContain('canary');
  });
});
