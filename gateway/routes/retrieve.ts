import { createHash } from 'node:crypto';
import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import { isRefusalCode, refuse } from '../../policy/refusal.ts';
import { LogName } from '../../sessions/entry-shape.ts';
import type { StartUnit } from '../../sessions/injections.ts';
import { injectUnits } from '../../sessions/session-compile.ts';
import { retrieve, type Retrieved, type RetrievedResult } from '../../sql/retrieval.ts';
import { ConversationRow, MessageRow } from '../../sql/tools.ts';
import { proveGrant } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import {
  ArtifactItem,
  conversationItem,
  ConversationItem,
  MessageItem,
  packetItem,
  type Sealed,
} from '../packet.ts';
import { Uuid } from '../shapes/scalar-shape.ts';
import {
  AroundArguments,
  ListArguments,
  ReadArguments,
  SearchArguments,
  ThreadArguments,
} from '../shapes/tool-shape.ts';
import { digestOf } from '../tokens/grant-token.ts';
import { answers, jsonBody, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';
import { Placed } from './session-call.ts';
import { nextOfMessages, pageOf, toolCall, type ToolCall } from './tool-call.ts';

const call = <Tool extends string, Shape extends z.ZodType>(tool: Tool, shape: Shape) =>
  z.strictObject({ tool: z.literal(tool), arguments: shape });

const RetrieveCall = z.discriminatedUnion('tool', [
  call('search', SearchArguments),
  call('read', ReadArguments),
  call('around', AroundArguments),
  call('thread', ThreadArguments),
  call('list_conversations', ListArguments),
]);
type RetrieveCall = z.infer<typeof RetrieveCall>;

const RetrieveBody = z
  .strictObject({
    calls: z.array(RetrieveCall).min(1).max(10),
    store: z.boolean().default(false).openapi({
      description:
        'Whether the messages and artifacts are stored in the log of the session, as one injection.',
    }),
    source: LogName.default('retrieval').openapi({ description: 'As what they are stored.' }),
  })
  .openapi('Retrieve');

const Result = z
  .object({
    items: z.array(z.union([MessageItem, ArtifactItem, ConversationItem])),
    cursor: z.string().optional(),
    complete: z.boolean(),
    total: z.object({ messages: z.string(), complete: z.boolean() }).optional(),
    code: z.string().optional().openapi({ description: 'Why this call by itself gave nothing.' }),
  })
  .openapi('RetrievedResult');

const Packet = z
  .object({
    decision: z.string(),
    results: z.array(Result),
    outcome: z
      .enum(['stored', 'unchanged', 'held', 'bound'])
      .optional()
      .openapi({ description: 'With `store`: what became of it in the log.' }),
  })
  .openapi('RetrievedPacket');

/** Several calls of tools in one snapshot, under one decision; what they find can be stored where the agent sees it. */
export function retrieveRoutes(gateway: Gateway): OpenAPIHono {
  const app = newRoutes();
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/retrieve',
      tags: ['tools'],
      request: {
        // Of the session that it is stored in; neither is asked for where nothing is stored.
        query: Placed.partial().extend({ session: Uuid.optional() }),
        body: jsonBody(RetrieveBody),
      },
      responses: answers('What this grant may see of each call.', Packet),
    }),
    async (context) => {
      const { calls, store, source } = context.req.valid('json');
      const { session, audience, namespace } = context.req.valid('query');
      const grant = await proveGrant(context, gateway);
      if (!grant.ok) return refused(context, grant);
      if (store && (session === undefined || audience === undefined)) {
        const detail = 'query session, audience: are missing, and what is stored needs both';
        return refused(context, refuse('invalid_input', { detail }));
      }
      if (!store && [session, audience, namespace].some((given) => given !== undefined)) {
        const detail = 'query session, audience, namespace: are for what is stored, and nothing is';
        return refused(context, refuse('invalid_input', { detail }));
      }
      const digest = digestOf(grant.jti);
      const prepared: ToolCall[] = [];
      for (const { tool, arguments: args } of calls) {
        const ready = await toolCall(gateway, digest, tool, args);
        if (!ready.ok) return refused(context, ready);
        prepared.push(ready);
      }
      const subject = createHash('sha256');
      for (const { query } of prepared) subject.update(query);
      const packet = await retrieve(
        gateway.database,
        digest,
        calls.map(({ tool }, nth) => ({ tool, arguments: prepared[nth]?.stated ?? {} })),
        subject.digest(),
      );
      if (!packet.ok) return refused(context, packet);

      const unit = store ? storedUnit(source, calls, packet) : undefined;
      const results = await Promise.all(
        packet.results.map((result, nth) =>
          resultOf(gateway, calls[nth], prepared[nth], result, packet),
        ),
      );
      const body = { decision: packet.decision, results };
      if (unit === undefined || session === undefined || audience === undefined) {
        return context.json(body, 200);
      }
      const stored = await injectUnits(
        {
          database: gateway.database,
          caller: { digest, session, audienceHash: audience },
          namespace,
          settings: gateway.compiling,
        },
        [unit],
      );
      if (!stored.ok) {
        // What was let through a moment ago, and is not there now as it was read, has changed since.
        const isGone = stored.code === 'not_found' && namespace === undefined;
        return refused(context, isGone ? refuse('source_changed') : stored);
      }
      const [outcome] = stored.outcomes;
      return context.json(
        { ...body, ...(outcome !== undefined && outcome !== 'placed' && { outcome }) },
        200,
      );
    },
  );
  return app;
}

