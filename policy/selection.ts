import { pairCalls, type Half, type Pair } from './pairing.ts';

/** An entry of a log as it weighs in the choice. */
export interface WeighedEntry {
  /** Of the form that is sent. */
  readonly tokens: number;
  /** Of the form that is stored. */
  readonly stored: number;
  readonly pinned: boolean;
  /** Its calls and results, in the order of its blocks. */
  readonly halves: readonly Half[];
}

export interface WeighedSummary {
  readonly level: number;
  /** The indices of the entries under it, ascending and each once. */
  readonly covers: readonly number[];
  /** What it costs with its wrapping, in tokens. */
  readonly price: number;
}

export interface ChoiceOptions {
  /** How many tokens the first entries that go raw may have. */
  readonly headTokens: number;
  /** How many tokens the newest entries that go raw may have. */
  readonly recentTokens: number;
  /** Whether a summary that costs more than what is under it is replaced by that, which is the rule, or kept. */
  readonly dearer?: 'replace' | 'keep';
}

export interface Choice {
  /** For each entry, whether it goes raw. One that does not is under exactly one of the taken summaries. */
  readonly raw: readonly boolean[];
  /** For each entry, whether a summary could take it in: no window and no pin keeps it raw. */
  readonly open: readonly boolean[];
  /** The indices of the summaries that are sent, in the order in which they stand. */
  readonly taken: readonly number[];
  /** For each of `taken`, the index of the entry in whose place it stands: the first under it that is not raw. */
  readonly standsAt: readonly number[];
  /** The indices of the summaries whose entries go raw instead, in log order. None under them is counted or used. */
  readonly replaced: readonly number[];
}

/**
 * Chooses what of a log is sent raw and what under a summary. Never reads a budget.
 *
 * The head and the recent entries go raw: as many as keep to their bounds, and on to the other half of each pair that one
 * of them holds half of. Pinned entries go raw, and count as pinned with them those that a pair binds to one. The rest is
 * under summaries, taken one by one: the higher level first, then the one whose first entry is earlier, then the one given
 * later, so that a new summary comes before an old one of the same entries. Pinned entries aside, one is taken only if it
 * covers any, and none of them is in a window or under one taken before.
 *
 * A taken summary is replaced by its entries, raw, if its price is above the sum of the larger form of each that is not
 * pinned; nothing else is used for them. It stays where raw entries could pair otherwise: see `holdsPairs`.
 *
 * Does not check that `covers` is ascending and without repeats, nor that tokens are numbers from 0 up. A summary that
 * covers what is not in the log is not taken. Takes time linear in the entries, halves and covers, beside sorting the
 * summaries.
 */
export function choose(
  entries: readonly WeighedEntry[],
  summaries: readonly WeighedSummary[],
  options: ChoiceOptions,
): Choice {
  const { pairs, reused } = pairCalls(entries.map(({ halves }) => halves));
  const log: Log = { entries, reused, ...spansOf(pairs, entries.length) };
  const pinned = pinnedOf(log);
  const { head, recent } = windowsOf(log, options);

  const open = pinned.map((is, entry) => !is && entry >= head && entry < recent);
  const free = [...open];
  const places = new Int32Array(entries.length).fill(-1);
  const raw = entries.map(() => true);
  const taken: Stand[] = [];
  const replaced: Stand[] = [];
  for (const summary of inOrder(summaries)) {
    const { covers, price } = summaries[summary] ?? NO_SUMMARY;
    if (!covers.every((entry) => pinned[entry] === true || free[entry])) continue;
    const under = covers.filter((entry) => !pinned[entry]);
    const [at] = under;
    if (at === undefined) continue;
    for (const entry of under) free[entry] = false;
    if (
      options.dearer !== 'keep' &&
      isDearer(price, under, entries) &&
      !holdsPairs(log, under, places)
    ) {
      replaced.push({ summary, at });
    } else {
      taken.push({ summary, at });
      for (const entry of under) raw[entry] = false;
    }
  }
  taken.sort((a, b) => a.at - b.at);
  replaced.sort((a, b) => a.at - b.at);
  return {
    raw,
    open,
    taken: taken.map(({ summary }) => summary),
    standsAt: taken.map(({ at }) => at),
    replaced: replaced.map(({ summary }) => summary),
  };
}

/** A summary, and the first entry that is under it alone. */
interface Stand {
  readonly summary: number;
  readonly at: number;
}

const NO_SUMMARY: WeighedSummary = { level: 0, covers: [], price: 0 };

function inOrder(summaries: readonly WeighedSummary[]): number[] {
  return summaries
    .map(({ level, covers }, index) => ({ index, level, first: covers[0] ?? 0 }))
    .sort((a, b) => b.level - a.level || a.first - b.first || b.index - a.index)
    .map(({ index }) => index);
}

