import { findAudiences, type Audience } from './audiences.ts';
import { floorCases } from './floor.ts';
import { measure, type Effort, type Measurement } from './measurement.ts';
import type { BenchDatabase } from './server.ts';
import { compareLog } from './session-answers.ts';
import { logCases } from './session-cases.ts';
import { fillLogs, type MeasuredLog, type Use } from './session-logs.ts';

/** A log that was measured. */
export interface LogSize {
  readonly length: number;
  readonly use: Use;
  readonly blocks: number;
  /** Blocks for some readers only. */
  readonly restricted: number;
  /** Of its blocks, as JSON. */
  readonly bytes: number;
}

/** What a run of the session bench found. */
export interface SessionResult {
  readonly logs: readonly LogSize[];
  /** Answers that were compared with what had been appended before anything was measured. */
  readonly compared: number;
  readonly measured: readonly Measurement[];
}

/** How many entries the logs begin with. */
export interface LogLengths {
  readonly lengths?: readonly number[];
}

/** People of one team, who all read the thread that the logs are of. */
const GROUP = 'squad5';

/** Measures what the context log costs, by its length and by how much of it is for some readers only. */
export async function measureSessions(
  database: BenchDatabase,
  effort: Effort & LogLengths,
  say: (line: string) => void,
): Promise<SessionResult> {
  const audience = await threadOf(database);
  const all: MeasuredLog[] = [];
  for (const length of effort.lengths ?? [2_000, 20_000]) {
    say(`Filling logs of ${length} entries.`);
    all.push(...(await fillLogs(database, audience, length)));
  }
  await settle(database);
  say('Comparing the answers.');
  const logs: LogSize[] = [];
  let compared = 0;
  for (const log of all) {
    logs.push(await sizeOf(database, log));
    compared += await compareLog(database, log);
  }
  say('Measuring.');
  const measured = await measure(
    [...floorCases(database), ...all.flatMap((log) => logCases(database, log))],
    effort,
  );
  return { logs, compared, measured };
}

/** The people whose thread the logs are of. */
export async function threadOf(database: BenchDatabase): Promise<Audience> {
  const groups = await findAudiences(database, { audiencesEach: 1 });
  const audience = groups.find(({ name }) => name === GROUP)?.audiences[0];
  if (audience === undefined) throw new Error(`The data has no audience ${GROUP}.`);
  return audience;
}

/** The tables that a log is in, and what is written at each call of it. */
const TABLES = [
  ...['log_entries', 'log_sources', 'log_appends', 'log_heads', 'log_summaries', 'log_sends'],
  ...['namespaces', 'ledger_entries', 'decisions'],
];

/** What the server would do by itself some time later, and then while something is measured. */
export async function settle({ superuser: { sql } }: BenchDatabase): Promise<void> {
  for (const table of TABLES) await sql.unsafe(`vacuum (analyze) earshot.${table}`);
}

async function sizeOf(
  { superuser: { sql } }: BenchDatabase,
  { length, use, read }: MeasuredLog,
): Promise<LogSize> {
  const [row] = await sql<{ blocks: number; restricted: number; bytes: number }[]>`
    select sum(jsonb_array_length(e.blocks))::int as blocks, sum(octet_length(e.blocks::text))::int as bytes,
      sum((select count(*) from jsonb_array_elements(e.blocks) b where b.value ? 'audience'))::int as restricted
    from earshot.log_entries e where e.org_id = 1 and e.session_id = ${read.caller.session}`;
  if (row === undefined) throw new Error('An aggregate gives a row.');
  return { length, use, ...row };
}
