-- Artifacts: text made from sources, saved with its lineage, and what became of a source or an artifact.
--
-- Who saves or asserts one takes the locks of a delivery (0009), after what an erasure (0026) and the posting of an artifact
-- (0011) go by: the organization's erasure, shared, and the row of the home, shared. So a message that is just being linked to
-- its delivery, and a source that is just being deleted, come before and are seen, or come after and find the lineage.

-- An artifact does not change, but for its deletion, which is for good.
create function earshot.keep_artifact() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  if row(new.org_id, new.conversation_id, new.seq, new.id, new.kind, new.body_sha256, new.content_type, new.asserted,
         new.persona_id, new.turn_id, new.created_at)
     is distinct from
     row(old.org_id, old.conversation_id, old.seq, old.id, old.kind, old.body_sha256, old.content_type, old.asserted,
         old.persona_id, old.turn_id, old.created_at)
     or (old.state = 'deleted' and new.state <> 'deleted')
     or (new.state = 'live' and (new.title is distinct from old.title or new.body <> old.body)) then
    raise exception 'an artifact does not change' using errcode = '23514';
  end if;
  return new;
end $$;
create trigger identity before update on earshot.artifacts
  for each row execute function earshot.keep_artifact();

-- Its deletion moves the revision of its home, which whoever delivers what was made from it has locked.
create trigger moved after update on earshot.artifacts for each row
  when (old.state is distinct from new.state)
  execute function earshot.conversation_part_changed();

-- The number of an artifact in its home: the random bits of its id (UUID version 4), below zero.
create function earshot.artifact_number(p_id uuid) returns bigint
language sql immutable strict parallel safe as $$
  select -1 - ('x0' || substr(replace(p_id::text, '-', ''), 1, 12) || substr(replace(p_id::text, '-', ''), 14, 3))::bit(64)::bigint
$$;

-- Writes an artifact with its lineage.
create function earshot.write_artifact(p_org bigint, p_home bigint, p_artifact uuid, p_request jsonb, p_asserted boolean,
  p_turn earshot.turns, p_client text, p_key text, p_request_digest bytea, p_decision uuid, p_sources earshot.source[],
  p_now timestamptz) returns void
language plpgsql volatile as $$
begin
  insert into artifacts (org_id, conversation_id, seq, id, kind, title, body, body_sha256, content_type, asserted, persona_id,
    turn_id, created_at, client_id, idempotency_key, request_digest, decision_id)
  values (p_org, p_home, artifact_number(p_artifact), p_artifact, p_request ->> 'kind', p_request ->> 'title',
    p_request ->> 'text', sha256(convert_to(p_request ->> 'text', 'UTF8')), p_request ->> 'contentType', p_asserted,
    p_turn.persona_id, p_turn.id, p_now, p_client, p_key, p_request_digest, p_decision);
  insert into lineage (org_id, derived_id, conversation_id, from_seq, to_seq, revision)
  select distinct p_org, p_artifact, s.conversation_id, s.from_seq, s.to_seq, s.revision from unnest(p_sources) s;
end $$;

-- An artifact as it is answered to who saved it.
create function earshot.saved_artifact(p_artifact earshot.artifacts) returns jsonb
language sql stable as $$
  select jsonb_build_object('id', (p_artifact).id, 'kind', (p_artifact).kind,
    'textSha256', encode((p_artifact).body_sha256, 'hex'), 'createdAt', earshot.rfc3339((p_artifact).created_at),
    'decision', (p_artifact).decision_id)
$$;

