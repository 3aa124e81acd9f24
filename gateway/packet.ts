import { z } from '@hono/zod-openapi';
import type { ConversationRow, MessageRow, ToolAnswer } from '../sql/tools.ts';

const Reference = z.object({ conversation: z.string(), seq: z.string(), id: z.string() });

/** Where a text came from and under which decision it may be had: the envelope's public part. */
const Envelope = z.object({
  origin: z.literal('conversation'),
  owner: z.string().optional(),
  sensitivity: z.enum(['members', 'project', 'organization']),
  history: z.object({ conversation: z.string(), fromSeq: z.string() }),
  decision: z.object({ id: z.string(), policyRevision: z.string(), at: z.string() }),
});

/** Of an artifact: nobody owns it by itself, and it is as sensitive as the most sensitive of its sources. */
const MemoryEnvelope = Envelope.omit({ origin: true, owner: true }).extend({
  origin: z.literal('memory'),
});

const found = {
  score: z.number().optional(),
  highlights: z
    .array(z.object({ start: z.int(), end: z.int() }))
    .optional()
    .openapi({ description: 'Matches, as UTF-16 offsets into the text; the end is exclusive.' }),
};

export const MessageItem = z
  .object({
    text: z.string(),
    source: z.object({
      type: z.literal('message'),
      id: z.string(),
      conversation: z.string(),
      seq: z.string(),
      revision: z.string(),
    }),
    envelope: Envelope,
    kind: z.enum(['message', 'event']),
    author: z.union([z.object({ user: z.string() }), z.object({ persona: z.string() })]).optional(),
    sentAt: z.string(),
    edited: z.boolean().optional(),
    replyTo: Reference.optional(),
    embeds: z.array(Reference).optional(),
    ...found,
  })
  .openapi('MessageItem');

export const ArtifactItem = z
  .object({
    text: z.string(),
    source: z.object({ type: z.literal('artifact'), id: z.string(), revision: z.string() }),
    envelope: MemoryEnvelope,
    kind: z.literal('artifact'),
    artifact: z.object({
      kind: z.enum(['memory', 'summary', 'draft', 'note']),
      title: z.string().optional(),
      asserted: z
        .literal(true)
        .optional()
        .openapi({ description: 'Its sources are the word of whoever registered it.' }),
      stale: z
        .literal(true)
        .optional()
        .openapi({ description: 'A source of it was edited or deleted since.' }),
    }),
    author: z.object({ persona: z.string() }).optional(),
    sentAt: z.string().openapi({ description: 'When it was saved.' }),
    ...found,
  })
  .openapi('ArtifactItem');

export const ConversationItem = z
  .object({
    conversation: z.string(),
    title: z.string().optional(),
    kind: z.enum(['private', 'group', 'channel', 'direct']),
    messages: z.string(),
    latestAt: z.string().optional(),
    envelope: Envelope,
  })
  .openapi('ConversationItem');

export const MessagePacket = z
  .object({
    decision: z.string(),
    items: z.array(z.union([MessageItem, ArtifactItem])),
    cursor: z.string().optional(),
    complete: z.boolean(),
    total: z
      .object({ messages: z.string(), complete: z.boolean() })
      .optional()
      .openapi({ description: 'Where a search asks for it: hits counted before a deadline.' }),
  })
  .openapi('MessagePacket');

export const ConversationPacket = z
  .object({
    decision: z.string(),
    items: z.array(ConversationItem),
    cursor: z.string().optional(),
    complete: z.boolean(),
  })
  .openapi('ConversationPacket');

export type Sealed = Pick<ToolAnswer<never>, 'decision' | 'decidedAt' | 'policyRevision'>;

function envelopeOf(
  row: Pick<MessageRow, 'conversation' | 'fromSeq' | 'visibility'> & { owner?: string | undefined },
  { decision, decidedAt, policyRevision }: Sealed,
): z.infer<typeof Envelope> {
  return {
    origin: 'conversation',
    ...(row.owner !== undefined && { owner: row.owner }),
    sensitivity: row.visibility,
    history: { conversation: row.conversation, fromSeq: row.fromSeq },
    decision: { id: decision, policyRevision, at: decidedAt },
  };
}

