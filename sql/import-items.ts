import type { ExternalId } from '../policy/identity.ts';
import type { OrganizationTransaction } from './organization.ts';

/** What an import has applied: which item, and a digest of what the source said of it. Both in hex. */
export interface ImportItem {
  readonly key: string;
  readonly digest: string;
}

/**
 * Question: which of these items has this source's import applied, and as what?
 *
 * Two imports of one source take turns: whoever asks waits until the other's transaction has ended,
 * so what is recorded stays what was read. Index: the primary key of `import_items`.
 */
export async function recordedItems(
  { sql, key, name }: OrganizationTransaction,
  source: ExternalId,
  keys: readonly string[],
): Promise<Map<string, string>> {
  // A length before each part: no two pairs of names make one lock.
  const lock = `earshot import ${name.length.toString()} ${name} ${source}`;
  await sql`select pg_advisory_xact_lock(hashtextextended(${lock}, 0))`;
  const rows = await sql<ImportItem[]>`
    select encode(i.item, 'hex') as key, encode(i.digest, 'hex') as digest
    from unnest(${sql.array([...keys])}::text[]) k
    join earshot.import_items i on i.org_id = ${key.toString()} and i.source = ${source} and i.item = decode(k, 'hex')`;
  return new Map(rows.map((row) => [row.key, row.digest]));
}

/** Records what was applied, in the transaction that applied it. */
export async function recordItems(
  { sql, key }: OrganizationTransaction,
  source: ExternalId,
  items: readonly ImportItem[],
): Promise<void> {
  if (items.length === 0) return;
  await sql`
    insert into earshot.import_items (org_id, source, item, digest)
    select ${key.toString()}, ${source}, decode(i.key, 'hex'), decode(i.digest, 'hex')
    from unnest(${sql.array(items.map((item) => item.key))}::text[],
      ${sql.array(items.map((item) => item.digest))}::text[]) as i(key, digest)
    on conflict (org_id, source, item) do update set digest = excluded.digest`;
}
