import { z } from 'zod';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import { retrying } from './faults.ts';
import type { Lease, TurnCaller } from './turns.ts';

const integer = z.string().transform(BigInt);

/** What a grant is bound to, and what a bridge is told of it. Counts of readers, never names. */
const GrantPacket = z.object({
  grantId: z.string(),
  turnId: z.string(),
  organization: z.string(),
  persona: z.string(),
  requester: z.string(),
  destination: z.string(),
  leaseId: z.string(),
  leaseOwner: z.string(),
  leaseFence: integer,
  audienceHash: z.string().length(64),
  mode: z.enum(['mention', 'private', 'guest', 'project', 'thread']),
  projectBound: z.string().optional(),
  tools: z.array(z.string()),
  sessionId: z.string(),
  threadKey: z.string(),
  salt: z.string(),
  sessionEpoch: integer,
  policyRevision: integer,
  readers: z.object({ people: z.number(), classes: z.number() }),
  conversations: z.number(),
  /** Seconds since the epoch, as in the token. */
  issuedAt: z.string().transform(Number),
  expiresAt: z.string().transform(Number),
});
export type GrantPacket = z.infer<typeof GrantPacket>;

/**
 * Records a grant under the digest of a token's id, after everything was checked again; the turn's
 * earlier grant ends. The token itself is signed by the caller, and never stored.
 */
export async function mintGrant(
  { sql }: Database,
  organization: string,
  caller: TurnCaller,
  turn: string,
  lease: Lease,
  grant: { id: string; digest: Uint8Array; lifetimeSeconds: number },
): Promise<{ ok: true; packet: GrantPacket } | (Refusal & { changes?: AudienceChanges })> {
  const [row] = await retrying(
    () => sql<
      { code: string | null; packet: unknown; changes: unknown; decision_id: string | null }[]
    >`
      select * from earshot.mint_grant(${organization}, ${sql.array([...caller.personas])}::text[], ${turn},
        ${lease.leaseId}, ${lease.owner}, ${lease.fence.toString()}, ${grant.id},
        ${Buffer.from(grant.digest)}, make_interval(secs => ${grant.lifetimeSeconds}))`,
  );
  if (row === undefined) return refuse('fault');
  if (row.code === null) return { ok: true, packet: GrantPacket.parse(row.packet) };
  return { ...refusalOf(row.code, decisionOf(row.decision_id)), ...changesOf(row.changes) };
}

/** How an audience moved: kinds and counts, no names. */
export const AudienceChanges = z.object({
  added: z.number(),
  gone: z.number(),
  floorsMoved: z.number(),
});
export type AudienceChanges = z.infer<typeof AudienceChanges>;

export function changesOf(value: unknown): { changes?: AudienceChanges } {
  return value == null ? {} : { changes: AudienceChanges.parse(value) };
}

export function decisionOf(id: string | null): { decision?: string } {
  return id === null ? {} : { decision: id };
}
