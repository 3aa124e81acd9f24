/** Microseconds since 1970-01-01T00:00:00Z. PostgreSQL's own resolution; a Date would lose three digits. */
export type Instant = bigint;

/**
 * Parses RFC 3339 with up to six fractional digits and `Z` or an offset. More digits, a missing
 * offset, a leap second or an impossible date is undefined.
 */
export function parseInstant(text: string): Instant | undefined {
  const match =
    /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/.exec(
      text,
    );
  if (!match) return undefined;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const offsetHours = Number(match[9] ?? 0);
  const offsetMinutes = Number(match[10] ?? 0);
  if (year < 1 || hour > 23 || minute > 59 || second > 59 || offsetHours > 23 || offsetMinutes > 59)
    return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  const offset =
    (match[8] === '-' ? -1n : 1n) * BigInt(offsetHours * 60 + offsetMinutes) * 60_000_000n;
  return BigInt(date.getTime()) * 1000n + BigInt((match[7] ?? '').padEnd(6, '0')) - offset;
}

/** RFC 3339 in UTC with exactly six fractional digits. */
export function formatInstant(instant: Instant): string {
  const micros = ((instant % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const seconds = (instant - micros) / 1_000_000n;
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
  return `${whole}.${micros.toString().padStart(6, '0')}Z`;
}

/** {@link formatInstant} of whole seconds since the epoch, as tokens count them. */
export function formatSeconds(seconds: number): string {
  return formatInstant(BigInt(seconds) * 1_000_000n);
}
