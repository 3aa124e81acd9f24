import type { JSONWebKeySet } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../client/client.ts';
import { refuseLocally } from '../../client/client-refusal.ts';
import { runTurn, type HeldAnswer } from '../../client/run-turn.ts';
import { keysOf, type ClearanceKeys } from '../../delivery/clearance-check.ts';
import { createEndpoint, type EndpointOptions } from '../../delivery/endpoint.ts';
import { memoryJournal, type Journal } from '../../delivery/journal.ts';
import { clientOf } from '../client/bridge-gateway.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// An endpoint whose platform, journal, network or operator does something between its steps.

let gateway: TestGateway;
let keys: ClearanceKeys;
let client: Client;
let acme: TestOrganization;
let turn: TestTurn;
let journal: Journal;
let sent: string[];

beforeAll(async () => {
  gateway = await openTestGateway();
  const { body } = await gateway.send('GET', '/.well-known/jwks.json');
  keys = keysOf(body as JSONWebKeySet);
  ({ client } = clientOf(gateway, 'deliver'));
});
afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'what is it');
  turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  journal = memoryJournal();
  sent = [];
});

function endpoint(more: Partial<EndpointOptions> = {}) {
  return createEndpoint({
    client,
    organization: acme.name,
    issuer: 'earshot',
    keys,
    journal,
    send: ({ payload }) => {
      sent.push(payload);
      return Promise.resolve({ outcome: 'delivered', message: `m${sent.length}` });
    },
    ...more,
  });
}

async function clear(payload = 'The launch is on Friday.') {
  const delivery = ok(await turn.propose(payload));
  return { id: delivery.id, clearance: delivery.clearance ?? '' };
}

const statusOf = async (id: string) => (await acme.delivery(id)).status;
const unanswered = () => Promise.resolve(refuseLocally('no_answer', 'retry'));
/** A client whose call never reaches the gateway. */
const without = (call: 'acknowledgeDelivery' | 'releaseDelivery'): Client => ({
  ...client,
  [call]: unanswered,
});
/** A platform that was called and gave no answer. */
const crashing: Partial<EndpointOptions> = {
  send: () => Promise.reject(new Error('the process is gone')),
};

describe('what is left open', () => {
  test('is looked at as it stands then: an answer that is sent meanwhile is not failed', async () => {
    const first = await clear('first');
    const second = await clear('second');
    await endpoint(crashing).deliver({ clearance: first.clearance });
    await endpoint({ client: without('releaseDelivery') }).deliver(second);
    expect((await journal.all()).map(({ state }) => state)).toEqual(['sending', 'releasing']);

    // Its acknowledgement is lost, so that only the endpoint knows.
    let lost = false;
    const acknowledgeDelivery: Client['acknowledgeDelivery'] = (...args) => {
      if (lost) return client.acknowledgeDelivery(...args);
      lost = true;
      return unanswered();
    };
    const one = endpoint({
      client: { ...client, acknowledgeDelivery },
      find: async () => {
        expect(await one.deliver(second)).toMatchObject({ ok: true, acknowledged: false });
        return undefined;
      },
    });
    expect(await one.reconcile()).toMatchObject([
      { entry: { deliveryId: first.id }, outcome: 'open' },
      { entry: { deliveryId: second.id, state: 'sent' }, outcome: 'delivered' },
    ]);
    expect(sent).toEqual(['second']);
    expect(await statusOf(second.id)).toBe('delivered');
  });

  test('stays open where the platform fails to tell, and the rest is settled', async () => {
    const first = await clear('first');
    const second = await clear('second');
    await endpoint(crashing).deliver(first);
    await endpoint({ client: without('acknowledgeDelivery') }).deliver(second);
    const find = () => Promise.reject(new Error('the platform is down'));
    expect(await endpoint({ find }).reconcile()).toMatchObject([
      { entry: { deliveryId: first.id }, outcome: 'open' },
      { entry: { deliveryId: second.id }, outcome: 'delivered' },
    ]);
  });

  test.each(['delivered', 'failed'] as const)(
    'is dropped once a person has told the gateway: %s',
    async (outcome) => {
      const { id, clearance } = await clear();
      await endpoint(crashing).deliver({ clearance });
      expect(await endpoint().reconcile()).toMatchObject([{ outcome: 'open' }]);
      ok(await acme.acknowledge({ id }, outcome));
      expect(await endpoint().reconcile()).toMatchObject([{ outcome: 'dropped' }]);
      expect(await journal.all()).toEqual([]);
      expect(await statusOf(id)).toBe(outcome);
    },
  );

  test('is failed where the platform took nothing, though the gateway could not be told then', async () => {
    const { id, clearance } = await clear();
    const send = () => Promise.resolve({ outcome: 'failed' as const });
    const refused = await endpoint({ client: without('acknowledgeDelivery'), send }).deliver({
      clearance,
    });
    expect(refused).toMatchObject({ code: 'send_failed', recovery: 'rebuild' });
    expect(await statusOf(id)).toBe('released');
    // Nobody has to ask the platform.
    expect(await endpoint().reconcile()).toMatchObject([{ outcome: 'failed' }]);
    expect(await statusOf(id)).toBe('failed');
    expect(sent).toEqual([]);
  });
});

