import { openDatabase, type Sql } from '../../sql/database.ts';
import type { TestGateway } from '../support/gateway.ts';

/** Work that was done in a transaction which nobody has ended yet. */
export interface HeldOpen {
  commit(): Promise<void>;
}

/** Does something in a transaction of a superuser and leaves it open. */
export async function holdOpen(
  { target }: TestGateway,
  work: (sql: Sql) => Promise<unknown>,
): Promise<HeldOpen> {
  const other = openDatabase(target.superuserUrl, { max: 1 });
  const sql = await other.sql.reserve();
  await sql`begin`;
  await work(sql);
  return {
    async commit() {
      await sql`commit`;
      sql.release();
      await other.close();
    },
  };
}

/** Waits until so many statements of the gateway wait for a lock; gives their backends. */
export async function whenBlocked({ owner }: TestGateway, count = 1): Promise<number[]> {
  for (;;) {
    const rows = await owner<{ pid: number }[]>`
      select pid from pg_stat_activity
      where datname = current_database() and application_name = 'earshot' and usename = 'earshot_gateway'
        and wait_event_type = 'Lock'`;
    if (rows.length >= count) return rows.map(({ pid }) => pid);
  }
}
