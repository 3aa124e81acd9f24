-- Delivery: one payload toward one destination, judged, and released once.
--
-- Protocol, at read committed: first a command that only locks, then a command that checks, whose
-- snapshot is newer than the locks; time is read once, after them. The locks are shared, on revision
-- rows, in one order: organization, projects, conversations by id, then turn, grant, delivery, and last, shared
-- too, the releases by owners (0025) of the bytes that are delivered. Writers keep the same order; so does an
-- owner who answers, who takes the conversations that the answer is for, and then the release. So a change of
-- readers, or a yes taken back, either commits before and is seen, or waits and comes after (INVARIANT 5).

-- `own`: the code speaks of the turn's own destination, so a refusal for good ends the grant.
create type earshot.verdict as (code text, standing earshot.standing, changes jsonb, own boolean);

-- What everyone who reads a destination has of these sources, within the bounds of its mode.
create function earshot.disclosure_scope(p_org bigint, p_turn earshot.turns, p_destination bigint,
  p_standing earshot.standing, p_sources earshot.source[], p_now timestamptz) returns earshot.scope
language plpgsql stable as $$
begin
  return turn_scope(p_org, p_destination, p_standing.readers, p_standing.floor, p_standing.extent, p_turn.requester_id,
    p_standing.project_bound, null, p_now, conversations_of(p_org, p_sources));
end $$;

-- Question: may everyone who reads the destination now have text made from these sources?
-- For the turn's own destination by the standing that the live check found; for another one by that
-- place's own readers and bounds, if the requester reads it. With releases by owners, which are locked, the text is the
-- artifact that they are of, and what they cover is forgiven.
create function earshot.judge_disclosure(p_org bigint, p_turn earshot.turns, p_destination bigint,
  p_own earshot.standing, p_sources earshot.source[], p_now timestamptz, p_releases uuid[] default null)
returns earshot.verdict
language plpgsql stable as $$
declare
  result earshot.verdict;
  extent earshot.scope;
begin
  result.own := p_destination = p_turn.destination_id;
  if result.own then
    result.standing := p_own;
  else
    -- INVARIANT 16: whatever state it is in, a place that the requester does not read is not there.
    if not reads(p_org, p_turn.requester_id, p_destination, p_now) then
      result.code := 'not_found';
      return result;
    end if;
    result.standing := judge_turn(p_org, p_turn.persona_id, p_destination, p_turn.requester_id, 'disclosure', null,
      p_turn.id, p_now);
    result.code := (result.standing).code;
    if result.code is not null then
      return result;
    end if;
  end if;
  extent := disclosure_scope(p_org, p_turn, p_destination, result.standing, p_sources, p_now);
  result.code := case when p_releases is null then judge_sources(p_org, p_sources, extent)
    else judge_released(p_org, p_releases, p_sources, extent, (result.standing).readers, p_now) end;
  -- What was shown of blocks for some readers only goes to nobody else. A class names no reader.
  if result.code is null and p_turn.only_for is not null and exists (
    select from unnest((result.standing).readers) r where r.kind <> 'user' or not r.external_id = any (p_turn.only_for))
  then
    result.code := 'narrowing_refused';
  end if;
  return result;
end $$;

-- Question: may this payload, proposed under this grant, go to this destination?
create function earshot.judge_proposal(p_digest bytea, p_destination bigint, p_sources earshot.source[], p_now timestamptz,
  p_releases uuid[] default null) returns earshot.verdict
language plpgsql stable as $$
declare
  result earshot.verdict;
  live earshot.live := live_check(p_digest, null, p_now);
  turn earshot.turns;
begin
  result.standing := live.standing;
  result.code := live.code;
  result.changes := live.changes;
  result.own := true;
  if result.code is null then
    select * into turn from turns t where t.org_id = live.org_id and t.id = live.turn_id;
    result := judge_disclosure(live.org_id, turn, p_destination, live.standing, p_sources, p_now, p_releases);
  end if;
  return result;
end $$;

