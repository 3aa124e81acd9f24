import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { placesOf } from '../http/planting.ts';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization } from '../support/organization.ts';
import { prepareAnswer, type AnswerUnderWay } from './answer-under-way.ts';
import { CHANGES, RACES, STEPS, type Change, type RacedStep } from './delivery-race-table.ts';
import { openRaceHolds, type RaceHolds } from './race-holds.ts';

// Each step of a delivery against each change of what it stands on, in both orders, made by hand; and then both at once,
// where the machine chooses. RACE_ROUNDS says how often. INVARIANTS 5 and 14.

const ROUNDS = Number(process.env.RACE_ROUNDS ?? 2);
const TIMEOUT = 60_000 + ROUNDS * 5_000;

let gateway: TestGateway;
let acme: TestOrganization;
let holds: RaceHolds;

beforeAll(async () => {
  gateway = await openTestGateway({ STATEMENT_TIMEOUT_MS: '60000', REQUEST_TIMEOUT_MS: '120000' });
  acme = await gateway.organization();
  holds = await openRaceHolds(gateway);
});
afterAll(() => gateway.close());

interface Taken {
  readonly delivery: string;
  readonly gives: string;
  /** Whether the second waited for the first. */
  readonly waits?: boolean;
}

/** The change has moved its revision and not committed when the step comes. */
async function changeFirst(answer: AnswerUnderWay, change: Change): Promise<Taken> {
  const held = await holds.afterMoving(answer.placeOf(change));
  const changing = answer.change(change);
  const changer = await holds.whenHeld();
  const taking = answer.take();
  const waits = await holds.waitsFor(taking, changer);
  await held.commit();
  await changing;
  return { ...(await taking), waits };
}

/** The step has its locks when the change comes: it is about to judge, or has judged and is about to write. */
async function stepFirst(answer: AnswerUnderWay, change: Change, at: HeldAt): Promise<Taken> {
  const held = await holdStep(answer, at);
  const taking = answer.take();
  const taker = await holds.whenHeld();
  const changing = answer.change(change);
  const waits = await holds.waitsFor(changing, taker);
  await held.commit();
  await changing;
  return { ...(await taking), waits };
}

type HeldAt = 'last lock' | 'judged' | 'appended';

function holdStep(answer: AnswerUnderWay, at: HeldAt) {
  switch (at) {
    case 'last lock':
      return holds.atLastLock(answer.lastLock);
    case 'judged':
      return holds.afterJudging();
    case 'appended':
      return holds.afterAppending(answer.placeOf('somebody joins the destination'));
  }
}

/** Both set out at once, one of them some statements later. */
async function atOnce(answer: AnswerUnderWay, change: Change, round: number): Promise<Taken> {
  const after = async <T>(statements: number, work: () => Promise<T>) => {
    for (let sent = 0; sent < statements; sent++) await gateway.owner`select 1`;
    return work();
  };
  const [taken] = await Promise.all([
    after((round * 5) % 9, () => answer.take()),
    after((round * 3) % 11, () => answer.change(change)),
  ]);
  return taken;
}

/** What holds after any round: the delivery is where it ends right, and left once or not at all. */
async function expectEnd(answer: AnswerUnderWay, { delivery }: Taken, end: string): Promise<void> {
  expect(await answer.finish()).toBe(end);
  const { released = 0, delivered = 0 } = await holds.comingsTo(delivery);
  const times = end === 'delivered' ? 1 : 0;
  expect({ handedOut: answer.handedOut(), released, delivered }).toEqual({
    ...{ handedOut: times, released: times, delivered: times },
  });
  const [row] = await gateway.owner`
    select payload from earshot.deliveries where id = ${delivery}`;
  expect(row).toEqual({ payload: null });
}

function heldAt(step: RacedStep, isLate: boolean): HeldAt {
  if (step === 'its message arrives') return 'appended';
  // A claim passes by what somebody has locked.
  return isLate || step === 'claim' ? 'judged' : 'last lock';
}

/** Those that judge: of them, the order in which both took effect decides. */
const JUDGING: readonly RacedStep[] = ['propose', 'release', 'approve', 'release a claimed one'];

describe.each(STEPS)('%s, while', (step) => {
  const judges = JUDGING.includes(step);
  test.each(CHANGES)('%s', { timeout: TIMEOUT }, async (change) => {
    const cell = RACES[change][step];
    const prepare = async () => {
      const answer = await prepareAnswer(gateway, acme, step);
      await holds.begin();
      return answer;
    };
    const expectErased = async ({ canary }: AnswerUnderWay) => {
      if (change !== 'a source is deleted') return;
      expect(await placesOf(gateway, canary)).toEqual({});
    };
    const expectOrder = async (answer: AnswerUnderWay, taken: Taken, isFirst: boolean) => {
      const { end, ...order } = isFirst ? cell.stepFirst : cell.changeFirst;
      expect(taken).toMatchObject(taken.waits === undefined ? { gives: order.gives } : order);
      if (judges) expect(await holds.wasFirst(taken.delivery, answer.marks)).toBe(isFirst);
      await expectEnd(answer, taken, end);
      await expectErased(answer);
    };
    for (let round = 0; round < ROUNDS; round++) {
      const second = await prepare();
      await expectOrder(second, await changeFirst(second, change), false);

      const first = await prepare();
      const isLate = (round + CHANGES.indexOf(change)) % 2 === 1;
      await expectOrder(first, await stepFirst(first, change, heldAt(step, isLate)), true);

      const either = await prepare();
      const taken = await atOnce(either, change, round);
      if (judges) {
        const isFirst = await holds.wasFirst(taken.delivery, either.marks);
        await expectOrder(either, taken, isFirst);
      } else {
        await expectEnd(either, taken, cell.changeFirst.end);
        await expectErased(either);
      }
    }
  });
});

// Each costs what the server waits before it looks for a deadlock.
test('a batch that takes its locks in another order than a delivery ends in no error for either', async () => {
  for (let round = 0; round < 2; round++) {
    const answer = await prepareAnswer(gateway, acme, 'release');
    const held = await holds.afterMoving(answer.placeOf('a source is edited'));
    // The source first, then the organization: the release has the organization and waits for the source.
    const changing = answer.editAndDeactivate();
    const changer = await holds.whenHeld();
    const taking = answer.take();
    expect(await holds.waitsFor(taking, changer)).toBe(true);
    await held.commit();
    await changing;
    const taken = await taking;
    expect(['released', 'held: audience_changed', 'held: source_changed']).toContain(taken.gives);
    await expectEnd(answer, taken, taken.gives === 'released' ? 'delivered' : taken.gives);
  }
});

describe('without the locks the race is seen to be lost:', () => {
  test.each(JUDGING)('%s', async (step) => {
    const [kept] = await gateway.owner<{ text: string }[]>`
      select pg_get_functiondef('earshot.lock_readability'::regproc) as text`;
    await gateway.owner.unsafe(`
      create or replace function earshot.lock_readability(p_org bigint, p_conversations bigint[])
        returns void language plpgsql as $$ begin end $$`);
    try {
      const answer = await prepareAnswer(gateway, acme, step);
      await holds.begin();
      const taken = await stepFirst(answer, 'somebody joins the destination', 'judged');
      const { gives } = RACES['somebody joins the destination'][step].stepFirst;
      expect(taken).toMatchObject({ waits: false, gives });
      expect(await holds.wasFirst(taken.delivery, answer.marks)).toBe(false);
    } finally {
      await gateway.owner.unsafe(kept?.text ?? '');
    }
  });
});
