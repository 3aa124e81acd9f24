-- The places of agents in a log, forks of it, and its end.

-- Waits for a read through a namespace that is just being put on record, so that what comes from it is bound by it too.
create function earshot.share_namespace(p_org bigint, p_session uuid, p_handle uuid) returns void
language plpgsql volatile as $$
begin
  perform from namespaces n
  where n.org_id = p_org and n.session_id = p_session
    and case when p_handle is null then n.name = 'default' else n.handle = p_handle end
  for share;
end $$;

-- Opens an agent's place in the log. A new one is for the reader that is named, or for the one of the namespace it is
-- derived from, or for the session's audience. One that is there gives its handle to its reader, and to who
-- names none; another reader claims it as long as nothing was read through it, and is refused from
-- then on, before anything is registered. Whoever had it before holds a handle that opens nothing.
create function earshot.open_namespace(p_digest bytea, p_session uuid, p_audience bytea, p_name text, p_agent text,
  p_reader text, p_from uuid, out code text, out changes jsonb, out decision_id uuid, out opened jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org bigint;
  t timestamptz;
  call earshot.session_call;
  place earshot.namespaces;
  parent earshot.namespaces;
begin
  perform enter_grant(p_digest);
  org := current_organization();
  -- Two that open one name come one after the other.
  perform from log_heads h where h.org_id = org and h.session_id = p_session for no key update;
  if p_from is not null then
    perform share_namespace(org, p_session, p_from);
  end if;
  t := clock_timestamp();
  call := judge_session(p_digest, p_session, p_audience, t);
  code := call.code;
  changes := (call.live).changes;
  if code is null and p_from is not null then
    parent := namespace_of(call.session, p_from);
    code := case
      when parent.name is null then 'not_found'
      -- What was derived has the record it came from.
      when p_reader is not null and p_reader is distinct from parent.reader then 'conflict'
    end;
  end if;
  if code is null then
    select * into place from namespaces n where n.org_id = org and n.session_id = p_session and n.name = p_name;
    code := case
      when place.name is null then null
      when p_agent is not null and p_agent is distinct from place.agent then 'conflict'
      when p_from is not null and place.reader is distinct from parent.reader then 'conflict'
      when p_reader is not null and place.claimed and p_reader is distinct from place.reader then 'conflict'
    end;
  end if;
  if code is null and place.name is null then
    insert into agents (org_id, session_id, name, kind)
    values (org, p_session, coalesce(p_agent, (select a.name from agents a
      where a.org_id = org and a.session_id = p_session and a.is_primary)), 'sub_agent')
    on conflict do nothing;
    insert into namespaces (org_id, session_id, name, agent, reader, claimed, watermark, only_for)
    values (org, p_session, p_name, coalesce(p_agent, (select a.name from agents a
        where a.org_id = org and a.session_id = p_session and a.is_primary)),
      coalesce(p_reader, parent.reader), coalesce(p_reader is not null or parent.claimed, false), coalesce(parent.watermark, 0),
      parent.only_for)
    returning * into place;
  elsif code is null and p_from is not null then
    -- One that is there takes over what its origin has been shown since.
    update namespaces n set only_for = meet(n.only_for, parent.only_for), watermark = greatest(n.watermark, parent.watermark),
      claimed = n.claimed or parent.claimed
    where n.org_id = org and n.session_id = p_session and n.name = p_name
    returning * into place;
  elsif code is null and p_reader is not null and not place.claimed then
    update namespaces n set reader = p_reader, claimed = true, handle = gen_random_uuid()
    where n.org_id = org and n.session_id = p_session and n.name = p_name
    returning * into place;
  end if;
  if code is null then
    opened := jsonb_strip_nulls(jsonb_build_object('name', place.name, 'agent', place.agent, 'handle', place.handle,
      'reader', place.reader));
  end if;
  decision_id := record_session_call(call, 'open', code, null, t);
end $$;

-- Pins entries for a namespace, or takes pins away, of what it shows.
create function earshot.pin_log(p_digest bytea, p_session uuid, p_audience bytea, p_handle uuid, p_entries uuid[], p_pinned boolean,
  out code text, out changes jsonb, out decision_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org bigint;
  t timestamptz;
  call earshot.session_call;
  head earshot.log_heads;
  place earshot.namespaces;
  found_at bigint[];
begin
  perform enter_grant(p_digest);
  org := current_organization();
  select * into head from log_heads h where h.org_id = org and h.session_id = p_session for share;
  t := clock_timestamp();
  call := judge_session(p_digest, p_session, p_audience, t);
  code := call.code;
  changes := (call.live).changes;
  if code is null then
    place := namespace_of(call.session, p_handle);
    if place.name is not null then
      found_at := array(
        select v.pos from log_view(org, p_session, head.change, view_readers(place, (call.live).standing), place.agent, null) v
        where v.id = any (p_entries));
    end if;
    if coalesce(cardinality(found_at), 0) <> (select count(distinct x) from unnest(p_entries) x) then
      code := 'not_found';
    elsif p_pinned then
      insert into log_pins (org_id, session_id, namespace, position)
      select org, p_session, place.name, x from unnest(found_at) x on conflict do nothing;
    else
      delete from log_pins p
      where p.org_id = org and p.session_id = p_session and p.namespace = place.name and p.position = any (found_at);
    end if;
  end if;
  decision_id := record_session_call(call, 'pin', code, cardinality(p_entries), t);
end $$;

-- The id of a fork, which its parent and its name give; policy/session-id.ts says the same.
create function earshot.fork_id(p_parent uuid, p_name text) returns uuid
language sql stable as $$
  select earshot.uuid_of(sha256(
    earshot.encode_part('earshot/fork/1') || earshot.encode_part(p_parent::text) || earshot.encode_part(p_name)))
$$;

-- Forks a log: a session of its own that begins with the ledger of this one and with what the namespace shows of its
-- entries, for that namespace's reader and with its watermark. The same name again gives the same fork. A session that is
-- closed or quarantined has none, and a refusal leaves nothing behind.
create function earshot.fork_log(p_digest bytea, p_session uuid, p_audience bytea, p_handle uuid, p_name text,
  out code text, out changes jsonb, out decision_id uuid, out fork uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org bigint;
  t timestamptz;
  call earshot.session_call;
  head earshot.log_heads;
  place earshot.namespaces;
  readers text[];
  known record;
begin
  perform enter_grant(p_digest);
  org := current_organization();
  perform share_erasure(org);
  -- The session that the forks began with is held first: none is made of what is being closed.
  perform from log_heads h join grants g on g.digest = p_digest and h.org_id = g.org_id and h.session_id = g.session_id
  for no key update of h;
  select * into head from log_heads h where h.org_id = org and h.session_id = p_session for no key update;
  perform share_namespace(org, p_session, p_handle);
  t := clock_timestamp();
  call := judge_session(p_digest, p_session, p_audience, t);
  code := call.code;
  changes := (call.live).changes;
  if code is null then
    place := namespace_of(call.session, p_handle);
    code := case when place.name is null then 'not_found' else judge_ledger(call.live, p_session, t) end;
  end if;
  if code is null then
    select s.id, s.state, n.reader into known from sessions s
    join namespaces n on n.org_id = org and n.session_id = s.id and n.name = 'default'
    where s.org_id = org and s.parent_id = p_session and s.fork_name = p_name;
    if found then
      code := case when known.state <> 'open' then 'session_quarantined'
        when known.reader is distinct from place.reader then 'conflict' end;
      fork := case when code is null then known.id end;
    else
      fork := fork_id(p_session, p_name);
      insert into sessions (org_id, id, conversation_id, persona_id, thread_key, epoch, audience_hash, policy_revision,
        root_id, parent_id, fork_name)
      select s.org_id, fork_log.fork, s.conversation_id, s.persona_id, s.thread_key, s.epoch, s.audience_hash,
        s.policy_revision, s.root_id, s.id, p_name
      from sessions s where s.org_id = org and s.id = p_session;
      -- The ledger first.
      insert into ledger_entries (org_id, session_id, conversation_id, from_seq, to_seq, revision, decision_id)
      select l.org_id, fork_log.fork, l.conversation_id, l.from_seq, l.to_seq, l.revision, l.decision_id
      from ledger_entries l where l.org_id = org and l.session_id = p_session
      order by l.conversation_id, l.from_seq;
      perform open_log(org, fork_log.fork, 'fork', p_name, place.reader, place.watermark, place.only_for);
      update log_heads h set position = head.position, change = head.change
      where h.org_id = org and h.session_id = fork_log.fork;
      readers := view_readers(place, (call.live).standing);
      -- What it does not show is not copied; what it does keeps its audience.
      insert into log_entries (org_id, session_id, position, revision, id, change, first_change, role, participant, blocks,
        turn_id, written_at, erased)
      select org, fork_log.fork, v.pos, v.revision, v.id, v.change, e.first_change, v.role, v.participant,
        blocks_for(v.whole, readers), (call.live).turn_id, v.written_at, e.erased
      from log_view(org, p_session, head.change, readers, place.agent, null) v
      join log_entries e on e.org_id = org and e.session_id = p_session and e.position = v.pos and e.revision = v.revision;
      insert into log_replays (org_id, session_id, id, position)
      select org, fork_log.fork, r.id, r.position from log_replays r where r.org_id = org and r.session_id = p_session and r.position > 0;
      insert into log_sources (org_id, session_id, position, revision, block, conversation_id, seq, source_revision)
      select org, fork_log.fork, s.position, s.revision,
        case when s.block is not null then
          (select count(*) from generate_series(0, s.block - 1) as earlier where is_shown(v.whole, earlier, readers)) end,
        s.conversation_id, s.seq, s.source_revision
      from log_view(org, p_session, head.change, readers, place.agent, null) v
      join log_sources s on s.org_id = org and s.session_id = p_session and s.position = v.pos and s.revision = v.revision
      where s.block is null or is_shown(v.whole, s.block, readers);
      -- The summaries that its view sends, of what was copied.
      insert into log_summaries (org_id, session_id, namespace, id, nth, level, positions, body, change, turn_id, written_at)
      select org, fork_log.fork, 'default', s.id, s.nth, s.level, c.positions, s.body, s.change, s.turn_id, s.written_at
      from standing_summaries(call.live, p_session, head.change, place, t) s
      cross join lateral (select array_agg(e.position order by e.position) as positions from unnest(s.positions) x
        join log_entries e on e.org_id = org and e.session_id = fork_log.fork and e.position = x) c
      where c.positions is not null;
      insert into log_summary_sources (org_id, session_id, summary_id, conversation_id, seq, source_revision)
      select org, fork_log.fork, x.summary_id, x.conversation_id, x.seq, x.source_revision
      from log_summary_sources x
      join log_summaries s on s.org_id = org and s.session_id = fork_log.fork and s.id = x.summary_id
      where x.org_id = org and x.session_id = p_session;
      insert into log_pins (org_id, session_id, namespace, position)
      select org, fork_log.fork, 'default', v.pos
      from log_view(org, p_session, head.change, readers, place.agent, null) v
      join log_pins p on p.org_id = org and p.session_id = p_session and p.namespace = place.name and p.position = v.pos;
    end if;
  end if;
  decision_id := record_session_call(call, 'fork', code, null, t);
end $$;

-- Makes another agent the one that answers come from.
create function earshot.set_primary_agent(p_digest bytea, p_session uuid, p_audience bytea, p_agent text,
  out code text, out changes jsonb, out decision_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org bigint;
  t timestamptz;
  call earshot.session_call;
begin
  perform enter_grant(p_digest);
  org := current_organization();
  perform from log_heads h where h.org_id = org and h.session_id = p_session for no key update;
  t := clock_timestamp();
  call := judge_session(p_digest, p_session, p_audience, t);
  code := call.code;
  changes := (call.live).changes;
  if code is null and not exists (select from agents a where a.org_id = org and a.session_id = p_session and a.name = p_agent) then
    code := 'not_found';
  end if;
  if code is null then
    update agents a set is_primary = false where a.org_id = org and a.session_id = p_session and a.is_primary;
    update agents a set is_primary = true where a.org_id = org and a.session_id = p_session and a.name = p_agent;
  end if;
  decision_id := record_session_call(call, 'primary', code, null, t);
end $$;

-- Closes a session for good, and with it every fork of it. Its grants are refused from then on, and the next turn
-- begins in a fresh one.
create function earshot.close_session(p_digest bytea, p_session uuid, p_audience bytea,
  out code text, out changes jsonb, out decision_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz;
  call earshot.session_call;
  family uuid[];
  member uuid;
  pending constant uuid := gen_random_uuid();
begin
  perform enter_grant(p_digest);
  -- The session that the forks began with is held first: none is made of what is being closed.
  perform from log_heads h join grants g on g.digest = p_digest and h.org_id = g.org_id and h.session_id = g.session_id
  for no key update of h;
  perform from log_heads h where h.org_id = current_organization() and h.session_id = p_session for no key update;
  t := clock_timestamp();
  call := judge_session(p_digest, p_session, p_audience, t);
  code := call.code;
  changes := (call.live).changes;
  if code is null then
    family := array(
      with recursive family as (
        select s.id from sessions s where s.org_id = current_organization() and s.id = p_session
        union all
        select f.id from family p join sessions f on f.org_id = current_organization() and f.parent_id = p.id
      )
      select s.id from family join sessions s on s.org_id = current_organization() and s.id = family.id and s.state = 'open');
    -- What waits for an agent of a fork goes to the log that the forks began with, unless that one is closed too.
    if (call.session).root_id <> p_session then
      foreach member in array family loop
        perform from log_heads h where h.org_id = current_organization() and h.session_id = member for no key update;
        perform hand_on(call.live, member, (call.session).root_id, pending, t);
      end loop;
      perform deliver_mail(current_organization(), (call.session).root_id, t);
    end if;
    update sessions s set state = 'closed' where s.org_id = current_organization() and s.id = any (family);
  end if;
  decision_id := record_session_call(call, 'close', code, null, t, pending);
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array[
    'open_namespace(bytea, uuid, bytea, text, text, text, uuid)',
    'pin_log(bytea, uuid, bytea, uuid, uuid[], boolean)',
    'fork_log(bytea, uuid, bytea, uuid, text)',
    'set_primary_agent(bytea, uuid, bytea, text)',
    'close_session(bytea, uuid, bytea)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
