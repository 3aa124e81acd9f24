import type { Half, Pair } from '../../policy/pairing.ts';
import type { ChoiceOptions, WeighedEntry, WeighedSummary } from '../../policy/selection.ts';

/** The rules of pairing and of choice, written down as plainly as they are said, for small logs. */

export interface PlainPairing {
  readonly pairs: readonly Pair[];
  readonly unpaired: readonly { readonly entry: number; readonly half: number }[];
  readonly reused: readonly string[];
}

export function plainPairing(entries: readonly (readonly Half[])[]): PlainPairing {
  const all = entries.flatMap((halves, entry) =>
    halves.map(({ kind, id }, half) => ({ kind, id, place: { entry, half } })),
  );
  const paired = new Set<unknown>();
  const pairs: Pair[] = [];
  all.forEach((result, position) => {
    if (result.kind !== 'result') return;
    const call = all
      .slice(0, position)
      .findLast((one) => one.kind === 'call' && one.id === result.id && !paired.has(one));
    if (call === undefined) return;
    paired.add(call).add(result);
    pairs.push({ call: call.place, result: result.place });
  });
  const calls = all.filter(({ kind }) => kind === 'call').map(({ id }) => id);
  return {
    pairs,
    unpaired: all.filter((one) => !paired.has(one)).map(({ place }) => place),
    reused: [...new Set(calls.filter((id, index) => calls.indexOf(id) !== index))],
  };
}

export type Held = 'half' | 'reused' | 'between';

export interface PlainChoice {
  readonly raw: readonly boolean[];
  readonly open: readonly boolean[];
  readonly taken: readonly number[];
  readonly standsAt: readonly number[];
  readonly replaced: readonly number[];
  /** Why each dear summary that is taken is not replaced. */
  readonly held: readonly (readonly Held[])[];
}

export function plainChoice(
  entries: readonly WeighedEntry[],
  summaries: readonly WeighedSummary[],
  { headTokens, recentTokens, dearer }: ChoiceOptions,
): PlainChoice {
  const { pairs: places, reused } = plainPairing(entries.map(({ halves }) => halves));
  const pairs = places.map(({ call, result }) => ({ call: call.entry, result: result.entry }));
  const all = entries.map((_, entry) => entry);
  const tokensOf = (some: readonly WeighedEntry[]) =>
    some.reduce((sum, { tokens }) => sum + tokens, 0);

  const lengths = [...all, entries.length];
  let head = Math.max(...lengths.filter((n) => tokensOf(entries.slice(0, n)) <= headTokens));
  let recent = Math.min(...lengths.filter((n) => tokensOf(entries.slice(n)) <= recentTokens));
  for (let again = true; again;) {
    const split = pairs.find((p) => p.call < head && p.result >= head && p.result < recent);
    again = split !== undefined;
    if (split !== undefined) head = split.result + 1;
  }
  for (let again = true; again;) {
    const split = pairs.find((p) => p.result >= recent && p.call < recent && p.call >= head);
    again = split !== undefined;
    if (split !== undefined) recent = split.call;
  }
  const inWindow = (entry: number) => entry < head || entry >= recent;

  const pinned = new Set(all.filter((entry) => entries[entry]?.pinned));
  for (let again = true; again;) {
    const bound = pairs.find(({ call, result }) => pinned.has(call) !== pinned.has(result));
    again = bound !== undefined;
    if (bound !== undefined) pinned.add(bound.call).add(bound.result);
  }

  const ranked = [...summaries.entries()]
    .map(([index, summary]) => ({ index, ...summary }))
    .sort(
      (a, b) => b.level - a.level || (a.covers[0] ?? 0) - (b.covers[0] ?? 0) || b.index - a.index,
    );
  const chosen: { index: number; under: number[]; dear: boolean; held: Held[] }[] = [];
  for (const { index, covers, price } of ranked) {
    const under = covers.filter((entry) => !pinned.has(entry));
    if (under.length === 0 || under.some(inWindow)) continue;
    if (under.some((entry) => chosen.some((other) => other.under.includes(entry)))) continue;

    const cost = under
      .map((entry) => Math.max(entries[entry]?.stored ?? 0, entries[entry]?.tokens ?? 0))
      .reduce((sum, tokens) => sum + tokens, 0);
    const inside = (entry: number) => under.includes(entry);
    const ids = under.flatMap((entry) => entries[entry]?.halves ?? []).map(({ id }) => id);
    const outside = pairs.filter(({ call, result }) => !inside(call) && !inside(result));
    const held: Held[] = [];
    if (pairs.some(({ call, result }) => inside(call) !== inside(result))) held.push('half');
    if (ids.some((id) => reused.includes(id))) held.push('reused');
    if (under.some((entry) => outside.some((p) => p.call < entry && entry < p.result)))
      held.push('between');
    chosen.push({ index, under, dear: price > cost, held });
  }
  chosen.sort((a, b) => (a.under[0] ?? 0) - (b.under[0] ?? 0));

  const isReplaced = ({ dear, held }: (typeof chosen)[number]) =>
    dear && held.length === 0 && dearer !== 'keep';
  const taken = chosen.filter((one) => !isReplaced(one));
  return {
    raw: all.map((entry) => !taken.some(({ under }) => under.includes(entry))),
    open: all.map((entry) => !pinned.has(entry) && !inWindow(entry)),
    taken: taken.map(({ index }) => index),
    standsAt: taken.map(({ under }) => under[0] ?? 0),
    replaced: chosen.filter(isReplaced).map(({ index }) => index),
    held: taken.filter(({ dear }) => dear).map(({ held }) => held),
  };
}
