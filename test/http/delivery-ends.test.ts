import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Delivery } from '../support/organization.ts';
import { enterQueueHouse, type QueueHouse } from './queue-house.ts';

// Where deliveries end that nobody reports, that wait too long, or that nobody wants any more; and the list of all.

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

describe('a release that nobody acknowledged', () => {
  const settle = (id: string, outcome: string, more: object = {}) =>
    house.step('acknowledge', id, gateway.tokens.operator, { outcome, ...more });

  test('is reconciling: nobody claims it, and an operator or its own fence settles it', async () => {
    const [one, two] = [await house.queue('one'), await house.queue('two')];
    const claims = await acme.claim();
    for (const claimed of claims) {
      ok(await house.release(claimed));
      // Before its time has passed, it is the endpoint's to say.
      expect((await settle(claimed.id, 'delivered')).code).toBe('conflict');
      await house.pass(claimed.id, 'acknowledge_by');
    }
    expect(await acme.claim()).toEqual([]);
    expect(await house.rowOf(one.id)).toMatchObject({ status: 'reconciling', payload: 'one' });
    expect((await house.stepsOf(one.id)).at(-1)).toMatchObject({
      ...{ kind: 'reconcile', detail: { by: 'gateway' } },
    });
    for (const claimed of claims) {
      expect((await house.release(claimed)).code).toBe('already_released');
    }
    ok(await settle(one.id, 'delivered', { message: 'm1' }));
    expect(await acme.delivery(one.id)).toMatchObject({ status: 'delivered', message: 'm1' });
    expect((await house.stepsOf(one.id)).at(-1)).toMatchObject({
      ...{ kind: 'reconcile', detail: { by: 'operator', outcome: 'delivered' } },
    });
    const [, second] = claims;
    if (second === undefined) throw new Error('there is no second');
    ok(await house.report(second, 'delivered'));
    expect((await acme.delivery(two.id)).status).toBe('delivered');
  });

  test('that failed after all, as an operator found, is tried again', async () => {
    const { id } = await house.queue();
    ok(await house.release(await house.claimOne()));
    await house.pass(id, 'acknowledge_by');
    expect((await settle(id, 'failed', { fence: '7' })).code).toBe('fenced');
    ok(await settle(id, 'failed', { reason: 'it is not there' }));
    await house.pass(id, 'not_before');
    const claimed = await house.claimOne();
    expect(claimed).toMatchObject({ id, fence: '2' });
    expect(ok(await house.release(claimed)).payload).toBe('It sang.');
  });
});

describe('a delivery that waited too long', () => {
  test('is held by the next claim, whatever it waited for, and its bytes are gone', async () => {
    const sendAt = new Date(Date.now() + 3_600_000).toISOString();
    const late = [
      await house.queue('cleared'),
      ok(await turn.propose('scheduled', { sendAt })),
      ok(await turn.propose('waiting', { approval: true })),
      ok(await turn.propose('direct')),
    ];
    const claimed = await house.claimOne();
    const kept = await house.queue('kept');
    for (const { id } of late) await house.pass(id, 'expires_at');
    expect(await acme.delivery(claimed.id)).toMatchObject({
      ...{ status: 'held', code: 'delivery_expired', recovery: 'rebuild', recoveryOwner: 'agent' },
    });
    expect((await acme.claim()).map(({ id }) => id)).toEqual([kept.id]);

    for (const { id } of late) {
      expect(await house.rowOf(id)).toMatchObject({
        ...{ status: 'held', code: 'delivery_expired', payload: null },
      });
      expect((await house.stepsOf(id)).at(-1)).toMatchObject({
        kind: 'expire',
        code: 'delivery_expired',
      });
    }
    expect((await house.release(claimed)).code).toBe('delivery_expired');
  });

  test('loses its bytes to a later proposal, a few at a time', async () => {
    const late = await Promise.all(
      ['a', 'b', 'c', 'd', 'e', 'f'].map((text) => turn.propose(text)),
    );
    for (const { body } of late) await house.pass(body.id, 'expires_at');
    const left = async () =>
      (
        await gateway.owner`
        select from earshot.deliveries where turn_id = ${turn.id} and expires_at <= now() and payload is not null`
      ).length;
    expect(await left()).toBe(6);
    ok(await turn.propose('next'));
    expect(await left()).toBe(2);
    ok(await turn.propose('and next'));
    expect(await left()).toBe(0);
  });

  test('keeps none for another try, once it was released', async () => {
    const { id } = await house.queue();
    const claimed = await house.claimOne();
    ok(await house.release(claimed));
    await house.pass(id, 'expires_at');
    expect(await acme.claim()).toEqual([]);
    expect(await house.rowOf(id)).toMatchObject({ status: 'released', payload: null });
    ok(await house.report(claimed, 'failed'));
    expect(await acme.delivery(id)).toMatchObject({ status: 'dead', reason: 'delivery_expired' });
  });
});

