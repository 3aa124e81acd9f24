-- Who is the audience, what is in scope, which messages may be seen: each has one place, here. Every
-- path that returns content composes `visible_messages`, whose scope and floor are predicates of the
-- statement that ranks, counts and limits (INVARIANT 4).
--
-- Whether the organization is active is asked by whoever opens a door (`judge_turn`), not here.
--
-- These functions are no doors: nobody but `earshot_scoped` executes them, and they run under the
-- row security of whoever calls. The plain rules of policy/ say the same; generated worlds hold the
-- two together.

create type earshot.reader as (
  kind text,          -- 'user', 'class:organization', 'class:project'
  key bigint,         -- users.id, null, projects.id
  external_id text,   -- '' for the organization
  floor bigint,       -- at the destination
  guest boolean       -- a guest, or a class that guests may be in: reads nothing by organization
);

-- Conversations with their effective floors. The organization-visible ones that every reader reads
-- at their default floor are not listed; `open` stands for them.
create type earshot.scope as (
  ids bigint[],
  floors bigint[],
  open boolean,
  project_bound bigint,
  destination_id bigint
);

-- The floor at which a person reads a conversation: the lowest of the routes that exist, null when
-- there is none. INVARIANT 3: `least` skips a missing route, it never makes it a low number.
-- `p_in_project` is false for an inactive project.
create function earshot.route_floor(p_membership bigint, p_visibility text, p_default_floor bigint,
  p_in_project boolean, p_admits_guests boolean, p_guest boolean) returns bigint
language sql immutable parallel safe as $$
  select least(
    p_membership,
    case
      when p_visibility = 'project' and p_in_project and (not p_guest or p_admits_guests) then p_default_floor
      when p_visibility = 'organization' and not p_guest then p_default_floor
    end)
$$;

-- The floor at which everyone in a class reads a conversation by virtue of the class alone.
create function earshot.class_floor(p_reader earshot.reader, p_visibility text, p_project bigint,
  p_default_floor bigint) returns bigint
language sql immutable parallel safe as $$
  select case
    when p_visibility = 'organization' and not (p_reader).guest then p_default_floor
    when p_visibility = 'project' and (p_reader).kind = 'class:project' and p_project = (p_reader).key
      then p_default_floor
  end
$$;

-- Question: who reads this destination now?
-- The open class, and each person whom it does not cover (one who reads it without a membership is
-- covered). No rows where the readers cannot all be listed. Index: memberships_by_conversation.
create function earshot.audience(p_org bigint, p_destination bigint, p_now timestamptz)
returns setof earshot.reader
language sql stable as $$
  with destination as materialized (
    select c.id, c.visibility, c.project_id, c.default_floor, p.external_id as project_name,
      p.id is not null as project_active, coalesce(p.admits_guests, false) as admits_guests
    from earshot.conversations c
    left join earshot.projects p on p.org_id = c.org_id and p.id = c.project_id and p.status = 'active'
    where c.org_id = p_org and c.id = p_destination
      and not c.deleted and not c.staged and not c.external_readers
      and not exists (select from earshot.unresolved_members n
                      where n.org_id = p_org and n.conversation_id = p_destination)
  )
  select 'class:organization', null::bigint, '', d.default_floor::bigint, false
  from destination d where d.visibility = 'organization'
  union all
  select 'class:project', d.project_id, d.project_name::text, d.default_floor::bigint, d.admits_guests
  from destination d where d.visibility = 'project' and d.project_active
  union all
  select 'user', u.id, u.external_id::text, m.floor::bigint, u.kind = 'guest'
  from destination d
  join earshot.memberships m on m.org_id = p_org and m.conversation_id = d.id
  join earshot.users u on u.org_id = p_org and u.id = m.user_id
  where u.status = 'active' and u.kind <> 'bot' and (m.expires_at is null or m.expires_at > p_now)
    and earshot.route_floor(null, d.visibility, d.default_floor,
      d.project_active and exists (select from earshot.project_members pm
        where pm.org_id = p_org and pm.user_id = u.id and pm.project_id = d.project_id),
      d.admits_guests, u.kind = 'guest') is null
$$;

-- A person as a reader, for a scope that is one person's. No row for one who reads nothing.
create function earshot.person_reader(p_org bigint, p_user bigint) returns earshot.reader
language sql stable as $$
  select row('user', u.id, u.external_id::text, null, u.kind = 'guest')::earshot.reader
  from earshot.users u
  where u.org_id = p_org and u.id = p_user and u.status = 'active' and u.kind <> 'bot'