-- What moved since a person approved this delivery: null, or the refusal. An approval is of these bytes, this place and
-- these readers, and is void for any others.
create function earshot.judge_approval(p_delivery earshot.deliveries, p_destination bigint, p_audience_hash bytea)
returns text
language sql immutable as $$
  select case
    when (p_delivery).approved_at is null then null
    when (p_delivery).approved_sha256 is distinct from sha256((p_delivery).payload) then 'payload_mismatch'
    when (p_delivery).approved_destination is distinct from p_destination
      or (p_delivery).approved_audience is distinct from p_audience_hash then 'audience_changed'
  end
$$;

-- Proposes a delivery, as it is wished for: `queue`, `sendAt`, `approval`, `edits`. `held` deliveries keep no payload. A
-- repeated key with the same request is judged again; with another request it is a conflict. `code` set and no `state`:
-- refused outright, nothing stored.
create function earshot.propose_delivery(p_digest bytea, p_delivery uuid, p_destination text, p_payload bytea,
  p_content_type text, p_key text, p_request_digest bytea, p_max_age interval, p_queue_age interval, p_wishes jsonb,
  out code text, out state jsonb, out organization text, out audience_hash text, out expires_at text, out changes jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz;
  org bigint;
  turn earshot.turns;
  live earshot.live;
  held_grant uuid;
  destination bigint;
  sources earshot.source[];
  locked bigint[];
  known earshot.deliveries;
  releases uuid[];
  released record;
  v earshot.verdict;
  made earshot.deliveries;
  outright constant text[] := array['unknown_grant', 'grant_revoked', 'grant_expired', 'turn_not_running', 'fenced',
    'lease_lost', 'not_found', 'invalid_input'];
  edited constant uuid := p_wishes ->> 'edits';
  earliest constant timestamptz := p_wishes ->> 'sendAt';
  waits boolean;
  is_queued boolean;
begin
  perform enter_grant(p_digest);
  select g.org_id, g.id into org, held_grant from grants g where g.digest = p_digest;
  if not found then
    code := 'unknown_grant';
    return;
  end if;
  select t0.* into turn from turns t0 join grants g on g.org_id = t0.org_id and g.turn_id = t0.id
  where g.org_id = org and g.id = held_grant;
  select c.id into destination from conversations c
  where c.org_id = org and c.external_id = p_destination and not c.deleted and not c.staged
    and (c.id = turn.destination_id or reads(org, turn.requester_id, c.id, clock_timestamp()));
  if not found then
    -- The grant speaks first, so that one which has ended tells nothing about what exists.
    live := live_check(p_digest, null, clock_timestamp());
    code := coalesce(live.code, 'not_found');
    perform revoke_grant(org, held_grant, live.code, live.changes, clock_timestamp());
    insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, subject_sha256, detail)
    values (org, gen_random_uuid(), clock_timestamp(), 'propose', 'refused', propose_delivery.code, turn.id, held_grant,
      sha256(p_payload), jsonb_strip_nulls(jsonb_build_object('changes', live.changes)));
    return;
  end if;

  -- Lock.
  sources := turn_sources(org, turn.id);
  locked := array(
    select destination union select turn.destination_id union select s.conversation_id from unnest(sources) s
    union select unnest(conversations_of_releases(org, releases_of(org, sha256(p_payload)))));
  perform lock_readability(org, locked);
  select * into turn from turns t0 where t0.org_id = org and t0.id = turn.id for no key update;
  perform from grants g where g.org_id = org and g.id = held_grant for no key update;
  select * into known from deliveries d
  where d.org_id = org and d.turn_id = turn.id and d.idempotency_key = p_key for no key update;
  releases := lock_releases(org, sha256(p_payload));
  t := clock_timestamp();

  -- Check: each command from here on has a snapshot newer than the locks.
  if known.id is not null then
    if known.request_digest <> p_request_digest then
      code := 'conflict';
      return;
    end if;
    -- What was settled stays settled, and a worker's is the worker's; only what waits is judged again.
    if known.status in ('cleared', 'scheduled', 'waiting') and known.expires_at <= t then
      known := hold_delivery(org, known.id, 'delivery_expired');
    end if;
    if known.status not in ('cleared', 'scheduled', 'waiting') then
      state := delivery_state(org, known.id, t);
      return;
    end if;
  end if;
  sources := turn_sources(org, turn.id);
  perform require_locked(array(select s.conversation_id from unnest(sources) s)
    || conversations_of_releases(org, releases), locked);
  -- The bytes of an artifact that its owners released for these readers go by that; others by the ledger.
  released := judge_by_release(org, p_digest, destination, releases, t);
  if released.artifact_id is not null then
    sources := released.sources;
    v := released.verdict;
  else
    v := judge_proposal(p_digest, destination, sources, t);
  end if;
  changes := v.changes;
  if v.own then
    perform revoke_grant(org, held_grant, v.code, v.changes, t);
  end if;
  -- The session holds what its readers may no longer have; the next mint moves its epoch on.
  if v.code in ('source_revoked', 'source_changed') and v.own then
    update sessions s set state = 'quarantined'
    where s.org_id = org and s.state = 'open'
      and s.id in (select g.session_id from grants g where g.org_id = org and g.turn_id = turn.id);
  end if;
  v.code := case
    when v.code = any (outright) then v.code
    when earliest > t + p_queue_age then 'invalid_input'
    when edited is not null and not exists (
      select from deliveries e
      join turns t0 on t0.org_id = org and t0.id = e.turn_id
      where e.org_id = org and e.id = edited and e.destination_id = destination and e.status = 'delivered'
        and e.message_id is not null and t0.persona_id = turn.persona_id) then 'not_found'
    else coalesce(v.code, judge_approval(known, destination, (v.standing).audience_hash))
  end;
  -- Nothing to hold: who asks has no standing to, or names what is not there.
  if v.code = any (outright) then
    code := v.code;
    insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, subject_sha256, detail)
    values (org, gen_random_uuid(), clock_timestamp(), 'propose', 'refused', propose_delivery.code, turn.id, held_grant,
      sha256(p_payload), jsonb_strip_nulls(jsonb_build_object('changes', v.changes)));
    return;
  end if;

  -- What has to be approved is queued from then on, and nothing lifts that: neither a repeat, nor another fact.
  waits := coalesce(known.needs_approval, false) or coalesce((p_wishes ->> 'approval')::boolean, false) or exists (
    select from personas a where a.org_id = org and a.id = turn.persona_id
      and (a.approval = 'always' or (a.approval = 'elsewhere' and destination <> turn.destination_id)));
  is_queued := waits or earliest is not null or coalesce((p_wishes ->> 'queue')::boolean, false);
  insert into deliveries (org_id, id, turn_id, grant_id, destination_id, status, code, payload, payload_sha256,
    content_type, audience_hash, mode, project_bound, policy_revision, idempotency_key, request_digest,
    proposed_at, expires_at, artifact_id, queued, not_before, needs_approval, edits)
  values (org, coalesce(known.id, p_delivery), turn.id, held_grant, destination, case
      when v.code is not null then 'held'
      when waits and known.approved_at is null then 'waiting'
      when coalesce(known.not_before, earliest) > t then 'scheduled'
      else 'cleared' end,
    v.code, case when v.code is null then p_payload end, sha256(p_payload), p_content_type,
    (v.standing).audience_hash, (v.standing).mode, (v.standing).project_bound, (v.standing).policy_revision,
    p_key, p_request_digest, t, coalesce(known.proposed_at, t) + case when is_queued then p_queue_age else p_max_age end,
    released.artifact_id, is_queued, earliest, waits, edited)
  on conflict (org_id, turn_id, idempotency_key) do update
  set status = excluded.status, code = excluded.code, payload = excluded.payload,
    grant_id = excluded.grant_id, audience_hash = excluded.audience_hash, mode = excluded.mode,
    project_bound = excluded.project_bound, policy_revision = excluded.policy_revision,
    artifact_id = excluded.artifact_id, queued = excluded.queued, needs_approval = excluded.needs_approval,
    expires_at = excluded.expires_at
  returning * into made;
  delete from lineage l where l.org_id = org and l.derived_id = made.id;
  insert into lineage (org_id, derived_id, conversation_id, from_seq, to_seq, revision)
  select org, made.id, s.conversation_id, s.from_seq, s.to_seq, s.revision from unnest(sources) s;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, delivery_id, subject_sha256,
    items, audience_hash, policy_revision, detail)
  values (org, gen_random_uuid(), t, 'propose', case when v.code is null then 'allowed' else 'refused' end, v.code,
    turn.id, held_grant, made.id, sha256(p_payload), cardinality(sources),
    (v.standing).audience_hash, (v.standing).policy_revision,
    jsonb_strip_nulls(jsonb_build_object('changes', v.changes, 'artifact', released.artifact_id)));
  perform expire_deliveries(org, t, 4);
  state := delivery_state(org, made.id, t);
  organization := (select o.external_id from organizations o where o.id = org);
  audience_hash := encode((v.standing).audience_hash, 'hex');
  expires_at := extract(epoch from date_trunc('second', made.expires_at))::bigint::text;
