-- The context log: what the agents of a session have before them. Entries in order, each of blocks, of
-- which some may be meant for some readers only. What leaves it goes through one view, `log_view`.

-- The named readers of a log. The primary one is where the answers of the conversation come from.
create table earshot.agents (
  org_id bigint not null,
  session_id uuid not null,
  name earshot.external_id not null,
  kind text not null check (kind in ('resident', 'fork', 'sub_agent')),
  is_primary boolean not null default false,
  created_at timestamptz not null default clock_timestamp(),
  primary key (org_id, session_id, name),
  foreign key (org_id, session_id) references earshot.sessions
);
create unique index agents_one_primary on earshot.agents (org_id, session_id) where is_primary;

-- One agent's place in a log.
create table earshot.namespaces (
  org_id bigint not null,
  session_id uuid not null,
  name earshot.external_id not null,
  agent earshot.external_id not null,
  -- Opening gives it; every read shows it. Another reader's claim changes it.
  handle uuid not null default gen_random_uuid(),
  -- For whom its views are: null is the session's audience.
  reader earshot.external_id,
  -- Whether that reader has claimed it, by naming itself or by a first read. Once it has, it stays.
  claimed boolean not null,
  -- The last change to the log that something may have read through it. Raised before a read, never lowered.
  watermark bigint not null default 0,
  -- Who was named in everything for some readers only that was read through it, ever: they alone may have what a turn
  -- makes that reads here. Null: nothing of the kind was.
  only_for text[],
  primary key (org_id, session_id, name),
  unique (org_id, session_id, handle),
  foreign key (org_id, session_id, agent) references earshot.agents,
  check (claimed or reader is null)
);

-- The counters of a log. Whoever writes to it holds this row, so changes commit in the order of their
-- numbers, and reading on from a number skips nothing that commits late. Whoever raises a watermark
-- shares it, so that no edit comes between a raise and what was decided by it.
create table earshot.log_heads (
  org_id bigint not null,
  session_id uuid not null,
  position bigint not null default 0,
  change bigint not null default 0,
  primary key (org_id, session_id),
  foreign key (org_id, session_id) references earshot.sessions
);

-- A row for each revision of each entry. Nothing is taken out.
create table earshot.log_entries (
  org_id bigint not null,
  session_id uuid not null,
  position bigint not null,
  revision bigint not null check (revision >= 1),
  id uuid not null,
  change bigint not null,
  -- That of the entry's first revision: whatever was read since may hold some of it.
  first_change bigint not null,
  -- The change by which a later revision took its place.
  superseded_by bigint check (superseded_by > change),
  role text not null check (role in ('user', 'agent', 'system')),
  participant earshot.external_id not null,
  blocks jsonb not null check (jsonb_typeof(blocks) = 'array' and jsonb_array_length(blocks) > 0),
  -- Whether anything in it may be for some readers only. A tool's own data of that name counts, and costs a look.
  restricted boolean not null generated always as (jsonb_path_exists(blocks, '$.**.audience')) stored,
  bytes integer not null generated always as (octet_length(blocks::text)) stored,
  turn_id uuid not null,
  written_at timestamptz not null,
  primary key (org_id, session_id, position, revision),
  foreign key (org_id, session_id) references earshot.log_heads
);
create unique index log_entries_by_change on earshot.log_entries (org_id, session_id, change);
create unique index log_entries_by_id on earshot.log_entries (org_id, session_id, id, revision);

-- Where an entry's text came from; `block` null: all of it. An entry without one counts as the destination.
create table earshot.log_sources (
  org_id bigint not null,
  session_id uuid not null,
  position bigint not null,
  revision bigint not null,
  block integer,
  conversation_id bigint not null,
  seq bigint not null,
  source_revision bigint not null,
  foreign key (org_id, session_id, position, revision) references earshot.log_entries
);
create index log_sources_by_entry on earshot.log_sources (org_id, session_id, position, revision);

-- What a turn appended under a key, so that a repetition appends nothing.
create table earshot.log_appends (
  org_id bigint not null,
  session_id uuid not null,
  turn_id uuid not null,
  key text collate "C" not null,
  request_digest bytea not null,
  ids uuid[] not null,
  primary key (org_id, session_id, turn_id, key),
  foreign key (org_id, session_id) references earshot.log_heads
);

-- Whose a replay form is.
create table earshot.log_replays (
  org_id bigint not null,
  session_id uuid not null,
  id text collate "C" not null,
  position bigint not null,
  primary key (org_id, session_id, id),
  foreign key (org_id, session_id) references earshot.log_heads
);

