import { z } from '@hono/zod-openapi';
import { Id, Uuid } from './scalar-shape.ts';

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
  })
  .openapi('Proposal');

/** A delivery. A refusal that holds it is told by code and recovery. */
export const DeliveryShape = z
  .object({
    id: z.string(),
    status: z.enum([
      'held',
      'cleared',
      'released',
      'reconciling',
      'delivered',
      'failed',
      'discarded',
    ]),
    code: z.string().optional(),
    recovery: z.string().optional(),
    detail: z.string().optional(),
    changes: z.object({ added: z.int(), gone: z.int(), floorsMoved: z.int() }).optional(),
    clearance: z.string().optional(),
    destination: z.string(),
    payloadSha256: z.string(),
    expiresAt: z.string().optional(),
  })
  .openapi('Delivery');

export const ReleaseBody = z
  .strictObject({
    organization: Id,
    clearance: z.string().max(4096),
    /** The readers that the platform shows at this moment: it can refuse, never permit. */
    shownReaders: z.array(Id).max(10_000).optional(),
  })
  .openapi('Release');

export const ReleasedShape = z
  .object({
    destination: z.string(),
    payload: z.string(),
    contentType: z.string(),
    payloadSha256: z.string(),
    acknowledgeBy: z.string(),
  })
  .openapi('Released');

export const AcknowledgeBody = z
  .strictObject({
    organization: Id,
    outcome: z.enum(['delivered', 'failed']),
    /** The id that the message has in its conversation. */
    message: Id.optional(),
  })
  .refine((body) => body.outcome === 'delivered' || body.message === undefined, {
    path: ['message'],
    error: 'belongs to a delivery that was delivered',
  })
  .openapi('Acknowledge');

export const DeliveryParams = z.object({ delivery: Uuid });
