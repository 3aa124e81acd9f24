-- Summaries of a log, which the host's model writes.

-- A summary, of the view of one namespace and for that view alone. Nothing is taken out; one of which an entry was
-- edited since is never shown again.
create table earshot.log_summaries (
  org_id bigint not null,
  session_id uuid not null,
  namespace earshot.external_id not null,
  id uuid not null,
  -- The order in which a log's summaries were written.
  nth bigint not null,
  level integer not null check (level between 1 and 9),
  -- The entries under it, in the order of the log; also those that it covers by way of other summaries.
  positions bigint[] not null check (cardinality(positions) > 0),
  body text not null,
  -- The change of the log that it was written at, and the one that made it stale.
  change bigint not null,
  stale_at bigint,
  turn_id uuid not null,
  written_at timestamptz not null,
  primary key (org_id, session_id, id),
  foreign key (org_id, session_id, namespace) references earshot.namespaces
);
create index log_summaries_by_namespace on earshot.log_summaries (org_id, session_id, namespace, nth);

-- What a summary came from: all that what is under it came from, and what the host names besides.
create table earshot.log_summary_sources (
  org_id bigint not null,
  session_id uuid not null,
  summary_id uuid not null,
  conversation_id bigint not null,
  seq bigint not null,
  source_revision bigint not null,
  primary key (org_id, session_id, summary_id, conversation_id, seq, source_revision),
  foreign key (org_id, session_id, summary_id) references earshot.log_summaries
);

do $$
declare
  name text;
