/** A tool call, or the result of one. Both name the call's id. */
export interface Half {
  readonly kind: 'call' | 'result';
  readonly id: string;
}

/** Where a half stands: the index of its entry, and its own index among that entry's halves. */
export interface HalfPlace {
  readonly entry: number;
  readonly half: number;
}

export interface Pair {
  readonly call: HalfPlace;
  readonly result: HalfPlace;
}

export interface Pairing {
  /** In the order of their results. */
  readonly pairs: readonly Pair[];
  /** Calls without a result and results without a call, in log order. */
  readonly unpaired: readonly HalfPlace[];
  /** The ids that more than one call has, paired or not. */
  readonly reused: ReadonlySet<string>;
}

/**
 * Pairs the tool calls of a log with their results. Each entry lists its halves in the order of its blocks.
 *
 * A result pairs with the latest call of its id that stands before it, in an earlier entry or earlier in its own, and has
 * no result yet. So a call always stands before its result, and each half is in one pair or unpaired, never both. Ids are
 * compared as they are written. Takes time linear in the halves.
 */
export function pairCalls(entries: readonly (readonly Half[])[]): Pairing {
  const pairs: Pair[] = [];
  const unpaired: HalfPlace[] = [];
  const open = new Map<string, HalfPlace[]>();
  const reused = new Set<string>();
  entries.forEach((halves, entry) => {
    halves.forEach(({ kind, id }, half) => {
      const place = { entry, half };
      const calls = open.get(id);
      switch (kind) {
        case 'call':
          if (calls === undefined) {
            open.set(id, [place]);
          } else {
            // An id stays listed when its calls are all paired, so that another call is seen as a second one.
            reused.add(id);
            calls.push(place);
          }
          break;
        case 'result': {
          const call = calls?.pop();
          if (call === undefined) unpaired.push(place);
          else pairs.push({ call, result: place });
          break;
        }
      }
    });
  });
  for (const calls of open.values()) for (const call of calls) unpaired.push(call);
  unpaired.sort((a, b) => a.entry - b.entry || a.half - b.half);
  return { pairs, unpaired, reused };
}