-- Saves an artifact under a grant. Its lineage is all that the turn was shown, as of now; nobody chooses it. It is judged like
-- a delivery to the turn's own destination, and what is for some readers only is kept in nothing that others might read later.
-- The same key and request again save nothing and give the same answer, after the live check.
--
-- `p_request` has been validated: kind, title, text, contentType.
create function earshot.save_artifact(p_digest bytea, p_artifact uuid, p_request jsonb, p_key text, p_request_digest bytea,
  out code text, out changes jsonb, out decision_id uuid, out artifact jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org bigint;
  t timestamptz;
  g record;
  turn earshot.turns;
  live earshot.live;
  sources earshot.source[];
  locked bigint[];
  known earshot.artifacts;
  v earshot.verdict;
  items integer := 0;
begin
  perform enter_grant(p_digest);
  select g0.org_id, g0.id, g0.turn_id, t0.destination_id into g
  from grants g0 join turns t0 on t0.org_id = g0.org_id and t0.id = g0.turn_id where g0.digest = p_digest;
  if not found then
    code := 'unknown_grant';
    return;
  end if;
  org := g.org_id;

  -- Lock.
  perform share_erasure(org);
  perform from conversations c where c.org_id = org and c.id = g.destination_id for share;
  sources := turn_sources(org, g.turn_id);
  locked := array(select g.destination_id union select s.conversation_id from unnest(sources) s);
  perform lock_readability(org, locked);
  select * into turn from turns t0 where t0.org_id = org and t0.id = g.turn_id for no key update;
  perform from grants g0 where g0.org_id = org and g0.id = g.id for no key update;
  t := clock_timestamp();

  -- Check.
  decision_id := gen_random_uuid();
  live := live_check(p_digest, null, t);
  code := live.code;
  changes := live.changes;
  if code is null then
    select * into known from artifacts a
    where a.org_id = org and a.client_id = 'turn:' || turn.id and a.idempotency_key = p_key;
    code := case when known.request_digest <> p_request_digest then 'conflict' end;
  end if;
  if code is null and known.id is null then
    sources := turn_sources(org, turn.id);
    perform require_locked(array(select s.conversation_id from unnest(sources) s), locked);
    v := judge_disclosure(org, turn, turn.destination_id, live.standing, sources, t);
    code := coalesce(v.code, case when turn.only_for is not null then 'narrowing_refused' end);
    if code is null then
      items := cardinality(sources);
      perform write_artifact(org, turn.destination_id, p_artifact, p_request, false, turn, 'turn:' || turn.id, p_key,
        p_request_digest, decision_id, sources, t);
      select * into known from artifacts a where a.org_id = org and a.id = p_artifact;
    end if;
  end if;

  if live.code is not null then
    perform revoke_grant(org, g.id, live.code, live.changes, t);
  elsif code in ('source_revoked', 'source_changed') then
    -- The session holds what its readers may no longer have; the next mint moves its epoch on.
    update sessions s set state = 'quarantined'
    where s.org_id = org and s.state = 'open' and s.id = any (turn_sessions(org, turn.id));
  end if;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, session_id, subject_sha256, items,
    audience_hash, policy_revision, detail)
  values (org, save_artifact.decision_id, t, 'artifact', case when save_artifact.code is null then 'allowed' else 'refused' end,
    save_artifact.code, turn.id, g.id, live.session_id, sha256(convert_to(p_request ->> 'text', 'UTF8')), items,
    (live.standing).audience_hash, (live.standing).policy_revision,
    jsonb_strip_nulls(jsonb_build_object('artifact', case when save_artifact.code is null then known.id end,
      'changes', live.changes)));
  artifact := case when code is null then saved_artifact(known) end;
end $$;

-- How a source of a derived text stands beside what was read of it: live, edited or deleted. One that is inherited has no
-- revision, and so counts as live until it is deleted; a stretch goes with its conversation. `is_stale` (0006) asks the same of a whole lineage.
create function earshot.source_state(p_org bigint, p_conversation bigint, p_from bigint, p_to bigint, p_revision bigint)
returns text
language plpgsql stable as $$
begin
  return case
    when not exists (select from conversations c where c.org_id = p_org and c.id = p_conversation and not c.deleted)
      then 'deleted'
    when p_to is null then 'live'
    when p_from < 0 then coalesce((select a.state from artifacts a
      where a.org_id = p_org and a.conversation_id = p_conversation and a.seq = p_from), 'deleted')
    else coalesce((select case when m.state <> 'deleted' and m.revision <> p_revision then 'edited'
          when m.state = 'deleted' then 'deleted' else 'live' end
      from messages m where m.org_id = p_org and m.conversation_id = p_conversation and m.seq = p_from), 'deleted')
  end;
end $$;

