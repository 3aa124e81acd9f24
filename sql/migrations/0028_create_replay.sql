-- Replay: what a decision was about, asked again on the facts of now. Nothing is decided by it and nothing is changed but
-- its own record.
--
-- The functions that judged then are asked: the turn's standing, the scope, the lineage. What else a decision depended on (the
-- turn's end, its lease, its grant) is over and is not judged again; nor is a search, of which a digest is kept and no
-- text. `policy/replay.ts` puts the two beside each other; here are facts alone, in one snapshot.

-- What was found out. `code` null: the decision is there, and the caller's to know about.
create type earshot.replayed as (
  code text,
  kind text,
  turn_id uuid,
  audience_hash bytea,
  policy_revision bigint,
  facts jsonb
);

-- A standing, as it is set beside another one.
create function earshot.standing_json(p_org bigint, p_code text, p_audience_hash bytea, p_mode text, p_bound bigint,
  p_policy_revision bigint) returns jsonb
language plpgsql stable as $$
begin
  return jsonb_strip_nulls(jsonb_build_object('code', p_code, 'fingerprint', encode(p_audience_hash, 'hex'), 'mode', p_mode,
    'projectBound', (select p.external_id from projects p where p.org_id = p_org and p.id = p_bound),
    'policyRevision', p_policy_revision::text));
end $$;

-- Readers then and now, each once, in an order that does not follow names. Without `p_names` no person has one.
create function earshot.readers_compared(p_before jsonb, p_after jsonb, p_names boolean) returns jsonb
language sql immutable as $$
  select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('kind', coalesce(b.kind, a.kind),
      'id', case when p_names or coalesce(b.kind, a.kind) <> 'user' then coalesce(b.id, a.id) end,
      'then', b.floor, 'now', a.floor))
    order by coalesce(b.kind, a.kind) collate "C", case when p_names then coalesce(b.id, a.id) end collate "C", b.floor, a.floor),
    '[]')
  from (select e ->> 0 as kind, e ->> 1 as id, e ->> 2 as floor from jsonb_array_elements(p_before) e) b
  full join (select e ->> 0 as kind, e ->> 1 as id, e ->> 2 as floor from jsonb_array_elements(p_after) e) a
    on a.kind = b.kind and a.id = b.id
$$;

-- Each of these sources: what it was, how it stands, and whether this scope shows it. A scope that is null, since no turn stands,
-- shows nothing. Bounded: `p_most` of them, in the order of their places.
create function earshot.sources_replayed(p_org bigint, p_sources earshot.source[], p_scope earshot.scope, p_most integer)
returns table (conversation_id bigint, is_shown boolean, source jsonb)
language sql stable as $$
  select s.conversation_id, f.shown,
    jsonb_strip_nulls(jsonb_build_object(
      'type', case when s.from_seq < 0 then 'artifact' when s.to_seq is null then 'stretch' else 'message' end,
      'conversation', c.external_id,
      'seq', case when s.from_seq > 0 and s.to_seq is not null then s.from_seq::text end,
      'fromSeq', case when s.to_seq is null then s.from_seq::text end,
      'artifact', a.id,
      'revision', s.revision::text,
      'inherited', s.to_seq is not null and s.revision is null,
      'state', earshot.source_state(p_org, s.conversation_id, s.from_seq, s.to_seq, s.revision),
      'revisionNow', m.revision::text,
      'isStaged', c.staged,
      'isDestination', c.id = (p_scope).destination_id,
      'isOutsideBound', (p_scope).project_bound is not null and c.project_id is distinct from (p_scope).project_bound,
      'floor', i.floor::text,
      'mayLeave', earshot.may_leave(m),
      'isShown', f.shown))
  from (
    select distinct on (x.conversation_id, x.from_seq, x.to_seq is null) x.*
    from unnest(p_sources) x
    -- What was read itself comes before what is inherited, and stands for it.
    order by x.conversation_id, x.from_seq, x.to_seq is null, x.revision nulls last
    limit p_most) s
  join earshot.conversations c on c.org_id = p_org and c.id = s.conversation_id
  left join earshot.messages m on m.org_id = p_org and m.conversation_id = s.conversation_id and m.seq = s.from_seq
    and s.to_seq is not null
  left join earshot.artifacts a on a.org_id = p_org and a.conversation_id = s.conversation_id and a.seq = s.from_seq
  left join lateral (select x.floor from earshot.in_scope(p_org, p_scope) x
    where x.conversation_id = s.conversation_id limit 1) i on true
  left join lateral (select true as seen from earshot.visible_in(p_org, p_scope, s.conversation_id, i.floor) v
    where s.to_seq is not null and v.seq = s.from_seq limit 1) v on true
  cross join lateral (select case when s.to_seq is null then coalesce(s.from_seq >= i.floor, false)
    else coalesce(v.seen, false) end as shown) f
  order by c.external_id collate "C", s.to_seq is not null, s.from_seq