-- Entries that a namespace keeps before its agent whatever else is summarized.
create table earshot.log_pins (
  org_id bigint not null,
  session_id uuid not null,
  namespace earshot.external_id not null,
  position bigint not null,
  primary key (org_id, session_id, namespace, position),
  foreign key (org_id, session_id, namespace) references earshot.namespaces
);

do $$
declare
  name text;
begin
  foreach name in array array['agents', 'namespaces', 'log_heads', 'log_entries', 'log_sources', 'log_appends', 'log_replays',
    'log_pins']
  loop
    execute format('alter table earshot.%I enable row level security', name);
    execute format('alter table earshot.%I force row level security', name);
    execute format('create policy organization on earshot.%I
      using (org_id = (select earshot.current_organization()))
      with check (org_id = (select earshot.current_organization()))', name);
    execute format('grant select, insert on earshot.%I to earshot_scoped', name);
  end loop;
end $$;
grant update on earshot.agents, earshot.namespaces, earshot.log_heads, earshot.log_entries to earshot_scoped;
grant delete on earshot.log_pins to earshot_scoped;

-- Whether a block with this `audience` field is for all of these readers. Null: the block has none, and is for
-- everybody. One that is not a list of strings names nobody; a null among the readers is a class, which
-- nobody can name; a view for nobody is named by nothing.
create function earshot.names_readers(p_audience jsonb, p_readers text[]) returns boolean
language sql immutable parallel safe as $$
  select p_audience is null or (jsonb_typeof(p_audience) = 'array' and coalesce(cardinality(p_readers), 0) > 0
    and array_position(p_readers, null) is null
    and not jsonb_path_exists(p_audience, 'strict $[*] ? (@.type() != "string")')
    and p_audience ?& p_readers)
$$;

-- Whether any of a block is kept from these readers.
create function earshot.is_hidden(p_block jsonb, p_readers text[]) returns boolean
language sql immutable parallel safe as $$
  select not earshot.names_readers(p_block -> 'audience', p_readers) or jsonb_path_exists(p_block, '$.content.**.audience')
$$;

-- The blocks of an entry that are for these readers; null where none is. A block within which another one has an
-- audience, which only an older version stored, is nobody's. The provider's own form of the entry (`raw`) covers
-- all of it, and a replay form that several blocks share covers those.
create function earshot.blocks_for(p_blocks jsonb, p_readers text[]) returns jsonb
language sql immutable parallel safe as $$
  with blocks as (
    select b.block, b.place, b.block #>> '{replay,id}' as replay, not earshot.is_hidden(b.block, p_readers) as shown
    from jsonb_array_elements(p_blocks) with ordinality as b(block, place)
  ), told as (
    select *, bool_and(shown) over () as whole, bool_and(shown) over (partition by replay) as replayable
    from blocks
  )
  select jsonb_agg(case when replayable then block else block - 'replay' end order by place)
  from told where shown and (whole or block ->> 'type' is distinct from 'raw')
$$;

-- Whether a view for these readers holds a block of an entry, as `blocks_for` has it.
create function earshot.is_shown(p_blocks jsonb, p_place integer, p_readers text[]) returns boolean
language sql immutable parallel safe as $$
  select not earshot.is_hidden(p_blocks -> p_place, p_readers)
    and (p_blocks -> p_place ->> 'type' is distinct from 'raw'
         or not exists (select from jsonb_array_elements(p_blocks) e(block) where earshot.is_hidden(e.block, p_readers)))
$$;

-- The same as a view gives them: without the field. Most entries have nothing to hide from most readers, and what is
-- then to be done costs half.
create function earshot.view_of(p_blocks jsonb, p_readers text[]) returns jsonb
language sql immutable parallel safe as $$
  select jsonb_agg(b.block - 'audience' order by b.place)
  from jsonb_array_elements(case
    when exists (select from jsonb_array_elements(p_blocks) e(block) where earshot.is_hidden(e.block, p_readers))
      then earshot.blocks_for(p_blocks, p_readers)
    else p_blocks end) with ordinality as b(block, place)
$$;

-- Where the blocks of an edit go: what its readers do not see of the entry stays in its place, as far as there are that
-- many, without a form that it may share with what was edited. A slot from 0 up is a block of the edit; one below, -1 for the first, a block that is kept.
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

-- The id of a fork, which its parent and its name give; policy/session-id.ts says the same.
create function earshot.fork_id(p_parent uuid, p_name text) returns uuid
language sql stable as $$
  select earshot.uuid_of(sha256(
    earshot.encode_part('earshot/fork/1') || earshot.encode_part(p_parent::text) || earshot.encode_part(p_name)))
$$;

-- Question: what does a view for these readers hold, as the log was at `p_mark`? The one predicate that every way
-- out of the log composes. An entry of which nothing is theirs is not there.
create function earshot.log_view(p_org bigint, p_session uuid, p_mark bigint, p_readers text[])
returns table (pos bigint, revision bigint, id uuid, change bigint, role text, participant text,
  written_at timestamptz, blocks jsonb, whole jsonb, restricted boolean, bytes integer)
language sql stable as $$
  select e.position, e.revision, e.id, e.change, e.role, e.participant::text, e.written_at, v.blocks, e.blocks, e.restricted,
    e.bytes
  from earshot.log_entries e
  cross join lateral (
    select case when e.restricted then earshot.view_of(e.blocks, p_readers) else e.blocks end as blocks offset 0
  ) v
  where e.org_id = p_org and e.session_id = p_session and e.change <= p_mark
    and (e.superseded_by is null or e.superseded_by > p_mark)
    and v.blocks is not null
$$;

-- The readers whose view a namespace gives: the one it is for, or everyone in the audience, a class as a null.
create function earshot.view_readers(p_namespace earshot.namespaces, p_standing earshot.standing) returns text[]
language plpgsql stable as $$
begin
  return case when p_namespace.reader is not null then array[p_namespace.reader::text]
    else array(select case when r.kind = 'user' then r.external_id end from unnest(p_standing.readers) r) end;
end $$;

-- The session that this grant may use under this id, all null where there is none: it is of the same organization,
-- conversation, persona, thread, epoch, fingerprint and policy revision as the grant's own (INVARIANT 12), and the
-- caller says for which audience it holds it. One that is null or another is none.
create function earshot.session_of(p_live earshot.live, p_session uuid, p_audience bytea) returns earshot.sessions
language plpgsql stable as $$
declare
  found_session earshot.sessions;
begin
  select s.* into found_session
  from sessions g
  join sessions s on s.org_id = g.org_id and s.id = p_session and s.root_id = g.id
    and s.conversation_id = g.conversation_id and s.persona_id = g.persona_id and s.thread_key = g.thread_key
    and s.epoch = g.epoch and s.audience_hash = g.audience_hash and s.policy_revision = g.policy_revision
  where g.org_id = p_live.org_id and g.id = p_live.session_id
    and g.audience_hash = (p_live.standing).audience_hash and g.audience_hash = p_audience;
  return found_session;
end $$;

create type earshot.session_call as (code text, live earshot.live, session earshot.sessions);

-- Question: may this grant work in this session, now? The live check first, so that one which has ended tells
-- nothing about what exists.
create function earshot.judge_session(p_digest bytea, p_session uuid, p_audience bytea, p_now timestamptz)
returns earshot.session_call
language plpgsql stable as $$
declare
  result earshot.session_call;
  live constant earshot.live := live_check(p_digest, null, p_now);
  held earshot.sessions;
begin
  result.live := live;
  result.code := live.code;
  if live.code is null then
    held := session_of(live, p_session, p_audience);
    result.session := held;
    result.code := case
      when held.id is null then 'session_not_yours'
      when held.state <> 'open' then 'session_quarantined'
    end;
  end if;
  return result;
end $$;

-- Question: is everything this session was shown still readable by its audience, and unchanged? Null, or the refusal.
create function earshot.judge_ledger(p_live earshot.live, p_session uuid, p_now timestamptz) returns text
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  standing constant earshot.standing := p_live.standing;
  shown constant earshot.source[] := array(
    select row(l.conversation_id, l.from_seq, l.to_seq, l.revision)::source
    from ledger_entries l where l.org_id = org and l.session_id = p_session);
begin
  return judge_sources(org, shown, turn_scope(org, p_live.destination_id, standing.readers, standing.floor,
    standing.extent, p_live.requester_id, standing.project_bound, null, p_now, conversations_of(org, shown)));
end $$;

-- Records what was decided about a call of a session (INVARIANT 17), and does what a refusal entails: the grant ends
-- where it is for good, and a session whose ledger does not stand is quarantined. The next mint moves its epoch on.
create function earshot.record_session_call(p_call earshot.session_call, p_what text, p_code text, p_items integer,
  p_now timestamptz, p_decision uuid default gen_random_uuid(), p_subject bytea default null) returns uuid
language plpgsql volatile as $$
declare
  live constant earshot.live := p_call.live;
  standing constant earshot.standing := live.standing;
begin
  if live.org_id is null then
    return null;
  end if;
  if live.code is not null then
    perform revoke_grant(live.org_id, live.grant_id, live.code, live.changes, p_now);
  elsif p_code in ('source_revoked', 'source_changed') then
    update sessions s set state = 'quarantined'
    where s.org_id = live.org_id and s.id = (p_call.session).id and s.state = 'open';
  end if;
  -- What the turn makes may come from a fork as well: its deliveries are asked about the fork's ledger too.
  if (p_call.session).parent_id is not null then
    insert into turn_forks (org_id, turn_id, session_id) values (live.org_id, live.turn_id, (p_call.session).id)
    on conflict do nothing;
  end if;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, session_id, tool, items,
    audience_hash, policy_revision, detail, subject_sha256)
  values (live.org_id, p_decision, p_now, 'session', case when p_code is null then 'allowed' else 'refused' end, p_code,
    live.turn_id, live.grant_id, coalesce((p_call.session).id, live.session_id), p_what, p_items,
    standing.audience_hash, standing.policy_revision, jsonb_strip_nulls(jsonb_build_object('changes', live.changes)),
    p_subject);
  return p_decision;
