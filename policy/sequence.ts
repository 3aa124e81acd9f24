/**
 * Sequences, floors and revisions are 64-bit integers. In JSON they are decimal strings in
 * canonical form, because a JSON number above 2^53 silently becomes another one.
 */
export const MAX_SEQUENCE = 9223372036854775807n;

/** Parses canonical decimal: no sign, no leading zero, at most 2^63 - 1. Anything else is undefined. */
export function parseSequence(text: string): bigint | undefined {
  if (!/^(0|[1-9][0-9]{0,18})$/.test(text)) return undefined;
  const value = BigInt(text);
  return value <= MAX_SEQUENCE ? value : undefined;
}
