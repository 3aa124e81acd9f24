import type { JSONWebKeySet } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../client/client.ts';
import { refuseLocally } from '../../client/client-refusal.ts';
import type { OutgoingEdit, OutgoingMessage, SendResult } from '../../delivery/carrier.ts';
import { keysOf, type ClearanceKeys } from '../../delivery/clearance-check.ts';
import { memoryJournal, type Journal } from '../../delivery/journal.ts';
import {
  createWorker,
  type QueueWorker,
  type Round,
  type WorkerOptions,
} from '../../delivery/queue-worker.ts';
import { clientOf } from '../client/bridge-gateway.ts';
import { steppedClock, type SteppedClock } from '../client/stepped-clock.ts';
import { enterQueueHouse, type QueueHouse } from '../http/queue-house.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';

// Workers of the queue against a real gateway, with a platform that only remembers what it was given.

let gateway: TestGateway;
let keys: ClearanceKeys;
let client: Client;
let house: QueueHouse;
let clock: SteppedClock;
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
  house = await enterQueueHouse(gateway);
  clock = steppedClock();
  journal = memoryJournal();
  sent = [];
});

function worker(more: Partial<WorkerOptions> = {}): QueueWorker {
  return createWorker({
    client,
    organization: house.acme.name,
    worker: 'one',
    issuer: 'earshot',
    keys,
    journal,
    clock,
    random: () => 1,
    send,
    ...more,
  });
}
/** Another process of the same endpoint. */
const second = (more: Partial<WorkerOptions> = {}) =>
  worker({ worker: 'two', journal: memoryJournal(), clock: steppedClock(), ...more });

function send(message: OutgoingMessage): Promise<SendResult> {
  sent.push(message);
  return Promise.resolve({ outcome: 'delivered', message: `m-${message.deliveryId}` });
}
/** Waits for what is about to be so. */
const until = (ask: () => unknown) => expect.poll(ask, { timeout: 20_000 });
const never = () => new Promise<never>(() => {});

/** Queues texts, in this order, and gives their ids. */
async function queued(...texts: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const text of texts) ids.push((await house.queue(text)).id);
  return ids;
}
const statusOf = async (id = '') => (await house.rowOf(id)).status;
const textsSent = () => sent.map(({ payload }) => payload);

/** What became of each delivery of a round: that it went, or the code. */
function codesOf(round: Round): string[] {
  if (!round.ok) throw new Error(round.code);
  return round.carried.map(({ outcome }) => (outcome.ok ? 'ok' : outcome.code));
}

/** A client that loses the answer of the first such call, after or before it reached the gateway. */
function losing(call: 'releaseDelivery' | 'acknowledgeDelivery', reached: boolean): Client {
  let lost = false;
  return {
    ...client,
    [call]: async (...args: Parameters<Client['releaseDelivery']>) => {
      const really = client[call] as Client['releaseDelivery'];
      if (lost) return really(...args);
      lost = true;
      if (reached) await really(...args);
      return refuseLocally('no_answer', 'retry');
    },
  };
}

