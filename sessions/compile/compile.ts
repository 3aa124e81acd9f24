import type { Block } from '../entry-shape.ts';
import { toAnthropic } from '../providers/anthropic-messages.ts';
import type { CompileMaterial } from './compile-material.ts';
import type { Plan, PlanMaterial, PlannedMessage } from './compile-plan.ts';
import type { CompiledLog, CompileOptions, OverBudget, Provenance } from './compile-shape.ts';
import { planStart } from './compile-start.ts';
import { stepsOf } from './compile-steps.ts';
import type { StartUnit } from '../injections.ts';
import { toOpenAi } from '../providers/openai-messages.ts';
import { chainOf, sharedPrefix, type MessageChain } from './sent-prefix.ts';
import type { TokenEstimator } from './token-estimator.ts';

/** A request, and what is put on record of it; or why it is refused. */
export type Compilation =
  | {
      readonly ok: true;
      readonly compiled: CompiledLog;
      /** The stored injections in it, by their entries. */
      readonly held: readonly string[];
      readonly chain: MessageChain;
    }
  | { readonly ok: false; readonly code: 'not_found' }
  | { readonly ok: false; readonly code: 'over_budget'; readonly over: OverBudget };

/**
 * Builds a request from what a compile chooses from.
 *
 * Each entry of the view is sent: raw once, or under one summary, in log order. Of the units of the start, what is not in the
 * log as its newest copy, or only under a summary, is placed: those for the log in the order given, then the others. The
 * request never has more tokens than the budget: one that would is refused, with what would make it smaller. The same view,
 * units, options and last request give the same bytes.
 */
export function compileMaterial(
  material: CompileMaterial,
  units: readonly StartUnit[],
  options: CompileOptions,
  estimator: TokenEstimator,
): Compilation {
  const indexOf = new Map(material.entries.map(({ entry }, index) => [entry, index]));
  const asked = (options.pins ?? []).map((entry) => indexOf.get(entry));
  if (asked.includes(undefined)) return { ok: false, code: 'not_found' };
  const stored = new Set(material.pins);
  const pins = new Set([
    ...asked.filter((index) => index !== undefined),
    ...material.entries.flatMap(({ at }, index) => (stored.has(at) ? [index] : [])),
  ]);

  const planning = { ...options, pins };
  const { view, plan: planned } = planStart(material, units, planning, estimator);
  if (options.budget !== undefined && planned.tokens > options.budget) {
    const { budget } = options;
    const steps = stepsOf(material, units, planning, estimator, { view, plan: planned }, budget);
    return { ok: false, code: 'over_budget', over: { budget, tokens: planned.tokens, steps } };
  }

  const messages = planned.messages.map(({ role, participant, content }) => ({
    role,
    participant,
    content: [...content],
  }));
  const chain = chainOf(messages);
  const idAt = new Map(material.entries.map(({ at, entry }) => [at, entry]));
  const provenance = planned.messages.map((message) => provenanceOf(message, view, planned, idAt));
  const compiled: CompiledLog = {
    messages,
    provenance,
    stats: {
      ...statsOf(provenance, planned, messages),
      tokens: { ...tokensOf(provenance), estimator: estimator.name },
      shared: sharedPrefix(chain, Buffer.from(material.last ?? '', 'hex')),
    },
    ...(options.format === 'anthropic' && { request: toAnthropic(messages) }),
    ...(options.format === 'openai' && { request: toOpenAi(messages) }),
  };
  const held = provenance.flatMap(({ kind, entry }) =>
    kind === 'injection' && entry !== undefined ? [entry] : [],
  );
  return { ok: true, compiled, held: [...new Set(held)], chain };
}

function placedOf({ source, envelopes }: StartUnit) {
  return {
    ...{ kind: 'placed' as const, source },
    ...(envelopes !== undefined && { envelopes: [...envelopes] }),
  };
}

function provenanceOf(
  { origin, tokens }: PlannedMessage,
  material: PlanMaterial,
  { entries }: Plan,
  idAt: ReadonlyMap<number, string>,
): Provenance {
  switch (origin.kind) {
    case 'entry': {
      const entry = material.entries[origin.index];
      const { pinned = false, cut = false, pruned = false } = entries[origin.index] ?? {};
      if (entry?.unit !== undefined)
        return { ...placedOf(entry.unit), ...(cut && { cut }), tokens };
      return {
        kind: entry?.injection === undefined ? 'entry' : 'injection',
        ...(entry !== undefined && { entry: entry.entry, revision: entry.revision }),
        ...(entry?.injection !== undefined && { source: entry.injection }),
        ...(entry?.sources !== undefined && { sources: entry.sources }),
        ...(entry?.envelopes !== undefined && { envelopes: entry.envelopes }),
        ...(pinned && { pinned }),
        ...(cut && { cut }),
        ...(pruned && { pruned }),
        tokens,
      };
    }
    case 'summary': {
      const summary = material.summaries[origin.index];
      const covers = summary?.covers ?? [];
      return {
        kind: 'summary',
        ...(summary !== undefined && { summary: summary.id, level: summary.level }),
        ...{ from: idAt.get(covers[0] ?? -1), to: idAt.get(covers.at(-1) ?? -1) },
        entries: covers.length,
        ...(summary?.sources !== undefined && { sources: summary.sources }),
        tokens,
      };
    }
    case 'placed':
      return { ...placedOf(origin.unit), tokens };
    case 'marker':
      return { kind: 'marker', tokens };
  }
}

function statsOf(
  provenance: readonly Provenance[],
  { choice }: Plan,
  messages: readonly { readonly content: readonly Block[] }[],
) {
  const count = (kind: Provenance['kind']) => provenance.filter((one) => one.kind === kind).length;
  const ids = (kind: Provenance['kind']) =>
    new Set(provenance.flatMap((one) => (one.kind === kind ? [one.entry] : []))).size;
  return {
    entries: ids('entry'),
    blocks: messages.reduce(
      (sum, { content }, index) => sum + (provenance[index]?.kind === 'entry' ? content.length : 0),
      0,
    ),
    summaries: choice.taken.length,
    dearerReplaced: choice.replaced.length,
    injections: ids('injection'),
    placed: count('placed'),
  };
}

function tokensOf(provenance: readonly Provenance[]) {
  const sum = (kind?: Provenance['kind']) =>
    provenance
      .filter((one) => kind === undefined || one.kind === kind)
      .reduce((total, { tokens }) => total + tokens, 0);
  return {
    total: sum(),
    entries: sum('entry'),
    summaries: sum('summary'),
    injections: sum('injection'),
    placed: sum('placed'),
    marker: sum('marker'),
  };
}
