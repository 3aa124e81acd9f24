-- Reading the context log: announced by a watermark in a transaction of its own, then one statement.

-- Raises a namespace's watermark to where the log is now, in a transaction of its own, before anything is read
-- through it: `mark` is what the read that follows may see. A first read claims the namespace for who opened it.
-- An edit that is under way is waited for, and what was written to an agent whose turns have ended is let in.
create function earshot.raise_watermark(p_digest bytea, p_session uuid, p_audience bytea, p_handle uuid,
  out code text, out mark bigint, out changes jsonb, out decision_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t constant timestamptz := clock_timestamp();
  call earshot.session_call;
begin
  perform enter_grant(p_digest);
  call := judge_session(p_digest, p_session, p_audience, t);
  code := call.code;
  if code is null then
    perform deliver_mail(current_organization(), p_session, t);
    select h.change into mark from log_heads h where h.org_id = current_organization() and h.session_id = p_session for share;
    update namespaces n set watermark = greatest(n.watermark, mark), claimed = true
    where n.org_id = current_organization() and n.session_id = p_session
      and case when p_handle is null then n.name = 'default' else n.handle = p_handle end;
    if not found then
      -- Another reader has claimed it, or there never was such a handle.
      code := 'not_found';
    end if;
  end if;
  if code is not null then
    mark := null;
    changes := (call.live).changes;
    decision_id := record_session_call(call, 'raise', code, null, t);
  end if;
end $$;

-- How much one answer may hold of a log, in bytes of its blocks: a page ends there, and what has no pages is refused.
create function earshot.most_bytes() returns integer
language sql immutable parallel safe as $$ select 33554432 $$;

-- Whether a view holds more than one answer may. What it does not show does not count. The whole log is asked first, by
-- numbers that stand beside the blocks: most have far less, and their view is not made twice.
create function earshot.is_too_large(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_place earshot.namespaces,
  p_from bigint default 0, p_to bigint default 9223372036854775807) returns boolean
language plpgsql stable as $$
begin
  return (select sum(e.bytes) from log_entries e
      where e.org_id = p_org and e.session_id = p_session and e.position between p_from and p_to) > most_bytes()
    and (select sum(v.bytes) from log_view(p_org, p_session, p_mark, p_readers, p_place.agent, p_place.name) v
      where v.pos between p_from and p_to) > most_bytes();
end $$;

-- What a read of the log gave. `only_for`: who was named in every block of it that is for some readers only; null
-- where it holds none, and where they are for agents alone, who are nobody's readers outside.
-- `sources`: what summaries that are in it came from, which the ledger gets before it leaves.
create type earshot.looked as (code text, result json, items integer, only_for text[], sources earshot.source[]);

-- Who is in both; a null is everybody.
create function earshot.meet(p_one text[], p_other text[]) returns text[]
language sql immutable parallel safe as $$
  select case when p_one is null then p_other when p_other is null then p_one
    else array(select x from unnest(p_one) x where x = any (p_other)) end
$$;

-- Of blocks for some readers, who was named in each. Those that name agents only, as `agent:` and a name that is no
-- user's, are work that agents share, and hold back nothing: it is who wrote the block that says so.
create function earshot.named_in_all(p_org bigint, p_blocks jsonb[], p_readers text[]) returns text[]
language plpgsql stable as $$
declare
  result text[];
  audiences bigint;
begin
  with audiences as materialized (
    select distinct b.block -> 'audience' as audience from unnest(p_blocks) as e(blocks)
    cross join lateral jsonb_array_elements(e.blocks) as b(block)
    where b.block ? 'audience' and names_readers(b.block -> 'audience', p_readers)
  ), binding as materialized (
    select row_number() over () as nth, a.audience from audiences a
    where exists (select from jsonb_array_elements_text(a.audience) as who(name)
      where not starts_with(who.name, 'agent:')
         or exists (select from users u where u.org_id = p_org and u.external_id = who.name))
  ), named as (
    select who.name, count(distinct b.nth) as times from binding b
    cross join lateral jsonb_array_elements_text(b.audience) as who(name) group by who.name
  )
  select coalesce((select array_agg(n.name order by n.name) from named n where n.times = (select count(*) from binding)), '{}'),
    (select count(*) from binding)
  into result, audiences;
  return case when audiences > 0 then result end;
end $$;

-- A message or an artifact as a source that is told.
create function earshot.source_json(p_conversation text, p_message text, p_seq bigint, p_artifact uuid, p_revision bigint)
returns jsonb
language sql immutable parallel safe as $$
  select case when p_artifact is not null then jsonb_build_object('artifact', p_artifact, 'revision', p_revision::text)
    else jsonb_build_object('conversation', p_conversation, 'id', p_message, 'seq', p_seq::text, 'revision', p_revision::text) end
$$;

-- Where an entry came from, of what is shown of it: the sources of a block that is not are not told either.
create function earshot.sources_of(p_org bigint, p_session uuid, p_position bigint, p_revision bigint, p_whole jsonb, p_readers text[])
returns jsonb
language plpgsql stable as $$
begin
  return (
    select jsonb_agg(source_json(f.name, f.id, f.seq, f.artifact, f.revision) order by f.name collate "C", f.seq)
    from (
      select distinct c.external_id as name, m.external_id as id, s.seq, a.id as artifact, s.source_revision as revision
      from log_sources s
      cross join lateral (select x.external_id from conversations x
        where x.org_id = p_org and x.id = s.conversation_id limit 1) c
      left join lateral (select x.external_id from messages x
        where x.org_id = p_org and x.conversation_id = s.conversation_id and x.seq = s.seq limit 1) m on true
      left join lateral (select x.id from artifacts x
        where x.org_id = p_org and x.conversation_id = s.conversation_id and x.seq = s.seq limit 1) a on true
      where s.org_id = p_org and s.session_id = p_session and s.position = p_position and s.revision = p_revision
        and (s.block is null or is_shown(p_whole, s.block, p_readers))
    ) f);
end $$;

create function earshot.entry_json(p_id uuid, p_revision bigint, p_role text, p_participant text, p_written timestamptz,
  p_blocks jsonb, p_sources jsonb, p_injection text default null) returns jsonb
language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object('id', p_id, 'revision', p_revision::text, 'role', p_role,
      'participant', p_participant, 'writtenAt', earshot.rfc3339(p_written), 'injection', p_injection))
    || case when p_sources is null then '{}' else jsonb_build_object('sources', p_sources) end
    || jsonb_build_object('blocks', p_blocks)
