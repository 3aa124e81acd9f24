import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createClient, type ClientOptions } from '../../client/client.ts';
import { memoryOfProcess } from '../../client/grant-memory.ts';
import {
  legacySessionIdFor,
  requestTurnGrant,
  type GrantRequest,
} from '../../client/turn-grant.ts';
import { sessionIdFor } from '../../policy/session-id.ts';
import { sessionIdVectors, sessionParts } from '../worlds/vector.ts';
import {
  NOT_HERE,
  problemReply,
  startFakeServer,
  type FakeServer,
  type Reply,
} from './fake-server.ts';

const TURN = 'bf4c89bc-e9ab-4122-b7a2-dba807666480';
const GRANTS = `POST /v1/turns/${TURN}/grants`;
const PERSONA = 'GET /v1/organizations/acme/personas/assistant';
const VERSION = 'GET /v1';

const request: GrantRequest = {
  organization: 'acme',
  persona: 'assistant',
  destination: 'thread',
  trigger: 'thread',
  turnId: TURN,
  lease: { leaseId: '0c6fb516-9686-4900-9bbd-a6710d959ef0', owner: 'worker-7', fence: '3' },
  tools: ['read', 'search'],
};
/** A client that may go the way of old. */
const eligible: GrantRequest = { ...request, legacy: { salt: 'salt', epoch: 1n } };

const audienceHash = 'd3d727ad006705f90ada2381b37a7d25e19ab73463bf0a686e78228db069a50c';
const soundGrant = {
  grantId: '392d9edf-3295-4dfc-bde5-20eb26c11102',
  token: `eyJhbGciOiJFZERTQSJ9.eyJqdGkiOiJ4In0.${'A'.repeat(86)}`,
  turnId: TURN,
  leaseOwner: 'worker-7',
  leaseFence: '3',
  audienceHash,
  mode: 'thread',
  destination: 'thread',
  tools: ['read', 'search'],
  sessionId: sessionIdFor({
    organization: 'acme',
    threadKey: 'thread',
    salt: 'salt',
    epoch: 1n,
    audience: { persona: 'assistant', audienceHash, mode: 'thread', policyRevision: 1n },
  }),
  threadKey: 'thread',
  salt: 'salt',
  sessionEpoch: '1',
  policyRevision: '1',
  readers: { people: 2, classes: 0 },
  conversations: 2,
  expiresAt: '2026-11-30T06:47:02.000000Z',
};

let server: FakeServer;
beforeAll(async () => {
  server = await startFakeServer();
});
afterAll(() => server.close());
beforeEach(() => {
  server.reset();
  server.script(VERSION, versionReply({ grants: false }));
});

function versionReply(more: object): Reply {
  return { status: 200, json: { name: 'earshot', version: '0.0.1', ...more } };
}

function ask(asked: GrantRequest = eligible, options: Partial<ClientOptions> = {}) {
  const client = createClient({
    baseUrl: server.url,
    token: 'token',
    timeoutMs: 500,
    retry: { baseMs: 0 },
    ...options,
  });
  return requestTurnGrant(client, asked);
}

function personaOf(custody: string): void {
  server.script(PERSONA, { status: 200, json: { persona: 'assistant', custody } });
}

const grants = (more: object): Reply => ({ status: 200, json: { ...soundGrant, ...more } });

