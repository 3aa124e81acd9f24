import { ExportFault, type ExportSource } from '../export-source.ts';
import type { ReportDraft } from './report.ts';

/** Where the parts of one Slack export lie inside a folder or zip. */
export interface SlackLayout {
  readonly usersFile: string;
  readonly lists: readonly { readonly list: ConversationList; readonly file: string }[];
  /** The day files of each folder, in order of their days. Folder names are in Normalization Form C. */
  readonly folders: ReadonlyMap<string, readonly string[]>;
}

export type ConversationList = (typeof LISTS)[number];

const LISTS = ['channels', 'groups', 'mpims', 'dms'] as const;
const USER_FILES = ['users.json', 'org_users.json'];

/**
 * Finds the export: at the top, or in the one folder that an archiver wrapped around it. Throws
 * {@link ExportFault} that says what is missing.
 */
export function findLayout(source: ExportSource, report: ReportDraft): SlackLayout {
  const root = findRoot(source.names);
  const rootFiles = new Set<string>();
  const folders = new Map<string, string[]>();
  for (const name of source.names) {
    if (!name.startsWith(root) || isForeign(name)) continue;
    const parts = name.slice(root.length).split('/');
    const [first = '', second] = parts;
    if (second === undefined) {
      rootFiles.add(first);
    } else if (parts.length === 2 && /^\d{4}-\d{2}-\d{2}\.json$/.test(second)) {
      const days = folders.get(first);
      if (days) days.push(name);
      else folders.set(first, [name]);
    } else {
      report.skip('file', 'is no day of messages');
    }
  }

  const usersFile = USER_FILES.find((file) => rootFiles.has(file));
  const lists = LISTS.filter((list) => rootFiles.has(`${list}.json`));
  if (usersFile === undefined || lists.length === 0) throw notAnExport(usersFile, lists);
  for (const file of rootFiles) {
    const known = file === usersFile || lists.some((list) => file === `${list}.json`);
    if (!known) report.skip('file', 'holds no users, conversations or messages', file);
  }
  return {
    usersFile: root + usersFile,
    lists: lists.map((list) => ({ list, file: `${root}${list}.json` })),
    folders,
  };
}

function findRoot(names: readonly string[]): string {
  const known = new Set([...USER_FILES, ...LISTS.map((list) => `${list}.json`)]);
  const roots = new Set<string>();
  for (const name of names) {
    if (isForeign(name)) continue;
    const cut = name.lastIndexOf('/') + 1;
    if (known.has(name.slice(cut))) roots.add(name.slice(0, cut));
  }
  const depth = (root: string) => root.split('/').length;
  const shallowest = Math.min(...[...roots].map(depth));
  const candidates = [...roots].filter((root) => depth(root) === shallowest);
  if (candidates.length > 1) {
    throw new ExportFault(
      'not_an_export',
      'there are several Slack exports here: name one of them',
    );
  }
  return candidates[0] ?? '';
}

// What macOS adds to an archive.
function isForeign(name: string): boolean {
  return name.startsWith('__MACOSX/') || name.endsWith('.DS_Store');
}

function notAnExport(usersFile: string | undefined, lists: readonly string[]): ExportFault {
  const missing = [
    ...(usersFile === undefined ? ['users.json'] : []),
    ...(lists.length === 0 ? ['channels.json (or groups.json, mpims.json, dms.json)'] : []),
  ];
  return new ExportFault('not_an_export', `not a Slack export: it lacks ${missing.join(' and ')}`);
}
