import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { signToken } from '../../gateway/tokens/signed-token.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

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
  await acme.say('thread', 'ana', 'which canary');
  turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
});

const form = { 'content-type': 'application/x-www-form-urlencoded' };
const introspect = (token: string, caller = gateway.tokens.bridge) =>
  gateway.send('POST', '/v1/grants/introspect', {
    token: caller,
    body: new URLSearchParams({ token }).toString(),
    headers: form,
  });
const revoke = (grant: string, token = gateway.tokens.bridge, organization = acme.name) =>
  gateway.send('POST', `/v1/grants/${grant}/revoke`, { token, json: { organization } });
const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<
    string,
    unknown
  >;
const signed = (more: object) =>
  signToken(
    gateway.gateway.keys,
    gateway.gateway.config.issuer,
    { typ: 'earshot-grant+jwt', audience: 'earshot' },
    { ...claimsOf(turn.grant.token), ...more },
  );
const recorded = (kind: string) => gateway.owner`
  select verdict, code, detail from earshot.decisions
  where kind = ${kind} and turn_id = ${turn.id} order by decided_at`;

describe('introspection (RFC 7662)', () => {
  test('tells bridges and operators of a live grant what its token is bound to, and no more', async () => {
    const claims = claimsOf(turn.grant.token);
    for (const caller of [gateway.tokens.bridge, gateway.tokens.operator]) {
      const { iss, aud, sub, act, org, dest, fence, ah, iat, nbf, exp } = claims;
      expect(ok(await introspect(turn.grant.token, caller))).toEqual({
        ...{ active: true, token_type: 'Bearer' },
        ...{ iss, aud, sub, act, org, dest, fence, ah, iat, nbf, exp },
        ...{ turn: turn.id, grant: turn.grant.grantId, session: turn.grant.sessionId },
        ...{ mode: turn.grant.mode, policy_revision: turn.grant.policyRevision },
        scope: 'around list_conversations read search thread',
      });
    }
    expect(await recorded('introspect')).toEqual([
      { verdict: 'allowed', code: null, detail: {} },
      { verdict: 'allowed', code: null, detail: {} },
    ]);
  });

  test('says what the row says, whatever else a signed token claims', async () => {
    const forged = await signed({ sub: 'cleo', dest: 'elsewhere', org: 'other', fence: '9' });
    expect(await introspect(forged)).toMatchObject({
      body: { active: true, sub: 'ana', dest: 'thread', org: acme.name, fence: '1' },
    });
  });

  const inactive: [string, () => Promise<unknown>][] = [
    ['no token of ours', () => Promise.resolve('e30.e30.e30')],
    ['no token at all', () => Promise.resolve('x')],
    ['a token of a caller', () => Promise.resolve(gateway.tokens.bridge)],
    ['a grant that nobody knows', () => signed({ jti: randomBytes(32).toString('base64url') })],
    ['a token that has expired', () => signed({ iat: 1000, nbf: 1000, exp: 1060 })],
    [
      'a grant that has expired',
      () =>
        gateway.owner`update earshot.grants set expires_at = issued_at where turn_id = ${turn.id}`,
    ],
    ['a grant that was replaced', () => turn.mint()],
    ['a grant that was revoked', () => revoke(turn.grant.grantId)],
    ['a turn that has ended', () => turn.end('complete')],
    ['a turn that was stopped', () => turn.end('stop')],
    [
      'a lease that has lapsed',
      () => gateway.owner`update earshot.turns set lease_expires_at = now() where id = ${turn.id}`,
    ],
    [
      'an audience that changed',
      () => acme.put('conversations/thread/members/cleo', { history: 'all' }),
    ],
    ['a requester who left', () => acme.remove('conversations/thread/members/ana')],
    ['a stop', () => acme.put('stops/conversation/thread', {})],
    ['a guard that is paused', () => acme.put('guard', { guard: 'paused' })],
  ];
  test.each(inactive)('tells nothing but that it is not active of %s', async (_what, prepare) => {
    const prepared = await prepare();
    const token = typeof prepared === 'string' ? prepared : turn.grant.token;
    for (const caller of [gateway.tokens.bridge, gateway.tokens.operator]) {
      const { status, body, headers } = await introspect(token, caller);
      expect({ status, body }).toEqual({ status: 200, body: { active: false } });
      expect(headers.get('cache-control')).toBe('no-store');
    }
  });

  test('tells a caller of another organization or persona nothing, and leaves the grant as it is', async () => {
    const other = await gateway.organization();
    const id = randomUUID();
    const callers = [
      await gateway.addCaller({
        ...{ id: `o-${id}`, scopes: ['bridge', 'operator'] },
        organizations: [other.name],
      }),
      await gateway.addCaller({
        ...{ id: `p-${id}`, scopes: ['bridge', 'operator'] },
        personas: ['another'],
      }),
    ];
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    for (const caller of callers) {
      expect((await introspect(turn.grant.token, caller)).body).toEqual({ active: false });
    }
    await acme.remove('conversations/thread/members/cleo');

    // What a stranger asks about is no check: the change that was there meanwhile was not looked for.
    expect((await introspect(turn.grant.token)).body).toMatchObject({ active: true });
    expect(await recorded('introspect')).toEqual([
      { verdict: 'refused', code: 'not_found', detail: {} },
      { verdict: 'refused', code: 'not_found', detail: {} },
      { verdict: 'allowed', code: null, detail: {} },
    ]);
  });

  test('is a check as any other: what it finds changed revokes for good, and is recorded', async () => {
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    expect((await introspect(turn.grant.token)).body).toEqual({ active: false });
    await acme.remove('conversations/thread/members/cleo');

    expect((await introspect(turn.grant.token)).body).toEqual({ active: false });
    expect((await turn.tool('search', { query: 'canary' })).code).toBe('grant_revoked');
    expect(await recorded('introspect')).toEqual([
      {
        ...{ verdict: 'refused', code: 'audience_changed' },
        detail: { changes: { added: 1, gone: 0, floorsMoved: 0 } },
      },
      { verdict: 'refused', code: 'grant_revoked', detail: {} },
    ]);
  });

  test('asks who calls first, and needs a bridge or an operator', async () => {
    const { token } = turn.grant;
    const ask = (caller: string | undefined) =>
      gateway.send('POST', '/v1/grants/introspect', {
        ...{ token: caller, headers: form },
        body: new URLSearchParams({ token }).toString(),
      });
    expect((await ask(undefined)).code).toBe('malformed_token');
    expect((await ask(token)).code).toBe('malformed_token');
    for (const scope of ['deliver', 'ingest'] as const) {
      expect((await ask(gateway.tokens[scope])).code).toBe('not_permitted');
    }
  });

  test.each([
    ['two tokens', 'token=a&token=b', form],
    ['no token', 'token_type_hint=access_token', form],
    ['an empty token', 'token=', form],
    ['a parameter that is not one', 'token=a&readers=ana', form],
    ['JSON', '{"token":"a"}', { 'content-type': 'application/json' }],
    [
      'a file',
      '--x\r\ncontent-disposition: form-data; name="token"; filename="t"\r\n\r\na\r\n--x--\r\n',
      { 'content-type': 'multipart/form-data; boundary=x' },
    ],
  ])('refuses what is no such form: %s', async (_what, body, headers) => {
    const token = gateway.tokens.bridge;
    const answer = await gateway.send('POST', '/v1/grants/introspect', { token, body, headers });
    expect({ status: answer.status, code: answer.code }).toEqual({
      status: 400,
      code: 'invalid_input',
    });
  });
});

