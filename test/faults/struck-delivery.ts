import { memoryJournal } from '../../delivery/journal.ts';
import { carryToEnd, DESTINATION, enterPlace, type Ended, type Place } from './carried-delivery.ts';
import type { CrashSite } from './crash-site.ts';
import { lockOf, type FaultPoint, type Statement } from './delivery-path.ts';
import type { Platform } from './platform.ts';

/** A delivery that stands still at the point where a fault is to strike. */
export interface StruckDelivery {
  readonly point: FaultPoint;
  readonly place: Place;
  /** Lets it go on; gives how it ended. To be called once the fault has struck. */
  goOn(): Promise<Ended>;
}

/** Takes a delivery to each of the points. */
export async function takeToAll(
  points: readonly FaultPoint[],
  site: CrashSite,
  platform: Platform,
): Promise<ReadonlyMap<FaultPoint, StruckDelivery>> {
  const places = await Promise.all(
    points.map(async (point) => [point, await enterPlace(site, point.path)] as const),
  );
  const standing = new Map<FaultPoint, StruckDelivery>();
  for (const [point, place] of places) {
    standing.set(point, await takeTo(point, place, site, platform));
  }
  return standing;
}

/**
 * Takes a delivery to its point. What carries it lives on: it sees what the fault does to its requests, and nothing of the
 * fault itself.
 */
async function takeTo(
  point: FaultPoint,
  place: Place,
  site: CrashSite,
  platform: Platform,
): Promise<StruckDelivery> {
  const reached = signal();
  const struck = signal();
  let isThrough = false;

  /** Stands still before a step, once. */
  async function standBefore(step: FaultPoint['step']): Promise<void> {
    if (isThrough || step !== point.step || point.stop !== undefined) return;
    isThrough = true;
    reached.give();
    await struck.given;
  }

  async function around(step: Statement, ask: () => Promise<Response>): Promise<Response> {
    await standBefore(step);
    const { stop } = point;
    if (isThrough || step !== point.step || stop === undefined) return ask();
    isThrough = true;
    const held = { organization: place.acme.name, turn: place.turn.id, destination: DESTINATION };
    await site.holds.take(held, stop, lockOf(step));
    const answer = ask();
    // Whoever asked has no answer before the fault is over.
    answer.catch(() => undefined);
    await site.holds.untilStopped();
    reached.give();
    await struck.given;
    return answer;
  }

  const ended = (async () => {
    const first = await carryToEnd(place, {
      ...{ site, platform, journal: memoryJournal(), around },
      beforeSending: () => standBefore('send'),
    });
    if (point.step !== 'end') return first;
    await standBefore('end');
    const again = await carryToEnd(place, { site, platform, journal: memoryJournal() }, first.id);
    return { ...again, refusals: [...first.refusals, ...again.refusals] };
  })();
  const isStanding = await Promise.race([reached.given.then(() => true), ended.then(() => false)]);
  if (!isStanding) throw new Error(`Nothing came to ${point.step}.`);
  ended.catch(() => undefined);
  return {
    point,
    place,
    goOn() {
      struck.give();
      return ended;
    },
  };
}

function signal() {
  let give!: () => void;
  const given = new Promise<void>((resolve) => (give = resolve));
  return { given, give };
}
