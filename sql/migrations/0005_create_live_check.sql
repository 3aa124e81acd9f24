-- The live check: run at every tool call, every session call and every delivery, in the statement
-- that does the work. The order of the checks is fixed, and the first that fails decides the code.

-- How a turn stands on today's facts.
create type earshot.standing as (
  code text,
  readers earshot.reader[],
  audience_hash bytea,
  floor bigint,
  mode text,
  extent text,
  project_bound bigint,
  policy_revision bigint
);

-- Question: may this persona work for this requester toward this destination, and who would read it?
-- `p_trigger` is 'thread', 'mention', 'schedule', or 'disclosure' for text that goes to another place
-- than its turn's. Reads facts only; what a grant was bound to is `live_check`'s question.
create function earshot.judge_turn(p_org bigint, p_persona bigint, p_destination bigint, p_requester bigint,
  p_trigger text, p_trigger_seq bigint, p_turn uuid, p_now timestamptz) returns earshot.standing
language plpgsql stable as $$
declare
  result earshot.standing;
  d record;
  r record;
  sole bigint;
begin
  -- What does not depend on the readers, in one statement: each costs as much again by itself.
  select o.status as org_status, o.guard, o.policy_revision, o.external_id as org_name,
    c.external_id as name, c.project_id, c.owner_id, c.ai_thread, c.ever_shared,
    c.external_readers or exists (select from unresolved_members n
      where n.org_id = p_org and n.conversation_id = p_destination) as unlistable,
    not c.deleted and not c.staged and not c.archived
      and (c.project_id is null or coalesce(p.status, '') = 'active') as accepting,
    pe.status = 'active' and pe.designated as designated,
    exists (select from stops s where s.org_id = p_org
      and (s.kind, s.target) in (('organization', o.external_id::text), ('persona', pe.external_id::text),
                                 ('conversation', c.external_id::text), ('turn', p_turn::text))) as stopped,
    exists (select from fact_sources f where f.org_id = p_org and f.max_age < p_now - f.confirmed_at) as stale,
    p_trigger not in ('thread', 'mention') or exists (
      select from messages m where m.org_id = p_org and m.conversation_id = p_destination
        and m.seq = p_trigger_seq and m.state <> 'deleted' and m.author_user_id = p_requester) as triggered
  into d
  from organizations o
  join conversations c on c.org_id = o.id and c.id = p_destination
  left join projects p on p.org_id = c.org_id and p.id = c.project_id
  left join personas pe on pe.org_id = c.org_id and pe.id = p_persona
  where o.id = p_org;

  if not found or d.org_status <> 'active' then
    result.code := 'organization_paused';
    return result;
  end if;
  result.policy_revision := d.policy_revision;
  if not d.accepting then
    result.code := 'destination_closed';
    return result;
  end if;
  if d.unlistable then
    result.code := 'unlistable_audience';
    return result;
  end if;
  select array_agg(a) as readers, max(a.floor) as floor, count(*) as readers_count,
    bool_or(a.kind = 'user' and a.key = p_requester) as listed, bool_or(a.kind = 'user' and a.guest) as guest,
    min(a.key) filter (where a.kind = 'user') as one
  into r
  from audience(p_org, p_destination, p_now) a;
  if r.readers_count = 0 then
    result.readers := '{}';
    result.code := 'empty_audience';
    return result;
  end if;
  result.readers := r.readers;
  result.floor := r.floor;
  result.audience_hash := fingerprint(d.org_name, d.name, result.readers);
  -- Whoever is not listed may be covered by the class.
  if (r.listed or reads(p_org, p_requester, p_destination, p_now)) is not true then
    result.code := 'requester_left';
    return result;
  end if;
  if d.designated is not true then
    result.code := 'persona_not_designated';
    return result;
  end if;
  if d.guard <> 'running' then
    result.code := 'organization_paused';
    return result;
  end if;
  if d.stopped then
    result.code := 'stopped';
    return result;
  end if;
  if d.stale then
    result.code := 'facts_stale';
    return result;
  end if;
  if p_trigger in ('thread', 'mention') and not (d.triggered and p_trigger_seq >= result.floor) then
    result.code := 'trigger_out_of_scope';
    return result;
  end if;

  -- The mode: policy/mode.ts says the same.
  if p_trigger = 'thread' and not d.ai_thread then
    result.code := 'mode_changed';
    return result;
  end if;
  result.project_bound := d.project_id;
  if not d.ai_thread and p_trigger <> 'disclosure' then
    result.mode := 'mention';
    result.extent := 'destination';
    return result;
  end if;
  sole := case when r.readers_count = 1 then r.one end;
  if sole = p_requester and d.owner_id = p_requester and d.ai_thread and not d.ever_shared then
    result.mode := 'private';
    result.extent := 'requester';
    return result;
  end if;
  result.mode := case
    when r.guest then 'guest'
    when d.project_id is not null then 'project'
    else 'thread' end;
  -- One person alone who is not the plain owner gets the thread, not that person's world.
  result.extent := case when sole is null then 'audience' else 'destination' end;
  return result;