describe('a grant that is revoked from outside', () => {
  test.each(['bridge', 'operator'] as const)(
    'stays revoked, and its turn takes no other: by a %s',
    async (scope) => {
      const revoked = await revoke(turn.grant.grantId, gateway.tokens[scope]);
      expect(ok(revoked)).toEqual({ status: 'ok' });

      expect(await turn.tool('search', { query: 'canary' })).toMatchObject({
        ...{ status: 403, code: 'grant_revoked' },
        body: { recovery: 'rebuild' },
      });
      expect((await turn.propose('It sang.')).code).toBe('grant_revoked');
      expect((await turn.mint()).code).toBe('grant_revoked');
      const again = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
      expect((await again.tool('search', { query: 'canary' })).status).toBe(200);
    },
  );

  test('takes the grant with it that took its place', async () => {
    const { token } = ok(await turn.mint());
    ok(await revoke(turn.grant.grantId));

    const used = await gateway.send('POST', '/v1/tools/search', { token, json: { query: 'x' } });
    expect(used.code).toBe('grant_revoked');
  });

  test('is revoked once: again is as good, and the first time and reason stay', async () => {
    ok(await revoke(turn.grant.grantId));
    const row = () => gateway.owner`
      select revoked_at, revoked_code from earshot.grants where id = ${turn.grant.grantId}`;
    const first = await row();
    ok(await revoke(turn.grant.grantId, gateway.tokens.operator));

    expect(await row()).toEqual(first);
    expect(await recorded('revoke')).toEqual([
      { verdict: 'allowed', code: null, detail: { client: 'bridge' } },
      { verdict: 'allowed', code: null, detail: { client: 'operator' } },
    ]);
  });

  test('keeps the reason of a revocation that came before', async () => {
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    await turn.tool('search', { query: 'canary' });
    ok(await revoke(turn.grant.grantId));
    const rows = await gateway.owner`
      select revoked_code from earshot.grants where id = ${turn.grant.grantId}`;
    expect(rows).toEqual([{ revoked_code: 'audience_changed' }]);
  });

  test('holds back what was cleared under it, also after its turn has completed or minted again', async () => {
    const cleared = ok(await turn.propose('It sang.'));
    ok(await turn.mint());
    ok(await turn.end('complete'));
    ok(await revoke(turn.grant.grantId));

    expect((await acme.release(cleared)).code).toBe('grant_revoked');
    const rows = await gateway.owner`
      select status, payload from earshot.deliveries where id = ${cleared.id}`;
    expect(rows).toEqual([{ status: 'held', payload: null }]);
  });

  test('is not found by a caller of another organization or persona, as one that does not exist', async () => {
    const other = await gateway.organization();
    const id = randomUUID();
    const scopes = ['bridge', 'operator'] as const;
    const foreign = await gateway.addCaller({
      id: `p-${id}`,
      scopes: [...scopes],
      personas: ['x'],
    });
    const abroad = await gateway.addCaller({
      ...{ id: `o-${id}`, scopes: [...scopes] },
      organizations: [other.name],
    });
    const { grantId } = turn.grant;
    const answers = [
      await revoke(grantId, foreign),
      await revoke(grantId, abroad, other.name),
      await revoke(randomUUID(), foreign),
      await revoke(randomUUID()),
    ].map(({ status, body }) => ({ status, body: { ...(body as object), decision: '' } }));

    expect(answers[0]).toMatchObject({ status: 404, body: { code: 'not_found' } });
    expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toHaveLength(1);
    expect((await revoke(grantId, abroad)).code).toBe('not_permitted');
    for (const token of [gateway.tokens.deliver, gateway.tokens.ingest, turn.grant.token]) {
      expect((await revoke(grantId, token)).status).not.toBe(200);
    }
    expect((await turn.tool('search', { query: 'canary' })).status).toBe(200);
  });
});