$$;

-- What each of these readers reads of each of these conversations, by name of the conversation.
create function earshot.readings(p_org bigint, p_conversations bigint[], p_readers earshot.reader[], p_names boolean,
  p_now timestamptz) returns jsonb
language sql stable as $$
  select coalesce(jsonb_object_agg(f.name, f.readers), '{}')
  from (
    select c.external_id as name, jsonb_agg(jsonb_strip_nulls(jsonb_build_object('kind', r.kind,
        'id', case when p_names or r.kind <> 'user' then r.external_id end, 'floor', own.floors[1]::text))
      order by r.kind collate "C", case when p_names then r.external_id end collate "C", own.floors[1] nulls first) as readers
    from earshot.conversations c
    cross join unnest(p_readers) r
    cross join lateral earshot.narrow(p_org, array[c.id], array[1::bigint], array[r], null, p_now) own
    where c.org_id = p_org and c.id = any (p_conversations)
    group by c.external_id) f
$$;

-- What a decision showed, or judged: what it put in a ledger first, of its session or of the one that this was forked from;
-- or all that its delivery or its artifact was made from. Index: ledger_entries_once, lineage_by_derived.
create function earshot.sources_decided(p_org bigint, p_decision earshot.decisions) returns earshot.source[]
language plpgsql stable as $$
declare
  derived constant uuid := coalesce(p_decision.delivery_id, (p_decision.detail ->> 'artifact')::uuid);
begin
  return case when derived is not null then array(
      select row(l.conversation_id, l.from_seq, l.to_seq, l.revision)::source from lineage l
      where l.org_id = p_org and l.derived_id = derived)
    else array(
      select distinct row(l.conversation_id, l.from_seq, l.to_seq, l.revision)::source
      from sessions s
      join ledger_entries l on l.org_id = p_org and l.session_id in (s.id, s.root_id) and l.decision_id = p_decision.id
      where s.org_id = p_org and s.id = p_decision.session_id) end;
end $$;

-- Question: how does what was decided stand on the facts of now?
-- Reads one snapshot, that of the statement it is called from. Takes no locks. Not found: a decision that is not there, and
-- one of a persona that the caller is not registered for (INVARIANT 16).
create function earshot.replay(p_org bigint, p_decision uuid, p_personas text[], p_names boolean, p_most integer,
  p_now timestamptz) returns earshot.replayed
language plpgsql stable as $$
declare
  d earshot.decisions;
  turn earshot.turns;
  g earshot.grants;
  delivery earshot.deliveries;
  own earshot.standing;
  -- How it stands where the text would be read: there, or at the delivery's own place.
  there earshot.standing;
  place bigint;
  v earshot.verdict;
  extent earshot.scope;
  sources earshot.source[];
  before jsonb;
  result earshot.replayed;
