import type { Database } from './database.ts';

/**
 * Question: on which tables of an organization's rows is row security not enabled, not forced, or
 * without a policy? None may be (INVARIANT 15). Reads the catalog alone; no tables at all is
 * undefined.
 */
export async function unforcedTables({ sql }: Database): Promise<string[] | undefined> {
  const rows = await sql<{ name: string; forced: boolean }[]>`
    select c.relname as name, c.relrowsecurity and c.relforcerowsecurity
      and exists (select from pg_policy p where p.polrelid = c.oid) as forced
    from pg_class c
    where c.relnamespace = to_regnamespace('earshot') and c.relkind in ('r', 'p')
      and (c.relname = 'organizations' or exists (
        select from pg_attribute a where a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped))
    order by c.relname`;
  if (rows.length === 0) return undefined;
  return rows.filter((row) => !row.forced).map((row) => row.name);
}
