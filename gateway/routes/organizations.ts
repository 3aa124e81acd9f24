import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import type { ExternalId } from '../../policy/identity.ts';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import { deleteOrganization } from '../../sql/erasure.ts';
import { putOrganization, setGuard } from '../../sql/organization.ts';
import { liftStop, setStop, STOP_KINDS } from '../../sql/stops.ts';
import { proveCaller } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { Id, Sequence, Text } from '../shapes/scalar-shape.ts';
import { answers, jsonBody, refused, WrittenShape } from './answer.ts';
import { newRoutes } from './route-app.ts';

const OrganizationBody = z
  .strictObject({
    status: z.enum(['active', 'suspended']).optional(),
    guard: z.enum(['running', 'paused']).optional(),
    policyRevision: Sequence.optional(),
    textSearch: Text.max(63).optional(),
  })
  .openapi('Organization');

/** Organizations, their execution guard and stop conditions: for operators. */
export function organizationRoutes(gateway: Gateway): OpenAPIHono {
  const { database } = gateway;
  const app = newRoutes();
  const tags = ['organizations'];
  const done = answers('Done.', z.object({ status: z.literal('ok') }));

  async function operate(
    context: Context,
    org: ExternalId,
    work: () => Promise<{ ok: true } | Refusal>,
  ) {
    const caller = await proveCaller(context, gateway, ['operator'], org);
    if (!caller.ok) return refused(context, caller);
    const result = await work();
    return result.ok ? context.json({ status: 'ok' as const }, 200) : refused(context, result);
  }

  app.openapi(
    createRoute({
      method: 'put',
      path: '/v1/organizations/{org}',
      tags,
      request: { params: z.object({ org: Id }), body: jsonBody(OrganizationBody) },
      responses: done,
    }),
    (context) => {
      const { org } = context.req.valid('param');
      return operate(context, org, () => putOrganization(database, org, context.req.valid('json')));
    },
  );
  app.openapi(
    createRoute({
      method: 'delete',
      path: '/v1/organizations/{org}',
      tags,
      request: { params: z.object({ org: Id }), query: z.strictObject({ confirm: Id }) },
      responses: answers('Suspended and empty. Ids, hashes and decisions stay.', WrittenShape),
    }),
    async (context) => {
      const { org } = context.req.valid('param');
      const caller = await proveCaller(context, gateway, ['operator'], org);
      if (!caller.ok) return refused(context, caller);
      // Nobody does it by accident, or by an address with the wrong name in it.
      if (context.req.valid('query').confirm !== org) {
        return refused(context, refuse('invalid_input', { detail: UNCONFIRMED }));
      }
      const result = await deleteOrganization(database, org);
      return result.ok ? context.json({ outcome: result.outcome }, 200) : refused(context, result);
    },
  );
  app.openapi(
    createRoute({
      method: 'put',
      path: '/v1/organizations/{org}/guard',
      tags,
      request: {
        params: z.object({ org: Id }),
        body: jsonBody(z.strictObject({ guard: z.enum(['running', 'paused']) })),
      },
      responses: done,
    }),
    (context) => {
      const { org } = context.req.valid('param');
      return operate(context, org, () => setGuard(database, org, context.req.valid('json').guard));
    },
  );

  const stop = z.object({ org: Id, kind: z.enum(STOP_KINDS), id: Id });
  app.openapi(
    createRoute({
      method: 'put',
      path: '/v1/organizations/{org}/stops/{kind}/{id}',
      tags,
      request: {
        params: stop,
        body: jsonBody(z.strictObject({ reason: Text.max(500).optional() })),
      },
      responses: done,
    }),
    (context) => {
      const { org, kind, id } = context.req.valid('param');
      const { reason } = context.req.valid('json');
      return operate(context, org, () => setStop(database, org, kind, id, reason));
    },
  );
  app.openapi(
    createRoute({
      method: 'delete',
      path: '/v1/organizations/{org}/stops/{kind}/{id}',
      tags,
      request: { params: stop },
      responses: done,
    }),
    (context) => {
      const { org, kind, id } = context.req.valid('param');
      return operate(context, org, () => liftStop(database, org, kind, id));
    },
  );
  return app;
}

const UNCONFIRMED = 'query confirm: has to be the name of the organization';
