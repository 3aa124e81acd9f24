import { drizzle, type PgRemoteDatabase } from 'drizzle-orm/pg-proxy';
import type { Sql } from './database.ts';

/** Simple writes of the tables in `tables/`, through Drizzle. */
export type Records = PgRemoteDatabase;

/**
 * Drizzle over a connection or transaction of ours: it writes the statements, our driver sends them.
 * Its own driver would change how the client it is given reads JSON and dates.
 */
export function recordsOf(sql: Sql): Records {
  return drizzle(async (query, params, method) => {
    const statement = sql.unsafe(query, params as never[]);
    // Drizzle maps rows by position where it asks for all, and wants none otherwise.
    return { rows: method === 'execute' ? await statement : await statement.values() };
  });
}
