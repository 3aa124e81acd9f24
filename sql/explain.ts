import { z } from 'zod';
import type { SourceFacts } from '../policy/explanation.ts';
import { externalId } from '../policy/identity.ts';
import type { TriggerKind } from '../policy/mode.ts';
import { isRefusalCode, refuse, type Refusal } from '../policy/refusal.ts';
import { refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import type { TurnCaller } from './turns.ts';

export interface ExplainRequest {
  readonly destination: string;
  readonly source: string;
  /** One message of the source; the conversation as a whole unless given. */
  readonly seq?: bigint;
  readonly requester: string;
  readonly persona: string;
  readonly trigger: TriggerKind | 'disclosure';
  readonly triggerSeq?: bigint;
}

const integer = z.string().transform(BigInt);
const id = z.string().transform(externalId);

const FactsRow = z.object({
  turn: z.object({
    code: z.string().optional(),
    mode: z.enum(['mention', 'private', 'guest', 'project', 'thread']).optional(),
    extent: z.enum(['destination', 'requester', 'audience']).optional(),
    projectBound: id.optional(),
  }),
  destination: z.object({ aiThread: z.boolean(), everShared: z.boolean() }),
  source: z.object({
    isDestination: z.boolean(),
    state: z.enum(['live', 'deleted', 'staged']),
    isOutsideBound: z.boolean(),
    floor: integer.nullable(),
  }),
  message: z
    .object({
      seq: integer,
      isDeleted: z.boolean(),
      mayLeave: z.boolean(),
      isDelivered: z.boolean(),
      isVisible: z.boolean(),
    })
    .nullable(),
  readers: z.array(
    z.object({
      kind: z.enum(['user', 'class:organization', 'class:project']),
      id: z.string().nullable(),
      viewer: z.boolean(),
      guest: z.boolean(),
      owner: z.boolean(),
      requester: z.boolean(),
      destinationFloor: integer,
      floor: integer.nullable(),
      lineage: z.boolean().nullable(),
    }),
  ),
});

/**
 * What a source is to a turn, as `policy/explanation.ts` takes it: asked, found and recorded in one
 * statement on one snapshot.
 *
 * For an operator, or with a `viewer` for that person: then other people have no names, and whatever
 * the person does not read is `not_found`, as what does not exist. Whether the caller may ask for the
 * organization is not checked here. `subject` is the digest that the record keeps of what was asked.
 */
export async function findSourceFacts(
  { sql }: Database,
  organization: string,
  caller: Pick<TurnCaller, 'personas'>,
  { seq, triggerSeq, ...request }: ExplainRequest,
  viewer: string | undefined,
  subject: Uint8Array,
): Promise<
  { ok: true; decision: string; decidedAt: string; facts: SourceFacts } | (Refusal & { ok: false })
> {
  const stated = {
    ...request,
    ...(seq !== undefined && { seq: seq.toString() }),
    ...(triggerSeq !== undefined && { triggerSeq: triggerSeq.toString() }),
  };
  const [row] = await sql<
    { code: string | null; decision_id: string; decided_at: string; facts: unknown }[]
  >`
    select * from earshot.explain_source(${organization}, ${JSON.stringify(stated)}::text::jsonb,
      ${sql.array([...caller.personas])}::text[], ${viewer ?? null}, ${Buffer.from(subject)})`;
  if (row === undefined) return refuse('fault');
  // No decision is named: an organization that is not there has none.
  if (row.code !== null) return refusalOf(row.code);
  return {
    ok: true,
    decision: row.decision_id,
    decidedAt: row.decided_at,
    facts: sourceFacts(row.facts, request.trigger),
  };
}

/** Facts as `earshot.explanation` gives them. Throws on any other shape. */
export function sourceFacts(value: unknown, trigger: ExplainRequest['trigger']): SourceFacts {
  const { turn, destination, source, message, readers } = FactsRow.parse(value);
  return {
    turn: turnOf(turn),
    trigger,
    ...destination,
    isDestination: source.isDestination,
    sourceState: source.state,
    isOutsideBound: source.isOutsideBound,
    ...(source.floor !== null && { sourceFloor: source.floor }),
    ...(message !== null && { message }),
    readers: readers.map((reader) => ({
      kind: reader.kind,
      ...(reader.id !== null && { id: reader.id }),
      isViewer: reader.viewer,
      isGuest: reader.guest,
      isOwner: reader.owner,
      isRequester: reader.requester,
      destinationFloor: reader.destinationFloor,
      ...(reader.floor !== null && { floor: reader.floor }),
      ...(reader.lineage !== null && { readsLineage: reader.lineage }),
    })),
  };
}

function turnOf({
  code,
  mode,
  extent,
  projectBound,
}: z.infer<typeof FactsRow>['turn']): SourceFacts['turn'] {
  if (code !== undefined) return { code: isRefusalCode(code) ? code : 'fault' };
  if (mode === undefined || extent === undefined) return { code: 'fault' };
  return { mode, extent, ...(projectBound !== undefined && { projectBound }) };
}
