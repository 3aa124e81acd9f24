import { randomUUID } from 'node:crypto';
import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import { formatSeconds } from '../../policy/instant.ts';
import { sessionOf } from '../../sessions/session.ts';
import { introspectGrant, mintGrant, revokeGrant } from '../../sql/grants.ts';
import { proveCaller } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { LeaseShape } from '../shapes/lease-shape.ts';
import { Id, Seconds, Text, Uuid } from '../shapes/scalar-shape.ts';
import {
  digestOf,
  GRANT_AUDIENCE,
  newTokenId,
  signGrant,
  verifyGrant,
} from '../tokens/grant-token.ts';
import { answers, jsonBody, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

const Grant = z
  .object({
    grantId: z.string(),
    token: z.string(),
    turnId: z.string(),
    leaseOwner: z.string(),
    leaseFence: z.string(),
    audienceHash: z.string(),
    mode: z.string(),
    projectBound: z.string().optional(),
    destination: z.string(),
    tools: z.array(z.string()),
    sessionId: z.string(),
    threadKey: z.string(),
    salt: z.string(),
    sessionEpoch: z.string(),
    policyRevision: z.string(),
    readers: z.object({ people: z.int(), classes: z.int() }),
    conversations: z.int(),
    expiresAt: z.string(),
  })
  .openapi('Grant');

/** What a bridge or an operator is told of a token (RFC 7662). Nothing but `active` of one that is not live. */
const Introspection = z
  .object({
    active: z.boolean(),
    token_type: z.literal('Bearer').optional(),
    iss: z.string().optional(),
    aud: z.string().optional(),
    sub: z.string().optional(),
    act: z.object({ sub: z.string() }).optional(),
    scope: z.string().optional().openapi({ description: 'The tools, with spaces between.' }),
    org: z.string().optional(),
    dest: z.string().optional(),
    turn: z.string().optional(),
    grant: z.string().optional(),
    session: z.string().optional(),
    fence: z.string().optional(),
    ah: z.string().optional(),
    mode: z.string().optional(),
    project_bound: z.string().optional(),
    policy_revision: z.string().optional(),
    iat: z.int().optional(),
    nbf: z.int().optional(),
    exp: z.int().optional(),
  })
  .openapi('Introspection');

/** Grants: minted by the worker that holds a turn, looked at and revoked by bridges and operators. */
export function grantRoutes(gateway: Gateway): OpenAPIHono {
  const { database, keys, config } = gateway;
  const app = newRoutes();
  const tags = ['grants'];

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/turns/{turn}/grants',
      tags,
      request: {
        params: z.object({ turn: Uuid }),
        body: jsonBody(
          z.strictObject({
            organization: Id,
            lease: LeaseShape,
            seconds: Seconds.max(config.grantSeconds).default(config.grantSeconds),
          }),
        ),
      },
      responses: answers('The grant. Its token is shown here and never again.', Grant),
    }),
    async (context) => {
      const { organization, lease, seconds } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, ['bridge'], organization);
      if (!caller.ok) return refused(context, caller);
      const { jti, digest } = newTokenId();
      const grant = { id: randomUUID(), digest, lifetimeSeconds: seconds };
      const { turn } = context.req.valid('param');
      const minted = await mintGrant(database, organization, caller, turn, lease, grant);
      if (!minted.ok) return refused(context, minted);
      const { packet } = minted;
      const sessionId = sessionOf(packet);
      const token = await signGrant(keys, config.issuer, packet, jti);
      return context.json(
        {
          grantId: packet.grantId,
          token,
          turnId: packet.turnId,
          leaseOwner: packet.leaseOwner,
          leaseFence: packet.leaseFence.toString(),
          audienceHash: packet.audienceHash,
          mode: packet.mode,
          ...(packet.projectBound !== undefined && { projectBound: packet.projectBound }),
          destination: packet.destination,
          tools: packet.tools,
          sessionId,
          threadKey: packet.threadKey,
          salt: packet.salt,
          sessionEpoch: packet.sessionEpoch.toString(),
          policyRevision: packet.policyRevision.toString(),
          readers: packet.readers,
          conversations: packet.conversations,
          expiresAt: formatSeconds(packet.expiresAt),
        },
        200,
      );
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/grants/introspect',
      tags,
      request: {
        body: {
          required: true,
          content: {
            'application/x-www-form-urlencoded': {
              schema: z.strictObject({
                token: Text.min(1),
                token_type_hint: Text.max(100).optional(),
              }),
            },
          },
        },
      },
      responses: answers('Whether the grant is live now, and what it is bound to.', Introspection),
    }),
    async (context) => {
      const caller = await proveCaller(context, gateway, ['bridge', 'operator']);
      if (!caller.ok) return refused(context, caller);
      const claims = await verifyGrant(keys, config.issuer, context.req.valid('form').token, {
        clockToleranceSeconds: config.clockToleranceSeconds,
        maxLifetimeSeconds: config.grantSeconds,
      });
      // One answer for all that is not live or not theirs: which of the reasons it is stays here.
      const found = claims.ok
        ? await introspectGrant(database, caller, digestOf(claims.jti))
        : undefined;
      if (found === undefined) return context.json({ active: false }, 200);
      return context.json(
        {
          active: true,
          token_type: 'Bearer' as const,
          iss: config.issuer,
          aud: GRANT_AUDIENCE,
          sub: found.requester,
          act: { sub: found.persona },
          scope: found.tools.join(' '),
          org: found.organization,
          dest: found.destination,
          turn: found.turn,
          grant: found.grant,
          session: found.session,
          fence: found.fence,
          ah: found.audienceHash,
          mode: found.mode,
          ...(found.projectBound !== undefined && { project_bound: found.projectBound }),
          policy_revision: found.policyRevision,
          iat: found.issuedAt,
          nbf: found.issuedAt,
          exp: found.expiresAt,
        },
        200,
      );
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/grants/{grant}/revoke',
      tags,
      request: {
        params: z.object({ grant: Uuid }),
        body: jsonBody(z.strictObject({ organization: Id })),
      },
      responses: answers('The grant is revoked.', z.object({ status: z.literal('ok') })),
    }),
    async (context) => {
      const { organization } = context.req.valid('json');
      const caller = await proveCaller(context, gateway, ['bridge', 'operator'], organization);
      if (!caller.ok) return refused(context, caller);
      const { grant } = context.req.valid('param');
      const revoked = await revokeGrant(database, organization, caller, grant);
      return revoked.ok ? context.json({ status: 'ok' as const }, 200) : refused(context, revoked);
    },
  );
  return app;
}
