import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Delivery, DeliveryStatus, Proposed } from '../../client/answer-shape.ts';
import type { TurnRequest } from '../../client/client.ts';
import { refuseLocally } from '../../client/client-refusal.ts';
import { recover, recoveryOf, type RecoveryMeans, type Stopped } from '../../client/recovery.ts';
import { runTurn, type RunOptions, type WorkResult } from '../../client/run-turn.ts';
import { sha256Hex } from '../../policy/canonical.ts';
import { RECOVERIES, type Recovery } from '../../policy/refusal.ts';
import { enterQueueHouse } from '../http/queue-house.ts';
import { enterReleaseHouse, TEXT, type ReleaseHouse } from '../http/release-house.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';
import { openPeople, type People } from '../support/people.ts';
import { clientOf } from './bridge-gateway.ts';

const ID = '3c572be1-87aa-4b49-b528-ab66c7655589';
const delivery = { id: ID, destination: 'room', payloadSha256: 'f'.repeat(64) };
const recoveries = Object.keys(RECOVERIES) as Recovery[];

describe('what is to be done', () => {
  test.each<[DeliveryStatus, Recovery | undefined]>([
    ['cleared', undefined],
    ['waiting', undefined],
    ['scheduled', undefined],
    ['claimed', undefined],
    ['delivered', undefined],
    ['held', 'stop'],
    ['released', 'reconcile'],
    ['reconciling', 'reconcile'],
    ['failed', 'rebuild'],
    ['dead', 'stop'],
    ['discarded', 'stop'],
  ])('about a delivery that is %s, of which nothing else is said, is %s', (status, action) => {
    expect(recoveryOf({ ...delivery, status })?.action).toBe(action);
  });

  test.each(recoveries)('about one that is held is what the gateway says: %s', (recovery) => {
    const { owner, next } = RECOVERIES[recovery];
    expect(recoveryOf({ ...delivery, status: 'held', recovery })).toMatchObject({
      action: recovery,
      by: owner,
      next,
    });
    const told = { recovery, recoveryOwner: 'people', next: 'another_day' };
    expect(recoveryOf({ ...delivery, status: 'held', ...told })).toMatchObject({
      action: recovery,
      by: 'people',
      next: 'another_day',
    });
  });

  test.each(recoveries)('about a refusal is what it says: %s', (recovery) => {
    expect(recoveryOf({ ok: false, recovery })).toMatchObject({ action: recovery });
    expect(recoveryOf(refuseLocally('no_answer', recovery))).toMatchObject({
      by: RECOVERIES[recovery].owner,
    });
  });

  test('is nothing more where a later gateway says what this release does not know', () => {
    const told = { recovery: 'phone_home', recoveryOwner: 'nobody', next: 'somewhere' };
    const stop = { action: 'stop', by: RECOVERIES.stop.owner, next: RECOVERIES.stop.next };
    expect(recoveryOf({ ...delivery, status: 'held', ...told })).toEqual(stop);
    expect(recoveryOf({ ok: false, ...told })).toEqual(stop);
  });

  test('says where, which, and when', () => {
    const held = (more: Partial<Delivery>) => recoveryOf({ ...delivery, status: 'held', ...more });
    expect(held({ recovery: 'ask_owner' })).toMatchObject({ destination: 'room' });
    expect(recoveryOf({ ...delivery, status: 'released' })).toMatchObject({ deliveryId: ID });
    const refusal: Stopped = { ok: false, recovery: 'retry', retryAfterMs: 2000 };
    expect(recoveryOf(refusal)).toMatchObject({ afterMs: 2000 });
    const alternatives = [
      { action: 'reduce_audience', destination: 'own' },
      { action: 'reduce_audience' },
      { action: 'shout', destination: 'everywhere' },
    ];
    const { owner: by, next } = RECOVERIES.reduce_audience;
    const offered = { action: 'reduce_audience', by, next, destination: 'own' };
    expect(held({ recovery: 'rebuild', alternatives })).toMatchObject({
      action: 'rebuild',
      alternatives: [offered],
    });
    expect(held({ recovery: 'reduce_audience', alternatives })).toMatchObject(offered);
  });
});