$$;

-- Question: of these conversations, which does every one of these readers read, from which floor?
-- This is the one place where scope and floor are expressed. Candidates in, survivors out, each at
-- the highest of the readers' floors (INVARIANTS 2 and 3); a reader without a route drops it.
--
-- `limit 1` in the laterals: a candidate set is taken for 100 rows whatever it holds, and without it
-- a skewed membership table is merged or hashed whole to find three rows.
create function earshot.narrow(p_org bigint, p_ids bigint[], p_floors bigint[], p_readers earshot.reader[],
  p_project_bound bigint, p_now timestamptz) returns table (ids bigint[], floors bigint[])
language sql stable as $$
  select coalesce(array_agg(kept.id), '{}'), coalesce(array_agg(kept.floor), '{}')
  from (
    select s.id, greatest(s.floor, max(f.floor)) as floor
    from unnest(p_ids, p_floors) as s(id, floor)
    join earshot.conversations c on c.org_id = p_org and c.id = s.id
    left join lateral (select q.admits_guests from earshot.projects q
      where q.org_id = p_org and q.id = c.project_id and q.status = 'active' limit 1) p on true
    cross join unnest(p_readers) as r
    left join lateral (select m.floor from earshot.memberships m
      where r.kind = 'user' and m.org_id = p_org and m.user_id = r.key and m.conversation_id = s.id
        and (m.expires_at is null or m.expires_at > p_now) limit 1) m on true
    left join lateral (select true as member from earshot.project_members pm
      where r.kind = 'user' and c.visibility = 'project' and p.admits_guests is not null
        and pm.org_id = p_org and pm.user_id = r.key and pm.project_id = c.project_id limit 1) pm on true
    cross join lateral (select case
      when r.kind = 'user' then earshot.route_floor(m.floor, c.visibility, c.default_floor,
        coalesce(pm.member, false), p.admits_guests, r.guest)
      else earshot.class_floor(r, c.visibility, c.project_id, c.default_floor)
    end as floor) f
    where not c.deleted and not c.staged
      and (p_project_bound is null or c.project_id = p_project_bound)
    group by s.id, s.floor
    having count(f.floor) = cardinality(p_readers)
  ) kept
$$;

-- Question: does this person read this conversation now, from whatever floor? Where the readers can be
-- listed, this is the same as being in the audience: listed, or covered by the class.
create function earshot.reads(p_org bigint, p_user bigint, p_conversation bigint, p_now timestamptz)
returns boolean
language sql stable as $$
  select cardinality(n.ids) > 0
  from earshot.narrow(p_org, array[p_conversation], array[1::bigint],
    array[earshot.person_reader(p_org, p_user)], null, p_now) n
$$;

-- The conversations that come into question for one reader: never fewer than that reader reads,
-- apart from what `open` stands for.
create function earshot.candidates(p_org bigint, p_reader earshot.reader) returns bigint[]
language sql stable as $$
  select coalesce(array_agg(found.id), '{}') from (
    select m.conversation_id as id from earshot.memberships m
    where (p_reader).kind = 'user' and m.org_id = p_org and m.user_id = (p_reader).key
    union
    select c.id from earshot.project_members pm
    join earshot.conversations c on c.org_id = p_org and c.project_id = pm.project_id and c.visibility = 'project'
    where (p_reader).kind = 'user' and pm.org_id = p_org and pm.user_id = (p_reader).key
    union
    select c.id from earshot.conversations c
    where (p_reader).kind = 'class:project' and c.org_id = p_org and c.project_id = (p_reader).key
      and c.visibility = 'project'
  ) found
$$;

-- Question: what does every one of these readers read?
-- Starts from the reader who can have the fewest, and narrows by the others in batches that grow as
-- the survivors shrink, so the cost goes with survivors times readers and stops when nothing is
-- left. Where a guest is among the readers, the start is one: a guest's candidates are complete,
-- and nobody's are larger than that intersection needs.
create function earshot.intersection(p_org bigint, p_readers earshot.reader[], p_project_bound bigint,
  p_destination bigint, p_now timestamptz) returns earshot.scope
language plpgsql stable as $$
declare
  probes constant integer := 512;
  result earshot.scope;
  ordered earshot.reader[];
  batch integer;
