import { z } from 'zod';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { decisionOf, refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import type { TurnCaller } from './turns.ts';

/** What is asked about: an artifact, or a message by its place. */
export type LineageQuestion =
  { readonly artifact: string } | { readonly conversation: string; readonly seq: bigint };

const How = z.enum(['direct', 'inherited', 'stretch']);

/** What a text was made from, what was made from it, and the deliveries that have it. */
export const LineageReport = z.object({
  artifact: z
    .object({
      id: z.string(),
      kind: z.string(),
      conversation: z.string(),
      state: z.enum(['live', 'deleted']),
      asserted: z.boolean(),
      persona: z.string().optional(),
      textSha256: z.string(),
      createdAt: z.string(),
    })
    .optional(),
  message: z
    .object({
      conversation: z.string(),
      seq: z.string(),
      id: z.string(),
      state: z.enum(['live', 'edited', 'deleted']),
      revision: z.string(),
      /** The delivery that it came out of, whose sources are given. */
      delivery: z.string().optional(),
    })
    .optional(),
  /** Of an artifact: something that it was made from has changed. */
  stale: z.boolean().optional(),
  sources: z.array(
    z.object({
      type: z.enum(['message', 'stretch', 'artifact']),
      conversation: z.string(),
      seq: z.string().optional(),
      fromSeq: z.string().optional(),
      artifact: z.string().optional(),
      revision: z.string().optional(),
      state: z.enum(['live', 'edited', 'deleted']),
      stale: z.boolean().optional(),
      inherited: z.boolean(),
    }),
  ),
  derived: z.array(
    z.object({
      artifact: z.string(),
      kind: z.string(),
      conversation: z.string(),
      how: How,
      state: z.enum(['live', 'deleted']),
      stale: z.boolean(),
      asserted: z.boolean(),
      at: z.string(),
    }),
  ),
  deliveries: z.array(
    z.object({
      id: z.string(),
      destination: z.string(),
      how: How,
      status: z.string(),
      at: z.string(),
      message: z.string().optional(),
    }),
  ),
  /** Whether that is all: no list holds more than a thousand. */
  complete: z.boolean(),
});
export type LineageReport = z.infer<typeof LineageReport>;

const MOST = 1000;

/**
 * What is known of where a text came from and where it went, without any text: asked and recorded in one statement on one
 * snapshot. No scope is asked: it is for operators. Artifacts and deliveries of personas that the caller is not registered for
 * are left out, and such an artifact is `not_found`. `subject` is the digest that the record keeps of what was asked.
 */
export async function findLineage(
  { sql }: Database,
  organization: string,
  caller: Pick<TurnCaller, 'personas'>,
  question: LineageQuestion,
  subject: Uint8Array,
): Promise<{ ok: true; decision: string; at: string; report: LineageReport } | Refusal> {
  const asked = { artifact: null, conversation: null, seq: null, ...question };
  const [row] = await sql<
    { code: string | null; decision_id: string | null; decided_at: string; lineage: unknown }[]
  >`
    select * from earshot.lineage_of(${organization}, ${sql.array([...caller.personas])}::text[], ${asked.artifact},
      ${asked.conversation}, ${asked.seq === null ? null : asked.seq.toString()}, ${MOST}, ${Buffer.from(subject)})`;
  if (row === undefined) return refuse('fault');
  if (row.code !== null) return refusalOf(row.code, decisionOf(row.decision_id));
  if (row.decision_id === null) return refuse('fault');
  return {
    ok: true,
    decision: row.decision_id,
    at: row.decided_at,
    report: LineageReport.parse(row.lineage),
  };
}
