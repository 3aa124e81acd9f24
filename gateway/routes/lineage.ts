import { createHash } from 'node:crypto';
import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import type { ExternalId } from '../../policy/identity.ts';
import { findLineage, type LineageQuestion } from '../../sql/lineage.ts';
import { proveCaller } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { ArtifactParams, OfOrganization } from '../shapes/artifact-shape.ts';
import { LineageQuery, LineageShape } from '../shapes/lineage-shape.ts';
import { answers, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

/** What a text was made from and where it went: for operators and ingest callers, without any text. */
export function lineageRoutes(gateway: Gateway): OpenAPIHono {
  const app = newRoutes();
  const tags = ['artifacts'];
  const responses = answers('Where it came from, and where it went.', LineageShape);

  async function tell(context: Context, organization: ExternalId, question: LineageQuestion) {
    const caller = await proveCaller(context, gateway, ['operator', 'ingest'], organization);
    if (!caller.ok) return refused(context, caller);
    const subject = createHash('sha256').update(
      JSON.stringify(Object.values(question).map(String)),
    );
    const found = await findLineage(
      gateway.database,
      organization,
      caller,
      question,
      subject.digest(),
    );
    if (!found.ok) return refused(context, found);
    const { decision, at, report } = found;
    return context.json({ decision, at, ...report }, 200);
  }

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/artifacts/{artifact}/lineage',
      tags,
      request: { params: ArtifactParams, query: OfOrganization },
      responses,
    }),
    (context) => {
      const { artifact } = context.req.valid('param');
      return tell(context, context.req.valid('query').organization, { artifact });
    },
  );
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/lineage',
      tags,
      request: { query: LineageQuery },
      responses,
    }),
    (context) => {
      const { organization, conversation, seq } = context.req.valid('query');
      return tell(context, organization, { conversation, seq });
    },
  );
  return app;
}