/** A message or an artifact in its envelope. */
export function packetItem(
  row: MessageRow,
  sealed: Sealed,
): z.infer<typeof MessageItem> | z.infer<typeof ArtifactItem> {
  const { kind, artifact } = row;
  if (kind !== 'artifact') return messageItem({ ...row, kind }, sealed);
  // Without its facts it could pass for something else: it does not leave.
  if (artifact === undefined) throw new TypeError('an artifact without its facts');
  return artifactItem(row, artifact, sealed);
}

function artifactItem(
  row: MessageRow,
  { kind, title, asserted, stale }: NonNullable<MessageRow['artifact']>,
  sealed: Sealed,
): z.infer<typeof ArtifactItem> {
  const { conversation, fromSeq, visibility } = row;
  return {
    text: row.text,
    source: { type: 'artifact', id: row.id, revision: row.revision },
    envelope: { ...envelopeOf({ conversation, fromSeq, visibility }, sealed), origin: 'memory' },
    kind: 'artifact',
    artifact: {
      kind,
      ...(title !== undefined && { title }),
      ...(asserted && { asserted }),
      ...(stale && { stale }),
    },
    ...(row.authorPersona !== undefined && { author: { persona: row.authorPersona } }),
    sentAt: row.sentAt,
    ...hitOf(row),
  };
}

/** How a search found a text. */
function hitOf({ score, marked, text }: MessageRow) {
  const highlights = marked === undefined ? undefined : offsetsOf(marked, text);
  return {
    ...(score !== undefined && { score: Number(score) / 1e6 }),
    ...(highlights !== undefined && { highlights }),
  };
}

function messageItem(
  row: MessageRow & { kind: 'message' | 'event' },
  sealed: Sealed,
): z.infer<typeof MessageItem> {
  return {
    text: row.text,
    source: {
      type: 'message',
      id: row.id,
      conversation: row.conversation,
      seq: row.seq,
      revision: row.revision,
    },
    envelope: envelopeOf(row, sealed),
    kind: row.kind,
    ...(row.authorUser !== undefined && { author: { user: row.authorUser } }),
    ...(row.authorPersona !== undefined && { author: { persona: row.authorPersona } }),
    sentAt: row.sentAt,
    ...(row.edited && { edited: true }),
    ...(row.replyTo !== undefined && {
      replyTo: { conversation: row.conversation, ...row.replyTo },
    }),
    ...(row.embeds !== undefined && { embeds: row.embeds }),
    ...hitOf(row),
  };
}

/** A conversation with counts over what is visible in it. */
export function conversationItem(
  row: ConversationRow,
  sealed: Sealed,
): z.infer<typeof ConversationItem> {
  return {
    conversation: row.conversation,
    ...(row.title !== undefined && { title: row.title }),
    kind: row.kind,
    messages: row.messages,
    ...(row.latestAt !== undefined && { latestAt: row.latestAt }),
    envelope: envelopeOf(row, sealed),
  };
}

/**
 * Turns a text with matches between U+0001 and U+0002 into offsets into the plain text. The marked one
 * may be folded: other characters, as many of them. Where there are not as many (the text itself holds
 * one of the marks) there are no highlights.
 */
function offsetsOf(marked: string, text: string): { start: number; end: number }[] | undefined {
  const places: number[] = [];
  let characters = 0;
  for (const part of marked.split(/([\u0001\u0002])/u)) {
    if (part === '\u0001' || part === '\u0002') places.push(characters);
    else characters += Array.from(part).length;
  }
  const offsets = [0];
  for (const character of text) offsets.push((offsets.at(-1) ?? 0) + character.length);
  if (characters !== offsets.length - 1) return undefined;
  return Array.from({ length: places.length >> 1 }, (_, i) => ({
    start: offsets[places[2 * i] ?? 0] ?? 0,
    end: offsets[places[2 * i + 1] ?? 0] ?? 0,
  }));
}
