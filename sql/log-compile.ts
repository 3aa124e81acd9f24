import { z } from 'zod';
import { answered, type Answered, type SessionCaller } from './context-log.ts';
import type { Database } from './database.ts';
import { retrying } from './faults.ts';

/** A unit of injected context, ready for the database. */
export interface StorableUnit {
  readonly source: string;
  /** xxh3-128 of the blocks, in hex. */
  readonly hash: string;
  readonly blocks: readonly unknown[];
  readonly sources: readonly unknown[];
  readonly envelopes?: readonly unknown[];
}

/** What becomes of a unit at a start. */
export type Verdict = 'unchanged' | 'held' | 'bound' | 'store';
export const Verdicts = z.array(z.enum(['unchanged', 'held', 'bound', 'store']));

/**
 * Stores the units of a start, in their order, each whole, all or none, as far as nothing speaks against it: `store` says
 * of a unit that it is stored now. `most` is how many bytes one source may store in one turn.
 */
export async function storeInjections(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  namespace: string | undefined,
  units: readonly StorableUnit[],
  most: number,
): Promise<Answered<{ readonly verdicts: Verdict[] }>> {
  const [raw] = await retrying(
    () => sql`
      select *, to_json(verdicts) as verdicts from earshot.store_injections(${Buffer.from(digest)}, ${session},
        decode(${audienceHash}, 'hex'), ${namespace ?? null}, ${JSON.stringify(units)}::text::jsonb, ${most})`,
  );
  return answered(raw, ({ verdicts }) => ({ verdicts: Verdicts.parse(verdicts) }));
}

/** What a compile held, as it is put on record. */
export interface SentCompile {
  /** How far the log was read. */
  readonly mark: string;
  /** The injections in it, by the ids of their entries. */
  readonly held: readonly string[];
  /** Of each message the first 8 bytes of a hash over it and all before it. */
  readonly chain: Uint8Array;
  readonly items: number;
}

/**
 * Puts a compile on record as sent through a namespace, or as refused by a code. The grant and the session are checked
 * again: what is refused here was not sent.
 */
export async function sendLog(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  namespace: string | undefined,
  sent: SentCompile,
  refused?: 'over_budget',
): Promise<Answered<object>> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.send_log(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'),
        ${namespace ?? null}, ${sent.mark}, ${sql.array([...sent.held])}::uuid[], ${Buffer.from(sent.chain)},
        ${sent.items}, ${refused ?? null})`,
  );
  return answered(raw, () => ({}));
}

/** Writes a summary of what a namespace shows. The same key and digest again write nothing and give the same one. */
export async function writeSummary(
  { sql }: Database,
  { digest, session, audienceHash }: SessionCaller,
  namespace: string | undefined,
  key: string,
  requestDigest: Uint8Array,
  summary: unknown,
): Promise<Answered<{ readonly summary: string }>> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.write_summary(${Buffer.from(digest)}, ${session}, decode(${audienceHash}, 'hex'),
        ${namespace ?? null}, ${key}, ${Buffer.from(requestDigest)}, ${JSON.stringify(summary)}::text::jsonb)`,
  );
  return answered(raw, (row) => ({ summary: z.string().parse(row.summary) }));
}