describe('a worker', () => {
  test('sends what is queued in its order, each once, and reports which message it became', async () => {
    const ids = await queued('first', 'second', 'third');
    const told: string[] = [];
    const report: WorkerOptions['report'] = ({ delivery }) => told.push(delivery.id);
    expect(await worker({ report }).once()).toMatchObject({
      ok: true,
      carried: ids.map((deliveryId) => ({
        delivery: { id: deliveryId, attempt: 1, fence: '1' },
        outcome: { ok: true, deliveryId, message: `m-${deliveryId}`, acknowledged: true },
      })),
    });
    expect(textsSent()).toEqual(['first', 'second', 'third']);
    expect(told).toEqual(ids);
    expect(await journal.all()).toEqual([]);
    for (const id of ids) {
      expect(await house.acme.delivery(id)).toMatchObject({
        status: 'delivered',
        message: `m-${id}`,
      });
    }
    expect(await worker().once()).toEqual({ ok: true, carried: [] });
    expect(clock.waiting).toBe(0);
  });

  test('takes as many as its batch, and toward its own places alone', async () => {
    await queued('first', 'second', 'third');
    await house.queue('elsewhere', { destination: 'room' });
    expect(codesOf(await worker({ batch: 2, destinations: ['thread'] }).once())).toHaveLength(2);
    expect(codesOf(await worker({ destinations: ['room'] }).once())).toEqual(['ok']);
    expect(textsSent()).toEqual(['first', 'second', 'elsewhere']);
  });

  test('sends nothing that a release holds, and what it does not serve is left to its lease', async () => {
    const [id] = await queued('It sang.');
    expect(codesOf(await worker({ serves: () => false }).once())).toEqual(['not_served']);
    await house.pass(id ?? '', 'lease_expires_at');
    await house.acme.put('conversations/thread/members/cleo', { history: 'all' });
    expect(codesOf(await worker().once())).toEqual(['audience_changed']);
    expect([sent, await journal.all(), await statusOf(id)]).toEqual([[], [], 'held']);
  });

  test('asks who reads there just before the release, and holds what others would read', async () => {
    const [id] = await queued('It sang.');
    const shownReaders = () => Promise.resolve(['ana', 'ben', 'cleo']);
    expect(codesOf(await worker({ shownReaders }).once())).toEqual(['audience_changed']);
    expect([sent, await statusOf(id)]).toEqual([[], 'held']);
  });

  test.each(['fenced', 'leaving'])(
    'that hears too late who reads there asks for no release any more: %s',
    async (code) => {
      const [id] = await queued('It sang.');
      const leaving = new AbortController();
      const shownReaders = () => {
        if (code === 'fenced') clock.pass(30_000);
        else leaving.abort();
        return Promise.resolve(['ana']);
      };
      const { client: watched, seen } = clientOf(gateway, 'deliver');
      const round = await worker({ client: watched, shownReaders }).once(leaving);
      expect(codesOf(round)).toEqual([code]);
      expect(seen.map(({ route }) => route)).toEqual(['POST /v1/deliveries/claim']);
      expect([await journal.all(), await statusOf(id)]).toEqual([[], 'claimed']);
    },
  );

  test('takes no clearance but that of the claimed delivery', async () => {
    const ids = await queued('first', 'second');
    const claimDeliveries: Client['claimDeliveries'] = async (...args) => {
      const claimed = await client.claimDeliveries(...args);
      if (!claimed.ok) return claimed;
      const [one, other] = claimed.value;
      if (one === undefined || other === undefined) throw new Error('not two');
      const swapped = [
        { ...one, clearance: other.clearance },
        { ...other, payloadSha256: one.payloadSha256 },
      ];
      return { ok: true, value: swapped };
    };
    const round = await worker({ client: { ...client, claimDeliveries } }).once();
    expect(codesOf(round)).toEqual(['malformed_token', 'payload_mismatch']);
    expect(sent).toEqual([]);
    expect(await Promise.all(ids.map(statusOf))).toEqual(['claimed', 'claimed']);
  });

  test('that cannot claim says why, and has done nothing', async () => {
    const bridge = clientOf(gateway, 'bridge').client;
    expect(await worker({ client: bridge }).once()).toMatchObject({ code: 'not_permitted' });
  });
});

describe('a try that the platform refuses', () => {
  test('is tried again later with the same id, and in the end it is dead, with the reason', async () => {
    const [id = ''] = await queued('It sang.');
    const seen: string[] = [];
    const refusing: WorkerOptions['send'] = ({ deliveryId, payload }) => {
      seen.push(`${deliveryId} ${payload}`);
      return Promise.resolve({ outcome: 'failed', reason: 'the channel\nis archived' });
    };
    for (let attempt = 1; attempt <= 5; attempt++) {
      expect(await statusOf(id)).toBe(attempt === 1 ? 'cleared' : 'scheduled');
      if (attempt > 1) {
        expect(codesOf(await worker().once())).toEqual([]);
        await house.pass(id, 'not_before');
      }
      expect(codesOf(await worker({ send: refusing }).once())).toEqual(['send_failed']);
    }
    expect(seen).toEqual(Array(5).fill(`${id} It sang.`));
    expect(await house.acme.delivery(id)).toMatchObject({
      status: 'dead',
      attempts: 5,
      reason: 'the channel is archived',
    });
    expect(await journal.all()).toEqual([]);
  });

  test.each([
    ['of more than is kept', `${'a'.repeat(499)}\u{1F426}b`, 'a'.repeat(499)],
    ['of nothing to read', '\u0000\n', undefined],
  ])('with a reason %s is reported all the same', async (_, reason, kept) => {
    const [id = ''] = await queued('It sang.');
    const refusing = () => Promise.resolve({ outcome: 'failed' as const, reason });
    expect(codesOf(await worker({ send: refusing }).once())).toEqual(['send_failed']);
    expect(await house.acme.delivery(id)).toMatchObject({ status: 'scheduled' });
    expect((await house.rowOf(id)).reason ?? undefined).toBe(kept);
  });
});

