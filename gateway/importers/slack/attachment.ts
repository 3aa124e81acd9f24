import { z } from 'zod';
import type { MessageReference } from '../../../policy/fact.ts';
import { messageReference, permalinkReference } from './permalink.ts';

const text = z.string().nullish().catch(undefined);

const attachmentEntry = z.object({
  is_msg_unfurl: z.unknown().optional(),
  is_share: z.unknown().optional(),
  is_reply_unfurl: z.unknown().optional(),
  is_thread_root_unfurl: z.unknown().optional(),
  message_blocks: z.unknown().optional(),
  channel_id: text,
  ts: text,
  from_url: text,
  original_url: text,
  title_link: text,
  footer: text,
  pretext: text,
  title: text,
  text: text,
  fallback: text,
  fields: z
    .array(z.object({ title: text, value: text }))
    .nullish()
    .catch(undefined),
});

export type Attachment =
  | { readonly kind: 'quote'; readonly references: readonly MessageReference[] }
  /** Slack markup, part by part. */
  | { readonly kind: 'card'; readonly markup: readonly string[] };

/**
 * Tells a quoted message from everything else that hangs on a message. A quote gives references
 * and none of its words: author, title and text are another message's, perhaps from a conversation
 * that the readers of this one cannot read. Undefined for something that is no attachment.
 */
export function readAttachment(entry: unknown): Attachment | undefined {
  const parsed = attachmentEntry.safeParse(entry);
  if (!parsed.success) return undefined;
  const attachment = parsed.data;
  const links = [attachment.from_url, attachment.original_url, attachment.title_link];
  const references = links.flatMap((link) => permalinkReference(link ?? '') ?? []);
  const named = messageReference(attachment.channel_id ?? '', attachment.ts ?? '');
  if (named) references.unshift(named);

  if (references.length > 0 || looksQuoted(attachment)) return { kind: 'quote', references };
  const fields = (attachment.fields ?? []).map(({ title, value }) =>
    [title, value].filter(Boolean).join(': '),
  );
  const markup = [attachment.pretext, attachment.title, attachment.text, ...fields].filter(isText);
  return {
    kind: 'card',
    markup: markup.length > 0 ? markup : [attachment.fallback].filter(isText),
  };
}

// Exports of different years mark quotes differently; the oldest have only the dated fallback line.
const QUOTE_FOOTER =
  /^(?:Slack Conversation|Posted in |(?:From a )?Thread in |From a thread in |(?:From a )?direct message)/i;
const QUOTE_FALLBACK = /^\[[A-Z][a-z]+ \d{1,2}(?:st|nd|rd|th), \d{4} \d{1,2}:\d{2} [AP]M\] /;

function looksQuoted(attachment: z.infer<typeof attachmentEntry>): boolean {
  return (
    [
      attachment.is_msg_unfurl,
      attachment.is_share,
      attachment.is_reply_unfurl,
      attachment.is_thread_root_unfurl,
      attachment.message_blocks,
    ].some(Boolean) ||
    QUOTE_FOOTER.test(attachment.footer ?? '') ||
    QUOTE_FALLBACK.test(attachment.fallback ?? '')
  );
}

function isText(text: string | null | undefined): text is string {
  return typeof text === 'string' && text.trim() !== '';
}