end $$;

-- The readers of an audience as they are kept with a grant, to say later what changed.
create function earshot.reader_list(p_readers earshot.reader[]) returns jsonb
language sql immutable as $$
  select coalesce(jsonb_agg(jsonb_build_array(r.kind, r.external_id, r.floor::text)
    order by r.kind collate "C", r.external_id collate "C"), '[]')
  from unnest(p_readers) r
$$;

-- What changed between two audiences, by kind: counts, and the names beside them for who may see those.
create function earshot.audience_changes(p_before jsonb, p_after jsonb, p_names boolean default false) returns jsonb
language sql immutable as $$
  select jsonb_build_object(
    'added', count(*) filter (where b.kind is null),
    'gone', count(*) filter (where a.kind is null),
    'floorsMoved', count(*) filter (where a.floor <> b.floor))
    || case when p_names then jsonb_build_object('names', jsonb_build_object(
      'added', coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'id', a.id) order by a.kind, a.id)
                        filter (where b.kind is null), '[]'),
      'gone', coalesce(jsonb_agg(jsonb_build_object('kind', b.kind, 'id', b.id) order by b.kind, b.id)
                       filter (where a.kind is null), '[]'),
      'floorsMoved', coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'id', a.id) order by a.kind, a.id)
                              filter (where a.floor <> b.floor), '[]'))) else '{}' end
  from (select e ->> 0 as kind, e ->> 1 as id, e ->> 2 as floor from jsonb_array_elements(p_before) e) b
  full join (select e ->> 0 as kind, e ->> 1 as id, e ->> 2 as floor from jsonb_array_elements(p_after) e) a
    on a.kind = b.kind and a.id = b.id
$$;

-- How a turn stood, beside what else a record says of a decision: what replay (0028) sets against how it stands later. Of what
-- was allowed under a grant, the grant says it.
create function earshot.noted_standing(p_standing earshot.standing, p_code text) returns jsonb
language sql immutable as $$
  select case when p_code is null or (p_standing).mode is null then '{}' else jsonb_strip_nulls(jsonb_build_object(
    'mode', (p_standing).mode, 'bound', (p_standing).project_bound::text)) end
$$;

-- A grant with how it stands now. `code` null: live.
create type earshot.live as (
  code text,
  org_id bigint,
  grant_id uuid,
  turn_id uuid,
  session_id uuid,
  destination_id bigint,
  requester_id bigint,
  standing earshot.standing,
  -- The audience moved: kinds of change, counts.
  changes jsonb
);

-- Finds a grant's organization by the digest that the caller proved, and enters it. The digest stays
-- set for this transaction, since row security shows the grant by it.
create function earshot.enter_grant(p_digest bytea) returns void
language plpgsql volatile as $$
declare
  found_org bigint;
  -- An assignment, which is evaluated at once; `perform` would run a statement for each.
  ignored text;
begin
  ignored := set_config('earshot.organization', '', true);
  ignored := set_config('earshot.grant_digest', coalesce(encode(p_digest, 'hex'), ''), true);
  select g.org_id into found_org from grants g where g.digest = p_digest;
  ignored := set_config('earshot.organization', coalesce(found_org::text, ''), true);
end $$;

-- Question: does this grant still permit this tool, now?
-- Reads one snapshot, that of the statement it is called from, which also returns the rows
-- (INVARIANT 5). A null tool asks for the grant alone.
create function earshot.live_check(p_digest bytea, p_tool text, p_now timestamptz) returns earshot.live
language plpgsql stable as $$
declare
  result earshot.live;
  -- By itself until it is whole: a part of a part would copy every reader each time it is looked at.
  standing earshot.standing;
  g record;