begin
  select * into d from decisions x where x.org_id = p_org and x.id = p_decision;
  select * into turn from turns t where t.org_id = p_org and t.id = d.turn_id;
  if d.id is null or (turn.id is not null and not exists (
      select from personas a where a.org_id = p_org and a.id = turn.persona_id and serves(p_personas, a.external_id))) then
    result.code := 'not_found';
    return result;
  end if;
  result.kind := d.kind;
  result.turn_id := d.turn_id;
  select * into g from grants x where x.org_id = p_org and x.id = d.grant_id;
  select * into delivery from deliveries x where x.org_id = p_org and x.id = d.delivery_id;
  sources := sources_decided(p_org, d);
  place := coalesce(delivery.destination_id, turn.destination_id);
  if turn.id is not null then
    own := judge_turn(p_org, turn.persona_id, turn.destination_id, turn.requester_id, turn.trigger, turn.trigger_seq, turn.id,
      p_now);
    there := own;
    if own.code is null and cardinality(sources) > 0 then
      v := judge_disclosure(p_org, turn, place, own, sources, p_now,
        case when delivery.artifact_id is not null then releases_of(p_org, delivery.payload_sha256, delivery.artifact_id) end);
      there := v.standing;
      if there.mode is not null then
        extent := disclosure_scope(p_org, turn, place, there, sources, p_now);
      end if;
    end if;
  end if;
  result.audience_hash := there.audience_hash;
  result.policy_revision := there.policy_revision;
  -- Who the audience was then: as a grant of the turn lists it that was bound to the same one.
  before := (select x.readers from grants x
    where x.org_id = p_org and x.turn_id = d.turn_id and x.audience_hash = d.audience_hash limit 1);
  with judged as materialized (
    select s.* from sources_replayed(p_org, sources, extent, p_most) s
  )
  select jsonb_strip_nulls(jsonb_build_object(
    'of', jsonb_build_object('decision', d.id, 'at', rfc3339(d.decided_at), 'kind', d.kind, 'verdict', d.verdict,
      'code', d.code, 'tool', d.tool, 'items', d.items, 'turn', d.turn_id, 'grant', d.grant_id, 'session', d.session_id,
      'delivery', d.delivery_id, 'artifact', d.detail ->> 'artifact',
      'destination', (select c.external_id from conversations c where c.org_id = p_org and c.id = place)),
    'then', standing_json(p_org, null, d.audience_hash,
      coalesce(d.detail ->> 'mode', case when d.verdict = 'allowed' then coalesce(at_delivery.mode, g.mode) end),
      coalesce((d.detail ->> 'bound')::bigint,
        case when d.verdict = 'allowed' then coalesce(at_delivery.project_bound, g.project_bound) end),
      d.policy_revision),
    'grant', case when g.id is not null then
      standing_json(p_org, null, g.audience_hash, g.mode, g.project_bound, g.policy_revision)
      when d.kind = 'mint' and turn.mode is not null then
        standing_json(p_org, null, turn.audience_hash, turn.mode, turn.project_bound, null) end,
    'own', case when turn.id is not null then
      standing_json(p_org, own.code, own.audience_hash, own.mode, own.project_bound, own.policy_revision) end,
    'there', case when turn.id is not null then
      standing_json(p_org, coalesce(v.code, there.code), there.audience_hash, there.mode, there.project_bound,
        there.policy_revision) end,
    'extent', there.extent,
    'toolAllowed', case when d.kind = 'tool' and d.tool <> 'retrieve' and turn.id is not null then d.tool = any (turn.tools) end,
    'isElsewhere', place <> turn.destination_id,
    'delivery', case when delivery.id is not null then
      standing_json(p_org, delivery.code, delivery.audience_hash, delivery.mode, delivery.project_bound, delivery.policy_revision)
        || jsonb_build_object('status', delivery.status) end))
    || jsonb_build_object(
      'readers', case when before is not null and there.readers is not null
        then readers_compared(before, reader_list(there.readers), p_names) end,
      'sources', (select coalesce(jsonb_agg(j.source), '[]') from judged j),
      'complete', (select count(distinct row(s.conversation_id, s.from_seq, s.to_seq is null)) <= p_most from unnest(sources) s),
      'readings', readings(p_org, array(select distinct j.conversation_id from judged j where not j.is_shown), there.readers,
        p_names, p_now))
  into result.facts
  from (select 1) one
  left join lateral (select delivery.mode, delivery.project_bound where delivery.audience_hash = d.audience_hash) at_delivery on true;
  return result;
end $$;

-- The door, for operators. What is asked, found and recorded is one statement on one snapshot (INVARIANT 5).
create function earshot.replay_decision(p_organization text, p_decision uuid, p_personas text[], p_names boolean, p_most integer,
  out code text, out decision_id uuid, out decided_at text, out facts jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off as $$
declare
  org constant bigint := enter_organization(p_organization);
  t constant timestamptz := clock_timestamp();
begin
  decision_id := gen_random_uuid();
  decided_at := rfc3339(t);
  if org is null then
    code := 'not_found';
    return;
  end if;
  with found as materialized (
    select r.* from replay(org, p_decision, p_personas, p_names, p_most, t) r
  ), recorded as (
    insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, audience_hash, policy_revision, detail)
    select org, replay_decision.decision_id, t, 'replay', case when f.code is null then 'allowed' else 'refused' end, f.code,
      f.turn_id, f.audience_hash, f.policy_revision,
      case when f.code is null then jsonb_build_object('of', p_decision, 'kind', f.kind) else '{}' end
    from found f
  )
  select f.code, f.facts into code, facts from found f;
end $$;

do $$
declare
  signature constant text := 'replay_decision(text, uuid, text[], boolean, integer)';
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  execute format('alter function earshot.%s owner to earshot_scoped', signature);
  execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  revoke create on schema earshot from earshot_scoped;
end $$;