begin
  -- INVARIANT 10: nobody, or somebody unknown, reads nothing.
  if coalesce(cardinality(p_readers), 0) = 0 or exists (select from unnest(p_readers) r where r.kind is null) then
    return row('{}'::bigint[], '{}'::bigint[], false, p_project_bound, p_destination)::scope;
  end if;
  result.project_bound := p_project_bound;
  result.destination_id := p_destination;
  result.open := not exists (select from unnest(p_readers) r where r.guest);
  ordered := array(
    select r from unnest(p_readers) r
    cross join lateral (
      select count(*) as reach from (
        select from memberships m where m.org_id = p_org and m.user_id = r.key and r.kind = 'user' limit 100
      ) some_rows) reach
    order by r.guest desc, r.kind = 'class:organization' desc, reach.reach);
  result.ids := candidates(p_org, ordered[1]);
  result.floors := array_fill(1::bigint, array[cardinality(result.ids)]);
  while cardinality(ordered) > 0 and cardinality(result.ids) > 0 loop
    batch := greatest(1, least(cardinality(ordered), probes / cardinality(result.ids)));
    select n.ids, n.floors into result.ids, result.floors
    from narrow(p_org, result.ids, result.floors, ordered[1:batch], p_project_bound, p_now) n;
    ordered := ordered[batch + 1:];
  end loop;
  return result;
end $$;

-- Question: what may enter a turn's context?
-- The extent is the mode's: the destination alone, what the requester reads, or what every reader
-- reads. The destination itself is in it at the audience's highest floor. A recipient is one more
-- reader; one who is unknown or inactive reads nothing.
create function earshot.turn_scope(p_org bigint, p_destination bigint, p_readers earshot.reader[],
  p_floor bigint, p_extent text, p_requester bigint, p_project_bound bigint, p_recipient text,
  p_now timestamptz) returns earshot.scope
language plpgsql stable as $$
declare
  nothing constant earshot.scope := row('{}'::bigint[], '{}'::bigint[], false, p_project_bound, p_destination);
  result earshot.scope := nothing;
  also earshot.reader[] := '{}';
begin
  if p_recipient is not null then
    also := array(select person_reader(p_org, u.id) from users u
                  where u.org_id = p_org and u.external_id = p_recipient);
    if coalesce((also[1]).key, 0) = 0 then
      return nothing;
    end if;
  end if;
  case p_extent
    when 'destination' then null;
    when 'requester' then
      result := intersection(p_org, array[person_reader(p_org, p_requester)] || also, p_project_bound,
        p_destination, p_now);
    when 'audience' then
      result := intersection(p_org, p_readers || also, p_project_bound, p_destination, p_now);
  end case;
  -- The destination's own conditions hold already; a recipient still has to read it.
  if not p_destination = any (result.ids) then
    if cardinality(also) = 0 then
      result.ids := result.ids || p_destination;
      result.floors := result.floors || p_floor;
    else
      select result.ids || n.ids, result.floors || n.floors into result.ids, result.floors
      from narrow(p_org, array[p_destination], array[p_floor], also, null, p_now) n;
    end if;
  end if;
  return result;
end $$;

-- The scope as rows. The part that `open` stands for is an index scan of the conversations open to
-- the organization, each at its default floor; one that everybody also reads as a member from
-- further back is in the list already.
create function earshot.in_scope(p_org bigint, p_scope earshot.scope)
returns table (conversation_id bigint, floor bigint)
language sql stable as $$
  select s.id, s.floor from unnest((p_scope).ids, (p_scope).floors) as s(id, floor)
  union all
  select c.id, c.default_floor::bigint from earshot.conversations c
  where (p_scope).open and c.org_id = p_org and c.visibility = 'organization'
    and not c.deleted and not c.staged
    and ((p_scope).project_bound is null or c.project_id = (p_scope).project_bound)
    and c.id <> all ((p_scope).ids)
$$;

-- Whether a message may be read outside of its own conversation. An assistant's text that no delivery
-- accounts for may hold anything, and one that was edited is no longer the text of its delivery.
create function earshot.may_leave(p_message earshot.messages) returns boolean
language sql immutable as $$
  select case
    when (p_message).delivery_id is not null then (p_message).state <> 'edited'
    else (p_message).author_persona_id is null
  end
$$;

