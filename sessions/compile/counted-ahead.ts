import { setImmediate as others } from 'node:timers/promises';
import type { Block } from '../entry-shape.ts';
import type { TokenEstimator } from './token-estimator.ts';

/** A log with fewer characters is counted faster than anybody would notice. */
const SHORT = 262_144;

/** How long others wait at most, beside the count of one text. */
const SLICE_MS = 20;

/**
 * Counts the texts of a long log ahead, by an estimator that remembers counts, a slice at a time: others are answered in
 * between. Text can be made that takes a tokenizer much longer than prose, and a compile that counts it all at once would
 * hold up everybody. A short log is left as it is.
 */
export async function countAhead(
  estimator: TokenEstimator,
  entries: readonly { readonly blocks: readonly Block[] }[],
): Promise<void> {
  const texts = entries.flatMap(({ blocks }) => blocks.flatMap(textsOf));
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
