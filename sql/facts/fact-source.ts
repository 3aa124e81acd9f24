import type { ExternalId } from '../../policy/identity.ts';
import type { OrganizationTransaction } from '../organization.ts';

/**
 * Records that a source of facts spoke: each write and each explicit "still true" moves its time. A
 * source that was confirmed within the last second, or is being confirmed, is left alone, so that
 * writers do not queue at its row.
 */
export async function confirmSource(
  { sql, key }: OrganizationTransaction,
  source: ExternalId,
): Promise<void> {
  const [known] = await sql<{ fresh: boolean }[]>`
    select confirmed_at > clock_timestamp() - interval '1 second' as fresh
    from earshot.fact_sources where org_id = ${key.toString()} and name = ${source}`;
  if (known === undefined) {
    await sql`
      insert into earshot.fact_sources (org_id, name) values (${key.toString()}, ${source})
      on conflict do nothing`;
  } else if (!known.fresh) {
    await sql`
      update earshot.fact_sources f set confirmed_at = clock_timestamp()
      from (select org_id, name from earshot.fact_sources
            where org_id = ${key.toString()} and name = ${source} for update skip locked) mine
      where f.org_id = mine.org_id and f.name = mine.name`;
  }
}

/**
 * Sets how long a source may stay silent before turns and deliveries are refused as `facts_stale`.
 * Without an age it is never stale. Setting it confirms the source.
 */
export async function putSource(
  { sql, key }: OrganizationTransaction,
  source: ExternalId,
  maxAgeSeconds: number | undefined,
): Promise<{ ok: true; outcome: 'updated' }> {
  const age = maxAgeSeconds === undefined ? null : `${maxAgeSeconds.toString()} seconds`;
  await sql`
    insert into earshot.fact_sources (org_id, name, max_age)
    values (${key.toString()}, ${source}, ${age}::text::interval)
    on conflict (org_id, name) do update
    set max_age = excluded.max_age, confirmed_at = clock_timestamp()`;
  return { ok: true, outcome: 'updated' };
}
