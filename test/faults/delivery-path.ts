import type { LockedRow, Stop } from './holds.ts';

/** How a delivery goes: by its clearance, through the queue, or through the queue after an approval. */
export type Path = 'direct' | 'queued' | 'approved';

export type Statement = 'propose' | 'approve' | 'claim' | 'release' | 'acknowledge';

/** A step, and what comes after all of them. */
export type Step = Statement | 'send' | 'end';

/** Where a fault strikes: before a step, or in the midst of its statement. */
export interface FaultPoint {
  readonly path: Path;
  readonly step: Step;
  readonly stop?: Stop;
}

const STEPS: Readonly<Record<Path, readonly Step[]>> = {
  direct: ['propose', 'release', 'send', 'acknowledge', 'end'],
  queued: ['propose', 'claim', 'release', 'send', 'acknowledge', 'end'],
  approved: ['propose', 'approve', 'claim', 'release', 'send', 'acknowledge', 'end'],
};

/** A claim waits for no lock. The others wait for one of these rows. */
const LOCKS: Readonly<Record<Statement, LockedRow | undefined>> = {
  propose: 'turn',
  approve: 'turn',
  claim: undefined,
  release: 'turn',
  acknowledge: 'destination',
};

const PATHS = Object.keys(STEPS) as Path[];

/** Between any two steps, before the first and after the last. */
export const BETWEEN: readonly FaultPoint[] = PATHS.flatMap((path) =>
  STEPS[path].map((step) => ({ path, step })),
);

/** In each statement, at each place where it can be stopped. */
export const WITHIN: readonly FaultPoint[] = PATHS.flatMap((path) =>
  STEPS[path]
    .filter(isStatement)
    .flatMap((step) =>
      (['locks', 'row', 'commit'] as const)
        .filter((stop) => stop !== 'locks' || LOCKS[step] !== undefined)
        .map((stop) => ({ path, step, stop })),
    ),
);

export function lockOf(step: Statement): LockedRow {
  return LOCKS[step] ?? 'turn';
}

export function isStatement(step: Step): step is Statement {
  return step in LOCKS;
}

/** The step that a request is, or undefined for one that only looks. */
export function stepOf(method: string, path: string): Statement | undefined {
  if (method !== 'POST') return undefined;
  if (path === '/v1/deliveries') return 'propose';
  const last = path.slice(path.lastIndexOf('/') + 1) as Step;
  return isStatement(last) ? last : undefined;
}

export function titleOf({ path, step, stop }: FaultPoint): string {
  const place = {
    locks: 'while it waits for its locks',
    row: 'once its row is written',
    commit: 'once all is written and nothing committed',
  };
  const where = stop === undefined ? `before its ${step}` : `in its ${step}, ${place[stop]}`;
  return `${path}, ${where}`;
}
