import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sha256Hex } from '../../policy/canonical.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Delivery } from '../support/organization.ts';
import { openIssuerHouse, type HouseKey, type IssuerHouse } from './issuer-house.ts';
import { enterQueueHouse, type QueueHouse } from './queue-house.ts';

// What waits for a person: who may approve it, of what, and what the approval does not do.

/** The people of these are proved by one issuer. */
const PEOPLED = Array.from({ length: 60 }, (_, n) => `people-${n.toString()}`);

let folder: string;
let people: IssuerHouse;
let key: HouseKey;
let gateway: TestGateway;
let house: QueueHouse;
let acme: QueueHouse['acme'];
let turn: QueueHouse['turn'];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-people-'));
  people = await openIssuerHouse('https://people.example', 'earshot');
  key = await people.addKey('one', 'EdDSA');
  const [keys, config] = [join(folder, 'keys.json'), join(folder, 'config.json')];
  await writeFile(keys, JSON.stringify(people.keySet()));
  const issuer = {
    ...{ issuer: people.name, audience: 'earshot', file: keys, algorithms: ['EdDSA'] },
    people: { organizations: PEOPLED },
  };
  await writeFile(config, JSON.stringify({ issuers: [issuer] }));
  gateway = await openTestGateway({ CONFIG: config });
});

afterAll(async () => {
  await gateway.close();
  await people.stop();
  await rm(folder, { recursive: true });
});

beforeEach(async () => {
  house = await enterQueueHouse(gateway, PEOPLED.pop());
  ({ acme, turn } = house);
});

async function ask(payload = 'It sang.', options: object = {}): Promise<Delivery> {
  const delivery = ok(await turn.propose(payload, { approval: true, ...options }));
  expect(delivery).toMatchObject({ status: 'waiting', approval: {} });
  return delivery;
}

const approve = (
  { id, payloadSha256 }: Pick<Delivery, 'id' | 'payloadSha256'>,
  token = gateway.tokens.operator,
) => house.step('approve', id, token, { payloadSha256 });

const as = (person: string) => key.sign({ sub: person });

describe('a delivery that waits for an approval', () => {
  test('has no clearance, is claimed by nobody, and goes through the queue once it is approved', async () => {
    const delivery = await ask();
    expect(delivery.clearance).toBeUndefined();
    expect(await acme.claim()).toEqual([]);
    expect(await house.rowOf(delivery.id)).toMatchObject({
      status: 'waiting',
      payload: 'It sang.',
    });

    const approved = ok(await approve(delivery));
    expect(approved).toMatchObject({
      id: delivery.id,
      status: 'cleared',
      approval: { by: 'operator' },
    });
    expect(approved.approval?.at).toMatch(/^\d{4}-.*Z$/);
    const claimed = await house.claimOne();
    expect(ok(await house.release(claimed)).payload).toBe('It sang.');
    expect(await house.stepsOf(delivery.id)).toMatchObject([
      { kind: 'propose' },
      { kind: 'approve', verdict: 'allowed', detail: { by: 'operator' } },
      { kind: 'claim' },
      { kind: 'release', verdict: 'allowed' },
    ]);
  });

  test('is sent at its moment, if that comes after the approval', async () => {
    const sendAt = new Date(Date.now() + 3_600_000).toISOString();
    const delivery = await ask('It sang.', { sendAt });
    expect(ok(await approve(delivery)).status).toBe('scheduled');
    expect(await acme.claim()).toEqual([]);
    await house.pass(delivery.id, 'not_before');
    expect(ok(await house.release(await house.claimOne())).payload).toBe('It sang.');
  });

  test('is approved once; the same again changes nothing', async () => {
    const delivery = await ask();
    const first = ok(await approve(delivery));
    expect(ok(await approve(delivery))).toEqual(first);
    const claimed = await house.claimOne();
    expect(ok(await approve(delivery)).status).toBe('claimed');
    ok(await house.release(claimed));
    const steps = await house.stepsOf(delivery.id);
    expect(steps.filter(({ kind }) => kind === 'approve')).toHaveLength(1);
  });

  test('waits on when it is proposed again, also once it would not have to any more', async () => {
    await acme.put('personas/assistant', { ...PERSONA, approval: 'always' });
    const options = { key: 'k' };
    const first = ok(await turn.propose('It sang.', options));
    expect(first.status).toBe('waiting');
    await acme.put('personas/assistant', { ...PERSONA, approval: 'none' });
    expect(ok(await turn.propose('It sang.', options))).toMatchObject({
      id: first.id,
      status: 'waiting',
    });
    expect(ok(await turn.propose('It sang.', { key: 'l' })).status).toBe('cleared');
  });

  test('of which the approval is kept when it is proposed again', async () => {
    const first = await ask('It sang.', { key: 'k' });
    ok(await approve(first));
    expect(ok(await turn.propose('It sang.', { key: 'k', approval: true }))).toMatchObject({
      ...{ id: first.id, status: 'cleared', approval: { by: 'operator' } },
    });
    expect(ok(await house.release(await house.claimOne())).payload).toBe('It sang.');
  });
});

const PERSONA = { custody: 'service', designated: true };

