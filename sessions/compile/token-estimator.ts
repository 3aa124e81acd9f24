import { LRUCache } from 'lru-cache';
import { contentHash } from './content-hash.ts';

/** How many tokens a text has, as a model would count them: a pure function. */
export interface TokenEstimator {
  /** Says how it counts: two with one name give the same counts. */
  readonly name: string;
  /** A whole number, 0 for an empty text. Takes time linear in the text, and throws for none. */
  count(text: string): number;
}

export const ESTIMATORS = ['o200k_base', 'characters'] as const;
export type EstimatorName = (typeof ESTIMATORS)[number];

/**
 * The estimator of a name. The tables of a tokenizer take a quarter of a second to load: they are, when one is asked for.
 *
 * `o200k_base` is the tokenizer of current OpenAI models, and near enough for others when it is calibrated. What looks
 * like a special token, as `<|endoftext|>`, is counted as the plain text it is. A run of more than 128 letters, white
 * space or other signs without a change between these is counted in pieces of 128, so the count of a text with one is an
 * estimate: the sum over its pieces. Any other text has the tokenizer's own count.
 *
 * `characters` is a quarter of the length in UTF-16 code units, rounded up: cheap, and far off outside English prose.
 */
export async function estimatorNamed(name: EstimatorName): Promise<TokenEstimator> {
  switch (name) {
    case 'o200k_base': {
      const tokenizer = await import('gpt-tokenizer/encoding/o200k_base');
      // The tokenizer keeps the merges of its pieces, and each piece keeps the whole text it was taken from in memory.
      tokenizer.setMergeCacheSize(0);
      return { name, count: (text) => countInPieces(tokenizer.countTokens, text) };
    }
    case 'characters':
      return { name, count: (text) => Math.ceil(text.length / 4) };
  }
}

/**
 * Counts as another estimator does, times a factor, rounded up: for a model whose tokenizer is not at hand. Its name
 * carries the factor. Throws a `RangeError` if that is not finite and above 0.
 */
export function calibrated(estimator: TokenEstimator, factor: number): TokenEstimator {
  if (!Number.isFinite(factor) || factor <= 0)
    throw new RangeError('the factor is not finite and above 0');
  return {
    name: `${estimator.name}*${factor}`,
    count: (text) => Math.ceil(estimator.count(text) * factor),
  };
}

/**
 * Counts as another estimator does, and keeps the counts of the `maxEntries` texts used last, not the texts.
 *
 * A count depends on its text alone, so a kept one is never out of date and is no decision that is kept. It is found by the
 * text's length and hash; a text made to have both of another one gets that one's count.
 */
export function remembered(estimator: TokenEstimator, maxEntries: number): TokenEstimator {
  const counts = new LRUCache<string, number>({ max: maxEntries });
  return {
    name: estimator.name,
    count(text) {
      const key = `${text.length}:${contentHash(text)}`;
      let count = counts.get(key);
      if (count === undefined) {
        count = estimator.count(text);
        counts.set(key, count);
      }
      return count;
    },
  };
}

/** No text is taken for a special token, and none is refused for holding one. */
const PLAIN_TEXT = { disallowedSpecial: new Set<string>() };

/**
 * The tokenizer parts a text at changes between these kinds of characters, and takes time quadratic in a part: 100,000
 * Chinese characters without punctuation took 50 s, and a fifth of a second in pieces of 128.
 */
const KINDS = [String.raw`[\p{L}\p{M}]`, String.raw`\s`, String.raw`[^\s\p{L}\p{N}]`];
const MOST_IN_PIECE = 128;
const LONG_RUN = new RegExp(KINDS.map((kind) => `${kind}{${MOST_IN_PIECE + 1},}`).join('|'), 'gu');
const PIECE = new RegExp(`[^]{1,${MOST_IN_PIECE}}`, 'gu');

type CountTokens = (text: string, options: typeof PLAIN_TEXT) => number;

function countInPieces(countTokens: CountTokens, text: string): number {
  let total = 0;
  let counted = 0;
  for (const { 0: run, index } of text.matchAll(LONG_RUN)) {
    total += countTokens(text.slice(counted, index), PLAIN_TEXT);
    for (const [piece] of run.matchAll(PIECE)) total += countTokens(piece, PLAIN_TEXT);
    counted = index + run.length;
  }
  return total + countTokens(text.slice(counted), PLAIN_TEXT);
}
