import type { Sql } from '../../sql/database.ts';

/** A digest of every row of every table, by table: what a request that stores nothing leaves as it is. */
export async function contentOf(owner: Sql): Promise<Record<string, string>> {
  const tables = await owner<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'earshot'::regnamespace and relkind = 'r' order by 1`;
  const parts = tables.map(
    ({ name }) =>
      `select '${name}' as name, count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' order by t::text)), '') as content from earshot.${name} t`,
  );
  const rows = await owner.unsafe<{ name: string; content: string }[]>(parts.join(' union all '));
  return Object.fromEntries(rows.map(({ name, content }) => [name, content]));
}