$$;

-- Entries in the order in which they changed, after the one that the caller read last: an edited one comes again. That
-- there are more is told of the next one, so it binds like those that are shown.
create function earshot.list_log(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_place earshot.namespaces,
  p_arguments jsonb)
returns earshot.looked
language plpgsql stable as $$
declare
  result earshot.looked;
  page constant integer := (p_arguments ->> 'limit')::integer;
  since bigint := 0;
  restricted jsonb[];
begin
  if p_arguments ? 'afterId' then
    select e.change into since from log_entries e
    where e.org_id = p_org and e.session_id = p_session and e.id = (p_arguments ->> 'afterId')::uuid
      and e.revision = (p_arguments ->> 'afterRevision')::bigint;
    if not found then
      result.code := 'invalid_input';
      return result;
    end if;
  end if;
  select jsonb_build_object('more', count(*) > count(*) filter (where v.fits), 'entries', coalesce(jsonb_agg(
      entry_json(v.id, v.revision, v.role, v.participant, v.written_at, v.blocks,
        case when s.sourced then sources_of(p_org, p_session, v.pos, v.revision, v.whole, p_readers) end)
      order by v.change) filter (where v.fits), '[]')),
    count(*) filter (where v.fits), array_agg(v.whole) filter (where v.restricted)
  into result.result, result.items, restricted
  from (
    select l.*, row_number() over (order by l.change) <= page
      and (row_number() over (order by l.change) = 1 or sum(l.bytes) over (order by l.change) <= most_bytes()) as fits
    from (
      select x.* from log_view(p_org, p_session, p_mark, p_readers, p_place.agent, null) x where x.change > since
      order by x.change limit page + 1
    ) l
  ) v
  left join lateral (select true as sourced from log_sources x
    where x.org_id = p_org and x.session_id = p_session and x.position = v.pos and x.revision = v.revision limit 1) s on true;
  result.only_for := named_in_all(p_org, restricted, p_readers);
  return result;
end $$;

-- Entries with a text block that holds this, letter case apart, in the order of the log. Only what is shown is
-- looked through, and the offset fence keeps the comparison from running on anything before it is.
create function earshot.search_log(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_place earshot.namespaces,
  p_arguments jsonb)
returns earshot.looked
language plpgsql stable as $$
declare
  result earshot.looked;
  page constant integer := (p_arguments ->> 'limit')::integer;
  wanted constant text := lower(p_arguments ->> 'query');
  restricted jsonb[];
