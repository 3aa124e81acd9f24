import { createHash } from 'node:crypto';
import { formatInstant } from '../../policy/instant.ts';
import type { Refusal } from '../../policy/refusal.ts';
import type { MessageRow, ToolName } from '../../sql/tools.ts';
import type { Gateway } from '../gateway.ts';
import { openCursor, queryDigest, signCursor, type Position } from '../tokens/cursor.ts';

export type MessageTool = Exclude<ToolName, 'list_conversations'>;
export type ToolArguments = Readonly<
  Record<string, string | number | boolean | bigint | undefined>
>;

/** A call whose arguments are ready for the database, for the grant with this digest. */
export interface ToolCall {
  readonly ok: true;
  readonly digest: Uint8Array;
  readonly grant: string;
  readonly query: string;
  readonly subject: Uint8Array;
  readonly stated: Record<string, unknown>;
}

/** Prepares a call: its cursor is opened, which is refused where it is of another grant or another question. */
export async function toolCall(
  { keys }: Gateway,
  digest: Uint8Array,
  tool: ToolName,
  args: ToolArguments,
): Promise<ToolCall | Refusal> {
  const grant = Buffer.from(digest).toString('hex');
  const { cursor, ...asked } = args;
  const stated: Record<string, unknown> = statedArguments(asked);
  const query = queryDigest(tool, stated);
  if (typeof cursor === 'string') {
    const opened = await openCursor(keys, grant, query, cursor);
    if (!opened.ok) return opened;
    if (tool === 'read') stated.fromSeq = nextSeq(opened.after, args.direction === 'backward');
    else stated.after = opened.after;
  }
  const subject = createHash('sha256').update(query).digest();
  return { ok: true, digest, grant, query, subject, stated };
}

/** Arguments as the database takes them: integers as decimal strings, times as RFC 3339. */
function statedArguments(args: ToolArguments): Record<string, string> {
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

/** Where the next page of a call's messages begins; nowhere where there is none. */
export function nextOfMessages(
  tool: MessageTool,
  rows: readonly MessageRow[],
  more: boolean,
): Position | undefined {
  const last = rows.at(-1);
  return more && last !== undefined ? after[tool](last) : undefined;
}

/** How a page goes on: a cursor for this grant and this question alone, and whether it is the last. */
export async function pageOf(
  { keys }: Gateway,
  call: ToolCall,
  more: boolean,
  position: Position | undefined,
) {
  const cursor =
    position === undefined ? undefined : await signCursor(keys, call.grant, call.query, position);
  return { ...(cursor !== undefined && { cursor }), complete: !more };
}
