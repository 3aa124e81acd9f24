import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { callConversationTool, callMessageTool, TOOLS, type ToolName } from '../../sql/tools.ts';
import { proveGrant } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { conversationItem, ConversationPacket, MessagePacket, packetItem } from '../packet.ts';
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
import {
  nextOfMessages,
  pageOf,
  toolCall,
  type MessageTool,
  type ToolArguments,
} from './tool-call.ts';

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

  /** Proves the grant and prepares the call. */
  async function prepare(context: Context, tool: ToolName, args: ToolArguments) {
    const claims = await proveGrant(context, gateway);
    return claims.ok ? toolCall(gateway, digestOf(claims.jti), tool, args) : claims;
  }

  async function messages(context: Context, tool: MessageTool, args: ToolArguments) {
    const call = await prepare(context, tool, args);
    if (!call.ok) return refused(context, call);
    const answer = await callMessageTool(
      gateway.database,
      call.digest,
      tool,
      call.stated,
      call.subject,
    );
    if (!answer.ok) return refused(context, answer);
    const next = nextOfMessages(tool, answer.rows, answer.more);
    return context.json(
      {
        decision: answer.decision,
        ...(await pageOf(gateway, call, answer.more, next)),
        ...(answer.total !== undefined && { total: answer.total }),
        items: answer.rows.map((row) => packetItem(row, answer)),
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
      const call = await prepare(context, 'list_conversations', context.req.valid('json'));
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
          decision: answer.decision,
          ...(await pageOf(gateway, call, answer.more, position)),
          items: answer.rows.map((row) => conversationItem(row, answer)),
        },
        200,
      );
    },
  );
  return app;
}