describe('two workers', () => {
  test('at once send each delivery once', async () => {
    const ids = await queued(...Array.from({ length: 10 }, (_, place) => `text ${place}`));
    const workers = [worker({ batch: 3 }), second({ batch: 3 })];
    for (let rounds = 0; sent.length < 10 && rounds < 10; rounds++) {
      await Promise.all(workers.map((one) => one.once()));
    }
    expect(sent.map(({ deliveryId }) => deliveryId).sort()).toEqual([...ids].sort());
    expect(await Promise.all(ids.map(statusOf))).toEqual(Array(10).fill('delivered'));
  });

  test('share a batch that one is too slow for: what its lease does not reach is the other’s', async () => {
    const ids = await queued(...Array.from({ length: 10 }, (_, place) => `text ${place}`));
    const slow: WorkerOptions['send'] = (message) => {
      clock.pass(300);
      return send(message);
    };
    const asked: string[] = [];
    const shownReaders = (destination: string) => {
      asked.push(destination);
      return Promise.resolve(['ana', 'ben']);
    };
    const round = await worker({ send: slow, shownReaders, leaseSeconds: 1 }).once();
    expect(asked).toHaveLength(4);
    expect(codesOf(round)).toEqual([
      ...Array<string>(4).fill('ok'),
      ...Array<string>(6).fill('fenced'),
    ]);
    expect(await journal.all()).toEqual([]);
    const left = ids.slice(4);
    expect(await Promise.all(left.map(statusOf))).toEqual(Array(6).fill('claimed'));

    for (const id of left) await house.pass(id, 'lease_expires_at');
    expect(codesOf(await second().once())).toEqual(Array(6).fill('ok'));
    expect(sent.map(({ deliveryId }) => deliveryId)).toEqual(ids);
  });

  test('never release the same: a claim that another one took over is fenced, and sends nothing', async () => {
    const [id = ''] = await queued('It sang.');
    let overtaken = false;
    const before = async (route: string) => {
      if (!route.endsWith('/release') || overtaken) return;
      overtaken = true;
      await house.pass(id, 'lease_expires_at');
      expect(codesOf(await second().once())).toEqual(['ok']);
    };
    const late = worker({ client: clientOf(gateway, 'deliver', { before }).client });
    expect(codesOf(await late.once())).toEqual(['fenced']);
    expect(textsSent()).toEqual(['It sang.']);
    expect([await journal.all(), await statusOf(id)]).toEqual([[], 'delivered']);
  });

  test('report for themselves: what one learns after the other has the delivery changes nothing', async () => {
    const [id = ''] = await queued('It sang.');
    let answer: (result: SendResult) => void = () => {};
    const hanging = () => new Promise<SendResult>((resolve) => (answer = resolve));
    const first = worker({ send: hanging });
    const round = first.once();
    await clock.untilWaiting();
    clock.pass(60_000);
    expect(codesOf(await round)).toEqual(['send_unknown']);

    // An operator takes it for not sent, so it is tried again.
    await house.pass(id, 'acknowledge_by');
    ok(await house.step('acknowledge', id, gateway.tokens.operator, { outcome: 'failed' }));
    await house.pass(id, 'not_before');
    const seen: string[] = [];
    const failing = () => {
      // The platform answers the first one after all.
      answer({ outcome: 'delivered', message: 'late' });
      seen.push('second');
      return Promise.resolve({ outcome: 'failed' as const });
    };
    expect(codesOf(await second({ send: failing }).once())).toEqual(['send_failed']);
    expect(seen).toEqual(['second']);
    expect(await house.acme.delivery(id)).toMatchObject({ status: 'scheduled', attempts: 2 });

    // Whoever sent it does not send it again.
    await house.pass(id, 'not_before');
    await until(async () => (await journal.read(id))?.state).toBe('sent');
    expect(await first.reconcile()).toMatchObject([{ outcome: 'open' }]);
    expect(codesOf(await worker().once())).toEqual(['already_released']);
    expect(sent).toEqual([]);
    ok(await house.step('discard', id, gateway.tokens.operator));
    expect(await first.reconcile()).toMatchObject([{ outcome: 'dropped' }]);
  });
});

