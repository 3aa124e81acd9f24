import { z } from '@hono/zod-openapi';
import { recoveryBody, REFUSALS, type Refusal } from '../../policy/refusal.ts';
import { DELIVERY_STATUSES, type DeliveryStanding } from '../../sql/deliveries.ts';
import type { AudienceChanges } from '../../sql/grants.ts';
import { Id, Sequence, Text, Time, Uuid } from './scalar-shape.ts';

export const ProposalBody = z
  .strictObject({
    destination: Id,
    payload: z
      .string()
      .min(1)
      .max(500_000)
      .refine((text) => !/\p{Cs}/u.test(text), 'holds a lone surrogate'),
    contentType: z
      .string()
      .max(100)
      .regex(/^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+(; ?charset=utf-8)?$/i, 'is not a media type')
      .default('text/plain'),
    /** Whether workers claim it, instead of whoever has the clearance. */
    queue: z.boolean().default(false),
    /** Not to be sent before. Implies the queue. */
    sendAt: Time.optional(),
    /** Whether a person has to approve it. Implies the queue; the persona's facts may ask for it anyway. */
    approval: z.boolean().default(false),
    /** A delivered delivery of the same destination, whose message this one edits. */
    edits: Uuid.optional(),
  })
  .openapi('Proposal');

const EditedShape = z.object({ delivery: z.string(), message: z.string() });

/** A delivery. A refusal that holds it is told by code and recovery. */
export const DeliveryShape = z
  .object({
    id: z.string(),
    status: z.enum(DELIVERY_STATUSES),
    code: z.string().optional(),
    recovery: z.string().optional(),
    recoveryOwner: z.string().optional(),
    next: z.string().optional(),
    detail: z.string().optional(),
    changes: z.object({ added: z.int(), gone: z.int(), floorsMoved: z.int() }).optional(),
    clearance: z.string().optional(),
    destination: z.string(),
    payloadSha256: z.string(),
    expiresAt: z.string().optional(),
    sendAt: z.string().optional(),
    attempts: z.int().optional(),
    approval: z
      .object({
        by: z.enum(['operator', 'requester', 'owner']).optional(),
        at: z.string().optional(),
      })
      .optional(),
    edits: z.string().optional(),
    reason: z.string().optional(),
    message: z.string().optional(),
    alternatives: z
      .array(z.object({ action: z.literal('reduce_audience'), destination: z.string() }))
      .optional(),
  })
  .openapi('Delivery');
type Body = z.infer<typeof DeliveryShape>;

/** A delivery as it is answered, without a clearance. */
export function deliveryBody(standing: DeliveryStanding, changes?: AudienceChanges): Body {
  const { id, status, refusal, smaller = [], queued: _queued, ...rest } = standing;
  return {
    ...{ id, status },
    ...(refusal !== undefined && refusalBody(refusal)),
    ...(changes !== undefined && { changes }),
    ...rest,
    ...(smaller.length > 0 && {
      alternatives: smaller.map((destination) => ({ action: 'reduce_audience', destination })),
    }),
  };
}

function refusalBody(refusal: Refusal) {
  return {
    code: refusal.code,
    ...recoveryBody(refusal.recovery),
    detail: refusal.detail ?? REFUSALS[refusal.code].sentence,
  };
}

export const ListQuery = z.strictObject({
  organization: Id,
  status: z.enum(DELIVERY_STATUSES).optional(),
  destination: Id.optional(),
  limit: z.coerce
    .string()
    .regex(/^[1-9][0-9]{0,2}$/, 'must be 1 to 100')
    .transform(Number)
    .pipe(z.number().max(100))
    .default(20)
    .openapi({ type: 'integer', minimum: 1, maximum: 100 }),
  cursor: Uuid.optional(),
});

export const DeliveryPage = z
  .object({
    deliveries: z.array(DeliveryShape),
    cursor: z.string().optional(),
    complete: z.boolean(),
  })
  .openapi('DeliveryPage');

export const ClaimBody = z
  .strictObject({
    organization: Id,
    worker: Id,
    destinations: z.array(Id).min(1).max(1000).optional(),
    limit: z.int().min(1).max(100).default(10),
    leaseSeconds: z.int().min(1).max(600).default(30),
  })
  .openapi('Claim');

export const ClaimedShape = z
  .object({
    deliveries: z.array(
      z.object({
        id: z.string(),
        destination: z.string(),
        contentType: z.string(),
        payloadSha256: z.string(),
        fence: z.string(),
        attempt: z.int(),
        clearance: z.string(),
        leaseExpiresAt: z.string(),
        expiresAt: z.string(),
        edits: EditedShape.optional(),
      }),
    ),
  })
  .openapi('Claimed');

export const ReleaseBody = z
  .strictObject({
    organization: Id,
    clearance: z.string().max(4096),
    /** The readers that the platform shows at this moment: it can refuse, never permit. */
    shownReaders: z.array(Id).max(10_000).optional(),
    /** Of the claim, where the delivery is queued. */
    fence: Sequence.optional(),
  })
  .openapi('Release');

export const ReleasedShape = z
  .object({
    destination: z.string(),
    payload: z.string(),
    contentType: z.string(),
    payloadSha256: z.string(),
    acknowledgeBy: z.string(),
    edits: EditedShape.optional(),
  })
  .openapi('Released');

export const AcknowledgeBody = z
  .strictObject({
    organization: Id,
    outcome: z.enum(['delivered', 'failed']),
    /** The id that the message has in its conversation. */
    message: Id.optional(),
    fence: Sequence.optional(),
    /** Why it failed, for whoever looks at it later. */
    reason: Text.min(1).max(500).optional(),
  })
  .refine((body) => body.outcome === 'delivered' || body.message === undefined, {
    path: ['message'],
    error: 'belongs to a delivery that was delivered',
  })
  .refine((body) => body.outcome === 'failed' || body.reason === undefined, {
    path: ['reason'],
    error: 'belongs to a delivery that failed',
  })
  .openapi('Acknowledge');

export const ApproveBody = z
  .strictObject({
    organization: Id,
    payloadSha256: z.string().regex(/^[0-9a-f]{64}$/, 'is not a SHA-256 in hexadecimal'),
  })
  .openapi('Approve');

export const DiscardBody = z.strictObject({ organization: Id }).openapi('Discard');

export const DeliveryParams = z.object({ delivery: Uuid });
