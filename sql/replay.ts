import { z } from 'zod';
import { recordedCode, type ReplayFacts } from '../policy/replay.ts';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import type { TurnCaller } from './turns.ts';

const integer = z.string().transform(BigInt);
const code = z.string().transform(recordedCode);
const kind = z.enum(['user', 'class:organization', 'class:project']);

const StandingRow = z.object({
  code: code.exactOptional(),
  fingerprint: z.string().exactOptional(),
  mode: z.enum(['mention', 'private', 'guest', 'project', 'thread']).exactOptional(),
  projectBound: z.string().exactOptional(),
  policyRevision: integer.exactOptional(),
});

const Of = z.object({
  decision: z.string(),
  at: z.string(),
  kind: z.string(),
  verdict: z.enum(['allowed', 'refused']),
  code: code.exactOptional(),
  tool: z.string().exactOptional(),
  items: z.number().exactOptional(),
  turn: z.string().exactOptional(),
  grant: z.string().exactOptional(),
  session: z.string().exactOptional(),
  delivery: z.string().exactOptional(),
  artifact: z.string().exactOptional(),
  destination: z.string().exactOptional(),
});

const Source = z.object({
  type: z.enum(['message', 'artifact', 'stretch']),
  conversation: z.string(),
  seq: integer.exactOptional(),
  fromSeq: integer.exactOptional(),
  artifact: z.string().exactOptional(),
  revision: integer.exactOptional(),
  inherited: z.boolean(),
  state: z.enum(['live', 'edited', 'deleted']),
  revisionNow: integer.exactOptional(),
  isStaged: z.boolean(),
  isDestination: z.boolean().default(false),
  isOutsideBound: z.boolean().default(false),
  mayLeave: z.boolean(),
  isShown: z.boolean(),
});

const FactsRow = z.object({
  of: Of,
  then: StandingRow,
  grant: StandingRow.exactOptional(),
  own: StandingRow.exactOptional(),
  there: StandingRow.exactOptional(),
  extent: z.enum(['destination', 'requester', 'audience']).exactOptional(),
  toolAllowed: z.boolean().exactOptional(),
  delivery: StandingRow.extend({ status: z.string() }).exactOptional(),
  readers: z
    .array(
      z.object({
        kind,
        id: z.string().exactOptional(),
        then: integer.exactOptional(),
        now: integer.exactOptional(),
      }),
    )
    .nullable(),
  sources: z.array(Source),
  complete: z.boolean(),
  readings: z.record(
    z.string(),
    z.array(z.object({ kind, id: z.string().exactOptional(), floor: integer.exactOptional() })),
  ),
});

/** A decision as it is on record: what it was about, by ids. */
export type RecordedDecision = z.infer<typeof Of>;

/** A source as it was shown, by name. */
export type RecordedSource = z.infer<typeof Source>;

/** A decision with the facts that it is judged by again; its sources are in the order of the facts'. */
export interface ReplayedDecision {
  readonly ok: true;
  /** The record of asking. */
  readonly decision: string;
  readonly decidedAt: string;
  readonly of: RecordedDecision;
  readonly sources: readonly RecordedSource[];
  /** False: it has more sources than are told. */
  readonly isComplete: boolean;
  readonly facts: ReplayFacts;
}

/** How many sources of one decision are judged again. */
const MOST_SOURCES = 500;

/**
 * A decision as it was, and what it was about as it stands now: asked, found and recorded in one statement on one snapshot.
 * Nothing else is changed.
 *
 * People have ids only for a caller that sees names. A decision that is not there, and one of a persona that the caller is not
 * registered for, are `not_found` alike. Whether the caller may ask for the organization is not checked here.
 */
export async function findReplayFacts(
  { sql }: Database,
  organization: string,
  caller: Pick<TurnCaller, 'personas'> & { readonly seesNames: boolean },
  decision: string,
): Promise<ReplayedDecision | Refusal> {
  const [row] = await sql<
    { code: string | null; decision_id: string; decided_at: string; facts: unknown }[]
  >`
    select * from earshot.replay_decision(${organization}, ${decision}, ${sql.array([...caller.personas])}::text[],
      ${caller.seesNames}, ${MOST_SOURCES})`;
  if (row === undefined) return refuse('fault');
  // No decision is named: an organization that is not there has none.
  if (row.code !== null) return refusalOf(row.code);
  const { of, then, grant, delivery, readers, sources, complete, readings, ...rest } =
    FactsRow.parse(row.facts);
  return {
    ok: true,
    decision: row.decision_id,
    decidedAt: row.decided_at,
    of,
    sources,
    isComplete: complete,
    facts: {
      ...rest,
      ...{ of: { ...of, isDelivery: of.delivery !== undefined }, then },
      ...(grant !== undefined && { bound: grant }),
      ...(delivery !== undefined && { delivery }),
      ...(readers !== null && { readers }),
      sources: sources.map(({ seq, fromSeq = seq, ...source }) => ({
        ...source,
        ...(fromSeq !== undefined && { seq: fromSeq }),
      })),
      readings: new Map(Object.entries(readings)),
    },
  };
}
