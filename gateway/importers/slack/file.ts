import { z } from 'zod';

const text = z.string().nullish().catch(undefined);

const fileEntry = z.object({
  id: text,
  mode: text,
  file_access: text,
  name: text,
  title: text,
  user: text,
  preview: text,
});

export interface SharedFile {
  readonly id: string | undefined;
  readonly user: string | undefined;
  readonly title: string | undefined;
  /** The beginning of a snippet or post; other files have no text in an export. */
  readonly preview: string | undefined;
}

const GONE_MODES = new Set(['tombstone', 'hidden_by_limit']);
const CLOSED_ACCESS = new Set(['access_denied', 'file_not_found']);

/** What a message says of a file it carries. Addresses are left out: they hold tokens. Undefined for a deleted file. */
export function readFileEntry(entry: unknown): SharedFile | undefined {
  const parsed = fileEntry.safeParse(entry);
  if (!parsed.success) return undefined;
  const { id, mode, file_access, name, title, user, preview } = parsed.data;
  if (GONE_MODES.has(mode ?? '') || CLOSED_ACCESS.has(file_access ?? '')) return undefined;
  return {
    id: id ?? undefined,
    user: user ?? undefined,
    title: [title, name].find(Boolean) ?? undefined,
    preview: previewText(mode ?? '', preview ?? ''),
  };
}

function previewText(mode: string, preview: string): string | undefined {
  if (mode === 'snippet') return preview;
  if (mode !== 'post' && mode !== 'space') return undefined;
  // A post's preview is HTML of Slack's own making.
  return preview
    .replace(/<[^<>]*>/g, ' ')
    .replace(/&(?:#39|amp|lt|gt|quot);/g, (entity) => HTML_ENTITIES[entity] ?? entity)
    .replace(/ {2,}/g, ' ')
    .trim();
}

const HTML_ENTITIES: Readonly<Record<string, string>> = {
  '&#39;': "'",
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
};
