-- The tools that read conversations, and the one door to them.

-- What one tool call found. `hits` beyond the limit only say that there is more.
create type earshot.hit as (
  source earshot.source,
  item jsonb
);
-- `total`, where it was asked for: how many there are, and whether the count is complete.
create type earshot.tool_result as (code text, hits earshot.hit[], more boolean, total jsonb);

-- A timestamp as it goes out: RFC 3339, UTC, microseconds.
create function earshot.rfc3339(p_time timestamptz) returns text
language sql stable as $$
  select to_char(p_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- Whether an artifact is made from something that has changed: a source was edited or deleted since it was read, or
-- an artifact among the sources is stale or deleted, at whatever remove. It tells of nothing that who reads the artifact does
-- not read: a lineage has the lineages of what is in it.
--
-- One look by a key for each source, and nothing else is touched: what is in the lineages of others costs nothing here.
create function earshot.is_stale(p_org bigint, p_derived uuid) returns boolean
language plpgsql stable as $$
begin
  return exists (
    with recursive made (id) as (
      select p_derived
      union
      select a.id from made
      cross join lateral (select l.conversation_id, l.from_seq from lineage l
        where l.org_id = p_org and l.derived_id = made.id and l.from_seq < 0 offset 0) d
      cross join lateral (select x.id from artifacts x
        where x.org_id = p_org and x.conversation_id = d.conversation_id and x.seq = d.from_seq limit 1) a
    )
    select from made
    cross join lateral (select l.* from lineage l where l.org_id = p_org and l.derived_id = made.id offset 0) d
    where case when d.from_seq < 0 then (
          select a.state = 'live' from artifacts a
          where a.org_id = p_org and a.conversation_id = d.conversation_id and a.seq = d.from_seq limit 1)
        when d.to_seq is not null then (
          -- What is inherited has no revision.
          select m.state <> 'deleted' and m.revision = coalesce(d.revision, m.revision) from messages m
          where m.org_id = p_org and m.conversation_id = d.conversation_id and m.seq = d.from_seq limit 1)
        else (
          select not c.deleted from conversations c where c.org_id = p_org and c.id = d.conversation_id limit 1)
      end is not true);
end $$;

-- An artifact is at least as sensitive as the most sensitive of what it was made from: fewer read what is for members.
create function earshot.derived_sensitivity(p_org bigint, p_derived uuid) returns text
language plpgsql stable as $$
begin
  return (select case when bool_or(c.visibility = 'members') then 'members'
      when bool_or(c.visibility = 'project') then 'project' else 'organization' end
    from (select l.conversation_id from lineage l where l.org_id = p_org and l.derived_id = p_derived offset 0) d
    cross join lateral (select x.visibility from conversations x
      where x.org_id = p_org and x.id = d.conversation_id limit 1) c);
end $$;

-- What is said of an artifact beside its text.
create function earshot.artifact_facts(p_org bigint, p_artifact uuid) returns jsonb
language plpgsql stable as $$
begin
  return (select jsonb_build_object('kind', a.kind, 'title', a.title, 'asserted', a.asserted, 'stale', is_stale(p_org, a.id))
    from artifacts a where a.org_id = p_org and a.id = p_artifact);
end $$;

-- A message or an artifact as an item of a packet. Replies and embeds are references, and one that is not visible
-- here leaves no trace: no text, title, author or link of it.
--
-- One row, for a lateral join: so it is planned with the statement that asks, once in a session. A scalar
-- function that reads tables would be planned at every call.
create function earshot.message_item(p_org bigint, p_scope earshot.scope, p_message earshot.messages)
returns table (item jsonb)
language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'text', (p_message).body,
    'conversation', c.external_id,
    'id', (p_message).external_id,
    'seq', (p_message).seq::text,
    'revision', (p_message).revision::text,
    'kind', (p_message).kind,
    'edited', (p_message).state = 'edited',
    'sentAt', earshot.rfc3339((p_message).sent_at),
    'authorUser', (select u.external_id from earshot.users u
                   where u.org_id = p_org and u.id = (p_message).author_user_id),
    'authorPersona', (select a.external_id from earshot.personas a
                      where a.org_id = p_org and a.id = (p_message).author_persona_id),
    'owner', (select u.external_id from earshot.users u where u.org_id = p_org and u.id = c.owner_id),
    'visibility', case when (p_message).kind = 'artifact' then earshot.derived_sensitivity(p_org, (p_message).delivery_id)
      else c.visibility end,
    'artifact', case when (p_message).kind = 'artifact' then earshot.artifact_facts(p_org, (p_message).delivery_id) end,
    'fromSeq', (select s.floor::text from earshot.in_scope(p_org, p_scope) s where s.conversation_id = c.id),
    'replyTo', (select jsonb_build_object('id', parent.external_id, 'seq', parent.seq::text)
                from earshot.visible_messages(p_org, p_scope) parent
                where parent.conversation_id = c.id and parent.external_id = (p_message).reply_to and parent.seq > 0),
    'embeds', (select jsonb_agg(jsonb_build_object('conversation', tc.external_id, 'id', target.external_id,
                                                   'seq', target.seq::text) order by e.position)
               from earshot.message_embeds e
               join earshot.conversations tc on tc.org_id = p_org and tc.external_id = e.target_conversation
               join earshot.visible_messages(p_org, p_scope) target
                 on target.conversation_id = tc.id and target.external_id = e.target_message and target.seq > 0
               where e.org_id = p_org and e.conversation_id = (p_message).conversation_id
                 and e.seq = (p_message).seq)))
  from (select c.* from earshot.conversations c
        where c.org_id = p_org and c.id = (p_message).conversation_id limit 1) c
