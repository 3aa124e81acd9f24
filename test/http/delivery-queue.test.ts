import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { signClearance } from '../../gateway/tokens/clearance.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Claimed } from '../support/organization.ts';
import { enterQueueHouse, type QueueHouse } from './queue-house.ts';

// What waits for workers: who may claim it, how often it is tried, and where it ends.

let gateway: TestGateway;
let house: QueueHouse;
let acme: QueueHouse['acme'];
let turn: QueueHouse['turn'];

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  house = await enterQueueHouse(gateway);
  ({ acme, turn } = house);
});

describe('a queued delivery', () => {
  test('has no clearance, and leaves by the fence of a claim alone', async () => {
    const delivery = await house.queue();
    expect(delivery).toMatchObject({ status: 'cleared', attempts: 0 });
    expect(delivery.clearance).toBeUndefined();
    const { keys, config } = gateway.gateway;
    const clearance = await signClearance(keys, config.issuer, {
      ...{ delivery: delivery.id, organization: acme.name, destination: 'thread' },
      ...{ audienceHash: turn.grant.audienceHash, payloadSha256: delivery.payloadSha256 },
      expiresAt: Math.floor(Date.now() / 1000) + 60,
    });
    for (const more of [{}, { fence: '0' }, { fence: '1' }]) {
      expect((await acme.release({ id: delivery.id, clearance }, more)).code).toBe('fenced');
    }
    expect(await house.rowOf(delivery.id)).toMatchObject({
      status: 'cleared',
      payload: 'It sang.',
    });

    const claimed = await house.claimOne();
    expect(claimed).toMatchObject({
      id: delivery.id,
      fence: '1',
      attempt: 1,
      destination: 'thread',
    });
    expect((await acme.release({ id: delivery.id, clearance })).code).toBe('fenced');
    expect(ok(await house.release(claimed))).toMatchObject({
      payload: 'It sang.',
      destination: 'thread',
    });
    expect((await house.release(claimed)).code).toBe('already_released');
    ok(await house.report(claimed, 'delivered'));
    expect(await house.rowOf(delivery.id)).toMatchObject({ status: 'delivered', payload: null });
  });

  test('is what workers are given; a direct one is nobody’s to claim, and takes no fence', async () => {
    const direct = ok(await turn.propose('At once.'));

    expect(await acme.claim()).toEqual([]);
    expect((await acme.release(direct, { fence: '0' })).code).toBe('fenced');
    expect(ok(await acme.release(direct)).payload).toBe('At once.');
    expect((await acme.acknowledge(direct, 'failed', undefined, { fence: '0' })).code).toBe(
      'fenced',
    );
    ok(await acme.acknowledge(direct, 'failed', undefined, { reason: 'closed' }));
    expect(await acme.delivery(direct.id)).toMatchObject({ status: 'failed', reason: 'closed' });
    expect(await acme.claim()).toEqual([]);
  });

  test('answers a repeated key as it stands, and another wish by a conflict', async () => {
    const first = await house.queue('It sang.', { key: 'k' });
    expect(await house.queue('It sang.', { key: 'k' })).toMatchObject({
      id: first.id,
      status: 'cleared',
    });
    expect((await turn.propose('It sang.', { key: 'k' })).code).toBe('conflict');
    const claimed = await house.claimOne();
    expect(await house.queue('It sang.', { key: 'k' })).toMatchObject({
      id: first.id,
      status: 'claimed',
    });
    ok(await house.release(claimed));
    expect(await house.queue('It sang.', { key: 'k' })).toMatchObject({
      id: first.id,
      status: 'released',
    });
    expect(await acme.claim()).toEqual([]);
  });

  test('is judged again when it is released, and held if its readers changed since it was claimed', async () => {
    await house.queue('one');
    await house.queue('two');
    const [one, two] = await acme.claim();
    if (one === undefined || two === undefined) throw new Error('nothing is due');
    ok(await house.release(one));
    await acme.put('conversations/thread/members/cleo', { history: 'all' });

    expect((await house.release(two)).code).toBe('audience_changed');
    expect(await house.rowOf(two.id)).toMatchObject({ status: 'held', payload: null });
    expect((await house.report(two, 'delivered')).code).toBe('conflict');
    await house.pass(two.id, 'lease_expires_at');
    expect(await acme.claim()).toEqual([]);
  });

  test('leaves after its turn has completed, and not after it was stopped', async () => {
    await house.queue('one');
    await house.queue('two');
    ok(await turn.end('complete'));
    const [one, two] = await acme.claim();
    if (one === undefined || two === undefined) throw new Error('nothing is due');
    expect(ok(await house.release(one)).payload).toBe('one');
    await acme.put(`stops/turn/${turn.id}`, {});
    expect((await house.release(two)).code).toBe('stopped');
  });
});

