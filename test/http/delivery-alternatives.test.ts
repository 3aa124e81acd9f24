import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { RECOVERIES, REFUSALS } from '../../policy/refusal.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Delivery } from '../support/organization.ts';
import { enterQueueHouse, type QueueHouse } from './queue-house.ts';

// Where an answer could go instead, which not everybody here may have: offered only to who may know.

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

const OWN = { aiThread: true, owner: 'ana' };

/** An answer that ben may not have any more. */
async function heldAnswer(): Promise<Delivery> {
  await acme.remove('conversations/shared/members/ben');
  const held = ok(await turn.propose('The canary sang.'));
  expect(held).toMatchObject({ status: 'held', code: 'source_revoked' });
  return held;
}

async function shown({ id }: Delivery, token = gateway.tokens.bridge): Promise<Delivery> {
  return ok(
    await gateway.send('GET', `/v1/deliveries/${id}?organization=${acme.name}`, { token }),
  ) as Delivery;
}

test('a held answer is offered to a bridge and to an operator for the requester’s own private thread', async () => {
  await acme.conversation('own', ['ana'], OWN);
  const held = await heldAnswer();
  const alternatives = [{ action: 'reduce_audience', destination: 'own' }];
  expect((await shown(held)).alternatives).toEqual(alternatives);
  expect((await shown(held, gateway.tokens.operator)).alternatives).toEqual(alternatives);

  // The offer is true: the same text may go there.
  await acme.say('own', 'ana', 'which one');
  const there = await acme.turn({ destination: 'own', requester: 'ana', trigger: '1' });
  expect(await there.search('canary')).toEqual(['canary']);
  expect(ok(await there.propose('The canary sang.')).status).toBe('cleared');
});

test('nobody else is told: no agent, no endpoint, and no list', async () => {
  await acme.conversation('own', ['ana'], OWN);
  const held = await heldAnswer();
  expect(held.alternatives).toBeUndefined();
  expect(ok(await turn.propose('The canary sang.', { key: 'k' })).alternatives).toBeUndefined();
  expect((await shown(held, gateway.tokens.deliver)).alternatives).toBeUndefined();
  const page = await gateway.send('GET', `/v1/deliveries?organization=${acme.name}`, {
    token: gateway.tokens.operator,
  });
  expect(JSON.stringify(ok(page))).not.toContain('own');
  const asAgent = await gateway.send('GET', `/v1/deliveries/${held.id}?organization=${acme.name}`, {
    token: turn.grant.token,
  });
  expect(asAgent.code).toBe('malformed_token');
});

test('a draft that stays in its own private thread has that thread as the smaller place', async () => {
  await acme.conversation('own', ['ana'], OWN);
  await acme.say('own', 'ana', 'draft it');
  const drafting = await acme.turn({ destination: 'own', requester: 'ana', trigger: '1' });
  const held = ok(await drafting.propose('A draft.', { destination: 'room' }));
  expect(held).toMatchObject({
    ...{ code: 'source_revoked', recovery: 'ask_owner', recoveryOwner: 'source_owner' },
    next: RECOVERIES.ask_owner.next,
  });
  expect((await shown(held)).alternatives).toEqual([
    { action: 'reduce_audience', destination: 'own' },
  ]);
});

const WITHOUT: Record<string, () => Promise<unknown>> = {
  'is another’s': () => acme.conversation('own', ['ana'], { ...OWN, owner: 'ben' }),
  'is read by somebody else': () => acme.conversation('own', ['ana', 'cleo'], OWN),
  'was shared once': async () => {
    await acme.conversation('own', ['ana', 'cleo'], OWN);
    await acme.remove('conversations/own/members/cleo');
  },
  'is none of the assistant’s': () => acme.conversation('own', ['ana'], { owner: 'ana' }),
  'takes no deliveries': () => acme.conversation('own', ['ana'], { ...OWN, archived: true }),
  'is not there': () => Promise.resolve(),
  'would have a source that its owner does not read': async () => {
    await acme.conversation('own', ['ana'], OWN);
    await acme.remove('conversations/shared/members/ana');
  },
  'would have a source that is deleted': async () => {
    await acme.conversation('own', ['ana'], OWN);
    await gateway.owner`
      update earshot.messages set state = 'deleted', body = '' where body = 'canary' and org_id =
        (select id from earshot.organizations where external_id = ${acme.name})`;
  },
  'is in an organization that is paused': async () => {
    await acme.conversation('own', ['ana'], OWN);
    await acme.put('guard', { guard: 'paused' });
  },
};

test.each(Object.entries(WITHOUT))(
  'a private thread is not offered that %s',
  async (_why, make) => {
    const held = await heldAnswer();
    await make();
    expect((await shown(held)).alternatives).toBeUndefined();
  },
);

test('what is held for another reason has no smaller place', async () => {
  await acme.conversation('own', ['ana'], OWN);
  await acme.put('conversations/thread/members/cleo', { history: 'all' });
  const held = ok(await turn.propose('The canary sang.'));
  expect(held.code).toBe('audience_changed');
  expect((await shown(held)).alternatives).toBeUndefined();
});

test('every refusal says who acts, and what comes next', async () => {
  const refused = await turn.propose('It sang.', { destination: 'nowhere' });
  expect(refused.body).toMatchObject({
    ...{ code: 'not_found', recovery: 'correct', recoveryOwner: 'bridge', next: 'another_request' },
  });
  for (const { recovery } of Object.values(REFUSALS)) {
    expect(RECOVERIES[recovery].owner).toMatch(/^[a-z_]+$/);
  }
});
