import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createClient, type Client, type ClientOptions } from '../../client/client.ts';
import type { ClientRefusal } from '../../client/client-refusal.ts';
import { RETRIES, waitAfter } from '../../client/retry.ts';
import { REFUSALS, type RefusalCode } from '../../policy/refusal.ts';
import { problemReply, startFakeServer, type FakeServer, type Reply } from './fake-server.ts';
import { steppedClock, type SteppedClock } from './stepped-clock.ts';

const TURN = 'bf4c89bc-e9ab-4122-b7a2-dba807666480';
const ID = '3c572be1-87aa-4b49-b528-ab66c7655589';
const LEASE = { leaseId: ID, owner: 'worker-7', fence: '1' };
const BUSY = problemReply(503, 'unavailable', { recovery: 'retry' });
const turn = {
  organization: 'acme',
  persona: 'assistant',
  destination: 'thread',
  requester: 'ana',
  trigger: { kind: 'thread', seq: '1' },
} as const;

let server: FakeServer;
let clock: SteppedClock;
beforeAll(async () => {
  server = await startFakeServer();
});
afterAll(() => server.close());
beforeEach(() => {
  server.reset();
  clock = steppedClock();
});

/** A client whose waits take no time and are only recorded. */
function clientOf(options: Partial<ClientOptions> = {}): Client {
  const wait: SteppedClock['wait'] = (ms) => {
    (clock.waits as number[]).push(ms);
    return Promise.resolve();
  };
  return createClient({
    baseUrl: `${server.url}/`,
    token: () => Promise.resolve('token'),
    clock: { now: () => clock.now(), wait },
    random: () => 0.5,
    ...options,
  });
}

type Route = readonly [string, (client: Client) => Promise<unknown>];
const organization = 'acme';
const ofTurn = { organization, turnId: TURN };
const ofDelivery = { organization, deliveryId: ID };

const REPEATED: readonly Route[] = [
  ['GET /v1', (client) => client.version()],
  ['POST /v1/turns', (client) => client.openTurn(turn)],
  [`GET /v1/turns/${TURN}`, (client) => client.showTurn(ofTurn)],
  [
    `POST /v1/turns/${TURN}/heartbeat`,
    (client) => client.heartbeat({ ...ofTurn, lease: { ...LEASE, seconds: 30 } }),
  ],
  ['POST /v1/tools/search', (client) => client.search('grant', { query: 'x' })],
  ['POST /v1/tools/read', (client) => client.read('grant', { conversation: 'x' })],
  ['POST /v1/tools/around', (client) => client.around('grant', { conversation: 'x', seq: '1' })],
  ['POST /v1/tools/thread', (client) => client.thread('grant', { conversation: 'x', seq: '1' })],
  ['POST /v1/tools/list_conversations', (client) => client.listConversations('grant', {})],
  ['POST /v1/deliveries', (client) => client.propose('grant', { destination: 'x', payload: 'y' })],
  [`GET /v1/deliveries/${ID}`, (client) => client.showDelivery(ofDelivery)],
  ['GET /v1/deliveries', (client) => client.listDeliveries({ organization, status: 'held' })],
  [
    `POST /v1/deliveries/${ID}/acknowledge`,
    (client) => client.acknowledgeDelivery({ ...ofDelivery, outcome: 'delivered' }),
  ],
  [
    `POST /v1/deliveries/${ID}/approve`,
    (client) => client.approveDelivery({ ...ofDelivery, payloadSha256: 'f'.repeat(64) }),
  ],
  [`POST /v1/deliveries/${ID}/discard`, (client) => client.discardDelivery(ofDelivery)],
  ['POST /v1/artifacts', (client) => client.saveArtifact('grant', { kind: 'draft', text: 'x' })],
  [`GET /v1/artifacts/${ID}`, (client) => client.readArtifact('grant', { artifact: ID })],
  [
    `POST /v1/artifacts/${ID}/releases`,
    (client) => client.askRelease('grant', { artifact: ID, destination: 'room' }),
  ],
];
const ONCE: readonly Route[] = [
  [`POST /v1/turns/${TURN}/lease`, (client) => client.takeLease({ ...ofTurn, owner: 'w' })],
  [`POST /v1/turns/${TURN}/complete`, (client) => client.complete({ ...ofTurn, lease: LEASE })],
  [`POST /v1/turns/${TURN}/stop`, (client) => client.stop(ofTurn)],
  [
    `POST /v1/deliveries/${ID}/release`,
    (client) => client.releaseDelivery({ ...ofDelivery, clearance: 'eyJ' }),
  ],
  ['POST /v1/deliveries/claim', (client) => client.claimDeliveries({ organization, worker: 'w' })],
];

