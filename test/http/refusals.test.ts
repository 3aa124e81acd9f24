import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { REFUSALS, type RefusalCode } from '../../policy/refusal.ts';
import { sha256Hex } from '../../policy/canonical.ts';
import { signClearance } from '../../gateway/tokens/clearance.ts';
import { signToken } from '../../gateway/tokens/signed-token.ts';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text } from '../support/log.ts';
import { carryTurn, type TestOrganization, type TestTurn } from '../support/organization.ts';

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;

beforeAll(async () => {
  gateway = await openTestGateway({ MAX_BODY_BYTES: '20000' });
});

afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.put('conversations/shared/messages/s1', message('canary'));
  await acme.say('thread', 'ana', 'which one');
  turn = await start();
  await search();
});

const message = (body: string) => ({
  author: { user: 'ben' },
  body,
  sentAt: '2050-01-01T00:00:00Z',
});
const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
const search = () => turn.tool('search', { query: 'canary' });
const send = (token: string | undefined, path: string, json: object) =>
  gateway.send('POST', path, { token, json });
const thread = (more: object) =>
  acme.put('conversations/thread', {
    kind: 'group',
    visibility: 'members',
    aiThread: true,
    ...more,
  });
const touch = (statement: string) => gateway.owner.unsafe(statement);
const own = `org_id = (select id from earshot.organizations order by id desc limit 1)`;

/** A refused verdict: of a problem, or of a delivery that is held. */
type Verdict = Pick<Answer, 'code' | 'body' | 'status'>;

/** How each code comes about, over HTTP. */
const PRODUCED: Partial<Record<RefusalCode, () => Promise<Verdict>>> = {
  malformed_token: () => send(undefined, '/v1/tools/search', { query: 'x' }),
  unknown_grant: async () => {
    const { keys, config } = gateway.gateway;
    const claims = JSON.parse(
      Buffer.from(turn.grant.token.split('.')[1] ?? '', 'base64url').toString(),
    ) as object;
    const jti = randomBytes(32).toString('base64url');
    const type = { typ: 'earshot-grant+jwt', audience: 'earshot' };
    return send(
      await signToken(keys, config.issuer, type, { ...claims, jti }),
      '/v1/tools/search',
      { query: 'x' },
    );
  },
  grant_expired: async () => {
    await touch(`update earshot.grants set expires_at = issued_at where ${own}`);
    return search();
  },
  grant_revoked: async () => {
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    await search();
    return search();
  },
  audience_changed: async () => {
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    return search();
  },
  requester_left: async () => {
    await acme.remove('conversations/thread/members/ana');
    return search();
  },
  turn_not_running: async () => {
    await turn.end('complete');
    return search();
  },
  lease_lost: async () => {
    await touch(`update earshot.turns set lease_expires_at = clock_timestamp() where ${own}`);
    return search();
  },
  fenced: async () => {
    await touch(`update earshot.turns set lease_expires_at = clock_timestamp() where ${own}`);
    await carryTurn(gateway.send, gateway.tokens.bridge, acme.name, turn.id, 'thread');
    return turn.end('complete');
  },
  persona_not_designated: async () => {
    await acme.put('personas/assistant', { custody: 'service', designated: false });
    return search();
  },
  trigger_out_of_scope: async () => {
    await acme.put('conversations/thread/members/cleo', { history: 'from_join' });
    return search();
  },
  mode_changed: async () => {
    await acme.put('users/ben', { kind: 'guest' });
    return search();
  },
  organization_paused: async () => {
    await acme.put('guard', { guard: 'paused' });
    return search();
  },
  stopped: async () => {
    await acme.put('stops/conversation/thread', {});
    return search();
  },
  empty_audience: async () => {
    await acme.put('conversations/thread/members', { members: [] });
    return search();
  },
  unlistable_audience: async () => {
    await acme.put('conversations/thread/members/unknown', { history: 'all' });
    return search();
  },
  destination_closed: async () => {
    await thread({ archived: true });
    return search();
  },
  not_found: () => turn.tool('read', { conversation: 'nowhere' }),
  policy_changed: async () => {
    await acme.put('', { policyRevision: '2' });
    return search();
  },
  source_revoked: async () => {
    await acme.remove('conversations/shared/members/ben');
    return turn.propose('It sang.');
  },
  source_changed: async () => {
    await acme.put('conversations/shared/messages/s1', message('another bird'));
    return turn.propose('It sang.');
  },
  payload_mismatch: async () => {
    const { id } = ok(await turn.propose('It sang.'));
    const { keys, config } = gateway.gateway;
    const clearance = await signClearance(keys, config.issuer, {
      ...{ delivery: id, organization: acme.name, destination: 'thread' },
      ...{ audienceHash: turn.grant.audienceHash, payloadSha256: sha256Hex('It cried.') },
      expiresAt: Math.floor(Date.now() / 1000) + 60,
    });
    return acme.release({ id, clearance });
  },
  already_released: async () => {
    const delivery = ok(await turn.propose('It sang.'));
    await acme.release(delivery);
    return acme.release(delivery);
  },
  delivery_expired: async () => {
    const delivery = ok(await turn.propose('It sang.'));
    await touch(`update earshot.deliveries set expires_at = clock_timestamp() where ${own}`);
    return acme.release(delivery);
  },
  session_quarantined: async () => {
    await acme.remove('conversations/shared/messages/s1');
    return turn.mint();
  },
  facts_stale: async () => {
    await acme.put('sources/default', { maxAgeSeconds: 60 });
    await touch(
      `update earshot.fact_sources set confirmed_at = clock_timestamp() - interval '1 hour' where ${own}`,
    );
    return search();
  },
  tool_not_allowed: async () => {
    turn = await acme.turn({
      destination: 'thread',
      requester: 'ana',
      trigger: '1',
      tools: ['read'],
    });
    return search();
  },
  not_permitted: () =>
    gateway.send('PUT', `/v1/organizations/${acme.name}/guard`, {
      token: gateway.tokens.ingest,
      json: { guard: 'running' },
    }),
  conflict: async () => {
    await turn.propose('It sang.', { key: 'k' });
    return turn.propose('It cried.', { key: 'k' });
  },
  session_not_yours: async () => {
    const elsewhere = await acme.turn({
      ...{ destination: 'thread', requester: 'ana', trigger: '1', threadKey: 'other' },
    });
    return logOf(gateway, turn).by(elsewhere).compile();
  },
  narrowing_refused: async () => {
    const log = logOf(gateway, turn);
    const [id = ''] = await log.append(entry(text('It sang.')));
    await log.compile();
    return log.edit(id, '1', [text('It sang.', 'ana')]);
  },
  over_budget: async () => {
    const log = logOf(gateway, turn);
    await log.append(entry(text('It sang.')));
    return log.compile({ budget: 1 });
  },
  invalid_input: () => turn.tool('search', { query: 7 }),
  too_large: () => turn.tool('search', { query: 'x'.repeat(30_000) }),
  rate_limited: async () => {
    const hasty = await openTestGateway({ REQUESTS_PER_SECOND: '1' });
    const ask = () => hasty.send('POST', '/v1/tools/search', { token: 'one', json: {} });
    const answers = await Promise.all([ask(), ask()] as const);
    await hasty.close();
    return answers.find(({ status }) => status === 429) ?? answers[0];
  },
  unavailable: async () => {
    const cut = await openTestGateway();
    await cut.gateway.database.close();
    const answer = await cut.send('GET', '/readyz');
    await cut.close();
    return answer;
  },
  fault: async () => {
    const broken = await openTestGateway();
    await broken.owner.unsafe(
      'drop function earshot.take_lease(text, text[], uuid, text, interval)',
    );
    const logged = vi.spyOn(console, 'error').mockReturnValue();
    const json = { organization: 'canary', owner: 'canary' };
    const answer = await broken.send('POST', `/v1/turns/${turn.id}/lease`, {
      token: broken.tokens.bridge,
      json,
    });
    await broken.close();
    expect(logged).toHaveBeenCalledOnce();
    expect(JSON.stringify(logged.mock.calls)).not.toContain('canary');
    logged.mockRestore();
    return answer;
  },
};

