-- What becomes of a proposal: released, claimed by workers, acknowledged, or too late. Each door locks as 0009 says; one
-- that judges nothing takes the delivery's row alone.

-- Holds a delivery back for good. Its bytes go.
create function earshot.hold_delivery(p_org bigint, p_delivery uuid, p_code text) returns earshot.deliveries
language plpgsql volatile as $$
declare
  held earshot.deliveries;
begin
  update deliveries x set status = 'held', code = p_code, payload = null
  where x.org_id = p_org and x.id = p_delivery
  returning x.* into held;
  return held;
end $$;

-- Records a step of a delivery (INVARIANT 17): who took it, by kind, and never what is in it. By ids, as all that speaks of
-- many deliveries here: a row that is handed on whole has its payload fetched.
create function earshot.record_delivery(p_org bigint, p_delivery uuid, p_kind text, p_code text, p_now timestamptz, p_detail jsonb)
returns void
language plpgsql volatile as $$
begin
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, delivery_id, subject_sha256,
    audience_hash, policy_revision, detail)
  select p_org, gen_random_uuid(), p_now, p_kind, case when p_code is null then 'allowed' else 'refused' end, p_code,
    d.turn_id, d.grant_id, d.id, d.payload_sha256, d.audience_hash, d.policy_revision,
    jsonb_strip_nulls(p_detail || case when p_kind = 'claim' then jsonb_build_object('fence', d.fence::text) else '{}' end)
  from deliveries d where d.org_id = p_org and d.id = p_delivery;
end $$;

-- Locks everything that a judgement of this delivery reads, and then the delivery. All null where there is none.
create function earshot.lock_delivery(p_org bigint, p_delivery uuid, out delivery earshot.deliveries, out releases uuid[])
language plpgsql volatile as $$
declare
  locked bigint[];
begin
  select * into delivery from deliveries x where x.org_id = p_org and x.id = p_delivery;
  if not found then
    return;
  end if;
  locked := array(
    select delivery.destination_id
    union select t.destination_id from turns t where t.org_id = p_org and t.id = delivery.turn_id
    union select s.conversation_id from lineage s where s.org_id = p_org and s.derived_id = p_delivery);
  perform lock_readability(p_org, locked);
  perform from turns t where t.org_id = p_org and t.id = delivery.turn_id for no key update;
  perform from grants g where g.org_id = p_org and g.id = delivery.grant_id for no key update;
  select * into delivery from deliveries x where x.org_id = p_org and x.id = p_delivery for no key update;
  releases := case when delivery.artifact_id is not null then
    lock_releases(p_org, delivery.payload_sha256, delivery.artifact_id) end;
  perform require_locked(array(
    select s.conversation_id from lineage s where s.org_id = p_org and s.derived_id = p_delivery), locked);
end $$;

-- A delivery that another one edits, and the message that it became.
create function earshot.edited_delivery(p_org bigint, p_edited uuid) returns jsonb
language plpgsql stable as $$
begin
  return (select jsonb_build_object('delivery', e.id, 'message', e.message_id) from deliveries e
    where e.org_id = p_org and e.id = p_edited);
end $$;

-- Releases a delivery, once. It hands out the bytes that were judged, and nothing on any other
-- verdict; a delivery that fails the check is held for good and its bytes are gone. One that is queued takes the
-- fence of a claim that holds.
create function earshot.release_delivery(p_organization text, p_delivery uuid, p_audience_hash bytea,
  p_payload_sha256 bytea, p_shown text[], p_acknowledge_within interval, p_fence bigint default null,
  out code text, out destination text, out payload bytea, out content_type text, out acknowledge_by text, out edits jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org constant bigint := enter_organization(p_organization);
  t timestamptz;
  d earshot.deliveries;
  v earshot.verdict;
  locked record;
begin
  locked := lock_delivery(org, p_delivery);
  d := locked.delivery;
  t := clock_timestamp();
  if d.id is null then
    code := 'not_found';
    return;
  end if;

  -- Check.
  code := case
    when d.status = 'discarded' then 'stopped'
    when d.status = 'held' then d.code
    when p_fence is distinct from case when d.queued then d.fence end then 'fenced'
    when d.status in ('released', 'reconciling', 'delivered', 'failed') then 'already_released'
    when d.queued and (d.status <> 'claimed' or d.lease_expires_at <= t) then 'fenced'
    when d.payload_sha256 <> p_payload_sha256 then 'payload_mismatch'
    when d.audience_hash <> p_audience_hash then 'audience_changed'
    when d.expires_at <= t then 'delivery_expired'
  end;
  if code is not null then
    if code = 'delivery_expired' and d.status <> 'held' then
      -- It cannot leave any more, so its bytes go.
      perform hold_delivery(org, d.id, code);
    end if;
    return;
  end if;
  v := judge_release(org, d, p_shown, t, locked.releases);
  if v.code is not null and v.own then
    perform revoke_grant(org, d.grant_id, v.code, v.changes, t);
  end if;
  code := coalesce(v.code, judge_approval(d, d.destination_id, (v.standing).audience_hash));
  if code is not null then
    perform hold_delivery(org, d.id, code);
  else
    -- Nobody is handed these bytes again, so they are not kept; but for a try that is reported to have failed.
    update deliveries x
    set status = 'released', released_at = t, acknowledge_by = t + p_acknowledge_within,
      payload = case when x.queued then x.payload end
    where x.org_id = org and x.id = p_delivery
    returning d.payload, x.content_type, rfc3339(x.acknowledge_by) into payload, content_type, acknowledge_by;
    select c.external_id into destination from conversations c where c.org_id = org and c.id = d.destination_id;
    edits := edited_delivery(org, d.edits);
  end if;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, delivery_id, subject_sha256,
    audience_hash, policy_revision, detail)
  values (org, gen_random_uuid(), t, 'release', case when release_delivery.code is null then 'allowed' else 'refused' end,
    release_delivery.code, d.turn_id, d.grant_id, d.id, d.payload_sha256, (v.standing).audience_hash,
    (v.standing).policy_revision, jsonb_strip_nulls(jsonb_build_object('changes', v.changes)));