describe('a failure that may pass', () => {
  test.each(REPEATED)('is tried again by %s, as often as the policy says', async (route, call) => {
    for (const reply of [BUSY, 'cut', { status: 502, html: 'bad gateway' }] satisfies Reply[]) {
      server.reset();
      server.script(route, reply);
      expect(await call(clientOf())).toMatchObject({ ok: false, recovery: 'retry' });
      expect(server.asked()).toEqual([route, route, route]);
      const keys = new Set(server.requests.map(({ headers }) => headers['idempotency-key']));
      expect(keys.size).toBe(1);
    }
  });

  test.each(ONCE)('is the answer of %s at once', async (route, call) => {
    server.script(route, BUSY);
    expect(await call(clientOf())).toMatchObject({ ok: false, code: 'unavailable' });
    expect(server.asked()).toEqual([route]);
  });

  test('that passes leaves the later answer', async () => {
    server.script('GET /v1', BUSY, { status: 200, json: { name: 'earshot', version: '1' } });
    expect(await clientOf().version()).toMatchObject({ ok: true, value: { name: 'earshot' } });
  });

  test('is not tried again where the call asks for one try, or the caller has left', async () => {
    server.script('GET /v1', BUSY);
    await clientOf().version({ retry: false });
    const left = new AbortController();
    left.abort();
    expect(await clientOf().version({ signal: left.signal })).toMatchObject({ code: 'aborted' });
    expect(server.asked()).toEqual(['GET /v1']);
  });

  test('of another kind is not tried again', async () => {
    server.script('GET /v1', problemReply(409, 'conflict'));
    await clientOf().version();
    server.script('GET /v1', { status: 404, html: 'not here' });
    await clientOf().version();
    expect(server.asked()).toHaveLength(2);
  });
});

describe('the wait between two tries', () => {
  test('is a random part of a bound that doubles, on top of what the gateway asks for', async () => {
    const reply = { ...BUSY, headers: { 'retry-after': '2' } };
    server.script('GET /v1', reply);
    await clientOf({ retry: { tries: 4, baseMs: 100, capMs: 300 } }).version();
    expect(clock.waits).toEqual([2050, 2100, 2150]);
  });

  test('that the gateway asks for may be longer than anyone waits', async () => {
    const reply = { ...BUSY, headers: { 'retry-after': '31' } };
    server.script('GET /v1', reply);
    expect(await clientOf().version()).toMatchObject({ ok: false, retryAfterMs: 31_000 });
    expect(server.asked()).toHaveLength(1);
  });

  test('is between nothing and its bound', () => {
    const refusal = { ok: false, recovery: 'retry' } as ClientRefusal;
    expect(waitAfter(refusal, 1, RETRIES, () => 0)).toBe(0);
    expect(waitAfter(refusal, 1, RETRIES, () => 1)).toBe(RETRIES.baseMs);
    expect(waitAfter(refusal, 60, RETRIES, () => 1)).toBe(RETRIES.capMs);
    expect(waitAfter({ ...refusal, recovery: 'remint' }, 1, RETRIES, () => 0)).toBeUndefined();
  });
});

describe('a refusal', () => {
  test('of the gateway carries what the gateway said', async () => {
    const changes = { added: 1, gone: 0, floorsMoved: 0 };
    const who = { recoveryOwner: 'source_owner', next: 'owner_release' };
    const more = { recovery: 'ask_owner', ...who, decision: 'd1', changes };
    server.script('POST /v1/tools/search', problemReply(409, 'source_revoked', more));
    expect(await clientOf().search('grant', { query: 'x' })).toEqual({
      ok: false,
      from: 'gateway',
      code: 'source_revoked',
      status: 409,
      detail: 'source_revoked',
      ...more,
    });
  });

  test.each(Object.keys(REFUSALS) as RefusalCode[])('%s has its own recovery', async (code) => {
    const { status, recovery } = REFUSALS[code];
    server.script('POST /v1/tools/search', problemReply(status, code));
    const options = { retry: false };
    const refused = await clientOf().search('grant', { query: 'x' }, options);
    expect(refused).toMatchObject({ from: 'gateway', code, recovery, status });
  });

  test('whose recovery is not known is the end', async () => {
    const reply = problemReply(409, 'conflict', { recovery: 'phone_home' });
    server.script('POST /v1/tools/search', reply);
    expect(await clientOf().search('grant', { query: 'x' })).toMatchObject({ recovery: 'stop' });
  });

  test('is what a token that cannot be had comes to, and nothing is sent', async () => {
    const token = () => Promise.reject(new Error('no vault'));
    expect(await clientOf({ token }).openTurn(turn)).toMatchObject({ code: 'no_token' });
    expect(server.asked()).toEqual([]);
  });

  test('is what a redirect comes to, and the token goes nowhere else', async () => {
    const headers = { location: `${server.url}/elsewhere` };
    server.script('POST /v1/turns', { status: 307, html: '', headers });
    expect(await clientOf().openTurn(turn)).toMatchObject({ code: 'foreign_answer' });
    expect(server.asked()).toEqual(['POST /v1/turns']);
  });
});

