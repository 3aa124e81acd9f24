-- Delivery: one payload toward one destination, judged, and released once.
--
-- Protocol, at read committed: first a command that only locks, then a command that checks, whose
-- snapshot is newer than the locks; time is read once, after them. The locks are shared, on revision
-- rows, in one order: organization, projects, conversations by id, then turn, grant, delivery.
-- Writers keep the same order. So a change of readers either commits before and is seen, or waits and
-- comes after (INVARIANT 5).

-- The projects that decide who reads these conversations.
create function earshot.projects_of(p_org bigint, p_conversations bigint[]) returns bigint[]
language plpgsql stable as $$
begin
  return array(select distinct c.project_id from conversations c
               where c.org_id = p_org and c.id = any (p_conversations) and c.project_id is not null
               order by c.project_id);
end $$;

-- Locks what decides who reads these conversations. A conversation that moved to another project in
-- between would leave that project unlocked: the whole is tried again (40001).
create function earshot.lock_readability(p_org bigint, p_conversations bigint[]) returns void
language plpgsql volatile as $$
declare
  projects bigint[];
begin
  perform from organization_revisions r where r.org_id = p_org for share;
  projects := projects_of(p_org, p_conversations);
  perform from project_revisions r where r.org_id = p_org and r.project_id = any (projects)
  order by r.project_id for share;
  perform from conversation_revisions r where r.org_id = p_org and r.conversation_id = any (p_conversations)
  order by r.conversation_id for share;
  if projects_of(p_org, p_conversations) <> projects then
    raise exception 'a project changed while it was being locked' using errcode = '40001';
  end if;
end $$;

-- What was shown, or reported, while the locks were waited for may have brought a source of a conversation that
-- they do not hold: the whole is tried again (40001).
create function earshot.require_locked(p_conversations bigint[], p_locked bigint[]) returns void
language plpgsql immutable as $$
begin
  if not p_conversations <@ p_locked then
    raise exception 'a source came while the locks were waited for' using errcode = '40001';
  end if;
end $$;

-- The sessions of a turn: those of its grants, and the forks it worked in.
create function earshot.turn_sessions(p_org bigint, p_turn uuid) returns uuid[]
language plpgsql stable as $$
begin
  return array(
    select g.session_id from grants g where g.org_id = p_org and g.turn_id = p_turn
    union
    select f.session_id from turn_forks f where f.org_id = p_org and f.turn_id = p_turn);
end $$;

-- What these messages and artifacts were made from, where they are derived.
create function earshot.inherited_sources(p_org bigint, p_sources earshot.source[])
returns table (conversation_id bigint, from_seq bigint, to_seq bigint)
language sql stable as $$
  select distinct d.conversation_id, d.from_seq, d.to_seq
  from unnest(p_sources) s
  cross join lateral (
    select m.delivery_id as id from earshot.messages m
    where m.org_id = p_org and m.conversation_id = s.conversation_id and m.seq = s.from_seq
    union all
    select a.id from earshot.artifacts a
    where a.org_id = p_org and a.conversation_id = s.conversation_id and a.seq = s.from_seq) of
  join earshot.lineage d on d.org_id = p_org and d.derived_id = of.id
  where s.to_seq is not null
$$;

-- What a turn's sessions, and the forks it worked in, were shown, flattened: with each message and artifact that is derived, what
-- that was made from.
create function earshot.turn_sources(p_org bigint, p_turn uuid) returns earshot.source[]
language plpgsql stable as $$
declare
  shown constant earshot.source[] := array(
    select distinct row(l.conversation_id, l.from_seq, l.to_seq, l.revision)::source
    from unnest(turn_sessions(p_org, p_turn)) as worked(session_id)
    join ledger_entries l on l.org_id = p_org and l.session_id = worked.session_id);
begin
  return shown || array(
    select row(i.conversation_id, i.from_seq, i.to_seq, null)::source from inherited_sources(p_org, shown) i);
end $$;

-- Every conversation whose readability decides about these sources: their own, and those that a derived one was
-- made from.
create function earshot.conversations_of(p_org bigint, p_sources earshot.source[]) returns bigint[]
language plpgsql stable as $$
begin
  return array(
    select s.conversation_id from unnest(p_sources) s
    union
    select i.conversation_id from inherited_sources(p_org, p_sources) i);
end $$;