-- What an ingest caller says that a text was made from: messages that are there, conversations from a sequence up that is
-- there, artifacts; and what those were made from in their turn. Null where any of it is not there, or not any more.
create function earshot.asserted_sources(p_org bigint, p_sources jsonb) returns earshot.source[]
language plpgsql stable as $$
declare
  named constant earshot.source[] := array(
    select case
        when s.source ? 'artifact' then row(n.conversation_id, n.seq, n.seq, 1)::source
        when s.source ? 'fromSeq' then row(n.conversation_id, (s.source ->> 'fromSeq')::bigint, null, null)::source
        else row(n.conversation_id, n.seq, n.seq, m.revision)::source end
    from jsonb_array_elements(p_sources) with ordinality as s(source, nth)
    cross join lateral named_source(p_org, s.source) n
    join conversations c on c.org_id = p_org and c.id = n.conversation_id
    left join messages m on m.org_id = p_org and m.conversation_id = n.conversation_id and m.seq = n.seq
    where s.source ? 'artifact' or m.seq is not null or (s.source ->> 'fromSeq')::bigint between 1 and c.head
    order by s.nth);
  whole constant earshot.source[] := named || array(
    select row(i.conversation_id, i.from_seq, i.to_seq, null)::source from inherited_sources(p_org, named) i);
begin
  if cardinality(named) < jsonb_array_length(p_sources) or exists (
    select from unnest(whole) s
    where source_state(p_org, s.conversation_id, s.from_seq, s.to_seq, s.revision) <> 'live') then
    return null;
  end if;
  return whole;
end $$;

-- Registers an artifact with the sources that a caller outside of any turn names: one at least. Its home is where the first of
-- them is. It is asserted: nobody but the caller vouches for the lineage. The same key and request of a caller again register
-- nothing and give the same answer. A source that is not there: `not_found`.
--
-- `p_request` has been validated: kind, title, text, contentType, sources.
create function earshot.assert_artifact(p_organization text, p_artifact uuid, p_client text, p_request jsonb, p_key text,
  p_request_digest bytea, out code text, out decision_id uuid, out artifact jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  org constant bigint := enter_organization(p_organization);
  caller constant text := 'client:' || p_client;
  t timestamptz;
  sources earshot.source[];
  home bigint;
  locked bigint[];
  known earshot.artifacts;
  nobody earshot.turns;
begin
  if org is null then
    code := 'not_found';
    return;
  end if;

  -- Lock. Two of one key come one after the other.
  perform share_erasure(org);
  perform pg_advisory_xact_lock(artifact_lock(), hashtext(org || ' ' || caller || ' ' || p_key));
  sources := asserted_sources(org, p_request -> 'sources');
  home := sources[1].conversation_id;
  locked := array(select distinct s.conversation_id from unnest(sources) s);
  perform from conversations c where c.org_id = org and c.id = home for share;
  perform lock_readability(org, locked);
  t := clock_timestamp();

  -- Check.
  decision_id := gen_random_uuid();
  select * into known from artifacts a
  where a.org_id = org and a.client_id = caller and a.idempotency_key = p_key;
  if known.id is not null then
    code := case when known.request_digest <> p_request_digest then 'conflict' end;
  else
    sources := asserted_sources(org, p_request -> 'sources');
    perform require_locked(array(select s.conversation_id from unnest(sources) s), locked);
    if coalesce(cardinality(sources), 0) = 0 then
      code := 'not_found';
    else
      perform write_artifact(org, home, p_artifact, p_request, true, nobody, caller, p_key, p_request_digest, decision_id,
        sources, t);
      select * into known from artifacts a where a.org_id = org and a.id = p_artifact;
    end if;
  end if;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, subject_sha256, items, detail)
  values (org, assert_artifact.decision_id, t, 'artifact', case when assert_artifact.code is null then 'allowed' else 'refused' end,
    assert_artifact.code, sha256(convert_to(p_request ->> 'text', 'UTF8')),
    case when known.id = p_artifact then cardinality(sources) else 0 end,
    jsonb_strip_nulls(jsonb_build_object('artifact', case when assert_artifact.code is null then known.id end, 'asserted', true)));
  artifact := case when code is null then saved_artifact(known) end;
end $$;

-- The first half of the keys of the advisory locks that order repetitions of one request; the second is of its key.
create function earshot.artifact_lock() returns integer
language sql immutable parallel safe as $$ select 8441 $$;

-- Deletes an artifact: its text and terms go, wherever they are (0026), its number and its lineage stay.
create function earshot.delete_artifact(p_organization text, p_artifact uuid) returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  gone constant earshot.source[] := array(
    select row(a.conversation_id, a.seq, a.seq, null)::source from artifacts a
    where a.org_id = org and a.id = p_artifact and a.state = 'live');