begin
  foreach name in array array['log_summaries', 'log_summary_sources']
  loop
    execute format('alter table earshot.%I enable row level security', name);
    execute format('alter table earshot.%I force row level security', name);
    execute format('create policy organization on earshot.%I
      using (org_id = (select earshot.current_organization()))
      with check (org_id = (select earshot.current_organization()))', name);
    execute format('grant select, insert on earshot.%I to earshot_scoped', name);
  end loop;
end $$;
grant update on earshot.log_summaries to earshot_scoped;

-- Whether a turn may put text of its own before whoever reads in this namespace: null, or the refusal. One that was shown
-- what is for some readers only may where they alone read, and what it writes binds who reads there from then on.
create function earshot.judge_place(p_live earshot.live, p_place earshot.namespaces) returns text
language plpgsql stable as $$
declare
  only_for constant text[] := (select t.only_for from turns t where t.org_id = p_live.org_id and t.id = p_live.turn_id);
  readers constant text[] := view_readers(p_place, p_live.standing);
begin
  return case when only_for is not null
    and (array_position(readers, null) is not null or not readers <@ only_for) then 'narrowing_refused' end;
end $$;

-- What was written into a namespace is for its readers from then on, so they have claimed it; and what a bound turn wrote
-- binds it too.
create function earshot.bind_place(p_live earshot.live, p_place earshot.namespaces) returns void
language plpgsql volatile as $$
begin
  update namespaces n set claimed = true, only_for = meet(n.only_for, t.only_for)
  from turns t
  where t.org_id = p_live.org_id and t.id = p_live.turn_id
    and n.org_id = p_live.org_id and n.session_id = p_place.session_id and n.name = p_place.name;
end $$;

-- Question: which summaries of this namespace may be sent, as the log was at `p_mark`? Of none of them an entry was
-- edited, and all that it came from may be read now: what is in the ledger was asked about already, the rest is here.
create function earshot.standing_summaries(p_live earshot.live, p_session uuid, p_mark bigint, p_place earshot.namespaces,
  p_now timestamptz) returns setof earshot.log_summaries
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  standing constant earshot.standing := p_live.standing;
  unread constant earshot.source[] := array(
    select distinct row(x.conversation_id, x.seq, x.seq, x.source_revision)::source
    from log_summaries s
    join log_summary_sources x on x.org_id = org and x.session_id = p_session and x.summary_id = s.id
    where s.org_id = org and s.session_id = p_session and s.namespace = p_place.name
      -- A probe for each: a join would be planned without knowing how many there are.
      and (select true from ledger_entries l where l.org_id = org and l.session_id = p_session
        and l.conversation_id = x.conversation_id and l.from_seq = x.seq and coalesce(l.revision, 0) = x.source_revision
        limit 1) is null);
  extent earshot.scope;
  gone earshot.source[] := '{}';
begin
  if cardinality(unread) > 0 then
    extent := turn_scope(org, p_live.destination_id, standing.readers, standing.floor, standing.extent,
      p_live.requester_id, standing.project_bound, null, p_now, conversations_of(org, unread));
    gone := array(select s from unnest(unread) with ordinality as u(conversation_id, from_seq, to_seq, revision, nth)
      cross join lateral (select row(u.conversation_id, u.from_seq, u.to_seq, u.revision)::source as s) x
      where judge_sources(org, array[x.s], extent) is not null);
  end if;
  return query
  select s.* from log_summaries s
  where s.org_id = org and s.session_id = p_session and s.namespace = p_place.name
    and s.change <= p_mark and (s.stale_at is null or s.stale_at > p_mark)
    and not exists (
      select from unnest(gone) g
      join log_summary_sources x on x.org_id = org and x.session_id = p_session and x.summary_id = s.id
        and x.conversation_id = g.conversation_id and x.seq = g.from_seq and x.source_revision = g.revision)
  order by s.nth;
end $$;

-- What these summaries came from, for the ledger.
create function earshot.summary_sources(p_org bigint, p_session uuid, p_summaries uuid[]) returns earshot.source[]
language plpgsql stable as $$
begin
  return array(
    select distinct row(x.conversation_id, x.seq, x.seq, x.source_revision)::source
    from log_summary_sources x
    where x.org_id = p_org and x.session_id = p_session and x.summary_id = any (p_summaries));
end $$;

create function earshot.summary_json(p_org bigint, p_session uuid, p_summary earshot.log_summaries) returns jsonb
language plpgsql stable as $$
begin
  return jsonb_strip_nulls(jsonb_build_object('id', p_summary.id, 'level', p_summary.level,
    'from', (select e.id from log_entries e where e.org_id = p_org and e.session_id = p_session
       and e.position = p_summary.positions[1] limit 1),
    'to', (select e.id from log_entries e where e.org_id = p_org and e.session_id = p_session
       and e.position = p_summary.positions[cardinality(p_summary.positions)] limit 1),
    'entries', cardinality(p_summary.positions), 'text', p_summary.body,
    'sources', (
      select jsonb_agg(source_json(c.external_id, m.external_id, x.seq, a.id, x.source_revision)
        order by c.external_id collate "C", x.seq)
      from log_summary_sources x
      join conversations c on c.org_id = p_org and c.id = x.conversation_id
      left join messages m on m.org_id = p_org and m.conversation_id = x.conversation_id and m.seq = x.seq
      left join artifacts a on a.org_id = p_org and a.conversation_id = x.conversation_id and a.seq = x.seq
      where x.org_id = p_org and x.session_id = p_session and x.summary_id = p_summary.id)));
end $$;

-- The summaries of this namespace, in the order in which they were written.
create function earshot.list_summaries(p_live earshot.live, p_session uuid, p_mark bigint, p_readers text[],
  p_place earshot.namespaces, p_now timestamptz) returns earshot.looked
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  result earshot.looked;
  found_ids uuid[];
begin
  select jsonb_build_object('summaries', coalesce(jsonb_agg(summary_json(org, p_session, s) order by s.nth), '[]')),
    count(*), coalesce(array_agg(s.id), '{}')
  into result.result, result.items, found_ids
  from standing_summaries(p_live, p_session, p_mark, p_place, p_now) s;
  if octet_length(result.result::text) > most_bytes() then
    result.code := 'too_large';
  end if;
  result.sources := summary_sources(org, p_session, found_ids);
  return result;
end $$;

-- Which entries, at which revisions, a view holds from one place in the log to another. Who summarizes them
-- gives it back, so that a summary is taken for those alone that its writer saw.
create function earshot.state_of(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_place earshot.namespaces,
  p_from bigint, p_to bigint) returns text
language plpgsql stable as $$
begin
  return (select encode(sha256(convert_to(string_agg(v.id::text || '.' || v.revision::text
      -- What was erased is not what its writer was given, though it has the same revision.
      || case when e.erased is null then '' else '.' || md5(v.whole::text) end, ',' order by v.pos), 'UTF8')), 'hex')
    from log_view(p_org, p_session, p_mark, p_readers, p_place.agent, p_place.name) v
    join log_entries e on e.org_id = p_org and e.session_id = p_session and e.position = v.pos and e.revision = v.revision
    where v.pos between p_from and p_to);
end $$;

-- The first and the last place in the log of two entries that a view holds; null where it does not hold both.
create function earshot.ends_of(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_place earshot.namespaces,
  p_from uuid, p_to uuid) returns bigint[]
language plpgsql stable as $$
declare
  ends bigint[];
begin
  select array_agg(v.pos order by v.pos) into ends
  from log_view(p_org, p_session, p_mark, p_readers, p_place.agent, p_place.name) v where v.id in (p_from, p_to);
  return case when cardinality(ends) = (case when p_from = p_to then 1 else 2 end)
    then array[ends[1], ends[cardinality(ends)]] end;
end $$;

-- What a host's model summarizes for this view: the entries from one to another, both among them, what was injected
-- there too; or summaries of it.
create function earshot.summary_input(p_live earshot.live, p_session uuid, p_mark bigint, p_readers text[],
  p_place earshot.namespaces, p_arguments jsonb, p_now timestamptz) returns earshot.looked
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  result earshot.looked;
  ends bigint[];
  restricted jsonb[];
  wanted constant uuid[] := array(select x::uuid from jsonb_array_elements_text(p_arguments -> 'of') x);
begin
  if p_arguments ? 'of' then
    select jsonb_build_object('entries', '[]'::jsonb, 'summaries', jsonb_agg(summary_json(org, p_session, s) order by s.nth)),
      count(*)
    into result.result, result.items
    from standing_summaries(p_live, p_session, p_mark, p_place, p_now) s where s.id = any (wanted);
    if result.items <> (select count(distinct x) from unnest(wanted) x) then
      result.code := 'not_found';
    elsif octet_length(result.result::text) > most_bytes() then
      result.code := 'too_large';
    end if;
    result.sources := summary_sources(org, p_session, wanted);
    return result;
  end if;
  -- Only an entry that is shown can be named: another one is not there.
  ends := ends_of(org, p_session, p_mark, p_readers, p_place, (p_arguments ->> 'from')::uuid, (p_arguments ->> 'to')::uuid);
  if ends is null then
    result.code := 'not_found';
    return result;
  end if;
  if is_too_large(org, p_session, p_mark, p_readers, p_place, ends[1], ends[2]) then
    result.code := 'too_large';
    return result;
  end if;
  select jsonb_build_object('state', state_of(org, p_session, p_mark, p_readers, p_place, ends[1], ends[2]),
      'entries', coalesce(jsonb_agg(
        entry_json(v.id, v.revision, v.role, v.participant, v.written_at, v.blocks,
          case when s.sourced then sources_of(org, p_session, v.pos, v.revision, v.whole, p_readers) end, v.injection)
        order by v.pos), '[]')),
    count(*), array_agg(v.whole) filter (where v.restricted)
  into result.result, result.items, restricted
  from log_view(org, p_session, p_mark, p_readers, p_place.agent, p_place.name) v
  left join lateral (select true as sourced from log_sources x
    where x.org_id = org and x.session_id = p_session and x.position = v.pos and x.revision = v.revision limit 1) s on true
  where v.pos between ends[1] and ends[2];
  result.only_for := named_in_all(org, restricted, p_readers);
  return result;
end $$;

-- Writes a summary of what the namespace shows: of the entries from one to another, as the writer saw them, or of other
-- summaries. What it came from is the join of what is under it came from, and what is named besides, which has to be in the
-- turn's scope now. The same key and request again write nothing and give the same summary.
create function earshot.write_summary(p_digest bytea, p_session uuid, p_audience bytea, p_handle uuid, p_key text,
  p_request_digest bytea, p_summary jsonb, out code text, out changes jsonb, out decision_id uuid, out summary uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org bigint;
  t timestamptz;
  call earshot.session_call;
  head earshot.log_heads;
  place earshot.namespaces;
  known earshot.log_appends;
  readers text[];
  ends bigint[];
  covered bigint[];
  above integer := 1;
  stored integer;
  pending constant uuid := gen_random_uuid();
  under constant uuid[] := array(select x::uuid from jsonb_array_elements_text(p_summary -> 'of') x);
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
      summary := case when code is null then known.ids[1] end;
      decision_id := record_session_call(call, 'summarize', code, 0, t);
      return;
    end if;
    place := namespace_of(call.session, p_handle);
    code := case when place.name is null then 'not_found' else judge_place(call.live, place) end;
  end if;
  if code is null and p_summary ? 'of' then
    with children as materialized (
      select s.* from standing_summaries(call.live, p_session, head.change, place, t) s where s.id = any (under)
    )
    select case when count(*) <> (select count(distinct x) from unnest(under) x) then 'not_found'
        when max(c.level) >= 9 then 'invalid_input' end,
      max(c.level) + 1, array(select distinct p.position from children d cross join lateral unnest(d.positions) as p(position)
        order by p.position)
    into code, above, covered from children c;
  elsif code is null then
    readers := view_readers(place, (call.live).standing);
    ends := ends_of(org, p_session, head.change, readers, place, (p_summary ->> 'from')::uuid, (p_summary ->> 'to')::uuid);
    code := case when ends is null then 'not_found'
      when state_of(org, p_session, head.change, readers, place, ends[1], ends[2]) is distinct from p_summary ->> 'state'
        then 'conflict' end;
    covered := array(select v.pos from log_view(org, p_session, head.change, readers, place.agent, place.name) v
      where v.pos between ends[1] and ends[2] order by v.pos);
  end if;
  if code is null then
    begin
      summary := gen_random_uuid();
      insert into log_summaries (org_id, session_id, namespace, id, nth, level, positions, body, change, turn_id, written_at)
      values (org, p_session, place.name, write_summary.summary, (select coalesce(max(s.nth), 0) + 1 from log_summaries s
          where s.org_id = org and s.session_id = p_session), above, covered, p_summary ->> 'text', head.change + 1,
        (call.live).turn_id, t);
      insert into log_summary_sources (org_id, session_id, summary_id, conversation_id, seq, source_revision)
      select org, p_session, write_summary.summary, x.conversation_id, x.seq, x.source_revision
      from log_summary_sources x
      where x.org_id = org and x.session_id = p_session and x.summary_id = any (under)
      union
      select org, p_session, write_summary.summary, s.conversation_id, s.seq, s.source_revision
      from log_view(org, p_session, head.change, readers, place.agent, place.name) v
      join log_sources s on s.org_id = org and s.session_id = p_session and s.position = v.pos and s.revision = v.revision
      where v.pos between ends[1] and ends[2] and (s.block is null or is_shown(v.whole, s.block, readers))
      on conflict do nothing;
      if jsonb_array_length(coalesce(p_summary -> 'sources', '[]')) > 0 then
        select count(*) into stored from entry_sources(call.live, p_summary -> 'sources', t);
        if stored <> jsonb_array_length(p_summary -> 'sources') then
          raise exception using errcode = 'ES404', message = 'a source is not there';
        end if;
        insert into log_summary_sources (org_id, session_id, summary_id, conversation_id, seq, source_revision)
        select org, p_session, write_summary.summary, f.conversation_id, f.seq, f.revision
        from entry_sources(call.live, p_summary -> 'sources', t) f
        on conflict do nothing;
      end if;
      update log_heads h set change = head.change + 1 where h.org_id = org and h.session_id = p_session;
      insert into log_appends (org_id, session_id, turn_id, key, request_digest, ids)
      values (org, p_session, (call.live).turn_id, p_key, p_request_digest, array[write_summary.summary]);
      perform bind_place(call.live, place);
      perform bind_to_turn(call.live, p_session, pending);
    exception
      -- INVARIANT 16: which source it was is not told.
      when sqlstate 'ES404' then
        code := 'not_found';
        summary := null;
    end;
  end if;
  decision_id := record_session_call(call, 'summarize', code, coalesce(cardinality(covered), 0), t, pending);
end $$;

do $$
declare
  signature constant text := 'write_summary(bytea, uuid, bytea, uuid, text, bytea, jsonb)';
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  execute format('alter function earshot.%s owner to earshot_scoped', signature);
  execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  revoke create on schema earshot from earshot_scoped;
end $$;
