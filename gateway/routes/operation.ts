import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import { refuse } from '../../policy/refusal.ts';
import type { Gateway } from '../gateway.ts';
import { JWKS_MAX_AGE_SECONDS } from '../keys.ts';
import { problem, problemResponses } from '../problem.ts';
import { VERSION } from '../version.ts';
import { newRoutes } from './route-app.ts';

const json = <Shape extends z.ZodType>(description: string, schema: Shape) => ({
  200: { description, content: { 'application/json': { schema } } },
  ...problemResponses,
});

const Version = z
  .object({
    name: z.string(),
    version: z.string(),
    grants: z.boolean(),
    offers: z.array(z.string()),
  })
  .openapi('Version');

/** Whether the gateway is there, whether it can work, what it offers, and its public keys. */
export function operationRoutes({ database, keys }: Gateway): OpenAPIHono {
  const app = newRoutes();
  const open = { security: [], tags: ['operation'] };

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1',
      ...open,
      responses: json('The version document.', Version),
    }),
    (context) =>
      context.json(
        {
          name: 'earshot',
          version: VERSION,
          grants: true,
          offers: [
            'facts',
            'turns',
            'grants',
            'tools',
            'sessions',
            'artifacts',
            'deliveries',
            'explain',
          ],
        },
        200,
      ),
  );

  const Status = z.object({ status: z.literal('ok') });
  app.openapi(
    createRoute({
      method: 'get',
      path: '/healthz',
      ...open,
      responses: json('The process answers.', Status),
    }),
    (context) => context.json({ status: 'ok' as const }, 200),
  );
  app.openapi(
    createRoute({
      method: 'get',
      path: '/readyz',
      ...open,
      responses: json('The database answers, and the keys can be read.', Status),
    }),
    async (context) => {
      try {
        await Promise.all([database.sql`select 1`, keys.current()]);
        return context.json({ status: 'ok' as const }, 200);
      } catch {
        return problem(context, refuse('unavailable')) as never;
      }
    },
  );
  app.openapi(
    createRoute({
      method: 'get',
      path: '/.well-known/jwks.json',
      ...open,
      responses: json(
        'The public keys (RFC 7517).',
        z.object({ keys: z.array(z.record(z.string(), z.string())) }),
      ),
    }),
    async (context) => {
      const { jwks } = await keys.current();
      context.header('cache-control', `public, max-age=${JWKS_MAX_AGE_SECONDS.toString()}`);
      return context.json({ keys: jwks.keys }, 200);
    },
  );
  return app;
}