begin
  perform hold_for_erasure(org, gone);
  update artifacts a set state = 'deleted', title = null, body = ''
  where a.org_id = org and a.id = p_artifact and a.state = 'live';
  return case when found then 'deleted' else 'not_found' end;
end $$;

-- Whether an artifact that was saved in this turn, or in none, is one to be told of: of a persona that the caller is
-- registered for, or of nobody.
create function earshot.serves_artifact(p_org bigint, p_turn uuid, p_personas text[]) returns boolean
language plpgsql stable as $$
begin
  return p_turn is null or serves_turn(p_org, p_turn, p_personas);
end $$;

-- What a derived text was made from, of each source how it stands now. No text.
create function earshot.lineage_sources(p_org bigint, p_derived uuid, p_most integer) returns jsonb
language plpgsql stable as $$
begin
  return (select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
      'type', case when s.from_seq < 0 then 'artifact' when s.to_seq is null then 'stretch' else 'message' end,
      'conversation', c.external_id,
      'seq', case when s.from_seq > 0 and s.to_seq is not null then s.from_seq::text end,
      'fromSeq', case when s.to_seq is null then s.from_seq::text end,
      'artifact', a.id,
      'revision', s.revision::text,
      'state', source_state(p_org, s.conversation_id, s.from_seq, s.to_seq, s.revision),
      'stale', case when a.id is not null then is_stale(p_org, a.id) end,
      'inherited', s.to_seq is not null and s.revision is null))
    order by s.to_seq is not null and s.revision is null, c.external_id collate "C", s.from_seq < 0, s.from_seq), '[]')
    from (
      -- What was read itself comes before what is inherited, and stands for it.
      select distinct on (d.conversation_id, d.from_seq, d.to_seq is null, d.revision) d.* from lineage d
      where d.org_id = p_org and d.derived_id = p_derived
        and not (d.to_seq is not null and d.revision is null and exists (
          select from lineage x where x.org_id = p_org and x.derived_id = p_derived
            and x.conversation_id = d.conversation_id and x.from_seq = d.from_seq and x.revision is not null))
      limit p_most) s
    join conversations c on c.org_id = p_org and c.id = s.conversation_id
    left join artifacts a on a.org_id = p_org and a.conversation_id = s.conversation_id and a.seq = s.from_seq);
end $$;

-- What has this message or artifact in its lineage, and how: it was read itself (`direct`), is behind something that was
-- (`inherited`), or is in a conversation that was before the agent as a whole (`stretch`), as the turn's own always is.
create function earshot.derived_from(p_org bigint, p_conversation bigint, p_seq bigint) returns table (derived_id uuid, how text)
language sql stable as $$
  select l.derived_id, case when bool_or(l.revision is not null) then 'direct'
      when bool_or(l.to_seq is not null) then 'inherited' else 'stretch' end
  from earshot.lineage l
  where l.org_id = p_org and l.conversation_id = p_conversation
    and case when l.to_seq is not null then l.from_seq = p_seq else p_seq > 0 and l.from_seq <= p_seq end
  group by l.derived_id
$$;

-- All that is told of a source: what it was made from, if it is derived, what was made from it, and the deliveries that have
-- it, the newest first. `complete` false: some of it is left out.
create function earshot.lineage_report(p_org bigint, p_personas text[], p_conversation bigint, p_seq bigint, p_derived uuid,
  p_most integer, p_now timestamptz) returns jsonb
language plpgsql stable as $$
declare
  sources constant jsonb := lineage_sources(p_org, p_derived, p_most + 1);
  derived jsonb;
  deliveries jsonb;
