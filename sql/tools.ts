import { z } from 'zod';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { decisionOf, refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import { retrying } from './faults.ts';
import { changesOf, type AudienceChanges } from './grants.ts';

export const TOOLS = ['search', 'read', 'around', 'thread', 'list_conversations'] as const;
export type ToolName = (typeof TOOLS)[number];

const reference = z.object({ id: z.string(), seq: z.string() });

/** A message or an artifact. An artifact's number is no message's, and is told to nobody. */
export const MessageRow = z.object({
  text: z.string(),
  conversation: z.string(),
  id: z.string(),
  seq: z.string(),
  revision: z.string(),
  kind: z.enum(['message', 'event', 'artifact']),
  edited: z.boolean(),
  sentAt: z.string(),
  fromSeq: z.string(),
  /** Of an artifact: that of the most sensitive of its sources. */
  visibility: z.enum(['members', 'project', 'organization']),
  artifact: z
    .object({
      kind: z.enum(['memory', 'summary', 'draft', 'note']),
      title: z.string().optional(),
      asserted: z.boolean(),
      stale: z.boolean(),
    })
    .optional(),
  authorUser: z.string().optional(),
  authorPersona: z.string().optional(),
  owner: z.string().optional(),
  replyTo: reference.optional(),
  embeds: z.array(reference.extend({ conversation: z.string() })).optional(),
  /** In millionths. */
  score: z.string().optional(),
  /** The text with matches between U+0001 and U+0002. */
  marked: z.string().optional(),
});
export type MessageRow = z.infer<typeof MessageRow>;

export const ConversationRow = z.object({
  conversation: z.string(),
  title: z.string().optional(),
  kind: z.enum(['private', 'group', 'channel', 'direct']),
  visibility: z.enum(['members', 'project', 'organization']),
  fromSeq: z.string(),
  owner: z.string().optional(),
  messages: z.string(),
  latestAt: z.string().optional(),
});
export type ConversationRow = z.infer<typeof ConversationRow>;

export const Total = z.object({ messages: z.string(), complete: z.boolean() });

/** What a call let through, under which decision. */
export interface ToolAnswer<Row> {
  readonly ok: true;
  readonly decision: string;
  readonly decidedAt: string;
  readonly policyRevision: string;
  readonly grant: string;
  readonly more: boolean;
  /** How many messages the search finds, where that was asked for, as far as the count went. */
  readonly total?: z.infer<typeof Total>;
  readonly rows: Row[];
}

export type ToolRefusal = Refusal & { readonly changes?: AudienceChanges };

/**
 * Calls a tool that returns messages and artifacts: live check, scope, rows, ledger and record in one statement
 * and one round trip, committed when this returns.
 *
 * `digest` is the SHA-256 of the id of a token that has been verified. `arguments` have been
 * validated; integers in them are decimal strings. `subject` is the digest that the record keeps of
 * what was asked.
 */
export function callMessageTool(
  database: Database,
  digest: Uint8Array,
  tool: Exclude<ToolName, 'list_conversations'>,
  args: Readonly<Record<string, unknown>>,
  subject: Uint8Array,
): Promise<ToolAnswer<MessageRow> | ToolRefusal> {
  return callTool(database, digest, tool, args, subject, MessageRow);
}

/** {@link callMessageTool} for the conversations in scope. */
export function callConversationTool(
  database: Database,
  digest: Uint8Array,
  args: Readonly<Record<string, unknown>>,
  subject: Uint8Array,
): Promise<ToolAnswer<ConversationRow> | ToolRefusal> {
  return callTool(database, digest, 'list_conversations', args, subject, ConversationRow);
}

const CallRow = z.object({
  code: z.string().nullable(),
  decision_id: z.string().nullable(),
  decided_at: z.string(),
  grant_id: z.string().nullable(),
  policy_revision: z.string().nullable(),
  changes: z.unknown(),
  more: z.boolean().nullable(),
  total: Total.nullable(),
  items: z.unknown(),
});

async function callTool<Row>(
  { sql }: Database,
  digest: Uint8Array,
  tool: ToolName,
  args: Readonly<Record<string, unknown>>,
  subject: Uint8Array,
  shape: z.ZodType<Row>,
): Promise<ToolAnswer<Row> | ToolRefusal> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.call_tool(${Buffer.from(digest)}, ${tool}, ${JSON.stringify(args)}::text::jsonb,
        ${Buffer.from(subject)})`,
  );
  const row = CallRow.parse(raw);
  if (row.code !== null) {
    return { ...refusalOf(row.code, decisionOf(row.decision_id)), ...changesOf(row.changes) };
  }
  if (
    row.decision_id === null ||
    row.grant_id === null ||
    row.policy_revision === null ||
    row.more === null
  ) {
    return refuse('fault');
  }
  return {
    ok: true,
    decision: row.decision_id,
    decidedAt: row.decided_at,
    policyRevision: row.policy_revision,
    grant: row.grant_id,
    more: row.more,
    ...(row.total !== null && { total: row.total }),
    rows: z.array(shape).parse(row.items ?? []),
  };
}