/** What the grant endpoint may answer that is no grant, and the code that is made of it. */
const REFUSALS: readonly [string, Reply, string][] = [
  ['its own 404', problemReply(404, 'not_found'), 'not_found'],
  ['its own 404 for a route', problemReply(404, 'not_found', { detail: 'No route.' }), 'not_found'],
  ['a 404 with a code that is not known', problemReply(404, 'no_such_turn'), 'unknown_code'],
  ['401', problemReply(401, 'malformed_token'), 'malformed_token'],
  ['401 of a proxy', { status: 401, html: 'who are you' }, 'foreign_answer'],
  ['403', problemReply(403, 'not_permitted'), 'not_permitted'],
  ['403 of a proxy', { status: 403, html: 'no' }, 'foreign_answer'],
  ['405 of a proxy', { status: 405, html: 'no' }, 'foreign_answer'],
  ['409', problemReply(409, 'audience_changed'), 'audience_changed'],
  ['410 of a proxy', { status: 410, html: 'gone' }, 'foreign_answer'],
  ['422', problemReply(422, 'over_budget'), 'over_budget'],
  ['429', problemReply(429, 'rate_limited', { recovery: 'retry' }), 'rate_limited'],
  ['429 of a proxy', { status: 429, html: 'slowly' }, 'foreign_answer'],
  ['500', problemReply(500, 'fault', { recovery: 'retry' }), 'fault'],
  ['500 of a proxy', { status: 500, html: 'oops' }, 'foreign_answer'],
  ['502 of a proxy', { status: 502, html: 'bad gateway' }, 'foreign_answer'],
  ['503', problemReply(503, 'unavailable', { recovery: 'retry' }), 'unavailable'],
  ['a redirect', { status: 307, html: '', headers: { location: '/elsewhere' } }, 'foreign_answer'],
  ['no answer in time', 'silence', 'timed_out'],
  ['a cut connection', 'cut', 'no_answer'],
  ['a page', { status: 200, html: '<h1>Welcome</h1>' }, 'malformed_answer'],
  ['an empty object', { status: 200, json: {} }, 'malformed_answer'],
  ['a problem as a success', { status: 200, json: { code: 'not_found' } }, 'malformed_answer'],
  ...Object.keys(soundGrant).map((field): [string, Reply, string] => [
    `a grant without ${field}`,
    grants({ [field]: undefined }),
    'malformed_answer',
  ]),
  ...(
    [
      ['token', soundGrant.token.slice(0, -1)],
      ['token', `${soundGrant.token}A`],
      ['token', soundGrant.token.replace('eyJ', 'xyJ')],
      ['token', soundGrant.token.replace('A', '+')],
      ['token', `eyJ${'A'.repeat(4096)}.eyJA.${'A'.repeat(86)}`],
      ['token', ''],
      ['turnId', 'another'],
      ['leaseFence', 3],
      ['leaseFence', '03'],
      ['audienceHash', audienceHash.toUpperCase()],
      ['audienceHash', audienceHash.slice(1)],
      ['audienceHash', ''],
      ['mode', 'everything'],
      ['projectBound', null],
      ['tools', 'search'],
      ['sessionId', 'main'],
      ['salt', ''],
      ['sessionEpoch', 1],
      ['policyRevision', '-1'],
      ['readers', { people: 0, classes: 0 }],
      ['readers', { people: -2, classes: 3 }],
      ['conversations', '2'],
    ] as const
  ).map(([field, value]): [string, Reply, string] => [
    `a grant whose ${field} is ${JSON.stringify(value).slice(0, 40)}`,
    grants({ [field]: value }),
    'malformed_answer',
  ]),
  ...(
    [
      ['turnId', 'ae4c89bc-e9ab-4122-b7a2-dba807666480'],
      ['leaseOwner', 'worker-8'],
      ['leaseFence', '2'],
      ['leaseFence', '4'],
      ['audienceHash', 'a'.repeat(64)],
      ['mode', 'private'],
      ['projectBound', 'apollo'],
      ['destination', 'room'],
      ['tools', ['search']],
      ['tools', ['read', 'save', 'search']],
      ['sessionId', '07f1349f-ea0d-8d3b-97e5-94542a906a8a'],
      ['threadKey', 'another'],
      ['salt', 'pepper'],
      ['sessionEpoch', '2'],
      ['policyRevision', '2'],
    ] as const
  ).map(([field, value]): [string, Reply, string] => [
    `a grant for another ${field}: ${JSON.stringify(value)}`,
    grants({ [field]: value }),
    'wrong_grant',
  ]),
];

