import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import type { Fact } from '../../policy/fact.ts';
import { externalId, type ExternalId } from '../../policy/identity.ts';
import type { Refusal } from '../../policy/refusal.ts';
import { eraseAhead } from '../../sql/erasure.ts';
import { deleteConversation, removeMember } from '../../sql/facts/conversations.ts';
import { confirmSource, putSource } from '../../sql/facts/fact-source.ts';
import { writeFacts } from '../../sql/facts/fact-writer.ts';
import { admitLate, deleteMessage, listLate } from '../../sql/facts/messages.ts';
import { deleteUser } from '../../sql/facts/users.ts';
import type { Written } from '../../sql/facts/written.ts';
import { inOrganization, type OrganizationTransaction } from '../../sql/organization.ts';
import { proveCaller } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import {
  ConversationBody,
  MemberBody,
  MembersBody,
  MessageBody,
  PersonaBody,
  ProjectBody,
  UserBody,
} from '../shapes/fact-shape.ts';
import { Id } from '../shapes/scalar-shape.ts';
import { answers, jsonBody, refused, WrittenShape, writtenBody } from './answer.ts';
import { newRoutes } from './route-app.ts';

/** Which source of facts speaks. Its silence is what makes facts stale. */
export const SourceQuery = z.strictObject({ source: Id.default(externalId('default')) });

const WRITERS = ['ingest', 'operator'] as const;

