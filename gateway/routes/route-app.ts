import { OpenAPIHono } from '@hono/zod-openapi';
import { refuse } from '../../policy/refusal.ts';
import { problem } from '../problem.ts';

/** A route's own app: every input that does not fit its schema is refused before it runs. */
export function newRoutes(): OpenAPIHono {
  return new OpenAPIHono({
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
}
