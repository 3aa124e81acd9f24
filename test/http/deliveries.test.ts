import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sha256Hex } from '../../policy/canonical.ts';
import { signClearance } from '../../gateway/tokens/clearance.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Delivery, TestOrganization, TestTurn } from '../support/organization.ts';

// What is tried with deliveries and clearances, and how a delivered message keeps its lineage.

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
  await acme.conversation('trio', ['ana', 'ben', 'cleo'], { aiThread: true });
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.say('shared', 'ben', 'canary');
  await acme.say('thread', 'ana', 'which one');
  await acme.say('trio', 'ana', 'and here');
  turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  await turn.search('canary');
});

async function clear(payload = 'It sang.', options: object = {}): Promise<Delivery> {
  const delivery = ok(await turn.propose(payload, options));
  expect(delivery.status).toBe('cleared');
  return delivery;
}

function statusOf(id: string) {
  return gateway.owner`select status, code, payload from earshot.deliveries where id = ${id}`;
}

describe('a clearance', () => {
  test('is about these bytes, this place and these readers, and says so', async () => {
    const delivery = await clear('Ça chanta. \u{1F426}');
    const released = ok(await acme.release(delivery));

    expect(released).toMatchObject({
      destination: 'thread',
      payload: 'Ça chanta. \u{1F426}',
      contentType: 'text/plain',
      payloadSha256: sha256Hex('Ça chanta. \u{1F426}'),
    });
    expect(delivery.payloadSha256).toBe(released.payloadSha256);
  });

  test('releases once, however many ask at once', async () => {
    const delivery = await clear();
    const answers = await Promise.all(Array.from({ length: 12 }, () => acme.release(delivery)));

    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    const others = answers.filter(({ status }) => status !== 200);
    expect(new Set(others.map(({ code }) => code))).toEqual(new Set(['already_released']));
    expect(JSON.stringify(others.map(({ body }) => body))).not.toContain('It sang.');
  });

  test('of one delivery releases no other, nor one of another organization', async () => {
    const [one, two] = [await clear('one'), await clear('two')];
    const other = await gateway.organization();

    expect((await acme.release({ id: one.id, clearance: two.clearance ?? '' })).code).toBe(
      'not_found',
    );
    expect((await other.release(one)).code).toBe('not_found');
    expect(
      (await acme.release({ id: one.id, clearance: (one.clearance ?? '').slice(0, -4) })).code,
    ).toBe('malformed_token');
    expect(await statusOf(one.id)).toMatchObject([{ status: 'cleared' }]);
    expect(ok(await acme.release(one)).payload).toBe('one');
  });

  test('that is signed for other bytes, readers or a moment that passed releases nothing', async () => {
    const delivery = await clear();
    const { keys, config } = gateway.gateway;
    const claims = {
      ...{ delivery: delivery.id, organization: acme.name, destination: 'thread' },
      ...{ audienceHash: turn.grant.audienceHash, payloadSha256: delivery.payloadSha256 },
      expiresAt: Math.floor(Date.now() / 1000) + 60,
    };
    const release = async (more: object) =>
      acme.release({
        id: delivery.id,
        clearance: await signClearance(keys, config.issuer, { ...claims, ...more }),
      });

    expect((await release({ payloadSha256: sha256Hex('other') })).code).toBe('payload_mismatch');
    expect((await release({ audienceHash: 'f'.repeat(64) })).code).toBe('audience_changed');
    expect((await release({ expiresAt: claims.expiresAt - 120 })).code).toBe('delivery_expired');
    expect((await release({ payloadSha256: 'x' })).code).toBe('malformed_token');
    expect((await release({})).status).toBe(200);
  });

  test('does not outlive the age that a delivery may wait', async () => {
    const delivery = await clear();
    await gateway.owner`update earshot.deliveries set expires_at = now() where id = ${delivery.id}`;

    expect((await acme.release(delivery)).code).toBe('delivery_expired');
    expect((await turn.propose('It sang.')).body.status).toBe('cleared');
  });

  test('holds back a delivery when the platform shows a reader who was not judged', async () => {
    const fewer = await clear('for fewer');
    expect((await acme.release(fewer, { shownReaders: ['ana'] })).status).toBe(200);
    for (const shownReaders of [['ana', 'ben', 'cleo'], ['ana', 'nobody'], ['cleo']]) {
      turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
      const delivery = await clear(`for ${shownReaders.join()}`);
      expect((await acme.release(delivery, { shownReaders })).code).toBe('audience_changed');
      expect(await statusOf(delivery.id)).toEqual([
        { status: 'held', code: 'audience_changed', payload: null },
      ]);
      expect((await acme.release(delivery)).code).toBe('audience_changed');
    }
  });
});

