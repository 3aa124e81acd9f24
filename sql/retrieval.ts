import { z } from 'zod';
import { refuse } from '../policy/refusal.ts';
import { decisionOf, refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import { retrying } from './faults.ts';
import { changesOf } from './grants.ts';
import { Total, type ToolAnswer, type ToolName, type ToolRefusal } from './tools.ts';

/** One of several calls: its arguments have been validated; integers in them are decimal strings. */
export interface RetrievedCall {
  readonly tool: ToolName;
  readonly arguments: Readonly<Record<string, unknown>>;
}

const Result = z.object({
  code: z.string().nullable(),
  more: z.boolean().nullable(),
  total: Total.nullable(),
  items: z.array(z.unknown()).nullable(),
});
export type RetrievedResult = z.infer<typeof Result>;

const RetrieveRow = z.object({
  code: z.string().nullable(),
  decision_id: z.string().nullable(),
  decided_at: z.string(),
  grant_id: z.string().nullable(),
  policy_revision: z.string().nullable(),
  changes: z.unknown(),
  results: z.array(Result).nullable(),
});

/** What a packet of several calls let through, under one decision: a result for each call, in their order. */
export type Retrieved = Pick<
  ToolAnswer<never>,
  'ok' | 'decision' | 'decidedAt' | 'policyRevision'
> & { readonly results: readonly RetrievedResult[] };

/**
 * Makes several calls of tools in one snapshot: live check, scope, rows, ledger and record in one statement. A call may be
 * refused by itself; a grant that is not live, or a tool that the turn does not allow, refuses all of them.
 */
export async function retrieve(
  { sql }: Database,
  digest: Uint8Array,
  calls: readonly RetrievedCall[],
  subject: Uint8Array,
): Promise<Retrieved | ToolRefusal> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.retrieve(${Buffer.from(digest)}, ${JSON.stringify(calls)}::text::jsonb,
        ${Buffer.from(subject)})`,
  );
  const row = RetrieveRow.parse(raw);
  if (row.code !== null) {
    return { ...refusalOf(row.code, decisionOf(row.decision_id)), ...changesOf(row.changes) };
  }
  if (row.decision_id === null || row.policy_revision === null || row.results === null) {
    return refuse('fault');
  }
  return {
    ok: true,
    decision: row.decision_id,
    decidedAt: row.decided_at,
    policyRevision: row.policy_revision,
    results: row.results,
  };
}