describe('a platform that does not answer', () => {
  test('holds up its own place alone, and is left for as long as it was to be waited for', async () => {
    const [id = '', behind = ''] = await queued('first', 'second');
    const aside = await house.queue('aside', { destination: 'room' });
    let given: AbortSignal | undefined;
    const hanging: WorkerOptions['send'] = (message, signal) => {
      if (message.payload !== 'first') return send(message);
      given = signal;
      return never();
    };
    const one = worker({ send: hanging, sendSeconds: 45 });
    const round = one.once();
    await until(textsSent).toEqual(['aside']);
    await until(() => statusOf(aside.id)).toBe('delivered');
    await until(() => given?.aborted).toBe(false);
    clock.pass(45_000);
    // The lease of the one behind ran out meanwhile.
    expect(codesOf(await round)).toEqual(['send_unknown', 'fenced', 'ok']);
    expect(given?.aborted).toBe(true);
    expect(await Promise.all([id, behind].map(statusOf))).toEqual(['released', 'claimed']);

    // It may have been sent: nobody is given it again, and a person settles it.
    await house.pass(behind, 'lease_expires_at');
    await house.pass(id, 'acknowledge_by');
    expect(codesOf(await second().once())).toEqual(['ok']);
    expect(await house.acme.delivery(id)).toMatchObject({ status: 'reconciling' });
    // Neither is it settled by its own process, which may still hear of it.
    expect(await one.reconcile()).toEqual([]);
    ok(await house.step('acknowledge', id, gateway.tokens.operator, { outcome: 'delivered' }));
    expect(await worker().reconcile()).toMatchObject([{ outcome: 'dropped' }]);
  });

  test('in time, and does later, is heard', async () => {
    const [id = ''] = await queued('It sang.');
    let answer: (result: SendResult) => void = () => {};
    const one = worker({ send: () => new Promise((resolve) => (answer = resolve)) });
    const round = one.once();
    await clock.untilWaiting();
    clock.pass(60_000);
    expect(codesOf(await round)).toEqual(['send_unknown']);
    answer({ outcome: 'delivered', message: 'late' });
    await until(() => statusOf(id)).toBe('delivered');
    await until(() => journal.all()).toEqual([]);
  });

  test('when it is asked who reads there has nothing released, until the delivery is dead', async () => {
    const [id = ''] = await queued('It sang.');
    for (let attempt = 1; attempt <= 5; attempt++) {
      const round = worker({ shownReaders: never }).once();
      await clock.untilWaiting();
      clock.pass(30_000);
      expect(codesOf(await round)).toEqual(['readers_unknown']);
      await house.pass(id, 'lease_expires_at');
    }
    expect(codesOf(await worker().once())).toEqual([]);
    expect(await house.acme.delivery(id)).toMatchObject({
      status: 'dead',
      reason: 'lease_expired',
    });
    expect([sent, await journal.all(), clock.waiting]).toEqual([[], [], 0]);
  });
});

