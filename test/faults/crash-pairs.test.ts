import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { beginLife, FLOWS, pointsOf, type Flow, type Life, type Point } from './broken-life.ts';
import { openCrashSite, type CrashSite } from './crash-site.ts';
import { openLifeGates, type LifeGates } from './life-gates.ts';

// Answers that are broken off twice, at every pair of points of their lives: what mends the first fault is there for the second
// one to break. One fault strikes them all at once, each at its own point.

let site: CrashSite;
let gates: LifeGates;

beforeAll(async () => {
  site = await openCrashSite();
  gates = await openLifeGates(site);
}, 120_000);
afterAll(() => site.close());

const FAULTS: Readonly<Record<string, () => Promise<void>>> = {
  'the gateway is killed': () => site.killGateway(),
  'the database is killed': () => site.killDatabase(),
  'its connections are cut': () => site.cutConnections(),
};
const NAMES = Object.keys(FAULTS);

/** Strikes once each life has stopped where it is to stop, or is over; then lets them go on. */
async function strike(fault: string, lives: readonly Life[]): Promise<void> {
  for (;;) {
    const reached = await gates.reached();
    const isThere = (life: Life) => {
      const state = life.state();
      return state === 'asking' ? reached.has(life.organization) : state !== 'under way';
    };
    if (lives.every(isThere)) break;
  }
  await FAULTS[fault]?.();
  // What was under way at a gateway that was killed goes on, though nobody hears of it.
  await gates.openAll();
  for (const life of lives) life.goOn();
}

describe.each(Object.keys(FLOWS) as Flow[])('an answer that goes its way, %s,', (flow) => {
  const points = pointsOf(flow);
  const steps: readonly string[] = FLOWS[flow];
  const placeOf = (point: Point) => steps.indexOf(point.slice(point.indexOf(' ') + 1));
  const pairs = points.flatMap((first) => points.map((second): [Point, Point] => [first, second]));

  // Each fault comes first once, and second once.
  test.each(NAMES.map((name, nth) => [name, NAMES[(nth + 1) % NAMES.length] ?? name] as const))(
    'is sent once and on record as such, though %s, and later %s, wherever it is then',
    { timeout: 300_000 },
    async (...faults) => {
      site.prepareGateway();
      const lives: Life[] = [];
      for (const pair of pairs) lives.push(await beginLife(site, gates, flow, pair));
      for (const fault of faults) await strike(fault, lives);
      const ends = await Promise.all(
        lives.map(async ({ name, end }) => ({ name, ...(await end) })),
      );
      const right = { sent: ['It sang.'], status: 'delivered', open: 0 };
      expect(ends).toEqual(ends.map(({ name, failed }) => ({ name, ...right, failed })));

      const [first, second] = [0, 1].map((nth) => lives.map(({ broken }) => broken[nth]));
      expect(first).toEqual(pairs.map(([point]) => point));
      // A second point may lie in what is not done again. Those in later steps are all come to.
      const isLater = (nth: number) => {
        const [one, other] = (pairs[nth] ?? []).map(placeOf);
        return (other ?? 0) > (one ?? 0);
      };
      expect(second?.filter((_, nth) => isLater(nth))).toEqual(
        pairs.filter((_, nth) => isLater(nth)).map(([, point]) => point),
      );
    },
  );
});
