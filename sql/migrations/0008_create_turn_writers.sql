-- Turns, leases and grants: what moves them. Each takes the turn's row lock first, so two workers at
-- one turn come one after the other, and the fence says which is the newer.
--
-- `p_personas` names the personas the caller is registered for ('*': every one); a turn of another
-- one is not found (INVARIANT 16).
--
-- What each operation does in each state is one table, in docs/turns.md, and is tested cell by cell.

create function earshot.serves(p_personas text[], p_persona text) returns boolean
language sql immutable as $$
  select coalesce('*' = any (p_personas) or p_persona = any (p_personas), false)
$$;

-- A turn of a persona that the caller serves, its row locked; all null where there is none.
create function earshot.lock_turn(p_org bigint, p_personas text[], p_turn uuid) returns earshot.turns
language plpgsql volatile as $$
declare
  turn earshot.turns;
begin
  select * into turn from turns t
  where t.org_id = p_org and t.id = p_turn
    and exists (select from personas a where a.org_id = p_org and a.id = t.persona_id
                and serves(p_personas, a.external_id))
  for no key update;
  return turn;
end $$;

-- Records what was decided about the course of a turn (INVARIANT 17). What is not there has no name.
create function earshot.record_step(p_org bigint, p_kind text, p_code text, p_turn earshot.turns, p_fence bigint)
returns uuid
language plpgsql volatile as $$
declare
  decision constant uuid := gen_random_uuid();
begin
  if p_org is null then
    return null;
  end if;
  insert into decisions (org_id, id, kind, verdict, code, turn_id, detail)
  values (p_org, decision, p_kind, case when p_code is null then 'allowed' else 'refused' end, p_code, p_turn.id,
    jsonb_strip_nulls(jsonb_build_object('fence', p_fence::text)));
  return decision;
end $$;

-- Opens a turn. The same key and request give the same turn; the same key with another request is a
-- conflict. Everything that a mint will ask is asked here first, also of a repeated request, so a
-- turn that could never have a grant is refused at once.
create function earshot.open_turn(p_organization text, p_turn uuid, p_client text, p_personas text[],
  p_key text, p_request_digest bytea, p_request jsonb, p_lifetime interval,
  out code text, out turn_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org constant bigint := enter_organization(p_organization);
  t constant timestamptz := clock_timestamp();
  persona earshot.personas;
  destination bigint;
  requester bigint;
  known record;
  standing earshot.standing;
begin
  if org is null then
    code := 'not_found';
    return;
  end if;
  select t0.id, t0.request_digest into known from turns t0
  where t0.org_id = org and t0.client_id = p_client and t0.idempotency_key = p_key;
  select * into persona from personas a where a.org_id = org and a.external_id = p_request ->> 'persona';
  select c.id into destination from conversations c
  where c.org_id = org and c.external_id = p_request ->> 'destination' and not c.deleted and not c.staged;
  select u.id into requester from users u
  where u.org_id = org and u.external_id = p_request ->> 'requester' and u.status = 'active';
  code := case
    when known.request_digest <> p_request_digest then 'conflict'
    when persona.id is null or not serves(p_personas, persona.external_id) then 'persona_not_designated'
    -- An older client acts with a person's own credential and takes no turn here.
    when persona.custody <> 'service' then 'invalid_input'
    -- INVARIANT 16: whatever state it is in, a destination that the requester does not read is not there.
    when destination is null or requester is null or not reads(org, requester, destination, t) then 'not_found'
  end;
  if code is null then
    standing := judge_turn(org, persona.id, destination, requester, p_request ->> 'trigger',
      (p_request ->> 'triggerSeq')::bigint, coalesce(known.id, p_turn), t);
    -- A thread trigger toward no AI thread was never valid.
    code := case standing.code when 'mode_changed' then 'invalid_input' else standing.code end;
  end if;
  turn_id := case when code is null then coalesce(known.id, p_turn) end;
  if code is null and known.id is null then
    insert into turns (org_id, id, persona_id, destination_id, requester_id, trigger, trigger_seq, tools,
      thread_key, expires_at, client_id, idempotency_key, request_digest)
    values (org, p_turn, persona.id, destination, requester, p_request ->> 'trigger',
      (p_request ->> 'triggerSeq')::bigint,
      array(select jsonb_array_elements_text(p_request -> 'tools')),
      coalesce(p_request ->> 'threadKey', p_request ->> 'destination'), t + p_lifetime, p_client, p_key, p_request_digest)
    on conflict (org_id, client_id, idempotency_key) do nothing;
    if not found then
      -- Another request with this key was first and has committed. This one is a repetition of it, or its conflict.
      select o.code, o.turn_id into open_turn.code, open_turn.turn_id
      from open_turn(p_organization, p_turn, p_client, p_personas, p_key, p_request_digest, p_request, p_lifetime) o;
      return;
    end if;
  end if;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, audience_hash, policy_revision, detail)
  values (org, gen_random_uuid(), t, 'open', case when code is null then 'allowed' else 'refused' end, code,
    open_turn.turn_id, standing.audience_hash, standing.policy_revision, noted_standing(standing, coalesce(code, 'open')));