end $$;

-- Opens the log of a session: its counters, its resident agent, and that agent's place.
create function earshot.open_log(p_org bigint, p_session uuid, p_kind text, p_agent text, p_reader text, p_watermark bigint,
  p_only_for text[]) returns void
language plpgsql volatile as $$
begin
  insert into log_heads (org_id, session_id) values (p_org, p_session) on conflict do nothing;
  if found then
    insert into agents (org_id, session_id, name, kind, is_primary) values (p_org, p_session, p_agent, p_kind, true);
    insert into namespaces (org_id, session_id, name, agent, reader, claimed, watermark, only_for)
    values (p_org, p_session, 'default', p_agent, p_reader, true, p_watermark, p_only_for);
  end if;
end $$;

-- The namespace that a read goes through: by its handle, or the agent's default one.
create function earshot.namespace_of(p_session earshot.sessions, p_handle uuid) returns earshot.namespaces
language plpgsql stable as $$
declare
  found_namespace earshot.namespaces;
begin
  select * into found_namespace from namespaces n
  where n.org_id = p_session.org_id and n.session_id = p_session.id
    and case when p_handle is null then n.name = 'default' else n.handle = p_handle end;
  return found_namespace;
end $$;

-- Raises a namespace's watermark to where the log is now, in a transaction of its own, before anything is read
-- through it: `mark` is what the read that follows may see. A first read claims the namespace for who opened it.
-- An edit that is under way is waited for.
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