$$;

-- Question: which other conversations decide what is seen of these messages of one conversation?
-- Those of the messages that they embed, and those that a message which came out of a delivery was made from:
-- one of these, one that they reply to, or one that they embed; and those that an artifact of these was made from.
-- Nothing below a floor is looked at.
create function earshot.related_conversations(p_org bigint, p_scope earshot.scope, p_conversation bigint,
  p_seqs bigint[]) returns bigint[]
language plpgsql stable as $$
declare
  destination constant bigint := p_scope.destination_id;
  lowest constant bigint := (select s.floor from in_scope(p_org, p_scope) s where s.conversation_id = p_conversation);
begin
  return array(
    with page as materialized (
      select m.seq, m.reply_to, m.delivery_id
      from unnest(p_seqs) as x(seq)
      cross join lateral (select v.* from conversation_messages(p_org, p_conversation, lowest, destination) v
        where v.seq = x.seq limit 1) m
    ), embedded as materialized (
      -- One that does not exist is asked about like one out of scope. No conversation has such a key.
      select coalesce(c.id, -row_number() over (order by e.seq, e.position)) as id, e.target_message from page p
      join message_embeds e on e.org_id = p_org and e.conversation_id = p_conversation and e.seq = p.seq
      left join conversations c on c.org_id = p_org and c.external_id = e.target_conversation
    ), made as materialized (
      select p.delivery_id as id from page p
      union
      select parent.delivery_id from page p
      cross join lateral (select v.delivery_id from conversation_messages(p_org, p_conversation, lowest, destination) v
        where v.external_id = p.reply_to limit 1) parent
      union
      select target.delivery_id from embedded e
      join in_scope(p_org, p_scope) s on s.conversation_id = e.id
      cross join lateral (select v.delivery_id from conversation_messages(p_org, e.id, s.floor, destination) v
        where v.external_id = e.target_message limit 1) target
      union
      select a.delivery_id from unnest(p_seqs) as x(seq)
      cross join lateral (select v.delivery_id from conversation_artifacts(p_org, p_conversation) v
        where v.seq = x.seq limit 1) a
    )
    select e.id from embedded e
    union
    select d.conversation_id from made
    join lineage d on d.org_id = p_org and d.derived_id = made.id);
end $$;

-- A turn's scope as far as it decides what is seen of these messages of one conversation. What every reader
-- reads besides is not asked for, so the cost is that of the page, whatever the readers read.
create function earshot.page_scope(p_live earshot.live, p_recipient text, p_conversation bigint, p_seqs bigint[],
  p_now timestamptz) returns earshot.scope
language plpgsql stable as $$
declare
  standing constant earshot.standing := p_live.standing;
  asked bigint[] := array[p_conversation];
  related bigint[];
  result earshot.scope;
begin
  loop
    result := turn_scope(p_live.org_id, p_live.destination_id, standing.readers, standing.floor, standing.extent,
      p_live.requester_id, standing.project_bound, p_recipient, p_now, asked);
    exit when cardinality(p_seqs) = 0;
    related := array(
      select unnest(related_conversations(p_live.org_id, result, p_conversation, p_seqs))
      except select unnest(asked));
    exit when cardinality(related) = 0;
    asked := asked || related;
  end loop;
  return result;
