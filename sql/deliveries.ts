import { z } from 'zod';
import type { ExternalId } from '../policy/identity.ts';
import { formatInstant, type Instant } from '../policy/instant.ts';
import { isRefusalCode, refuse, type Refusal } from '../policy/refusal.ts';
import { refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import { retrying } from './faults.ts';
import { changesOf, type AudienceChanges } from './grants.ts';
import type { TurnCaller } from './turns.ts';

export const DELIVERY_STATUSES = [
  'held',
  'waiting',
  'scheduled',
  'cleared',
  'claimed',
  'released',
  'reconciling',
  'delivered',
  'failed',
  'dead',
  'discarded',
] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

const StateRow = z.object({
  id: z.string(),
  status: z.enum(DELIVERY_STATUSES),
  code: z.string().optional(),
  destination: z.string(),
  elsewhere: z.boolean(),
  payloadSha256: z.string(),
  queued: z.boolean(),
  expiresAt: z.string(),
  sendAt: z.string().optional(),
  attempts: z.number().optional(),
  approval: z
    .object({
      by: z.enum(['operator', 'requester', 'owner']).optional(),
      at: z.string().optional(),
    })
    .optional(),
  edits: z.string().optional(),
  reason: z.string().optional(),
  message: z.string().optional(),
  smaller: z.array(z.string()).optional(),
});

/** A delivery as it stands, without its payload. */
export type DeliveryStanding = Omit<z.infer<typeof StateRow>, 'code' | 'elsewhere'> & {
  /** What holds it. */
  readonly refusal?: Refusal;
};

/** How a delivery stands, as the database tells it. */
function standingOf(state: unknown): DeliveryStanding {
  const { code, elsewhere, ...standing } = StateRow.parse(state);
  return { ...standing, ...(code !== undefined && { refusal: heldBy(code, elsewhere) }) };
}

/** A text whose sources another place may not have is its owner's to release; here it is rebuilt. */
function heldBy(code: string, elsewhere: boolean): Refusal {
  if (!isRefusalCode(code)) return refuse('fault');
  return elsewhere && code === 'source_revoked'
    ? refuse(code, { recovery: 'ask_owner' })
    : refuse(code);
}

export interface Proposal {
  readonly id: string;
  readonly destination: string;
  readonly payload: Uint8Array;
  readonly contentType: string;
  readonly key: string;
  readonly requestDigest: Uint8Array;
  /** How long it may wait for its release; where it is queued, `queueAgeSeconds` if that is given. */
  readonly maxAgeSeconds: number;
  readonly queueAgeSeconds?: number;
  readonly wishes?: ProposalWishes;
}

/** How a delivery is to go. Whatever is not wished for may still be asked of it by the persona's facts. */
export interface ProposalWishes {
  readonly queue: boolean;
  readonly sendAt?: Instant | undefined;
  readonly approval: boolean;
  /** The delivery whose message this one edits. */
  readonly edits?: string | undefined;
}

/** The verdict on a proposal: cleared for one audience until a moment, or how it stands without a clearance. */
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
      /** Held, settled before, or queued: then a worker's claim brings the clearance. */
      readonly status: 'standing';
      readonly id: string;
      readonly delivery: DeliveryStanding;
      readonly changes?: AudienceChanges;
    };

/**
 * Judges a payload and records the verdict, under the lock protocol of `0009_create_deliveries.sql`.
 *
 * A refusal as the result means that nothing was stored: the grant is not live for this caller, the
 * destination or the delivery to edit is not there for the requester, or it would be sent later than it may wait. A held
 * delivery is a result.
 */
