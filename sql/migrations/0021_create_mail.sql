-- Entries addressed to one agent by name: written to its log when no turn of it is alive, and handed on where a fork ends
-- before a model was sent them.

-- What waits for the turns of an agent to end.
create table earshot.log_mail (
  org_id bigint not null,
  session_id uuid not null,
  number bigint not null,
  agent earshot.external_id not null,
  id uuid not null,
  role text not null check (role in ('user', 'agent', 'system')),
  participant earshot.external_id not null,
  blocks jsonb not null,
  -- As they were readable when it was written: what is in the ledger since.
  sources jsonb not null,
  addressee earshot.external_id,
  passes boolean not null,
  turn_id uuid not null,
  written_at timestamptz not null,
  primary key (org_id, session_id, number),
  foreign key (org_id, session_id, agent) references earshot.agents
);

alter table earshot.log_mail enable row level security;
alter table earshot.log_mail force row level security;
create policy organization on earshot.log_mail
  using (org_id = (select earshot.current_organization()))
  with check (org_id = (select earshot.current_organization()));
grant select, insert, delete on earshot.log_mail to earshot_scoped;

-- Puts an entry among those that wait. The log's counters are held. Its replay forms are its own from now on: until it has
-- a position, under the negative of its number.
create function earshot.hold_mail(p_org bigint, p_session uuid, p_agent text, p_id uuid, p_role text, p_participant text,
  p_blocks jsonb, p_sources jsonb, p_addressee text, p_passes boolean, p_turn uuid, p_written timestamptz) returns void
