import type { AudienceGroup } from './audiences.ts';
import { caseName } from './earshot-scope.ts';
import { DURABLE, PRIMARY_KEY, SECURED } from './floor.ts';
import { proposeName, releaseName, type Answering } from './delivery-cases.ts';
import { liveCheckName, PROPOSE, RELEASE, retrieveName } from './grant-cases.ts';
import { PLAIN_HTTP, TOOL_OVERHEAD } from './http-cases.ts';
import type { Measurement } from './measurement.ts';

/** A figure beside what it may be at most. */
export interface Judged {
  readonly what: string;
  readonly unit: string;
  readonly p50: number;
  readonly p95: number | undefined;
  readonly target: readonly [p50: number, p95?: number];
  readonly met: boolean;
}

interface Bound {
  readonly what: string;
  readonly over: string;
  readonly groups: readonly string[];
  readonly target: readonly [number, number];
}

const FEW = ['uni2', 'uni5', 'squad2', 'squad5', 'guest5', 'project5', 'open1', 'openproject1'];
const TWENTY = ['uni20', 'squad10', 'squad20', 'team20', 'guest20', 'project20'];
const HUNDRED = ['uni100', 'team50', 'team100'];

const SCOPES: readonly Bound[] = [
  { what: 'scope, up to 5 readers', over: PRIMARY_KEY, groups: FEW, target: [6, 10] },
  { what: 'scope, 20 readers', over: PRIMARY_KEY, groups: TWENTY, target: [14, 20] },
  {
    what: 'scope, 100 readers, small result',
    over: PRIMARY_KEY,
    groups: HUNDRED,
    target: [10, 15],
  },
];
export const LIVE_CHECKS: readonly Bound[] = [
  {
    what: 'live check, up to 20 readers',
    over: SECURED,
    groups: ['squad5', 'squad20', 'uni20'],
    target: [1.5, 2],
  },
  {
    what: 'live check, 100 readers',
    over: SECURED,
    groups: ['uni100', 'team100'],
    target: [2, 3],
  },
  {
    what: 'live check, 1,000 readers',
    over: SECURED,
    groups: ['uni1000', 'team1000'],
    target: [5, 7],
  },
];
export const RETRIEVALS: Bound = {
  what: 'retrieve, up to 50 conversations',
  over: DURABLE,
  groups: ['guest5', 'guest20', 'project5'],
  target: [10, 20],
};
/** What a delivery may cost over one durable insert, with no more readers and rows than that. */
export const DELIVERIES = { readers: 20, rows: 50, target: [6, 10] } as const;
export const POWER = ['pow2', 'pow5', 'pow20'];
/** Beyond what they share, everything that is open to the organization is in the scope of these. */
export const LARGE = ['uni5', 'squad5', 'squad20', ...POWER];

/**
 * The figures that have a target, in its unit. A group whose data is too small is left out.
 *
 * @param scoped how many messages a search of each group with a large scope goes over
 */
export function judge(
  find: (name: string) => Measurement,
  groups: readonly AudienceGroup[],
  scoped: ReadonlyMap<string, number>,
): Judged[] {
  const known = new Map(groups.map((group) => [group.name, group]));
  const present = (names: readonly string[]) =>
    names.map((name) => known.get(name)).filter((group) => group !== undefined);
  const bounded = (bound: Bound, nameOf: (group: AudienceGroup) => string) =>
    present(bound.groups).map((group) =>
      ratio(`${bound.what}: ${group.name}`, find(nameOf(group)), find(bound.over), bound.target),
    );
  const scopeName = (group: AudienceGroup) => caseName({ name: 'Earshot' }, group);

  return [
    ...SCOPES.flatMap((bound) => bounded(bound, scopeName)),
    ...present(POWER).map((group) => {
      const rows = mean(group.audiences.map(({ readable }) => readable));
      const { p50 } = find(scopeName(group));
      return judged(`scope, power users: ${group.name}`, 'µs a row', (p50 * 1000) / rows, [0.25]);
    }),
    ...LIVE_CHECKS.flatMap((bound) => bounded(bound, liveCheckName)),
    ...bounded(RETRIEVALS, retrieveName),
    ...present(LARGE).map((group) => {
      const { p50 } = find(retrieveName(group));
      const messages = scoped.get(group.name) ?? NaN;
      return judged(
        `retrieve, large scope: ${group.name}`,
        'µs a message',
        (p50 * 1000) / messages,
        [5],
      );
    }),
    ...[PROPOSE, RELEASE].map((name) => ratio(name, find(name), find(DURABLE), DELIVERIES.target)),
    judged(
      'HTTP of a tool call, its statement apart',
      `× ${PLAIN_HTTP}`,
      find(TOOL_OVERHEAD).p50 / find(PLAIN_HTTP).p50,
      [1.5],
    ),
  ];
}

/** The figures of deliveries that have a target. */
export function judgeDeliveries(
  find: (name: string) => Measurement,
  answering: readonly Pick<Answering, 'group' | 'rows'>[],
): Judged[] {
  const { readers, rows, target } = DELIVERIES;
  return answering
    .filter((one) => one.group.size <= readers && one.rows <= rows)
    .flatMap((one) => [proposeName(one), releaseName(one)])
    .map((name) => ratio(name, find(name), find(DURABLE), target));
}

function ratio(
  what: string,
  measured: Measurement,
  floor: Measurement,
  target: readonly [number, number],
): Judged {
  return judged(
    what,
    `× ${floor.name}`,
    measured.p50 / floor.p50,
    target,
    measured.p95 / floor.p50,
  );
}

function judged(
  what: string,
  unit: string,
  p50: number,
  target: Judged['target'],
  p95?: number,
): Judged {
  const [at50, at95 = Infinity] = target;
  return { what, unit, p50, p95, target, met: p50 <= at50 && (p95 ?? 0) <= at95 };
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0) / numbers.length;
}