/** Facts, one at a time. Each is written through the one writer, for callers with the scope `ingest`. */
export function factRoutes(gateway: Gateway): OpenAPIHono {
  const { database } = gateway;
  const app = newRoutes();
  const tags = ['facts'];
  const written = answers('What became of it.', WrittenShape);

  /** Proves the caller, writes one fact, answers what became of it. */
  async function put(context: Context, org: ExternalId, source: ExternalId, fact: Fact) {
    const caller = await proveCaller(context, gateway, WRITERS, org);
    if (!caller.ok) return refused(context, caller);
    const result = await writeFacts(database, org, source, [fact]);
    if (!result.ok) return refused(context, result);
    const [first] = result.results;
    return context.json(writtenBody(first ?? { outcome: 'unchanged' }), 200);
  }

  /** Proves the caller and does something else in the organization that answers like a write. */
  async function change(
    context: Context,
    org: ExternalId,
    source: ExternalId,
    work: (transaction: OrganizationTransaction) => Promise<Written | Refusal>,
    ahead?: () => Promise<void>,
  ) {
    const caller = await proveCaller(context, gateway, WRITERS, org);
    if (!caller.ok) return refused(context, caller);
    await ahead?.();
    const result = await inOrganization(database, org, async (transaction) => {
      const written = await work(transaction);
      if (written.ok) await confirmSource(transaction, source);
      return written;
    });
    return result.ok ? context.json(writtenBody(result), 200) : refused(context, result);
  }

  const at = '/v1/organizations/{org}';
  const user = z.object({ org: Id, user: Id });
  const persona = z.object({ org: Id, persona: Id });
  const project = z.object({ org: Id, project: Id });
  const conversation = z.object({ org: Id, conversation: Id });
  const member = z.object({ org: Id, conversation: Id, user: Id });
  const message = z.object({ org: Id, conversation: Id, message: Id });
  const fromSource = z.object({ org: Id, source: Id });

  app.openapi(
    createRoute({
      method: 'put',
      path: `${at}/users/{user}`,
      tags,
      request: { params: user, query: SourceQuery, body: jsonBody(UserBody) },
      responses: written,
    }),
    (context) => {
      const { org, user: id } = context.req.valid('param');
      const fact: Fact = { fact: 'user', id, ...context.req.valid('json') };
      return put(context, org, context.req.valid('query').source, fact);
    },
  );
  app.openapi(
    createRoute({
      method: 'delete',
      path: `${at}/users/{user}`,
      tags,
      request: { params: user, query: SourceQuery },
      responses: written,
    }),
    (context) => {
      const { org, user: id } = context.req.valid('param');
      return change(
        context,
        org,
        context.req.valid('query').source,
        (transaction) => deleteUser(transaction, id),
        () => eraseAhead(database, org, { kind: 'user', id }),
      );
    },
  );
  app.openapi(
    createRoute({
      method: 'put',
      path: `${at}/personas/{persona}`,
      tags,
      request: { params: persona, query: SourceQuery, body: jsonBody(PersonaBody) },
      responses: written,
    }),
    (context) => {
      const { org, persona: id } = context.req.valid('param');
      const fact: Fact = { fact: 'persona', id, ...context.req.valid('json') };
      return put(context, org, context.req.valid('query').source, fact);
    },
  );
  app.openapi(
    createRoute({
      method: 'put',
      path: `${at}/projects/{project}`,
      tags,
      request: { params: project, query: SourceQuery, body: jsonBody(ProjectBody) },
      responses: written,
    }),
    (context) => {
      const { org, project: id } = context.req.valid('param');
      const fact: Fact = { fact: 'project', id, ...context.req.valid('json') };
      return put(context, org, context.req.valid('query').source, fact);
    },
  );
  app.openapi(
    createRoute({
      method: 'put',
      path: `${at}/conversations/{conversation}`,
      tags,
      request: { params: conversation, query: SourceQuery, body: jsonBody(ConversationBody) },
      responses: written,
    }),
    (context) => {
      const { org, conversation: id } = context.req.valid('param');
      const fact: Fact = { fact: 'conversation', id, ...context.req.valid('json') };
      return put(context, org, context.req.valid('query').source, fact);
    },
  );
  app.openapi(
    createRoute({
      method: 'delete',
      path: `${at}/conversations/{conversation}`,
      tags,
      request: { params: conversation, query: SourceQuery },
      responses: written,
    }),
    (context) => {
      const { org, conversation: id } = context.req.valid('param');
      return change(
        context,
        org,
        context.req.valid('query').source,
        (transaction) => deleteConversation(transaction, id),
        () => eraseAhead(database, org, { kind: 'conversation', id }),
      );
    },
  );
  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/conversations/{conversation}/open`,
      tags,
      request: { params: conversation, query: SourceQuery },
      responses: written,
    }),
    (context) => {
      const { org, conversation: id } = context.req.valid('param');
      const fact: Fact = { fact: 'open', conversation: id };
      return put(context, org, context.req.valid('query').source, fact);
    },
  );
  app.openapi(
    createRoute({
      method: 'put',
      path: `${at}/conversations/{conversation}/members`,
      tags,
      request: { params: conversation, query: SourceQuery, body: jsonBody(MembersBody) },
      responses: written,
    }),
    (context) => {
      const { org, conversation: id } = context.req.valid('param');
      const fact: Fact = { fact: 'members', conversation: id, ...context.req.valid('json') };
      return put(context, org, context.req.valid('query').source, fact);
    },
  );
  app.openapi(
    createRoute({
      method: 'put',
      path: `${at}/conversations/{conversation}/members/{user}`,
      tags,
      request: { params: member, query: SourceQuery, body: jsonBody(MemberBody) },
      responses: written,
    }),
    (context) => {
      const { org, conversation: id, user: person } = context.req.valid('param');
      const fact: Fact = {
        fact: 'member',
        conversation: id,
        user: person,
        ...context.req.valid('json'),
      };
      return put(context, org, context.req.valid('query').source, fact);
    },
  );
  app.openapi(
    createRoute({
      method: 'delete',
      path: `${at}/conversations/{conversation}/members/{user}`,
      tags,
      request: { params: member, query: SourceQuery },
      responses: written,
    }),
    (context) => {
      const { org, conversation: id, user: person } = context.req.valid('param');
      return change(context, org, context.req.valid('query').source, (transaction) =>
        removeMember(transaction, id, person),
      );
    },
  );
  app.openapi(
    createRoute({
      method: 'put',
      path: `${at}/conversations/{conversation}/messages/{message}`,
      tags,
      request: { params: message, query: SourceQuery, body: jsonBody(MessageBody) },
      responses: written,
    }),
    (context) => {
      const { org, conversation: place, message: id } = context.req.valid('param');
      const fact: Fact = { fact: 'message', conversation: place, id, ...context.req.valid('json') };
      return put(context, org, context.req.valid('query').source, fact);
    },
  );
  app.openapi(
    createRoute({
      method: 'delete',
      path: `${at}/conversations/{conversation}/messages/{message}`,
      tags,
      request: { params: message, query: SourceQuery },
      responses: written,
    }),
    (context) => {
      const { org, conversation: place, message: id } = context.req.valid('param');
      return change(context, org, context.req.valid('query').source, (transaction) =>
        deleteMessage(transaction, place, id),
      );
    },
  );

  const Late = z.object({
    messages: z.array(z.object({ id: z.string(), sentAt: z.string(), arrivedAt: z.string() })),
  });
  app.openapi(
    createRoute({
      method: 'get',
      path: `${at}/conversations/{conversation}/late`,
      tags,
      request: { params: conversation },
      responses: answers('Messages kept apart, unreadable, until they are admitted.', Late),
    }),
    async (context) => {
      const { org, conversation: id } = context.req.valid('param');
      const caller = await proveCaller(context, gateway, WRITERS, org);
      if (!caller.ok) return refused(context, caller);
      const late = await inOrganization(database, org, (transaction) => listLate(transaction, id));
      return late.ok ? context.json({ messages: late.messages }, 200) : refused(context, late);
    },
  );
  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/conversations/{conversation}/late/{message}/admit`,
      tags,
      request: { params: message, query: SourceQuery },
      responses: written,
    }),
    (context) => {
      const { org, conversation: place, message: id } = context.req.valid('param');
      return change(context, org, context.req.valid('query').source, (transaction) =>
        admitLate(transaction, place, id),
      );
    },
  );

  const SourceBody = z.strictObject({ maxAgeSeconds: z.int().min(1).max(31_536_000).optional() });
  app.openapi(
    createRoute({
      method: 'put',
      path: `${at}/sources/{source}`,
      tags,
      request: { params: fromSource, body: jsonBody(SourceBody) },
      responses: written,
    }),
    (context) => {
      const { org, source } = context.req.valid('param');
      const { maxAgeSeconds } = context.req.valid('json');
      return change(context, org, source, (transaction) =>
        putSource(transaction, source, maxAgeSeconds),
      );
    },
  );
  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/sources/{source}/confirm`,
      tags,
      request: { params: fromSource },
      responses: written,
    }),
    (context) => {
      const { org, source } = context.req.valid('param');
      return change(context, org, source, () => Promise.resolve({ ok: true, outcome: 'updated' }));
    },
  );
  return app;
}