begin
  select g0.id as grant_id, g0.org_id, g0.revoked_at, g0.ended_at, g0.expires_at, g0.session_id,
    g0.lease_id as grant_lease, g0.lease_owner as grant_owner, g0.lease_fence as grant_fence,
    g0.audience_hash, g0.readers, g0.mode, g0.project_bound, g0.policy_revision,
    t.id as turn_id, t.state, t.expires_at as turn_expires_at, t.persona_id, t.destination_id, t.requester_id,
    t.trigger, t.trigger_seq, t.tools, t.lease_id, t.lease_owner, t.lease_fence, t.lease_expires_at,
    s.state as session_state
  into g
  from grants g0
  join turns t on t.org_id = g0.org_id and t.id = g0.turn_id
  join sessions s on s.org_id = g0.org_id and s.id = g0.session_id
  where g0.digest = p_digest;
  if not found then
    result.code := 'unknown_grant';
    return result;
  end if;
  result.org_id := g.org_id;
  result.grant_id := g.grant_id;
  result.turn_id := g.turn_id;
  result.session_id := g.session_id;
  result.destination_id := g.destination_id;
  result.requester_id := g.requester_id;
  result.code := case
    when g.revoked_at is not null then 'grant_revoked'
    when g.ended_at is not null or g.expires_at <= p_now then 'grant_expired'
    when g.state <> 'running' or g.turn_expires_at <= p_now then 'turn_not_running'
    when g.lease_fence > g.grant_fence then 'fenced'
    when g.lease_id is distinct from g.grant_lease or g.lease_owner is distinct from g.grant_owner
      or g.lease_fence <> g.grant_fence or g.lease_expires_at is null or g.lease_expires_at <= p_now
      then 'lease_lost'
  end;
  if result.code is not null then
    return result;
  end if;

  standing := judge_turn(g.org_id, g.persona_id, g.destination_id, g.requester_id, g.trigger,
    g.trigger_seq, g.turn_id, p_now);
  result.standing := standing;
  -- Whatever the code turns out to be, a moved audience is said to have moved.
  if standing.audience_hash is distinct from g.audience_hash and standing.readers is not null then
    result.changes := audience_changes(g.readers, reader_list(standing.readers));
  end if;
  result.code := coalesce(standing.code, case
    when standing.mode is distinct from g.mode
      or standing.project_bound is distinct from g.project_bound then 'mode_changed'
    when standing.policy_revision is distinct from g.policy_revision then 'policy_changed'
    when standing.audience_hash is distinct from g.audience_hash then 'audience_changed'
    when p_tool is not null and not p_tool = any (g.tools) then 'tool_not_allowed'
    when g.session_state <> 'open' then 'session_quarantined'
  end);
  return result;
end $$;

-- Revokes a grant where its refusal is for good: the facts changing back does not revive it. An
-- audience that was seen to move counts, whatever check failed first. Others leave the grant as it is.
create function earshot.revoke_grant(p_org bigint, p_grant uuid, p_code text, p_changes jsonb, p_now timestamptz)
returns void
language plpgsql volatile as $$
begin
  if p_changes is not null
     or p_code in ('audience_changed', 'mode_changed', 'policy_changed', 'requester_left', 'empty_audience',
                   'unlistable_audience', 'trigger_out_of_scope') then
    update grants g
    set revoked_at = p_now, revoked_code = case when p_changes is not null then 'audience_changed' else p_code end
    where g.org_id = p_org and g.id = p_grant and g.revoked_at is null;
  end if;
end $$;

-- Whether what was read is still readable in a scope, and unchanged: null, or the refusal. Every message and artifact
-- among the sources is asked of the one predicate. One without a revision is inherited, and may have changed.
create type earshot.source as (conversation_id bigint, from_seq bigint, to_seq bigint, revision bigint);

create function earshot.judge_sources(p_org bigint, p_sources earshot.source[], p_scope earshot.scope)
returns text
language plpgsql stable as $$
begin
  return (select case
      -- An empty lineage is readable by nobody and clears nothing.
      when count(*) = 0 or bool_or(case when f.to_seq is null then f.floor is null or f.from_seq < f.floor
                                        else f.seq is null end) then 'source_revoked'
      when bool_or(f.revision is not null and f.now is distinct from f.revision) then 'source_changed'
    end
    from (
      select s.from_seq, s.to_seq, s.revision, i.floor, m.seq, m.revision as now
      from unnest(p_sources) s
      left join lateral (select i.floor from in_scope(p_org, p_scope) i
        where i.conversation_id = s.conversation_id limit 1) i on true
      left join lateral (select v.seq, v.revision from visible_in(p_org, p_scope, s.conversation_id, i.floor) v
        where s.to_seq is not null and v.seq = s.from_seq limit 1) m on true
    ) f);
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
    -- By the index, whatever the planner takes the sessions for: a join reads the ledger of the whole organization.
    cross join lateral (select e.* from ledger_entries e
      where e.org_id = p_org and e.session_id = worked.session_id offset 0) l);
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

revoke execute on all functions in schema earshot from public;
grant execute on all functions in schema earshot to earshot_scoped;
