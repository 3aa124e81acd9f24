import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { memoryJournal } from '../../delivery/journal.ts';
import { ok } from '../support/gateway.ts';
import {
  carryToEnd,
  DESTINATION,
  enterPlace,
  PAYLOAD,
  type Ended,
  type Place,
} from './carried-delivery.ts';
import {
  CARRIER_POINTS,
  REQUESTS_UNDER_WAY,
  startCarrier,
  type Carriage,
  type CarrierPoint,
} from './carriage.ts';
import { openCrashSite, type CrashSite } from './crash-site.ts';
import { BETWEEN, lockOf, titleOf, WITHIN, type FaultPoint, type Path } from './delivery-path.ts';
import { openLineJournal } from './line-journal.ts';
import { openPlatform, type Platform } from './platform.ts';
import { takeToAll, type StruckDelivery } from './struck-delivery.ts';
import { halfWritten } from './wholeness.ts';

// Deliveries that stand at each of their points when a process or a connection goes, all at once: one fault strikes them all, and
// each is then carried to its end by itself.

let site: CrashSite;
let platform: Platform;

beforeAll(async () => {
  site = await openCrashSite();
  platform = openPlatform();
}, 120_000);
afterAll(() => site.close());

/** What ends right: shown once, or known to have failed and never shown. */
const SHOWN = { status: 'delivered', shown: [PAYLOAD] };
const NOT_SHOWN = { status: 'failed', shown: [] };

const outcomeOf = ({ id, delivery: { status } }: Ended) => ({
  status,
  shown: platform.shownFor(id),
});

/** What failed is told so, and made again it is shown. */
async function expectMadeAgain(place: Place): Promise<void> {
  const again = await carryToEnd(
    { ...place, key: 'again' },
    { site, platform, journal: memoryJournal() },
  );
  expect(outcomeOf(again)).toEqual(SHOWN);
}

interface Fault {
  readonly name: string;
  readonly strike: () => Promise<void>;
  /** Whether what was under way in the database takes effect all the same, and nobody hears of it. */
  readonly goesOn: boolean;
  readonly unanswered: string;
}

const FAULTS: readonly Fault[] = [
  {
    name: 'the gateway is killed',
    goesOn: true,
    unanswered: 'no_answer',
    strike: () => site.killGateway(),
  },
  {
    name: 'the database is killed and recovers',
    goesOn: false,
    unanswered: 'unavailable',
    strike: () => site.killDatabase(),
  },
  {
    name: 'the connections are cut',
    goesOn: false,
    unanswered: 'unavailable',
    strike: () => site.cutConnections(),
  },
];

/** How often a queued delivery is claimed, if its fault strikes there. */
function claimsOf({ step, stop }: FaultPoint, goesOn: boolean): number {
  const isLost = step === 'release' || (step === 'claim' && goesOn);
  return stop !== undefined && isLost ? 2 : 1;
}

describe.each(FAULTS)('where $name', ({ strike, goesOn, unanswered }) => {
  const points = [...BETWEEN, ...WITHIN];
  let standing: ReadonlyMap<FaultPoint, StruckDelivery>;
  let broken: unknown;

  beforeAll(async () => {
    if (goesOn) site.prepareGateway();
    standing = await takeToAll(points, site, platform);
    await strike();
    await site.holds.letGo();
    broken = await halfWritten(site.owner);
  }, 120_000);

  test('nothing is half written, and the next request is served', async () => {
    expect(broken).toEqual([]);
    expect((await fetch(`${site.url()}/readyz`)).status).toBe(200);
    const { turn } = await enterPlace(site, 'direct');
    expect(ok(await turn.propose('It sang again.'))).toMatchObject({ status: 'cleared' });
  });

  test.each(points.map((point) => [titleOf(point), point] as const))(
    'a delivery is shown once, or is known not to have been: %s',
    async (_title, point) => {
      const struck = standing.get(point);
      if (struck === undefined) throw new Error('It never came to its point.');
      const ended = await struck.goOn();
      const isDirect = point.path === 'direct';
      // Its bytes were handed out and never came: they are not handed out again without a claim.
      const isLost = isDirect && goesOn && point.step === 'release' && point.stop !== undefined;
      expect(outcomeOf(ended)).toEqual(isLost ? NOT_SHOWN : SHOWN);
      expect(ended.delivery.attempts).toBe(isDirect ? undefined : claimsOf(point, goesOn));
      // Only what was under way is unanswered: whatever is asked next is served at once.
      expect(ended.refusals).toEqual(point.stop === undefined ? [] : [unanswered]);
      if (isLost) await expectMadeAgain(struck.place);
      expect(await halfWritten(site.owner)).toEqual([]);
    },
  );
});

