import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization } from '../support/organization.ts';
import { placesOf, standingByHttp, standingByPolicy, standingBySql } from './engines.ts';
import { worldIn } from './facts-in-memory.ts';
import { Journeys, readScenario } from './scenario.ts';

const { facts, journeys, never } = readScenario('journeys', Journeys);
let gateway: TestGateway;
let acme: TestOrganization;

beforeAll(async () => {
  gateway = await openTestGateway();
  acme = await gateway.organization('acme');
  await acme.facts(...facts);
});

afterAll(() => gateway.close());

describe.each(journeys)('$name', (journey) => {
  if ('refused' in journey) {
    test('the turn is refused, and none is stored', async () => {
      const turns = await gateway.owner`select id from earshot.turns order by id`;

      expect(await acme.openTurn(journey.turn)).toMatchObject({ code: journey.refused });
      expect(await gateway.owner`select id from earshot.turns order by id`).toEqual(turns);
    });
    return;
  }

  const { people, classes } = journey;
  const expected = {
    mode: journey.mode,
    scope: journey.scope,
    selected: [...journey.selected].sort(),
  };

  test('HTTP, SQL and the plain rules select the same', async () => {
    const turn = await acme.turn(journey.turn);
    const byHttp = await standingByHttp(turn);

    expect(byHttp).toMatchObject(expected);
    expect(turn.grant.conversations).toBe(Object.keys(journey.scope).length);
    expect(turn.grant.readers).toEqual({ people, classes });
    expect(standingByPolicy(await worldIn(gateway.owner, 'acme'), journey.turn)).toEqual(byHttp);
    expect(await standingBySql(gateway.owner, 'acme', journey.turn)).toEqual(byHttp);
  });

  test('every tool shows what search shows, and nothing else', async () => {
    const turn = await acme.turn(journey.turn);
    const conversations = facts.flatMap((fact) =>
      fact.fact === 'conversation' ? [String(fact.id)] : [],
    );
    const read: string[] = [];
    const around: string[] = [];
    const threaded: string[] = [];
    for (const conversation of conversations) {
      const page = await turn.tool('read', { conversation });
      expect(page.code).toBe(conversation in journey.scope ? undefined : 'not_found');
      if (page.code === undefined) read.push(...placesOf(page.body));
      for (const seq of ['1', '2', '3']) {
        const at = { conversation, seq };
        const near = await turn.tool('around', { ...at, before: 0, after: 0 });
        if (near.code === undefined) around.push(...placesOf(near.body));
        const thread = await turn.tool('thread', at);
        if (thread.code === undefined) threaded.push(...placesOf(thread.body));
        expect(thread.code).toBe(near.code);
      }
    }

    expect(read.sort()).toEqual(expected.selected);
    expect(around.sort()).toEqual(expected.selected);
    expect(threaded.sort()).toEqual(expected.selected);
  });

  test('an answer is cleared, released once, delivered, and comes back with its lineage', async () => {
    const own = await gateway.organization();
    await own.facts(...facts);
    const turn = await own.turn(journey.turn);
    await turn.search('canary', { limit: 100 });
    const delivery = ok(await turn.propose('the canary sang'));
    const released = ok(await own.release(delivery));
    const { destination } = journey.turn;
    ok(await own.acknowledge(delivery, 'delivered', 'answer'));
    const { seq } = await own.put(`conversations/${destination}/messages/answer`, {
      author: { persona: 'assistant' },
      body: released.payload,
      sentAt: new Date().toISOString(),
    });

    expect(released).toMatchObject({ destination, payload: 'the canary sang' });
    expect(await own.release(delivery)).toMatchObject({ code: 'already_released' });
    const next = await own.turn(journey.turn);
    const answer = `${destination} ${seq ?? ''}`;
    expect((await standingByHttp(next)).selected).toEqual([...expected.selected, answer].sort());
    const world = await worldIn(gateway.owner, own.name);
    expect(standingByPolicy(world, journey.turn)).toEqual(await standingByHttp(next));
    expect([...world.lineages.values()].flat()).not.toEqual([]);
  });
});

test('whatever one journey withholds, another selects', () => {
  const messages = new Map<string, number>();
  const all = facts.flatMap((fact) => {
    if (fact.fact !== 'message') return [];
    const place = String(fact.conversation);
    messages.set(place, (messages.get(place) ?? 0) + 1);
    return [`${place} ${String(messages.get(place))}`];
  });
  const selected = new Set(
    journeys.flatMap((journey) => ('selected' in journey ? journey.selected : [])),
  );

  expect(all.filter((place) => !selected.has(place)).sort()).toEqual([...never].sort());
});