describe('a grant', () => {
  test.each(['service', 'user'])(
    'is admitted under %s custody, after one request',
    async (custody) => {
      personaOf(custody);
      server.script(GRANTS, grants({}));
      expect(await ask()).toEqual({ ok: true, kind: 'grant', grant: soundGrant });
      expect(server.asked()).toEqual([PERSONA, GRANTS]);
      expect(server.requests[1]).toMatchObject({
        headers: { authorization: 'Bearer token' },
        body: { organization: 'acme', lease: request.lease },
      });
    },
  );

  test('of a project is one of its bound', async () => {
    personaOf('service');
    const bound = { projectBound: 'apollo', mode: 'project' } as const;
    const sessionId = sessionIdFor({
      organization: 'acme',
      threadKey: 'key',
      salt: 'salt',
      epoch: 1n,
      audience: { persona: 'assistant', audienceHash, policyRevision: 1n, ...bound },
    });
    server.script(GRANTS, grants({ ...bound, sessionId, threadKey: 'key' }));
    expect((await ask({ ...request, threadKey: 'key' })).ok).toBe(true);
  });

  test('of another thread is refused, also with the session that belongs to it', async () => {
    personaOf('service');
    const sessionId = sessionIdFor({
      organization: 'acme',
      threadKey: 'another',
      salt: 'salt',
      epoch: 1n,
      audience: { persona: 'assistant', audienceHash, mode: 'thread', policyRevision: 1n },
    });
    server.script(GRANTS, grants({ threadKey: 'another', sessionId }));
    expect(await ask()).toMatchObject({ code: 'wrong_grant', detail: 'threadKey' });
  });

  test.each(['push', '', 'Thread'])('is not asked for by a turn of kind %j', async (trigger) => {
    personaOf('service');
    expect(await ask({ ...eligible, trigger })).toMatchObject({ code: 'unsupported_turn' });
    expect(server.asked()).toEqual([PERSONA]);
  });
});

describe.each(['service', 'user'])('under %s custody', (custody) => {
  beforeEach(() => personaOf(custody));

  test.each(REFUSALS)('%s is a refusal, with no second mint', async (_, reply, code) => {
    server.script(GRANTS, reply);
    expect(await ask()).toMatchObject({ ok: false, code });
    // Nothing else is asked: not even whether the server knows grants.
    expect(server.asked()).toEqual([PERSONA, GRANTS]);
  });
});

describe('under a custody that cannot be told', () => {
  test.each<[string, Reply, string]>([
    ['another word', { status: 200, json: { custody: 'robot' } }, 'unknown_custody'],
    ['no word', { status: 200, json: {} }, 'malformed_answer'],
    ['not found', problemReply(404, 'not_found'), 'not_found'],
    ['an absent route', NOT_HERE, 'foreign_answer'],
    ['500', problemReply(500, 'fault'), 'fault'],
    ['no answer', 'cut', 'no_answer'],
  ])('%s: nothing is minted', async (_, reply, code) => {
    server.script(PERSONA, reply);
    server.script(GRANTS, grants({}));
    expect(await ask()).toMatchObject({ ok: false, code });
    expect(server.asked()).not.toContain(GRANTS);
  });

  test('a host may tell it, and what it tells is judged as well', async () => {
    server.script(GRANTS, grants({}));
    expect(await ask({ ...request, custodyOf: () => 'service' })).toMatchObject({ kind: 'grant' });
    expect(await ask({ ...request, custodyOf: () => 'root' })).toMatchObject({
      code: 'unknown_custody',
    });
    expect(server.asked()).toEqual([GRANTS]);
  });
});

