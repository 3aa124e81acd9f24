import { randomUUID } from 'node:crypto';
import type { LogEntry } from '../../sessions/entry-shape.ts';
import { wordAt } from './grant-cases.ts';
import type { Case } from './measurement.ts';
import type { BenchDatabase } from './server.ts';
import { granted, logName, type FilledLog, type MeasuredLog, type Use } from './session-logs.ts';

/** What is asked of every log. */
export const WAYS = {
  append: 'append one entry',
  appendMany: 'append 20 entries',
  edit: 'edit an entry',
  compile: 'compile',
  page: 'a page of 100 entries',
  search: 'search',
  summary: 'summary input of 50 entries',
  fork: 'fork',
  plain: 'plain `select blocks`, all entries',
  view: 'the view alone, all entries',
  plainPage: 'plain `select blocks`, 100 entries',
} as const;
export type Way = keyof typeof WAYS;

/** The calls of the product, in the order of the tables. */
export const CALLS: readonly Way[] = [
  'append',
  'appendMany',
  'edit',
  'compile',
  'page',
  'search',
  'summary',
  'fork',
];

export const PAGE = 100;
export const SUMMARY = 50;
export const HITS = 10;

export const caseName = (way: Way, length: number, use: Use) =>
  `${WAYS[way]}: ${logName(length, use)}`;

/** Every way of one log: whole calls, each checked and recorded, and what a host's own table would cost. */
export function logCases(database: BenchDatabase, measured: MeasuredLog): Case[] {
  const { length, use, read, written } = measured;
  const { log } = read;
  const ways: Readonly<Record<Way, Pick<Case, 'run' | 'prepare'>>> = {
    append: appending(written, 1),
    appendMany: appending(written, 20),
    edit: editing(written),
    compile: { run: async () => granted(await log.compile()) },
    page: {
      run: async (turn) =>
        granted(await log.entries({ limit: PAGE, after: `${idAt(read, turn, PAGE)}.1` })),
    },
    search: {
      run: async (turn) => granted(await log.search({ query: wordAt(turn), limit: HITS })),
    },
    summary: { run: async (turn) => granted(await log.summaryInput(rangeAt(read, turn))) },
    fork: { run: async () => granted(await log.fork(`fork ${randomUUID()}`)) },
    plain: { run: () => plainBlocks(database, read) },
    view: { run: () => viewedBlocks(database, measured) },
    plainPage: { run: (turn) => plainPage(database, read, startAt(read, turn, PAGE)) },
  };
  return Object.entries(ways).map(([way, rest]) => ({
    name: caseName(way as Way, length, use),
    ...rest,
  }));
}

/** Where a stretch of so many entries begins, another place each time. */
function startAt({ ids }: FilledLog, turn: number, stretch: number): number {
  return (turn * 7_919) % Math.max(1, ids.length - stretch);
}

function idAt(log: FilledLog, turn: number, stretch: number): string {
  return log.ids[startAt(log, turn, stretch)] ?? '';
}

/** The ends of a stretch that is summarized. */
export function rangeAt(log: FilledLog, turn: number): { from: string; to: string } {
  const start = startAt(log, turn, SUMMARY);
  const last = Math.min(start + SUMMARY, log.ids.length) - 1;
  return { from: log.ids[start] ?? '', to: log.ids[last] ?? '' };
}

function appending({ log, draw }: FilledLog, count: number): Pick<Case, 'run' | 'prepare'> {
  let entries: LogEntry[] = [];
  return {
    prepare() {
      entries = Array.from({ length: count }, draw);
      return Promise.resolve();
    },
    run: async () => granted(await log.append(randomUUID(), entries)),
  };
}

/** One after the other, and each again at the revision that it has come to. */
function editing({ log, ids, draw }: FilledLog): Pick<Case, 'run' | 'prepare'> {
  const revisions = new Map<string, bigint>();
  let blocks: LogEntry['blocks'] = [];
  return {
    prepare() {
      ({ blocks } = draw());
      return Promise.resolve();
    },
    async run(turn) {
      const id = ids[(turn * 7_919) % ids.length] ?? '';
      const { revision } = granted(await log.edit(id, revisions.get(id) ?? 1n, { blocks }));
      revisions.set(id, BigInt(revision));
    },
  };
}

interface Row {
  readonly blocks: unknown;
}

/** The blocks of a log as a host's own table would give them: unchecked, unrecorded, for anybody. */
export function plainBlocks({ superuser: { sql } }: BenchDatabase, { caller }: FilledLog) {
  return sql<Row[]>`
    select blocks from earshot.log_entries
    where org_id = 1 and session_id = ${caller.session} and superseded_by is null order by position`;
}

/** The same through the view of the log, with nothing else of the product around it. */
export function viewedBlocks(
  { superuser: { sql } }: BenchDatabase,
  { read, length, readers }: MeasuredLog,
) {
  return sql<Row[]>`
    select v.blocks from earshot.log_view(1, ${read.caller.session}, ${length},
      ${sql.array([...readers])}::text[], 'resident', null) v
    order by v.pos`;
}

function plainPage({ superuser: { sql } }: BenchDatabase, { caller }: FilledLog, after: number) {
  return sql<Row[]>`
    select blocks from earshot.log_entries
    where org_id = 1 and session_id = ${caller.session} and superseded_by is null and change > ${after}
    order by change limit ${PAGE}`;
}