describe('a claim', () => {
  test('takes the oldest first, as many as are asked for, toward the places that are named', async () => {
    await house.queue('one');
    await house.queue('two', { destination: 'room' });
    await house.queue('three');
    const bodies = async (claimed: Claimed[]) =>
      (await Promise.all(claimed.map((one) => house.release(one)))).map(
        (answer) => ok(answer).payload,
      );

    expect(await acme.claim({ destinations: ['nowhere'] })).toEqual([]);
    expect(await bodies(await acme.claim({ destinations: ['room'] }))).toEqual(['two']);
    expect(await bodies(await acme.claim({ limit: 1 }))).toEqual(['one']);
    expect(await bodies(await acme.claim())).toEqual(['three']);
    expect(await acme.claim()).toEqual([]);
  });

  test('finds nothing of another organization, nor of a persona that the caller is not registered for', async () => {
    await house.queue();
    const other = await gateway.organization();
    const json = { organization: acme.name, worker: 'one' };
    const claimAs = async (personas: string[]) => {
      const id = `c-${personas.join()}-${acme.name}`;
      const token = await gateway.addCaller({ id, scopes: ['deliver'], personas });
      return ok(await gateway.send('POST', '/v1/deliveries/claim', { token, json }));
    };

    expect(await other.claim()).toEqual([]);
    expect(await claimAs(['another'])).toEqual({ deliveries: [] });
    expect(await claimAs(['another', 'assistant'])).toMatchObject({ deliveries: [{ fence: '1' }] });
  });

  test('that ran out is another worker’s, and whoever had it is fenced', async () => {
    await house.queue();
    const late = await house.claimOne('one');
    await house.pass(late.id, 'lease_expires_at');
    expect((await house.release(late)).code).toBe('fenced');
    expect((await house.report(late, 'delivered')).code).toBe('fenced');

    const claimed = await house.claimOne('two');
    expect(claimed).toMatchObject({ id: late.id, fence: '2', attempt: 2 });
    expect((await house.release(late)).code).toBe('fenced');
    expect((await house.release({ ...late, clearance: claimed.clearance })).code).toBe('fenced');
    ok(await house.release(claimed));
    expect((await house.report(late, 'delivered')).code).toBe('fenced');
    expect((await house.report(late, 'failed')).code).toBe('fenced');
    expect((await acme.acknowledge(claimed, 'delivered')).code).toBe('fenced');
    expect(await house.rowOf(late.id)).toMatchObject({ status: 'released', payload: 'It sang.' });
    ok(await house.report(claimed, 'delivered'));
    ok(await house.report(claimed, 'delivered'));
    expect((await house.report(late, 'delivered')).code).toBe('fenced');
    expect((await house.report(claimed, 'failed')).code).toBe('conflict');
  });

  test('that has not run out keeps everybody else from the delivery', async () => {
    await house.queue();
    const claimed = await house.claimOne('one');
    expect(await acme.claim({ worker: 'two' })).toEqual([]);
    expect((await house.report(claimed, 'delivered')).code).toBe('conflict');
    expect(ok(await house.release(claimed)).payload).toBe('It sang.');
  });

  test('may be given back unsent, which counts as a try that failed', async () => {
    const { id } = await house.queue();
    const claimed = await house.claimOne();
    ok(await house.report(claimed, 'failed', 'the readers are not known'));
    ok(await house.report(claimed, 'failed', 'the readers are not known'));
    expect(await acme.delivery(id)).toMatchObject({
      ...{ status: 'scheduled', reason: 'the readers are not known', attempts: 1 },
    });
    expect((await house.release(claimed)).code).toBe('fenced');
    expect((await house.report(claimed, 'delivered')).code).toBe('conflict');
    await house.pass(id, 'not_before');
    const again = await house.claimOne();
    expect(again).toMatchObject({ id, fence: '2', attempt: 2 });
    expect(ok(await house.release(again)).payload).toBe('It sang.');
  });

  test('that runs out again and again leaves the delivery dead, with its reason and without its bytes', async () => {
    const { id } = await house.queue();
    for (let attempt = 1; attempt <= 5; attempt++) {
      expect(await house.claimOne()).toMatchObject({ id, attempt, fence: String(attempt) });
      await house.pass(id, 'lease_expires_at');
    }
    expect(await acme.claim()).toEqual([]);

    expect(await acme.delivery(id)).toMatchObject({
      ...{ status: 'dead', reason: 'lease_expired', attempts: 5 },
    });
    expect(await house.rowOf(id)).toMatchObject({ status: 'dead', payload: null });
    expect((await house.stepsOf(id)).at(-1)).toMatchObject({
      ...{ kind: 'dead', detail: { by: 'gateway', reason: 'lease_expired' } },
    });
  });
});