-- What a read of the log gave. `only_for`: who was named in every block of it that is for some readers only; null
-- where it holds none, and where they are for agents alone, who are nobody's readers outside.
-- How much one answer may hold of a log, in bytes of its blocks: a page ends there, and what has no pages is refused.
create function earshot.most_bytes() returns integer
language sql immutable parallel safe as $$ select 33554432 $$;

create type earshot.looked as (code text, result jsonb, items integer, only_for text[]);

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

-- Where an entry came from, of what is shown of it: the sources of a block that is not are not told either.
create function earshot.sources_of(p_org bigint, p_session uuid, p_position bigint, p_revision bigint, p_whole jsonb, p_readers text[])
returns jsonb
language plpgsql stable as $$
begin
  return (
    select jsonb_agg(jsonb_build_object('conversation', f.name, 'id', f.id, 'seq', f.seq::text, 'revision', f.revision::text)
      order by f.name collate "C", f.seq)
    from (
      select distinct c.external_id as name, m.external_id as id, s.seq, s.source_revision as revision
      from log_sources s
      join conversations c on c.org_id = p_org and c.id = s.conversation_id
      join messages m on m.org_id = p_org and m.conversation_id = s.conversation_id and m.seq = s.seq
      where s.org_id = p_org and s.session_id = p_session and s.position = p_position and s.revision = p_revision
        and (s.block is null or is_shown(p_whole, s.block, p_readers))
    ) f);
end $$;

create function earshot.entry_json(p_id uuid, p_revision bigint, p_role text, p_participant text, p_written timestamptz,
  p_blocks jsonb, p_sources jsonb) returns jsonb
language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object('id', p_id, 'revision', p_revision::text, 'role', p_role,
      'participant', p_participant, 'writtenAt', earshot.rfc3339(p_written)))
    || case when p_sources is null then '{}' else jsonb_build_object('sources', p_sources) end
    || jsonb_build_object('blocks', p_blocks)
$$;