describe('a persona', () => {
  test.each([
    ['none', 'thread', 'cleared'],
    ['none', 'room', 'cleared'],
    ['elsewhere', 'thread', 'cleared'],
    ['elsewhere', 'room', 'waiting'],
    ['always', 'thread', 'waiting'],
    ['always', 'room', 'waiting'],
  ])(
    'whose deliveries are approved %s has one to the %s %s',
    async (approval, destination, status) => {
      await acme.put('personas/assistant', { ...PERSONA, approval });
      const delivery = ok(await turn.propose('It sang.', { destination }));
      expect(delivery.status).toBe(status);
      expect(delivery.clearance === undefined).toBe(status === 'waiting');
    },
  );

  test('needs none unless that is said, and keeps what was said last', async () => {
    const shown = async () =>
      (
        ok(
          await gateway.send('GET', `/v1/organizations/${acme.name}/personas/assistant`, {
            token: gateway.tokens.operator,
          }),
        ) as { approval: string }
      ).approval;
    expect(await shown()).toBe('none');
    await acme.put('personas/assistant', { ...PERSONA, approval: 'always' });
    expect(await acme.put('personas/assistant', PERSONA)).toEqual({ outcome: 'unchanged' });
    expect(await shown()).toBe('always');
    expect(ok(await turn.propose('It sang.', { approval: false })).status).toBe('waiting');
  });

  test('that comes to need it makes a cleared delivery wait when that is proposed again', async () => {
    const first = ok(await turn.propose('It sang.', { key: 'k' }));
    expect(first.status).toBe('cleared');
    await acme.put('personas/assistant', { ...PERSONA, approval: 'always' });
    const again = ok(await turn.propose('It sang.', { key: 'k' }));
    expect(again).toMatchObject({ id: first.id, status: 'waiting' });
    // The clearance that it had is none for a delivery that waits.
    expect((await acme.release(first)).code).toBe('fenced');
    ok(await approve(again));
    expect(ok(await house.release(await house.claimOne())).payload).toBe('It sang.');
  });
});

describe('an approval', () => {
  test.each([
    ['the requester', 'ana', 'requester'],
    ['the destination’s owner', 'ben', 'owner'],
  ])('is given by %s too, who reads the destination now', async (_who, person, by) => {
    await thread({ owner: 'ben' });
    const delivery = ok(await (await freshTurn()).propose('It sang.', { approval: true }));
    expect(ok(await approve(delivery, await as(person)))).toMatchObject({
      ...{ status: 'cleared', approval: { by } },
    });
    expect((await house.stepsOf(delivery.id)).at(-1)).toMatchObject({ detail: { by } });
  });

  test('is nobody else’s: for them the delivery is not there', async () => {
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    const mine = await freshTurn();
    const delivery = ok(await mine.propose('It sang.', { approval: true }));
    const absent = { id: crypto.randomUUID(), payloadSha256: delivery.payloadSha256 };
    for (const person of ['ben', 'cleo', 'nobody']) {
      const [there, nowhere] = [
        await approve(delivery, await as(person)),
        await approve(absent, await as(person)),
      ];
      expect(there.code).toBe('not_found');
      expect(there.body).toEqual(nowhere.body);
    }
    for (const token of [gateway.tokens.bridge, gateway.tokens.deliver, gateway.tokens.ingest]) {
      expect((await approve(delivery, token)).code).toBe('not_permitted');
    }
    expect((await approve(delivery, mine.grant.token)).code).toBe('malformed_token');
    expect(await house.rowOf(delivery.id)).toMatchObject({
      status: 'waiting',
      payload: 'It sang.',
    });
  });

  test('is not the owner’s who reads the destination no more, nor a requester’s who left', async () => {
    await acme.conversation('room', ['ana', 'ben'], { owner: 'cleo' });
    const delivery = await ask('It sang.', { destination: 'room' });
    expect((await approve(delivery, await as('cleo'))).code).toBe('not_found');
    expect(ok(await approve(delivery, await as('ana'))).status).toBe('cleared');

    const second = await ask('It sang on.', { destination: 'room' });
    await acme.remove('conversations/room/members/ana');
    expect((await approve(second, await as('ana'))).code).toBe('not_found');
    expect(await house.rowOf(second.id)).toMatchObject({ status: 'waiting' });
  });

  test('of an operator is for personas that it is registered for, and in its organization', async () => {
    const delivery = await ask();
    const token = await gateway.addCaller({
      ...{ id: `a-${acme.name}`, scopes: ['operator'], personas: ['another'] },
    });
    expect((await approve(delivery, token)).code).toBe('not_found');
    const other = await gateway.organization();
    const foreign = await gateway.send('POST', `/v1/deliveries/${delivery.id}/approve`, {
      token: gateway.tokens.operator,
      json: { organization: other.name, payloadSha256: delivery.payloadSha256 },
    });
    expect(foreign.code).toBe('not_found');
    expect(await house.rowOf(delivery.id)).toMatchObject({ status: 'waiting' });
  });

  test('is of the bytes that were seen: with the hash of others it is refused, and nothing changes', async () => {
    const delivery = await ask();
    const others = { id: delivery.id, payloadSha256: sha256Hex('It cried.') };
    expect((await approve(others)).code).toBe('payload_mismatch');
    expect(await house.rowOf(delivery.id)).toMatchObject({
      status: 'waiting',
      payload: 'It sang.',
    });
    expect(await acme.claim()).toEqual([]);
    ok(await approve(delivery));
  });

  test('of what does not wait for it is a conflict', async () => {
    const direct = ok(await turn.propose('It sang.'));
    const queued = await house.queue('It sang on.');
    expect((await approve(direct)).code).toBe('conflict');
    expect((await approve(queued)).code).toBe('conflict');
    expect(ok(await acme.release(direct)).payload).toBe('It sang.');

    const late = await ask('Later.');
    ok(await house.step('discard', late.id, gateway.tokens.operator));
    expect((await approve(late)).code).toBe('conflict');
    expect(await house.rowOf(late.id)).toMatchObject({ status: 'discarded', payload: null });
  });

  test('of what waited too long holds it', async () => {
    const delivery = await ask();
    await house.pass(delivery.id, 'expires_at');
    expect(ok(await approve(delivery))).toMatchObject({ status: 'held', code: 'delivery_expired' });
    expect(await house.rowOf(delivery.id)).toMatchObject({ status: 'held', payload: null });
  });
});

