import { Hono } from 'hono';
import type { JSONWebKeySet } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../client/client.ts';
import { refuseLocally } from '../../client/client-refusal.ts';
import { keysOf, type ClearanceKeys } from '../../delivery/clearance-check.ts';
import type { OutgoingEdit, OutgoingMessage, SendResult } from '../../delivery/carrier.ts';
import { createEndpoint, type EndpointOptions } from '../../delivery/endpoint.ts';
import { memoryJournal, type Journal } from '../../delivery/journal.ts';
import { deliverCleared, type DeliveryVariables } from '../../delivery/middleware.ts';
import { clientOf } from '../client/bridge-gateway.ts';
import { steppedClock } from '../client/stepped-clock.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// A delivery endpoint against a real gateway, with a platform that only remembers what it was given.

let gateway: TestGateway;
let keys: ClearanceKeys;
let client: Client;
let acme: TestOrganization;
let turn: TestTurn;
let journal: Journal;
let sent: OutgoingMessage[];

beforeAll(async () => {
  gateway = await openTestGateway();
  const { body } = await gateway.send('GET', '/.well-known/jwks.json');
  keys = keysOf(body as JSONWebKeySet);
  ({ client } = clientOf(gateway, 'deliver'));
});
afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
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
    send: (message) => {
      sent.push(message);
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

/** A client that loses the answer of a call, after or before it reached the gateway. */
function losing(call: 'releaseDelivery' | 'acknowledgeDelivery', reached: boolean): Client {
  let lost = false;
  return {
    ...client,
    [call]: async (...args: Parameters<Client['releaseDelivery']>) => {
      if (lost) return (client[call] as Client['releaseDelivery'])(...args);
      lost = true;
      if (reached) await (client[call] as Client['releaseDelivery'])(...args);
      return refuseLocally('no_answer', 'retry');
    },
  };
}

describe('a cleared answer', () => {
  test('is sent as it was judged, once, and the gateway is told which message it became', async () => {
    const { id, clearance } = await clear('Ça chanta. \u{1F426}');
    expect(await endpoint().deliver({ clearance, payload: 'Ça chanta. \u{1F426}' })).toEqual({
      ok: true,
      deliveryId: id,
      destination: 'thread',
      message: 'm1',
      acknowledged: true,
    });
    expect(sent).toEqual([
      {
        deliveryId: id,
        destination: 'thread',
        payload: 'Ça chanta. \u{1F426}',
        contentType: 'text/plain',
      },
    ]);
    expect(await statusOf(id)).toBe('delivered');
    expect(await journal.all()).toEqual([]);
  });

  test('is sent once, however often and however many at once it is asked for', async () => {
    const { id, clearance } = await clear();
    const one = endpoint();
    const other = endpoint({ journal: memoryJournal() });
    const outcomes = await Promise.all(
      [one, one, other, one, other].map((each) => each.deliver({ clearance })),
    );
    expect(outcomes.filter((outcome) => outcome.ok)).toHaveLength(1);
    expect(await one.deliver({ clearance })).toMatchObject({ code: 'already_released' });
    expect(sent).toHaveLength(1);
    expect(await statusOf(id)).toBe('delivered');
  });
});

test('a release that another endpoint has is not settled by this one', async () => {
  const { id, clearance } = await clear();
  const other = endpoint({ journal: memoryJournal() });
  const send: EndpointOptions['send'] = async (message) => {
    expect(await other.deliver({ clearance })).toMatchObject({
      code: 'already_released',
      recovery: 'reconcile',
    });
    expect(await statusOf(id)).toBe('released');
    sent.push(message);
    return { outcome: 'delivered', message: 'm1' };
  };
  expect(await endpoint({ send }).deliver({ clearance })).toMatchObject({ acknowledged: true });
  expect(await statusOf(id)).toBe('delivered');
  expect(sent).toHaveLength(1);
});

describe('nothing is asked and nothing is sent', () => {
  test.each<[string, (clearance: string) => object, Partial<EndpointOptions>, string]>([
    ['for other bytes', () => ({ payload: 'The launch is on Monday.' }), {}, 'payload_mismatch'],
    [
      'for bytes that only look the same',
      () => ({ payload: new TextEncoder().encode('The launch is on Friday.\n') }),
      {},
      'payload_mismatch',
    ],
    [
      'for a clearance that was cut',
      (token) => ({ clearance: token.slice(0, -2) }),
      {},
      'malformed_token',
    ],
    ['for a clearance of another issuer', () => ({}), { issuer: 'elsewhere' }, 'malformed_token'],
    [
      'toward a place it does not serve',
      () => ({}),
      { serves: (to) => to === 'room' },
      'not_served',
    ],
    ['for another organization', () => ({}), { organization: 'other' }, 'not_served'],
    ['without keys', () => ({}), { keys: keysOf({ keys: [] }) }, 'malformed_token'],
  ])('%s', async (_, asked, options, code) => {
    const { id, clearance } = await clear();
    const outcome = await endpoint(options).deliver({ clearance, ...asked(clearance) });
    expect(outcome).toMatchObject({ ok: false, from: 'endpoint', code });
    expect(sent).toEqual([]);
    expect(await journal.all()).toEqual([]);
    expect(await statusOf(id)).toBe('cleared');
  });

  test('for a grant', async () => {
    const outcome = await endpoint().deliver({ clearance: turn.grant.token });
    expect(outcome).toMatchObject({ code: 'malformed_token' });
  });
});

describe('a release that is refused sends nothing', () => {
  test('when somebody joined since it was cleared', async () => {
    const { id, clearance } = await clear();
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    expect(await endpoint().deliver({ clearance })).toMatchObject({
      ok: false,
      from: 'gateway',
      code: 'audience_changed',
      recovery: 'rebuild',
    });
    expect(sent).toEqual([]);
    expect(await journal.all()).toEqual([]);
    expect(await statusOf(id)).toBe('held');
  });

  test('when the platform shows a reader who was not judged', async () => {
    const { clearance } = await clear();
    const shownReaders = () => Promise.resolve(['ana', 'ben', 'cleo']);
    const outcome = await endpoint({ shownReaders }).deliver({ clearance });
    expect(outcome).toMatchObject({ code: 'audience_changed' });
    expect(sent).toEqual([]);
  });

  test('when the gateway hands out other bytes than were cleared', async () => {
    const { id, clearance } = await clear();
    const releaseDelivery: Client['releaseDelivery'] = async (...args) => {
      const released = await client.releaseDelivery(...args);
      return released.ok ? { ok: true, value: { ...released.value, payload: 'other' } } : released;
    };
    const outcome = await endpoint({ client: { ...client, releaseDelivery } }).deliver({
      clearance,
    });
    expect(outcome).toMatchObject({ code: 'payload_mismatch' });
    expect(sent).toEqual([]);
    expect(await statusOf(id)).toBe('failed');
  });
});

describe('what breaks off is settled from the endpoint’s own record', () => {
  test('a release that never arrived may be asked for again', async () => {
    const { id, clearance } = await clear();
    const one = endpoint({ client: losing('releaseDelivery', false) });
    expect(await one.deliver({ clearance })).toMatchObject({ ok: false, code: 'no_answer' });
    expect(await one.reconcile()).toMatchObject([{ outcome: 'open' }]);
    expect(await one.deliver({ clearance })).toMatchObject({ ok: true, deliveryId: id });
    expect(sent).toHaveLength(1);
  });

  test('a release whose answer was lost is failed, and a second one hands out nothing', async () => {
    const { id, clearance } = await clear();
    const one = endpoint({ client: losing('releaseDelivery', true) });
    expect(await one.deliver({ clearance })).toMatchObject({ ok: false, code: 'no_answer' });
    expect(await one.deliver({ clearance })).toMatchObject({
      code: 'already_released',
      recovery: 'rebuild',
    });
    expect(sent).toEqual([]);
    expect(await statusOf(id)).toBe('failed');
    expect(await journal.all()).toEqual([]);
  });

  test('after a crash behind the release, the delivery is failed: nothing was sent', async () => {
    const { id, clearance } = await clear();
    await endpoint({ client: losing('releaseDelivery', true) }).deliver({ clearance });
    expect(await endpoint().reconcile()).toMatchObject([{ outcome: 'failed' }]);
    expect(await statusOf(id)).toBe('failed');
    expect(await endpoint().reconcile()).toEqual([]);
  });

  test('after a crash before the release, an answer that was held is dropped', async () => {
    const { id, clearance } = await clear();
    await endpoint({ client: losing('releaseDelivery', false) }).deliver({ clearance });
    await gateway.owner`update earshot.deliveries set expires_at = now() where id = ${id}`;
    expect(await endpoint().reconcile()).toMatchObject([{ outcome: 'dropped' }]);
    expect(await journal.all()).toEqual([]);
  });

  const crashing = () => ({ send: () => Promise.reject(new Error('the process is gone')) });

  test.each([
    ['that has it', { message: 'm7' }, 'delivered', 'delivered'],
    ['that has it not', 'absent', 'failed', 'failed'],
    ['that cannot tell', undefined, 'open', 'released'],
  ] as const)(
    'after a crash while it was sent, the platform decides: one %s',
    async (_, found, outcome, status) => {
      const { id, clearance } = await clear();
      expect(await endpoint(crashing()).deliver({ clearance })).toMatchObject({
        code: 'send_unknown',
        recovery: 'reconcile',
      });
      expect(await endpoint().deliver({ clearance })).toMatchObject({ code: 'already_released' });
      const find = () => Promise.resolve(found);
      expect(await endpoint({ find }).reconcile()).toMatchObject([
        { entry: { deliveryId: id, state: 'sending' }, outcome },
      ]);
      expect(await statusOf(id)).toBe(status);
      expect(sent).toEqual([]);
    },
  );

  test('without a way to ask the platform, it is left to a person', async () => {
    const { id, clearance } = await clear();
    await endpoint(crashing()).deliver({ clearance });
    await gateway.owner`update earshot.deliveries set acknowledge_by = now() where id = ${id}`;
    expect(await endpoint().reconcile()).toMatchObject([{ outcome: 'open' }]);
    expect(await statusOf(id)).toBe('reconciling');
    expect(await journal.all()).toHaveLength(1);
  });

  test.each([true, false])(
    'an acknowledgement that was lost (reached the gateway: %s) is made up for',
    async (reached) => {
      const { id, clearance } = await clear();
      const one = endpoint({ client: losing('acknowledgeDelivery', reached) });
      expect(await one.deliver({ clearance })).toMatchObject({ ok: true, acknowledged: false });
      expect(await endpoint().reconcile()).toMatchObject([{ outcome: 'delivered' }]);
      expect(await statusOf(id)).toBe('delivered');
      expect(sent).toHaveLength(1);
    },
  );

  test('a platform that takes no message fails the delivery', async () => {
    const { id, clearance } = await clear();
    const send = () => Promise.resolve({ outcome: 'failed' as const });
    expect(await endpoint({ send }).deliver({ clearance })).toMatchObject({ code: 'send_failed' });
    expect(await statusOf(id)).toBe('failed');
  });
});

describe('an edit of an answer', () => {
  async function clearEdit() {
    const { id: edits, clearance } = await clear();
    expect(await endpoint().deliver({ clearance })).toMatchObject({ ok: true, message: 'm1' });
    sent = [];
    return ok(await turn.propose('The launch is on Monday.', { edits }));
  }

  test('is made in its message, and is reported without another', async () => {
    const { id, clearance = '' } = await clearEdit();
    const edited: OutgoingEdit[] = [];
    const edit: EndpointOptions['edit'] = (outgoing) => {
      edited.push(outgoing);
      return Promise.resolve({ outcome: 'delivered' });
    };
    expect(await endpoint({ edit }).deliver({ clearance })).toMatchObject({
      ok: true,
      message: 'm1',
      acknowledged: true,
    });
    expect(edited).toMatchObject([{ payload: 'The launch is on Monday.', message: 'm1' }]);
    expect([sent, await statusOf(id)]).toEqual([[], 'delivered']);
  });

  test('is never sent as a message of its own', async () => {
    const { id, clearance = '' } = await clearEdit();
    expect(await endpoint().deliver({ clearance })).toMatchObject({
      code: 'edits_unsupported',
      recovery: 'correct',
    });
    expect([sent, await statusOf(id), await journal.all()]).toEqual([[], 'failed', []]);
  });
});

test('a platform is waited for as long as it may take, and heard also after that', async () => {
  const { id, clearance } = await clear();
  const clock = steppedClock();
  let answer: (result: SendResult) => void = () => {};
  let given: AbortSignal | undefined;
  const send: EndpointOptions['send'] = (_, signal) => {
    given = signal;
    return new Promise((resolve) => (answer = resolve));
  };
  const one = endpoint({ send, clock, sendSeconds: 30 });
  const outcome = one.deliver({ clearance });
  await clock.untilWaiting();
  expect(given?.aborted).toBe(false);
  clock.pass(30_000);
  expect(await outcome).toMatchObject({ code: 'send_unknown', recovery: 'reconcile' });
  expect(given?.aborted).toBe(true);
  expect(await one.deliver({ clearance })).toMatchObject({ code: 'already_released' });
  expect(await one.reconcile()).toEqual([]);
  answer({ outcome: 'delivered', message: 'm1' });
  await expect.poll(() => statusOf(id), { timeout: 20_000 }).toBe('delivered');
});

test('what is queued is not for whoever has a clearance: it is fenced, and stays claimed', async () => {
  const { id } = ok(await turn.propose('The launch is on Friday.', { queue: true }));
  const [claimed] = await acme.claim();
  const outcome = await endpoint().deliver({ clearance: claimed?.clearance ?? '' });
  expect(outcome).toMatchObject({ from: 'gateway', code: 'fenced' });
  expect([sent, await journal.all(), await statusOf(id)]).toEqual([[], [], 'claimed']);
});

describe('the route of an endpoint', () => {
  function app(options: Partial<EndpointOptions> = {}) {
    const hono = new Hono<{ Variables: DeliveryVariables }>();
    hono.post('/deliveries', deliverCleared(endpoint(options)), (context) =>
      context.json({ message: context.var.delivered.message }),
    );
    return (body: unknown) =>
      hono.request('/deliveries', {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });
  }

  test('delivers, and goes on with what was delivered', async () => {
    const { clearance } = await clear();
    const answer = await app()({ clearance, payload: 'The launch is on Friday.' });
    expect([answer.status, await answer.json()]).toEqual([200, { message: 'm1' }]);
  });

  test('answers a refusal as a problem, and what follows does not run', async () => {
    const { clearance } = await clear();
    const post = app();
    const refused = async (body: unknown, options?: Partial<EndpointOptions>) => {
      const answer = await (options === undefined ? post : app(options))(body);
      expect(answer.headers.get('content-type')).toBe('application/problem+json');
      return [answer.status, ((await answer.json()) as { code: string }).code];
    };
    expect(await refused('{')).toEqual([400, 'invalid_input']);
    expect(await refused({ clearance, destination: 'room' })).toEqual([400, 'invalid_input']);
    expect(await refused({ clearance: 'x' })).toEqual([401, 'malformed_token']);
    expect(await refused({ clearance, payload: 'x' })).toEqual([409, 'payload_mismatch']);
    expect(await refused({ clearance }, { serves: () => false })).toEqual([404, 'not_served']);
    const send = () => Promise.resolve({ outcome: 'failed' as const });
    expect(await refused({ clearance }, { send })).toEqual([502, 'send_failed']);
    expect(await refused({ clearance })).toEqual([409, 'already_released']);
    expect(sent).toEqual([]);
  });
});