-- The entries of this log, as they were at `p_mark`, as model messages for these readers: everything raw, in order.
create function earshot.compile_log(p_org bigint, p_session uuid, p_mark bigint, p_readers text[]) returns earshot.looked
language plpgsql stable as $$
declare
  result earshot.looked;
  restricted jsonb[];
begin
  if (select sum(v.bytes) from log_view(p_org, p_session, p_mark, p_readers) v) > most_bytes() then
    result.code := 'too_large';
    return result;
  end if;
  -- A log is read whole here, so its sources are, once: asking for each entry costs more than the rest.
  with sourced as materialized (
    select s.position, s.revision from log_sources s
    where s.org_id = p_org and s.session_id = p_session group by s.position, s.revision
  )
  select jsonb_build_object(
      'messages', coalesce(jsonb_agg(jsonb_build_object('role', v.role, 'participant', v.participant, 'content', v.blocks)
        order by v.pos), '[]'),
      'provenance', coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('entry', v.id, 'revision', v.revision::text,
        'sources', case when s.position is not null
          then sources_of(p_org, p_session, v.pos, v.revision, v.whole, p_readers) end)) order by v.pos), '[]'),
      'stats', jsonb_build_object('entries', count(*), 'blocks', coalesce(sum(jsonb_array_length(v.blocks)), 0))),
    count(*), array_agg(v.whole) filter (where v.restricted)
  into result.result, result.items, restricted
  from log_view(p_org, p_session, p_mark, p_readers) v
  left join sourced s on s.position = v.pos and s.revision = v.revision;
  result.only_for := named_in_all(p_org, restricted, p_readers);
  return result;
end $$;

-- Entries in the order in which they changed, after the one that the caller read last: an edited one comes again. That
-- there are more is told of the next one, so it binds like those that are shown.
create function earshot.list_log(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_arguments jsonb)
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
      select x.* from log_view(p_org, p_session, p_mark, p_readers) x where x.change > since
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
create function earshot.search_log(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_arguments jsonb)
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
    select v.*, count(*) over () as total, sum(v.bytes) over (order by v.pos) <= most_bytes() as fits
    from (select l.* from log_view(p_org, p_session, p_mark, p_readers) l offset 0) v
    where exists (
      select from jsonb_array_elements(v.blocks) as b(block)
      where b.block ->> 'type' = 'text' and position(wanted in lower(b.block ->> 'text')) > 0)
    order by v.pos limit page
  ) f
  left join lateral (select true as sourced from log_sources x
    where x.org_id = p_org and x.session_id = p_session and x.position = f.pos and x.revision = f.revision limit 1) s on true;
  -- That something is not there is told of all that was looked through.
  restricted := array(select v.whole from log_view(p_org, p_session, p_mark, p_readers) v where v.restricted);
  result.only_for := named_in_all(p_org, restricted, p_readers);
  return result;
end $$;

-- What a host's model summarizes for this view: the entries from one to another, both among them.
create function earshot.summary_input(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_arguments jsonb)
returns earshot.looked
language plpgsql stable as $$
declare
  result earshot.looked;
  ends bigint[];
  restricted jsonb[];
begin
  -- Only an entry that is shown can be named: another one is not there.
  select array_agg(v.pos order by v.pos) into ends from log_view(p_org, p_session, p_mark, p_readers) v
  where v.id in ((p_arguments ->> 'from')::uuid, (p_arguments ->> 'to')::uuid);
  if coalesce(cardinality(ends), 0) <> (case when p_arguments ->> 'from' = p_arguments ->> 'to' then 1 else 2 end) then
    result.code := 'not_found';
    return result;
  end if;
  if (select sum(v.bytes) from log_view(p_org, p_session, p_mark, p_readers) v where v.pos between ends[1] and ends[cardinality(ends)]) > most_bytes() then
    result.code := 'too_large';
    return result;
  end if;
  select jsonb_build_object('entries', coalesce(jsonb_agg(
      entry_json(v.id, v.revision, v.role, v.participant, v.written_at, v.blocks,
        case when s.sourced then sources_of(p_org, p_session, v.pos, v.revision, v.whole, p_readers) end)
      order by v.pos), '[]')),
    count(*), array_agg(v.whole) filter (where v.restricted)
  into result.result, result.items, restricted
  from log_view(p_org, p_session, p_mark, p_readers) v
  left join lateral (select true as sourced from log_sources x
    where x.org_id = p_org and x.session_id = p_session and x.position = v.pos and x.revision = v.revision limit 1) s on true
  where v.pos between ends[1] and ends[cardinality(ends)];
  result.only_for := named_in_all(p_org, restricted, p_readers);
  return result;
