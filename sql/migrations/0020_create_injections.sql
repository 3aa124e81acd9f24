-- Stored injections: context that was retrieved for an agent, put into the log once, where the agent saw it. A unit is
-- what one source gave at one start; it is one entry, so that it is there whole or not at all.

-- Question: which turns are alive in which a model was sent something of this log, and as which agents?
create function earshot.live_places(p_org bigint, p_session uuid, p_now timestamptz) returns table (agent text, turn_id uuid)
language sql stable as $$
  select p.agent::text, p.turn_id from earshot.turn_places p
  join earshot.turns t on t.org_id = p_org and t.id = p.turn_id and t.state = 'running' and t.expires_at > p_now
  where p.org_id = p_org and p.session_id = p_session
$$;

-- Question: what becomes of each unit at this start? In their order:
--   unchanged  the newest copy of its source is the same, and waits to be sent or was in what was sent last
--   held       another agent that reads this log has a turn alive: nothing is stored
--   bound      its source would store more in this turn than it may, in bytes
--   store      otherwise
create function earshot.judge_units(p_live earshot.live, p_session uuid, p_place earshot.namespaces, p_units jsonb,
  p_most integer, p_now timestamptz) returns text[]
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  occupied constant boolean := exists (select from live_places(org, p_session, p_now) l
    where l.agent <> p_place.agent and l.turn_id <> p_live.turn_id);
begin
  return array(
    select case
      -- Equal content is found by its hash, and confirmed by comparing it.
      when newest.content_hash = decode(u.unit ->> 'hash', 'hex') and newest.blocks = u.unit -> 'blocks'
        and (newest.change > coalesce(sent.mark, 0) or newest.id = any (sent.held)) then 'unchanged'
      when occupied then 'held'
      when octet_length((u.unit -> 'blocks')::text) + coalesce((select sum(e.bytes) from log_entries e
          where e.org_id = org and e.session_id = p_session and e.owner = p_place.name
            and e.injection = u.unit ->> 'source' and e.turn_id = p_live.turn_id), 0) > p_most then 'bound'
      else 'store'
    end
    from jsonb_array_elements(p_units) with ordinality as u(unit, nth)
    left join log_sends sent on sent.org_id = org and sent.session_id = p_session and sent.namespace = p_place.name
    left join lateral (
      select e.* from log_entries e
      where e.org_id = org and e.session_id = p_session and e.owner = p_place.name and e.injection = u.unit ->> 'source'
      order by e.position desc limit 1
    ) newest on true
    order by u.nth);
end $$;

-- Puts into the ledger what units that the log has already are said to come from, beyond what the session is bound by: the
-- same words may come from elsewhere now. Where a source is not there it raises ES404.
create function earshot.note_unchanged(p_live earshot.live, p_session uuid, p_units jsonb, p_verdicts text[], p_decision uuid,
  p_now timestamptz) returns void
language plpgsql volatile as $$
declare
  org constant bigint := p_live.org_id;
  unbound constant jsonb := (
    select coalesce(jsonb_agg(s.source), '[]')
    from jsonb_array_elements(p_units) with ordinality as u(unit, nth)
    cross join lateral jsonb_array_elements(u.unit -> 'sources') as s(source)
    where p_verdicts[u.nth] = 'unchanged' and not exists (
      select from named_source(org, s.source) n
      join ledger_entries l on l.org_id = org and l.session_id = p_session and l.conversation_id = n.conversation_id
      where l.from_seq = n.seq and l.to_seq = l.from_seq));
begin
  if jsonb_array_length(unbound) = 0 then
    return;
  end if;
  if (select count(*) from entry_sources(p_live, unbound, p_now)) <> jsonb_array_length(unbound) then
    raise exception using errcode = 'ES404', message = 'a source is not there';
  end if;
  perform note_in_ledger(org, p_session, array(
    select row(f.conversation_id, f.seq, f.seq, f.revision)::source from entry_sources(p_live, unbound, p_now) f), p_decision);
end $$;

-- Stores the units of a start, in their order, each whole, as far as `judge_units` has it, all or none. `p_most`: how many
-- bytes one source may store in one turn. Starts at the same time come one after the other, and find what the first stored.
create function earshot.store_injections(p_digest bytea, p_session uuid, p_audience bytea, p_handle uuid, p_units jsonb,
  p_most integer, out code text, out changes jsonb, out decision_id uuid, out verdicts text[])
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org bigint;
  t timestamptz;
  call earshot.session_call;
  head earshot.log_heads;
  place earshot.namespaces;
  unit jsonb;
  nth integer := 0;
  stored integer := 0;
  pending constant uuid := gen_random_uuid();
begin
  perform enter_grant(p_digest);
  org := current_organization();
  perform share_erasure(org);
  select * into head from log_heads h where h.org_id = org and h.session_id = p_session for no key update;
  t := clock_timestamp();
  call := judge_session(p_digest, p_session, p_audience, t);
  code := call.code;
  changes := (call.live).changes;
  if code is null then
    place := namespace_of(call.session, p_handle);
    code := case when place.name is null then 'not_found' else judge_place(call.live, place) end;
  end if;
  if code is null then
    -- What waits for the agent comes first, as in a read: an injection stands after the latest message of a user.
    perform deliver_mail(org, p_session, t);
    select * into head from log_heads h where h.org_id = org and h.session_id = p_session;
    verdicts := judge_units(call.live, p_session, place, p_units, p_most, t);
    begin
      for unit in select value from jsonb_array_elements(p_units) loop
        nth := nth + 1;
        continue when verdicts[nth] <> 'store';
        stored := stored + 1;
        perform write_entry(call.live, p_session, head.position + stored, 1, gen_random_uuid(), head.change + stored,
          head.change + stored, 'user', unit ->> 'source', unit -> 'blocks', coalesce(unit -> 'sources', '[]'), t,
          unit ->> 'source', place.name, decode(unit ->> 'hash', 'hex'), unit -> 'envelopes');
      end loop;
      perform note_unchanged(call.live, p_session, p_units, verdicts, pending, t);
      if stored > 0 then
        perform note_sources(org, p_session, head.position + 1, head.position + stored, 1, pending);
        update log_heads h set position = head.position + stored, change = head.change + stored
        where h.org_id = org and h.session_id = p_session;
        perform bind_place(call.live, place);
        perform bind_to_turn(call.live, p_session, pending);
      end if;
    exception
      -- INVARIANT 16: which source it was is not told.
      when sqlstate 'ES404' then
        code := 'not_found';
        verdicts := null;
        stored := 0;
    end;
  end if;
  decision_id := record_session_call(call, 'inject', code, stored, t, pending);
end $$;

do $$
declare
  signature constant text := 'store_injections(bytea, uuid, bytea, uuid, jsonb, integer)';
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  execute format('alter function earshot.%s owner to earshot_scoped', signature);
  execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  revoke create on schema earshot from earshot_scoped;
end $$;
