import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import { withMutant, type Mutant } from '../worlds/mutant.ts';
import { ANNOUNCED, BOUND, NARROWING, OWNERSHIP } from './log-guards.ts';
import { openHouse, type LogHouse, type Way } from './log-house.ts';
import { WAYS_OUT } from './log-ways.ts';

// What a log keeps to itself, way by way, and that it would be seen if it did not: each check is taken away in turn.

let gateway: TestGateway;
let house: LogHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
  house = await openHouse(gateway);
  // What a mutant looks through in the place of `log_view`: the same, whoever asks.
  await gateway.owner.unsafe(`
    create function earshot.whole_view(p_org bigint, p_session uuid, p_mark bigint, p_readers text[])
    returns table (pos bigint, revision bigint, id uuid, change bigint, role text, participant text,
      written_at timestamptz, blocks jsonb, whole jsonb, restricted boolean)
    language sql stable as $$
      select e.position, e.revision, e.id, e.change, e.role, e.participant::text, e.written_at, e.blocks, e.blocks,
        e.restricted
      from earshot.log_entries e
      where e.org_id = p_org and e.session_id = p_session and e.change <= p_mark
        and (e.superseded_by is null or e.superseded_by > p_mark)
    $$`);
});

afterAll(() => gateway.close());

describe.each<Way>([...WAYS_OUT, ...OWNERSHIP, ...ANNOUNCED, ...NARROWING, ...BOUND])(
  '$way',
  ({ holds, mutants }) => {
    test('as it is', () => holds(house));

    test.each(mutants)('but not where $title ($routine)', async (mutant) => {
      expect(await isCaught(mutant, holds)).toBe(true);
    });
  },
);

/** Whether what holds is seen not to hold under a mutant. A fault is no answer. */
async function isCaught(mutant: Mutant, holds: Way['holds']): Promise<boolean> {
  let caught = false;
  await withMutant(gateway.owner, mutant, async () => {
    try {
      await holds(house);
    } catch (error) {
      if (!(error instanceof Error) || error.name !== 'AssertionError') throw error;
      caught = true;
    }
  });
  return caught;
}