end $$;

-- Question: does everything that cleared this delivery still hold?
-- The normal end of the turn, its lease and its grant is forgiven: a queued answer may leave after
-- its turn has completed. A stop, a failure, a revocation and a newer worker are not.
create function earshot.judge_release(p_org bigint, p_delivery earshot.deliveries, p_shown text[], p_now timestamptz,
  p_releases uuid[] default null) returns earshot.verdict
language plpgsql stable as $$
declare
  result earshot.verdict;
  own earshot.standing;
  turn earshot.turns;
  g earshot.grants;
begin
  select * into turn from turns t where t.org_id = p_org and t.id = p_delivery.turn_id;
  select * into g from grants x where x.org_id = p_org and x.id = p_delivery.grant_id;
  result.own := true;
  result.code := case
    when g.revoked_at is not null then coalesce(g.revoked_code, 'grant_revoked')
    when turn.state = 'stopped' then 'stopped'
    when turn.state not in ('running', 'completed') then 'turn_not_running'
    when turn.lease_fence > g.lease_fence then 'fenced'
  end;
  if result.code is not null then
    return result;
  end if;
  own := judge_turn(p_org, turn.persona_id, turn.destination_id, turn.requester_id, turn.trigger, turn.trigger_seq,
    turn.id, p_now);
  if own.audience_hash is distinct from g.audience_hash and own.readers is not null then
    result.changes := audience_changes(g.readers, reader_list(own.readers));
  end if;
  result.standing := own;
  result.code := coalesce(own.code, case
    when own.mode is distinct from g.mode or own.project_bound is distinct from g.project_bound then 'mode_changed'
    when own.policy_revision is distinct from g.policy_revision then 'policy_changed'
    when own.audience_hash is distinct from g.audience_hash then 'audience_changed'
  end);
  if result.code is not null then
    return result;
  end if;
  result := judge_disclosure(p_org, turn, p_delivery.destination_id, own, array(
    select row(s.conversation_id, s.from_seq, s.to_seq, s.revision)::source from lineage s
    where s.org_id = p_org and s.derived_id = p_delivery.id), p_now, p_releases);
  result.code := coalesce(result.code, case
    when (result.standing).mode is distinct from p_delivery.mode
      or (result.standing).project_bound is distinct from p_delivery.project_bound then 'mode_changed'
    when (result.standing).policy_revision is distinct from p_delivery.policy_revision then 'policy_changed'
    when (result.standing).audience_hash is distinct from p_delivery.audience_hash then 'audience_changed'
    -- A reader that the platform shows and the gateway did not judge. The list can refuse, never permit.
    when exists (
      select from unnest(p_shown) shown(name)
      left join users u on u.org_id = p_org and u.external_id = shown.name
      where u.id is null or not reads(p_org, u.id, p_delivery.destination_id, p_now))
      then 'audience_changed'
  end);
  return result;
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  grant delete on earshot.lineage to earshot_scoped;
  foreach signature in array array[
    'propose_delivery(bytea, uuid, text, bytea, text, text, bytea, interval, interval, jsonb)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
