import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text } from '../support/log.ts';
import type { TestOrganization } from '../support/organization.ts';
import { said } from '../sessions/injection-house.ts';
import { newCanary, placesOf, plant, trySave, type Planted } from './planting.ts';

// What is deleted is gone wherever the gateway held it, and what stays says nothing of it.

let gateway: TestGateway;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

const EVERYWHERE = {
  ...{ messages: 1, open_postings: 1, artifacts: 2, deliveries: 6, late_messages: 1 },
  // Two revisions of one entry, two more and an injection; the fork has what was not injected, at its last revision.
  ...{ log_entries: 8, log_mail: 1, log_summaries: 4 },
};
const LATE = { late_messages: 1 };

/** What is left of all that was planted, without the text. */
async function kept({ turn, cleared, artifacts }: Planted) {
  const { owner } = gateway;
  const of = turn.grant.sessionId;
  return {
    decisions: await owner`
      select id, kind, verdict, code, subject_sha256, detail from earshot.decisions
      where turn_id = ${turn.id} and kind <> 'erase' order by decided_at, id`,
    delivery: await owner`
      select payload_sha256, audience_hash, idempotency_key from earshot.deliveries where id = ${cleared.id}`,
    artifacts: await owner`
      select seq, body_sha256, kind from earshot.artifacts where id in ${owner([...artifacts])} order by seq`,
    lineage: await owner`
      select * from earshot.lineage where derived_id in ${owner([...artifacts, cleared.id])} order by 1, 2, 3, 4`,
    entries: await owner`
      select position, revision, id, change, superseded_by, role, participant, jsonb_array_length(blocks) as blocks, content_hash
      from earshot.log_entries where session_id = ${of} order by position, revision`,
    sources: await owner`
      select position, revision, block, conversation_id, seq from earshot.log_sources where session_id = ${of} order by 1, 2, 3`,
    summaries: await owner`
      select id, level, positions from earshot.log_summaries where session_id = ${of} order by nth`,
    ledger:
      await owner`select * from earshot.ledger_entries where session_id = ${of} order by 3, 4`,
  };
}