-- `own`: the code speaks of the turn's own destination, so a refusal for good ends the grant.
create type earshot.verdict as (code text, standing earshot.standing, changes jsonb, own boolean);

-- Question: may everyone who reads the destination now have text made from these sources?
-- For the turn's own destination by the standing that the live check found; for another one by that
-- place's own readers and bounds, if the requester reads it.
create function earshot.judge_disclosure(p_org bigint, p_turn earshot.turns, p_destination bigint,
  p_own earshot.standing, p_sources earshot.source[], p_now timestamptz) returns earshot.verdict
language plpgsql stable as $$
declare
  result earshot.verdict;
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
  result.code := judge_sources(p_org, p_sources, turn_scope(p_org, p_destination, (result.standing).readers,
    (result.standing).floor, (result.standing).extent, p_turn.requester_id, (result.standing).project_bound, null, p_now,
    conversations_of(p_org, p_sources)));
  -- What was shown of blocks for some readers only goes to nobody else. A class names no reader.
  if result.code is null and p_turn.only_for is not null and exists (
    select from unnest((result.standing).readers) r where r.kind <> 'user' or not r.external_id = any (p_turn.only_for))
  then
    result.code := 'narrowing_refused';
  end if;
  return result;
end $$;

-- Question: may this payload, proposed under this grant, go to this destination?
create function earshot.judge_proposal(p_digest bytea, p_destination bigint, p_sources earshot.source[], p_now timestamptz)
returns earshot.verdict
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
    result := judge_disclosure(live.org_id, turn, p_destination, live.standing, p_sources, p_now);
  end if;
  return result;
end $$;

-- Proposes a delivery. `held` deliveries keep no payload. A repeated key with the same request is
-- judged again; with another request it is a conflict. `code` set and no `status`: refused outright,
-- nothing stored.
create function earshot.propose_delivery(p_digest bytea, p_delivery uuid, p_destination text, p_payload bytea,
  p_content_type text, p_key text, p_request_digest bytea, p_max_age interval,
  out code text, out delivery_id uuid, out status text, out organization text, out audience_hash text,
  out expires_at text, out changes jsonb, out elsewhere boolean)
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
  v earshot.verdict;
  expiry timestamptz;
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
    select destination union select turn.destination_id union select s.conversation_id from unnest(sources) s);
  perform lock_readability(org, locked);
  select * into turn from turns t0 where t0.org_id = org and t0.id = turn.id for no key update;
  perform from grants g where g.org_id = org and g.id = held_grant for no key update;
  select * into known from deliveries d
  where d.org_id = org and d.turn_id = turn.id and d.idempotency_key = p_key for no key update;
  t := clock_timestamp();

  -- Check: each command from here on has a snapshot newer than the locks.
  if known.id is not null then
    if known.request_digest <> p_request_digest then
      code := 'conflict';
      return;
    end if;
    -- What was settled stays settled; only a clearance still waiting is judged again.
    if known.status = 'cleared' and known.expires_at <= t then
      update deliveries x set status = 'held', code = 'delivery_expired', payload = null
      where x.org_id = org and x.id = known.id
      returning x.* into known;
    end if;
    if known.status <> 'cleared' then
      delivery_id := known.id;
      code := known.code;
      status := known.status;
      organization := (select o.external_id from organizations o where o.id = org);
      elsewhere := destination <> turn.destination_id;
      return;
    end if;
  end if;
  sources := turn_sources(org, turn.id);
  perform require_locked(array(select s.conversation_id from unnest(sources) s), locked);
  v := judge_proposal(p_digest, destination, sources, t);
  changes := v.changes;
  elsewhere := destination <> turn.destination_id;
  if v.own then
    perform revoke_grant(org, held_grant, v.code, v.changes, t);
  end if;
  -- The session holds what its readers may no longer have; the next mint moves its epoch on.
  if v.code in ('source_revoked', 'source_changed') and v.own then
    update sessions s set state = 'quarantined'
    where s.org_id = org and s.state = 'open'
      and s.id in (select g.session_id from grants g where g.org_id = org and g.turn_id = turn.id);
  end if;
  -- Nothing to hold: who asks has no standing to, or names what is not there.
  if v.code in ('unknown_grant', 'grant_revoked', 'grant_expired', 'turn_not_running', 'fenced', 'lease_lost',
                'not_found') then
    code := v.code;
    insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, subject_sha256, detail)
    values (org, gen_random_uuid(), clock_timestamp(), 'propose', 'refused', propose_delivery.code, turn.id, held_grant,
      sha256(p_payload), jsonb_strip_nulls(jsonb_build_object('changes', v.changes)));
    return;
  end if;

  expiry := coalesce(known.expires_at, t + p_max_age);
  delivery_id := coalesce(known.id, p_delivery);
  status := case when v.code is null then 'cleared' else 'held' end;
  insert into deliveries (org_id, id, turn_id, grant_id, destination_id, status, code, payload, payload_sha256,
    content_type, audience_hash, mode, project_bound, policy_revision, idempotency_key, request_digest,
    proposed_at, expires_at)
  values (org, propose_delivery.delivery_id, turn.id, held_grant, destination,
    propose_delivery.status, v.code, case when v.code is null then p_payload end, sha256(p_payload), p_content_type,
    (v.standing).audience_hash, (v.standing).mode, (v.standing).project_bound, (v.standing).policy_revision,
    p_key, p_request_digest, t, expiry)
  on conflict (org_id, turn_id, idempotency_key) do update
  set status = excluded.status, code = excluded.code, payload = excluded.payload,
    grant_id = excluded.grant_id, audience_hash = excluded.audience_hash, mode = excluded.mode,
    project_bound = excluded.project_bound, policy_revision = excluded.policy_revision;
  delete from lineage l where l.org_id = org and l.derived_id = propose_delivery.delivery_id;
  insert into lineage (org_id, derived_id, conversation_id, from_seq, to_seq, revision)
  select org, propose_delivery.delivery_id, s.conversation_id, s.from_seq, s.to_seq, s.revision from unnest(sources) s;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, delivery_id, subject_sha256,
    items, audience_hash, policy_revision, detail)
  values (org, gen_random_uuid(), t, 'propose', case when v.code is null then 'allowed' else 'refused' end, v.code,
    turn.id, held_grant, propose_delivery.delivery_id, sha256(p_payload), cardinality(sources),
    (v.standing).audience_hash, (v.standing).policy_revision,
    jsonb_strip_nulls(jsonb_build_object('changes', v.changes)));
  code := v.code;
  organization := (select o.external_id from organizations o where o.id = org);
  audience_hash := encode((v.standing).audience_hash, 'hex');
  expires_at := extract(epoch from date_trunc('second', expiry))::bigint::text;