/** Codes that nothing produces yet, by what will. */
const TO_COME: Partial<Record<RefusalCode, string>> = {
  backend_incomplete: 'retrieval backends beside the database',
};

test('every code is one that something here produces, or one of a feature to come', () => {
  expect([...Object.keys(PRODUCED), ...Object.keys(TO_COME)].sort()).toEqual(
    Object.keys(REFUSALS).sort(),
  );
});

test.each(Object.entries(PRODUCED))(
  '%s is answered with its status, sentence and recovery',
  async (code, produce) => {
    const { status, body } = await produce();
    const { status: expected, sentence, recovery } = REFUSALS[code as RefusalCode];

    if (status === 200)
      expect(body).toMatchObject({ status: 'held', code, recovery, detail: sentence });
    else {
      expect({ status, body }).toMatchObject({
        status: expected,
        body: { code, status: expected, title: sentence, recovery },
      });
      expect(JSON.stringify(body)).not.toMatch(/canary|ana\b|ben\b|cleo|sang/);
    }
  },
);

test('without any of those the same steps go through', async () => {
  expect((await search()).status).toBe(200);
  const delivery = ok(await turn.propose('It sang.'));
  expect((await acme.release(delivery)).status).toBe(200);
  expect((await turn.mint()).status).toBe(200);
});

test('a refusal that revokes is recorded with why, and without content', async () => {
  await acme.put('conversations/thread/members/cleo', { history: 'all' });
  const { body } = await search();
  const { decision } = body as { decision: string };
  const rows = await gateway.owner`
    select verdict, code, tool, items, detail from earshot.decisions where id = ${decision}`;

  const changes = { added: 1, gone: 0, floorsMoved: 0 };
  expect(rows).toEqual([
    {
      ...{ verdict: 'refused', code: 'audience_changed', tool: 'search', items: 0 },
      detail: { changes, mode: 'thread' },
    },
  ]);
});