describe('a success that is not what was asked for is refused', () => {
  test('a lease of another owner', async () => {
    const route = `POST /v1/turns/${TURN}/lease`;
    server.script(route, { status: 200, json: { ...LEASE, expiresAt: 'soon' } });
    const take = (owner: string) => clientOf().takeLease({ ...ofTurn, owner });
    expect(await take('worker-7')).toMatchObject({ ok: true, value: { seconds: 30 } });
    expect(await take('worker-8')).toMatchObject({ ok: false, code: 'malformed_answer' });
  });

  test('a clearance of other bytes or toward another place', async () => {
    const cleared = {
      id: ID,
      status: 'cleared',
      destination: 'thread',
      payloadSha256: '34a4f6ab54d3522439793f43822f3e923f0afe25ea9002d4e8166b9ce949fdef',
      clearance: `eyJhbGciOiJFZERTQSJ9.eyJqdGkiOiJ4In0.${'A'.repeat(86)}`,
      expiresAt: 'soon',
    };
    const propose = async (more: object = {}) => {
      server.script('POST /v1/deliveries', { status: 200, json: { ...cleared, ...more } });
      const proposal = { destination: 'thread', payload: 'The launch is on Friday.' };
      return clientOf().propose('grant', proposal);
    };
    expect(await propose()).toMatchObject({ ok: true, value: { status: 'cleared' } });
    const refused = { ok: false, code: 'malformed_answer' };
    expect(await propose({ payloadSha256: 'f'.repeat(64) })).toMatchObject(refused);
    expect(await propose({ destination: 'room' })).toMatchObject(refused);
    expect(await propose({ clearance: undefined })).toMatchObject(refused);
    expect(await propose({ status: 'sent' })).toMatchObject(refused);
  });

  test('a clearance that is missing, but for what is queued', async () => {
    const payload = 'The launch is on Friday.';
    const cleared = {
      id: ID,
      status: 'cleared',
      destination: 'thread',
      payloadSha256: '34a4f6ab54d3522439793f43822f3e923f0afe25ea9002d4e8166b9ce949fdef',
      expiresAt: 'soon',
    };
    const propose = async (wishes: object, more: object = {}) => {
      server.script('POST /v1/deliveries', { status: 200, json: { ...cleared, ...more } });
      return clientOf().propose('grant', { destination: 'thread', payload, ...wishes });
    };
    const accepted = { ok: true, value: { status: 'cleared' } };
    for (const wishes of [{ queue: true }, { sendAt: 'soon' }, { approval: true }]) {
      expect(await propose(wishes)).toMatchObject(accepted);
    }
    // The persona's facts asked for it.
    expect(await propose({}, { approval: { by: 'operator' } })).toMatchObject(accepted);
    expect(await propose({})).toMatchObject({ ok: false, code: 'malformed_answer' });
    expect(await propose({ queue: false })).toMatchObject({ ok: false });
  });

  test('a saved text of other bytes', async () => {
    const saved = { id: ID, kind: 'draft', createdAt: 'now', decision: 'd1' };
    const save = async (textSha256: string) => {
      server.script('POST /v1/artifacts', { status: 200, json: { ...saved, textSha256 } });
      return clientOf().saveArtifact('grant', { kind: 'draft', text: 'x' });
    };
    const sha256 = '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881';
    expect(await save(sha256)).toMatchObject({ ok: true, value: { textSha256: sha256 } });
    expect(await save('f'.repeat(64))).toMatchObject({ code: 'malformed_answer' });
  });
});
