import { z } from 'zod';
import { type ExternalId, parseExternalId } from '../../../policy/identity.ts';
import { decodeEntities } from './markup.ts';
import type { ConversationList, SlackLayout } from './layout.ts';
import { repaired } from './repair.ts';
import type { ReportDraft } from './report.ts';

/** One conversation as the export lists it. */
export interface SlackConversation {
  readonly id: ExternalId;
  readonly sort: 'public' | 'private' | 'mpim' | 'dm';
  readonly title: string | undefined;
  readonly creator: string | undefined;
  readonly archived: boolean;
  /** Shared with another workspace, now or soon. */
  readonly shared: boolean;
  readonly members: readonly ExternalId[];
  /** Some listed member has no usable id: somebody reads who cannot be named. */
  readonly unreadableMember: boolean;
  readonly dayFiles: readonly string[];
}

// These decide who reads; of another type, they make the entry unreadable and it is left out.
const flag = z.boolean().nullish();

const conversationEntry = z.object({
  id: z.string(),
  name: z.string().nullish(),
  creator: z.string().nullish().catch(undefined),
  is_archived: flag,
  is_private: flag,
  is_mpim: flag,
  is_im: flag,
  is_shared: flag,
  is_ext_shared: flag,
  is_pending_ext_shared: flag,
  is_org_shared: flag,
  members: z.array(z.unknown()).nullish(),
});

type ConversationEntry = z.infer<typeof conversationEntry>;

interface Listed {
  readonly id: ExternalId;
  readonly sort: SlackConversation['sort'];
  readonly entry: ConversationEntry;
  readonly folder: string;
}

/**
 * Reads the lists of conversations and finds the folder of each. Where one id is in several lists
 * the strictest one counts. A folder that two conversations claim belongs to neither: its
 * messages could end up before the wrong readers, so both are left out.
 */
export function readConversations(
  lists: readonly { readonly list: ConversationList; readonly entries: readonly unknown[] }[],
  layout: SlackLayout,
  report: ReportDraft,
): SlackConversation[] {
  const listed = new Map<ExternalId, Listed>();
  for (const { list, entries } of lists) {
    for (const [index, raw] of entries.entries()) {
      const place = `${list}.json#${index + 1}`;
      const parsed = conversationEntry.safeParse(raw);
      const id = parsed.success ? parseExternalId(parsed.data.id) : undefined;
      if (!parsed.success || !id) {
        report.skip('conversation', 'has fields of unknown form', place);
      } else if (!id.ok) {
        report.skip('conversation', `id is ${id.fault}`, place);
      } else {
        const found = describe(list, id.id, parsed.data, layout);
        const other = listed.get(id.id);
        if (other) report.skip('conversation', 'is listed twice; the stricter entry counts', id.id);
        if (!other || STRICTNESS[found.sort] > STRICTNESS[other.sort]) listed.set(id.id, found);
      }
    }
  }

  const claims = new Map<string, number>();
  for (const { folder } of listed.values()) claims.set(folder, (claims.get(folder) ?? 0) + 1);
  const conversations: SlackConversation[] = [];
  for (const one of listed.values()) {
    const dayFiles = layout.folders.get(one.folder) ?? [];
    if (dayFiles.length > 0 && claims.get(one.folder) !== 1) {
      report.skip('conversation', 'another one claims the same folder', one.id);
    } else {
      conversations.push(finish(one, dayFiles, report));
    }
  }
  for (const folder of layout.folders.keys()) {
    if (claims.has(folder)) continue;
    // A folder is named like its conversation, perhaps after people; only an id may be told.
    report.skip('folder', 'belongs to no listed conversation', idLike(folder));
  }
  return conversations;
}

// A private channel is the strictest: it is not public, and its members' joins give them floors.
const STRICTNESS = { public: 0, dm: 1, mpim: 1, private: 2 } as const;
const SORT_OF_LIST = { channels: 'public', groups: 'private', mpims: 'mpim', dms: 'dm' } as const;

function describe(
  list: ConversationList,
  id: ExternalId,
  entry: ConversationEntry,
  layout: SlackLayout,
): Listed {
  // Some tools write every conversation into channels.json and tell by flags what it is.
  const sort =
    entry.is_im === true
      ? 'dm'
      : entry.is_mpim === true
        ? 'mpim'
        : entry.is_private === true && list === 'channels'
          ? 'private'
          : SORT_OF_LIST[list];
  const name = sort === 'dm' ? id : (entry.name ?? '').normalize('NFC');
  return { id, sort, entry, folder: name !== '' && layout.folders.has(name) ? name : id };
}

function finish(
  { id, sort, entry }: Listed,
  dayFiles: readonly string[],
  report: ReportDraft,
): SlackConversation {
  // A direct message with oneself lists the same member once or twice.
  const members = new Set<ExternalId>();
  let unreadableMember = false;
  for (const member of entry.members ?? []) {
    const parsed = typeof member === 'string' ? parseExternalId(member) : undefined;
    if (parsed?.ok === true) {
      members.add(parsed.id);
    } else {
      unreadableMember = true;
      report.skip('member', 'has no usable id', id);
    }
  }
  return {
    id,
    sort,
    title: sort === 'dm' || !entry.name ? undefined : repaired(decodeEntities(entry.name)).text,
    creator: entry.creator ?? undefined,
    archived: entry.is_archived === true,
    shared: [
      entry.is_shared,
      entry.is_ext_shared,
      entry.is_pending_ext_shared,
      entry.is_org_shared,
    ].includes(true),
    members: [...members],
    unreadableMember,
    dayFiles,
  };
}

function idLike(folder: string): string | undefined {
  return /^[CDG][A-Z0-9]{6,}$/.test(folder) ? folder : undefined;
}