end $$;

-- The messages of one conversation that may be seen, from a sequence on, forward or backward; with a root,
-- that message and the replies to it. Those that are there are taken first, then asked of the one predicate;
-- where too few of them may be seen, more are taken.
create function earshot.read_page(p_live earshot.live, p_recipient text, p_conversation bigint, p_from bigint,
  p_backward boolean, p_root text, p_page integer, p_now timestamptz) returns earshot.tool_result
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  lowest constant bigint := (
    select s.floor from in_scope(org, page_scope(p_live, p_recipient, p_conversation, '{}', p_now)) s
    where s.conversation_id = p_conversation);
  taken integer := p_page + 1;
  seqs bigint[];
  extent earshot.scope;
  result earshot.tool_result;
begin
  -- INVARIANT 16: out of scope and nonexistent look alike.
  if lowest is null then
    return row('not_found', null, false, null)::tool_result;
  end if;
  loop
    if p_root is not null then
      seqs := array(select m.seq from conversation_messages(org, p_conversation, lowest, p_live.destination_id) m
        where (m.external_id = p_root or m.reply_to = p_root) and m.seq >= p_from order by m.seq limit taken);
    elsif p_backward then
      seqs := array(select m.seq from conversation_messages(org, p_conversation, lowest, p_live.destination_id) m
        where m.seq <= p_from order by m.seq desc limit taken);
    else
      seqs := array(select m.seq from conversation_messages(org, p_conversation, lowest, p_live.destination_id) m
        where m.seq >= p_from order by m.seq limit taken);
    end if;
    extent := page_scope(p_live, p_recipient, p_conversation, seqs, p_now);
    select null, coalesce(array_agg(row(row(p_conversation, r.seq, r.seq, (r.message).revision)::source,
        i.item)::hit order by r.place) filter (where r.place <= p_page), '{}'),
      coalesce(bool_or(r.place > p_page), false)
    into result
    from (
      select v.message, x.seq, row_number() over (order by x.place) as place
      from unnest(seqs) with ordinality as x(seq, place)
      cross join lateral (select v as message from visible_in(org, extent, p_conversation, lowest) v
        where v.seq = x.seq limit 1) v
      order by x.place limit p_page + 1
    ) r
    cross join lateral message_item(org, extent, r.message) i;
    exit when result.more or cardinality(seqs) < taken;
    taken := taken * 4;
  end loop;
  return result;
end $$;

-- The conversation of this name; 0 where there is none, which is asked about like one out of scope.
create function earshot.conversation_named(p_org bigint, p_name text) returns bigint
language plpgsql stable as $$
begin
  return coalesce((select c.id from conversations c where c.org_id = p_org and c.external_id = p_name), 0);
end $$;

-- Messages of one conversation from a sequence, forward or backward.
create function earshot.read_messages(p_live earshot.live, p_arguments jsonb, p_now timestamptz)
returns earshot.tool_result
language plpgsql stable as $$
declare
  backward constant boolean := p_arguments ->> 'direction' = 'backward';
begin
  return read_page(p_live, p_arguments ->> 'recipient',
    conversation_named(p_live.org_id, p_arguments ->> 'conversation'),
    coalesce((p_arguments ->> 'fromSeq')::bigint, case when backward then 9223372036854775807 else 1 end),
    backward, null, (p_arguments ->> 'limit')::integer, p_now);
end $$;

-- One artifact, which has to be visible as a message has to be: one that is not there is asked about like one out of scope.
create function earshot.read_artifact(p_live earshot.live, p_arguments jsonb, p_now timestamptz)
returns earshot.tool_result
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  home bigint;
  number bigint;
  extent earshot.scope;
  result earshot.tool_result;
begin
  select a.conversation_id, a.seq into home, number from artifacts a
  where a.org_id = org and a.id = (p_arguments ->> 'artifact')::uuid;
  extent := page_scope(p_live, p_arguments ->> 'recipient', coalesce(home, 0), array[number], p_now);
  select null, array_agg(row(row(home, number, number, v.revision)::source, i.item)::hit), false
  into result
  from in_scope(org, extent) s
  cross join lateral visible_in(org, extent, home, s.floor) v
  cross join lateral message_item(org, extent, v) i
  where s.conversation_id = home and v.seq = number;
  return case when result.hits is null then row('not_found', null, false, null)::tool_result else result end;