describe('an approval overrides nothing', () => {
  const CHANGES = {
    audience_changed: () => acme.put('conversations/thread/members/cleo', { history: 'all' }),
    source_revoked: () => acme.remove('conversations/shared/members/ben'),
    organization_paused: () => acme.put('guard', { guard: 'paused' }),
    stopped: () => acme.put(`stops/turn/${turn.id}`, {}),
    persona_not_designated: () =>
      acme.put('personas/assistant', { custody: 'service', designated: false }),
    destination_closed: () => thread({ archived: true }),
  };

  test.each(Object.entries(CHANGES))(
    'it holds what a release would refuse: %s',
    async (code, change) => {
      const delivery = await ask();
      await change();
      expect(ok(await approve(delivery))).toMatchObject({ status: 'held', code });
      expect(await house.rowOf(delivery.id)).toMatchObject({ status: 'held', code, payload: null });
      expect((await house.stepsOf(delivery.id)).at(-1)).toMatchObject({
        ...{ kind: 'approve', verdict: 'refused', code },
      });
      expect(await acme.claim()).toEqual([]);
      expect((await approve(delivery)).code).toBe('conflict');
    },
  );

  test.each(Object.entries(CHANGES))(
    'what changes after it is refused by the release: %s',
    async (code, change) => {
      const delivery = await ask();
      ok(await approve(delivery));
      await change();
      expect((await house.release(await house.claimOne())).code).toBe(code);
      expect(await house.rowOf(delivery.id)).toMatchObject({ status: 'held', code, payload: null });
    },
  );

  test.each([
    ['payload_mismatch', `payload = convert_to('It cried.', 'UTF8')`],
    [
      'payload_mismatch',
      `payload = convert_to('It cried.', 'UTF8'),
       payload_sha256 = sha256(convert_to('It cried.', 'UTF8'))`,
    ],
    [
      'audience_changed',
      `destination_id = (select c.id from earshot.conversations c
       where c.org_id = d.org_id and c.external_id = 'room')`,
    ],
    ['audience_changed', `approved_destination = approved_destination + 1`],
    ['audience_changed', `approved_audience = sha256('')`],
    ['audience_changed', `audience_hash = sha256('')`],
  ])('what it is bound to moves, and it is void: %s, %s', async (code, change) => {
    const delivery = await ask();
    ok(await approve(delivery));
    await gateway.owner.unsafe(
      `update earshot.deliveries d set ${change} where id = '${delivery.id}'`,
    );
    const claimed = await house.claimOne();
    const released = await house.release(claimed);
    expect(released.code).toBe(code);
    expect(JSON.stringify(released.body)).not.toMatch(/sang|cried/);
    expect(await house.rowOf(delivery.id)).toMatchObject({ status: 'held', code, payload: null });
  });

  test('nor does it hold for readers who are others when it is proposed again', async () => {
    const again = (key: string) =>
      turn.propose('It sang.', { key, destination: 'room', approval: true });
    const first = ok(await again('k'));
    ok(await approve(first));
    expect(ok(await again('k'))).toMatchObject({ id: first.id, status: 'cleared' });
    // They may still have it, from a point that is another.
    await acme.put('conversations/room/members/ben', { history: { fromSeq: '5' } });

    expect(ok(await again('k'))).toMatchObject({
      ...{ id: first.id, status: 'held', code: 'audience_changed' },
    });
    expect(await house.rowOf(first.id)).toMatchObject({ status: 'held', payload: null });
    expect(ok(await again('l')).status).toBe('waiting');
  });
});

function thread(more: object) {
  return acme.put('conversations/thread', {
    ...{ kind: 'group', visibility: 'members', aiThread: true, ...more },
  });
}

/** A turn whose grant knows the thread as it is now. */
async function freshTurn() {
  const fresh = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  await fresh.search('canary');
  return fresh;
}
