import { z } from 'zod';
import { readAttachment } from './attachment.ts';
import { blockMarkup } from './block.ts';
import type { BodyParts } from './body.ts';
import { readFileEntry, type SharedFile } from './file.ts';

const text = z.string().nullish();
const lenient = text.catch(undefined);
const list = z.array(z.unknown()).nullish().catch(undefined);

const messageEntry = z.object({
  type: text,
  subtype: text,
  ts: z.string(),
  user: text,
  text: text,
  thread_ts: text,
  hidden: z.boolean().nullish(),
  bot_id: lenient,
  username: lenient,
  bot_profile: z.object({ name: lenient }).nullish().catch(undefined),
  user_team: lenient,
  source_team: lenient,
  deleted_ts: lenient,
  edited: z.object({ ts: lenient }).nullish().catch(undefined),
  comment: z.object({ user: lenient, comment: lenient }).nullish().catch(undefined),
  file: z.unknown().optional(),
  files: list,
  attachments: list,
  blocks: z.unknown().optional(),
  message: z.unknown().optional(),
  previous_message: z.object({ ts: lenient }).nullish().catch(undefined),
});

/** One entry of a day file. */
export type SlackMessage = z.infer<typeof messageEntry>;

/** Undefined for an entry whose deciding fields (id, author, subtype, thread, text) have another form. */
export function parseMessage(entry: unknown): SlackMessage | undefined {
  const parsed = messageEntry.safeParse(entry);
  return parsed.success && (parsed.data.type ?? 'message') === 'message' ? parsed.data : undefined;
}

/** The user that an entry names as its author, whether or not the export knows that user. */
export function authorId(message: SlackMessage): string | undefined {
  return message.user ?? message.comment?.user ?? undefined;
}

const JOINS = new Set(['channel_join', 'group_join']);
const LEAVES = new Set(['channel_leave', 'group_leave']);
const EVENT = /^(?:channel|group|mpim|im)_/;
const EVENTS = new Set([
  'pinned_item',
  'unpinned_item',
  'bot_add',
  'bot_remove',
  'bot_enable',
  'bot_disable',
  'app_conversation_join',
  'app_conversation_leave',
  'joiner_notification',
  'joiner_notification_for_inviter',
  'reminder_add',
  'sh_room_created',
  'sh_room_shared',
  'huddle_thread',
]);

export function isJoin(message: SlackMessage): boolean {
  return JOINS.has(message.subtype ?? '');
}

export function isLeave(message: SlackMessage): boolean {
  return LEAVES.has(message.subtype ?? '');
}

/** Whether the entry tells that something happened rather than what somebody said. */
export function isEvent(message: SlackMessage): boolean {
  const subtype = message.subtype ?? '';
  return EVENT.test(subtype) || EVENTS.has(subtype);
}

/** Slack shows nothing of these: a deleted thread root leaves a tombstone, whose text says just that. */
export function isDeleted(message: SlackMessage): boolean {
  return message.subtype === 'tombstone' || message.hidden === true;
}

/** The files of a message; old exports carry one `file`, newer ones `files`. */
export function filesOf(message: SlackMessage): SharedFile[] {
  return [...(message.file ? [message.file] : []), ...(message.files ?? [])].flatMap(
    (entry) => readFileEntry(entry) ?? [],
  );
}

/** The id of the file that a comment is about. */
export function commentedFile(message: SlackMessage): string | undefined {
  return message.subtype === 'file_comment' ? filesOf(message)[0]?.id : undefined;
}

/**
 * The parts that make the body. The notice of a comment on a file repeats the file's title, author
 * and beginning, which belong to the message that shared it; only the comment itself is taken.
 */
export function bodyParts(message: SlackMessage): BodyParts {
  const isComment =
    message.subtype === 'file_comment' && typeof message.comment?.comment === 'string';
  const own = isComment ? message.comment?.comment : message.text;
  return {
    markup: own?.trim() ? own : blockMarkup(message.blocks),
    files: isComment || message.subtype === 'file_mention' ? [] : filesOf(message),
    attachments: (message.attachments ?? []).flatMap((entry) => readAttachment(entry) ?? []),
    cards: message.subtype === 'bot_message' || Boolean(message.bot_id),
  };
}
