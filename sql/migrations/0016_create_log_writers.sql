-- Writing to the context log. Whoever writes holds the log's counters from before the check until the commit.

-- Whether a turn may put these blocks into the log: null, or the refusal. Where it was shown blocks that are not for all
-- who read the log, what it writes names its readers, and no others (INVARIANT 13). What a person of the audience said
-- is that person's: texts and images, as the person's own entry.
create function earshot.judge_blocks(p_live earshot.live, p_blocks jsonb, p_person text default null) returns text
language plpgsql stable as $$
declare
  only_for constant text[] := (select t.only_for from turns t where t.org_id = p_live.org_id and t.id = p_live.turn_id);
  readers constant earshot.reader[] := (p_live.standing).readers;
begin
  if only_for is null
     or not exists (select from unnest(readers) r where r.kind <> 'user' or not r.external_id = any (only_for)) then
    return null;
  end if;
  if p_person is not null and exists (select from unnest(readers) r where r.kind <> 'user' or r.external_id = p_person)
     and not exists (select from jsonb_array_elements(p_blocks) as b(block)
       where not b.block ->> 'type' = any ('{text,image}') or b.block ? 'replay') then
    return null;
  end if;
  return (
    select 'narrowing_refused' from jsonb_array_elements(p_blocks) as b(block)
    where not b.block ? 'audience'
      or exists (select from jsonb_array_elements_text(b.block -> 'audience') as who(name) where not who.name = any (only_for))
    limit 1);
end $$;

-- What a source names, whether or not anybody may read it: a message, by conversation and sequence, or an artifact.
create function earshot.named_source(p_org bigint, p_source jsonb) returns table (conversation_id bigint, seq bigint)
language sql stable as $$
  select c.id, (p_source ->> 'seq')::bigint from earshot.conversations c
  where not p_source ? 'artifact' and c.org_id = p_org and c.external_id = p_source ->> 'conversation'
  union all
  select a.conversation_id, a.seq from earshot.artifacts a
  where p_source ? 'artifact' and a.org_id = p_org and a.id = (p_source ->> 'artifact')::uuid
$$;

-- The messages and artifacts that an entry says it came from, as this turn may read them now. Of one that it may not, nothing.
create function earshot.entry_sources(p_live earshot.live, p_sources jsonb, p_now timestamptz)
returns table (block integer, conversation_id bigint, seq bigint, revision bigint)
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  standing constant earshot.standing := p_live.standing;
  named constant earshot.source[] := array(
    select distinct row(n.conversation_id, n.seq, n.seq, null)::source from jsonb_array_elements(p_sources) as s(source)
    cross join lateral named_source(org, s.source) n);
  extent earshot.scope;
begin
  if cardinality(named) > 0 then
    extent := turn_scope(org, p_live.destination_id, standing.readers, standing.floor, standing.extent,
      p_live.requester_id, standing.project_bound, null, p_now, conversations_of(org, named));
  end if;
  return query
  select (s.source ->> 'block')::integer, i.conversation_id, m.seq, m.revision
  from jsonb_array_elements(p_sources) as s(source)
  cross join lateral named_source(org, s.source) n
  cross join lateral (select x.* from in_scope(org, extent) x where x.conversation_id = n.conversation_id limit 1) i
  cross join lateral (select v.seq, v.revision from visible_in(org, extent, i.conversation_id, i.floor) v
    where v.seq = n.seq limit 1) m
  -- What was read at a revision did not come from a later one.
  where s.source ->> 'revision' is null or m.revision = (s.source ->> 'revision')::bigint;
end $$;

-- Writes one revision of an entry with its sources. Where a source is not there it raises ES404; where another entry
-- has a replay form under the same id, ES409: a form belongs to one entry, so that a view of the entry can judge it.
create function earshot.write_entry(p_live earshot.live, p_session uuid, p_position bigint, p_revision bigint, p_id uuid,
  p_change bigint, p_first_change bigint, p_role text, p_participant text, p_blocks jsonb, p_sources jsonb, p_now timestamptz,
  p_injection text default null, p_owner text default null, p_hash bytea default null, p_envelopes jsonb default null,
  p_addressee text default null, p_passes boolean default false) returns void