let gateway: TestGateway;
let people: People;
let acme: TestOrganization;

beforeAll(async () => {
  gateway = await openTestGateway();
  people = await openPeople(gateway);
});
afterAll(() => gateway.close());

/** Recovers as a bridge does, and says what was asked of the gateway. */
async function recovering(held: Delivery | Proposed, means: Partial<RecoveryMeans>) {
  const { client, seen } = clientOf(gateway, 'bridge');
  const recovered = await recover(client, held, { organization: acme.name, ...means });
  return { recovered, asked: seen.map(({ route }) => route) };
}

describe('an answer that is held where it was asked', () => {
  let turn: TestTurn;
  beforeEach(async () => {
    ({ acme, turn } = await enterQueueHouse(gateway));
  });
  async function held(): Promise<Delivery> {
    await acme.remove('conversations/shared/members/ben');
    return ok(await turn.propose('It sang.'));
  }

  test('is discarded, and a new turn is left to make it again', async () => {
    const answer = await held();
    const { recovered, asked } = await recovering(answer, {});
    expect(recovered).toMatchObject({
      kind: 'dropped',
      step: { action: 'rebuild', by: 'agent', next: 'new_session' },
    });
    expect(asked).toEqual(['POST /v1/deliveries/{id}/discard']);
    expect(await acme.delivery(answer.id)).toMatchObject({ status: 'discarded' });
  });

  test('is dropped for a turn in the smaller place that was chosen: no grant of this one takes it there', async () => {
    await acme.conversation('own', ['ana'], { aiThread: true, owner: 'ana' });
    const answer = await held();
    const offered: (readonly string[])[] = [];
    const reduceTo = (places: readonly string[]) => {
      offered.push(places);
      return places[0];
    };
    const means = { payload: 'It sang.', grantToken: turn.grant.token, reduceTo };
    const { recovered, asked } = await recovering(answer, means);
    expect(recovered).toMatchObject({
      kind: 'dropped',
      step: { action: 'rebuild', alternatives: [{ destination: 'own' }] },
      toward: 'own',
    });
    expect(offered).toEqual([['own']]);
    expect(asked).toEqual(['GET /v1/deliveries/{id}', 'POST /v1/deliveries/{id}/discard']);
    const there = ok(await turn.propose('It sang.', { destination: 'own' }));
    expect(there).toMatchObject({ status: 'held', code: 'session_quarantined' });
  });

  test('that failed at the platform has nothing to discard, and is made again', async () => {
    const sent = ok(await turn.propose('It sang.'));
    ok(await acme.release(sent));
    ok(await acme.acknowledge(sent, 'failed'));
    const failed = (await acme.delivery(sent.id)) as Delivery;
    expect((await recovering(failed, {})).recovered).toMatchObject({ kind: 'dropped' });
    expect(await acme.delivery(sent.id)).toMatchObject({ status: 'failed' });
  });

  test('is proposed again under another grant of the same turn, if there is one', async () => {
    const gone = { ...delivery, destination: 'thread', payloadSha256: sha256Hex('It sang.') };
    const answer: Delivery = { ...gone, status: 'held', recovery: 'remint' };
    const payload = 'It sang.';
    const remint = async () => ({ ok: true, value: ok(await turn.mint()).token }) as const;
    expect((await recovering(answer, { payload, remint })).recovered).toMatchObject({
      kind: 'proposed',
      delivery: { status: 'cleared', destination: 'thread' },
    });
    const refusal = refuseLocally('session_moved', 'rebuild');
    const refused = await recovering(answer, { payload, remint: () => Promise.resolve(refusal) });
    expect(refused).toMatchObject({ recovered: { kind: 'refused', refusal }, asked: [] });
    for (const means of [{ payload }, { remint }, { remint, payload: 'It sings.' }]) {
      const left = await recovering(answer, means);
      expect(left).toMatchObject({ recovered: { kind: 'left' }, asked: [] });
    }
  });

  test.each(['stop', 'reconcile', 'retry', 'correct'] as const)(
    'and is for others to go on with is left to them, and nothing is asked: %s',
    async (recovery) => {
      const answer: Delivery = { ...delivery, status: 'held', recovery };
      const means = { payload: 'It sang.', grantToken: turn.grant.token };
      const step = { action: recovery, by: RECOVERIES[recovery].owner };
      expect(await recovering(answer, means)).toMatchObject({
        recovered: { kind: 'left', step },
        asked: [],
      });
    },
  );

  test('is no matter of recovery once it is cleared or on its way', async () => {
    const cleared = ok(await turn.propose('It sang.')) as Proposed;
    const queued = ok(await turn.propose('It sings.', { queue: true })) as Proposed;
    for (const answer of [cleared, queued]) {
      const done = await recovering(answer, { payload: 'It sang.' });
      expect(done).toEqual({ recovered: { kind: 'nothing' }, asked: [] });
    }
  });
});

