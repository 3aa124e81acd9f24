import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import { withMutant, type Mutant } from '../worlds/mutant.ts';
import { openHouse, type LogHouse, type Way } from './log-house.ts';
import { ADDRESSED } from './ways-addressed.ts';
import { WAYS_ALONG } from './ways-along.ts';
import { ANNOUNCED } from './ways-announced.ts';
import { BOUND } from './ways-bound.ts';
import { HANDED_ON } from './ways-handed-on.ts';
import { INJECTED, INJECTION_KEPT } from './ways-injected.ts';
import { NARROWING } from './ways-narrowed.ts';
import { WAYS_OUT } from './ways-out.ts';
import { OWNERSHIP } from './ways-owned.ts';
import { SENT } from './ways-sent.ts';
import { SUMMARIZED } from './ways-summaries.ts';
import { SUMMARIES_BOUND, SUMMARIZING } from './ways-summarizing.ts';

// What a log keeps to itself, way by way, and that it would be seen if it did not: each check is taken away in turn.

const SHOWN = 'case when e.restricted then earshot.view_of(e.blocks, p_readers) else e.blocks end';

let gateway: TestGateway;
let house: LogHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
  house = await openHouse(gateway);
  // What a mutant looks through in the place of `log_view`: the same, whoever asks.
  const [row] = await gateway.owner<{ text: string }[]>`
    select pg_get_functiondef('earshot.log_view'::regproc) as text`;
  const view = row?.text.replace('earshot.log_view', 'earshot.whole_view') ?? '';
  expect(view.split(SHOWN), 'what a view shows').toHaveLength(2);
  await gateway.owner.unsafe(view.replace(SHOWN, 'e.blocks'));
});

afterAll(() => gateway.close());

describe.each<Way>([
  ...WAYS_OUT,
  ...WAYS_ALONG,
  ...OWNERSHIP,
  ...ANNOUNCED,
  ...NARROWING,
  ...BOUND,
  ...SUMMARIZED,
  ...SUMMARIZING,
  ...SUMMARIES_BOUND,
  ...SENT,
  ...INJECTED,
  ...INJECTION_KEPT,
  ...ADDRESSED,
  ...HANDED_ON,
])('$way', ({ holds, mutants }) => {
  test('as it is', () => holds(house));

  test.each(mutants)('but not where $title ($routine)', async (mutant) => {
    expect(await isCaught(mutant, holds)).toBe(true);
  });
});

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