begin
  select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('artifact', x.id, 'kind', x.kind, 'conversation', x.home,
      'how', x.how, 'state', x.state, 'stale', is_stale(p_org, x.id), 'asserted', x.asserted, 'at', rfc3339(x.created_at)))
    order by x.created_at desc, x.id), '[]')
  into derived
  from (
    select a.*, c.external_id as home, f.how
    from derived_from(p_org, p_conversation, p_seq) f
    cross join lateral (select a0.* from artifacts a0 where a0.org_id = p_org and a0.id = f.derived_id limit 1) a
    cross join lateral (select c0.external_id from conversations c0
      where c0.org_id = p_org and c0.id = a.conversation_id limit 1) c
    where serves_artifact(p_org, a.turn_id, p_personas)
    order by a.created_at desc, a.id limit p_most + 1) x;
  select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', x.id, 'destination', x.place, 'how', x.how,
      'status', status_of(x.status, x.expires_at, x.acknowledge_by, p_now), 'at', rfc3339(x.moved_at), 'message', x.message_id))
    order by x.moved_at desc, x.id), '[]')
  into deliveries
  from (
    select d.*, c.external_id as place, f.how, coalesce(d.acknowledged_at, d.released_at, d.proposed_at) as moved_at
    from derived_from(p_org, p_conversation, p_seq) f
    cross join lateral (select d0.* from deliveries d0 where d0.org_id = p_org and d0.id = f.derived_id limit 1) d
    cross join lateral (select c0.external_id from conversations c0
      where c0.org_id = p_org and c0.id = d.destination_id limit 1) c
    where serves_turn(p_org, d.turn_id, p_personas)
    order by moved_at desc, d.id limit p_most + 1) x;
  return jsonb_build_object(
    'sources', case when jsonb_array_length(sources) > p_most then sources - p_most else sources end,
    'derived', case when jsonb_array_length(derived) > p_most then derived - p_most else derived end,
    'deliveries', case when jsonb_array_length(deliveries) > p_most then deliveries - p_most else deliveries end,
    'complete', greatest(jsonb_array_length(sources), jsonb_array_length(derived), jsonb_array_length(deliveries)) <= p_most);
end $$;

-- Question: what was this artifact, or this message, made from, what was made from it, and where has that gone? For operators:
-- no scope is asked, and no text is told. Found and recorded in one statement on one snapshot (INVARIANT 5). An artifact
-- of a persona that the caller is not registered for is not found, and what is of one is left out.
create function earshot.lineage_of(p_organization text, p_personas text[], p_artifact uuid, p_conversation text, p_seq bigint,
  p_most integer, p_subject bytea, out code text, out decision_id uuid, out decided_at text, out lineage jsonb)
language plpgsql volatile security definer set search_path = earshot, pg_temp set jit = off as $$
declare
  org constant bigint := enter_organization(p_organization);
  t constant timestamptz := clock_timestamp();
begin
  if org is null then
    -- No decision either: there is nowhere to put it on record.
    code := 'not_found';
    return;
  end if;
  decision_id := gen_random_uuid();
  decided_at := rfc3339(t);
  with asked as materialized (
    select a.conversation_id, a.seq, a.id as derived, jsonb_build_object('stale', is_stale(org, a.id), 'artifact',
        jsonb_strip_nulls(jsonb_build_object('id', a.id, 'kind', a.kind, 'conversation', c.external_id, 'state', a.state,
          'asserted', a.asserted, 'persona', p.external_id, 'textSha256', encode(a.body_sha256, 'hex'),
          'createdAt', rfc3339(a.created_at)))) as what
    from artifacts a
    join conversations c on c.org_id = org and c.id = a.conversation_id
    left join personas p on p.org_id = org and p.id = a.persona_id
    where a.org_id = org and a.id = p_artifact and serves_artifact(org, a.turn_id, p_personas)
    union all
    select m.conversation_id, m.seq, m.delivery_id, jsonb_build_object('message',
        jsonb_strip_nulls(jsonb_build_object('conversation', c.external_id, 'seq', m.seq::text, 'id', m.external_id,
          'state', m.state, 'revision', m.revision::text, 'delivery', m.delivery_id)))
    from conversations c
    join messages m on m.org_id = org and m.conversation_id = c.id and m.seq = p_seq
    where p_artifact is null and c.org_id = org and c.external_id = p_conversation
  ), report as materialized (
    select a.what || lineage_report(org, p_personas, a.conversation_id, a.seq, a.derived, p_most, t) as told from asked a
  ), recorded as (
    insert into decisions (org_id, id, decided_at, kind, verdict, code, subject_sha256, items)
    select org, lineage_of.decision_id, t, 'lineage', case when r.told is null then 'refused' else 'allowed' end,
      case when r.told is null then 'not_found' end, p_subject, jsonb_array_length(r.told -> 'derived')
    from (select 1) one left join report r on true
  )
  select r.told into lineage from (select 1) one left join report r on true;
  code := case when lineage is null then 'not_found' end;
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array[
    'save_artifact(bytea, uuid, jsonb, text, bytea)',
    'assert_artifact(text, uuid, text, jsonb, text, bytea)',
    'delete_artifact(text, uuid)',
    'lineage_of(text, text[], uuid, text, bigint, integer, bytea)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
