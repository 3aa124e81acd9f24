import { createHash, randomUUID } from 'node:crypto';
import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import { TOOLS } from '../../sql/tools.ts';
import { endTurn, extendLease, findTurn, openTurn, stopTurn, takeLease } from '../../sql/turns.ts';
import { proveCaller } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { LeaseShape } from '../shapes/lease-shape.ts';
import { Id, IdempotencyHeaders, Seconds, Sequence, Text, Uuid } from '../shapes/scalar-shape.ts';
import { answers, jsonBody, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

const TurnBody = z
  .strictObject({
    organization: Id,
    persona: Id,
    destination: Id,
    requester: Id,
    trigger: z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('thread'), seq: Sequence }),
      z.strictObject({ kind: z.literal('mention'), seq: Sequence }),
      z.strictObject({ kind: z.literal('schedule') }),
    ]),
    tools: z
      .array(z.enum(TOOLS))
      .max(TOOLS.length)
      .default([...TOOLS]),
    threadKey: Id.optional(),
  })
  .openapi('OpenTurn');

const Turn = z
  .object({
    turnId: z.string(),
    persona: z.string(),
    destination: z.string(),
    requester: z.string(),
    trigger: z.string(),
    triggerSeq: z.string().optional(),
    tools: z.array(z.string()),
    state: z.string(),
    leaseOwner: z.string().optional(),
    leaseFence: z.string(),
    expiresAt: z.string(),
  })
  .openapi('Turn');

/** Turns and their leases: for bridges. */
export function turnRoutes(gateway: Gateway): OpenAPIHono {
  const { database, config } = gateway;
  const app = newRoutes();
  const tags = ['turns'];
  const params = z.object({ turn: Uuid });
  const bridge = ['bridge'] as const;

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/turns',
      tags,
      request: { headers: IdempotencyHeaders, body: jsonBody(TurnBody) },
      responses: answers('The turn is open.', z.object({ turnId: z.string() })),
    }),
    async (context) => {
      const { trigger, threadKey, ...body } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, bridge, body.organization);
      if (!caller.ok) return refused(context, caller);
      const request = {
        persona: body.persona,
        destination: body.destination,
        requester: body.requester,
        trigger: trigger.kind,
        ...(trigger.kind !== 'schedule' && { triggerSeq: trigger.seq }),
        tools: [...new Set(body.tools)].sort(),
        ...(threadKey !== undefined && { threadKey }),
      };
      const digest = createHash('sha256')
        .update(
          JSON.stringify(request, (_key, value: unknown) =>
            typeof value === 'bigint' ? value.toString() : value,
          ),
        )
        .digest();
      const key = context.req.valid('header')['idempotency-key'];
      const opened = await openTurn(
        database,
        body.organization,
        caller,
        { key, digest },
        randomUUID(),
        request,
        config.turnSeconds,
      );
      return opened.ok ? context.json({ turnId: opened.turn }, 200) : refused(context, opened);
    },
  );

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/turns/{turn}',
      tags,
      request: { params, query: z.strictObject({ organization: Id }) },
      responses: answers('The turn as it stands.', Turn),
    }),
    async (context) => {
      const { organization } = context.req.valid('query');
      const caller = await proveCaller(context, gateway, ['bridge', 'operator'], organization);
      if (!caller.ok) return refused(context, caller);
      const found = await findTurn(database, organization, caller, context.req.valid('param').turn);
      if (!found.ok) return refused(context, found);
      const { turn } = found;
      return context.json(
        {
          turnId: turn.id,
          persona: turn.persona,
          destination: turn.destination,
          requester: turn.requester,
          trigger: turn.trigger,
          ...(turn.trigger_seq !== null && { triggerSeq: turn.trigger_seq }),
          tools: turn.tools,
          state: turn.state,
          ...(turn.lease_owner !== null && { leaseOwner: turn.lease_owner }),
          leaseFence: turn.lease_fence,
          expiresAt: turn.expires_at,
        },
        200,
      );
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/turns/{turn}/lease',
      tags,
      request: {
        params,
        body: jsonBody(
          z.strictObject({
            organization: Id,
            owner: Text.min(1).max(200),
            seconds: Seconds.max(config.leaseSeconds).default(config.leaseSeconds),
          }),
        ),
      },
      responses: answers(
        'The lease is taken.',
        z.object({
          leaseId: z.string(),
          owner: z.string(),
          fence: z.string(),
          expiresAt: z.string(),
        }),
      ),
    }),
    async (context) => {
      const { organization, owner, seconds } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, bridge, organization);
      if (!caller.ok) return refused(context, caller);
      const { turn } = context.req.valid('param');
      const taken = await takeLease(database, organization, caller, turn, owner, seconds);
      if (!taken.ok) return refused(context, taken);
      const { lease, expiresAt } = taken;
      return context.json({ ...lease, fence: lease.fence.toString(), expiresAt }, 200);
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/turns/{turn}/heartbeat',
      tags,
      request: {
        params,
        body: jsonBody(
          z.strictObject({
            organization: Id,
            lease: LeaseShape,
            seconds: Seconds.max(config.leaseSeconds).default(config.leaseSeconds),
          }),
        ),
      },
      responses: answers('The lease is extended.', z.object({ expiresAt: z.string() })),
    }),
    async (context) => {
      const { organization, lease, seconds } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, bridge, organization);
      if (!caller.ok) return refused(context, caller);
      const { turn } = context.req.valid('param');
      const extended = await extendLease(database, organization, caller, turn, lease, seconds);
      return extended.ok
        ? context.json({ expiresAt: extended.expiresAt }, 200)
        : refused(context, extended);
    },
  );

  const done = answers('Done.', z.object({ status: z.literal('ok') }));
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/turns/{turn}/complete',
      tags,
      request: {
        params,
        body: jsonBody(
          z.strictObject({
            organization: Id,
            lease: LeaseShape,
            outcome: z.enum(['completed', 'failed']).default('completed'),
          }),
        ),
      },
      responses: done,
    }),
    async (context) => {
      const { organization, lease, outcome } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, bridge, organization);
      if (!caller.ok) return refused(context, caller);
      const { turn } = context.req.valid('param');
      const ended = await endTurn(database, organization, caller, turn, lease, outcome);
      return ended.ok ? context.json({ status: 'ok' as const }, 200) : refused(context, ended);
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/turns/{turn}/stop',
      tags,
      request: { params, body: jsonBody(z.strictObject({ organization: Id })) },
      responses: done,
    }),
    async (context) => {
      const { organization } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, ['bridge', 'operator'], organization);
      if (!caller.ok) return refused(context, caller);
      const stopped = await stopTurn(
        database,
        organization,
        caller,
        context.req.valid('param').turn,
      );
      return stopped.ok ? context.json({ status: 'ok' as const }, 200) : refused(context, stopped);
    },
  );
  return app;
}
