import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createClient } from '../../client/client.ts';
import { keepLease } from '../../client/kept-lease.ts';
import { problemReply, startFakeServer, type FakeServer, type Reply } from './fake-server.ts';
import { steppedClock, type SteppedClock } from './stepped-clock.ts';

const TURN = 'bf4c89bc-e9ab-4122-b7a2-dba807666480';
const ROUTE = `POST /v1/turns/${TURN}/heartbeat`;
const turn = { organization: 'acme', turnId: TURN };
const bare = { leaseId: '0c6fb516-9686-4900-9bbd-a6710d959ef0', owner: 'worker-7', fence: '2' };
const lease = { ...bare, seconds: 30 };
const EXTENDED: Reply = { status: 200, json: { expiresAt: '2026-11-30T06:38:01.987942Z' } };

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

function keep() {
  const client = createClient({ baseUrl: server.url, token: 'token', clock });
  return keepLease(client, turn, lease);
}

/** Lets a third of the lease pass, and what comes of it happen. */
async function third(): Promise<void> {
  await clock.untilWaiting();
  clock.pass(10_000);
}

test('a lease gets a heartbeat at each third, with its fence and its length', async () => {
  server.script(ROUTE, EXTENDED);
  const kept = keep();
  for (let beats = 1; beats <= 5; beats++) {
    await third();
    await clock.untilWaiting();
    expect(server.requests).toHaveLength(beats);
  }
  expect(server.requests[0]?.body).toEqual({ organization: 'acme', lease: bare, seconds: 30 });
  expect(kept.signal.aborted).toBe(false);
  await kept.stop();
});

test('a clean stop ends the heartbeats, leaves no wait behind and the work alone', async () => {
  server.script(ROUTE, EXTENDED);
  const kept = keep();
  await third();
  await clock.untilWaiting();
  await kept.stop();
  await kept.stop();

  expect(clock.waiting).toBe(0);
  clock.pass(60_000);
  expect(server.requests).toHaveLength(1);
  expect(kept.signal.aborted).toBe(false);
  expect(kept.lost).toBeUndefined();
});

test('a stop while a heartbeat is under way does not wait for its answer', async () => {
  server.script(ROUTE, 'silence');
  const kept = keep();
  await third();
  await kept.stop();
  expect(kept.lost).toBeUndefined();
});

test.each<[string, Reply]>([
  ['fenced', problemReply(409, 'fenced')],
  ['lease_lost', problemReply(409, 'lease_lost')],
  ['turn_not_running', problemReply(409, 'turn_not_running')],
  ['not_found', problemReply(404, 'not_found')],
  ['malformed_token', problemReply(401, 'malformed_token')],
  ['foreign_answer', { status: 404, html: 'not here' }],
  ['malformed_answer', { status: 200, html: 'welcome' }],
])('the work is aborted at once when a heartbeat is answered with %s', async (code, reply) => {
  server.script(ROUTE, EXTENDED, reply);
  const kept = keep();
  const aborted = new Promise((resolve) => {
    kept.signal.addEventListener('abort', () => resolve(kept.signal.reason));
  });
  await third();
  await third();
  expect(await aborted).toMatchObject({ ok: false, code });
  expect(kept.lost).toMatchObject({ code });

  clock.pass(60_000);
  await kept.stop();
  expect(server.requests).toHaveLength(2);
});

test('a heartbeat that was not answered is tried again at the next third', async () => {
  server.script(ROUTE, 'cut', EXTENDED);
  const kept = keep();
  await third();
  await third();
  await clock.untilWaiting();
  expect(server.requests).toHaveLength(2);
  expect(kept.signal.aborted).toBe(false);
  await kept.stop();
});

test.each<[string, Reply]>([
  ['a cut connection', 'cut'],
  ['a proxy’s page', { status: 502, html: 'bad gateway' }],
  ['a gateway that cannot answer', problemReply(503, 'unavailable')],
])(
  'a lease that %s keeps from being extended is given up when its time is over',
  async (_, reply) => {
    server.script(ROUTE, EXTENDED, reply);
    const kept = keep();
    await third();
    await third();
    await third();
    await clock.untilWaiting();
    expect(kept.signal.aborted).toBe(false);
    const aborted = new Promise((resolve) => kept.signal.addEventListener('abort', resolve));
    // The lease was extended at 10 s, for 30.
    await third();
    await aborted;
    expect(kept.lost).toMatchObject({ code: 'lease_unkept' });
    expect(server.requests).toHaveLength(3);
  },
);

test('the time of a lease is counted from before it was taken', async () => {
  server.script(ROUTE, 'cut');
  clock.pass(29_000);
  const client = createClient({ baseUrl: server.url, token: 'token', clock });
  const kept = keepLease(client, turn, lease, 0);
  const aborted = new Promise((resolve) => kept.signal.addEventListener('abort', resolve));
  await clock.untilWaiting();
  clock.pass(1_000);
  await aborted;
  expect(kept.lost).toMatchObject({ code: 'lease_unkept' });
});

test('a lease whose heartbeats find no token is given up when its time is over', async () => {
  const token = () => new Promise<string>(() => {});
  const client = createClient({ baseUrl: server.url, token });
  const kept = keepLease(client, turn, { ...bare, seconds: 0.03 });
  await new Promise((resolve) => kept.signal.addEventListener('abort', resolve));
  expect(kept.lost).toMatchObject({ code: 'lease_unkept' });
  expect(server.requests).toEqual([]);
});
