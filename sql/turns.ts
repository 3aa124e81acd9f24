import { z } from 'zod';
import type { TriggerKind } from '../policy/mode.ts';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { decisionOf, refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import { inOrganization } from './organization.ts';
import type { ExternalId } from '../policy/identity.ts';

/** Who asks: the caller, and the personas it is registered for (`*`: every one). */
export interface TurnCaller {
  readonly client: string;
  readonly personas: readonly string[];
}

export interface TurnRequest {
  readonly persona: string;
  readonly destination: string;
  readonly requester: string;
  readonly trigger: TriggerKind;
  readonly triggerSeq?: bigint;
  readonly tools: readonly string[];
  readonly threadKey?: string;
}

/**
 * Opens a turn, or returns the one that this caller opened with the same key and request.
 *
 * Refuses whatever a mint would refuse now, and as `not_found` a destination or requester that does
 * not exist or does not read. The turn expires after `lifetimeSeconds`.
 */
export async function openTurn(
  { sql }: Database,
  organization: string,
  caller: TurnCaller,
  idempotency: { key: string; digest: Uint8Array },
  turnId: string,
  request: TurnRequest,
  lifetimeSeconds: number,
): Promise<{ ok: true; turn: string } | Refusal> {
  const stated = {
    ...request,
    ...(request.triggerSeq !== undefined && { triggerSeq: request.triggerSeq.toString() }),
  };
  const [row] = await sql<{ code: string | null; turn_id: string }[]>`
    select code, turn_id from earshot.open_turn(${organization}, ${turnId}, ${caller.client},
      ${sql.array([...caller.personas])}::text[], ${idempotency.key}, ${Buffer.from(idempotency.digest)},
      ${JSON.stringify(stated)}::text::jsonb, make_interval(secs => ${lifetimeSeconds}))`;
  if (row === undefined) return refuse('fault');
  return row.code === null ? { ok: true, turn: row.turn_id } : refusalOf(row.code);
}

/** One worker's right to carry a turn. The fence only grows. */
export interface Lease {
  readonly leaseId: string;
  readonly owner: string;
  readonly fence: bigint;
}

/** Takes the lease of a turn that is open or whose lease has expired. */
export async function takeLease(
  { sql }: Database,
  organization: string,
  caller: TurnCaller,
  turn: string,
  owner: string,
  seconds: number,
): Promise<{ ok: true; lease: Lease; expiresAt: string } | Refusal> {
  const [row] = await sql<(StepRow & { lease_id: string; fence: string; expires_at: string })[]>`
    select * from earshot.take_lease(${organization}, ${sql.array([...caller.personas])}::text[], ${turn},
      ${owner}, make_interval(secs => ${seconds}))`;
  if (row === undefined) return refuse('fault');
  if (row.code !== null) return refusalOf(row.code, decisionOf(row.decision_id));
  const lease = { leaseId: row.lease_id, owner, fence: BigInt(row.fence) };
  return { ok: true, lease, expiresAt: row.expires_at };
}

/** Extends a lease that is still held; a lost or fenced one is refused and changes nothing. */
export async function extendLease(
  { sql }: Database,
  organization: string,
  caller: TurnCaller,
  turn: string,
  lease: Lease,
  seconds: number,
): Promise<{ ok: true; expiresAt: string } | Refusal> {
  const [row] = await sql<(StepRow & { expires_at: string })[]>`
    select * from earshot.extend_lease(${organization}, ${sql.array([...caller.personas])}::text[], ${turn},
      ${lease.leaseId}, ${lease.owner}, ${lease.fence.toString()}, make_interval(secs => ${seconds}))`;
  if (row === undefined) return refuse('fault');
  return row.code === null
    ? { ok: true, expiresAt: row.expires_at }
    : refusalOf(row.code, decisionOf(row.decision_id));
}

/** Ends a turn by the worker that holds it. */
export async function endTurn(
  { sql }: Database,
  organization: string,
  caller: TurnCaller,
  turn: string,
  lease: Lease,
  state: 'completed' | 'failed',
): Promise<{ ok: true } | Refusal> {
  const [row] = await sql<StepRow[]>`
    select * from earshot.end_turn(${organization}, ${sql.array([...caller.personas])}::text[], ${turn},
      ${lease.leaseId}, ${lease.owner}, ${lease.fence.toString()}, ${state})`;
  return stepOf(row);
}

/** Stops a turn from outside, whoever holds it. One that is stopped stays so; one that failed is refused. */
export async function stopTurn(
  { sql }: Database,
  organization: string,
  caller: TurnCaller,
  turn: string,
): Promise<{ ok: true } | Refusal> {
  const [row] = await sql<StepRow[]>`
    select * from earshot.stop_turn(${organization}, ${sql.array([...caller.personas])}::text[], ${turn})`;
  return stepOf(row);
}

/** How the database answers a step of a turn: its refusal, and the decision that records it either way. */
interface StepRow {
  readonly code: string | null;
  readonly decision_id: string | null;
}

function stepOf(row: StepRow | undefined): { ok: true } | Refusal {
  if (row === undefined) return refuse('fault');
  return row.code === null ? { ok: true } : refusalOf(row.code, decisionOf(row.decision_id));
}

const TurnRow = z.object({
  id: z.string(),
  persona: z.string(),
  destination: z.string(),
  requester: z.string(),
  trigger: z.enum(['thread', 'mention', 'schedule']),
  trigger_seq: z.string().nullable(),
  tools: z.array(z.string()),
  state: z.enum(['open', 'running', 'completed', 'stopped', 'failed', 'expired']),
  lease_owner: z.string().nullable(),
  lease_fence: z.string(),
  expires_at: z.string(),
});
export type TurnRow = z.infer<typeof TurnRow>;

/** A turn as it stands. One of a persona the caller is not registered for is not found. */
export async function findTurn(
  database: Database,
  organization: ExternalId,
  caller: TurnCaller,
  turn: string,
): Promise<{ ok: true; turn: TurnRow } | Refusal> {
  return inOrganization(database, organization, async ({ sql, key }) => {
    const [row] = await sql`
      select t.id, a.external_id as persona, c.external_id as destination, u.external_id as requester,
        t.trigger, t.trigger_seq, t.tools, t.lease_owner, t.lease_fence,
        case when t.state in ('open', 'running') and t.expires_at <= clock_timestamp() then 'expired'
          else t.state end as state,
        earshot.rfc3339(t.expires_at) as expires_at
      from earshot.turns t
      join earshot.personas a on a.org_id = t.org_id and a.id = t.persona_id
      join earshot.conversations c on c.org_id = t.org_id and c.id = t.destination_id
      join earshot.users u on u.org_id = t.org_id and u.id = t.requester_id
      where t.org_id = ${key.toString()} and t.id = ${turn}
        and (a.external_id = any (${[...caller.personas]}::text[]) or '*' = any (${[...caller.personas]}::text[]))`;
    return row === undefined ? refuse('not_found') : { ok: true, turn: TurnRow.parse(row) };
  });
}