describe('after a crash', () => {
  test('behind the claim, the next claim has it', async () => {
    const [id = ''] = await queued('It sang.');
    await house.claimOne('gone');
    expect(codesOf(await worker().once())).toEqual([]);
    await house.pass(id, 'lease_expires_at');
    expect(codesOf(await worker().once())).toEqual(['ok']);
    expect(textsSent()).toEqual(['It sang.']);
  });

  test('before the release arrived, it waits for its lease, and is sent by a new claim', async () => {
    const [id = ''] = await queued('It sang.');
    const crashed = worker({ client: losing('releaseDelivery', false) });
    expect(codesOf(await crashed.once())).toEqual(['no_answer']);
    // The release may be on its way still.
    expect(await worker().reconcile()).toMatchObject([
      { entry: { state: 'releasing', fence: '1' }, outcome: 'open' },
    ]);
    await house.pass(id, 'lease_expires_at');
    expect(codesOf(await worker().once())).toEqual(['ok']);
    expect([textsSent(), await journal.all()]).toEqual([['It sang.'], []]);
  });

  test('behind the release, nothing was sent: it is tried again, once', async () => {
    const [id = ''] = await queued('It sang.');
    const crashed = worker({ client: losing('releaseDelivery', true) });
    expect(codesOf(await crashed.once())).toEqual(['no_answer']);
    expect(await statusOf(id)).toBe('released');
    expect(await worker().reconcile()).toMatchObject([{ outcome: 'failed' }]);
    expect(await statusOf(id)).toBe('scheduled');
    await house.pass(id, 'not_before');
    expect(codesOf(await worker().once())).toEqual(['ok']);
    expect([textsSent(), await journal.all()]).toEqual([['It sang.'], []]);
  });

  test('behind the release, what another worker has by now is not failed', async () => {
    const [id = ''] = await queued('It sang.');
    await worker({ client: losing('releaseDelivery', true) }).once();
    await house.pass(id, 'acknowledge_by');
    ok(await house.step('acknowledge', id, gateway.tokens.operator, { outcome: 'failed' }));
    await house.pass(id, 'not_before');
    const other = second({
      send: async (message) => {
        expect(await worker().reconcile()).toMatchObject([{ outcome: 'dropped' }]);
        return send(message);
      },
    });
    expect(codesOf(await other.once())).toEqual(['ok']);
    expect([await statusOf(id), await journal.all()]).toEqual(['delivered', []]);
  });

  const crashing: Partial<WorkerOptions> = {
    send: () => Promise.reject(new Error('the process is gone')),
  };

  test.each([
    ['that has it', { message: 'm7' }, 'delivered', 'delivered'],
    ['that has it not', 'absent', 'failed', 'scheduled'],
    ['that cannot tell', undefined, 'open', 'reconciling'],
  ] as const)(
    'while it was sent, the platform decides: one %s',
    async (_, found, outcome, status) => {
      const [id = ''] = await queued('It sang.');
      expect(codesOf(await worker(crashing).once())).toEqual(['send_unknown']);
      await house.pass(id, 'acknowledge_by');
      expect(codesOf(await worker().once())).toEqual([]);
      const find = () => Promise.resolve(found);
      expect(await worker({ find }).reconcile()).toMatchObject([{ outcome }]);
      expect(await statusOf(id)).toBe(status);
      expect(sent).toEqual([]);
    },
  );

  test.each([true, false])(
    'before the report’s answer (reached the gateway: %s), it is made up for and not sent again',
    async (reached) => {
      const [id = ''] = await queued('It sang.');
      const round = await worker({ client: losing('acknowledgeDelivery', reached) }).once();
      expect(round).toMatchObject({ carried: [{ outcome: { ok: true, acknowledged: false } }] });
      expect(await worker().reconcile()).toMatchObject([
        { entry: { state: 'sent', message: `m-${id}` }, outcome: 'delivered' },
      ]);
      expect(await statusOf(id)).toBe('delivered');
      expect(textsSent()).toEqual(['It sang.']);
    },
  );

  test('that leaves no room to write down a step, the round throws, and nothing is sent', async () => {
    const [id = '', behind = ''] = await queued('first', 'second');
    await house.queue('aside', { destination: 'room' });
    const full: Journal = {
      ...journal,
      write: (entry) =>
        entry.destination === 'thread'
          ? Promise.reject(new Error('the disk is full'))
          : journal.write(entry),
    };
    await expect(worker({ journal: full }).once()).rejects.toThrow('the disk is full');
    expect(textsSent()).toEqual(['aside']);
    expect(await Promise.all([id, behind].map(statusOf))).toEqual(['claimed', 'claimed']);
  });
});