describe('an idempotency key', () => {
  test('repeats the verdict for the same request and is a conflict for another', async () => {
    const first = await clear('It sang.', { key: 'k' });
    const again = await clear('It sang.', { key: 'k' });

    expect(again.id).toBe(first.id);
    expect((await turn.propose('It sang!', { key: 'k' })).code).toBe('conflict');
    expect((await turn.propose('It sang.', { key: 'k', destination: 'trio' })).code).toBe(
      'conflict',
    );
    expect((await turn.propose('It sang.', { key: 'k', contentType: 'text/html' })).code).toBe(
      'conflict',
    );
    expect(ok(await acme.release(again)).payload).toBe('It sang.');
  });

  test('of another turn is another delivery', async () => {
    const first = await clear('It sang.', { key: 'k' });
    const other = await acme.turn({ destination: 'trio', requester: 'ana', trigger: '1' });
    const second = ok(await other.propose('It sang.', { key: 'k' }));

    expect(second.id).not.toBe(first.id);
    expect(second.destination).toBe('trio');
  });

  test('brings no clearance back once the readers have changed, and gives up the bytes', async () => {
    const first = await clear('It sang.', { key: 'k' });
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    const again = await turn.propose('It sang.', { key: 'k' });

    expect(again.body).toMatchObject({ id: first.id, status: 'held', code: 'audience_changed' });
    expect(again.body.clearance).toBeUndefined();
    expect(await statusOf(first.id)).toEqual([
      { status: 'held', code: 'audience_changed', payload: null },
    ]);
    expect((await acme.release(first)).code).toBe('audience_changed');
  });

  test('brings no clearance back after the release', async () => {
    const first = await clear('It sang.', { key: 'k' });
    ok(await acme.release(first));
    const again = ok(await turn.propose('It sang.', { key: 'k' }));

    expect(again).toMatchObject({ id: first.id, status: 'released' });
    expect(again.clearance).toBeUndefined();
  });

  test('sent many times at once is one delivery', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => turn.propose('It sang.', { key: 'k' })),
    );
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    expect(
      await gateway.owner`select from earshot.deliveries where turn_id = ${turn.id}`,
    ).toHaveLength(1);
  });
});

describe('an acknowledgement', () => {
  test('is of a release, once, and another report is a conflict', async () => {
    const delivery = await clear();
    expect((await acme.acknowledge(delivery, 'delivered')).code).toBe('conflict');
    ok(await acme.release(delivery));
    ok(await acme.acknowledge(delivery, 'delivered', 'answer'));
    ok(await acme.acknowledge(delivery, 'delivered', 'answer'));

    expect((await acme.acknowledge(delivery, 'failed')).code).toBe('conflict');
    expect((await acme.acknowledge(delivery, 'delivered', 'another')).code).toBe('conflict');
    expect(await statusOf(delivery.id)).toEqual([
      { status: 'delivered', code: null, payload: null },
    ]);
    expect((await acme.release(delivery)).code).toBe('already_released');
  });

  test('of another organization’s delivery finds none', async () => {
    const delivery = await clear();
    ok(await acme.release(delivery));
    const other = await gateway.organization();

    expect((await other.acknowledge(delivery, 'failed')).code).toBe('not_found');
    expect(await statusOf(delivery.id)).toMatchObject([{ status: 'released' }]);
  });

  test('claims no message that another delivery became', async () => {
    const [one, two] = [await clear('one'), await clear('two')];
    ok(await acme.release(one));
    ok(await acme.release(two));
    ok(await acme.acknowledge(one, 'delivered', 'answer'));

    expect((await acme.acknowledge(two, 'delivered', 'answer')).code).toBe('conflict');
  });

  test('that never comes leaves a delivery reconciling, which nobody can claim again', async () => {
    const delivery = await clear();
    ok(await acme.release(delivery));
    await gateway.owner`update earshot.deliveries set acknowledge_by = now() where id = ${delivery.id}`;

    expect((await acme.delivery(delivery.id)).status).toBe('reconciling');
    expect((await acme.release(delivery)).code).toBe('already_released');
    ok(await acme.acknowledge(delivery, 'failed'));
    expect((await acme.delivery(delivery.id)).status).toBe('failed');
  });
});