describe('a message that is deleted', () => {
  test('leaves none of its text anywhere, and all that says nothing of it', async () => {
    const planted = await plant(gateway);
    const { acme, canary, cleared, queued } = planted;
    expect(await placesOf(gateway, canary)).toEqual(EVERYWHERE);
    const before = await kept(planted);

    await acme.remove('conversations/board/messages/m1');
    expect(await placesOf(gateway, canary)).toEqual(LATE);
    await acme.remove('conversations/kept/messages/late');
    expect(await placesOf(gateway, canary)).toEqual({});
    expect(await kept(planted)).toEqual(before);
    expect(await deliveryOf(cleared.id)).toEqual({
      ...{ status: 'held', code: 'source_revoked', payload: null },
    });
    expect((await acme.release(cleared)).code).toBe('source_revoked');
    for (const [was, id] of Object.entries(queued)) {
      expect(await deliveryOf(id)).toEqual({
        ...(was === 'released'
          ? { status: 'released', code: null }
          : { status: 'held', code: 'source_revoked' }),
        payload: null,
      });
    }
    expect(await acme.claim()).toEqual([]);
  });

  test('does so whoever deletes it, by a line of facts or past the gateway', async () => {
    for (const remove of [
      ({ acme }: Planted) =>
        acme.facts({
          ...{ fact: 'message', conversation: 'board', id: 'm1', deleted: true },
          ...{ body: '', sentAt: '2030-01-01T00:00:00Z' },
        }),
      ({ acme }: Planted) => gateway.owner`
        update earshot.messages m set state = 'deleted' from earshot.organizations o
        where o.id = m.org_id and o.external_id = ${acme.name} and m.external_id = 'm1'`,
      ({ acme }: Planted) => acme.remove('conversations/board'),
      ({ acme }: Planted) => gateway.owner`
        update earshot.conversations c set deleted = true from earshot.organizations o
        where o.id = c.org_id and o.external_id = ${acme.name} and c.external_id = 'board'`,
    ]) {
      const planted = await plant(gateway);
      await remove(planted);
      expect(await placesOf(gateway, planted.canary)).toEqual(LATE);
    }
  });

  test('takes out of an entry the blocks that came from it, and what holds them too', async () => {
    const { acme, canary, log, entries } = await plant(gateway);
    await acme.remove('conversations/board/messages/m1');
    const [row] = await gateway.owner<{ blocks: unknown }[]>`
      select blocks from earshot.log_entries where session_id = ${log.session} and id = ${entries[1] ?? ''}`;
    expect(row?.blocks).toEqual([
      text('of somebody else'),
      { type: 'tool_call', id: 'call', name: 'look', arguments: {} },
      { type: 'tool_result', call: 'call', content: [text('[erased]')] },
      { type: 'thinking', text: '[erased]' },
      text('[erased]'),
    ]);
    expect(JSON.stringify(row)).not.toContain(canary);
  });

  test('is on record with how much it was, and each answer that it holds back', async () => {
    const { acme, cleared } = await plant(gateway);
    await acme.remove('conversations/board/messages/m1');
    const records = await gateway.owner`
      select d.verdict, d.code, d.delivery_id, d.detail, d.items > 0 as some from earshot.decisions d
      join earshot.organizations o on o.id = d.org_id where o.external_id = ${acme.name} and d.kind = 'erase'`;
    expect(records).toContainEqual({
      ...{
        verdict: 'allowed',
        code: null,
        delivery_id: null,
        detail: { of: 'message' },
        some: true,
      },
    });
    expect(records).toContainEqual({
      ...{ verdict: 'refused', code: 'source_revoked', delivery_id: cleared.id, some: null },
      detail: { by: 'gateway' },
    });
  });

  test('takes what the turn that it started made, and what waits of it', async () => {
    const acme = await thread();
    const canary = newCanary();
    await acme.put('conversations/thread/messages/ask', {
      ...{ author: { user: 'ana' }, body: canary, sentAt: '2030-01-01T00:00:00Z' },
    });
    const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '2' });
    const cleared = ok(await turn.propose(canary));
    ok(await trySave(gateway, turn, canary));
    expect(await placesOf(gateway, canary)).toEqual({ messages: 1, deliveries: 1, artifacts: 1 });
    await acme.remove('conversations/thread/messages/ask');
    expect(await placesOf(gateway, canary)).toEqual({});
    expect((await acme.release(cleared)).code).toBe('trigger_out_of_scope');
  });

  test('takes the text of an answer that was delivered, before or after, until something else made it', async () => {
    const acme = await thread();
    const canary = newCanary();
    await acme.say('notes', 'ben', `the ${canary}`);
    await acme.put('conversations/notes/messages/gone', {
      ...{ author: { user: 'ben' }, body: canary, sentAt: '2030-01-01T00:00:00Z' },
    });
    const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
    ok(await turn.tool('read', { conversation: 'notes', fromSeq: '2' }));
    const answer = (id: string, body: string) =>
      acme.put(`conversations/thread/messages/${id}`, {
        ...{ author: { persona: 'assistant' }, body, sentAt: '2030-01-02T00:00:00Z' },
      });
    const deliver = async (payload: string) => {
      const delivery = ok(await turn.propose(payload));
      ok(await acme.release(delivery));
      return delivery;
    };
    const [before, late] = [await deliver(`${canary} before`), await deliver(`${canary} late`)];
    await answer('before', `${canary} before`);
    ok(await acme.acknowledge(before, 'delivered', 'before'));
    ok(await acme.acknowledge(late, 'delivered', 'late'));

    await acme.remove('conversations/notes/messages/gone');
    await answer('late', `${canary} late`);
    await answer('before', `${canary} again`);
    // The message that nobody deleted is left.
    expect(await placesOf(gateway, canary)).toEqual({ messages: 1 });
  });

  test('takes no other text: of the same conversation, turn or log', async () => {
    const { acme, log, turn } = await plant(gateway);
    const [other, made] = [newCanary(), newCanary()];
    await acme.say('notes', 'ben', other);
    await log.append({
      ...entry(text(`${other} noted`)),
      sources: [{ conversation: 'notes', seq: '2' }],
    });
    const elsewhere = await acme.turn({
      destination: 'thread',
      requester: 'ana',
      trigger: '1',
      threadKey: 'x',
    });
    ok(await elsewhere.tool('read', { conversation: 'notes' }));
    ok(await elsewhere.propose(made));
    await acme.remove('conversations/board/messages/m1');
    expect(await placesOf(gateway, other)).toEqual({ messages: 1, log_entries: 1 });
    expect(await placesOf(gateway, made)).toEqual({ deliveries: 1 });
    expect((await turn.propose(made)).body.code).toBe('source_revoked');
  });

  test('is not written again by whoever saw it before', async () => {
    const { acme, canary, log, entries } = await plant(gateway);
    const [from = '', to = ''] = entries;
    const { state } = ok(await log.summaryInput(from, to));
    await acme.remove('conversations/board/messages/m1');
    const sources = [{ conversation: 'board', seq: '1' }];
    const tried = [
      await log.tryAppend([{ ...entry(text(canary)), sources }]),
      await log.edit(from, '2', [text(canary)]),
      await log.trySummarize({ from, to, ...(state !== undefined && { state }), text: canary }),
      await log.inject({ source: 'memory', parts: [{ text: canary, sources }] }),
    ];
    expect(tried.map(({ code }) => code)).toEqual([
      'not_found',
      'conflict',
      'conflict',
      'not_found',
    ]);
    expect(await placesOf(gateway, canary)).toEqual(LATE);
  });
});

