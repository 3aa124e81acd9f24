import { homedir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import type { Effort } from './measurement.ts';
import { FULL, scaled, type Sizes } from './dataset.ts';

/** What a run of a bench is told on the command line. */
export interface BenchOptions {
  readonly sizes: Sizes;
  /** A superuser's URL; without it the bench runs on an embedded server of its own. */
  readonly databaseUrl: string | undefined;
  /** Where that server keeps its data, and with it the data that was generated. */
  readonly dataDir: string;
  /** The schema to measure, with a slash at the end: this checkout's, or an earlier one to compare with. */
  readonly migrations: URL;
  readonly effort: Effort;
  /** Whether plans are printed. */
  readonly plans: boolean;
  /** Whether docs/benchmarks.md and its charts are written. */
  readonly write: boolean;
  /** Whether the growth series, which need data of other sizes, are run. */
  readonly growth: boolean;
}

const USAGE = `
  --full                   the whole size: ${FULL.users} users, ${FULL.memberships} memberships
  --share <number>         a part of it; 0.05 unless given
  --seed <number>          another drawing of the data
  --users, --conversations, --memberships, --projects, --messages <number>
  --database <url>         a server that runs already, as a superuser
  --data-dir <folder>      of the embedded server; in the user's cache folder unless given
  --migrations <folder>    another version of the schema, to compare with
  --budget <ms>            for each thing that is measured
  --no-growth              leaves the growth series out
  --plans                  prints the plans of the scope
  --write                  writes docs/benchmarks.md and its charts`;

/** Reads the options; an unknown or malformed one ends the process and says how it is used. */
export function readOptions(words: readonly string[]): BenchOptions {
  try {
    return parsed(words);
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`);
    return process.exit(2);
  }
}

function parsed(words: readonly string[]): BenchOptions {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean', default: false } as const;
  const { values } = parseArgs({
    args: [...words],
    options: {
      ...{ full: flag, plans: flag, write: flag, 'no-growth': flag },
      ...{ share: text, seed: text, database: text, 'data-dir': text },
      ...{ budget: text, migrations: text },
      ...{ users: text, conversations: text, memberships: text, projects: text, messages: text },
    },
  });
  const seed = values.seed === undefined ? FULL.seed : number(values.seed);
  const base = values.full
    ? { ...FULL, seed }
    : scaled(values.share === undefined ? 0.05 : number(values.share), seed);
  const given = Object.fromEntries(
    (['users', 'conversations', 'memberships', 'projects', 'messages'] as const).flatMap((name) =>
      values[name] === undefined ? [] : [[name, number(values[name])]],
    ),
  );
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache');
  return {
    sizes: { ...base, ...given },
    databaseUrl: values.database,
    dataDir: values['data-dir'] ?? join(cache, 'earshot', 'bench'),
    migrations:
      values.migrations === undefined
        ? new URL('../../sql/migrations/', import.meta.url)
        : pathToFileURL(`${values.migrations}/`),
    effort: {
      budgetMs: values.budget === undefined ? (values.full ? 2_000 : 500) : number(values.budget),
    },
    plans: values.plans,
    write: values.write,
    growth: !values['no-growth'],
  };
}

function number(text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0) throw new Error(`${text} is no positive number.`);
  return value;
}