end $$;

-- What this namespace has pinned, of what it shows.
create function earshot.pinned_log(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_namespace text)
returns earshot.looked
language plpgsql stable as $$
declare
  result earshot.looked;
  restricted jsonb[];
begin
  if (select sum(v.bytes) from log_view(p_org, p_session, p_mark, p_readers) v
      join log_pins p on p.org_id = p_org and p.session_id = p_session and p.namespace = p_namespace and p.position = v.pos) > most_bytes() then
    result.code := 'too_large';
    return result;
  end if;
  select jsonb_build_object('entries', coalesce(jsonb_agg(
      entry_json(v.id, v.revision, v.role, v.participant, v.written_at, v.blocks,
        case when s.sourced then sources_of(p_org, p_session, v.pos, v.revision, v.whole, p_readers) end)
      order by v.pos), '[]')),
    count(*), array_agg(v.whole) filter (where v.restricted)
  into result.result, result.items, restricted
  from log_view(p_org, p_session, p_mark, p_readers) v
  join log_pins p on p.org_id = p_org and p.session_id = p_session and p.namespace = p_namespace and p.position = v.pos
  left join lateral (select true as sourced from log_sources x
    where x.org_id = p_org and x.session_id = p_session and x.position = v.pos and x.revision = v.revision limit 1) s on true;
  result.only_for := named_in_all(p_org, restricted, p_readers);
  return result;
end $$;

-- The session, who is in its log, and the places there whose views are this one's.
create function earshot.describe_log(p_session earshot.sessions, p_mark bigint, p_readers text[], p_reader text)
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
                     where n.org_id = org and n.session_id = p_session.id and n.reader is not distinct from p_reader),
      'reader', p_reader,
      'entries', count(*)::text, 'blocks', coalesce(sum(jsonb_array_length(v.blocks)), 0)::text)),
    array_agg(v.whole) filter (where v.restricted)
  into result.result, restricted
  from log_view(org, p_session.id, p_mark, p_readers) v;
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
    when 'compile' then compile_log(org, held.id, mark, readers)
    when 'preview' then compile_log(org, held.id, mark, readers)
    when 'entries' then list_log(org, held.id, mark, readers, p_arguments)
    when 'search' then search_log(org, held.id, mark, readers, p_arguments)
    when 'summary_input' then summary_input(org, held.id, mark, readers, p_arguments)
    when 'pins' then pinned_log(org, held.id, mark, readers, place.name)
    when 'session' then describe_log(held, mark, readers, place.reader)
  end;
end $$;

