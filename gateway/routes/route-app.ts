import { OpenAPIHono, z, type RouteConfig } from '@hono/zod-openapi';
import { refuse } from '../../policy/refusal.ts';
import { problem } from '../problem.ts';

/** A route's own app: every input that does not fit its schema is refused before it runs. */
export function newRoutes(): OpenAPIHono {
  const app = new OpenAPIHono({
    defaultHook: (result, context) => {
      if (result.success) return;
      const [issue] = result.error.issues;
      const path = issue?.path.map(String).join('.') ?? '';
      const where = path === '' ? result.target : `${result.target} ${path}`;
      // The message is the schema's own; what was sent is not repeated.
      return problem(
        context,
        refuse('invalid_input', { detail: `${where}: ${issue?.message ?? ''}` }),
      );
    },
  });
  const { openapi } = app;
  // What is asked of a route is in its schemas: one without query parameters refuses any, so none
  // that would name readers or a scope passes for an accepted one (INVARIANT 8).
  const strict = (route: RouteConfig, ...handlers: unknown[]): unknown =>
    Reflect.apply(openapi, app, [
      isOpen(route)
        ? route
        : { ...route, request: { query: z.strictObject({}), ...route.request } },
      ...handlers,
    ]);
  app.openapi = strict as typeof openapi;
  return app;
}

/** Whether a route answers everybody: probes may add parameters of their own. */
function isOpen({ security }: RouteConfig): boolean {
  return security?.length === 0;
}
