import { z } from 'zod';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { decisionOf, refusalOf } from './answer.ts';
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
 * earlier grant ends. The token itself is signed by the caller, and never stored. A refusal because the
 * audience moved names who came and went only to a caller that may see names.
 */
export async function mintGrant(
  { sql }: Database,
  organization: string,
  caller: TurnCaller & { readonly seesNames: boolean },
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
        ${Buffer.from(grant.digest)}, make_interval(secs => ${grant.lifetimeSeconds}), ${caller.seesNames})`,
  );
  if (row === undefined) return refuse('fault');
  if (row.code === null) return { ok: true, packet: GrantPacket.parse(row.packet) };
  return { ...refusalOf(row.code, decisionOf(row.decision_id)), ...changesOf(row.changes) };
}

const Introspected = z.object({
  grant: z.string(),
  turn: z.string(),
  session: z.string(),
  organization: z.string(),
  persona: z.string(),
  requester: z.string(),
  destination: z.string(),
  audienceHash: z.string().length(64),
  mode: z.string(),
  projectBound: z.string().optional(),
  policyRevision: z.string(),
  fence: z.string(),
  tools: z.array(z.string()),
  /** Seconds since the epoch. */
  issuedAt: z.string().transform(Number),
  expiresAt: z.string().transform(Number),
});
export type Introspected = z.infer<typeof Introspected>;

/**
 * What a grant is, if it is live now and of an organization and a persona that the caller is registered for;
 * otherwise undefined, whichever of the reasons it is. The check is recorded, and revokes the grant where the
 * refusal is for good, as at a tool call. Reads no content. `digest` is of a token that has been verified.
 */
export async function introspectGrant(
  { sql }: Database,
  caller: Pick<TurnCaller, 'personas'> & { readonly organizations: readonly string[] },
  digest: Uint8Array,
): Promise<Introspected | undefined> {
  const [row] = await retrying(
    () => sql<{ active: boolean; claims: unknown }[]>`
      select * from earshot.introspect_grant(${Buffer.from(digest)},
        ${sql.array([...caller.organizations])}::text[], ${sql.array([...caller.personas])}::text[])`,
  );
  return row?.active === true ? Introspected.parse(row.claims) : undefined;
}

/** Revokes a grant for good, whatever state it is in; again is as good as once. Its turn takes no further mint. */
export async function revokeGrant(
  { sql }: Database,
  organization: string,
  caller: TurnCaller,
  grant: string,
): Promise<{ ok: true } | Refusal> {
  const [row] = await retrying(
    () => sql<{ code: string | null; decision_id: string | null }[]>`
      select * from earshot.withdraw_grant(${organization}, ${caller.client},
        ${sql.array([...caller.personas])}::text[], ${grant})`,
  );
  if (row === undefined) return refuse('fault');
  return row.code === null ? { ok: true } : refusalOf(row.code, decisionOf(row.decision_id));
}

const ChangedReaders = z.array(z.object({ kind: z.string(), id: z.string() }));

/** How an audience moved: kinds and counts, and names for a client that may see them. */
export const AudienceChanges = z.object({
  added: z.int(),
  gone: z.int(),
  floorsMoved: z.int(),
  names: z
    .object({ added: ChangedReaders, gone: ChangedReaders, floorsMoved: ChangedReaders })
    .optional(),
});
export type AudienceChanges = z.infer<typeof AudienceChanges>;

export function changesOf(value: unknown): { changes?: AudienceChanges } {
  return value == null ? {} : { changes: AudienceChanges.parse(value) };
}
