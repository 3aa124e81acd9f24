import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import { sha256Hex } from '../../policy/canonical.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import { acknowledgeDelivery, findDelivery, releaseDelivery } from '../../sql/deliveries.ts';
import { claimDeliveries } from '../../sql/delivery-claims.ts';
import { proveCaller, type Caller } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import {
  AcknowledgeBody,
  ClaimBody,
  ClaimedShape,
  DeliveryParams,
  ReleaseBody,
  ReleasedShape,
} from '../shapes/delivery-shape.ts';
import { signClearance, verifyClearance } from '../tokens/clearance.ts';
import { answers, jsonBody, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

const tags = ['deliveries'];

/** What a delivery endpoint does: claims what is queued, releases what it is about to send, reports what became of it. */
export function deliveryEndpointRoutes(gateway: Gateway): OpenAPIHono {
  const { database, keys, config } = gateway;
  const app = newRoutes();

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/deliveries/claim',
      tags,
      request: { body: jsonBody(ClaimBody) },
      responses: answers('What is due, each with a fence and a clearance.', ClaimedShape),
    }),
    async (context) => {
      const { organization, ...request } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, ['deliver'], organization);
      if (!caller.ok) return refused(context, caller);
      const claimed = await claimDeliveries(database, organization, caller, {
        ...request,
        attempts: config.deliveryAttempts,
      });
      const deliveries = await Promise.all(
        claimed.map(async ({ audienceHash, clearanceEnds, ...delivery }) => ({
          ...delivery,
          clearance: await signClearance(keys, config.issuer, {
            delivery: delivery.id,
            organization,
            destination: delivery.destination,
            audienceHash,
            payloadSha256: delivery.payloadSha256,
            expiresAt: clearanceEnds,
          }),
        })),
      );
      return context.json({ deliveries }, 200);
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/deliveries/{delivery}/release',
      tags,
      request: { params: DeliveryParams, body: jsonBody(ReleaseBody) },
      responses: answers('The bytes that were judged, once.', ReleasedShape),
    }),
    async (context) => {
      const { organization, clearance: token, shownReaders, fence } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, ['deliver'], organization);
      if (!caller.ok) return refused(context, caller);
      const { delivery } = context.req.valid('param');
      const unserved = await judgeServed(gateway, organization, caller, delivery);
      if (unserved !== undefined) return refused(context, unserved);
      const clearance = await verifyClearance(
        keys,
        config.issuer,
        token,
        config.clockToleranceSeconds,
      );
      if (!clearance.ok) return refused(context, clearance);
      if (clearance.delivery !== delivery || clearance.organization !== organization) {
        return refused(context, refuse('not_found'));
      }
      const released = await releaseDelivery(
        database,
        organization,
        delivery,
        clearance,
        shownReaders,
        config.acknowledgeSeconds,
        fence,
      );
      if (!released.ok) return refused(context, released);
      const { payload, ok: _ok, ...rest } = released;
      return context.json(
        {
          destination: rest.destination,
          payload: Buffer.from(payload).toString('utf8'),
          contentType: rest.contentType,
          payloadSha256: sha256Hex(payload),
          acknowledgeBy: rest.acknowledgeBy,
          ...(rest.edits !== undefined && { edits: rest.edits }),
        },
        200,
      );
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/deliveries/{delivery}/acknowledge',
      tags,
      request: { params: DeliveryParams, body: jsonBody(AcknowledgeBody) },
      responses: answers('Recorded.', z.object({ status: z.literal('ok') })),
    }),
    async (context) => {
      const { organization, outcome, message, fence, reason } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, ['deliver', 'operator'], organization);
      if (!caller.ok) return refused(context, caller);
      const { delivery } = context.req.valid('param');
      const unserved = await judgeServed(gateway, organization, caller, delivery);
      if (unserved !== undefined) return refused(context, unserved);
      const recorded = await acknowledgeDelivery(
        database,
        organization,
        delivery,
        outcome,
        message,
        {
          ...{ fence, reason, attempts: config.deliveryAttempts },
          by: caller.scopes.includes('deliver') ? 'endpoint' : 'operator',
        },
      );
      return recorded.ok
        ? context.json({ status: 'ok' as const }, 200)
        : refused(context, recorded);
    },
  );
  return app;
}

/**
 * Why a delivery is not this caller's to move, or undefined. The persona of a delivery never changes,
 * so asking ahead is enough; a caller registered for every persona is not asked.
 */
async function judgeServed(
  { database }: Gateway,
  organization: ExternalId,
  caller: Caller,
  delivery: string,
): Promise<Refusal | undefined> {
  if (caller.personas.includes('*')) return undefined;
  const found = await findDelivery(database, organization, caller, delivery);
  return found.ok ? undefined : found;
}
