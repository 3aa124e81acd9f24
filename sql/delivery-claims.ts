import { z } from 'zod';
import type { Database } from './database.ts';
import { EditedMessage } from './deliveries.ts';
import { retrying } from './faults.ts';
import type { TurnCaller } from './turns.ts';

export interface ClaimRequest {
  readonly worker: string;
  /** Every destination unless given. */
  readonly destinations?: readonly string[] | undefined;
  readonly limit: number;
  readonly leaseSeconds: number;
  /** After how many a delivery whose claim ran out once more is dead. */
  readonly attempts: number;
}

const ClaimRow = z
  .object({
    id: z.string(),
    destination: z.string(),
    content_type: z.string(),
    payload_sha256: z.string(),
    audience_hash: z.string(),
    fence: z.string(),
    attempt: z.number(),
    lease_expires_at: z.string(),
    expires_at: z.string(),
    clearance_ends: z.string(),
    edits: EditedMessage.nullable(),
  })
  .transform((row) => ({
    id: row.id,
    destination: row.destination,
    contentType: row.content_type,
    payloadSha256: row.payload_sha256,
    audienceHash: row.audience_hash,
    /** It only grows: the release and the report of this claim name it. */
    fence: row.fence,
    attempt: row.attempt,
    leaseExpiresAt: row.lease_expires_at,
    expiresAt: row.expires_at,
    /** The same in seconds since the epoch. It is the fence that ends with the lease. */
    clearanceEnds: Number(row.clearance_ends),
    ...(row.edits !== null && { edits: row.edits }),
  }));
export type ClaimedDelivery = z.infer<typeof ClaimRow>;

/**
 * Claims what is due in the queue for a worker, the oldest first, of the personas that the caller is registered for. No two
 * claims that hold have the same delivery. Moves what is past its time on the way. Nothing is judged: the release does.
 */
export async function claimDeliveries(
  { sql }: Database,
  organization: string,
  caller: Pick<TurnCaller, 'personas'>,
  { worker, destinations, limit, leaseSeconds, attempts }: ClaimRequest,
): Promise<ClaimedDelivery[]> {
  const rows = await retrying(
    () => sql`
      select * from earshot.claim_deliveries(${organization}, ${sql.array([...caller.personas])}::text[], ${worker},
        ${destinations === undefined ? null : sql.array([...destinations])}::text[], ${limit},
        make_interval(secs => ${leaseSeconds}), ${attempts})`,
  );
  return z.array(ClaimRow).parse(rows);
}
