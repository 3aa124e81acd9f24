import type { CompileMaterial, MaterialSummary } from './compile-material.ts';
import type { Plan, PlanOptions } from './compile-plan.ts';
import { LEAST_ENTRY_TOKENS, type OverBudget } from './compile-shape.ts';
import { planStart, type PlannedStart } from './compile-start.ts';
import type { StartUnit } from '../injections.ts';
import type { TokenEstimator } from './token-estimator.ts';

type Step = OverBudget['steps'][number];

/**
 * What would make a request smaller that was planned from this view. Each step is tried, by another plan, and one that frees
 * nothing is not named. Of a summary, `frees` is what an empty text in its place would free; of all else it is exact.
 *
 * Windows and pins can keep the same entries raw, and from every summary. What frees more once all of them give way is named
 * with them (`needs`).
 */
export function stepsOf(
  material: Pick<CompileMaterial, 'entries' | 'summaries' | 'verdicts'>,
  units: readonly StartUnit[],
  options: PlanOptions,
  estimator: TokenEstimator,
  start: PlannedStart,
  budget: number,
): Step[] {
  const { entries, summaries } = material;
  const { plan: planned } = start;
  const planWith = (changed: Partial<PlanOptions>, written: readonly MaterialSummary[] = []) => {
    const more = { ...material, summaries: [...summaries, ...written] };
    return planStart(more, units, { ...options, ...changed }, estimator);
  };
  const freed = (changed: Partial<PlanOptions>, written?: readonly MaterialSummary[]) =>
    planned.tokens - planWith(changed, written).plan.tokens;
  const summarize = (of: PlannedStart, changed: Partial<PlanOptions> = {}): Named => {
    const run = heaviestRun(of);
    if (run === undefined) return { step: 'summarize', frees: 0 };
    const ends = { from: entries[run.first]?.entry, to: entries[run.last]?.entry };
    const covers = entries.slice(run.first, run.last + 1).map(({ at }) => at);
    const frees = freed(changed, [{ id: '', text: '', level: 1, covers }]);
    return { step: 'summarize', frees, ...ends };
  };

  const { headTokens = 0, recentTokens = 0, pins } = options;
  const needs = [
    ...(recentTokens > 0 ? (['recentTokens'] as const) : []),
    ...(headTokens > 0 ? (['headTokens'] as const) : []),
    ...(pins.size > 0 ? (['pins'] as const) : []),
  ];
  const single = needs.map((step): Named => ({ step, frees: freed(WITHOUT[step]) }));
  const most = (some: readonly Named[]) => Math.max(0, ...some.map(({ frees }) => frees));
  const plainly = summarize(start);
  const steps: Named[] = [plainly, merge(planned, summaries, freed), ...single];
  if (needs.length > 0) {
    const none = needs.reduce((all, one) => ({ ...all, ...WITHOUT[one] }), {});
    const bare = planWith(none);
    const together = planned.tokens - bare.plan.tokens;
    const [first, ...others] = needs;
    if (first !== undefined && others.length > 0 && together > most(single)) {
      steps.push({ step: first, needs: others, frees: together });
    }
    const wider = summarize(bare, none);
    // Where it is the same entries, it frees no more than both by themselves.
    const isSame = wider.from === plainly.from && wider.to === plainly.to;
    if (!isSame && wider.frees > Math.max(most([plainly]), together)) {
      steps.push({ ...wider, needs });
    }
  }
  const bareTokens =
    units.length === 0
      ? planned.tokens
      : planStart({ ...material, verdicts: [] }, [], options, estimator).plan.tokens;
  steps.push(
    { step: 'pruneToolResults', frees: freed({ pruneToolResults: 0 }) },
    { step: 'maxEntryTokens', frees: freed({ maxEntryTokens: LEAST_ENTRY_TOKENS }) },
    { step: 'injections', frees: planned.tokens - bareTokens },
  );
  return steps
    .filter(({ frees }) => frees > 0)
    .map((step) => ({ ...step, clears: planned.tokens - step.frees <= budget }));
}

type Named = Omit<Step, 'clears'>;

const WITHOUT = {
  recentTokens: { recentTokens: 0 },
  headTokens: { headTokens: 0 },
  pins: { pins: new Set<number>() },
} as const satisfies Record<string, Partial<PlanOptions>>;

/** To summarize the summaries that are sent, or were replaced. */
function merge(
  { choice: { taken, replaced } }: Plan,
  summaries: readonly MaterialSummary[],
  freed: (changed: Partial<PlanOptions>, written: readonly MaterialSummary[]) => number,
): Named {
  const merged = [...taken, ...replaced]
    .flatMap((index) => summaries[index] ?? [])
    .filter(({ level }) => level < MOST_LEVELS)
    .slice(0, MOST_MERGED);
  if (merged.length === 0) return { step: 'summarize', frees: 0 };
  const level = 1 + Math.max(...merged.map((summary) => summary.level));
  const covers = [...new Set(merged.flatMap((summary) => summary.covers))];
  covers.sort((a, b) => a - b);
  const frees = freed({}, [{ id: '', text: '', level, covers }]);
  return { step: 'summarize', frees, of: merged.map(({ id }) => id) };
}

/** No summary is made of one of this level. */
const MOST_LEVELS = 9;

/** How many summaries one is made of, at most. */
const MOST_MERGED = 1000;

/**
 * The entries in a row with the most tokens that a summary of them alone would take in: none of them is under a summary, or raw
 * instead of one. What is pinned among them goes raw beside it.
 */
function heaviestRun({
  view: { entries, summaries },
  plan: { choice, messages },
}: PlannedStart): { readonly first: number; readonly last: number } | undefined {
  const tokens = new Map<number, number>();
  for (const { origin, tokens: more } of messages)
    if (origin.kind === 'entry') tokens.set(origin.index, (tokens.get(origin.index) ?? 0) + more);
  const spoken = new Set(choice.replaced.flatMap((index) => summaries[index]?.covers ?? []));

  let heaviest: { first: number; last: number; tokens: number } | undefined;
  let run: typeof heaviest;
  for (const [index, { at, unit }] of entries.entries()) {
    const isOpen = choice.open[index] === true && unit === undefined;
    if (isOpen && (choice.raw[index] !== true || spoken.has(at))) run = undefined;
    else if (isOpen) {
      run ??= { first: index, last: index, tokens: 0 };
      run.last = index;
      run.tokens += tokens.get(index) ?? 0;
      if (run.tokens > (heaviest?.tokens ?? 0)) heaviest = run;
    }
  }
  return heaviest;
}