-- Reads the log through a namespace whose watermark has been raised to `p_mark`. The check of the grant, the session,
-- its ledger and what is read are one statement on one snapshot (INVARIANT 5); what was shown through
-- this namespace for some readers only, now or in an earlier turn, is on record with the turn before anything leaves.
create function earshot.read_log(p_digest bytea, p_session uuid, p_audience bytea, p_handle uuid, p_what text,
  p_arguments jsonb, p_mark bigint, out code text, out changes jsonb, out decision_id uuid, out result jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t constant timestamptz := clock_timestamp();
  pair record;
  call earshot.session_call;
  seen earshot.looked;
  binding text[];
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
    result := seen.result;
  end if;
  decision_id := record_session_call(call, p_what, code, seen.items, t,
    p_subject => sha256(convert_to(p_arguments ->> 'query', 'UTF8')));
end $$;

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
     and not exists (select from jsonb_array_elements(p_blocks) as b(block) where not b.block ->> 'type' = any ('{text,image}')) then
    return null;
  end if;
  return (
    select 'narrowing_refused' from jsonb_array_elements(p_blocks) as b(block)
    where not b.block ? 'audience'
      or exists (select from jsonb_array_elements_text(b.block -> 'audience') as who(name) where not who.name = any (only_for))
    limit 1);
end $$;

-- The messages that an entry says it came from, as this turn may read them now. Of one that it may not, nothing.
create function earshot.entry_sources(p_live earshot.live, p_sources jsonb, p_now timestamptz)
returns table (block integer, conversation_id bigint, seq bigint, revision bigint)
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  standing constant earshot.standing := p_live.standing;
  named constant bigint[] := array(
    select distinct c.id from jsonb_array_elements(p_sources) as s(source)
    join conversations c on c.org_id = org and c.external_id = s.source ->> 'conversation');
  extent earshot.scope;
begin
  if cardinality(named) > 0 then
    extent := turn_scope(org, p_live.destination_id, standing.readers, standing.floor, standing.extent,
      p_live.requester_id, standing.project_bound, null, p_now, named);
  end if;
  return query
  select (s.source ->> 'block')::integer, i.conversation_id, m.seq, m.revision
  from jsonb_array_elements(p_sources) as s(source)
  join conversations c on c.org_id = org and c.external_id = s.source ->> 'conversation'
  cross join lateral (select x.* from in_scope(org, extent) x where x.conversation_id = c.id limit 1) i
  cross join lateral (select v.seq, v.revision from visible_in(org, extent, i.conversation_id, i.floor) v
    where v.seq = (s.source ->> 'seq')::bigint limit 1) m;
end $$;

-- Writes one revision of an entry with its sources. Where a source is not there it raises ES404; where another entry
-- has a replay form under the same id, ES409: a form belongs to one entry, so that a view of the entry can judge it.
create function earshot.write_entry(p_live earshot.live, p_session uuid, p_position bigint, p_revision bigint, p_id uuid,
  p_change bigint, p_first_change bigint, p_role text, p_participant text, p_blocks jsonb, p_sources jsonb, p_now timestamptz)
returns void
language plpgsql volatile as $$
declare
  org constant bigint := p_live.org_id;
  replays constant text[] := array(
    select distinct b.block #>> '{replay,id}' from jsonb_array_elements(p_blocks) as b(block) where b.block ? 'replay');
  stored integer;
begin
  insert into log_entries (org_id, session_id, position, revision, id, change, first_change, role, participant, blocks,
    turn_id, written_at)
  values (org, p_session, p_position, p_revision, p_id, p_change, p_first_change, p_role, p_participant, p_blocks,
    p_live.turn_id, p_now);
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

-- Puts what entries came from into the ledger, in the order in which every writer does, so that two never wait for each other.
create function earshot.note_sources(p_org bigint, p_session uuid, p_from bigint, p_to bigint, p_revision bigint, p_decision uuid)
returns void
language plpgsql volatile as $$
begin
  insert into ledger_entries (org_id, session_id, conversation_id, from_seq, to_seq, revision, decision_id)
  select p_org, p_session, f.conversation_id, f.seq, f.seq, f.source_revision, p_decision
  from (
    select distinct s.conversation_id, s.seq, s.source_revision from log_sources s
    where s.org_id = p_org and s.session_id = p_session and s.position between p_from and p_to and s.revision = p_revision
  ) f
  order by f.conversation_id, f.seq
  on conflict do nothing;
end $$;

-- Appends entries, all or none. The same key and request again append nothing and give the same ids. The log's
-- counters are held from before the check until the commit.
create function earshot.append_log(p_digest bytea, p_session uuid, p_audience bytea, p_key text, p_request_digest bytea,
  p_entries jsonb, out code text, out changes jsonb, out decision_id uuid, out ids uuid[])
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org bigint;
  t timestamptz;
  call earshot.session_call;
  head earshot.log_heads;
  known earshot.log_appends;
  entry jsonb;
  pending constant uuid := gen_random_uuid();
begin
  perform enter_grant(p_digest);
  org := current_organization();
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
      decision_id := record_session_call(call, 'append', code, 0, t);
      return;
    end if;
    for entry in select value from jsonb_array_elements(p_entries) loop
      code := coalesce(code, judge_blocks(call.live, entry -> 'blocks',
        case when entry ->> 'role' = 'user' then entry ->> 'participant' end));
    end loop;
  end if;
  if code is null then
    ids := '{}';
    begin
      for entry in select value from jsonb_array_elements(p_entries) loop
        head.position := head.position + 1;
        head.change := head.change + 1;
        ids := ids || gen_random_uuid();
        perform write_entry(call.live, p_session, head.position, 1, ids[cardinality(ids)], head.change, head.change,
          entry ->> 'role', entry ->> 'participant', entry -> 'blocks', coalesce(entry -> 'sources', '[]'), t);
      end loop;
      perform note_sources(org, p_session, head.position - cardinality(ids) + 1, head.position, 1, pending);
      update log_heads h set position = head.position, change = head.change where h.org_id = org and h.session_id = p_session;
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
  first bigint;
  slots integer[];
  pending constant uuid := gen_random_uuid();
begin
  perform enter_grant(p_digest);
  org := current_organization();
  select * into head from log_heads h where h.org_id = org and h.session_id = p_session for no key update;
  t := clock_timestamp();
  call := judge_session(p_digest, p_session, p_audience, t);
  code := call.code;
  changes := (call.live).changes;
  if code is null then
    place := namespace_of(call.session, p_handle);
    readers := view_readers(place, (call.live).standing);
    select v.* into old from log_view(org, p_session, head.change, readers) v
    where v.id = p_entry and place.name is not null;
    select e.first_change into first from log_entries e
    where e.org_id = org and e.session_id = p_session and e.position = old.pos and e.revision = old.revision;
    code := case
      when old.id is null then 'not_found'
      when old.revision <> p_revision then 'conflict'
      when old.role = 'system' and jsonb_path_exists(p_edit, '$.blocks[*].audience') then 'invalid_input'
      when exists (
        select from namespaces n
        where n.org_id = org and n.session_id = p_session
          and narrows(blocks_for(old.whole, readers), p_edit -> 'blocks', view_readers(n, (call.live).standing))
          and (n.reader is distinct from place.reader or n.watermark >= first))
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
      perform write_entry(call.live, p_session, old.pos, edit_log.revision, old.id, head.change + 1, first, old.role, old.participant,
          (select jsonb_agg(case when x.slot >= 0 then p_edit -> 'blocks' -> x.slot else (old.whole -> -x.slot - 1) - 'replay' end order by x.place)
           from unnest(slots) with ordinality as x(slot, place)),
          (select coalesce(jsonb_agg(case when e.source ? 'block'
              then e.source || jsonb_build_object('block', array_position(slots, (e.source ->> 'block')::integer) - 1)
              else e.source end), '[]')
           from jsonb_array_elements(p_edit -> 'sources') as e(source)), t);
      perform note_sources(org, p_session, old.pos, old.pos, edit_log.revision, pending);
      -- What is kept keeps where it came from.
      insert into log_sources (org_id, session_id, position, revision, block, conversation_id, seq, source_revision)
      select org, p_session, old.pos, edit_log.revision, array_position(slots, -(s.block + 1)) - 1, s.conversation_id, s.seq,
        s.source_revision
      from log_sources s
      where s.org_id = org and s.session_id = p_session and s.position = old.pos and s.revision = old.revision
        and case when s.block is null then 0 > any (slots) else -(s.block + 1) = any (slots) end;
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
        select v.pos from log_view(org, p_session, head.change, view_readers(place, (call.live).standing)) v
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
  -- The session that the forks began with is held first: none is made of what is being closed.
  perform from log_heads h join grants g on g.digest = p_digest and h.org_id = g.org_id and h.session_id = g.session_id
  for no key update of h;
  select * into head from log_heads h where h.org_id = org and h.session_id = p_session for no key update;
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
        turn_id, written_at)
      select org, fork_log.fork, v.pos, v.revision, v.id, v.change, e.first_change, v.role, v.participant,
        blocks_for(v.whole, readers), (call.live).turn_id, v.written_at
      from log_view(org, p_session, head.change, readers) v
      join log_entries e on e.org_id = org and e.session_id = p_session and e.position = v.pos and e.revision = v.revision;
      insert into log_replays (org_id, session_id, id, position)
      select org, fork_log.fork, r.id, r.position from log_replays r where r.org_id = org and r.session_id = p_session;
      insert into log_sources (org_id, session_id, position, revision, block, conversation_id, seq, source_revision)
      select org, fork_log.fork, s.position, s.revision,
        (select count(*) from generate_series(0, s.block - 1) as earlier where is_shown(v.whole, earlier, readers)) * case when s.block is not null then 1 end, s.conversation_id, s.seq, s.source_revision
      from log_view(org, p_session, head.change, readers) v
      join log_sources s on s.org_id = org and s.session_id = p_session and s.position = v.pos and s.revision = v.revision
      where s.block is null or is_shown(v.whole, s.block, readers);
      insert into log_pins (org_id, session_id, namespace, position)
      select org, fork_log.fork, 'default', v.pos
      from log_view(org, p_session, head.change, readers) v
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
    with recursive family as (
      select s.id from sessions s where s.org_id = current_organization() and s.id = p_session
      union all
      select f.id from family p join sessions f on f.org_id = current_organization() and f.parent_id = p.id
    )
    update sessions s set state = 'closed'
    where s.org_id = current_organization() and s.id in (select id from family) and s.state = 'open';
  end if;
  decision_id := record_session_call(call, 'close', code, null, t);
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
    'read_log(bytea, uuid, bytea, uuid, text, jsonb, bigint)',
    'append_log(bytea, uuid, bytea, text, bytea, jsonb)',
    'edit_log(bytea, uuid, bytea, uuid, uuid, bigint, jsonb)',
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
