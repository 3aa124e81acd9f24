import type { CompiledLog, OverBudget } from '../../../sessions/compile/compile-shape.ts';
import { compileMaterial, type Compilation } from '../../../sessions/compile/compile.ts';
import type { Block } from '../../../sessions/entry-shape.ts';
import type { TokenEstimator } from '../../../sessions/compile/token-estimator.ts';
import { plainPairing } from '../../policy/plain-selection.ts';
import { halfOf } from './plain-arrangement.ts';
import type { RandomCompile } from './random-material.ts';

/** A compile of what was made up, and what is known of it without looking at how it is done. */

export function attempt(
  { material, units, options }: RandomCompile,
  by: TokenEstimator,
  budget?: number,
): Compilation {
  const asked = { ...options, ...(budget !== undefined && { budget }) };
  return compileMaterial(material, units, asked, by);
}

/** A message with where it comes from, its blocks as they are. */
export interface Sent {
  readonly role: string;
  readonly participant: string;
  readonly content: readonly Block[];
  readonly from: CompiledLog['provenance'][number];
}

/** A compile without a budget, which is not refused. */
export function compiledOf(
  given: RandomCompile,
  by: TokenEstimator,
): CompiledLog & { readonly sent: readonly Sent[] } {
  const outcome = attempt(given, by);
  if (!outcome.ok) throw new Error(outcome.code);
  const { compiled } = outcome;
  const sent = compiled.messages.map(({ role, participant, content }, nth): Sent => {
    const from = compiled.provenance[nth];
    if (from === undefined) throw new Error('a message without provenance');
    return { role, participant, content: content as Block[], from };
  });
  return { ...compiled, sent };
}

/** Whether a message is an entry of the log, or a part of one. */
export function isOfEntry({ from }: Sent): boolean {
  return from.kind === 'entry' || from.kind === 'injection';
}

/** What a message weighs, added up anew as `message-tokens.ts` says. */
export function plainWeight(estimator: TokenEstimator, content: readonly Block[]): number {
  const count = (text: string) => estimator.count(text);
  const json = (value: unknown) => (value === undefined ? 0 : count(JSON.stringify(value)));
  const own = (block: Block): number => {
    if (block.type === 'text' || block.type === 'thinking') return count(block.text);
    if (block.type === 'image') return 1600;
    if (block.type === 'raw') return json(block.value);
    if (block.type === 'tool_call') return 4 + count(block.name) + json(block.arguments);
    const parts = block.content ?? [];
    return parts
      .map((part) => (part.type === 'text' ? count(part.text) : 1600))
      .reduce((sum, tokens) => sum + tokens, 4 + json(block.value));
  };
  const forms = new Map<string, { own: number; form: number }>();
  let total = 4;
  for (const block of content) {
    const replay = block.type === 'raw' ? undefined : block.replay;
    if (replay === undefined) {
      total += own(block);
    } else {
      const before = forms.get(replay.id)?.own ?? 0;
      forms.set(replay.id, { own: before + own(block), form: json(replay.value) });
    }
  }
  for (const { own, form } of forms.values()) total += Math.max(own, form);
  return total;
}

/** The entries that are pinned, and those that a pair binds to one, and so on from there. */
export function pinnedIn({ material, options }: RandomCompile) {
  const { entries } = material;
  const pinned = new Set<number>();
  for (const [index, { at, entry }] of entries.entries())
    if (material.pins.includes(at) || options.pins?.includes(entry)) pinned.add(index);
  const bound = new Set(pinned);
  const halves = entries.map(({ blocks }) => blocks.map(halfOf).filter((one) => one !== undefined));
  const pairs = plainPairing(halves).pairs.map(({ call, result }) => [call.entry, result.entry]);
  for (let before = -1; before < bound.size;) {
    before = bound.size;
    for (const pair of pairs)
      if (pair.some((index) => bound.has(index))) for (const index of pair) bound.add(index);
  }
  return { pinned, bound };
}

/** The same compile after a step of a refusal was taken: a summary is one with this text. */
export function taking(
  { material, units, options }: RandomCompile,
  { step, from, to, of, needs = [] }: Omit<OverBudget['steps'][number], 'frees' | 'clears'>,
  text = '',
): RandomCompile {
  const [first, ...others] = needs;
  if (first !== undefined) {
    const without = taking({ material, units, options }, { step: first, needs: others });
    return taking(without, { step, from, to, of }, text);
  }
  switch (step) {
    case 'summarize': {
      const { entries, summaries } = material;
      const merged = summaries.filter(({ id }) => of?.includes(id));
      const [start, end = -1] = [from, to].map((id) =>
        entries.findIndex(({ entry }) => entry === id),
      );
      const covers =
        of === undefined
          ? entries.slice(start, end + 1).map(({ at }) => at)
          : [...new Set(merged.flatMap((summary) => summary.covers))].sort((a, b) => a - b);
      const level = 1 + Math.max(0, ...merged.map((summary) => summary.level));
      const written = { id: 'written', level, text, covers };
      return { units, options, material: { ...material, summaries: [...summaries, written] } };
    }
    case 'recentTokens':
    case 'headTokens':
    case 'pruneToolResults':
      return { material, units, options: { ...options, [step]: 0 } };
    case 'maxEntryTokens':
      return { material, units, options: { ...options, maxEntryTokens: 16 } };
    case 'pins':
      return { material: { ...material, pins: [] }, units, options: { ...options, pins: [] } };
    case 'injections':
      return { material: { ...material, verdicts: [] }, units: [], options };
  }
}