describe('a clearance that is used again', () => {
  test('after its answer was sent is never taken for one that was not', async () => {
    const { id, clearance } = await clear();
    expect(await endpoint().deliver({ clearance })).toMatchObject({ ok: true });
    const lost = endpoint({ client: without('releaseDelivery') });
    expect(await lost.deliver({ clearance })).toMatchObject({ code: 'no_answer' });
    expect(await endpoint().deliver({ clearance })).toMatchObject({
      code: 'already_released',
      recovery: 'reconcile',
    });
    expect(await endpoint().reconcile()).toMatchObject([{ outcome: 'dropped' }]);
    expect(await statusOf(id)).toBe('delivered');
    expect(sent).toHaveLength(1);
  });
});

describe('a platform that cannot say who reads there', () => {
  test('gets nothing, and the answer may still go when it can', async () => {
    const { id, clearance } = await clear();
    const shownReaders = () => Promise.reject(new Error('the platform is down'));
    expect(await endpoint({ shownReaders }).deliver({ clearance })).toMatchObject({
      ok: false,
      from: 'endpoint',
      code: 'readers_unknown',
      recovery: 'retry',
    });
    expect([sent, await journal.all(), await statusOf(id)]).toEqual([[], [], 'cleared']);
    const shown = endpoint({ shownReaders: () => Promise.resolve(['ana', 'ben']) });
    expect(await shown.deliver({ clearance })).toMatchObject({ ok: true });
  });
});

describe('a journal that cannot be written', () => {
  /** A journal whose disk is full from a step on. */
  const fullAt = (state: string): Journal => ({
    ...journal,
    write: (entry) =>
      entry.state === state ? Promise.reject(new Error('the disk is full')) : journal.write(entry),
  });

  test.each([
    ['releasing', 'cleared', []],
    ['sending', 'released', [{ outcome: 'failed' }]],
  ])('before a step stops it there, and nothing is sent: %s', async (state, status, settled) => {
    const { id, clearance } = await clear();
    const full = endpoint({ journal: fullAt(state) });
    await expect(full.deliver({ clearance })).rejects.toThrow('the disk is full');
    expect([sent, await statusOf(id)]).toEqual([[], status]);
    expect(await endpoint().reconcile()).toMatchObject(settled);
  });

  test('after the sending leaves the platform to be asked, and nothing is sent again', async () => {
    const { id, clearance } = await clear();
    const full = endpoint({ journal: fullAt('sent') });
    await expect(full.deliver({ clearance })).rejects.toThrow('the disk is full');
    expect(await endpoint().deliver({ clearance })).toMatchObject({ code: 'already_released' });
    const find = () => Promise.resolve({ message: 'm1' });
    expect(await endpoint({ find }).reconcile()).toMatchObject([{ outcome: 'delivered' }]);
    expect([sent.length, await statusOf(id)]).toEqual([1, 'delivered']);
  });
});

test('an answer that may have been sent is not made again, and is settled though its turn has failed', async () => {
  const request = {
    organization: acme.name,
    persona: 'assistant',
    destination: 'thread',
    requester: 'ana',
    trigger: { kind: 'thread', seq: '1' },
  } as const;
  const bridge = clientOf(gateway, 'bridge').client;
  const work = () => Promise.resolve({ payload: 'The launch is on Friday.' });
  const options = { owner: 'worker', deliver: endpoint(crashing).deliver };
  const outcome = await runTurn(bridge, request, work, options);
  expect(outcome).toMatchObject({ code: 'send_unknown', recovery: 'reconcile', turns: 1 });

  const find = () => Promise.resolve({ message: 'm1' });
  expect(await endpoint({ find }).reconcile()).toMatchObject([{ outcome: 'delivered' }]);
  const { deliveryId } = outcome as HeldAnswer;
  expect(await statusOf(deliveryId)).toBe('delivered');
});
