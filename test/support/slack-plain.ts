import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * An export folder read the plain way, without any of the gateway's code: what an import must agree
 * with. It assumes readable files and lists, and knows nothing of markup, edits or deletions.
 */
export interface PlainConversation {
  readonly list: 'channels' | 'groups' | 'mpims' | 'dms';
  readonly id: string;
  readonly name: string | undefined;
  readonly messages: readonly PlainMessage[];
  readonly members: readonly PlainMember[];
}

interface PlainMessage {
  readonly ts: string;
  /** 1-based place in the conversation. */
  readonly seq: number;
  readonly text: string;
  readonly user: string | undefined;
}

interface PlainMember {
  readonly user: string;
  readonly joinTs: string | undefined;
  /** The first place this member reads with `from_join`; undefined is no history. */
  readonly floor: number | undefined;
}

interface Entry {
  readonly ts: string;
  readonly subtype?: string;
  readonly user?: string;
  readonly text?: string;
  readonly comment?: { readonly user?: string };
}

interface Listed {
  readonly id: string;
  readonly name?: string;
  readonly members?: readonly string[] | null;
}

export function plainSlack(path: string): PlainConversation[] {
  const read = (name: string) => JSON.parse(readFileSync(join(path, name), 'utf8')) as unknown;
  const lists = (['channels', 'groups', 'mpims', 'dms'] as const).filter((list) =>
    existsSync(join(path, `${list}.json`)),
  );
  return lists.flatMap((list) =>
    (read(`${list}.json`) as Listed[]).map(({ id, name, members }) => {
      const folder = list === 'dms' ? id : (name ?? id);
      const days = existsSync(join(path, folder)) ? readdirSync(join(path, folder)).sort() : [];
      const entries = days.flatMap((day) => read(join(folder, day)) as Entry[]);
      const messages = inOrder(entries);
      const last = (user: string, ...subtypes: string[]) =>
        inOrder(entries.filter((e) => e.user === user && subtypes.includes(e.subtype ?? ''))).at(-1)
          ?.ts;
      return {
        list,
        id,
        name,
        messages: messages.map((entry, index) => ({
          ts: entry.ts,
          seq: index + 1,
          text: entry.text ?? '',
          user: entry.user ?? entry.comment?.user,
        })),
        // Slackbot is in a direct message with everybody and reads nothing.
        members: [...new Set(members ?? [])]
          .filter((user) => user !== 'USLACKBOT')
          .map((user) => {
            const joinTs = last(user, 'channel_join', 'group_join');
            const leaveTs = last(user, 'channel_leave', 'group_leave');
            const known = joinTs !== undefined && (!leaveTs || padded(leaveTs) < padded(joinTs));
            const before = messages.filter((m) => known && padded(m.ts) < padded(joinTs)).length;
            const floor = list === 'dms' || list === 'mpims' ? 1 : known ? 1 + before : undefined;
            return { user, joinTs: known ? joinTs : undefined, floor };
          }),
      };
    }),
  );
}

/** By time, each `ts` once: the first of its kind counts. */
function inOrder(entries: readonly Entry[]): Entry[] {
  const first = new Map<string, Entry>();
  for (const entry of entries) if (!first.has(entry.ts)) first.set(entry.ts, entry);
  return [...first.values()].sort((a, b) => (padded(a.ts) < padded(b.ts) ? -1 : 1));
}

/** `seconds.microseconds` at full width, so that text order is the order in time. */
function padded(ts: string): string {
  const [seconds = '', micros = ''] = ts.split('.');
  return `${seconds.padStart(12, '0')}.${micros.padEnd(6, '0')}`;
}