describe('a delivered message', () => {
  const ingest = (id: string, body: string) =>
    acme.put(`conversations/thread/messages/${id}`, {
      author: { persona: 'assistant' },
      body,
      sentAt: '2050-01-01T00:00:00Z',
    });
  const next = (destination: string) => acme.turn({ destination, requester: 'ana', trigger: '1' });

  test.each(['the acknowledgement first', 'the message first'])(
    'keeps its lineage, whichever is reported first: %s',
    async (order) => {
      const delivery = await clear('The canary sang.');
      ok(await acme.release(delivery));
      if (order === 'the message first') await ingest('answer', 'The canary sang.');
      ok(await acme.acknowledge(delivery, 'delivered', 'answer'));
      if (order !== 'the message first') await ingest('answer', 'The canary sang.');

      expect(await (await next('thread')).search('sang')).toEqual(['The canary sang.']);
      await acme.remove('conversations/shared/members/ben');
      expect(await (await next('thread')).search('sang')).toEqual([]);
    },
  );

  test('hands its sources on to what was made from it before it was reported', async () => {
    const delivery = await clear('The canary sang.');
    ok(await acme.release(delivery));
    await ingest('answer', 'The canary sang.');
    const apart = await acme.turn({
      destination: 'thread',
      requester: 'ana',
      trigger: '1',
      threadKey: 'apart',
    });
    expect(await apart.search('sang')).toEqual(['The canary sang.']);
    const copy = ok(await apart.propose('A copy.'));
    ok(await acme.release(copy));
    ok(await acme.acknowledge(copy, 'delivered', 'copy'));
    await ingest('copy', 'A copy.');
    expect(await (await next('thread')).search('copy')).toEqual(['A copy.']);

    ok(await acme.acknowledge(delivery, 'delivered', 'answer'));
    expect(await (await next('thread')).search('copy')).toEqual(['A copy.']);
    await acme.remove('conversations/shared/members/ben');
    expect(await (await next('thread')).search('copy')).toEqual([]);
  });

  test('keeps its lineage under a bot as its author, reported after it came', async () => {
    const delivery = await clear('The canary sang.');
    ok(await acme.release(delivery));
    await acme.put('users/robot', { kind: 'bot' });
    await acme.put('conversations/thread/messages/answer', {
      author: { user: 'robot' },
      body: 'The canary sang.',
      sentAt: '2026-01-02T00:00:00Z',
    });
    ok(await acme.acknowledge(delivery, 'delivered', 'answer'));
    expect(await (await next('thread')).search('sang')).toEqual(['The canary sang.']);

    await acme.remove('conversations/shared/members/ben');
    expect(await (await next('thread')).search('sang')).toEqual([]);
  });

  test('has the sources of every delivery that claims it, though the second claim is refused', async () => {
    const plain = await acme.turn({
      destination: 'thread',
      requester: 'ana',
      trigger: '1',
      threadKey: 'plain',
    });
    const first = ok(await plain.propose('It may sing.'));
    ok(await acme.release(first));
    await ingest('answer', 'It may sing.');
    ok(await acme.acknowledge(first, 'delivered', 'answer'));
    const second = await clear('The canary sang.');
    ok(await acme.release(second));
    expect((await acme.acknowledge(second, 'delivered', 'answer')).code).toBe('conflict');
    expect(await (await next('thread')).search('sing')).toEqual(['It may sing.']);

    await acme.remove('conversations/shared/members/ben');
    expect(await (await next('thread')).search('sing')).toEqual([]);
  });

  test('stays in its conversation once it is edited, for its delivery accounts for it no more', async () => {
    const delivery = await clear('The canary sang.');
    ok(await acme.release(delivery));
    ok(await acme.acknowledge(delivery, 'delivered', 'answer'));
    await ingest('answer', 'The canary sang.');
    await acme.conversation('second', ['ana', 'ben'], { aiThread: true });
    await acme.say('second', 'ana', 'and there');
    const elsewhere = () => acme.turn({ destination: 'second', requester: 'ana', trigger: '1' });
    expect(await (await elsewhere()).search('sang')).toEqual(['The canary sang.']);

    await ingest('answer', 'Something else sang.');
    expect(await (await elsewhere()).search('sang')).toEqual([]);
    expect(await (await next('thread')).search('sang')).toEqual(['Something else sang.']);
  });

  test('hands its sources on to what is made from it', async () => {
    const delivery = await clear('The canary sang.');
    ok(await acme.release(delivery));
    ok(await acme.acknowledge(delivery, 'delivered', 'answer'));
    await ingest('answer', 'The canary sang.');
    const second = await next('thread');
    expect(await second.search('sang')).toEqual(['The canary sang.']);
    const copy = ok(await second.propose('It sang, they say.'));
    expect(copy.status).toBe('cleared');
    await gateway.owner`update earshot.messages set state = 'deleted' where body = 'canary' and org_id = (select id from earshot.organizations where external_id = ${acme.name})`;

    expect((await acme.release(copy)).code).toBe('source_revoked');
  });

  test('that no delivery accounts for stays in its own conversation', async () => {
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    await ingest('unaccounted', 'The canary sang alone.');

    expect(await (await next('thread')).search('alone')).toEqual(['The canary sang alone.']);
    expect(await (await next('trio')).search('alone')).toEqual([]);
    await acme.say('thread', 'ana', 'A person sang alone.');
    expect(await (await next('trio')).search('alone')).toEqual(['A person sang alone.']);
  });
});