describe('a text that its owner could release', () => {
  let house: ReleaseHouse;
  let turn: TestTurn;
  let held: Delivery;
  beforeEach(async () => {
    house = await enterReleaseHouse(gateway, people);
    ({ acme } = house);
    turn = await house.start();
    await turn.tool('read', { conversation: 'notes' });
    held = ok(await turn.propose(TEXT, { destination: 'room' }));
    expect(held).toMatchObject({ status: 'held', code: 'source_revoked', recovery: 'ask_owner' });
  });
  const means = () => ({ payload: TEXT, grantToken: turn.grant.token, key: 'k' });

  test('is saved as it is and asked for, and may go there as soon as they have approved', async () => {
    const { recovered, asked } = await recovering(held, means());
    expect(recovered).toMatchObject({
      kind: 'asked',
      step: { action: 'ask_owner', by: 'source_owner', destination: 'room' },
      release: { status: 'asked', owners: 1 },
    });
    expect(asked).toEqual(['POST /v1/artifacts', 'POST /v1/artifacts/{id}/releases']);
    const [listed] = await house.list('ana');
    expect(listed).toMatchObject({ kind: 'draft', text: TEXT, destination: 'room' });
    // The same held answer once more: nobody is asked twice.
    expect((await recovering(held, means())).recovered).toEqual(recovered);
    expect(await house.list('ana')).toHaveLength(1);

    expect(ok(await turn.propose(TEXT, { destination: 'room' })).status).toBe('held');
    const { id = '', textSha256 = '' } = listed ?? {};
    ok(await house.approve('ana', id, { textSha256 }));
    const cleared = await turn.propose(TEXT, { destination: 'room' });
    expect(ok(cleared)).toMatchObject({ status: 'cleared', destination: 'room' });
  });

  test('is asked for in these bytes alone, and only under a grant', async () => {
    for (const lacking of [
      { grantToken: turn.grant.token },
      { payload: TEXT },
      { ...means(), payload: `${TEXT} ` },
    ]) {
      const left = await recovering(held, lacking);
      expect(left).toMatchObject({
        recovered: { kind: 'left', step: { action: 'ask_owner', by: 'source_owner' } },
        asked: [],
      });
    }
    expect(await house.list('ana')).toEqual([]);
  });

  test('and that nobody owns is not released: the refusal says to stop', async () => {
    await house.own('notes');
    expect((await recovering(held, means())).recovered).toMatchObject({
      kind: 'refused',
      refusal: { from: 'gateway', code: 'source_revoked' },
    });
  });

  test('goes to the smaller place that was chosen, and no owner is asked', async () => {
    const reduceTo = (places: readonly string[]) => places.find((place) => place === 'desk');
    const { recovered, asked } = await recovering(held, { ...means(), reduceTo });
    expect(recovered).toMatchObject({
      kind: 'proposed',
      delivery: { status: 'cleared', destination: 'desk' },
    });
    expect(asked).toEqual(['GET /v1/deliveries/{id}', 'POST /v1/deliveries']);
  });

  test.each([
    ['none', undefined],
    ['one that was not offered', 'plans'],
  ])('goes to no other place where the choice is %s: the owners are asked', async (_, chosen) => {
    const { recovered } = await recovering(held, { ...means(), reduceTo: () => chosen });
    expect(recovered).toMatchObject({ kind: 'asked' });
  });
});