interface Log {
  readonly entries: readonly WeighedEntry[];
  /** The ids that more than one call has. */
  readonly reused: ReadonlySet<string>;
  /** For each entry, the pairs it has one half of, if any. */
  readonly spans: readonly (readonly Pair[] | undefined)[];
  /** For each entry, how many pairs have their call before it and their result after it. */
  readonly over: Int32Array;
}

function spansOf(pairs: readonly Pair[], length: number): Pick<Log, 'spans' | 'over'> {
  const spans = new Array<Pair[] | undefined>(length).fill(undefined);
  const over = new Int32Array(length + 1);
  for (const pair of pairs) {
    const { call, result } = pair;
    if (call.entry === result.entry) continue;
    (spans[call.entry] ??= []).push(pair);
    (spans[result.entry] ??= []).push(pair);
    bump(over, call.entry + 1, 1);
    bump(over, result.entry, -1);
  }
  for (let entry = 1; entry < length; entry++) bump(over, entry, over[entry - 1] ?? 0);
  return { spans, over };
}

function bump(counts: Int32Array, index: number, by: number): void {
  counts[index] = (counts[index] ?? 0) + by;
}

/** Which entries go raw because they are pinned, or because a pair binds them to one that does. */
function pinnedOf({ entries, spans }: Log): boolean[] {
  const pinned = entries.map((entry) => entry.pinned);
  const reached: number[] = [];
  pinned.forEach((is, entry) => {
    if (is) reached.push(entry);
  });
  for (let entry = reached.pop(); entry !== undefined; entry = reached.pop()) {
    for (const { call, result } of spans[entry] ?? []) {
      const other = call.entry === entry ? result.entry : call.entry;
      if (pinned[other]) continue;
      pinned[other] = true;
      reached.push(other);
    }
  }
  return pinned;
}

/**
 * Where the head ends and where the recent entries begin.
 *
 * Each grows over the pairs that it would split. A pair with a half in each is split by neither, so that for a result that
 * came long after its call not all that lies between goes raw. The head grows first.
 */
function windowsOf({ entries, spans }: Log, { headTokens, recentTokens }: ChoiceOptions) {
  let head = 0;
  for (let sum = 0; head < entries.length; head++) {
    sum += entries[head]?.tokens ?? 0;
    if (sum > headTokens) break;
  }
  let recent = entries.length;
  for (let sum = 0; recent > 0; recent--) {
    sum += entries[recent - 1]?.tokens ?? 0;
    if (sum > recentTokens) break;
  }
  for (let entry = 0; entry < head; entry++) {
    for (const { result } of spans[entry] ?? []) {
      if (result.entry < recent) head = Math.max(head, result.entry + 1);
    }
  }
  for (let entry = entries.length - 1; entry >= recent; entry--) {
    for (const { call } of spans[entry] ?? []) {
      if (call.entry >= head) recent = Math.min(recent, call.entry);
    }
  }
  return { head, recent };
}

/** Whether a price is above what the entries cost. They are summed no further than up to the price. */
function isDearer(
  price: number,
  under: readonly number[],
  entries: readonly WeighedEntry[],
): boolean {
  let sum = 0;
  for (const entry of under) {
    const weighed = entries[entry];
    sum += Math.max(weighed?.stored ?? 0, weighed?.tokens ?? 0);
    if (sum >= price) return false;
  }
  return true;
}

/**
 * Whether sending these entries raw, and not under their summary, could change how a call pairs with its result: one of
 * them holds half of a pair whose other half is elsewhere, or a call or result with an id that several calls have, or lies
 * between a call and a result that are both elsewhere.
 *
 * `places` is -1 throughout, before and after.
 */
function holdsPairs(log: Log, under: readonly number[], places: Int32Array): boolean {
  under.forEach((entry, place) => {
    places[entry] = place;
  });
  const held = judgePairs(log, under, places);
  for (const entry of under) places[entry] = -1;
  return held;
}

function judgePairs(
  { entries, reused, spans, over }: Log,
  under: readonly number[],
  places: Int32Array,
): boolean {
  /** For each of these entries, how many of the pairs over it are within them: first as differences. */
  const within = new Int32Array(under.length + 1);
  for (const [place, entry] of under.entries()) {
    if (entries[entry]?.halves.some(({ id }) => reused.has(id))) return true;
    for (const { call, result } of spans[entry] ?? []) {
      if (places[call.entry] === -1 || places[result.entry] === -1) return true;
      if (call.entry !== entry) continue;
      bump(within, place + 1, 1);
      bump(within, places[result.entry] ?? 0, -1);
    }
  }
  let open = 0;
  for (const [place, entry] of under.entries()) {
    open += within[place] ?? 0;
    if ((over[entry] ?? 0) > open) return true;
  }
  return false;
}