describe('a user who is deleted', () => {
  test('leaves neither name nor word, wherever it was said', async () => {
    const planted = await plant(gateway);
    const { acme, canary, log } = planted;
    await acme.put('users/ben', { kind: 'member', name: canary });
    await log.append(said(`${canary} of nowhere`, 'ben'));
    const before = await kept(planted);
    expect(await placesOf(gateway, canary)).toEqual({
      ...{ ...EVERYWHERE, log_entries: EVERYWHERE.log_entries + 1, users: 1 },
    });
    await acme.remove('users/ben');
    expect(await placesOf(gateway, canary)).toEqual({});
    expect(await kept(planted)).toEqual(before);
  });

  test('does so past the gateway, and however much it is, like a conversation', async () => {
    const acme = await thread();
    const canary = newCanary();
    const many = Array.from({ length: 1200 }, (_, nth) => ({
      ...{ fact: 'message', conversation: nth % 2 === 0 ? 'thread' : 'notes', id: `m${nth}` },
      ...{ author: { user: 'ben' }, body: canary, sentAt: '2030-01-01T00:00:00Z' },
    }));
    await acme.facts(...many);
    expect(await placesOf(gateway, canary)).toEqual({ messages: 1200 });
    await acme.remove('conversations/notes');
    expect(await placesOf(gateway, canary)).toEqual({ messages: 600 });
    await gateway.owner`
      update earshot.users u set deleted = true, status = 'deactivated' from earshot.organizations o
      where o.id = u.org_id and o.external_id = ${acme.name} and u.external_id = 'ben'`;
    expect(await placesOf(gateway, canary)).toEqual({});
  });

  test('is gone from a log that goes on, and from what is written about it there', async () => {
    const acme = await thread();
    const canary = newCanary();
    const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
    const log = logOf(gateway, turn);
    const [first = '', last = ''] = await log.append(said(canary, 'ben'), said('an answer', 'ana'));
    const { state } = ok(await log.summaryInput(first, last));
    await log.summarize({ from: first, to: last }, `${canary} in short`);
    await acme.remove('users/ben');
    expect(await placesOf(gateway, canary)).toEqual({});
    // The audience has changed, and with it the session; the log itself stands.
    const [after] = await gateway.owner<{ texts: string[] }[]>`
      select array(select e.blocks -> 0 ->> 'text' from earshot.log_entries e
        where e.session_id = ${log.session} order by e.position) as texts`;
    expect(after?.texts).toEqual(['[erased]', 'an answer']);
    expect(state).toBeDefined();
  });

  test('says nothing any more that is kept: in a conversation, late, or in a log', async () => {
    const acme = await thread();
    const canary = newCanary();
    await acme.users('cleo');
    await acme.remove('users/cleo');
    const message = { author: { user: 'cleo' }, body: canary, sentAt: '2030-01-01T00:00:00Z' };
    expect(await acme.put('conversations/notes/messages/new', message)).toEqual({
      outcome: 'gone',
      seq: '1',
    });
    expect(await acme.put('conversations/notes/messages/new', message)).toMatchObject({
      outcome: 'gone',
    });
    await acme.put('conversations/thread/members/ana', { history: { fromSeq: '2' } });
    const early = { ...message, sentAt: '2001-01-01T00:00:00Z' };
    expect(await acme.put('conversations/thread/messages/early', early)).toEqual({
      outcome: 'gone',
    });
    await acme.put('conversations/thread/members/ana', { history: { fromSeq: '1' } });
    const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
    expect((await logOf(gateway, turn).tryAppend([said(canary, 'cleo')])).code).toBe('conflict');
    expect(await placesOf(gateway, canary)).toEqual({});
  });
});