describe('an edit', () => {
  let message: string;
  let edits: string;
  beforeEach(async () => {
    [edits = ''] = await queued('It sang.');
    await worker().once();
    message = `m-${edits}`;
    sent = [];
  });

  test('is made in the message that it edits, and is reported without another', async () => {
    const { id } = await house.queue('It sings.', { edits });
    const edited: OutgoingEdit[] = [];
    const edit: WorkerOptions['edit'] = (outgoing) => {
      edited.push(outgoing);
      return Promise.resolve({ outcome: 'delivered' });
    };
    const round = await worker({ edit }).once();
    expect(round).toMatchObject({ carried: [{ outcome: { ok: true, message } }] });
    expect(edited).toEqual([
      {
        deliveryId: id,
        destination: 'thread',
        payload: 'It sings.',
        contentType: 'text/plain',
        message,
      },
    ]);
    expect(await house.acme.delivery(id)).toMatchObject({ status: 'delivered', message });
    expect(sent).toEqual([]);
  });

  test('is never sent as a message of its own', async () => {
    const { id } = await house.queue('It sings.', { edits });
    expect(codesOf(await worker().once())).toEqual(['edits_unsupported']);
    expect(sent).toEqual([]);
    expect(await house.acme.delivery(id)).toMatchObject({
      status: 'scheduled',
      reason: 'edits_unsupported',
    });
  });

  test('that broke off is looked for as an edit, and settled as one', async () => {
    const { id } = await house.queue('It sings.', { edits });
    const edit = () => Promise.reject(new Error('the process is gone'));
    expect(codesOf(await worker({ edit }).once())).toEqual(['send_unknown']);
    const looked: unknown[] = [];
    const find: WorkerOptions['find'] = (entry) => {
      looked.push(entry);
      return Promise.resolve({ message });
    };
    expect(await worker({ find }).reconcile()).toMatchObject([{ outcome: 'delivered' }]);
    expect(looked).toEqual([
      { deliveryId: id, destination: 'thread', state: 'sending', fence: '1', edits: message },
    ]);
    expect(await statusOf(id)).toBe('delivered');
  });
});

describe('a worker that runs', () => {
  test('settles what is left before it claims', async () => {
    const [id] = await queued('It sang.');
    await worker({ client: losing('acknowledgeDelivery', false) }).once();
    const claimDeliveries = () => Promise.resolve(refuseLocally('foreign_answer', 'stop'));
    const running = worker({ client: { ...client, claimDeliveries } });
    expect(await running.run(new AbortController())).toMatchObject({ code: 'foreign_answer' });
    expect([await journal.all(), await statusOf(id)]).toEqual([[], 'delivered']);
  });

  test('carries what there is, settles what was left, and asks ever later while there is nothing', async () => {
    const ids = await queued('first', 'second');
    const leaving = new AbortController();
    const idle = { leastMs: 100, mostMs: 300 };
    const running = worker({ idle, client: losing('acknowledgeDelivery', false) }).run(leaving);
    const idled = () => clock.waits.filter((ms) => ms <= 300);
    for (const expected of [[100], [100, 200], [100, 200, 300], [100, 200, 300, 300]]) {
      await until(idled).toEqual(expected);
      if (expected.length < 4) clock.pass(300);
    }
    expect(await journal.all()).toEqual([]);
    expect(textsSent()).toEqual(['first', 'second']);
    expect(await Promise.all(ids.map(statusOf))).toEqual(['delivered', 'delivered']);

    // Something comes, so it asks soon again.
    const [late = ''] = await queued('third');
    clock.pass(300);
    await until(() => idled().length).toBe(5);
    expect([idled().at(-1), await statusOf(late)]).toEqual([100, 'delivered']);
    leaving.abort();
    expect(await running).toEqual({ ok: true });
    expect(clock.waiting).toBe(0);
  });

  test('and is asked to leave ends what it released, and releases nothing more', async () => {
    const ids = await queued('first', 'second');
    const leaving = new AbortController();
    const told: string[] = [];
    let answer: () => void = () => {};
    const slow: WorkerOptions['send'] = async (message) => {
      await new Promise<void>((resolve) => (answer = resolve));
      return send(message);
    };
    const running = worker({
      send: slow,
      report: ({ outcome }) => told.push(outcome.ok ? 'ok' : outcome.code),
    }).run(leaving);
    await clock.untilWaiting();
    leaving.abort();
    answer();
    expect(await running).toEqual({ ok: true });
    expect(told).toEqual(['ok', 'leaving']);
    expect(await Promise.all(ids.map(statusOf))).toEqual(['delivered', 'claimed']);
    expect([textsSent(), await journal.all()]).toEqual([['first'], []]);
  });

  test('goes on where the gateway does not answer for a while, and ends where it refuses for good', async () => {
    const leaving = new AbortController();
    const running = worker({
      client: {
        ...client,
        claimDeliveries: () =>
          Promise.resolve(
            clock.waits.length < 3
              ? refuseLocally('no_answer', 'retry')
              : refuseLocally('foreign_answer', 'stop'),
          ),
      },
      idle: { leastMs: 1, mostMs: 1 },
    }).run(leaving);
    for (let waits = 1; waits <= 3; waits++) {
      await until(() => clock.waits.length).toBe(waits);
      clock.pass(1);
    }
    expect(await running).toMatchObject({ ok: false, code: 'foreign_answer' });
  });
});
