import { createHash } from 'node:crypto';
import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { formatInstant } from '../../policy/instant.ts';
import type { Refusal } from '../../policy/refusal.ts';
import {
  callConversationTool,
  callMessageTool,
  TOOLS,
  type MessageRow,
  type ToolAnswer,
  type ToolName,
  type ToolRefusal,
} from '../../sql/tools.ts';
import { proveGrant } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { conversationItem, ConversationPacket, messageItem, MessagePacket } from '../packet.ts';
import {
  AroundArguments,
  ListArguments,
  ReadArguments,
  SearchArguments,
  ThreadArguments,
} from '../shapes/tool-shape.ts';
import { openCursor, queryDigest, signCursor, type Position } from '../tokens/cursor.ts';
import { digestOf } from '../tokens/grant-token.ts';
import { answers, jsonBody, refused } from './answer.ts';
import { newRoutes } from './route-app.ts';

type MessageTool = Exclude<ToolName, 'list_conversations'>;

/** The tools of an agent: each call proves a grant, and the database judges it live. */
export function toolRoutes(gateway: Gateway): OpenAPIHono {
  const app = newRoutes();
  const tags = ['tools'];

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/tools',
      tags,
      responses: answers('The tools there are.', z.object({ tools: z.array(z.string()) })),
    }),
    async (context) => {
      const grant = await proveGrant(context, gateway);
      return grant.ok ? context.json({ tools: [...TOOLS] }, 200) : refused(context, grant);
    },
  );

  /** The ways in which a page of messages goes on. */
  const after: Record<MessageTool, (last: MessageRow) => Position | undefined> = {
    search: ({ score, seq, conversation }) => ({
      ...(score !== undefined && { score }),
      seq,
      conversation,
    }),
    read: ({ seq }) => ({ seq }),
    thread: ({ seq }) => ({ seq }),
    around: () => undefined,
  };

  async function messages(context: Context, tool: MessageTool, args: Arguments) {
    const call = await prepare(context, gateway, tool, args);
    if (!call.ok) return refused(context, call);
    const answer = await callMessageTool(
      gateway.database,
      call.digest,
      tool,
      call.stated,
      call.subject,
    );
    if (!answer.ok) return refused(context, answer);
    const last = answer.rows.at(-1);
    const position = answer.more && last !== undefined ? after[tool](last) : undefined;
    return context.json(
      {
        ...(await pageOf(gateway, call, answer, position)),
        ...(answer.total !== undefined && { total: answer.total }),
        items: answer.rows.map((row) => messageItem(row, answer)),
      },
      200,
    );
  }

  function route<Tool extends MessageTool, Shape extends z.ZodType>(tool: Tool, shape: Shape) {
    return createRoute({
      method: 'post',
      path: `/v1/tools/${tool}`,
      tags,
      request: { body: jsonBody(shape) },
      responses: answers('What this grant may see of it.', MessagePacket),
    });
  }
  app.openapi(route('search', SearchArguments), (context) =>
    messages(context, 'search', context.req.valid('json')),
  );
  app.openapi(route('read', ReadArguments), (context) =>
    messages(context, 'read', context.req.valid('json')),
  );
  app.openapi(route('around', AroundArguments), (context) =>
    messages(context, 'around', context.req.valid('json')),
  );
  app.openapi(route('thread', ThreadArguments), (context) =>
    messages(context, 'thread', context.req.valid('json')),
  );
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/tools/list_conversations',
      tags,
      request: { body: jsonBody(ListArguments) },
      responses: answers('The conversations in scope.', ConversationPacket),
    }),
    async (context) => {
      const call = await prepare(context, gateway, 'list_conversations', context.req.valid('json'));
      if (!call.ok) return refused(context, call);
      const answer = await callConversationTool(
        gateway.database,
        call.digest,
        call.stated,
        call.subject,
      );
      if (!answer.ok) return refused(context, answer);
      const last = answer.rows.at(-1);
      const position =
        answer.more && last !== undefined ? { conversation: last.conversation } : undefined;
      return context.json(
        {
          ...(await pageOf(gateway, call, answer, position)),
          items: answer.rows.map((row) => conversationItem(row, answer)),
        },
        200,
      );
    },
  );
  return app;
}

type Arguments = Readonly<Record<string, string | number | boolean | bigint | undefined>>;

/** A call whose grant is proved and whose arguments are ready for the database. */
interface Call {
  readonly ok: true;
  readonly digest: Uint8Array;
  readonly grant: string;
  readonly query: string;
  readonly subject: Uint8Array;
  readonly stated: Record<string, unknown>;
}

async function prepare(
  context: Context,
  gateway: Gateway,
  tool: ToolName,
  args: Arguments,
): Promise<Call | Refusal> {
  const claims = await proveGrant(context, gateway);
  if (!claims.ok) return claims;
  const digest = digestOf(claims.jti);
  const grant = Buffer.from(digest).toString('hex');
  const { cursor, ...asked } = args;
  const stated: Record<string, unknown> = statedArguments(asked);
  const query = queryDigest(tool, stated);
  if (typeof cursor === 'string') {
    const opened = await openCursor(gateway.keys, grant, query, cursor);
    if (!opened.ok) return opened;
    if (tool === 'read') stated.fromSeq = nextSeq(opened.after, args.direction === 'backward');
    else stated.after = opened.after;
  }
  const subject = createHash('sha256').update(query).digest();
  return { ok: true, digest, grant, query, subject, stated };
}

/** Arguments as the database takes them: integers as decimal strings, times as RFC 3339. */
function statedArguments(args: Arguments): Record<string, string> {
  const stated: Record<string, string> = {};
  for (const [name, value] of Object.entries(args)) {
    if (value === undefined) continue;
    const isTime = (name === 'since' || name === 'until') && typeof value === 'bigint';
    stated[name] = isTime ? formatInstant(value) : value.toString();
  }
  return stated;
}

/** Reading goes on beside the last sequence of the page before. */
function nextSeq({ seq = '0' }: Position, backward: boolean): string {
  return (BigInt(seq) + (backward ? -1n : 1n)).toString();
}

async function pageOf(
  { keys }: Gateway,
  call: Call,
  answer: Exclude<ToolAnswer<unknown>, ToolRefusal>,
  position: Position | undefined,
) {
  const cursor =
    position === undefined ? undefined : await signCursor(keys, call.grant, call.query, position);
  return {
    decision: answer.decision,
    ...(cursor !== undefined && { cursor }),
    complete: !answer.more,
  };
}
