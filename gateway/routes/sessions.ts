import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import {
  NamespaceRequest,
  type ContextLog,
  type LogAnswer,
  type Place,
} from '../../sessions/context-log.ts';
import { LogEdit, LogEntry, LogName, StorableText } from '../../sessions/entry-shape.ts';
import { AskedAgent } from '../../sessions/summary-shape.ts';
import { LogPage, LogRange, SearchedLog, SessionDescription } from '../../sessions/view-shape.ts';
import type { Gateway } from '../gateway.ts';
import { IdempotencyHeaders, Sequence, Uuid } from '../shapes/scalar-shape.ts';
import { answers, jsonBody } from './answer.ts';
import { newRoutes } from './route-app.ts';
import { answerFromLog, Held, Placed, SessionParams } from './session-call.ts';

const EntryParams = SessionParams.extend({ entry: Uuid });

/** Held, and for one agent by its name: one that stands in the log, a fork's, or one of the log it was forked from. */
const Addressed = Held.extend({ agent: AskedAgent.optional() });

/** Of a query string: decimal digits. */
const pageSize = z
  .string()
  .regex(/^([1-9][0-9]{0,2}|1000)$/, 'is not a whole number from 1 to 1000')
  .transform(Number);
const decision = z.string();
const Done = z.object({ decision }).openapi('SessionDecision');