end $$;

-- Holds those that waited longer than they may; their bytes go, also those kept for another try. As many as are said, and none
-- that somebody has locked: so nobody waits.
create function earshot.expire_deliveries(p_org bigint, p_now timestamptz, p_most integer) returns void
language plpgsql volatile as $$
declare
  late uuid[];
begin
  late := array(
    select d.id from deliveries d
    where d.org_id = p_org and d.expires_at <= p_now
      and (d.status in ('cleared', 'scheduled', 'waiting', 'claimed') or d.payload is not null)
    order by d.expires_at limit p_most for no key update skip locked);
  if cardinality(late) = 0 then
    return;
  end if;
  update deliveries x set payload = null
  where x.org_id = p_org and x.id = any (late) and x.status in ('released', 'reconciling');
  late := array(select d.id from deliveries d
    where d.org_id = p_org and d.id = any (late) and d.status in ('cleared', 'scheduled', 'waiting', 'claimed'));
  perform hold_delivery(p_org, x, 'delivery_expired') from unnest(late) x;
  perform record_delivery(p_org, x, 'expire', 'delivery_expired', p_now, '{"by": "gateway"}') from unnest(late) x;
end $$;

-- Moves what is past its time: too old, a lease that ran out after the last attempt, a release that nobody acknowledged.
create function earshot.settle_deliveries(p_org bigint, p_now timestamptz, p_attempts integer, p_most integer) returns void
language plpgsql volatile as $$
declare
  late uuid[];
begin
  perform expire_deliveries(p_org, p_now, p_most);
  late := array(
    select d.id from deliveries d
    where d.org_id = p_org and d.status = 'claimed' and d.lease_expires_at <= p_now and d.attempts >= p_attempts
    order by d.lease_expires_at limit p_most for no key update skip locked);
  update deliveries x set status = 'dead', reason = 'lease_expired', payload = null
  where x.org_id = p_org and x.id = any (late);
  perform record_delivery(p_org, x, 'dead', null, p_now, '{"by": "gateway", "reason": "lease_expired"}')
  from unnest(late) x;
  late := array(
    select d.id from deliveries d
    where d.org_id = p_org and d.status = 'released' and d.acknowledge_by <= p_now
    order by d.acknowledge_by limit p_most for no key update skip locked);
  update deliveries x set status = 'reconciling' where x.org_id = p_org and x.id = any (late);
  perform record_delivery(p_org, x, 'reconcile', null, p_now, '{"by": "gateway"}') from unnest(late) x;
end $$;

-- Claims what is due, the oldest first, for one worker: each with a lease and a fence of its own. It looks at no payload
-- and judges nothing, which is the release's to do. Rows that somebody has locked are left to others. `p_personas` names those that
-- the caller is registered for. Index: deliveries_to_claim.
create function earshot.claim_deliveries(p_organization text, p_personas text[], p_worker text, p_destinations text[],
  p_limit integer, p_lease interval, p_attempts integer)
