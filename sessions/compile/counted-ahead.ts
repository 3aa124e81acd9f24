import { setImmediate as others } from 'node:timers/promises';
import type { Block } from '../entry-shape.ts';
import type { CompileMaterial } from './compile-material.ts';
import type { TokenEstimator } from './token-estimator.ts';

type CountedMaterial = {
  readonly entries: readonly Pick<CompileMaterial['entries'][number], 'at' | 'blocks'>[];
  readonly summaries: readonly Pick<CompileMaterial['summaries'][number], 'text' | 'covers'>[];
};

/** A log with fewer characters is counted faster than anybody would notice. */
const SHORT = 262_144;

/** How long others wait at most, beside the count of one text. */
const SLICE_MS = 20;

/**
 * Counts the texts of a long log ahead, by an estimator that remembers counts, a slice at a time: others are answered in
 * between. Text can be made that takes a tokenizer much longer than prose, and a compile that counts it all at once would
 * hold up everybody. A short log is left as it is, and so are the entries under summaries, of which a compile counts no more
 * than up to the price of these.
 */
export async function countAhead(
  estimator: TokenEstimator,
  { entries, summaries }: CountedMaterial,
): Promise<void> {
  const covered = new Set(summaries.flatMap(({ covers }) => covers));
  const texts = [
    ...summaries.map(({ text }) => text),
    ...entries.flatMap(({ at, blocks }) => (covered.has(at) ? [] : blocks.flatMap(textsOf))),
  ];
  if (texts.reduce((sum, { length }) => sum + length, 0) < SHORT) return;
  let since = performance.now();
  for (const text of texts) {
    estimator.count(text);
    if (performance.now() - since < SLICE_MS) continue;
    await others();
    since = performance.now();
  }
}

/** What people and models may write into a block at length. */
function textsOf(block: Block): string[] {
  switch (block.type) {
    case 'text':
    case 'thinking':
      return [block.text];
    case 'tool_call':
      return [JSON.stringify(block.arguments)];
    case 'tool_result':
      return [
        ...(block.content ?? []).flatMap((part) => (part.type === 'text' ? [part.text] : [])),
        ...(block.value === undefined ? [] : [JSON.stringify(block.value)]),
      ];
    case 'raw':
      return [JSON.stringify(block.value)];
    case 'image':
      return [];
  }
}