test('what is half written is seen', async () => {
  const { id } = await carryToEnd(await enterPlace(site, 'approved'), {
    ...{ site, platform, journal: memoryJournal() },
  });
  const seen: string[] = [];
  for (const kind of ['propose', 'approve', 'claim', 'release']) {
    const undone = site.owner.begin(async (sql) => {
      await sql`delete from earshot.decisions where delivery_id = ${id} and kind = ${kind}`;
      seen.push(...(await halfWritten(sql)).map(({ what }) => what));
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
  }
  expect(seen).toEqual([
    ...['proposed', 'one approval', 'one claim, one fence'],
    'one release for each handing out',
  ]);
});

describe('where the gateway is killed, and what it asked for goes on behind what is asked again', () => {
  // A claim waits for nobody: it leaves to others what another one has.
  const points = WITHIN.filter(
    ({ path, step }) => step !== 'claim' && (path !== 'approved' || step === 'approve'),
  );
  const going = new Map<FaultPoint, Promise<Ended>>();

  beforeAll(async () => {
    site.prepareGateway();
    const standing = await takeToAll(points, site, platform);
    await site.killGateway();
    for (const [point, delivery] of standing) going.set(point, delivery.goOn());
    await site.holds.untilStopped(2);
    await site.holds.letGo();
    await Promise.allSettled(going.values());
  }, 120_000);

  test.each(points.map((point) => [titleOf(point), point] as const))(
    'a delivery is shown once, or is known not to have been: %s',
    async (_title, point) => {
      const ended = await going.get(point);
      if (ended === undefined) throw new Error('It never came to its point.');
      const isDirect = point.path === 'direct';
      const isLost = isDirect && point.step === 'release';
      expect(outcomeOf(ended)).toEqual(isLost ? NOT_SHOWN : SHOWN);
      expect(ended.delivery.attempts).toBe(isDirect ? undefined : claimsOf(point, true));
      expect(ended.refusals).toEqual(['no_answer', ...(isLost ? ['already_released'] : [])]);
      expect(await halfWritten(site.owner)).toEqual([]);
    },
  );
});

interface Carried extends Carriage {
  readonly id: string;
  readonly place: Place;
  readonly journalIs: 'kept' | 'lost';
}

describe('where the process that sends is killed', () => {
  const cases = (['kept', 'lost'] as const).flatMap((journalIs) =>
    (['direct', 'queued'] as const).flatMap((path) =>
      [...CARRIER_POINTS, ...REQUESTS_UNDER_WAY]
        .filter((point) => path === 'queued' || point !== 'claimed')
        .map((point) => ({ journalIs, path, point })),
    ),
  );
  const carried = new Map<(typeof cases)[number], Carried>();
  const going = new Map<Carried, Promise<Ended>>();
  let folder: string;
  let broken: unknown;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'earshot-carrier-'));
    await Promise.all(cases.map(async (each) => carried.set(each, await prepare(each))));
    const process = await startCarrier(
      [...carried.values()].map(({ id, place, journalIs, ...carriage }) => carriage),
      platform,
      () => site.holds.untilStopped(),
    );
    await process.kill();
    broken = await halfWritten(site.owner);
    // Its successor begins while what it asked for is still under way.
    for (const each of carried.values()) if (isUnderWay(each)) going.set(each, goOn(each));
    await site.holds.letGo();
    await Promise.allSettled(going.values());
  }, 120_000);
  afterAll(() => rm(folder, { recursive: true }));

  const isUnderWay = ({ point }: Carried) =>
    (REQUESTS_UNDER_WAY as readonly CarrierPoint[]).includes(point);

  async function prepare({ path, point, journalIs }: (typeof cases)[number]): Promise<Carried> {
    const place = await enterPlace(site, path);
    const { acme, turn } = place;
    const wish = path === 'queued' ? { queue: true } : {};
    const { id, clearance } = ok(await turn.propose(PAYLOAD, { key: place.key, ...wish }));
    if (point === 'release' || point === 'acknowledge') {
      const held = { organization: acme.name, turn: turn.id, destination: DESTINATION };
      await site.holds.take(held, 'locks', lockOf(point));
    }
    return {
      ...{ id, place, journalIs, point, name: id, clearance, organization: acme.name },
      ...{ url: site.url(), token: site.arranger.tokens.deliver, journal: join(folder, id) },
    };
  }

  function goOn({ place, id, journal, journalIs }: Carried): Promise<Ended> {
    const kept = journalIs === 'kept' ? openLineJournal(journal) : memoryJournal();
    return carryToEnd(place, { site, platform, journal: kept }, id);
  }

  test('nothing is half written', () => {
    expect(broken).toEqual([]);
  });

  /** Where it was handed out what it did not show. */
  const HANDED_OUT: readonly CarrierPoint[] = ['released', 'sending', 'release'];
  const CLAIMED_AGAIN: readonly CarrierPoint[] = ['claimed', 'asked', 'releasing', ...HANDED_OUT];

  test.each(cases.map((each) => [each.path, each.point, each.journalIs, each] as const))(
    'a delivery is shown once, or is known not to have been: %s, %s, its journal %s',
    async (_path: Path, point, journalIs, each) => {
      const delivery = carried.get(each);
      if (delivery === undefined) throw new Error('It never came to its point.');
      const ended = await (going.get(delivery) ?? goOn(delivery));
      const isLost = each.path === 'direct' && HANDED_OUT.includes(point);
      expect(outcomeOf(ended)).toEqual(isLost ? NOT_SHOWN : SHOWN);
      expect(ended.delivery.attempts).toBe(
        each.path === 'direct' ? undefined : CLAIMED_AGAIN.includes(point) ? 2 : 1,
      );
      if (isLost) await expectMadeAgain(delivery.place);
      if (journalIs === 'kept') {
        expect(await openLineJournal(delivery.journal).all()).toEqual([]);
      }
      expect(await halfWritten(site.owner)).toEqual([]);
    },
  );
});