describe('an organization that is deleted', () => {
  const erase = (name: string, confirm?: string, token = gateway.tokens.operator) =>
    gateway.send(
      'DELETE',
      `/v1/organizations/${name}${confirm === undefined ? '' : `?confirm=${confirm}`}`,
      { token },
    );

  test('is suspended and empty: ids, hashes and decisions stay', async () => {
    const planted = await plant(gateway);
    const { acme, canary, log } = planted;
    await acme.put('users/ana', { kind: 'member', name: canary });
    await acme.conversation('titled', ['ana', 'ben'], { title: canary });
    await acme.put('stops/persona/other', { reason: canary });
    await log.append(said(`${canary} of nowhere`, 'ana'), entry(text(`${canary} of nobody`)));
    const other = await plant(gateway);
    const before = await kept(planted);
    expect(await placesOf(gateway, canary)).toMatchObject({ conversations: 1, stops: 1, users: 1 });

    expect(ok(await erase(acme.name, acme.name))).toEqual({ outcome: 'deleted' });
    expect(await placesOf(gateway, canary)).toEqual({});
    expect(await kept(planted)).toEqual(before);
    expect(await placesOf(gateway, other.canary)).toEqual(EVERYWHERE);
    const [row] = await gateway.owner`
      select o.status, (select count(*)::integer from earshot.users u where u.org_id = o.id) as users
      from earshot.organizations o where o.external_id = ${acme.name}`;
    expect(row).toEqual({ status: 'suspended', users: 3 });
  });

  test('is so once, for good, and by nobody who does not name it twice', async () => {
    const acme = await thread();
    for (const [confirm, token, code] of [
      [undefined, undefined, 'invalid_input'],
      ['another', undefined, 'invalid_input'],
      [acme.name, gateway.tokens.ingest, 'not_permitted'],
    ] as const)
      expect((await erase(acme.name, confirm, token)).code).toBe(code);
    expect((await erase(`no ${randomUUID()}`, 'nothing')).code).toBe('invalid_input');
    const nobody = randomUUID();
    expect((await erase(nobody, nobody)).code).toBe('not_found');
    const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
    ok(await erase(acme.name, acme.name));

    expect((await erase(acme.name, acme.name)).code).toBe('not_found');
    expect((await turn.tool('read', { conversation: 'thread' })).code).toBe('organization_paused');
    const { operator, ingest } = gateway.tokens;
    const at = `/v1/organizations/${acme.name}`;
    for (const [path, token, json] of [
      ['', operator, { status: 'active' }],
      ['', operator, {}],
      ['/users/ana', ingest, { kind: 'member' }],
      ['/users/new', ingest, { kind: 'member' }],
      ['/projects/new', ingest, {}],
      ['/personas/new', ingest, { custody: 'service', designated: true }],
      ['/conversations/thread', ingest, { kind: 'group', visibility: 'members' }],
      ['/conversations/new', ingest, { kind: 'group', visibility: 'members' }],
    ] as const)
      expect((await gateway.send('PUT', `${at}${path}`, { token, json })).code).toBe('conflict');
    const message = { body: 'x', sentAt: '2030-01-01T00:00:00Z' };
    expect(
      (
        await gateway.send('PUT', `${at}/conversations/thread/messages/m`, {
          token: ingest,
          json: message,
        })
      ).code,
    ).toBe('not_found');
  });

  test('is so past the gateway too', async () => {
    const { acme, canary } = await plant(gateway);
    await gateway.owner`
      update earshot.organizations set status = 'suspended', deleted = true where external_id = ${acme.name}`;
    expect(await placesOf(gateway, canary)).toEqual({});
  });
});

async function deliveryOf(id: string) {
  const [row] = await gateway.owner`
    select status, code, payload from earshot.deliveries where id = ${id}`;
  return row;
}

/** An organization with a thread of ana and ben and notes that both read. */
async function thread(): Promise<TestOrganization> {
  const acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.say('thread', 'ana', 'a question');
  return acme;
}
