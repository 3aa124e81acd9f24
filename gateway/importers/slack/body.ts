import type { MessageReference } from '../../../policy/fact.ts';
import type { Attachment } from './attachment.ts';
import type { SharedFile } from './file.ts';
import { MESSAGE_MARK, type Names, type PlainText, plainText, sweptText } from './markup.ts';
import { repaired } from './repair.ts';

/** The parts of a message that carry words. */
export interface BodyParts {
  readonly markup: string;
  readonly files: readonly SharedFile[];
  readonly attachments: readonly Attachment[];
  /** Whether cards are the author's own words, as a bot's are; a person's are previews of web pages. */
  readonly cards: boolean;
}

export interface Body {
  readonly text: string;
  readonly embeds: readonly MessageReference[];
  readonly nul: number;
  readonly loneSurrogates: number;
  /** Quotes that name no message: nothing of them is kept. */
  readonly namelessQuotes: number;
}

/** Puts a body together in which every other message is a reference and none of its words remains. */
export function writeBody(parts: BodyParts, names: Names): Body {
  const embeds = new Map<string, MessageReference>();
  const add = (reference: MessageReference): boolean => {
    const key = `${reference.conversation}\0${reference.message}`;
    if (embeds.has(key)) return false;
    embeds.set(key, reference);
    return true;
  };
  const lines: string[] = [];
  let nul = 0;
  let loneSurrogates = 0;
  let namelessQuotes = 0;
  // Repaired before it is read, so that no removed character can hide a link from the reading.
  const clean = (raw: string): string => {
    const result = repaired(raw);
    nul += result.nul;
    loneSurrogates += result.loneSurrogates;
    return result.text;
  };
  const write = ({ text, references }: PlainText): void => {
    references.forEach(add);
    if (text.trim() !== '') lines.push(text);
  };

  write(plainText(clean(parts.markup), names));
  for (const file of parts.files) {
    const title = sweptText(clean(file.title ?? ''));
    if (!lines.some((line) => line.includes(title.text))) write(title);
    if (file.preview !== undefined) write(sweptText(clean(file.preview)));
  }
  for (const attachment of parts.attachments) {
    if (attachment.kind === 'quote') {
      // The link to a quoted message usually stands in the text and has left its mark there.
      if (attachment.references.length === 0) namelessQuotes += 1;
      if (attachment.references.filter(add).length > 0) lines.push(MESSAGE_MARK);
    } else if (parts.cards) {
      for (const markup of attachment.markup) write(plainText(clean(markup), names));
    }
  }
  const embedded = [...embeds.values()];
  return { text: lines.join('\n'), embeds: embedded, nul, loneSurrogates, namelessQuotes };
}
