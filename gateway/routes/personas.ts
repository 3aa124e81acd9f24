import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import { findPersona } from '../../sql/personas.ts';
import { proveCaller } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { Id } from '../shapes/scalar-shape.ts';
import { answers, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

const Persona = z.object({
  persona: z.string(),
  custody: z.enum(['service', 'user']),
  status: z.enum(['active', 'deactivated']),
  designated: z.boolean(),
  approval: z.enum(['none', 'elsewhere', 'always']),
});

/** What a bridge asks of its persona before it asks for a grant: above all, its custody. */
export function personaRoutes(gateway: Gateway): OpenAPIHono {
  const app = newRoutes();
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/organizations/{org}/personas/{persona}',
      tags: ['turns'],
      request: { params: z.object({ org: Id, persona: Id }) },
      responses: answers('The persona as it stands.', Persona),
    }),
    async (context) => {
      const { org, persona } = context.req.valid('param');
      const caller = await proveCaller(context, gateway, ['bridge', 'operator'], org);
      if (!caller.ok) return refused(context, caller);
      const found = await findPersona(gateway.database, org, caller, persona);
      return found.ok ? context.json({ persona, ...found.persona }, 200) : refused(context, found);
    },
  );
  return app;
}
