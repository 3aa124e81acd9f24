const MAX_DEPTH = 12;

/**
 * The words of a message's blocks, as Slack markup. Apps may post with blocks alone; where a
 * message has text, its blocks repeat it.
 */
export function blockMarkup(blocks: unknown): string {
  return list(blocks)
    .map((block) => partMarkup(block, 0))
    .filter((line) => line.trim() !== '')
    .join('\n');
}

function partMarkup(part: unknown, depth: number): string {
  if (typeof part !== 'object' || part === null || depth > MAX_DEPTH) return '';
  const { type, text, elements, fields, url, user_id, channel_id, range, usergroup_id, title } =
    part as Record<string, unknown>;
  const inner = (separator: string) =>
    [...list(elements), ...list(fields)]
      .map((element) => partMarkup(element, depth + 1))
      .filter(Boolean)
      .join(separator);
  switch (type) {
    case 'text':
    case 'plain_text':
      return escaped(word(text));
    case 'mrkdwn':
      return word(text);
    case 'link':
      return word(text) === '' ? `<${word(url)}>` : `<${word(url)}|${escaped(word(text))}>`;
    case 'user':
      return `<@${word(user_id)}>`;
    case 'channel':
      return `<#${word(channel_id)}>`;
    case 'usergroup':
      return `<!subteam^${word(usergroup_id)}>`;
    case 'broadcast':
      return `<!${word(range)}>`;
    case 'rich_text_section':
    case 'rich_text_preformatted':
    case 'rich_text_quote':
      return inner('');
    case 'section':
    case 'header':
    case 'context':
    case 'rich_text':
    case 'rich_text_list':
      return [partMarkup(text, depth + 1), inner('\n')].filter(Boolean).join('\n');
    case 'image':
      return partMarkup(title, depth + 1);
    default:
      return '';
  }
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function word(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
