import { MAX_SEQUENCE } from './sequence.ts';

/** The first sequence a person may read in a conversation, inclusive. */
export type Floor = bigint;

/** "No history": above every sequence there can be. A missing route is not this, it is `undefined`. */
export const NO_HISTORY: Floor = MAX_SEQUENCE;

/** Everything from the first message. */
export const ALL_HISTORY: Floor = 1n;

/**
 * The lowest of the routes by which one person reads a conversation, or undefined when there is no
 * route. INVARIANT 3: no membership means no history, so an absent route never counts as a low number.
 */
export function lowestRoute(routes: readonly (Floor | undefined)[]): Floor | undefined {
  return routes.reduce<Floor | undefined>(
    (lowest, route) =>
      route === undefined ? lowest : lowest === undefined || route < lowest ? route : lowest,
    undefined,
  );
}

/**
 * The highest floor of several readers, or undefined as soon as one of them has no route, or when
 * there is no reader at all. INVARIANTS 2, 3 and 10.
 */
export function highestFloor(readers: readonly (Floor | undefined)[]): Floor | undefined {
  let highest: Floor | undefined;
  for (const floor of readers) {
    if (floor === undefined) return undefined;
    if (highest === undefined || floor > highest) highest = floor;
  }
  return highest;
}
