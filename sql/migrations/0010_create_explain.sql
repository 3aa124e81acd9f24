-- Explain: why a conversation, or one message of it, is in or out for a turn toward a destination.
--
-- The verdict is the scope's own: `turn_scope`, `in_scope` and `visible_messages` are asked, as they
-- are for a tool. Beside it stands what each reader reads, by the functions that the scope is made of.
-- No rule is stated again here; `policy/explanation.ts` turns these facts into reasons.

-- What was found out. `code` null: whoever asks may know it.
create type earshot.explained as (
  code text,
  audience_hash bytea,
  policy_revision bigint,
  in_scope boolean,
  facts jsonb
);

-- The part of a scope that a question touches: what every one of these readers reads of these
-- conversations. Nothing stands for conversations that are not named.
create function earshot.scope_part(p_org bigint, p_conversations bigint[], p_readers earshot.reader[],
  p_project_bound bigint, p_destination bigint, p_now timestamptz) returns earshot.scope
language plpgsql stable as $$
declare
  -- Each once: `narrow` counts readers.
  ids constant bigint[] := array(select distinct c from unnest(p_conversations) c);
  result earshot.scope;
begin
  select n.ids, n.floors into result.ids, result.floors
  from narrow(p_org, ids, array_fill(1::bigint, array[cardinality(ids)]), p_readers, p_project_bound, p_now) n;
  result.open := false;
  result.project_bound := p_project_bound;
  result.destination_id := p_destination;
  return result;
end $$;

-- The conversations that decide whether a message may be seen: its own, and those of its lineage.
create function earshot.conversations_behind(p_org bigint, p_message earshot.messages) returns bigint[]
language sql stable as $$
  select array(
    select (p_message).conversation_id
    union
    select d.conversation_id from earshot.lineage d
    where d.org_id = p_org and d.derived_id = (p_message).delivery_id)
$$;

-- Question: does this person read both ends, and the message if one is asked for?
-- Anything else is, for that person, as if it were not there (INVARIANT 16). The message is judged as
-- the person reads it at its own place. Nobody is told about the turns of others.
create function earshot.may_be_explained(p_org bigint, p_viewer text, p_requester text, p_destination bigint,
  p_source bigint, p_message earshot.messages, p_now timestamptz) returns boolean
language sql stable as $$
  select coalesce((
    select p_requester = u.external_id
      and exists (select from earshot.organizations o where o.id = p_org and o.status = 'active')
      and earshot.reads(p_org, u.id, p_destination, p_now)
      and earshot.reads(p_org, u.id, p_source, p_now)
      and ((p_message).seq is null or exists (
        select from earshot.visible_messages(p_org, earshot.scope_part(p_org,
          earshot.conversations_behind(p_org, p_message), array[earshot.person_reader(p_org, u.id)], null, p_source,
          p_now)) v
        where v.conversation_id = p_source and v.seq = (p_message).seq))
    from earshot.users u where u.org_id = p_org and u.external_id = p_viewer), false)
$$;

-- Each reader of the destination with what that reader reads of the source: a floor, or none, and
-- whether all that the message was made from is readable to that reader within the turn's bounds. What
-- is readable to all of them (`p_lineage`) is readable to each, and not asked again; null: no turn
-- stands, or there is no lineage. With a viewer no other person is named, and the order does not
-- follow names.
create function earshot.explained_readers(p_org bigint, p_standing earshot.standing, p_destination earshot.conversations,
  p_source bigint, p_message earshot.messages, p_lineage boolean, p_requester bigint, p_viewer text, p_now timestamptz)
returns jsonb
language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object(
      'kind', r.kind,
      'id', case when p_viewer is null or r.kind <> 'user' or r.external_id = p_viewer then r.external_id end,
      'viewer', r.kind = 'user' and r.external_id is not distinct from p_viewer,
      'guest', r.kind = 'user' and r.guest,
      'owner', r.kind = 'user' and r.key is not distinct from (p_destination).owner_id,
      'requester', r.kind = 'user' and r.key is not distinct from p_requester,
      'destinationFloor', r.floor::text,
      'floor', own.floors[1]::text,
      'lineage', case when p_lineage then true when not p_lineage then
        earshot.lineage_readable(p_org, (p_message).delivery_id, earshot.scope_part(p_org,
          case when (p_standing).extent = 'destination' then array[(p_destination).id]
            else (p_destination).id || earshot.conversations_behind(p_org, p_message) end,
          array[r], (p_standing).project_bound, (p_destination).id, p_now)) end)
    order by r.kind collate "C",
      case when p_viewer is null then r.external_id end collate "C",
      r.external_id is not distinct from p_viewer desc, r.floor, own.floors[1] nulls first), '[]')
  from unnest((p_standing).readers) r
  cross join lateral earshot.narrow(p_org, array[p_source], array[1::bigint], array[r], null, p_now) own
$$;

