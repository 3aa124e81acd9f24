-- What people and operators do with a delivery that has not left: approve it, discard it, look at it.

-- How a delivery stands at a moment. What waited too long is held from then on, and a release that nobody acknowledged in time
-- reconciling, whether or not somebody has written that down yet.
create function earshot.status_of(p_status text, p_expires_at timestamptz, p_acknowledge_by timestamptz, p_now timestamptz)
returns text
language sql immutable parallel safe as $$
  select case
    when p_status in ('cleared', 'scheduled', 'waiting', 'claimed') and p_expires_at <= p_now then 'held'
    when p_status = 'released' and p_acknowledge_by <= p_now then 'reconciling'
    else p_status end
$$;

-- A delivery as it stands, without its payload.
create function earshot.delivery_state(p_org bigint, p_delivery uuid, p_now timestamptz) returns jsonb
language plpgsql stable as $$
begin
  return (select jsonb_strip_nulls(jsonb_build_object(
      'id', d.id, 'status', s.status, 'destination', c.external_id, 'elsewhere', d.destination_id <> t.destination_id,
      'code', case when s.status = 'held' then case when d.status = 'held' then d.code else 'delivery_expired' end end,
      'payloadSha256', encode(d.payload_sha256, 'hex'), 'queued', d.queued, 'expiresAt', rfc3339(d.expires_at),
      'sendAt', rfc3339(d.not_before), 'attempts', case when d.queued then d.attempts end,
      'approval', case when d.needs_approval then
        jsonb_build_object('by', d.approved_by, 'at', rfc3339(d.approved_at)) end,
      'edits', d.edits, 'reason', d.reason, 'message', d.message_id))
    from deliveries d
    join turns t on t.org_id = d.org_id and t.id = d.turn_id
    join conversations c on c.org_id = d.org_id and c.id = d.destination_id
    cross join lateral (select status_of(d.status, d.expires_at, d.acknowledge_by, p_now) as status) s
    where d.org_id = p_org and d.id = p_delivery);
end $$;

-- Question: where could this delivery go instead, which was held for a source that not every reader may have?
-- To a private thread of its requester's own, never shared and read by nobody else, in which every source may be
-- read now. A few of the newest are tried.
create function earshot.smaller_destinations(p_org bigint, p_delivery uuid, p_now timestamptz) returns setof text
language plpgsql stable as $$
declare
  turn earshot.turns;
  own earshot.standing;
  sources earshot.source[];
  place record;
  v earshot.verdict;
begin
  select t.* into turn from deliveries d join turns t on t.org_id = d.org_id and t.id = d.turn_id
  where d.org_id = p_org and d.id = p_delivery;
  own := judge_turn(p_org, turn.persona_id, turn.destination_id, turn.requester_id, turn.trigger, turn.trigger_seq,
    turn.id, p_now);
  sources := array(select row(s.conversation_id, s.from_seq, s.to_seq, s.revision)::source from lineage s
    where s.org_id = p_org and s.derived_id = p_delivery);
  for place in
    select c.id, c.external_id from memberships m
    join conversations c on c.org_id = m.org_id and c.id = m.conversation_id
    where m.org_id = p_org and m.user_id = turn.requester_id and c.owner_id = turn.requester_id
      and c.ai_thread and not c.ever_shared
    order by c.id desc limit 5
  loop
    v := judge_disclosure(p_org, turn, place.id, own, sources, p_now);
    if v.code is null and (v.standing).code is null and (v.standing).mode = 'private' then
      return next place.external_id;
    end if;
  end loop;
end $$;

-- A delivery of a persona that the caller is registered for, or null. `p_offers`: with where a held one could go instead.
create function earshot.show_delivery(p_organization text, p_personas text[], p_delivery uuid, p_offers boolean) returns jsonb
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  t constant timestamptz := clock_timestamp();
  state jsonb;
begin
  if not exists (select from deliveries d
    where d.org_id = org and d.id = p_delivery and serves_turn(org, d.turn_id, p_personas)) then
    return null;
  end if;
  state := delivery_state(org, p_delivery, t);
  if p_offers and state ->> 'code' = 'source_revoked' then
    state := state || jsonb_build_object('smaller', array(select smaller_destinations(org, p_delivery, t)));
  end if;
  return state;
end $$;

-- Deliveries, the newest first, from after another one in that order. Index: deliveries_by_status, once for each status that is
-- kept for those that stand as asked.
create function earshot.list_deliveries(p_organization text, p_personas text[], p_status text, p_destination text,
  p_limit integer, p_after uuid) returns setof jsonb
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  t constant timestamptz := clock_timestamp();
  after_at constant timestamptz := (select d.proposed_at from deliveries d where d.org_id = org and d.id = p_after);
  place constant bigint := (select c.id from conversations c where c.org_id = org and c.external_id = p_destination);
  every constant text[] := array['cleared', 'scheduled', 'waiting', 'claimed', 'held', 'released', 'reconciling', 'delivered',
    'failed', 'dead', 'discarded'];
  kept constant text[] := case
    when p_status is null then every
    when p_status = 'held' then every[1:5]
    when p_status = 'reconciling' then every[6:7]
    else array[p_status] end;