end $$;

-- Question: does everything that cleared this delivery still hold?
-- The normal end of the turn, its lease and its grant is forgiven: a queued answer may leave after
-- its turn has completed. A stop, a failure, a revocation and a newer worker are not.
create function earshot.judge_release(p_org bigint, p_delivery earshot.deliveries, p_shown text[], p_now timestamptz)
returns earshot.verdict
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
    where s.org_id = p_org and s.derived_id = p_delivery.id), p_now);
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

-- Releases a delivery, once. It hands out the bytes that were judged, and nothing on any other
-- verdict; a delivery that fails the check is held for good and its bytes are gone.
create function earshot.release_delivery(p_organization text, p_delivery uuid, p_audience_hash bytea,
  p_payload_sha256 bytea, p_shown text[], p_acknowledge_within interval,
  out code text, out destination text, out payload bytea, out content_type text, out acknowledge_by text)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org constant bigint := enter_organization(p_organization);
  t timestamptz;
  d earshot.deliveries;
  locked bigint[];
  v earshot.verdict;
begin
  select * into d from deliveries x where x.org_id = org and x.id = p_delivery;
  if not found then
    code := 'not_found';
    return;
  end if;

  -- Lock.
  locked := array(
    select d.destination_id union select t0.destination_id from turns t0 where t0.org_id = org and t0.id = d.turn_id
    union select s.conversation_id from lineage s where s.org_id = org and s.derived_id = p_delivery);
  perform lock_readability(org, locked);
  perform from turns t0 where t0.org_id = org and t0.id = d.turn_id for no key update;
  perform from grants g where g.org_id = org and g.id = d.grant_id for no key update;
  select * into d from deliveries x where x.org_id = org and x.id = p_delivery for no key update;
  t := clock_timestamp();

  -- Check.
  code := case
    when d.status in ('released', 'delivered', 'failed') then 'already_released'
    when d.status = 'discarded' then 'stopped'
    when d.status = 'held' then d.code
    when d.payload_sha256 <> p_payload_sha256 then 'payload_mismatch'
    when d.audience_hash <> p_audience_hash then 'audience_changed'
    when d.expires_at <= t then 'delivery_expired'
  end;
  if code is not null then
    if code = 'delivery_expired' then
      -- It cannot leave any more, so its bytes go.
      update deliveries x set status = 'held', code = release_delivery.code, payload = null
      where x.org_id = org and x.id = p_delivery;
    end if;
    return;
  end if;
  perform require_locked(array(
    select s.conversation_id from lineage s where s.org_id = org and s.derived_id = p_delivery), locked);
  v := judge_release(org, d, p_shown, t);
  code := v.code;
  if v.code is not null then
    if v.own then
      perform revoke_grant(org, d.grant_id, v.code, v.changes, t);
    end if;
    update deliveries x set status = 'held', code = v.code, payload = null
    where x.org_id = org and x.id = p_delivery;
  else
    -- Nobody is handed these bytes again, so they are not kept.
    update deliveries x
    set status = 'released', released_at = t, acknowledge_by = t + p_acknowledge_within, payload = null
    where x.org_id = org and x.id = p_delivery
    returning d.payload, x.content_type, rfc3339(x.acknowledge_by) into payload, content_type, acknowledge_by;
    select c.external_id into destination from conversations c where c.org_id = org and c.id = d.destination_id;
  end if;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, delivery_id, subject_sha256,
    audience_hash, policy_revision, detail)
  values (org, gen_random_uuid(), t, 'release', case when v.code is null then 'allowed' else 'refused' end, v.code,
    d.turn_id, d.grant_id, d.id, d.payload_sha256, (v.standing).audience_hash, (v.standing).policy_revision,
    jsonb_strip_nulls(jsonb_build_object('changes', v.changes)));