export async function proposeDelivery(
  { sql }: Database,
  digest: Uint8Array,
  proposal: Proposal,
): Promise<ProposalVerdict | Refusal> {
  const { maxAgeSeconds, queueAgeSeconds = maxAgeSeconds, wishes } = proposal;
  const stated = {
    ...wishes,
    ...(wishes?.sendAt !== undefined && { sendAt: formatInstant(wishes.sendAt) }),
  };
  const [row] = await retrying(
    () => sql<
      {
        code: string | null;
        state: unknown;
        organization: string;
        audience_hash: string;
        expires_at: string;
        changes: unknown;
      }[]
    >`
      select * from earshot.propose_delivery(${Buffer.from(digest)}, ${proposal.id}, ${proposal.destination},
        ${Buffer.from(proposal.payload)}, ${proposal.contentType}, ${proposal.key},
        ${Buffer.from(proposal.requestDigest)}, make_interval(secs => ${maxAgeSeconds}),
        make_interval(secs => ${queueAgeSeconds}), ${JSON.stringify(stated)}::text::jsonb)`,
  );
  if (row === undefined) return refuse('fault');
  if (row.state === null) return refusalOf(row.code ?? 'fault');
  const delivery = standingOf(row.state);
  const { id, status, queued } = delivery;
  if (status !== 'cleared' || queued) {
    return { ok: true, status: 'standing', id, delivery, ...changesOf(row.changes) };
  }
  return {
    ...{ ok: true, status, id, organization: row.organization },
    ...{ audienceHash: row.audience_hash, expiresAt: Number(row.expires_at) },
  };
}

/** The delivery that another one edits, and the message that it became. */
export const EditedMessage = z.object({ delivery: z.string(), message: z.string() });
export type EditedMessage = z.infer<typeof EditedMessage>;

export interface Released {
  readonly ok: true;
  readonly destination: string;
  readonly payload: Uint8Array;
  readonly contentType: string;
  /** When it counts as reconciling unless it was acknowledged. */
  readonly acknowledgeBy: string;
  readonly edits?: EditedMessage;
}

/**
 * Releases a delivery once, after checking again everything that cleared it, and hands out the bytes
 * that were judged. `shown` lists the readers that the platform shows: it can refuse, never permit. A queued
 * delivery takes the `fence` of a claim that holds, and no other takes one: else it is `fenced`, and nothing changes.
 */
export async function releaseDelivery(
  { sql }: Database,
  organization: string,
  delivery: string,
  clearance: { audienceHash: string; payloadSha256: string },
  shown: readonly string[] | undefined,
  acknowledgeWithinSeconds: number,
  fence?: bigint,
): Promise<Released | Refusal> {
  const [row] = await retrying(
    () => sql<
      {
        code: string | null;
        destination: string;
        payload: Uint8Array;
        content_type: string;
        acknowledge_by: string;
        edits: unknown;
      }[]
    >`
      select * from earshot.release_delivery(${organization}, ${delivery},
        decode(${clearance.audienceHash}, 'hex'), decode(${clearance.payloadSha256}, 'hex'),
        ${shown === undefined ? null : sql.array([...shown])}::text[],
        make_interval(secs => ${acknowledgeWithinSeconds}), ${fence?.toString() ?? null})`,
  );
  if (row === undefined) return refuse('fault');
  if (row.code !== null) return refusalOf(row.code);
  return {
    ok: true,
    destination: row.destination,
    payload: row.payload,
    contentType: row.content_type,
    acknowledgeBy: row.acknowledge_by,
    ...(row.edits !== null && { edits: EditedMessage.parse(row.edits) }),
  };
}

export interface Report {
  /** Of the claim that was released, where the delivery is queued. */
  readonly fence?: bigint | undefined;
  /** Why it failed. Kept with the delivery, and shown. */
  readonly reason?: string | undefined;
  /** An operator may settle what nobody reported in time, and nothing else. The endpoint unless given. */
  readonly by?: 'endpoint' | 'operator';
  /** After how many a queued delivery that keeps failing is dead. */
  readonly attempts?: number;
}

/**
 * Records what became of a released delivery, and which message it became. A queued one that failed is scheduled for its
 * next try, or dead. The same report again changes nothing; another is a conflict, one of a lost claim `fenced`.
 */