language plpgsql volatile as $$
declare
  number constant bigint := (select coalesce(max(m.number), 0) + 1 from log_mail m
    where m.org_id = p_org and m.session_id = p_session);
  replays constant text[] := array(
    select distinct b.block #>> '{replay,id}' from jsonb_array_elements(p_blocks) as b(block) where b.block ? 'replay');
begin
  insert into log_mail (org_id, session_id, number, agent, id, role, participant, blocks, sources, addressee, passes, turn_id,
    written_at)
  values (p_org, p_session, number, p_agent, p_id, p_role, p_participant, p_blocks, p_sources, p_addressee, p_passes, p_turn,
    p_written);
  insert into log_replays (org_id, session_id, id, position)
  select p_org, p_session, x, -number from unnest(replays) x on conflict do nothing;
  if exists (select from log_replays r where r.org_id = p_org and r.session_id = p_session and r.id = any (replays)
             and r.position <> -number) then
    raise exception using errcode = 'ES409', message = 'a replay form of another entry';
  end if;
end $$;

-- The same for an entry that a turn writes: its sources are those that the turn may read now. Where one is not there it
-- raises ES404.
create function earshot.hold_entry(p_live earshot.live, p_session uuid, p_agent text, p_id uuid, p_entry jsonb, p_addressee text,
  p_passes boolean, p_now timestamptz) returns void
language plpgsql volatile as $$
declare
  org constant bigint := p_live.org_id;
  named constant jsonb := coalesce(p_entry -> 'sources', '[]');
  resolved constant jsonb := (
    select coalesce(jsonb_agg(jsonb_build_object('block', f.block, 'conversation_id', f.conversation_id, 'seq', f.seq,
      'source_revision', f.revision)), '[]') from entry_sources(p_live, named, p_now) f);
begin
  if jsonb_array_length(resolved) <> jsonb_array_length(named) then
    raise exception using errcode = 'ES404', message = 'a source is not there';
  end if;
  perform hold_mail(org, p_session, p_agent, p_id, p_entry ->> 'role', p_entry ->> 'participant', p_entry -> 'blocks', resolved,
    p_addressee, p_passes, p_live.turn_id, p_now);
end $$;

-- Lets in what waits for an agent of which no turn is alive any more, in the order in which it was written. A turn that
-- begins meanwhile finds it there or waits for its own end.
create function earshot.deliver_mail(p_org bigint, p_session uuid, p_now timestamptz) returns void
language plpgsql volatile as $$
declare
  head earshot.log_heads;
  mail earshot.log_mail;
begin
  -- Without this look every read would hold the log like a writer.
  if not exists (select from log_mail m where m.org_id = p_org and m.session_id = p_session) then
    return;
  end if;
  perform share_erasure(p_org);
  select * into head from log_heads h where h.org_id = p_org and h.session_id = p_session for no key update;
  for mail in
    select m.* from log_mail m
    where m.org_id = p_org and m.session_id = p_session
      and not exists (select from live_places(p_org, p_session, p_now) l where l.agent = m.agent)
    order by m.number
  loop
    head.position := head.position + 1;
    head.change := head.change + 1;
    insert into log_entries (org_id, session_id, position, revision, id, change, first_change, role, participant, blocks,
      addressee, passes, turn_id, written_at)
    values (p_org, p_session, head.position, 1, mail.id, head.change, head.change, mail.role, mail.participant, mail.blocks,
      mail.addressee, mail.passes, mail.turn_id, mail.written_at);
    insert into log_sources (org_id, session_id, position, revision, block, conversation_id, seq, source_revision)
    select p_org, p_session, head.position, 1, s.block, s.conversation_id, s.seq, s.source_revision
    from jsonb_to_recordset(mail.sources) as s(block integer, conversation_id bigint, seq bigint, source_revision bigint);
    update log_replays r set position = head.position
    where r.org_id = p_org and r.session_id = p_session and r.position = -mail.number;
    delete from log_mail m where m.org_id = p_org and m.session_id = p_session and m.number = mail.number;
  end loop;
  update log_heads h set position = head.position, change = head.change where h.org_id = p_org and h.session_id = p_session;
end $$;

-- Hands on what was addressed to the agent of a fork that is being closed and that no compile was sent with: to the log that
-- the forks began with, once, as it was written. What the fork was shown is in that log's ledger from then on: an entry may
-- come from more of it than it names. Nothing where the fork's own ledger does not stand; and of a fork for one reader only what says for itself, in each of its blocks, for whom it is.
create function earshot.hand_on(p_live earshot.live, p_fork uuid, p_root uuid, p_decision uuid, p_now timestamptz) returns void
language plpgsql volatile as $$
declare
  org constant bigint := p_live.org_id;
  private constant boolean := (select n.reader is not null from namespaces n
    where n.org_id = org and n.session_id = p_fork and n.name = 'default');
  primary_agent constant text := (select a.name from agents a where a.org_id = org and a.session_id = p_root and a.is_primary);
  -- What each place was sent last, as its view was then: of an entry that it does not show, it was sent nothing.
  sent constant bigint[] := array(
    select distinct v.pos from log_sends l
    join namespaces n on n.org_id = org and n.session_id = p_fork and n.name = l.namespace
    cross join lateral log_view(org, p_fork, l.reached, view_readers(n, p_live.standing), n.agent, null) v
    where l.org_id = org and l.session_id = p_fork);
  handed boolean := false;
  unread record;
begin
  perform share_erasure(org);
  if judge_ledger(p_live, p_fork, p_now) is not null then
    delete from log_mail m where m.org_id = org and m.session_id = p_fork;
    return;
  end if;
  for unread in
    select f.* from (
      select e.position, 0::bigint as number, e.id, e.role::text, e.participant::text, e.blocks, e.turn_id, e.written_at,
        (select coalesce(jsonb_agg(jsonb_build_object('block', s.block, 'conversation_id', s.conversation_id, 'seq', s.seq,
            'source_revision', s.source_revision)), '[]') from log_sources s
         where s.org_id = org and s.session_id = p_fork and s.position = e.position and s.revision = e.revision) as sources
      from log_entries e
      where e.org_id = org and e.session_id = p_fork and e.passes and e.superseded_by is null and e.position <> all (sent)
      union all
      select 9223372036854775807, m.number, m.id, m.role, m.participant::text, m.blocks, m.turn_id, m.written_at, m.sources
      from log_mail m where m.org_id = org and m.session_id = p_fork and m.passes
    ) f
    where not private or not exists (select from jsonb_array_elements(f.blocks) as b(block) where not b.block ? 'audience')
    order by f.position, f.number
  loop
    begin
      perform hold_mail(org, p_root, primary_agent, unread.id, unread.role, unread.participant, unread.blocks, unread.sources,
        null, false, unread.turn_id, unread.written_at);
    exception
      -- A replay form that the log has already is of the log's own entry; the text goes without one.
      when sqlstate 'ES409' then
        perform hold_mail(org, p_root, primary_agent, unread.id, unread.role, unread.participant,
          (select jsonb_agg(b.block - 'replay' order by b.nth) from jsonb_array_elements(unread.blocks) with ordinality as b(block, nth)),
          unread.sources, null, false, unread.turn_id, unread.written_at);
    end;
    handed := true;
  end loop;
  if handed then
    perform join_ledgers(org, p_root, array[p_fork], p_decision);
  end if;
  delete from log_mail m where m.org_id = org and m.session_id = p_fork;
end $$;

-- Finds the log of an agent by its name: one that stands in this log, the agent of a fork of it, or one of the log that the
-- forks began with. `place`: its session, and the handle of its place there. Where there is none of that name, `known`
-- tells those that there are: some, and how many more.
create function earshot.find_agent(p_digest bytea, p_session uuid, p_audience bytea, p_name text,
  out code text, out changes jsonb, out decision_id uuid, out place jsonb, out known jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t constant timestamptz := clock_timestamp();
  org bigint;
  call earshot.session_call;
begin
  perform enter_grant(p_digest);
  org := current_organization();
  call := judge_session(p_digest, p_session, p_audience, t);
  code := call.code;
  changes := (call.live).changes;
  if code is null then
    with logs as materialized (
      select p_session as id, 1 as rank
      union all
      select s.id, 2 from sessions s where s.org_id = org and s.parent_id = p_session and s.state = 'open'
      union all
      select (call.session).root_id, 3 where (call.session).root_id <> p_session
    ), named as materialized (
      select a.session_id, a.name::text as name, l.rank, a.created_at from logs l
      join agents a on a.org_id = org and a.session_id = l.id and (l.rank <> 2 or a.kind = 'fork')
    )
    select
      (select jsonb_build_object('session', n.session_id, 'agent', n.name, 'handle', h.handle) from named n
       cross join lateral (select x.handle from namespaces x
         where x.org_id = org and x.session_id = n.session_id and x.agent = n.name
         order by x.name <> 'default', x.reader is not null, x.name limit 1) h
       where n.name = p_name order by n.rank limit 1),
      (select jsonb_build_object('names', jsonb_agg(f.name order by f.nth) filter (where f.nth <= 20),
         'more', greatest(count(*) - 20, 0))
       from (select d.name, row_number() over (order by d.rank, d.name) as nth
             from (select n.name, min(n.rank) as rank from named n group by n.name) d) f)
    into place, known;
    if place is null then
      code := 'not_found';
    end if;
  end if;
  decision_id := record_session_call(call, 'find', code, null, t);
end $$;

do $$
declare
  signature constant text := 'find_agent(bytea, uuid, bytea, text)';
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  execute format('alter function earshot.%s owner to earshot_scoped', signature);
  execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  revoke create on schema earshot from earshot_scoped;
end $$;