describe('a discarded delivery', () => {
  const discard = (id: string, token = gateway.tokens.bridge) => house.step('discard', id, token);

  test('leaves no more, from wherever it waited, and its bytes are gone', async () => {
    const sendAt = new Date(Date.now() + 3_600_000).toISOString();
    const direct = ok(await turn.propose('direct'));
    await house.queue('claimed');
    const claimed = await house.claimOne();
    const waiting = [
      await house.queue('cleared'),
      ok(await turn.propose('scheduled', { sendAt })),
      ok(await turn.propose('waiting', { approval: true })),
      direct,
      claimed,
    ];
    for (const { id } of waiting) {
      expect(ok(await discard(id))).toMatchObject({ id, status: 'discarded' });
      ok(await discard(id, gateway.tokens.operator));
      expect(await house.rowOf(id)).toMatchObject({ status: 'discarded', payload: null });
      const steps = (await house.stepsOf(id)).filter(({ kind }) => kind === 'discard');
      expect(steps).toMatchObject([{ detail: { by: 'bridge' } }]);
    }
    expect((await acme.release(direct)).code).toBe('stopped');
    expect((await house.release(claimed)).code).toBe('stopped');
    expect(await acme.claim()).toEqual([]);
  });

  test('may have been held', async () => {
    await acme.remove('conversations/shared/members/ben');
    const held = ok(await turn.propose('It sang.'));
    expect(held.status).toBe('held');
    expect(ok(await discard(held.id, gateway.tokens.operator))).toMatchObject({
      status: 'discarded',
    });
    expect((await house.stepsOf(held.id)).at(-1)).toMatchObject({ detail: { by: 'operator' } });
  });

  test('is none that was released, of another organization, or asked for by an endpoint', async () => {
    const delivery = ok(await turn.propose('It sang.'));
    expect((await discard(delivery.id, gateway.tokens.deliver)).code).toBe('not_permitted');
    const other = await gateway.organization();
    const foreign = await gateway.send('POST', `/v1/deliveries/${delivery.id}/discard`, {
      ...{ token: gateway.tokens.operator, json: { organization: other.name } },
    });
    expect(foreign.code).toBe('not_found');
    ok(await acme.release(delivery));
    expect((await discard(delivery.id)).code).toBe('conflict');
    expect(await house.rowOf(delivery.id)).toMatchObject({ status: 'released' });
  });
});

describe('the list of deliveries', () => {
  interface Page {
    readonly deliveries: Delivery[];
    readonly cursor?: string;
    readonly complete: boolean;
  }
  const list = async (query = '', organization = acme.name, token = gateway.tokens.operator) =>
    ok(
      await gateway.send('GET', `/v1/deliveries?organization=${organization}${query}`, { token }),
    ) as Page;

  test('has the newest first, in pages, each once', async () => {
    const ids: string[] = [];
    for (const text of ['a', 'b', 'c', 'd', 'e']) ids.unshift((await house.queue(text)).id);
    const seen: string[] = [];
    for (let cursor: string | undefined, pages = 0; pages === 0 || cursor !== undefined; pages++) {
      const page = await list(`&limit=2${cursor === undefined ? '' : `&cursor=${cursor}`}`);
      seen.push(...page.deliveries.map(({ id }) => id));
      expect(page.complete).toBe(page.cursor === undefined);
      cursor = page.cursor;
    }
    expect(seen).toEqual(ids);
    expect(JSON.stringify(await list())).not.toMatch(/It sang|payload"/);
  });

  test('is narrowed by how they stand at this moment, and by their place', async () => {
    const [late, here, there] = [
      await house.queue('late'),
      await house.queue('here'),
      await house.queue('there', { destination: 'room' }),
    ];
    await house.pass(late.id, 'expires_at');
    const idsOf = async (query: string) => (await list(query)).deliveries.map(({ id }) => id);

    expect(await idsOf('&status=cleared')).toEqual([there.id, here.id]);
    expect(await idsOf('&status=held')).toEqual([late.id]);
    expect(await idsOf('&status=dead')).toEqual([]);
    expect(await idsOf('&destination=room')).toEqual([there.id]);
    expect(await idsOf('&destination=nowhere')).toEqual([]);
  });

  test('shows nothing of another organization, nor of a persona that the caller is not registered for', async () => {
    await house.queue();
    const other = await gateway.organization();
    const token = await gateway.addCaller({
      ...{ id: `l-${acme.name}`, scopes: ['operator'], personas: ['another'] },
    });
    expect((await list('', other.name)).deliveries).toEqual([]);
    expect((await list('', acme.name, token)).deliveries).toEqual([]);
    expect((await list('', acme.name, gateway.tokens.bridge)).deliveries).toHaveLength(1);
  });
});

test('steps of a delivery are on record with who took them, and nothing of what is in it', async () => {
  const { id } = await house.queue('It sang a secret.');
  const claimed = await house.claimOne('worker-name');
  ok(await house.release(claimed));
  ok(await house.report(claimed, 'failed', 'a secret reason'));
  const rows = await gateway.owner`
    select * from earshot.decisions where delivery_id = ${id} or turn_id = ${turn.id}`;
  expect(rows.length).toBeGreaterThan(4);
  expect(JSON.stringify(rows)).not.toMatch(/secret|worker-name/);
});