begin
  select jsonb_build_object('total', coalesce(max(f.total), 0)::text, 'entries', coalesce(jsonb_agg(
      entry_json(f.id, f.revision, f.role, f.participant, f.written_at, f.blocks,
        case when s.sourced then sources_of(p_org, p_session, f.pos, f.revision, f.whole, p_readers) end)
      order by f.pos) filter (where f.fits), '[]')),
    count(*) filter (where f.fits)
  into result.result, result.items
  from (
    select v.*, count(*) over () as total, row_number() over (order by v.pos) = 1
      or sum(v.bytes) over (order by v.pos) <= most_bytes() as fits
    from (select l.* from log_view(p_org, p_session, p_mark, p_readers, p_place.agent, null) l offset 0) v
    where exists (
      select from jsonb_array_elements(v.blocks) as b(block)
      where b.block ->> 'type' = 'text' and position(wanted in lower(b.block ->> 'text')) > 0)
    order by v.pos limit page
  ) f
  left join lateral (select true as sourced from log_sources x
    where x.org_id = p_org and x.session_id = p_session and x.position = f.pos and x.revision = f.revision limit 1) s on true;
  -- That something is not there is told of all that was looked through.
  restricted := array(select v.whole from log_view(p_org, p_session, p_mark, p_readers, p_place.agent, null) v where v.restricted);
  result.only_for := named_in_all(p_org, restricted, p_readers);
  return result;
end $$;

-- What this namespace has pinned, of what it shows.
create function earshot.pinned_log(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_place earshot.namespaces)
returns earshot.looked
language plpgsql stable as $$
declare
  result earshot.looked;
  restricted jsonb[];
begin
  if (select sum(v.bytes) from log_view(p_org, p_session, p_mark, p_readers, p_place.agent, null) v
      join log_pins p on p.org_id = p_org and p.session_id = p_session and p.namespace = p_place.name and p.position = v.pos)
     > most_bytes() then
    result.code := 'too_large';
    return result;
  end if;
  select jsonb_build_object('entries', coalesce(jsonb_agg(
      entry_json(v.id, v.revision, v.role, v.participant, v.written_at, v.blocks,
        case when s.sourced then sources_of(p_org, p_session, v.pos, v.revision, v.whole, p_readers) end)
      order by v.pos), '[]')),
    count(*), array_agg(v.whole) filter (where v.restricted)
  into result.result, result.items, restricted
  from log_view(p_org, p_session, p_mark, p_readers, p_place.agent, null) v
  join log_pins p on p.org_id = p_org and p.session_id = p_session and p.namespace = p_place.name and p.position = v.pos
  left join lateral (select true as sourced from log_sources x
    where x.org_id = p_org and x.session_id = p_session and x.position = v.pos and x.revision = v.revision limit 1) s on true;
  result.only_for := named_in_all(p_org, restricted, p_readers);
  return result;
end $$;

-- The session, who is in its log, and the places there whose views are this one's.
create function earshot.describe_log(p_session earshot.sessions, p_mark bigint, p_readers text[], p_place earshot.namespaces)
returns earshot.looked
language plpgsql stable as $$
declare
  org constant bigint := p_session.org_id;
  result earshot.looked;
  restricted jsonb[];
begin
  result.items := 0;
  select jsonb_strip_nulls(jsonb_build_object(
      'id', p_session.id, 'epoch', p_session.epoch::text,
      'policyRevision', p_session.policy_revision::text, 'parent', p_session.parent_id, 'fork', p_session.fork_name,
      'agents', (select jsonb_agg(jsonb_build_object('name', a.name, 'kind', a.kind, 'primary', a.is_primary)
                   order by a.created_at, a.name)
                 from agents a where a.org_id = org and a.session_id = p_session.id),
      'namespaces', (select jsonb_agg(jsonb_build_object('name', n.name, 'agent', n.agent, 'handle', n.handle) order by n.name)
                     from namespaces n
                     where n.org_id = org and n.session_id = p_session.id and n.reader is not distinct from p_place.reader),
      'reader', p_place.reader,
      'entries', count(*)::text, 'blocks', coalesce(sum(jsonb_array_length(v.blocks)), 0)::text)),
    array_agg(v.whole) filter (where v.restricted)
  into result.result, restricted
  from log_view(org, p_session.id, p_mark, p_readers, p_place.agent, null) v;
  result.only_for := named_in_all(org, restricted, p_readers);
  return result;
