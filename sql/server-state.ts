import type { Database } from './database.ts';

export interface ServerState {
  /** For example `180004`. */
  readonly versionNumber: number;
  readonly version: string;
  readonly encoding: string;
  /** The server's clock when it answered, in milliseconds since the epoch. */
  readonly clockMs: number;
  /** Whether it is a standby, which decides nothing here. */
  readonly standby: boolean;
}

/** Question: what is this server, and what time has it? */
export async function serverState({ sql }: Database): Promise<ServerState> {
  const [row] = await sql<(Omit<ServerState, 'clockMs'> & { clockMs: string })[]>`
    select current_setting('server_version_num')::int as "versionNumber",
      current_setting('server_version') as version, current_setting('server_encoding') as encoding,
      (extract(epoch from clock_timestamp()) * 1000)::text as "clockMs", pg_is_in_recovery() as standby`;
  if (row === undefined) throw new Error('the server gave no row');
  return { ...row, clockMs: Number(row.clockMs) };
}