describe('where the grant endpoint is absent', () => {
  const sessionId = legacySessionIdFor({
    organization: 'acme',
    threadKey: 'thread',
    salt: 'salt',
    epoch: 1n,
  });

  test('an eligible client of user custody has the session of old, without an audience', async () => {
    personaOf('user');
    server.script(GRANTS, NOT_HERE);
    expect(await ask()).toEqual({ ok: true, kind: 'legacy', sessionId });
    expect(server.asked()).toEqual([PERSONA, GRANTS, VERSION]);
  });

  test('service custody is refused, and the version is not asked for', async () => {
    personaOf('service');
    server.script(GRANTS, NOT_HERE);
    expect(await ask()).toMatchObject({ code: 'foreign_answer', status: 404 });
    expect(server.asked()).toEqual([PERSONA, GRANTS]);
  });

  test('a client that is not eligible is refused, and the version is not asked for', async () => {
    personaOf('user');
    server.script(GRANTS, NOT_HERE);
    expect(await ask(request)).toMatchObject({ code: 'foreign_answer', status: 404 });
    expect(server.asked()).toEqual([PERSONA, GRANTS]);
  });

  test.each<[string, Reply]>([
    ['that has grants', versionReply({ grants: true })],
    ['that says nothing of grants', versionReply({})],
    ['that says it in another way', versionReply({ grants: 'false' })],
    ['of another server', { status: 200, json: { name: 'other', version: '1', grants: false } }],
    ['that is a page', { status: 200, html: '<h1>Welcome</h1>' }],
    ['that is absent as well', NOT_HERE],
    ['that is refused', problemReply(429, 'rate_limited', { recovery: 'retry' })],
    ['that fails', { status: 502, html: 'bad gateway' }],
    ['that does not come', 'cut'],
  ])('a version document %s leaves the refusal', async (_, reply) => {
    personaOf('user');
    server.script(GRANTS, NOT_HERE);
    server.script(VERSION, reply);
    expect(await ask()).toMatchObject({ code: 'foreign_answer', status: 404 });
    expect(server.asked().filter((route) => route === GRANTS)).toHaveLength(1);
  });

  test.each<[string, Reply]>([
    ['gave a grant', grants({})],
    ['gave a wrong one', grants({ leaseFence: '4' })],
    ['gave a malformed one', { status: 200, json: {} }],
    ['refused', problemReply(409, 'lease_lost')],
    ['did not find', problemReply(404, 'not_found')],
    ['failed', problemReply(500, 'fault')],
  ])('its absence is not believed once it %s', async (_, reply) => {
    personaOf('user');
    server.script(GRANTS, reply, NOT_HERE);
    const grantMemory = memoryOfProcess();
    await ask(eligible, { grantMemory });
    expect(await ask(eligible, { grantMemory })).toMatchObject({ code: 'foreign_answer' });
    // A memory of its own knows nothing: it is the memory that decided.
    expect(await ask()).toMatchObject({ kind: 'legacy' });
  });

  test('its absence is not believed once the version document spoke of it', async () => {
    personaOf('user');
    server.script(GRANTS, NOT_HERE);
    server.script(VERSION, versionReply({ grants: true }), versionReply({ grants: false }));
    const grantMemory = memoryOfProcess();
    await ask(eligible, { grantMemory });
    expect(await ask(eligible, { grantMemory })).toMatchObject({ code: 'foreign_answer' });
  });

  test('a page of a proxy in its place is no sight of it', async () => {
    personaOf('user');
    server.script(GRANTS, { status: 502, html: 'bad gateway' }, NOT_HERE);
    const grantMemory = memoryOfProcess();
    await ask(eligible, { grantMemory });
    expect(await ask(eligible, { grantMemory })).toMatchObject({ kind: 'legacy' });
  });

  test('a memory that cannot be read fails the request', async () => {
    personaOf('user');
    server.script(GRANTS, NOT_HERE);
    const seen = () => Promise.reject(new Error('the memory is gone'));
    const grantMemory = { ...memoryOfProcess(), seen };
    await expect(ask(eligible, { grantMemory })).rejects.toThrow('the memory is gone');
  });
});

describe('the session of old', () => {
  test('is the published one, and leaves out an audience that is given all the same', async () => {
    const vectors = (await sessionIdVectors()).filter(({ audience }) => audience === undefined);
    expect(vectors.length).toBeGreaterThan(0);
    for (const vector of vectors) {
      const parts = sessionParts(vector);
      expect(legacySessionIdFor(parts)).toBe(vector.sessionId);
      const audience = { persona: 'p', audienceHash, mode: 'thread', policyRevision: 1n } as const;
      const withAudience = { ...parts, audience };
      expect(legacySessionIdFor(withAudience)).toBe(vector.sessionId);
    }
  });
});