begin
  return query
    select delivery_state(org, d.id, t)
    from unnest(kept) k(status)
    cross join lateral (
      select x.id, x.proposed_at from deliveries x
      where x.org_id = org and x.status = k.status
        and (p_status is null or status_of(x.status, x.expires_at, x.acknowledge_by, t) = p_status)
        and (p_after is null or (x.proposed_at, x.id) < (after_at, p_after))
        and (p_destination is null or x.destination_id = place)
        and serves_turn(org, x.turn_id, p_personas)
      order by x.proposed_at desc, x.id desc limit p_limit) d
    order by d.proposed_at desc, d.id desc limit p_limit;
end $$;

-- Approves a delivery that waits for it: an operator, or with `p_person` the turn's requester or the destination's owner, who
-- has to read the destination now. It is judged as a release is, under the same locks, and goes on or is held.
-- What was approved is put down with it: these bytes, this place, these readers. Again, it changes nothing.
create function earshot.approve_delivery(p_organization text, p_personas text[], p_delivery uuid, p_payload_sha256 bytea,
  p_approver text, p_person boolean, out code text, out state jsonb, out changes jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org constant bigint := enter_organization(p_organization);
  t timestamptz;
  locked record;
  d earshot.deliveries;
  who text := 'operator';
  v earshot.verdict;
begin
  locked := lock_delivery(org, p_delivery);
  d := locked.delivery;
  t := clock_timestamp();
  if p_person then
    who := (
      select case u.id when tu.requester_id then 'requester' when c.owner_id then 'owner' end
      from users u
      join turns tu on tu.org_id = org and tu.id = d.turn_id
      join conversations c on c.org_id = org and c.id = d.destination_id
      where u.org_id = org and u.external_id = p_approver and reads(org, u.id, d.destination_id, t));
  end if;
  if d.id is null or who is null or not serves_turn(org, d.turn_id, p_personas) then
    code := 'not_found';
    return;
  end if;
  code := case
    when d.payload_sha256 <> p_payload_sha256 then 'payload_mismatch'
    when d.status <> 'waiting' and d.approved_at is null then 'conflict'
  end;
  if code is not null then
    perform record_delivery(org, d.id, 'approve', code, t, jsonb_build_object('by', who));
    return;
  end if;
  if d.status = 'waiting' then
    if d.expires_at <= t then
      v.code := 'delivery_expired';
    elsif sha256(d.payload) is distinct from d.payload_sha256 then
      v.code := 'payload_mismatch';
    else
      v := judge_release(org, d, null, t, locked.releases);
      changes := v.changes;
      if v.code is not null and v.own then
        perform revoke_grant(org, d.grant_id, v.code, v.changes, t);
      end if;
    end if;
    if v.code is not null then
      perform hold_delivery(org, d.id, v.code);
    else
      update deliveries x
      set status = case when x.not_before > t then 'scheduled' else 'cleared' end, approved_by = who, approver = p_approver,
        approved_at = t, approved_sha256 = x.payload_sha256, approved_destination = x.destination_id,
        approved_audience = x.audience_hash
      where x.org_id = org and x.id = p_delivery;
    end if;
    perform record_delivery(org, d.id, 'approve', v.code, t, jsonb_build_object('by', who, 'changes', v.changes));
  end if;
  state := delivery_state(org, d.id, t);
end $$;

-- Discards a delivery that has not left. Its bytes go, and nobody releases it any more. Again, it changes nothing.
create function earshot.discard_delivery(p_organization text, p_personas text[], p_delivery uuid, p_by text,
  out code text, out state jsonb)
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  t timestamptz;
  d earshot.deliveries;
begin
  select * into d from deliveries x where x.org_id = org and x.id = p_delivery for no key update;
  t := clock_timestamp();
  if d.id is null or not serves_turn(org, d.turn_id, p_personas) then
    code := 'not_found';
    return;
  end if;
  if d.status not in ('cleared', 'scheduled', 'waiting', 'claimed', 'held', 'discarded') then
    code := 'conflict';
    return;
  end if;
  if d.status <> 'discarded' then
    update deliveries x set status = 'discarded', payload = null where x.org_id = org and x.id = p_delivery;
    perform record_delivery(org, d.id, 'discard', null, t, jsonb_build_object('by', p_by));
  end if;
  state := delivery_state(org, d.id, t);
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array[
    'show_delivery(text, text[], uuid, boolean)',
    'list_deliveries(text, text[], text, text, integer, uuid)',
    'approve_delivery(text, text[], uuid, bytea, text, boolean)',
    'discard_delivery(text, text[], uuid, text)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
