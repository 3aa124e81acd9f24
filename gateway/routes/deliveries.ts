import { createHash, randomUUID } from 'node:crypto';
import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import { sha256Hex } from '../../policy/canonical.ts';
import { formatSeconds } from '../../policy/instant.ts';
import {
  approveDelivery,
  discardDelivery,
  findDelivery,
  listDeliveries,
  proposeDelivery,
} from '../../sql/deliveries.ts';
import { proveCaller, proveCallerOrPerson, proveGrant } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import {
  ApproveBody,
  deliveryBody,
  DeliveryPage,
  DeliveryParams,
  DeliveryShape,
  DiscardBody,
  ListQuery,
  ProposalBody,
} from '../shapes/delivery-shape.ts';
import { Id, IdempotencyHeaders } from '../shapes/scalar-shape.ts';
import { signClearance } from '../tokens/clearance.ts';
import { digestOf } from '../tokens/grant-token.ts';
import { answers, jsonBody, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

const tags = ['deliveries'];

/** Deliveries: proposed by agents under a grant; shown, approved and discarded for people and operators. */
export function deliveryRoutes(gateway: Gateway): OpenAPIHono {
  const { database, keys, config } = gateway;
  const app = newRoutes();

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/deliveries',
      tags,
      request: { headers: IdempotencyHeaders, body: jsonBody(ProposalBody) },
      responses: answers(
        'The verdict: cleared, on its way through the queue, or held with a code and a recovery.',
        DeliveryShape,
      ),
    }),
    async (context) => {
      const claims = await proveGrant(context, gateway);
      if (!claims.ok) return refused(context, claims);
      const { destination, payload, contentType, ...wishes } = context.req.valid('json');
      const bytes = Buffer.from(payload, 'utf8');
      const payloadSha256 = sha256Hex(bytes);
      const { queue, sendAt, approval, edits } = wishes;
      const verdict = await proposeDelivery(database, digestOf(claims.jti), {
        id: randomUUID(),
        destination,
        payload: bytes,
        contentType,
        key: context.req.valid('header')['idempotency-key'],
        requestDigest: createHash('sha256')
          .update(
            JSON.stringify([
              ...[destination, contentType, payloadSha256],
              ...[queue, sendAt?.toString() ?? null, approval, edits ?? null],
            ]),
          )
          .digest(),
        maxAgeSeconds: config.deliverySeconds,
        queueAgeSeconds: config.queueSeconds,
        wishes,
      });
      if (!verdict.ok) return refused(context, verdict);
      if (verdict.status !== 'cleared') {
        return context.json(deliveryBody(verdict.delivery, verdict.changes), 200);
      }
      const clearance = await signClearance(keys, config.issuer, {
        delivery: verdict.id,
        organization: verdict.organization,
        destination,
        audienceHash: verdict.audienceHash,
        payloadSha256,
        expiresAt: verdict.expiresAt,
      });
      const { id, status } = verdict;
      const expiresAt = formatSeconds(verdict.expiresAt);
      const edited = edits !== undefined && { edits };
      return context.json(
        { id, destination, payloadSha256, status, clearance, expiresAt, ...edited },
        200,
      );
    },
  );

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/deliveries',
      tags,
      request: { query: ListQuery },
      responses: answers('Deliveries as they stand, the newest first.', DeliveryPage),
    }),
    async (context) => {
      const { organization, cursor, ...query } = context.req.valid('query');
      const caller = await proveCaller(context, gateway, LOOKING, organization);
      if (!caller.ok) return refused(context, caller);
      const { deliveries, more } = await listDeliveries(database, organization, caller, {
        ...query,
        after: cursor,
      });
      const last = deliveries.at(-1)?.id;
      return context.json(
        {
          deliveries: deliveries.map((delivery) => deliveryBody(delivery)),
          ...(more && last !== undefined && { cursor: last }),
          complete: !more,
        },
        200,
      );
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
      const caller = await proveCaller(context, gateway, LOOKING, organization);
      if (!caller.ok) return refused(context, caller);
      const { delivery } = context.req.valid('param');
      // Which private thread the requester has is not the endpoint's to know.
      const offers = caller.scopes.some((scope) => scope !== 'deliver');
      const found = await findDelivery(database, organization, caller, delivery, { offers });
      return found.ok ? context.json(deliveryBody(found.delivery), 200) : refused(context, found);
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/deliveries/{delivery}/approve',
      tags,
      request: { params: DeliveryParams, body: jsonBody(ApproveBody) },
      responses: answers('Approved and on its way, or held.', DeliveryShape),
    }),
    async (context) => {
      const { organization, payloadSha256 } = context.req.valid('json');
      const asker = await proveCallerOrPerson(context, gateway, ['operator'], organization);
      if (!asker.ok) return refused(context, asker);
      const approver = 'person' in asker ? { person: asker.person } : { operator: asker };
      const { delivery } = context.req.valid('param');
      const approved = await approveDelivery(
        database,
        organization,
        approver,
        delivery,
        payloadSha256,
      );
      return approved.ok
        ? context.json(deliveryBody(approved.delivery, approved.changes), 200)
        : refused(context, approved);
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/deliveries/{delivery}/discard',
      tags,
      request: { params: DeliveryParams, body: jsonBody(DiscardBody) },
      responses: answers('Discarded: its bytes are gone.', DeliveryShape),
    }),
    async (context) => {
      const { organization } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, ['bridge', 'operator'], organization);
      if (!caller.ok) return refused(context, caller);
      const { delivery } = context.req.valid('param');
      const by = caller.scopes.includes('operator') ? 'operator' : 'bridge';
      const discarded = await discardDelivery(database, organization, caller, by, delivery);
      return discarded.ok
        ? context.json(deliveryBody(discarded.delivery), 200)
        : refused(context, discarded);
    },
  );
  return app;
}

/** Who may look at deliveries. */
const LOOKING = ['bridge', 'deliver', 'operator'] as const;