end $$;

-- The neighbours of one message, the message among them. One that is not visible is not found.
create function earshot.read_around(p_live earshot.live, p_arguments jsonb, p_now timestamptz)
returns earshot.tool_result
language plpgsql stable as $$
declare
  wanted constant bigint := conversation_named(p_live.org_id, p_arguments ->> 'conversation');
  anchor constant bigint := (p_arguments ->> 'seq')::bigint;
  before earshot.tool_result;
  result earshot.tool_result := read_page(p_live, p_arguments ->> 'recipient', wanted, anchor, false, null,
    (p_arguments ->> 'after')::integer + 1, p_now);
begin
  if result.code is null and (result.hits[1].source).from_seq is distinct from anchor then
    result := row('not_found', null, false, null)::tool_result;
  end if;
  if result.code is not null then
    return result;
  end if;
  before := read_page(p_live, p_arguments ->> 'recipient', wanted, anchor - 1, true, null,
    (p_arguments ->> 'before')::integer, p_now);
  result.hits := array(select h from unnest(before.hits) with ordinality as b(source, item, place)
    cross join lateral (select row(b.source, b.item)::hit as h) x order by b.place desc) || result.hits;
  result.more := false;
  return result;
end $$;

-- The replies to one message, the message first.
create function earshot.read_thread(p_live earshot.live, p_arguments jsonb, p_now timestamptz)
returns earshot.tool_result
language plpgsql stable as $$
declare
  wanted constant bigint := conversation_named(p_live.org_id, p_arguments ->> 'conversation');
  seq constant bigint := (p_arguments ->> 'seq')::bigint;
  root constant earshot.tool_result := read_page(p_live, p_arguments ->> 'recipient', wanted, seq, false, null, 1, p_now);