describe('a turn that runs', () => {
  let request: TurnRequest;
  const as = (persona: object) =>
    acme.put('personas/assistant', { custody: 'service', designated: true, ...persona });
  beforeEach(async () => {
    acme = await gateway.organization();
    await acme.users('ana', 'ben');
    await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
    await acme.conversation('shared', ['ana', 'ben'], { owner: 'ben' });
    await acme.say('shared', 'ben', 'canary');
    await acme.say('thread', 'ana', 'where does it sing');
    request = {
      organization: acme.name,
      persona: 'assistant',
      destination: 'thread',
      requester: 'ana',
      trigger: { kind: 'thread', seq: '1' },
    };
  });
  const run = (work: WorkResult, options: Partial<RunOptions> = {}) =>
    runTurn(clientOf(gateway, 'bridge').client, request, () => Promise.resolve(work), {
      owner: 'worker',
      ...options,
    });
  const turnStates = async () =>
    (
      await gateway.owner<{ state: string }[]>`
        select t.state from earshot.turns t join earshot.organizations o on o.id = t.org_id
        where o.external_id = ${acme.name} order by t.state`
    ).map(({ state }) => state);

  test('leaves a queued answer to the workers, and ends well, so that it may leave after it', async () => {
    const outcome = await run({ payload: 'It sang.', queue: true });
    expect(outcome).toMatchObject({ ok: true, kind: 'queued', delivery: { status: 'cleared' } });
    expect(await turnStates()).toEqual(['completed']);
    const [claimed] = await acme.claim();
    const released = await acme.release(claimed ?? { id: '' }, { fence: claimed?.fence });
    expect(ok(released).payload).toBe('It sang.');
  });

  test.each([{ sendAt: '2099-01-01T00:00:00Z' }, { approval: true }, { edits: ID }])(
    'proposes its answer as the work wishes: %j',
    async (wish) => {
      const outcome = await run({ payload: 'It sang.', ...wish });
      if ('approval' in wish) {
        expect(outcome).toMatchObject({ kind: 'queued', delivery: { status: 'waiting' } });
      } else if ('edits' in wish) expect(outcome).toMatchObject({ code: 'not_found' });
      else expect(outcome).toMatchObject({ code: 'invalid_input' });
    },
  );

  test('for a persona whose answers wait for a person ends well too, and it leaves once approved', async () => {
    await as({ approval: 'always' });
    const outcome = await run({ payload: 'It sang.' });
    expect(outcome).toMatchObject({ ok: true, kind: 'queued', delivery: { status: 'waiting' } });
    expect(await turnStates()).toEqual(['completed']);
    if (!outcome.ok || outcome.kind !== 'queued') return;
    const { id: deliveryId, payloadSha256 } = outcome.delivery;
    const { client } = clientOf(gateway, 'deliver');
    const name = { organization: acme.name, deliveryId };
    expect(await client.approveDelivery({ ...name, payloadSha256 })).toMatchObject({
      code: 'not_permitted',
    });
    const operator = clientOf(gateway, 'deliver', { token: gateway.tokens.operator }).client;
    const approve = (sha256: string) =>
      operator.approveDelivery({ ...name, payloadSha256: sha256 });
    expect(await approve('f'.repeat(64))).toMatchObject({ code: 'payload_mismatch' });
    expect(await approve(payloadSha256)).toMatchObject({ ok: true, value: { status: 'cleared' } });
    expect(await acme.claim()).toMatchObject([{ id: deliveryId }]);
  });

  test('says of a held answer who goes on and what comes next, and does nothing about it unasked', async () => {
    await acme.conversation('desk', ['ana'], { kind: 'private', aiThread: true, owner: 'ana' });
    const joining = { before: (route: string) => joinBefore(route, 'POST /v1/deliveries') };
    const { client, seen } = clientOf(gateway, 'bridge', joining);
    const work = () => Promise.resolve({ payload: 'It sang.' });
    const outcome = await runTurn(client, request, work, { owner: 'worker', maxTurns: 1 });
    expect(outcome).toMatchObject({
      from: 'delivery',
      recovery: 'rebuild',
      recoveryOwner: 'agent',
      next: 'new_session',
    });
    expect(outcome).not.toHaveProperty('recovered');
    expect(
      seen.map(({ route }) => route).filter((route) => /deliver|artifact/.test(route)),
    ).toEqual(['POST /v1/deliveries']);
  });

  test('drops a held answer where it may recover, and makes it again in a new turn', async () => {
    const joining = { before: (route: string) => joinBefore(route, 'POST /v1/deliveries') };
    const { client, seen } = clientOf(gateway, 'bridge', joining);
    const work = () => Promise.resolve({ payload: 'It sang.' });
    const outcome = await runTurn(client, request, work, { owner: 'worker', recovery: {} });
    expect(outcome).toMatchObject({ ok: true, kind: 'cleared', turns: 2 });
    expect(seen.filter(({ route }) => route.endsWith('/discard'))).toMatchObject([{ status: 200 }]);
    const states = await gateway.owner<{ status: string }[]>`
      select d.status from earshot.deliveries d join earshot.organizations o on o.id = d.org_id
      where o.external_id = ${acme.name} order by d.status`;
    expect(states.map(({ status }) => status)).toEqual(['cleared', 'discarded']);
  });

  test('ends where a smaller place was chosen, and tells which: it is asked there, or not at all', async () => {
    await acme.conversation('own', ['ana'], { kind: 'private', aiThread: true, owner: 'ana' });
    const { client } = clientOf(gateway, 'bridge');
    const outcome = await runTurn(
      client,
      request,
      async (agent) => {
        expect(await agent.search({ query: 'canary' })).toMatchObject({ ok: true });
        await acme.remove('conversations/shared/members/ben');
        return { payload: 'It sang.' };
      },
      { owner: 'worker', recovery: { reduceTo: ([place]) => place } },
    );
    expect(outcome).toMatchObject({
      from: 'delivery',
      recovery: 'rebuild',
      recovered: { kind: 'dropped', toward: 'own' },
      turns: 1,
    });
  });

  test('saves what its agent notes, and reads it again as what it is', async () => {
    const { client } = clientOf(gateway, 'bridge');
    const outcome = await runTurn(
      client,
      request,
      async (agent) => {
        const saved = await agent.saveArtifact({ kind: 'note', text: 'A canary sings.' });
        if (!saved.ok) return saved;
        const artifact = saved.value.id;
        const note = { kind: 'artifact', text: 'A canary sings.', source: { id: artifact } };
        for (const packet of [
          await agent.readArtifact({ artifact }),
          await agent.search({ query: 'sings', kind: 'artifact' }),
        ]) {
          expect(packet).toMatchObject({ ok: true, value: { items: [note] } });
        }
        return undefined;
      },
      { owner: 'worker' },
    );
    expect(outcome).toMatchObject({ ok: true, kind: 'silent' });
  });

  let joined = false;
  beforeEach(async () => {
    joined = false;
    await acme.users('cleo');
  });
  async function joinBefore(route: string, which: string) {
    if (route !== which || joined) return;
    joined = true;
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
  }
});