-- Question: why is this source in or out for this turn?
-- Reads one snapshot, that of the statement it is called from. Takes no locks. Indexes: those of the
-- scope. Not found: an end or a message that is not there, or that the viewer does not read.
create function earshot.explanation(p_org bigint, p_request jsonb, p_personas text[], p_viewer text,
  p_now timestamptz) returns earshot.explained
language plpgsql stable as $$
declare
  destination earshot.conversations;
  source earshot.conversations;
  message earshot.messages;
  requester bigint;
  persona bigint;
  standing earshot.standing;
  extent earshot.scope;
  source_floor bigint;
  seen boolean := false;
  lineage boolean;
  result earshot.explained;
begin
  select * into destination from conversations c
  where c.org_id = p_org and c.external_id = p_request ->> 'destination';
  select * into source from conversations c
  where c.org_id = p_org and c.external_id = p_request ->> 'source';
  select * into message from messages m
  where m.org_id = p_org and m.conversation_id = source.id and m.seq = (p_request ->> 'seq')::bigint;
  if destination.id is null or source.id is null or (p_request ? 'seq' and message.seq is null)
     or (p_viewer is not null and not may_be_explained(p_org, p_viewer, p_request ->> 'requester', destination.id,
       source.id, message, p_now)) then
    result.code := 'not_found';
    return result;
  end if;

  select u.id into requester from users u where u.org_id = p_org and u.external_id = p_request ->> 'requester';
  select a.id into persona from personas a
  where a.org_id = p_org and a.external_id = p_request ->> 'persona' and a.custody = 'service'
    and serves(p_personas, a.external_id);
  standing := judge_turn(p_org, persona, destination.id, requester, p_request ->> 'trigger',
    (p_request ->> 'triggerSeq')::bigint, null, p_now);
  result.audience_hash := standing.audience_hash;
  result.policy_revision := standing.policy_revision;
  if standing.code is null then
    extent := turn_scope(p_org, destination.id, standing.readers, standing.floor, standing.extent, requester,
      standing.project_bound, null, p_now);
    source_floor := (select s.floor from in_scope(p_org, extent) s where s.conversation_id = source.id);
    seen := exists (select from visible_messages(p_org, extent) v
                    where v.conversation_id = source.id and v.seq = message.seq);
    lineage := case when message.delivery_id is not null then
      lineage_readable(p_org, message.delivery_id, extent) end;
  end if;
  result.in_scope := case when message.seq is null then source_floor is not null else seen end;
  result.facts := jsonb_build_object(
    'turn', jsonb_strip_nulls(jsonb_build_object(
      'code', standing.code, 'mode', standing.mode, 'extent', standing.extent,
      'projectBound', (select p.external_id from projects p
                       where p.org_id = p_org and p.id = standing.project_bound))),
    'destination', jsonb_build_object('aiThread', destination.ai_thread, 'everShared', destination.ever_shared),
    'source', jsonb_build_object(
      'isDestination', source.id = destination.id,
      'state', case when source.deleted then 'deleted' when source.staged then 'staged' else 'live' end,
      'isOutsideBound', standing.project_bound is not null
        and source.project_id is distinct from standing.project_bound,
      'floor', source_floor::text),
    'message', case when message.seq is not null then jsonb_build_object(
      'seq', message.seq::text,
      'isDeleted', message.state = 'deleted',
      'mayLeave', may_leave(message),
      'isDelivered', message.delivery_id is not null,
      'isVisible', seen) end,
    'readers', explained_readers(p_org, standing, destination, source.id, message, lineage, requester,
      p_viewer, p_now));
  return result;
end $$;

-- The door. What is asked, found and recorded is one statement on one snapshot (INVARIANT 5). An
-- operator names no viewer; with one, that person is told what a person may know, and whatever that
-- person does not read answers as what does not exist. Changes nothing but the record (INVARIANT 17).
--
-- `p_request` has been validated: destination, source, seq, requester, persona, trigger, triggerSeq.
create function earshot.explain_source(p_organization text, p_request jsonb, p_personas text[], p_viewer text,
  p_subject bytea, out code text, out decision_id uuid, out decided_at text, out facts jsonb)
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
    select e.* from explanation(org, p_request, p_personas, p_viewer, t) e
  ), recorded as (
    insert into decisions (org_id, id, decided_at, kind, verdict, code, subject_sha256, audience_hash,
      policy_revision, detail)
    select org, explain_source.decision_id, t, 'explain', case when f.code is null then 'allowed' else 'refused' end,
      f.code, p_subject, f.audience_hash, f.policy_revision,
      jsonb_strip_nulls(jsonb_build_object('viewer', p_viewer is not null, 'inScope', f.in_scope))
    from found f
  )
  select f.code, f.facts into code, facts from found f;
end $$;

grant create on schema earshot to earshot_scoped;
alter function earshot.explain_source(text, jsonb, text[], text, bytea) owner to earshot_scoped;
revoke create on schema earshot from earshot_scoped;
revoke execute on all functions in schema earshot from public;
grant execute on all functions in schema earshot to earshot_scoped;
grant execute on function earshot.explain_source(text, jsonb, text[], text, bytea) to earshot_runtime;