end $$;

-- The first half of the keys of the advisory locks that order reports; the second is the organization's.
create function earshot.lineage_lock() returns integer
language sql immutable parallel safe as $$ select 8434 $$;

-- What became of a released delivery. `delivered` may name the message that it became, which then
-- keeps its lineage. The same report again changes nothing; another is a conflict.
create function earshot.acknowledge_delivery(p_organization text, p_delivery uuid, p_outcome text, p_message text)
returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  d earshot.deliveries;
  linked bigint;
  holder uuid;
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
  if d.status = p_outcome and d.message_id is not distinct from p_message then
    return null;
  end if;
  if d.status <> 'released' then
    return 'conflict';
  end if;
  if p_outcome = 'delivered' and p_message is not null then
    select m.seq into linked from messages m
    where m.org_id = org and m.conversation_id = d.destination_id and m.external_id = p_message;
    select x.id into holder from deliveries x
    where x.org_id = org and x.destination_id = d.destination_id and x.message_id = p_message and x.id <> p_delivery;
    -- Who wrote it does not matter: a link only narrows, and the platform may name a bot as the author.
    update messages m set delivery_id = p_delivery
    where m.org_id = org and m.conversation_id = d.destination_id and m.seq = linked
      and m.delivery_id is null and holder is null;
    -- What was made from the message before its origin was known is made from that origin too. And a
    -- message that two deliveries claim has the sources of both, whatever is answered to the second.
    insert into lineage (org_id, derived_id, conversation_id, from_seq, to_seq, revision)
    select distinct org, made.id, s.conversation_id, s.from_seq, s.to_seq, null::bigint
    from (select holder as id where holder is not null
          union
          select l.derived_id from lineage l
          where l.org_id = org and l.conversation_id = d.destination_id and l.from_seq = linked
            and l.to_seq is not null) made
    join lineage s on s.org_id = org and s.derived_id = p_delivery
    where made.id <> p_delivery;
    if holder is not null then
      return 'conflict';
    end if;
  end if;
  update deliveries x set status = p_outcome, message_id = p_message, acknowledged_at = clock_timestamp()
  where x.org_id = org and x.id = p_delivery;
  return null;
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
    'propose_delivery(bytea, uuid, text, bytea, text, text, bytea, interval)',
    'release_delivery(text, uuid, bytea, bytea, text[], interval)',
    'acknowledge_delivery(text, uuid, text, text)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