describe('a try that failed', () => {
  test('is made again after a pause that doubles, with the same bytes, and the last one ends as dead', async () => {
    const { id } = await house.queue();
    const pauses: number[] = [];
    for (let attempt = 1; attempt <= 5; attempt++) {
      const claimed = await house.claimOne();
      expect(claimed).toMatchObject({ id, attempt });
      expect(ok(await house.release(claimed)).payload).toBe('It sang.');
      ok(await house.report(claimed, 'failed', 'the platform is away'));
      // The same report again changes nothing.
      ok(await house.report(claimed, 'failed', 'the platform is away'));
      expect((await house.release(claimed)).code).toBe('fenced');
      expect(await acme.claim()).toEqual([]);
      const [row] = await gateway.owner<{ pause: string }[]>`
        select extract(epoch from not_before - acknowledged_at)::integer as pause
        from earshot.deliveries where id = ${id} and status = 'scheduled'`;
      if (row !== undefined) pauses.push(Number(row.pause));
      await house.pass(id, 'not_before');
    }
    expect(pauses).toEqual([5, 10, 20, 40]);
    expect(await acme.delivery(id)).toMatchObject({
      ...{ status: 'dead', reason: 'the platform is away', attempts: 5 },
    });
    expect(await house.rowOf(id)).toMatchObject({ status: 'dead', payload: null });
    expect(await acme.claim()).toEqual([]);
    expect((await house.stepsOf(id)).filter(({ kind }) => kind !== 'release')).toMatchObject([
      { kind: 'propose' },
      ...[1, 2, 3, 4].flatMap((fence) => [
        { kind: 'claim', detail: { by: 'endpoint', fence: String(fence) } },
        { kind: 'retry', detail: { by: 'endpoint', outcome: 'failed', attempts: fence } },
      ]),
      { kind: 'claim' },
      { kind: 'dead', detail: { by: 'endpoint', outcome: 'failed', attempts: 5 } },
    ]);
  });

  test('waits no longer than ten minutes', async () => {
    const { id } = await house.queue();
    const claimed = await house.claimOne();
    await gateway.owner`update earshot.deliveries set attempts = 90 where id = ${id}`;
    ok(await house.release(claimed));
    const [row] = await gateway.owner<{ code: string | null }[]>`
      select earshot.acknowledge_delivery(${acme.name}, ${id}, 'failed', null, 1, null, 'endpoint', 100) as code`;
    expect(row?.code).toBeNull();
    const [left] = await gateway.owner<{ pause: string }[]>`
      select extract(epoch from not_before - acknowledged_at)::integer as pause
      from earshot.deliveries where id = ${id}`;
    expect(Number(left?.pause)).toBe(600);
  });

  test('is the last one where the next would come after the time that it may wait', async () => {
    const { id } = await house.queue();
    const claimed = await house.claimOne();
    ok(await house.release(claimed));
    await gateway.owner`
      update earshot.deliveries set expires_at = clock_timestamp() + interval '4 seconds' where id = ${id}`;
    ok(await house.report(claimed, 'failed'));
    expect(await acme.delivery(id)).toMatchObject({ status: 'dead', reason: 'delivery_expired' });
  });
});

describe('a delivery that is to be sent later', () => {
  test('is claimed from that moment on, and not before', async () => {
    const sendAt = new Date(Date.now() + 3_600_000).toISOString();
    const delivery = ok(await turn.propose('It sang.', { sendAt }));
    expect(delivery.status).toBe('scheduled');
    expect(Date.parse(delivery.sendAt ?? '')).toBe(Date.parse(sendAt));
    expect(await acme.claim()).toEqual([]);

    await house.pass(delivery.id, 'not_before');
    expect(await house.claimOne()).toMatchObject({ id: delivery.id });
  });

  test('is due at once where that moment has passed', async () => {
    const delivery = ok(await turn.propose('It sang.', { sendAt: '2026-01-01T00:00:00Z' }));
    expect(delivery.status).toBe('cleared');
    expect(await house.claimOne()).toMatchObject({ id: delivery.id });
  });

  test('is not taken where that is later than anything may wait', async () => {
    const sendAt = new Date(Date.now() + 86_500_000).toISOString();
    expect((await turn.propose('It sang.', { sendAt })).code).toBe('invalid_input');
    expect(
      await gateway.owner`select from earshot.deliveries where turn_id = ${turn.id}`,
    ).toHaveLength(0);
    const soon = new Date(Date.now() + 86_300_000).toISOString();
    expect(ok(await turn.propose('It sang.', { sendAt: soon })).status).toBe('scheduled');
  });
});
