import { createHash, randomUUID } from 'node:crypto';
import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import { sha256Hex } from '../../policy/canonical.ts';
import { formatSeconds } from '../../policy/instant.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { refuse, REFUSALS, type Refusal } from '../../policy/refusal.ts';
import {
  acknowledgeDelivery,
  findDelivery,
  proposeDelivery,
  releaseDelivery,
} from '../../sql/deliveries.ts';
import { proveCaller, proveGrant, type Caller } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import {
  AcknowledgeBody,
  DeliveryParams,
  DeliveryShape,
  ProposalBody,
  ReleaseBody,
  ReleasedShape,
} from '../shapes/delivery-shape.ts';
import { Id, IdempotencyHeaders } from '../shapes/scalar-shape.ts';
import { signClearance, verifyClearance } from '../tokens/clearance.ts';
import { digestOf } from '../tokens/grant-token.ts';
import { answers, jsonBody, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

/** Deliveries: proposed by agents under a grant, released and acknowledged by delivery endpoints. */
export function deliveryRoutes(gateway: Gateway): OpenAPIHono {
  const { database, keys, config } = gateway;
  const app = newRoutes();
  const tags = ['deliveries'];

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/deliveries',
      tags,
      request: { headers: IdempotencyHeaders, body: jsonBody(ProposalBody) },
      responses: answers(
        'The verdict: cleared, or held with a code and a recovery.',
        DeliveryShape,
      ),
    }),
    async (context) => {
      const claims = await proveGrant(context, gateway);
      if (!claims.ok) return refused(context, claims);
      const { destination, payload, contentType } = context.req.valid('json');
      const bytes = Buffer.from(payload, 'utf8');
      const payloadSha256 = sha256Hex(bytes);
      const verdict = await proposeDelivery(database, digestOf(claims.jti), {
        id: randomUUID(),
        destination,
        payload: bytes,
        contentType,
        key: context.req.valid('header')['idempotency-key'],
        requestDigest: createHash('sha256')
          .update(JSON.stringify([destination, contentType, payloadSha256]))
          .digest(),
        maxAgeSeconds: config.deliverySeconds,
      });
      if (!verdict.ok) return refused(context, verdict);
      const shared = { id: verdict.id, destination, payloadSha256 };
      if (verdict.status !== 'cleared') {
        return context.json(
          {
            ...shared,
            status: verdict.status,
            ...(verdict.refusal !== undefined && refusalBody(verdict.refusal)),
            ...(verdict.changes !== undefined && { changes: verdict.changes }),
          },
          200,
        );
      }
      const clearance = await signClearance(keys, config.issuer, {
        delivery: verdict.id,
        organization: verdict.organization,
        destination,
        audienceHash: verdict.audienceHash,
        payloadSha256,
        expiresAt: verdict.expiresAt,
      });
      const expiresAt = formatSeconds(verdict.expiresAt);
      return context.json({ ...shared, status: verdict.status, clearance, expiresAt }, 200);
    },
  );

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/deliveries/{delivery}',
      tags,
      request: { params: DeliveryParams, query: z.strictObject({ organization: Id }) },
      responses: answers('The delivery as it stands, without its payload.', DeliveryShape),
    }),
    async (context) => {
      const { organization } = context.req.valid('query');
      const caller = await proveCaller(
        context,
        gateway,
        ['bridge', 'deliver', 'operator'],
        organization,
      );
      if (!caller.ok) return refused(context, caller);
      const { delivery: id } = context.req.valid('param');
      const found = await findDelivery(database, organization, caller, id);
      if (!found.ok) return refused(context, found);
      const { delivery } = found;
      return context.json(
        {
          id: delivery.id,
          status: delivery.status,
          ...(found.refusal !== undefined && refusalBody(found.refusal)),
          destination: delivery.destination,
          payloadSha256: delivery.payload_sha256,
          expiresAt: delivery.expires_at,
        },
        200,
      );
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
      const { organization, clearance: token, shownReaders } = context.req.valid('json');
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
      );
      if (!released.ok) return refused(context, released);
      const { payload, ...rest } = released;
      return context.json(
        {
          destination: rest.destination,
          payload: Buffer.from(payload).toString('utf8'),
          contentType: rest.contentType,
          payloadSha256: sha256Hex(payload),
          acknowledgeBy: rest.acknowledgeBy,
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
      const { organization, outcome, message } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, ['deliver'], organization);
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

function refusalBody(refusal: Refusal) {
  return {
    code: refusal.code,
    recovery: refusal.recovery,
    detail: refusal.detail ?? REFUSALS[refusal.code].sentence,
  };
}
