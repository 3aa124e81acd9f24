import type { CompileMaterial } from './compile-material.ts';
import { planCompile, type Plan, type PlanMaterial, type PlanOptions } from './compile-plan.ts';
import { blocksOf, isStorable, type StartUnit } from '../injections.ts';
import type { TokenEstimator } from './token-estimator.ts';

/** The view with what a start adds to it, and the plan of that. */
export interface PlannedStart {
  readonly view: PlanMaterial;
  readonly plan: Plan;
}

/**
 * Plans a request with the units of a start. Of those for the log, one whose newest copy there goes raw is before the agent
 * already; any other is sent as the entry that it would be, in the order given, and what is not for the log goes where it goes.
 */
export function planStart(
  material: Pick<CompileMaterial, 'entries' | 'summaries' | 'verdicts'>,
  units: readonly StartUnit[],
  options: PlanOptions,
  estimator: TokenEstimator,
): PlannedStart {
  const storable = units.filter(isStorable);
  const placed = units.filter((unit) => !isStorable(unit));
  const missing = new Set(storable.filter((_, nth) => material.verdicts[nth] !== 'unchanged'));
  for (;;) {
    const view = withUnits(
      material,
      storable.filter((unit) => missing.has(unit)),
    );
    const plan = planCompile(view, placed, options, estimator);
    const buried = storable.filter((unit) => !missing.has(unit) && !isRaw(unit, material, plan));
    if (buried.length === 0) return { view, plan };
    // What is sent anew takes room in the newest window, so another copy may be under a summary now.
    for (const unit of buried) missing.add(unit);
  }
}

/**
 * The view with units after it that are for the log and not there as their newest copy: sent as the entries that they would be.
 * So what is placed because it could not be stored, or is previewed, is what it would be if it were stored now.
 */
function withUnits(
  { entries, summaries }: Pick<CompileMaterial, 'entries' | 'summaries'>,
  units: readonly StartUnit[],
): PlanMaterial {
  const added = units.map((unit) => ({
    ...{ at: -1, entry: '', revision: '', role: 'user' as const, participant: unit.source },
    ...{ blocks: blocksOf(unit), injection: unit.source, unit },
  }));
  return { summaries, entries: [...entries, ...added] };
}

/** Whether the newest copy of a unit goes raw: one under a summary is not before the agent. */
function isRaw(
  { source }: StartUnit,
  { entries }: Pick<CompileMaterial, 'entries'>,
  { choice }: Plan,
): boolean {
  return choice.raw[entries.findLastIndex(({ injection }) => injection === source)] === true;
}
