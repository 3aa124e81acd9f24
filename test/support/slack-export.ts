import { createWriteStream } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import type { ExportSource } from '../../gateway/importers/export-source.ts';
import { openExport } from '../../gateway/importers/export-source.ts';
import { readSlackExport, type SlackOptions } from '../../gateway/importers/slack.ts';
import type { Skipped, SlackReport } from '../../gateway/importers/slack/report.ts';
import type { ConversationFact, Fact, MembersFact, MessageFact } from '../../policy/fact.ts';

export const FROM_JOIN: SlackOptions = { history: 'from_join', openChannels: false };
export const ALL: SlackOptions = { history: 'all', openChannels: false };

export interface Import {
  readonly facts: readonly Fact[];
  readonly report: SlackReport;
}

export async function importFrom(source: ExportSource, options: SlackOptions): Promise<Import> {
  const facts: Fact[] = [];
  const reading = readSlackExport(source, options);
  try {
    for (;;) {
      const next = await reading.next();
      if (next.done === true) return { facts, report: next.value };
      facts.push(next.value);
    }
  } finally {
    await source.close();
  }
}

export const importPath = async (path: string, options: SlackOptions) =>
  importFrom(await openExport(path), options);

/** An export that exists in memory alone. Text is taken as the file's bytes. */
export function exportOf(files: Readonly<Record<string, unknown>>): ExportSource {
  return {
    names: Object.keys(files).sort(),
    read(name) {
      const file = files[name];
      return Promise.resolve(Buffer.from(typeof file === 'string' ? file : JSON.stringify(file)));
    },
    close: () => Promise.resolve(),
  };
}

export const ANN = { id: 'U0ANN00001', team_id: 'T0HOME0001', name: 'ann' };
export const BEN = { id: 'U0BEN00001', team_id: 'T0HOME0001', name: 'ben' };

/** One public channel with these messages, and whatever else is given. */
export function smallExport(
  messages: unknown,
  more: Readonly<Record<string, unknown>> = {},
): ExportSource {
  return exportOf({
    'users.json': [ANN, BEN],
    'channels.json': [{ id: 'C0ONE00001', name: 'one', members: [ANN.id, BEN.id] }],
    'one/2021-03-01.json': messages,
    ...more,
  });
}

export const said = (ts: string, text: string, more: object = {}) => ({
  type: 'message',
  user: ANN.id,
  ts,
  text,
  ...more,
});
export const joined = (ts: string, user: string, subtype = 'channel_join') => ({
  type: 'message',
  subtype,
  user,
  ts,
  text: `<@${user}> has joined`,
});

export const messagesOf = (facts: readonly Fact[], conversation?: string): MessageFact[] =>
  facts.filter(
    (fact): fact is MessageFact =>
      fact.fact === 'message' && (conversation === undefined || fact.conversation === conversation),
  );
export const conversationOf = (facts: readonly Fact[], id: string): ConversationFact | undefined =>
  facts.find((fact): fact is ConversationFact => fact.fact === 'conversation' && fact.id === id);
export const membersOf = (facts: readonly Fact[], id: string): MembersFact['members'] =>
  facts.find((fact): fact is MembersFact => fact.fact === 'members' && fact.conversation === id)
    ?.members ?? [];
export const historyOf = (facts: readonly Fact[], conversation: string, user: string) =>
  membersOf(facts, conversation).find((member) => member.user === user)?.history;
export const skipped = (report: SlackReport, what: string, why: string): Skipped | undefined =>
  report.skipped.find((entry) => entry.what === what && entry.why === why);

/** Writes a zip of these files and gives its path. */
export async function zipOf(
  folder: string,
  files: Readonly<Record<string, Buffer>>,
  name: string,
): Promise<string> {
  const zip = new ZipFile();
  for (const [path, bytes] of Object.entries(files)) zip.addBuffer(bytes, path);
  zip.end();
  const path = join(folder, name);
  await pipeline(zip.outputStream, createWriteStream(path));
  return path;
}

export async function filesUnder(folder: string): Promise<Record<string, Buffer>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((e) => join(e.parentPath, e.name));
  return Object.fromEntries(
    await Promise.all(
      paths.map(async (path) => [relative(folder, path), await readFile(path)] as const),
    ),
  );
}