async function resultOf(
  gateway: Gateway,
  call: RetrieveCall | undefined,
  prepared: ToolCall | undefined,
  { code, more, total, items }: RetrievedResult,
  sealed: Sealed,
): Promise<z.infer<typeof Result>> {
  if (code !== null || call === undefined || prepared === undefined) {
    const known = code !== null && isRefusalCode(code) ? code : 'fault';
    return { items: [], complete: false, code: known };
  }
  if (call.tool === 'list_conversations') {
    const rows = z.array(ConversationRow).parse(items);
    const last = rows.at(-1);
    const next =
      more === true && last !== undefined ? { conversation: last.conversation } : undefined;
    const page = await pageOf(gateway, prepared, more === true, next);
    return { items: rows.map((row) => conversationItem(row, sealed)), ...page };
  }
  const rows = z.array(MessageRow).parse(items);
  const next = nextOfMessages(call.tool, rows, more === true);
  return {
    items: rows.map((row) => packetItem(row, sealed)),
    ...(await pageOf(gateway, prepared, more === true, next)),
    ...(total !== null && { total }),
  };
}

/** The messages and artifacts of a packet as one unit, each once, with its envelope; none where there are none. */
function storedUnit(
  source: string,
  calls: readonly RetrieveCall[],
  packet: Retrieved,
): StartUnit | undefined {
  const rows = packet.results.flatMap(({ items }, nth) =>
    calls[nth]?.tool === 'list_conversations' ? [] : z.array(MessageRow).parse(items ?? []),
  );
  const texts = [
    ...new Map(rows.map((row) => [JSON.stringify([row.conversation, row.seq]), row])).values(),
  ];
  if (texts.length === 0) return undefined;
  return {
    source,
    position: 'after_user',
    placement: 'stored',
    parts: texts.map((row) => ({ text: partText(row), sources: [sourceOf(row)] })),
    envelopes: texts.map((row) => packetItem(row, packet).envelope),
  };
}

function sourceOf({ artifact, id, conversation, seq, revision }: MessageRow) {
  return artifact === undefined ? { conversation, seq, revision } : { artifact: id, revision };
}

/** A text as an agent reads it: where a message stands or what an artifact is, who wrote it and when, then the text. */
function partText(row: MessageRow) {
  const { conversation, seq, artifact, authorUser, authorPersona, sentAt, text } = row;
  const author = authorUser ?? authorPersona;
  const by = author === undefined ? '' : `, ${author}`;
  const what = artifact === undefined ? `${conversation} #${seq}` : `${artifact.kind} ${row.id}`;
  return `[${what}${by}, ${sentAt}]\n${text}`;
}