language plpgsql volatile as $$
declare
  org constant bigint := p_live.org_id;
  replays constant text[] := array(
    select distinct b.block #>> '{replay,id}' from jsonb_array_elements(p_blocks) as b(block) where b.block ? 'replay');
  stored integer;
begin
  insert into log_entries (org_id, session_id, position, revision, id, change, first_change, role, participant, blocks,
    injection, owner, content_hash, envelopes, addressee, passes, turn_id, written_at)
  values (org, p_session, p_position, p_revision, p_id, p_change, p_first_change, p_role, p_participant, p_blocks,
    p_injection, p_owner, p_hash, p_envelopes, p_addressee, p_passes, p_live.turn_id, p_now);
  if cardinality(replays) > 0 then
    insert into log_replays (org_id, session_id, id, position)
    select org, p_session, x, p_position from unnest(replays) x on conflict do nothing;
    if exists (select from log_replays r where r.org_id = org and r.session_id = p_session and r.id = any (replays)
               and r.position <> p_position) then
      raise exception using errcode = 'ES409', message = 'a replay form of another entry';
    end if;
  end if;
  if jsonb_array_length(p_sources) > 0 then
    insert into log_sources (org_id, session_id, position, revision, block, conversation_id, seq, source_revision)
    select org, p_session, p_position, p_revision, f.block, f.conversation_id, f.seq, f.revision
    from entry_sources(p_live, p_sources, p_now) f;
    get diagnostics stored = row_count;
    if stored <> jsonb_array_length(p_sources) then
      raise exception using errcode = 'ES404', message = 'a source is not there';
    end if;
  end if;
end $$;

-- Puts what entries came from into the ledger.
create function earshot.note_sources(p_org bigint, p_session uuid, p_from bigint, p_to bigint, p_revision bigint, p_decision uuid)
returns void
language plpgsql volatile as $$
begin
  perform note_in_ledger(p_org, p_session, array(
    select row(s.conversation_id, s.seq, s.seq, s.source_revision)::source from log_sources s
    where s.org_id = p_org and s.session_id = p_session and s.position between p_from and p_to and s.revision = p_revision),
    p_decision);
end $$;

-- What a turn writes into a log may come from all that it was shown in the other logs of its session, the one of its
-- grant and the forks that it worked in: their ledgers are this one's too from then on.
create function earshot.bind_to_turn(p_live earshot.live, p_session uuid, p_decision uuid) returns void
language plpgsql volatile as $$
begin
  perform join_ledgers(p_live.org_id, p_session, turn_sessions(p_live.org_id, p_live.turn_id), p_decision);
end $$;

-- Appends entries, all or none. The same key and request again append nothing and give the same ids. The log's
-- counters are held from before the check until the commit. With `p_agent`, they are written to that agent of this log: to a
-- sub-agent's eyes alone, and once no turn of the agent is alive (`held`).
create function earshot.append_log(p_digest bytea, p_session uuid, p_audience bytea, p_key text, p_request_digest bytea,
  p_entries jsonb, p_agent text, out code text, out changes jsonb, out decision_id uuid, out ids uuid[], out held boolean)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org bigint;
  t timestamptz;
  call earshot.session_call;
  head earshot.log_heads;
  known earshot.log_appends;
  entry jsonb;
  addressee text;
  passes boolean;
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
    select * into known from log_appends a
    where a.org_id = org and a.session_id = p_session and a.turn_id = (call.live).turn_id and a.key = p_key;
    if found then
      code := case when known.request_digest <> p_request_digest then 'conflict' end;
      ids := case when code is null then known.ids end;
      held := exists (select from log_mail m where m.org_id = org and m.session_id = p_session and m.id = any (ids));
      decision_id := record_session_call(call, 'append', code, 0, t);
      return;
    end if;
    -- Nothing is kept any more of what a user said who is deleted.
    if exists (select from jsonb_array_elements(p_entries) as e(entry)
        join users u on u.org_id = org and u.external_id = e.entry ->> 'participant' and u.deleted
        where 'user' = e.entry ->> 'role') then
      code := 'conflict';
    end if;
    for entry in select value from jsonb_array_elements(p_entries) loop
      code := coalesce(code, judge_blocks(call.live, entry -> 'blocks',
        case when entry ->> 'role' = 'user' then entry ->> 'participant' end));
    end loop;
  end if;
  if code is null and p_agent is not null then
    select case when a.kind = 'sub_agent' then a.name end, (call.session).parent_id is not null into addressee, passes
    from agents a where a.org_id = org and a.session_id = p_session and a.name = p_agent;
    code := case when not found then 'not_found' end;
  end if;
  if code is null then
    ids := '{}';
    held := p_agent is not null and exists (select from live_places(org, p_session, t) l where l.agent = p_agent);
    if not held then
      perform deliver_mail(org, p_session, t);
      select * into head from log_heads h where h.org_id = org and h.session_id = p_session;
    end if;
    begin
      for entry in select value from jsonb_array_elements(p_entries) loop
        ids := ids || gen_random_uuid();
        if held then
          perform hold_entry(call.live, p_session, p_agent, ids[cardinality(ids)], entry, addressee, passes, t);
        else
          head.position := head.position + 1;
          head.change := head.change + 1;
          perform write_entry(call.live, p_session, head.position, 1, ids[cardinality(ids)], head.change, head.change,
            entry ->> 'role', entry ->> 'participant', entry -> 'blocks', coalesce(entry -> 'sources', '[]'), t,
            p_addressee => addressee, p_passes => coalesce(passes, false));
        end if;
      end loop;
      if held then
        perform note_in_ledger(org, p_session, array(
          select row(s.conversation_id, s.seq, s.seq, s.source_revision)::source from log_mail m
          cross join lateral jsonb_to_recordset(m.sources) as s(conversation_id bigint, seq bigint, source_revision bigint)
          where m.org_id = org and m.session_id = p_session and m.id = any (append_log.ids)), pending);
      else
        perform note_sources(org, p_session, head.position - cardinality(ids) + 1, head.position, 1, pending);
        update log_heads h set position = head.position, change = head.change where h.org_id = org and h.session_id = p_session;
      end if;
      perform bind_to_turn(call.live, p_session, pending);
      insert into log_appends (org_id, session_id, turn_id, key, request_digest, ids)
      values (org, p_session, (call.live).turn_id, p_key, p_request_digest, append_log.ids);
    exception
      -- All of it is undone. INVARIANT 16: which source it was is not told.
      when sqlstate 'ES404' then
        code := 'not_found';
        ids := null;
      when sqlstate 'ES409' then
        code := 'conflict';
        ids := null;
    end;
  end if;
  decision_id := record_session_call(call, 'append', code, coalesce(cardinality(ids), 0), t, pending);
end $$;

-- Where the blocks of an edit go: what its readers do not see of the entry stays in its place, as far as there are that
-- many, without a form that it may share with what was edited. A slot from 0 up is a block of the edit; one below, -1 for
-- the first, a block that is kept.
create function earshot.edit_slots(p_blocks jsonb, p_count integer, p_readers text[]) returns integer[]
language plpgsql immutable parallel safe as $$
declare
  slots integer[] := array(select generate_series(0, p_count - 1));
  kept record;
begin
  -- The provider's own form of an entry is no place in it, and goes as soon as the entry is edited.
  for kept in
    select b.place, b.nth from (
      select e.block, e.place, row_number() over (order by e.place)::integer as nth
      from jsonb_array_elements(p_blocks) with ordinality as e(block, place)
      where e.block ->> 'type' is distinct from 'raw') b
    where is_hidden(b.block, p_readers) order by b.nth
  loop
    slots := slots[: least(kept.nth - 1, cardinality(slots))] || -kept.place::integer
      || slots[least(kept.nth, cardinality(slots) + 1) :];
  end loop;
  return slots;
end $$;

-- Whether an edit would take a block from these readers: it was theirs before and is not after. What the editor saw
-- is compared by position with what is put in its place; what the editor does not see stays as it is.
create function earshot.narrows(p_before jsonb, p_after jsonb, p_readers text[]) returns boolean
language sql immutable parallel safe as $$
  select exists (
    select from jsonb_array_elements(p_before) with ordinality as b(block, place)
    join jsonb_array_elements(p_after) with ordinality as a(block, place) using (place)
    where earshot.names_readers(b.block -> 'audience', p_readers)
      and not earshot.names_readers(a.block -> 'audience', p_readers))
$$;

-- Edits an entry: a new revision, the earlier one is kept and never shown. The editor sees the entry through a namespace,
-- and names the revision it saw. Refused where it would hide a block from a reader who may have been
-- shown it, since nothing takes a block out of a summary that was written or a request that was sent:
-- from another namespace's reader always, from the own one as far as a watermark reaches: an entry is under it from its
-- first revision on. A block that is taken out hides nothing, and one that is put in later is another one.
create function earshot.edit_log(p_digest bytea, p_session uuid, p_audience bytea, p_handle uuid, p_entry uuid,
  p_revision bigint, p_edit jsonb, out code text, out changes jsonb, out decision_id uuid, out revision bigint)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org bigint;
  t timestamptz;
  call earshot.session_call;
  head earshot.log_heads;
  place earshot.namespaces;
  readers text[];
  old record;
  -- What an edit leaves as it is.
  kept record;
  slots integer[];
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
    readers := view_readers(place, (call.live).standing);
    select v.* into old from log_view(org, p_session, head.change, readers, place.agent, null) v
    where v.id = p_entry and place.name is not null;
    select e.first_change, e.addressee, e.passes, e.erased into kept from log_entries e
    where e.org_id = org and e.session_id = p_session and e.position = old.pos and e.revision = old.revision;
    code := case
      when old.id is null then 'not_found'
      when old.revision <> p_revision then 'conflict'
      -- What was erased is not written anew by whoever saw it before.
      when kept.erased is not null then 'conflict'
      when old.role = 'system' and jsonb_path_exists(p_edit, '$.blocks[*].audience') then 'invalid_input'
      when exists (
        select from namespaces n
        where n.org_id = org and n.session_id = p_session
          and narrows(blocks_for(old.whole, readers), p_edit -> 'blocks', view_readers(n, (call.live).standing))
          and (n.reader is distinct from place.reader or n.watermark >= kept.first_change))
        then 'narrowing_refused'
      else judge_blocks(call.live, p_edit -> 'blocks')
    end;
  end if;
  if code is null then
    begin
      revision := old.revision + 1;
      slots := edit_slots(old.whole, jsonb_array_length(p_edit -> 'blocks'), readers);
      update log_entries e set superseded_by = head.change + 1
      where e.org_id = org and e.session_id = p_session and e.position = old.pos and e.revision = old.revision;
      perform write_entry(call.live, p_session, old.pos, edit_log.revision, old.id, head.change + 1, kept.first_change,
          old.role, old.participant,
          (select jsonb_agg(case when x.slot >= 0 then p_edit -> 'blocks' -> x.slot else (old.whole -> -x.slot - 1) - 'replay' end
             order by x.place)
           from unnest(slots) with ordinality as x(slot, place)),
          (select coalesce(jsonb_agg(case when e.source ? 'block'
              then e.source || jsonb_build_object('block', array_position(slots, (e.source ->> 'block')::integer) - 1)
              else e.source end), '[]')
           from jsonb_array_elements(p_edit -> 'sources') as e(source)), t,
          p_addressee => kept.addressee, p_passes => kept.passes);
      perform note_sources(org, p_session, old.pos, old.pos, edit_log.revision, pending);
      perform bind_to_turn(call.live, p_session, pending);
      -- What is kept keeps where it came from.
      insert into log_sources (org_id, session_id, position, revision, block, conversation_id, seq, source_revision)
      select org, p_session, old.pos, edit_log.revision, array_position(slots, -(s.block + 1)) - 1, s.conversation_id, s.seq,
        s.source_revision
      from log_sources s
      where s.org_id = org and s.session_id = p_session and s.position = old.pos and s.revision = old.revision
        and case when s.block is null then 0 > any (slots) else -(s.block + 1) = any (slots) end;
      -- A summary of what is no longer so is not shown again.
      update log_summaries s set stale_at = head.change + 1
      where s.org_id = org and s.session_id = p_session and s.stale_at is null and old.pos = any (s.positions);
      update log_heads h set change = head.change + 1 where h.org_id = org and h.session_id = p_session;
    exception
      when sqlstate 'ES404' then
        code := 'not_found';
        revision := null;
      when sqlstate 'ES409' then
        code := 'conflict';
        revision := null;
    end;
  end if;
  decision_id := record_session_call(call, 'edit', code, 1, t, pending);
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array[
    'append_log(bytea, uuid, bytea, text, bytea, jsonb, text)',
    'edit_log(bytea, uuid, bytea, uuid, uuid, bigint, jsonb)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