export async function acknowledgeDelivery(
  { sql }: Database,
  organization: string,
  delivery: string,
  outcome: 'delivered' | 'failed',
  message: ExternalId | undefined,
  { fence, reason, by = 'endpoint', attempts = 5 }: Report = {},
): Promise<{ ok: true } | Refusal> {
  const [row] = await retrying(
    () => sql<{ code: string | null }[]>`
      select earshot.acknowledge_delivery(${organization}, ${delivery}, ${outcome}, ${message ?? null},
        ${fence?.toString() ?? null}, ${reason ?? null}, ${by}, ${attempts}) as code`,
  );
  if (row === undefined) return refuse('fault');
  return row.code === null ? { ok: true } : refusalOf(row.code);
}

type Standing = {
  readonly ok: true;
  readonly delivery: DeliveryStanding;
  readonly changes?: AudienceChanges;
};

/**
 * A delivery as it stands. With `offers`, and held because a source is not readable by all, with where it could go
 * instead. One of a persona the caller is not registered for is not found.
 */
export async function findDelivery(
  { sql }: Database,
  organization: string,
  caller: Pick<TurnCaller, 'personas'>,
  delivery: string,
  { offers = false } = {},
): Promise<Standing | Refusal> {
  const [row] = await sql<{ state: unknown }[]>`
    select earshot.show_delivery(${organization}, ${sql.array([...caller.personas])}::text[], ${delivery}, ${offers}) as state`;
  return row?.state == null ? refuse('not_found') : { ok: true, delivery: standingOf(row.state) };
}

export interface ListQuery {
  readonly status?: DeliveryStatus | undefined;
  readonly destination?: string | undefined;
  readonly limit: number;
  /** The last delivery of the page before. */
  readonly after?: string | undefined;
}

/** Deliveries of the personas that the caller is registered for, the newest first, and whether there are more. */
export async function listDeliveries(
  { sql }: Database,
  organization: string,
  caller: Pick<TurnCaller, 'personas'>,
  { status, destination, limit, after }: ListQuery,
): Promise<{ readonly deliveries: readonly DeliveryStanding[]; readonly more: boolean }> {
  const rows = await sql<{ state: unknown }[]>`
    select state from earshot.list_deliveries(${organization}, ${sql.array([...caller.personas])}::text[],
      ${status ?? null}, ${destination ?? null}, ${limit + 1}, ${after ?? null}) state`;
  return {
    deliveries: rows.slice(0, limit).map(({ state }) => standingOf(state)),
    more: rows.length > limit,
  };
}

/** Who approves: an operator, or a person, who has to be the turn's requester or the destination's owner and read it now. */
export type Approver = { readonly operator: TurnCaller } | { readonly person: string };

/**
 * Approves a delivery that waits for it, judging it as a release is judged. It goes on, or is held, which is a result. The
 * hash names what was seen: of other bytes it is a `payload_mismatch`.
 */
export async function approveDelivery(
  { sql }: Database,
  organization: string,
  approver: Approver,
  delivery: string,
  payloadSha256: string,
): Promise<Standing | Refusal> {
  const isPerson = 'person' in approver;
  const personas = isPerson ? ['*'] : [...approver.operator.personas];
  const [row] = await retrying(
    () => sql<{ code: string | null; state: unknown; changes: unknown }[]>`
      select * from earshot.approve_delivery(${organization}, ${sql.array(personas)}::text[], ${delivery},
        decode(${payloadSha256}, 'hex'), ${isPerson ? approver.person : approver.operator.client}, ${isPerson})`,
  );
  if (row?.state == null) return refusalOf(row?.code ?? 'fault');
  return { ok: true, delivery: standingOf(row.state), ...changesOf(row.changes) };
}

/** Discards a delivery that has not left, held ones included; its bytes go. One that was released is a conflict. */
export async function discardDelivery(
  { sql }: Database,
  organization: string,
  caller: TurnCaller,
  by: 'bridge' | 'operator',
  delivery: string,
): Promise<Standing | Refusal> {
  const [row] = await retrying(
    () => sql<{ code: string | null; state: unknown }[]>`
      select * from earshot.discard_delivery(${organization}, ${sql.array([...caller.personas])}::text[], ${delivery}, ${by})`,
  );
  if (row?.state == null) return refusalOf(row?.code ?? 'fault');
  return { ok: true, delivery: standingOf(row.state) };
}
