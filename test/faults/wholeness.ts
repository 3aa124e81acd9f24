import type { Sql } from '../../sql/database.ts';

interface Broken {
  readonly delivery: string;
  readonly what: string;
}

/**
 * What is half written, of all deliveries: a row that says a step was taken which no decision tells of, a decision without its
 * row, bytes that are kept or gone against the state. Nothing is, whenever it is asked.
 *
 * It knows deliveries whose claims ended by their leases and whose failures were of what had been released.
 */
export async function halfWritten(owner: Sql): Promise<readonly Broken[]> {
  return owner<Broken[]>`
    with counted as (
      select d.*, n.* from earshot.deliveries d cross join lateral (
        select count(*) filter (where x.kind = 'propose' and x.verdict = 'allowed') as proposals,
          count(*) filter (where x.kind = 'claim') as claims,
          count(*) filter (where x.kind = 'approve' and x.verdict = 'allowed') as approvals,
          count(*) filter (where x.kind = 'release' and x.verdict = 'allowed') as releases,
          count(*) filter (where x.verdict = 'refused') as refusals,
          count(*) filter (where x.kind in ('retry', 'reconcile') and x.detail ->> 'outcome' = 'failed') as failures
        from earshot.decisions x where x.org_id = d.org_id and x.delivery_id = d.id) n)
    select d.id::text as delivery, w.what from counted d cross join lateral (values
      ('proposed', d.proposals > 0),
      ('never refused', d.refusals = 0),
      ('one claim, one fence', d.claims = d.fence and d.claims = d.attempts),
      ('one approval', d.approvals = (d.approved_at is not null)::integer),
      ('one release for each handing out', d.releases = case when d.queued then d.failures else 0 end
        + (d.status in ('released', 'reconciling', 'delivered', 'failed'))::integer),
      ('the moment of its release', d.status not in ('released', 'reconciling', 'delivered') or d.released_at is not null),
      ('the moment of its report', d.status not in ('delivered', 'failed') or d.acknowledged_at is not null),
      ('its message', (d.status = 'delivered') = (d.message_id is not null)),
      ('its bytes', (d.payload is not null) = (d.status in ('waiting', 'cleared', 'scheduled', 'claimed')
        or (d.queued and d.status in ('released', 'reconciling')))),
      ('its lineage', exists (select from earshot.lineage l where l.org_id = d.org_id and l.derived_id = d.id))
    ) w(what, holds) where w.holds is not true
    union all
    select x.delivery_id::text, 'a decision without its delivery' from earshot.decisions x
    where x.delivery_id is not null and not exists (
      select from earshot.deliveries d where d.org_id = x.org_id and d.id = x.delivery_id)
    union all
    select l.derived_id::text, 'a lineage without its delivery' from earshot.lineage l
    where not exists (select from earshot.deliveries d where d.org_id = l.org_id and d.id = l.derived_id)`;
}