end $$;

create function earshot.look(p_call earshot.session_call, p_handle uuid, p_what text, p_arguments jsonb, p_mark bigint,
  p_now timestamptz) returns earshot.looked
language plpgsql stable as $$
declare
  org constant bigint := (p_call.live).org_id;
  held constant earshot.sessions := p_call.session;
  place constant earshot.namespaces := namespace_of(held, p_handle);
  readers text[];
  mark bigint;
  result earshot.looked;
begin
  -- Whatever plan the caller's statement gets: a call that is refused reads nothing.
  result.code := case
    when p_call.code is not null or held.id is null then coalesce(p_call.code, 'session_not_yours')
    when place.name is null then 'not_found'
    -- A read that was not announced does not happen.
    when not place.claimed or place.watermark < p_mark or p_mark is null then 'conflict'
  end;
  if result.code is null then
    result.code := judge_ledger(p_call.live, held.id, p_now);
  end if;
  if result.code is not null then
    return result;
  end if;
  readers := view_readers(place, (p_call.live).standing);
  -- No caller picks an earlier state of the log: what is read is what was announced.
  mark := place.watermark;
  return case p_what
    when 'compile' then compile_log(p_call.live, held.id, mark, readers, place, p_arguments, p_now)
    when 'preview' then compile_log(p_call.live, held.id, mark, readers, place, p_arguments, p_now)
    when 'entries' then list_log(org, held.id, mark, readers, place, p_arguments)
    when 'search' then search_log(org, held.id, mark, readers, place, p_arguments)
    when 'summary_input' then summary_input(p_call.live, held.id, mark, readers, place, p_arguments, p_now)
    when 'summaries' then list_summaries(p_call.live, held.id, mark, readers, place, p_now)
    when 'pins' then pinned_log(org, held.id, mark, readers, place)
    when 'session' then describe_log(held, mark, readers, place)
  end;
end $$;

-- Reads the log through a namespace whose watermark has been raised to `p_mark`. The check of the grant, the session,
-- its ledger and what is read are one statement on one snapshot (INVARIANT 5); what was shown through
-- this namespace for some readers only, now or in an earlier turn, is on record with the turn before anything leaves.
create function earshot.read_log(p_digest bytea, p_session uuid, p_audience bytea, p_handle uuid, p_what text,
  p_arguments jsonb, p_mark bigint, out code text, out changes jsonb, out decision_id uuid, out result json)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t constant timestamptz := clock_timestamp();
  pair record;
  call earshot.session_call;
  seen earshot.looked;
  binding text[];
  pending constant uuid := gen_random_uuid();
begin
  perform enter_grant(p_digest);
  with judged as materialized (
    select j as call from judge_session(p_digest, p_session, p_audience, t) j
  )
  select j.call, l as seen into pair
  from judged j cross join lateral look(j.call, p_handle, p_what, p_arguments, p_mark, t) l;
  call := pair.call;
  seen := pair.seen;
  code := case when seen.code is null and seen.result is null then 'invalid_input' else seen.code end;
  changes := (call.live).changes;
  if code is null then
    update namespaces n set only_for = meet(n.only_for, seen.only_for)
    where n.org_id = (call.live).org_id and n.session_id = p_session and seen.only_for is not null
      and case when p_handle is null then n.name = 'default' else n.handle = p_handle end;
    binding := (namespace_of(call.session, p_handle)).only_for;
    if binding is not null then
      update turns t0 set only_for = meet(t0.only_for, binding)
      where t0.org_id = (call.live).org_id and t0.id = (call.live).turn_id;
    end if;
    perform note_in_ledger((call.live).org_id, p_session, seen.sources, pending);
    if p_what = 'compile' then
      insert into turn_places (org_id, session_id, agent, turn_id)
      select n.org_id, n.session_id, n.agent, (call.live).turn_id from namespaces n
      where n.org_id = (call.live).org_id and n.session_id = p_session
        and case when p_handle is null then n.name = 'default' else n.handle = p_handle end
      on conflict do nothing;
    end if;
    result := seen.result;
  end if;
  decision_id := record_session_call(call, p_what, code, seen.items, t, pending,
    sha256(convert_to(p_arguments ->> 'query', 'UTF8')));
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array[
    'raise_watermark(bytea, uuid, bytea, uuid)',
    'read_log(bytea, uuid, bytea, uuid, text, jsonb, bigint)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