end $$;

-- Takes the lease of a turn that is open, or whose lease has expired. The fence grows by one.
create function earshot.take_lease(p_organization text, p_personas text[], p_turn uuid, p_owner text,
  p_duration interval, out code text, out lease_id uuid, out fence bigint, out expires_at text, out decision_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org constant bigint := enter_organization(p_organization);
  turn constant earshot.turns := lock_turn(org, p_personas, p_turn);
  -- After the lock, which may have been waited for.
  t constant timestamptz := clock_timestamp();
begin
  code := case
    when turn.id is null then 'not_found'
    when turn.state not in ('open', 'running') or turn.expires_at <= t then 'turn_not_running'
    when turn.lease_expires_at > t then 'lease_lost'
  end;
  if code is null then
    lease_id := gen_random_uuid();
    fence := turn.lease_fence + 1;
    update turns t0
    set state = 'running', lease_id = take_lease.lease_id, lease_owner = p_owner, lease_fence = fence,
      lease_expires_at = least(t + p_duration, turn.expires_at)
    where t0.org_id = org and t0.id = p_turn
    returning rfc3339(t0.lease_expires_at) into expires_at;
  end if;
  decision_id := record_step(org, 'lease', code, turn, coalesce(fence, turn.lease_fence));
end $$;

-- Why a worker's hold on a turn does not stand, or null when it does.
create function earshot.judge_lease(p_turn earshot.turns, p_lease uuid, p_owner text, p_fence bigint, p_now timestamptz)
returns text
language sql immutable as $$
  select case
    when (p_turn).id is null then 'not_found'
    when (p_turn).state <> 'running' or (p_turn).expires_at <= p_now then 'turn_not_running'
    when (p_turn).lease_fence > p_fence then 'fenced'
    when (p_turn).lease_id is distinct from p_lease or (p_turn).lease_owner is distinct from p_owner
      or (p_turn).lease_fence <> p_fence or (p_turn).lease_expires_at is null
      or (p_turn).lease_expires_at <= p_now then 'lease_lost'
  end
$$;

-- Extends a lease that is still held.
create function earshot.extend_lease(p_organization text, p_personas text[], p_turn uuid, p_lease uuid,
  p_owner text, p_fence bigint, p_duration interval, out code text, out expires_at text, out decision_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org constant bigint := enter_organization(p_organization);
  turn constant earshot.turns := lock_turn(org, p_personas, p_turn);
  t constant timestamptz := clock_timestamp();
begin
  code := judge_lease(turn, p_lease, p_owner, p_fence, t);
  if code is null then
    update turns t0 set lease_expires_at = least(t + p_duration, turn.expires_at)
    where t0.org_id = org and t0.id = p_turn
    returning rfc3339(t0.lease_expires_at) into expires_at;
  end if;
  decision_id := record_step(org, 'heartbeat', code, turn, p_fence);
end $$;

-- Ends a turn: 'completed' or 'failed' by the worker that holds it.
create function earshot.end_turn(p_organization text, p_personas text[], p_turn uuid, p_lease uuid,
  p_owner text, p_fence bigint, p_state text, out code text, out decision_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org constant bigint := enter_organization(p_organization);
  turn constant earshot.turns := lock_turn(org, p_personas, p_turn);
  t constant timestamptz := clock_timestamp();
begin
  if p_state not in ('completed', 'failed') then
    code := 'invalid_input';
    return;
  end if;
  code := judge_lease(turn, p_lease, p_owner, p_fence, t);
  if code is null then
    update turns t0 set state = p_state where t0.org_id = org and t0.id = p_turn;
  end if;
  decision_id := record_step(org, case p_state when 'failed' then 'fail' else 'complete' end, code, turn, p_fence);
end $$;

-- Stops a turn from outside, whoever holds it, also one that has completed or whose time is over: its
-- waiting deliveries stay. One that is stopped stays so, and one that failed has nothing to stop.
create function earshot.stop_turn(p_organization text, p_personas text[], p_turn uuid, out code text, out decision_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org constant bigint := enter_organization(p_organization);
  turn constant earshot.turns := lock_turn(org, p_personas, p_turn);
begin
  code := case
    when turn.id is null then 'not_found'
    when turn.state not in ('open', 'running', 'completed', 'stopped') then 'turn_not_running'
  end;
  if code is null then
    update turns t0 set state = 'stopped' where t0.org_id = org and t0.id = p_turn;
  end if;
  decision_id := record_step(org, 'stop', code, turn, turn.lease_fence);
end $$;

-- Opens the session's row, its log with a resident agent, and its ledger, which begins with the destination itself.
create function earshot.open_session(p_org bigint, p_session uuid, p_turn earshot.turns, p_epoch bigint,
  p_standing earshot.standing, p_decision uuid) returns void
language plpgsql volatile as $$
begin
  insert into sessions (org_id, id, conversation_id, persona_id, thread_key, epoch, audience_hash, policy_revision, root_id)
  values (p_org, p_session, p_turn.destination_id, p_turn.persona_id, p_turn.thread_key, p_epoch,
    p_standing.audience_hash, p_standing.policy_revision, p_session)
  on conflict do nothing;
  if found then
    perform open_log(p_org, p_session, 'resident', 'resident', null, 0, null);
  end if;
  insert into ledger_entries (org_id, session_id, conversation_id, from_seq, decision_id)
  values (p_org, p_session, p_turn.destination_id, p_standing.floor, p_decision)
  on conflict do nothing;
end $$;

-- Mints a grant: everything is checked again, the turn's earlier grant ends, the session is named,
-- and whatever it was shown before is asked again. A turn whose audience, mode or bound has changed
-- takes none: its answer was prepared for other readers. Under another policy revision it goes on in another
-- session, unless a grant of its was refused by it before.
create function earshot.mint_grant(p_organization text, p_personas text[], p_turn uuid, p_lease uuid,
  p_owner text, p_fence bigint, p_grant uuid, p_digest bytea, p_lifetime interval, p_names boolean,
  out code text, out packet jsonb, out changes jsonb, out decision_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org constant bigint := enter_organization(p_organization);
  t timestamptz;
  turn earshot.turns;
  persona earshot.personas;
  standing earshot.standing;
  extent earshot.scope;
  epoch_now bigint;
  session uuid;
  bound_name text;
  destination_name text;
  earlier record;
  stale text;
  issued timestamptz;
begin
  turn := lock_turn(org, p_personas, p_turn);
  if turn.id is null then
    code := 'not_found';
    decision_id := record_step(org, 'mint', code, turn, p_fence);
    return;
  end if;
  decision_id := gen_random_uuid();
  select * into persona from personas a where a.org_id = org and a.id = turn.persona_id;
  t := clock_timestamp();
  issued := date_trunc('second', t);
  select count(*) as total, max(g.revoked_code) filter (where g.revoked_at is not null) as revoked_code,
    bool_or(g.revoked_at is not null) as revoked, (array_agg(g.readers order by g.issued_at desc))[1] as readers,
    bool_or(s.state <> 'open') as quarantined
  into earlier from grants g
  join sessions s on s.org_id = org and s.id = g.session_id
  where g.org_id = org and g.turn_id = p_turn;

  code := judge_lease(turn, p_lease, p_owner, p_fence, t);
  if code is null then
    standing := judge_turn(org, turn.persona_id, turn.destination_id, turn.requester_id, turn.trigger,
      turn.trigger_seq, turn.id, t);
    code := coalesce(standing.code, case
      when turn.mode is null then null
      when standing.mode <> turn.mode or standing.project_bound is distinct from turn.project_bound then 'mode_changed'
      when standing.audience_hash <> turn.audience_hash then 'audience_changed'
      when earlier.revoked then coalesce(earlier.revoked_code, 'grant_revoked')
      when earlier.quarantined then 'session_quarantined'
    end);
    -- Readers that were not listed, because something came first, have not moved.
    if earlier.readers is not null and standing.readers is not null
      and standing.audience_hash is distinct from turn.audience_hash then
      changes := audience_changes(earlier.readers, reader_list(standing.readers), p_names);
    end if;
  end if;

  if code is null then
    extent := turn_scope(org, turn.destination_id, standing.readers, standing.floor, standing.extent,
      turn.requester_id, standing.project_bound, null, t);
    select p.external_id into bound_name from projects p where p.org_id = org and p.id = standing.project_bound;
    insert into session_epochs as e (org_id, conversation_id, persona_id, thread_key)
    values (org, turn.destination_id, turn.persona_id, turn.thread_key)
    on conflict (org_id, conversation_id, persona_id, thread_key) do update set epoch = e.epoch
    returning e.epoch into epoch_now;
    session := session_id(p_organization, turn.thread_key, persona.salt, epoch_now, persona.external_id,
      standing.audience_hash, standing.mode, bound_name, standing.policy_revision);
    stale := (
      select case when s.state <> 'open' then 'session_quarantined'
        else judge_sources(org, array(
          select row(l.conversation_id, l.from_seq, l.to_seq, l.revision)::source
          from ledger_entries l where l.org_id = org and l.session_id = s.id), extent) end
      from sessions s where s.org_id = org and s.id = session);
    if stale is not null then
      -- The session holds what its readers may no longer have. Its epoch moves on; the turn that is
      -- already in it has to be rebuilt, a new turn begins in a fresh session.
      update sessions s set state = 'quarantined' where s.org_id = org and s.id = session and s.state = 'open';
      update session_epochs e set epoch = e.epoch + 1
      where e.org_id = org and e.conversation_id = turn.destination_id and e.persona_id = turn.persona_id
        and e.thread_key = turn.thread_key
      returning e.epoch into epoch_now;
      if earlier.total > 0 then
        code := 'session_quarantined';
      else
        session := session_id(p_organization, turn.thread_key, persona.salt, epoch_now, persona.external_id,
          standing.audience_hash, standing.mode, bound_name, standing.policy_revision);
      end if;
    end if;
  end if;

  if code is not null then
    perform revoke_grant(org, g.id, code, changes, t) from grants g where g.org_id = org and g.turn_id = p_turn;
  end if;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, session_id, audience_hash,
    policy_revision, detail)
  values (org, mint_grant.decision_id, t, 'mint', case when code is null then 'allowed' else 'refused' end, code,
    p_turn, case when code is null then p_grant end, session, standing.audience_hash, standing.policy_revision,
    jsonb_strip_nulls(jsonb_build_object('changes', changes - 'names')) || noted_standing(standing, code));
  if code is not null then
    return;
  end if;

  perform open_session(org, session, turn, epoch_now, standing, mint_grant.decision_id);
  update grants g set ended_at = t where g.org_id = org and g.turn_id = p_turn and g.ended_at is null;
  insert into grants (org_id, id, digest, turn_id, lease_id, lease_owner, lease_fence, session_id, audience_hash,
    readers, mode, project_bound, policy_revision, issued_at, expires_at)
  values (org, p_grant, p_digest, p_turn, p_lease, p_owner, p_fence, session, standing.audience_hash,
    reader_list(standing.readers), standing.mode, standing.project_bound, standing.policy_revision, issued,
    issued + p_lifetime);
  update turns t0 set audience_hash = standing.audience_hash, mode = standing.mode,
    project_bound = standing.project_bound
  where t0.org_id = org and t0.id = p_turn;
  select c.external_id into destination_name from conversations c where c.org_id = org and c.id = turn.destination_id;
  packet := jsonb_strip_nulls(jsonb_build_object(
    'grantId', p_grant, 'turnId', p_turn, 'organization', p_organization, 'persona', persona.external_id,
    'requester', (select u.external_id from users u where u.org_id = org and u.id = turn.requester_id),
    'destination', destination_name, 'leaseId', p_lease, 'leaseOwner', p_owner, 'leaseFence', p_fence::text,
    'audienceHash', encode(standing.audience_hash, 'hex'), 'mode', standing.mode, 'projectBound', bound_name,
    'tools', to_jsonb(turn.tools), 'sessionId', session, 'threadKey', turn.thread_key, 'salt', persona.salt,
    'sessionEpoch', epoch_now::text, 'policyRevision', standing.policy_revision::text,
    'readers', (select jsonb_build_object('people', count(*) filter (where r.kind = 'user'),
                                          'classes', count(*) filter (where r.kind <> 'user'))
                from unnest(standing.readers) r),
    'conversations', (select count(*) from in_scope(org, extent)),
    'issuedAt', extract(epoch from issued)::bigint::text,
    'expiresAt', extract(epoch from issued + p_lifetime)::bigint::text));
end $$;

-- What halts work, or lets it go on, is on record like what it halts (INVARIANT 17). Also for whoever row security
-- does not hold, who may write here without having entered the organization: it is entered for the record alone.
create function earshot.halt_recorded() returns trigger
language plpgsql security definer set search_path = earshot, pg_temp as $$
declare
  entered constant text := coalesce(current_setting('earshot.organization', true), '');
  org bigint;
  step text;
  halted jsonb;
  -- An assignment, which is evaluated at once; `perform` would run a statement for each.
  ignored text;
begin
  if tg_table_name = 'stops' then
    org := coalesce(new.org_id, old.org_id);
    step := case when tg_op = 'INSERT' then 'stop set' else 'stop lifted' end;
    halted := jsonb_build_object('on', coalesce(new.kind, old.kind));
  else
    org := new.id;
    step := 'guard ' || new.guard;
  end if;
  ignored := set_config('earshot.organization', org::text, true);
  insert into decisions (org_id, id, kind, verdict, detail) values (org, gen_random_uuid(), step, 'allowed', halted);
  ignored := set_config('earshot.organization', entered, true);
  return null;
end $$;
create trigger recorded after insert or delete on earshot.stops
  for each row execute function earshot.halt_recorded();
create trigger recorded after update on earshot.organizations for each row
  when (old.guard is distinct from new.guard)
  execute function earshot.halt_recorded();

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  alter function earshot.halt_recorded() owner to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array[
    'open_turn(text, uuid, text, text[], text, bytea, jsonb, interval)',
    'take_lease(text, text[], uuid, text, interval)',
    'extend_lease(text, text[], uuid, uuid, text, bigint, interval)',
    'end_turn(text, text[], uuid, uuid, text, bigint, text)',
    'stop_turn(text, text[], uuid)',
    'mint_grant(text, text[], uuid, uuid, text, bigint, uuid, bytea, interval, boolean)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
