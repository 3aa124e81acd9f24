import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import {
  carryTurn,
  type Messages,
  type TestOrganization,
  type TestTurn,
} from '../support/organization.ts';
import { placesOf, standingByHttp, standingByPolicy, standingBySql } from './engines.ts';
import { worldIn } from './facts-in-memory.ts';
import {
  Changes,
  readScenario,
  type ScenarioStep,
  type ScenarioTurn,
  type Sides,
} from './scenario.ts';

const scenarios = ['changes', 'open-changes', 'project-changes'].flatMap((name) => {
  const { changes, ...rest } = readScenario(name, Changes);
  const control = changes[0]?.seen ?? {};
  return changes.map((change) => ({ ...rest, ...change, scenario: name, control }));
});
let gateway: TestGateway;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

describe('each side of a turn sees what it may', () => {
  test.each(scenarios)(
    '$scenario: $name',
    async ({ facts, turn: request, steps, seen, control }) => {
      const expected = { ...control, ...seen };
      const org = await gateway.organization();
      await org.facts(...facts);
      const [selecting, proposing, releasing, minting, before] = await Promise.all(
        ['selects', 'proposes', 'releases', 'mints', 'next'].map(async (threadKey) => {
          const turn = await org.turn({ ...request, threadKey });
          await turn.search('canary', { limit: 100 });
          const cleared = ok(await turn.propose('The canary sang.'));
          expect(cleared.status).toBe('cleared');
          return { turn, cleared };
        }),
      );
      if (!selecting || !proposing || !releasing || !minting || !before)
        throw new Error('no turns');

      for (const step of steps) {
        await take(org, step, [selecting.turn, proposing.turn, releasing.turn, minting.turn]);
      }
      const selected = await search(selecting.turn);
      const proposed = await proposing.turn.propose('The canary sang again.');
      const released = await org.release(releasing.cleared);
      const minted = await minting.turn.mint();
      const next = await nextOf(org, request, before.turn);

      const sides: Sides = {
        selects: (selected.code ?? placesOf(selected.body)) as Sides['selects'],
        proposes: verdictOf(proposed),
        releases: (released.code ?? 'released') as Sides['releases'],
        mints: (minted.code ??
          (minted.body.sessionId === minting.turn.grant.sessionId
            ? 'same session'
            : 'other session')) as Sides['mints'],
        next: next.seen,
      };
      expect(sides).toEqual(expected);
      await nothingLeft(org, sides, proposing.turn, releasing.cleared.id);
      if (next.turn !== undefined) {
        const byHttp = await standingByHttp(next.turn);
        expect(standingByPolicy(await worldIn(gateway.owner, org.name), request)).toEqual(byHttp);
        expect(await standingBySql(gateway.owner, org.name, request)).toEqual(byHttp);
      }
    },
  );
});

async function take(org: TestOrganization, step: ScenarioStep, turns: readonly TestTurn[]) {
  if ('put' in step) await org.put(step.put.replace('{organization}', org.name), step.body);
  else if ('delete' in step) await org.remove(step.delete);
  else if ('facts' in step) await org.facts(...step.facts);
  else for (const turn of turns) ok(await turn.end(step.turn));
}

function search(turn: TestTurn): Promise<Answer<Messages>> {
  return turn.tool('search', { query: 'canary', limit: 100 });
}

function verdictOf({ code, body }: Awaited<ReturnType<TestTurn['propose']>>): Sides['proposes'] {
  return (code ?? body.code ?? body.status) as Sides['proposes'];
}

async function nextOf(
  org: TestOrganization,
  request: ScenarioTurn,
  before: TestTurn,
): Promise<{ seen: Sides['next']; turn?: TestTurn }> {
  const opened = await org.openTurn({ ...request, threadKey: 'next' });
  if (opened.code !== undefined) return { seen: opened.code as Sides['next'] };
  const { turnId } = opened.body as { turnId: string };
  const turn = await carryTurn(
    gateway.send,
    gateway.tokens.bridge,
    org.name,
    turnId,
    request.destination,
  );
  const { sessionId, mode } = turn.grant;
  const session = sessionId === before.grant.sessionId ? 'same' : 'other';
  return { seen: { session, mode, selects: placesOf(ok(await search(turn))) }, turn };
}

/** What was refused left no payload, and stays refused when it is tried again. */
async function nothingLeft(
  org: TestOrganization,
  sides: Sides,
  proposing: TestTurn,
  released: string,
) {
  const payloads = await gateway.owner<{ turn: string; delivery: string; status: string }[]>`
    select d.turn_id as turn, d.id as delivery, d.status from earshot.deliveries d
    join earshot.organizations o on o.id = d.org_id
    where o.external_id = ${org.name} and d.payload is not null`;
  const erased = await gateway.owner`
    select from earshot.decisions x join earshot.organizations o on o.id = x.org_id
    where o.external_id = ${org.name} and x.turn_id = ${proposing.id} and x.kind = 'erase'`;
  const ofProposing = payloads.filter(({ turn }) => turn === proposing.id);
  // One was cleared before the change. Deleting what it was made from, or where it was to go, erases it.
  const before = erased.length > 0 ? 0 : 1;
  expect(ofProposing).toHaveLength(sides.proposes === 'cleared' ? before + 1 : before);
  // What was released was handed out, and what was refused is gone.
  expect(payloads.filter(({ delivery }) => delivery === released)).toEqual([]);
}
