import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';
import { Destinations, readScenario } from './scenario.ts';

const { facts, turns } = readScenario('destinations', Destinations);
let gateway: TestGateway;
let acme: TestOrganization;

beforeAll(async () => {
  gateway = await openTestGateway();
  acme = await gateway.organization('acme');
  await acme.facts(...facts);
});

afterAll(() => gateway.close());

describe.each(turns)('$name', ({ turn: request, search, verdicts }) => {
  const secret = 'the canary in the draft';

  async function start(): Promise<TestTurn> {
    const turn = await acme.turn(request);
    if (search !== undefined) expect(await turn.search(search)).not.toEqual([]);
    return turn;
  }

  test.each(Object.entries(verdicts))('toward %s', async (destination, verdict) => {
    const turn = await start();
    const proposed = await turn.propose(secret, { destination });

    if (verdict === 'cleared') {
      expect(proposed.body).toMatchObject({ status: 'cleared', destination });
      expect(ok(await acme.release(proposed.body))).toMatchObject({ payload: secret, destination });
    } else if (typeof verdict === 'string') {
      expect(proposed.code).toBe(verdict);
    } else {
      const { held: code, recovery } = verdict;
      expect(proposed.body).toMatchObject({ status: 'held', code, recovery });
      expect(proposed.body.clearance).toBeUndefined();
      expect(await stored(proposed.body.id)).toEqual([{ payload: null, status: 'held' }]);
    }
  });

  test('a held disclosure takes nothing from the turn', async () => {
    const turn = await start();
    for (const destination of Object.keys(verdicts)) await turn.propose(secret, { destination });

    expect((await turn.propose(secret)).body.status).toBe('cleared');
  });
});

function stored(delivery: string) {
  return gateway.owner`select payload, status from earshot.deliveries where id = ${delivery}`;
}
