import { createHash, randomUUID } from 'node:crypto';
import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import {
  answerRelease,
  askRelease,
  listReleases,
  type ReleaseAnswer,
} from '../../sql/artifact-releases.ts';
import { proveGrant, provePerson } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import {
  AnsweredReleaseShape,
  ApproveReleaseBody,
  AskedReleaseShape,
  AskReleaseBody,
  RefuseReleaseBody,
  ReleasedArtifactParams,
  ReleaseListQuery,
  ReleaseListShape,
  ReleaseParams,
} from '../shapes/release-shape.ts';
import { IdempotencyHeaders } from '../shapes/scalar-shape.ts';
import { digestOf } from '../tokens/grant-token.ts';
import { answers, jsonBody, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

/** How long an owner has to answer, and an approved release to be used: a week. */
const RELEASE_SECONDS = 604_800;

/** Releases by owners: asked for by agents under a grant, approved and refused by the people who own the sources. */
export function artifactReleaseRoutes(gateway: Gateway): OpenAPIHono {
  const { database } = gateway;
  const app = newRoutes();
  const tags = ['releases'];

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/artifacts/{artifact}/releases',
      tags,
      request: {
        params: ReleasedArtifactParams,
        headers: IdempotencyHeaders,
        body: jsonBody(AskReleaseBody),
      },
      responses: answers('The owners are asked.', AskedReleaseShape),
    }),
    async (context) => {
      const claims = await proveGrant(context, gateway);
      if (!claims.ok) return refused(context, claims);
      const { artifact } = context.req.valid('param');
      const { destination } = context.req.valid('json');
      const asked = await askRelease(database, digestOf(claims.jti), {
        id: randomUUID(),
        artifact,
        destination,
        key: context.req.valid('header')['idempotency-key'],
        requestDigest: createHash('sha256')
          .update(JSON.stringify([artifact, destination]))
          .digest(),
        lifetimeSeconds: RELEASE_SECONDS,
      });
      if (!asked.ok) return refused(context, asked);
      const { id, status, owners, expiresAt } = asked;
      return context.json({ id, status, owners, expiresAt }, 200);
    },
  );

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/releases',
      tags,
      request: { query: ReleaseListQuery },
      responses: answers('What this person is asked for.', ReleaseListShape),
    }),
    async (context) => {
      const { organization, limit, cursor: after } = context.req.valid('query');
      const person = await provePerson(context, gateway, organization);
      if (!person.ok) return refused(context, person);
      const { releases, more } = await listReleases(database, organization, person.person, {
        limit,
        after,
      });
      const cursor = more ? releases.at(-1)?.id : undefined;
      return context.json(
        { releases, ...(cursor !== undefined && { cursor }), complete: !more },
        200,
      );
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/releases/{release}/approve',
      tags,
      request: { params: ReleaseParams, body: jsonBody(ApproveReleaseBody) },
      responses: answers('Approved, by this person.', AnsweredReleaseShape),
    }),
    async (context) => {
      const { organization, textSha256 } = context.req.valid('json');
      const person = await provePerson(context, gateway, organization);
      if (!person.ok) return refused(context, person);
      const { release: id } = context.req.valid('param');
      const answer: ReleaseAnswer = { approves: true, textSha256 };
      const answered = await answerRelease(database, organization, person.person, id, answer);
      return answered.ok
        ? context.json({ id, status: answered.status }, 200)
        : refused(context, answered);
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/releases/{release}/refuse',
      tags,
      request: { params: ReleaseParams, body: jsonBody(RefuseReleaseBody) },
      responses: answers('Refused, or withdrawn.', AnsweredReleaseShape),
    }),
    async (context) => {
      const { organization } = context.req.valid('json');
      const person = await provePerson(context, gateway, organization);
      if (!person.ok) return refused(context, person);
      const { release: id } = context.req.valid('param');
      const answer: ReleaseAnswer = { approves: false };
      const answered = await answerRelease(database, organization, person.person, id, answer);
      return answered.ok
        ? context.json({ id, status: answered.status }, 200)
        : refused(context, answered);
    },
  );
  return app;
}