begin
  if root.code is not null or (root.hits[1].source).from_seq is distinct from seq then
    return row('not_found', null, false, null)::tool_result;
  end if;
  return read_page(p_live, p_arguments ->> 'recipient', wanted,
    coalesce((p_arguments #>> '{after,seq}')::bigint + 1, 1), false, root.hits[1].item ->> 'id',
    (p_arguments ->> 'limit')::integer, p_now);
end $$;

-- The conversations in scope, with the count and the latest time of what is visible in each. A page
-- is chosen before anything is counted.
create function earshot.list_conversations(p_org bigint, p_scope earshot.scope, p_arguments jsonb)
returns earshot.tool_result
language plpgsql stable as $$
declare
  page constant integer := (p_arguments ->> 'limit')::integer;
  after_conversation constant text := coalesce(p_arguments #>> '{after,conversation}', '');
  result earshot.tool_result;
begin
  select null,
    array_agg(row(
      row(r.id, r.floor, null, null)::source,
      jsonb_strip_nulls(jsonb_build_object(
        'conversation', r.external_id, 'title', r.title, 'kind', r.kind, 'visibility', r.visibility,
        'fromSeq', r.floor::text, 'owner', r.owner,
        'messages', seen.messages::text, 'latestAt', rfc3339(seen.latest_at)))
    )::hit order by r.place) filter (where r.place <= page),
    coalesce(bool_or(r.place > page), false)
  into result
  from (
    select c.id, c.external_id, c.title, c.kind, c.visibility, s.floor,
      (select u.external_id from users u where u.org_id = p_org and u.id = c.owner_id) as owner,
      row_number() over (order by c.external_id) as place
    from in_scope(p_org, p_scope) s
    join conversations c on c.org_id = p_org and c.id = s.conversation_id
    where c.external_id > after_conversation
    order by c.external_id limit page + 1
  ) r
  cross join lateral (
    select count(*) as messages, max(v.sent_at) as latest_at
    from visible_in(p_org, p_scope, r.id, r.floor) v where v.seq > 0
  ) seen;
  return result;
end $$;

create function earshot.run_tool(p_live earshot.live, p_tool text, p_arguments jsonb, p_now timestamptz)
returns earshot.tool_result
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  standing constant earshot.standing := p_live.standing;
  extent earshot.scope;
begin
  -- Whatever plan the caller's statement gets: a grant that is not live runs nothing.
  if p_live.code is not null or p_live.org_id is null then
    return null;
  end if;
  if p_tool in ('search', 'list_conversations') then
    extent := turn_scope(org, p_live.destination_id, standing.readers, standing.floor, standing.extent,
      p_live.requester_id, standing.project_bound, p_arguments ->> 'recipient', p_now);
  end if;
  return case p_tool
    when 'search' then search_messages(org, extent, p_arguments)
    when 'read' then case when p_arguments ? 'artifact' then read_artifact(p_live, p_arguments, p_now)
      else read_messages(p_live, p_arguments, p_now) end
    when 'around' then read_around(p_live, p_arguments, p_now)
    when 'thread' then read_thread(p_live, p_arguments, p_now)
    when 'list_conversations' then list_conversations(org, extent, p_arguments)
  end;
end $$;

-- The door. Check, scope, rows, ledger and record are one statement on one snapshot, committed before
-- anything leaves (INVARIANT 5). It takes the digest of a token that the caller has verified; the
-- organization, the readers and the scope come from the grant's row (INVARIANT 8). A refusal is
-- recorded, and revokes the grant where it is for good, in this same transaction, which holds
-- nothing else that could roll it back.
--
-- `p_arguments` has been validated: a malformed one is an error here and reads nothing.
create function earshot.call_tool(p_digest bytea, p_tool text, p_arguments jsonb, p_subject bytea,
  out code text, out decision_id uuid, out decided_at text, out grant_id uuid, out policy_revision bigint,
  out changes jsonb, out more boolean, out total jsonb, out items jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t constant timestamptz := clock_timestamp();
begin
  perform enter_grant(p_digest);
  decision_id := gen_random_uuid();
  decided_at := rfc3339(t);
  with live as materialized (
    select l.* from live_check(p_digest, p_tool, t) l
  ), result as materialized (
    select r.* from live l cross join lateral run_tool(l, p_tool, p_arguments, t) r where l.code is null
  ), outcome as materialized (
    select l.*, case when l.code is null then coalesce(r.code, case when r.more is null then 'invalid_input' end)
      else l.code end as verdict, r.hits, r.more, r.total
    from live l left join result r on true
  ), shown as (
    insert into ledger_entries (org_id, session_id, conversation_id, from_seq, to_seq, revision, decision_id)
    select o.org_id, o.session_id, (h.source).conversation_id, (h.source).from_seq, (h.source).to_seq,
      (h.source).revision, call_tool.decision_id
    from outcome o cross join lateral unnest(o.hits) h
    where o.verdict is null
    -- In one order, so that of two calls that show the same one waits, and neither for the other.
    order by (h.source).conversation_id, (h.source).from_seq
    on conflict do nothing
  ), recorded as (
    insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, session_id, tool,
      subject_sha256, items, audience_hash, policy_revision, detail)
    select o.org_id, call_tool.decision_id, t, 'tool',
      case when o.verdict is null then 'allowed' else 'refused' end, o.verdict, o.turn_id, o.grant_id,
      o.session_id, p_tool, p_subject, coalesce(cardinality(o.hits), 0), (o.standing).audience_hash,
      (o.standing).policy_revision,
      jsonb_strip_nulls(jsonb_build_object('changes', o.changes)) || noted_standing(o.standing, o.verdict)
    from outcome o where o.org_id is not null
  )
  select o.verdict, o.grant_id, (o.standing).policy_revision, o.changes, o.more, o.total,
    (select jsonb_agg(h.item order by h.place)
     from unnest(o.hits) with ordinality as h(source, item, place))
  into code, grant_id, policy_revision, changes, more, total, items
  from outcome o;
  if code is not null then
    if code = 'unknown_grant' then
      -- It is of no organization, and so on no record.
      decision_id := null;
    end if;
    items := null;
    more := null;
    total := null;
    perform revoke_grant(current_organization(), call_tool.grant_id, code, changes, t);
  end if;
end $$;

grant create on schema earshot to earshot_scoped;
alter function earshot.call_tool(bytea, text, jsonb, bytea) owner to earshot_scoped;
revoke create on schema earshot from earshot_scoped;
revoke execute on all functions in schema earshot from public;
grant execute on all functions in schema earshot to earshot_scoped;
grant execute on function earshot.call_tool(bytea, text, jsonb, bytea), earshot.rfc3339(timestamptz)
  to earshot_runtime;
