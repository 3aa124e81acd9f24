import { createHash, randomUUID } from 'node:crypto';
import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import { sha256Hex } from '../../policy/canonical.ts';
import type { Refusal } from '../../policy/refusal.ts';
import {
  assertArtifact,
  deleteArtifact,
  saveArtifact,
  type ArtifactRequest,
} from '../../sql/artifacts.ts';
import { callMessageTool } from '../../sql/tools.ts';
import { proveCaller, proveGrant } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { MessagePacket, packetItem } from '../packet.ts';
import {
  ArtifactBody,
  ArtifactParams,
  AssertedArtifactBody,
  AssertedArtifactParams,
  OfOrganization,
  SavedArtifactShape,
} from '../shapes/artifact-shape.ts';
import { IdempotencyHeaders } from '../shapes/scalar-shape.ts';
import { digestOf } from '../tokens/grant-token.ts';
import { answers, jsonBody, refused, writtenBody, WrittenShape } from './answer.ts';
import { newRoutes } from './route-app.ts';
import { toolCall } from './tool-call.ts';

/** Texts kept with what they were made from: saved and read by agents under a grant, asserted and deleted by callers. */
export function artifactRoutes(gateway: Gateway): OpenAPIHono {
  const { database } = gateway;
  const app = newRoutes();
  const tags = ['artifacts'];

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/artifacts',
      tags,
      request: { headers: IdempotencyHeaders, body: jsonBody(ArtifactBody) },
      responses: answers(
        'Saved, with all that the turn was shown as its sources.',
        SavedArtifactShape,
      ),
    }),
    async (context) => {
      const claims = await proveGrant(context, gateway);
      if (!claims.ok) return refused(context, claims);
      const { 'idempotency-key': key } = context.req.valid('header');
      const request = requestOf(context.req.valid('json'), key);
      const saved = await saveArtifact(database, digestOf(claims.jti), request);
      return saved.ok ? context.json(savedBody(saved), 200) : refused(context, saved);
    },
  );

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/artifacts/{artifact}',
      tags,
      request: { params: ArtifactParams },
      responses: answers('The artifact, where this grant may see all its sources.', MessagePacket),
    }),
    async (context) => {
      const claims = await proveGrant(context, gateway);
      if (!claims.ok) return refused(context, claims);
      const asked = context.req.valid('param');
      const call = await toolCall(gateway, digestOf(claims.jti), 'read', asked);
      if (!call.ok) return refused(context, call);
      const { digest, stated, subject } = call;
      const answer = await callMessageTool(database, digest, 'read', stated, subject);
      if (!answer.ok) return refused(context, answer);
      const { decision, rows } = answer;
      return context.json(
        { decision, complete: true, items: rows.map((row) => packetItem(row, answer)) },
        200,
      );
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/organizations/{org}/artifacts',
      tags,
      request: {
        params: AssertedArtifactParams,
        headers: IdempotencyHeaders,
        body: jsonBody(AssertedArtifactBody),
      },
      responses: answers('Registered, with the sources that are named.', SavedArtifactShape),
    }),
    async (context) => {
      const { org } = context.req.valid('param');
      const caller = await proveCaller(context, gateway, ['ingest'], org);
      if (!caller.ok) return refused(context, caller);
      const { sources, ...content } = context.req.valid('json');
      const { 'idempotency-key': key } = context.req.valid('header');
      const named = sources.map((source) => ({
        ...source,
        ...('seq' in source && { seq: source.seq.toString() }),
        ...('fromSeq' in source && { fromSeq: source.fromSeq.toString() }),
      }));
      const request = requestOf({ ...content, sources: named }, key);
      const saved = await assertArtifact(database, org, caller.client, request);
      return saved.ok ? context.json(savedBody(saved), 200) : refused(context, saved);
    },
  );

  app.openapi(
    createRoute({
      method: 'delete',
      path: '/v1/artifacts/{artifact}',
      tags,
      request: { params: ArtifactParams, query: OfOrganization },
      responses: answers('Deleted: its text goes, its lineage stays.', WrittenShape),
    }),
    async (context) => {
      const { organization } = context.req.valid('query');
      const caller = await proveCaller(context, gateway, ['ingest', 'operator'], organization);
      if (!caller.ok) return refused(context, caller);
      const { artifact } = context.req.valid('param');
      const deleted = await deleteArtifact(database, organization, artifact);
      return deleted.ok ? context.json(writtenBody(deleted), 200) : refused(context, deleted);
    },
  );
  return app;
}

/** What is asked for, and the digest by which it is known again: of all of it, the text by its own digest. */
function requestOf(
  content: { readonly text: string } & Readonly<Record<string, unknown>>,
  key: string,
): ArtifactRequest {
  const { text, ...rest } = content;
  const stated = Object.entries({ ...rest, text: sha256Hex(Buffer.from(text, 'utf8')) });
  const sorted = stated.sort(([a], [b]) => (a < b ? -1 : 1));
  const requestDigest = createHash('sha256').update(JSON.stringify(sorted)).digest();
  return { id: randomUUID(), content, key, requestDigest };
}

function savedBody({
  ok: _ok,
  ...body
}: Exclude<Awaited<ReturnType<typeof saveArtifact>>, Refusal>) {
  return body;
}