-- Whether everything a delivery was made from is readable in this scope (INVARIANT 13). A delivery
-- without sources is readable by nobody. What the sources themselves came out of is beside them.
create function earshot.lineage_readable(p_org bigint, p_delivery uuid, p_scope earshot.scope)
returns boolean
language sql stable as $$
  select exists (select from earshot.delivery_sources d where d.org_id = p_org and d.delivery_id = p_delivery)
    and not exists (
      select from earshot.delivery_sources d
      where d.org_id = p_org and d.delivery_id = p_delivery
        and not exists (
          select from earshot.in_scope(p_org, p_scope) s
          where s.conversation_id = d.conversation_id and d.from_seq >= s.floor
            and (d.to_seq is null or exists (
              select from earshot.messages m
              where m.org_id = p_org and m.conversation_id = d.conversation_id and m.seq = d.from_seq
                and m.state <> 'deleted'
                and (earshot.may_leave(m) or m.conversation_id = (p_scope).destination_id)))))
$$;

-- Question: which messages may be seen in this scope?
-- The one predicate that every path composes. Index: the primary key of messages, driven from the
-- scope, from the floor up. A message that came out of a delivery asks for its lineage too.
create function earshot.visible_messages(p_org bigint, p_scope earshot.scope)
returns setof earshot.messages
language sql stable as $$
  select m.* from earshot.in_scope(p_org, p_scope) s
  join earshot.messages m on m.org_id = p_org and m.conversation_id = s.conversation_id and m.seq >= s.floor
  where m.state <> 'deleted'
    and (earshot.may_leave(m) or m.conversation_id = (p_scope).destination_id)
    and (m.delivery_id is null or earshot.lineage_readable(p_org, m.delivery_id, p_scope))
$$;

-- The canonical encoding of policy/canonical.ts: each part behind its length in bytes.
create function earshot.encode_part(p_text text) returns bytea
language sql stable strict parallel safe as $$
  select int4send(octet_length(p_text)) || convert_to(p_text, 'UTF8')
$$;

create function earshot.encode_part(p_integer bigint) returns bytea
language sql immutable strict parallel safe as $$
  select int4send(8) || int8send(p_integer)
$$;

-- The fingerprint of an audience; null, which equals nothing, for an empty one (INVARIANT 10) and for
-- one reader with two floors, which no audience has.
create function earshot.fingerprint(p_organization text, p_destination text, p_readers earshot.reader[])
returns bytea
language sql stable as $$
  select sha256(earshot.encode_part('earshot/audience/1') || earshot.encode_part(p_organization)
    || earshot.encode_part(p_destination)
    || string_agg(earshot.encode_part(r.kind) || earshot.encode_part(r.external_id) || earshot.encode_part(r.floor),
         ''::bytea order by r.kind collate "C", r.external_id collate "C"))
  from (select distinct kind, external_id, floor from unnest(p_readers)) r
  having count(*) > 0 and count(*) = count(r.kind || r.external_id || r.floor::text)
    and count(*) = count(distinct row(r.kind, r.external_id))
$$;

-- The session id of policy/session-id.ts: a UUID version 8.
create function earshot.session_id(p_organization text, p_thread_key text, p_salt text, p_epoch bigint,
  p_persona text, p_audience_hash bytea, p_mode text, p_project_bound text, p_policy_revision bigint)
returns uuid
language sql stable as $$
  select encode(set_byte(set_byte(d.bytes, 6, (get_byte(d.bytes, 6) & 15) | 128),
                         8, (get_byte(d.bytes, 8) & 63) | 128), 'hex')::uuid
  from (select substr(sha256(
      earshot.encode_part('earshot/session/1') || earshot.encode_part(p_organization)
      || earshot.encode_part(p_thread_key) || earshot.encode_part(p_salt) || earshot.encode_part(p_epoch)
      || earshot.encode_part('grant') || earshot.encode_part(p_persona)
      || earshot.encode_part(encode(p_audience_hash, 'hex')) || earshot.encode_part(p_mode)
      || earshot.encode_part((p_project_bound is not null)::integer::bigint)
      || earshot.encode_part(coalesce(p_project_bound, '')) || earshot.encode_part(p_policy_revision)),
    1, 16) as bytes) d
$$;

revoke execute on all functions in schema earshot from public;
grant execute on all functions in schema earshot to earshot_scoped;
