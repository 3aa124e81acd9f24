import type { Instant } from '../../../policy/instant.ts';

const LAST_SECOND = 253_402_300_799n; // 9999-12-31T23:59:59Z, the last that RFC 3339 can write

/**
 * The instant of a Slack `ts` (`seconds.microseconds`), which is also the message's id and its
 * place in the conversation. Read as two integers: as one number, late timestamps round onto each
 * other. Undefined for anything that has no exact microsecond.
 */
export function instantOfTs(ts: string): Instant | undefined {
  const match = /^(\d{1,12})(?:\.(\d{1,6}))?$/.exec(ts);
  if (match?.[1] === undefined) return undefined;
  const seconds = BigInt(match[1]);
  if (seconds > LAST_SECOND) return undefined;
  return seconds * 1_000_000n + BigInt((match[2] ?? '').padEnd(6, '0'));
}