returns table (id uuid, destination text, content_type text, payload_sha256 text, audience_hash text, fence text,
  attempt integer, lease_expires_at text, expires_at text, clearance_ends bigint, edits jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  org constant bigint := enter_organization(p_organization);
  -- Nothing here waits for a lock.
  t constant timestamptz := clock_timestamp();
  places constant bigint[] := array(
    select c.id from conversations c where c.org_id = org and c.external_id = any (p_destinations));
  due uuid[];
begin
  perform settle_deliveries(org, t, p_attempts, 100);
  due := array(
    select d.id from deliveries d
    where d.org_id = org and d.queued and d.status in ('cleared', 'scheduled', 'claimed')
      and coalesce(d.not_before, d.proposed_at) <= t and d.expires_at > t
      and (d.status <> 'claimed' or (d.lease_expires_at <= t and d.attempts < p_attempts))
      and (p_destinations is null or d.destination_id = any (places))
      and serves_turn(org, d.turn_id, p_personas)
    order by coalesce(d.not_before, d.proposed_at), d.id
    limit p_limit for no key update of d skip locked);
  update deliveries x
  set status = 'claimed', fence = x.fence + 1, claimed_by = p_worker, lease_expires_at = t + p_lease,
    attempts = x.attempts + 1, released_at = null, acknowledge_by = null, acknowledged_at = null
  where x.org_id = org and x.id = any (due);
  perform record_delivery(org, x, 'claim', null, t, '{"by": "endpoint"}') from unnest(due) x;
  return query
    select d.id, c.external_id::text, d.content_type, encode(d.payload_sha256, 'hex'), encode(d.audience_hash, 'hex'),
      d.fence::text, d.attempts, rfc3339(d.lease_expires_at), rfc3339(d.expires_at),
      floor(extract(epoch from d.expires_at))::bigint, edited_delivery(org, d.edits)
    from deliveries d
    join conversations c on c.org_id = org and c.id = d.destination_id
    where d.org_id = org and d.id = any (due)
    order by coalesce(d.not_before, d.proposed_at), d.id;
end $$;

-- Whether a turn is of a persona that the caller is registered for.
create function earshot.serves_turn(p_org bigint, p_turn uuid, p_personas text[]) returns boolean
language plpgsql stable as $$
begin
  return '*' = any (p_personas) or exists (
    select from turns t join personas a on a.org_id = t.org_id and a.id = t.persona_id
    where t.org_id = p_org and t.id = p_turn and a.external_id = any (p_personas));
end $$;

-- The delivery that a message came out of, as it was reported: of several, the newest that edited it to this
-- text, else, if it is not asked about an edit, the one that it became at first. All null where there is none.
create function earshot.delivery_of_text(p_org bigint, p_conversation bigint, p_message text, p_body text, p_edit boolean)
returns earshot.deliveries
language plpgsql stable as $$
declare
  result earshot.deliveries;
begin
  select * into result from deliveries d
  where d.org_id = p_org and d.destination_id = p_conversation and d.message_id = p_message
    and case when d.edits is null then not p_edit else d.payload_sha256 = sha256(convert_to(p_body, 'UTF8')) end
  order by d.edits is null, d.acknowledged_at desc limit 1;
  return result;
end $$;

-- Links a delivery with the message that it became. False: another delivery has it, which then gets these sources too.
--
-- Where the delivery is an edit and the message has its text, the message goes on with the edit's lineage alone. With another
-- text, or before that text has come, what it came out of so far gets the sources of both.
create function earshot.link_message(p_delivery earshot.deliveries, p_message text) returns boolean
language plpgsql volatile as $$
declare
  org constant bigint := p_delivery.org_id;
  is_edit constant boolean := p_delivery.edits is not null;
  linked earshot.messages;
  holder uuid;
  carries boolean;
begin
  select * into linked from messages m
  where m.org_id = org and m.conversation_id = p_delivery.destination_id and m.external_id = p_message;
  select x.id into holder from deliveries x
  where x.org_id = org and x.destination_id = p_delivery.destination_id and x.message_id = p_message
    and x.edits is null and x.id <> p_delivery.id;
  carries := case when is_edit
    then coalesce(sha256(convert_to(linked.body, 'UTF8')) = p_delivery.payload_sha256 and linked.state <> 'deleted', false)
    else holder is null end;
  if is_edit then
    holder := case when not carries then coalesce(linked.delivery_id, holder) end;
  end if;
  -- Who wrote it does not matter: a link only narrows, and the platform may name a bot as the author.
  update messages m set delivery_id = p_delivery.id, delivered_revision = case when is_edit then m.revision end
  where m.org_id = org and m.conversation_id = p_delivery.destination_id and m.seq = linked.seq
    and carries and (is_edit or m.delivery_id is null);
  -- What was made from the message before its origin was known is made from that origin too. And a
  -- message that two deliveries claim has the sources of both, whatever is answered to the second.
  insert into lineage (org_id, derived_id, conversation_id, from_seq, to_seq, revision)
  select distinct org, made.id, s.conversation_id, s.from_seq, s.to_seq, null::bigint
  from (select holder as id where holder is not null
        union
        select l.derived_id from lineage l
        where l.org_id = org and l.conversation_id = p_delivery.destination_id and l.from_seq = linked.seq
          and l.to_seq is not null and (not is_edit or linked.state = 'edited')) made
  join lineage s on s.org_id = org and s.derived_id = p_delivery.id
  where made.id <> p_delivery.id;
  return is_edit or holder is null;
end $$;

-- The first half of the keys of the advisory locks that order reports; the second is the organization's.
create function earshot.lineage_lock() returns integer
language sql immutable parallel safe as $$ select 8434 $$;

-- What became of a released delivery. `delivered` may name the message that it became, which then
-- keeps its lineage; an edit became the message that it edits. `failed` sends one that is queued, and released or only
-- claimed, back to wait for its next try, until its attempts or its time are used up. The same report again changes nothing; another is a conflict, and one
-- that names a claim which was lost is fenced. An operator settles what nobody reported, whatever the fence.
create function earshot.acknowledge_delivery(p_organization text, p_delivery uuid, p_outcome text, p_message text,
  p_fence bigint default null, p_reason text default null, p_by text default 'endpoint', p_attempts integer default 5)
returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  t timestamptz;
  d earshot.deliveries;
  became text := p_message;
  is_overdue boolean;
  next_try timestamptz;
  ended text;
  step text;
begin
  select * into d from deliveries x where x.org_id = org and x.id = p_delivery;
  if not found then
    return 'not_found';
  end if;
  -- One report hands on sources that another one is just adding to: in an organization they come one after the
  -- other. Nobody else takes this lock, and it comes before all others.
  perform pg_advisory_xact_lock(lineage_lock(), (org % 2147483647)::integer);
  -- The row lock that appending takes, so that a message and the report of it, arriving together, come
  -- one after the other and the later one sees the earlier. Then the order of the protocol: the
  -- conversation's revision, the delivery.
  perform from conversations c where c.org_id = org and c.id = d.destination_id for no key update;
  perform from conversation_revisions r
  where r.org_id = org and r.conversation_id = d.destination_id for no key update;
  select * into d from deliveries x where x.org_id = org and x.id = p_delivery for no key update;
  t := clock_timestamp();

  is_overdue := d.status = 'reconciling' or (d.status = 'released' and d.acknowledge_by <= t);
  -- Also of a claim that ran out before its release.
  if (p_fence is distinct from (case when d.queued then d.fence end) and not (p_by = 'operator' and p_fence is null))
    or (p_by = 'endpoint' and d.queued and d.released_at is null and d.lease_expires_at <= t) then
    return 'fenced';
  end if;
  if d.edits is not null and p_outcome = 'delivered' then
    became := (select e.message_id from deliveries e where e.org_id = org and e.id = d.edits);
  end if;
  if became is distinct from coalesce(p_message, became) then
    return 'conflict';
  end if;
  if (d.status = p_outcome and d.message_id is not distinct from became)
    or (p_outcome = 'failed' and d.status in ('scheduled', 'dead') and d.acknowledged_at is not null) then
    return null;
  end if;
  -- What was claimed and not released may be given back: nobody was handed anything.
  if d.status not in ('released', 'reconciling') and (p_outcome = 'delivered' or d.status <> 'claimed')
    or (p_by = 'operator' and not is_overdue) then
    return 'conflict';
  end if;
  if p_outcome = 'delivered' and became is not null and not link_message(d, became) then
    return 'conflict';
  end if;
  next_try := t + least(interval '600 seconds', interval '5 seconds' * power(2, least(d.attempts - 1, 7)));
  ended := case
    when p_outcome = 'delivered' or not d.queued then p_outcome
    when d.attempts >= p_attempts or d.payload is null or next_try >= d.expires_at then 'dead'
    else 'scheduled' end;
  update deliveries x
  set status = ended, message_id = became, acknowledged_at = t,
    payload = case when ended = 'scheduled' then x.payload end,
    not_before = case when ended = 'scheduled' then next_try else x.not_before end,
    reason = case when p_outcome = 'failed'
      then coalesce(p_reason, case when ended = 'dead' and x.attempts < p_attempts
        then case when next_try >= x.expires_at then 'delivery_expired' else 'erased' end end) end
  where x.org_id = org and x.id = p_delivery;
  step := case when ended = 'dead' then 'dead' when is_overdue then 'reconcile' when ended = 'scheduled' then 'retry' end;
  if step is not null then
    perform record_delivery(org, d.id, step, null, t,
      jsonb_build_object('by', p_by, 'outcome', p_outcome, 'attempts', d.attempts));
  end if;
  return null;
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array[
    'release_delivery(text, uuid, bytea, bytea, text[], interval, bigint)',
    'claim_deliveries(text, text[], text, text[], integer, interval, integer)',
    'acknowledge_delivery(text, uuid, text, text, bigint, text, text, integer)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
