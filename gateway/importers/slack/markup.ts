import type { MessageReference } from '../../../policy/fact.ts';
import { permalinkReference, withoutTokens } from './permalink.ts';

/** Names for mentions. Undefined where the export does not tell, or where the name is not public. */
export interface Names {
  user(id: string): string | undefined;
  channel(id: string): string | undefined;
}

/** What stands in a body where another message was linked or quoted. */
export const MESSAGE_MARK = '[message]';

export interface PlainText {
  readonly text: string;
  readonly references: readonly MessageReference[];
}

/**
 * Slack's markup as plain text: escapes undone, mentions named, links written out. A link to a
 * message becomes a reference and leaves `[message]`; its label, which may quote the message, goes.
 */
export function plainText(markup: string, names: Names): PlainText {
  const references: MessageReference[] = [];
  const literal = (part: string): string => sweepLinks(decodeEntities(part), references);

  let text = '';
  let end = 0;
  // A literal < or > is escaped, so angle brackets always enclose a mention or a link.
  for (const match of markup.matchAll(/<([^<>]*)>/g)) {
    text += literal(markup.slice(end, match.index));
    end = match.index + match[0].length;
    const inside = match[1] ?? '';
    const bar = inside.indexOf('|');
    const target = bar < 0 ? inside : inside.slice(0, bar);
    const label = bar < 0 ? '' : literal(inside.slice(bar + 1));
    text += plainToken(target, label, names, references);
  }
  return { text: text + literal(markup.slice(end)), references };
}

/** Text that is no markup (a snippet, a file's title): only links to messages and tokens are taken out. */
export function sweptText(text: string): PlainText {
  const references: MessageReference[] = [];
  return { text: sweepLinks(text, references), references };
}

/** Undoes Slack's three escapes, once: `&amp;lt;` is the text `&lt;`. */
export function decodeEntities(text: string): string {
  return text.replace(/&(amp|lt|gt);/g, (_, entity) =>
    entity === 'amp' ? '&' : entity === 'lt' ? '<' : '>',
  );
}

function plainToken(
  target: string,
  label: string,
  names: Names,
  references: MessageReference[],
): string {
  const id = decodeEntities(target.slice(1));
  switch (target.charAt(0)) {
    case '@':
      return `@${names.user(id) ?? without('@', label || id)}`;
    case '#':
      return `#${without('#', label) || (names.channel(id) ?? id)}`;
    case '!':
      // <!here>, <!subteam^S024BE91L|@team>, <!date^1392734382^{date}|Feb 18, 2014>
      if (id.startsWith('date^') && label) return label;
      return `@${without('@', label) || id.replace(/^subteam\^/, '')}`;
    default:
      return plainLink(decodeEntities(target), label, references);
  }
}

function plainLink(url: string, label: string, references: MessageReference[]): string {
  const reference = permalinkReference(url);
  if (reference) {
    references.push(reference);
    return MESSAGE_MARK;
  }
  const address = withoutTokens(url);
  if (label === '' || label === address || label === url) return address;
  if (address === '') return label;
  return /^(mailto|tel):/i.test(url) ? label : `${label} (${address})`;
}

function sweepLinks(text: string, references: MessageReference[]): string {
  const swept = text.replace(/(?:https?|slack):\/\/[^\s<>"'|`()[\]{}]+/gi, (found) => {
    const url = found.replace(/[.,;:!?*_~]+$/, '');
    const reference = permalinkReference(url);
    if (!reference) return found;
    references.push(reference);
    return MESSAGE_MARK + found.slice(url.length);
  });
  return withoutTokens(swept);
}

function without(mark: string, text: string): string {
  return text.startsWith(mark) ? text.slice(1) : text;
}
