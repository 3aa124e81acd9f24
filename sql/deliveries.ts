import { z } from 'zod';
import type { ExternalId } from '../policy/identity.ts';
import { isRefusalCode, refuse, type Refusal } from '../policy/refusal.ts';
import { refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import { retrying } from './faults.ts';
import { changesOf, type AudienceChanges } from './grants.ts';
import { inOrganization } from './organization.ts';
import type { TurnCaller } from './turns.ts';

export const DELIVERY_STATUSES = [
  'held',
  'cleared',
  'released',
  'reconciling',
  'delivered',
  'failed',
  'discarded',
] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

export interface Proposal {
  readonly id: string;
  readonly destination: string;
  readonly payload: Uint8Array;
  readonly contentType: string;
  readonly key: string;
  readonly requestDigest: Uint8Array;
  readonly maxAgeSeconds: number;
}

/** The verdict on a proposal: cleared for one audience until a moment, held with a code, or settled before. */
export type ProposalVerdict =
  | {
      readonly ok: true;
      readonly status: 'cleared';
      readonly id: string;
      readonly organization: string;
      readonly audienceHash: string;
      /** Seconds since the epoch. */
      readonly expiresAt: number;
    }
  | {
      readonly ok: true;
      readonly status: Exclude<DeliveryStatus, 'cleared'>;
      readonly id: string;
      readonly refusal?: Refusal;
      readonly changes?: AudienceChanges;
    };

/**
 * Judges a payload and records the verdict, under the lock protocol of `0009_create_deliveries.sql`.
 *
 * A refusal as the result means that nothing was stored: the grant is not live for this caller, or
 * the destination is not there for the requester. A held delivery is a result.
 */
export async function proposeDelivery(
  { sql }: Database,
  digest: Uint8Array,
  proposal: Proposal,
): Promise<ProposalVerdict | Refusal> {
  const [row] = await retrying(
    () => sql<
      {
        code: string | null;
        delivery_id: string;
        status: DeliveryStatus | null;
        organization: string;
        audience_hash: string;
        expires_at: string;
        changes: unknown;
        elsewhere: boolean;
      }[]
    >`
      select * from earshot.propose_delivery(${Buffer.from(digest)}, ${proposal.id}, ${proposal.destination},
        ${Buffer.from(proposal.payload)}, ${proposal.contentType}, ${proposal.key},
        ${Buffer.from(proposal.requestDigest)}, make_interval(secs => ${proposal.maxAgeSeconds}))`,
  );
  if (row === undefined) return refuse('fault');
  if (row.status === null) return refusalOf(row.code ?? 'fault');
  if (row.status === 'cleared') {
    return {
      ok: true,
      status: 'cleared',
      id: row.delivery_id,
      organization: row.organization,
      audienceHash: row.audience_hash,
      expiresAt: Number(row.expires_at),
    };
  }
  return {
    ok: true,
    status: row.status,
    id: row.delivery_id,
    ...(row.code !== null && { refusal: heldBy(row.code, row.elsewhere) }),
    ...changesOf(row.changes),
  };
}

/** A text whose sources another place may not have is its owner's to release; here it is rebuilt. */
function heldBy(code: string, elsewhere: boolean): Refusal {
  if (!isRefusalCode(code)) return refuse('fault');
  return elsewhere && code === 'source_revoked'
    ? refuse(code, { recovery: 'ask_owner' })
    : refuse(code);
}

export interface Released {
  readonly ok: true;
  readonly destination: string;
  readonly payload: Uint8Array;
  readonly contentType: string;
  /** When it counts as reconciling unless it was acknowledged. */
  readonly acknowledgeBy: string;
}

/**
 * Releases a delivery once, after checking again everything that cleared it, and hands out the bytes
 * that were judged. `shown` lists the readers that the platform shows: it can refuse, never permit.
 */
export async function releaseDelivery(
  { sql }: Database,
  organization: string,
  delivery: string,
  clearance: { audienceHash: string; payloadSha256: string },
  shown: readonly string[] | undefined,
  acknowledgeWithinSeconds: number,
): Promise<Released | Refusal> {
  const [row] = await retrying(
    () => sql<
      {
        code: string | null;
        destination: string;
        payload: Uint8Array;
        content_type: string;
        acknowledge_by: string;
      }[]
    >`
      select * from earshot.release_delivery(${organization}, ${delivery},
        decode(${clearance.audienceHash}, 'hex'), decode(${clearance.payloadSha256}, 'hex'),
        ${shown === undefined ? null : sql.array([...shown])}::text[],
        make_interval(secs => ${acknowledgeWithinSeconds}))`,
  );
  if (row === undefined) return refuse('fault');
  if (row.code !== null) return refusalOf(row.code);
  return {
    ok: true,
    destination: row.destination,
    payload: row.payload,
    contentType: row.content_type,
    acknowledgeBy: row.acknowledge_by,
  };
}

/** Records what became of a released delivery, and which message it became. */
export async function acknowledgeDelivery(
  { sql }: Database,
  organization: string,
  delivery: string,
  outcome: 'delivered' | 'failed',
  message: ExternalId | undefined,
): Promise<{ ok: true } | Refusal> {
  const [row] = await retrying(
    () => sql<{ code: string | null }[]>`
      select earshot.acknowledge_delivery(${organization}, ${delivery}, ${outcome}, ${message ?? null}) as code`,
  );
  if (row === undefined) return refuse('fault');
  return row.code === null ? { ok: true } : refusalOf(row.code);
}

const DeliveryRow = z.object({
  id: z.string(),
  status: z.enum(DELIVERY_STATUSES),
  code: z.string().nullable(),
  destination: z.string(),
  elsewhere: z.boolean(),
  payload_sha256: z.string(),
  expires_at: z.string(),
});
export type DeliveryRow = z.infer<typeof DeliveryRow>;

/**
 * A delivery as it stands, without its payload. One that waited too long is held; a release that
 * nobody acknowledged in time is reconciling. One of a persona the caller is not registered for is not found.
 */
export async function findDelivery(
  database: Database,
  organization: ExternalId,
  caller: TurnCaller,
  delivery: string,
): Promise<{ ok: true; delivery: DeliveryRow; refusal?: Refusal } | Refusal> {
  return inOrganization(database, organization, async ({ sql, key }) => {
    const [row] = await sql`
      select d.id, case when d.status = 'cleared' and d.expires_at <= clock_timestamp() then 'delivery_expired'
          else d.code end as code, c.external_id as destination, d.destination_id <> t.destination_id as elsewhere,
        encode(d.payload_sha256, 'hex') as payload_sha256,
        case when d.status = 'cleared' and d.expires_at <= clock_timestamp() then 'held'
          when d.status = 'released' and d.acknowledge_by <= clock_timestamp() then 'reconciling'
          else d.status end as status,
        earshot.rfc3339(d.expires_at) as expires_at
      from earshot.deliveries d
      join earshot.turns t on t.org_id = d.org_id and t.id = d.turn_id
      join earshot.personas a on a.org_id = t.org_id and a.id = t.persona_id
      join earshot.conversations c on c.org_id = d.org_id and c.id = d.destination_id
      where d.org_id = ${key.toString()} and d.id = ${delivery}
        and (a.external_id = any (${[...caller.personas]}::text[]) or '*' = any (${[...caller.personas]}::text[]))`;
    if (row === undefined) return refuse('not_found');
    const found = DeliveryRow.parse(row);
    return {
      ok: true,
      delivery: found,
      ...(found.code !== null && { refusal: heldBy(found.code, found.elsewhere) }),
    };
  });
}