test('a delivery as it stands is told without its payload, to those registered for its organization', async () => {
  const delivery = await clear('The canary sang.');
  const told = await gateway.send(
    'GET',
    `/v1/deliveries/${delivery.id}?organization=${acme.name}`,
    { token: gateway.tokens.operator },
  );
  const other = await gateway.organization();
  const foreign = await gateway.send(
    'GET',
    `/v1/deliveries/${delivery.id}?organization=${other.name}`,
    { token: gateway.tokens.operator },
  );

  expect(told.body).toMatchObject({ id: delivery.id, status: 'cleared', destination: 'thread' });
  expect(JSON.stringify(told.body)).not.toContain('sang');
  expect(foreign.code).toBe('not_found');
});

test('a caller finds no delivery of a persona that it is not registered for', async () => {
  const delivery = await clear('The canary sang.');
  const token = await gateway.addCaller({
    ...{ id: `d-${acme.name}`, scopes: ['deliver', 'bridge', 'operator'], personas: ['another'] },
  });
  const json = { organization: acme.name };
  const at = `/v1/deliveries/${delivery.id}`;
  const { clearance } = delivery;

  for (const answer of [
    await gateway.send('GET', `${at}?organization=${acme.name}`, { token }),
    await gateway.send('POST', `${at}/release`, { token, json: { ...json, clearance } }),
    await gateway.send('POST', `${at}/acknowledge`, {
      token,
      json: { ...json, outcome: 'failed' },
    }),
  ]) {
    expect(answer.code).toBe('not_found');
  }
  expect(await statusOf(delivery.id)).toMatchObject([{ status: 'cleared' }]);
  expect((await acme.release(delivery)).status).toBe(200);
});

test('a proposal to another place ends the grant when the turn itself no longer stands', async () => {
  await acme.put('projects/p', { members: [] });
  await acme.put('conversations/thread', {
    kind: 'group',
    visibility: 'members',
    aiThread: true,
    project: 'p',
  });
  expect(ok(await turn.propose('It sang.', { destination: 'shared' })).code).toBe('mode_changed');

  await acme.put('conversations/thread', { kind: 'group', visibility: 'members', aiThread: true });
  expect((await turn.tool('search', { query: 'canary' })).code).toBe('grant_revoked');
});

test('a turn whose session was quarantined is given no other session, however often it asks', async () => {
  await acme.put('conversations/shared/messages/note', {
    author: { user: 'ben' },
    body: 'wren',
    sentAt: '2050-01-01T00:00:00Z',
  });
  expect(await turn.search('wren')).toEqual(['wren']);
  await acme.put('conversations/shared/messages/note', {
    author: { user: 'ben' },
    body: 'robin',
    sentAt: '2050-01-01T00:00:00Z',
  });
  for (let asked = 0; asked < 3; asked++) {
    expect((await turn.mint()).code).toBe('session_quarantined');
  }
});

test('bytes are gone once they were handed out, and once they can no longer leave', async () => {
  const released = await clear('one', { key: 'one' });
  const late = await clear('two', { key: 'two' });
  ok(await acme.release(released));
  expect(await statusOf(released.id)).toMatchObject([{ status: 'released', payload: null }]);

  await gateway.owner`update earshot.deliveries set expires_at = now() where id = ${late.id}`;
  expect(await acme.delivery(late.id)).toMatchObject({ status: 'held', code: 'delivery_expired' });
  expect((await acme.release(late)).code).toBe('delivery_expired');
  expect(await statusOf(late.id)).toMatchObject([{ status: 'held', payload: null }]);
});

test('every opening of a turn leaves a record, the refused ones with their code', async () => {
  await acme.openTurn({ destination: 'thread', requester: 'cleo', trigger: '1' });
  const rows = await gateway.owner<{ verdict: string; code: string | null }[]>`
    select d.verdict, d.code from earshot.decisions d
    join earshot.organizations o on o.id = d.org_id
    where o.external_id = ${acme.name} and d.kind = 'open' order by d.decided_at`;
  expect(rows.map(({ verdict, code }) => [verdict, code])).toEqual([
    ['allowed', null],
    ['refused', 'not_found'],
  ]);
});

test('a removal speaks for its source of facts as any write does', async () => {
  await acme.put('sources/default', { maxAgeSeconds: 60 });
  await gateway.owner`
    update earshot.fact_sources set confirmed_at = now() - interval '1 hour'
    where org_id = (select id from earshot.organizations where external_id = ${acme.name})`;
  expect((await turn.tool('search', { query: 'canary' })).code).toBe('facts_stale');
  await acme.remove('users/cleo');
  expect(ok(await turn.tool('search', { query: 'canary' })).items).toHaveLength(1);
});
