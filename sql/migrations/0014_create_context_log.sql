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
  -- The one agent that it is for, where it was addressed to one that shares its log.
  addressee earshot.external_id,
  -- Whether it goes on to the session's own log if this one is closed before a model was sent it.
  passes boolean not null default false,
  -- Whether some of it, or all, was erased with what it came from (0026).
  erased text check (erased in ('part', 'whole')),
  -- The marks of a stored injection, which nothing but `store_injections` sets: the source that gave it, the namespace
  -- that alone sees it, the xxh3-128 of its content, and the envelopes of its parts.
  injection earshot.external_id,
  owner earshot.external_id,
  content_hash bytea check (octet_length(content_hash) = 16),
  envelopes jsonb,
  turn_id uuid not null,
  written_at timestamptz not null,
  primary key (org_id, session_id, position, revision),
  foreign key (org_id, session_id) references earshot.log_heads,
  check ((injection is null) = (owner is null) and (injection is null) = (content_hash is null))
);
create unique index log_entries_by_change on earshot.log_entries (org_id, session_id, change);
create unique index log_entries_by_id on earshot.log_entries (org_id, session_id, id, revision);
create index log_entries_by_source on earshot.log_entries (org_id, session_id, owner, injection, position)
  where injection is not null;

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

-- The turns in which a model was sent something of a log, and as which agent.
create table earshot.turn_places (
  org_id bigint not null,
  session_id uuid not null,
  agent earshot.external_id not null,
  turn_id uuid not null,
  primary key (org_id, session_id, agent, turn_id),
  foreign key (org_id, session_id, agent) references earshot.agents,
  foreign key (org_id, turn_id) references earshot.turns
);

-- What the last compile that was sent through a namespace held.
create table earshot.log_sends (
  org_id bigint not null,
  session_id uuid not null,
  namespace earshot.external_id not null,
  -- How far the log was read for it.
  mark bigint not null,
  -- The furthest that it was ever read for one that was sent.
  reached bigint not null,
  -- The injections in it.
  held uuid[] not null,
  -- Of each message the first bytes of a hash over it and all before it.
  chain bytea not null,
  turn_id uuid not null,
  sent_at timestamptz not null,
  primary key (org_id, session_id, namespace),
  foreign key (org_id, session_id, namespace) references earshot.namespaces
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
    'log_pins', 'turn_places', 'log_sends']
  loop
    execute format('alter table earshot.%I enable row level security', name);
    execute format('alter table earshot.%I force row level security', name);
    execute format('create policy organization on earshot.%I
      using (org_id = (select earshot.current_organization()))
      with check (org_id = (select earshot.current_organization()))', name);
    execute format('grant select, insert on earshot.%I to earshot_scoped', name);
  end loop;
end $$;
grant update on earshot.agents, earshot.namespaces, earshot.log_heads, earshot.log_entries, earshot.log_replays,
  earshot.log_sends to earshot_scoped;
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

-- Question: what does a view for these readers hold, as the log was at `p_mark`? The one predicate that every way
-- out of the log composes. An entry of which nothing is theirs is not there, nor is one that was addressed to another
-- agent than `p_agent`, nor an injection but those of the namespace `p_owner`: null, and there is none.
create function earshot.log_view(p_org bigint, p_session uuid, p_mark bigint, p_readers text[], p_agent text, p_owner text)
returns table (pos bigint, revision bigint, id uuid, change bigint, role text, participant text,
  written_at timestamptz, blocks jsonb, whole jsonb, restricted boolean, bytes integer, injection text, envelopes jsonb)
language sql stable as $$
  select e.position, e.revision, e.id, e.change, e.role, e.participant::text, e.written_at, v.blocks, e.blocks, e.restricted,
    case when e.restricted then octet_length(v.blocks::text) else e.bytes end, e.injection::text, e.envelopes
  from earshot.log_entries e
  cross join lateral (
    select case when e.restricted then earshot.view_of(e.blocks, p_readers) else e.blocks end as blocks offset 0
  ) v
  where e.org_id = p_org and e.session_id = p_session and e.change <= p_mark
    and (e.superseded_by is null or e.superseded_by > p_mark)
    and (e.addressee is null or e.addressee = p_agent)
    and (e.owner is null or e.owner = p_owner)
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

-- The first half of the keys of the advisory locks that order writers of logs with an erasure; the second is the
-- organization's.
create function earshot.erasure_lock() returns integer
language sql immutable parallel safe as $$ select 8440 $$;

-- Whoever writes to a log, or copies from one, shares it before looking at what is there. An erasure holds it alone: so what
-- is written comes before and is found, or comes after and finds that it is gone.
create function earshot.share_erasure(p_org bigint) returns void
language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock_shared(erasure_lock(), (p_org % 2147483647)::integer);
end $$;

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

-- Puts into the ledger what a session is shown, in the order in which every writer does, so that two never wait for each other.
create function earshot.note_in_ledger(p_org bigint, p_session uuid, p_sources earshot.source[], p_decision uuid) returns void
language plpgsql volatile as $$
begin
  insert into ledger_entries (org_id, session_id, conversation_id, from_seq, to_seq, revision, decision_id)
  select distinct p_org, p_session, s.conversation_id, s.from_seq, s.to_seq, s.revision, p_decision from unnest(p_sources) s
  order by 3, 4, 6
  on conflict do nothing;
end $$;

-- Puts into it all that the ledgers of other sessions hold.
create function earshot.join_ledgers(p_org bigint, p_session uuid, p_others uuid[], p_decision uuid) returns void
language plpgsql volatile as $$
begin
  perform note_in_ledger(p_org, p_session, array(
    select row(l.conversation_id, l.from_seq, l.to_seq, l.revision)::source from ledger_entries l
    where l.org_id = p_org and l.session_id = any (p_others) and l.session_id <> p_session), p_decision);
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
    standing.audience_hash, standing.policy_revision,
    jsonb_strip_nulls(jsonb_build_object('changes', live.changes)) || noted_standing(standing, p_code), p_subject);
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

revoke execute on all functions in schema earshot from public;
grant execute on all functions in schema earshot to earshot_scoped;