/** A session of a grant, and its context log: every call proves the grant and says for which audience. */
export function sessionRoutes(gateway: Gateway): OpenAPIHono {
  const app = newRoutes();
  const tags = ['sessions'];
  const at = '/v1/sessions/{session}';

  function answer<Value, Body>(
    context: Context,
    params: { session: string },
    held: { audience: string; namespace?: string | undefined },
    call: (log: ContextLog, place: Place) => LogAnswer<Value>,
    body: (value: Value) => Body,
  ) {
    return answerFromLog(gateway, context, params, held, call, body);
  }

  app.openapi(
    createRoute({
      method: 'get',
      path: at,
      tags,
      request: { params: SessionParams, query: Placed },
      responses: answers(
        'The session, and who is in its log.',
        SessionDescription.extend({ decision }).openapi('Session'),
      ),
    }),
    (context) =>
      answer(
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log, place) => log.describe(place),
        ({ result }) => result,
      ),
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/entries`,
      tags,
      request: {
        params: SessionParams,
        query: Addressed,
        headers: IdempotencyHeaders,
        body: jsonBody(z.strictObject({ entries: z.array(LogEntry).min(1).max(100) })),
      },
      responses: answers(
        'The entries, appended, or held for the agent that they are for.',
        z
          .object({ decision, ids: z.array(z.string()), held: z.boolean().optional() })
          .openapi('Appended'),
      ),
    }),
    (context) => {
      const { agent, ...held } = context.req.valid('query');
      return answer(
        context,
        context.req.valid('param'),
        held,
        (log) =>
          log.append(
            context.req.valid('header')['idempotency-key'],
            context.req.valid('json').entries,
            { agent },
          ),
        ({ ids, held }) => ({ ids, ...(held && { held }) }),
      );
    },
  );

  app.openapi(
    createRoute({
      method: 'get',
      path: `${at}/entries`,
      tags,
      request: {
        params: SessionParams,
        query: Placed.extend({
          limit: pageSize.default(100),
          after: z.string().max(100).optional(),
          agent: AskedAgent.optional(),
        }),
      },
      responses: answers(
        'Entries in the order in which they changed.',
        LogPage.omit({ more: true })
          .extend({ decision, cursor: z.string().optional(), complete: z.boolean() })
          .openapi('LogPage'),
      ),
    }),
    (context) => {
      const { limit, after, agent, ...held } = context.req.valid('query');
      return answer(
        context,
        context.req.valid('param'),
        held,
        (log, place) => log.entries({ limit, after, agent }, place),
        ({ result: { entries, more }, cursor }) => ({
          entries,
          ...(cursor !== undefined && { cursor }),
          complete: !more,
        }),
      );
    },
  );

  app.openapi(
    createRoute({
      method: 'patch',
      path: `${at}/entries/{entry}`,
      tags,
      request: {
        params: EntryParams,
        query: Placed,
        body: jsonBody(z.strictObject({ revision: Sequence, edit: LogEdit })),
      },
      responses: answers(
        'A new revision, in the place of the one that was named.',
        z.object({ decision, revision: z.string() }).openapi('Edited'),
      ),
    }),
    (context) => {
      const { revision, edit } = context.req.valid('json');
      const params = context.req.valid('param');
      return answer(
        context,
        params,
        context.req.valid('query'),
        (log, place) => log.edit(params.entry, revision, edit, place),
        (edited) => ({ revision: edited.revision }),
      );
    },
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/search`,
      tags,
      request: {
        params: SessionParams,
        query: Placed,
        body: jsonBody(
          z.strictObject({
            query: StorableText.min(1).max(1000),
            limit: z.int().min(1).max(1000).default(20),
          }),
        ),
      },
      responses: answers(
        'Entries with a text that holds the query.',
        SearchedLog.extend({ decision }).openapi('SearchedLog'),
      ),
    }),
    (context) =>
      answer(
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log, place) => log.search(context.req.valid('json'), place),
        ({ result }) => result,
      ),
  );

  const range = answers(
    'Entries in the order of the log.',
    LogRange.extend({ decision }).openapi('LogRange'),
  );

  app.openapi(
    createRoute({
      method: 'get',
      path: `${at}/pins`,
      tags,
      request: { params: SessionParams, query: Placed },
      responses: range,
    }),
    (context) =>
      answer(
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log, place) => log.pins(place),
        ({ result }) => result,
      ),
  );

  for (const method of ['put', 'delete'] as const) {
    app.openapi(
      createRoute({
        method,
        path: `${at}/pins/{entry}`,
        tags,
        request: { params: EntryParams, query: Placed },
        responses: answers(method === 'put' ? 'Pinned.' : 'No longer pinned.', Done),
      }),
      (context) => {
        const params = context.req.valid('param');
        return answer(
          context,
          params,
          context.req.valid('query'),
          (log, place) =>
            method === 'put' ? log.pin([params.entry], place) : log.unpin([params.entry], place),
          () => ({}),
        );
      },
    );
  }

  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/namespaces`,
      tags,
      request: { params: SessionParams, query: Held, body: jsonBody(NamespaceRequest) },
      responses: answers(
        'The place of an agent in the log, with the handle that its reads take.',
        z
          .object({
            decision,
            name: z.string(),
            agent: z.string(),
            handle: z.string(),
            reader: z.string().optional(),
          })
          .openapi('OpenedNamespace'),
      ),
    }),
    (context) =>
      answer(
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log) => log.openNamespace(context.req.valid('json')),
        ({ namespace }) => namespace,
      ),
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/fork`,
      tags,
      request: {
        params: SessionParams,
        query: Placed,
        body: jsonBody(z.strictObject({ name: LogName })),
      },
      responses: answers(
        'A session of its own, with what the namespace shows.',
        z.object({ decision, session: z.string() }).openapi('Forked'),
      ),
    }),
    (context) =>
      answer(
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log, place) => log.fork(context.req.valid('json').name, place),
        ({ fork }) => ({ session: fork }),
      ),
  );

  app.openapi(
    createRoute({
      method: 'put',
      path: `${at}/primary`,
      tags,
      request: {
        params: SessionParams,
        query: Held,
        body: jsonBody(z.strictObject({ agent: LogName })),
      },
      responses: answers('The agent that answers come from.', Done),
    }),
    (context) =>
      answer(
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log) => log.setPrimaryAgent(context.req.valid('json').agent),
        () => ({}),
      ),
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/close`,
      tags,
      request: { params: SessionParams, query: Held },
      responses: answers('Closed, with its forks.', Done),
    }),
    (context) =>
      answer(
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log) => log.close(),
        () => ({}),
      ),
  );
  return app;
}
