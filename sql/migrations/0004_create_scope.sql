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
  -- Those of `ids` that are open to the organization as well.
  open_ids bigint[],
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
-- In PL/pgSQL, as every function here that reads and is not part of a FROM: its plan is kept in the
-- session, where a scalar function in SQL would be planned at every call.
create function earshot.person_reader(p_org bigint, p_user bigint) returns earshot.reader
language plpgsql stable as $$
begin
  return (select row('user', u.id, u.external_id::text, null, u.kind = 'guest')::reader
    from users u
    where u.org_id = p_org and u.id = p_user and u.status = 'active' and u.kind <> 'bot');
end $$;

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
    -- One that does not exist is asked about like any other, so that it takes as long.
    left join earshot.conversations c on c.org_id = p_org and c.id = s.id
    left join lateral (select q.admits_guests from earshot.projects q
      where c.project_id is not null and q.org_id = p_org and q.id = c.project_id and q.status = 'active' limit 1) p on true
    cross join unnest(p_readers) as r
    left join lateral (select true as member from earshot.project_members pm
      where r.kind = 'user' and c.visibility = 'project' and p.admits_guests is not null
        and pm.org_id = p_org and pm.user_id = r.key and pm.project_id = c.project_id limit 1) pm on true
    cross join lateral (select case
      when r.kind = 'user' then earshot.route_floor(null, c.visibility, c.default_floor,
        coalesce(pm.member, false), p.admits_guests, r.guest)
      else earshot.class_floor(r, c.visibility, c.project_id, c.default_floor)
    end as floor) o
    -- Nothing is lower than 1.
    left join lateral (select m.floor from earshot.memberships m
      where r.kind = 'user' and o.floor is distinct from 1
        and m.org_id = p_org and m.user_id = r.key and m.conversation_id = s.id
        and (m.expires_at is null or m.expires_at > p_now) limit 1) m on true
    cross join lateral (select least(m.floor, o.floor) as floor) f
    group by s.id, s.floor
    having count(f.floor) = cardinality(p_readers)
      and bool_and(c.id is not null and not c.deleted and not c.staged
        and (p_project_bound is null or c.project_id is not distinct from p_project_bound))
  ) kept
$$;

-- `narrow` for conversations that are read by membership alone: one probe of the index for each survivor
-- and reader.
create function earshot.narrow_by_probes(p_org bigint, p_ids bigint[], p_floors bigint[], p_users bigint[],
  p_now timestamptz) returns table (ids bigint[], floors bigint[])
language sql stable as $$
  select coalesce(array_agg(kept.id), '{}'), coalesce(array_agg(kept.floor), '{}')
  from (
    select s.id, greatest(s.floor, max(m.floor)) as floor
    from unnest(p_ids, p_floors) as s(id, floor)
    cross join unnest(p_users) as r(key)
    cross join lateral (select m.floor from earshot.memberships m
      where m.org_id = p_org and m.user_id = r.key and m.conversation_id = s.id
        and (m.expires_at is null or m.expires_at > p_now) limit 1) m
    group by s.id, s.floor
    having count(*) = cardinality(p_users)
  ) kept
$$;

-- The same for many survivors: the readers' memberships are scanned once each, against the survivors in
-- memory. `offset 0` keeps the two apart, so that they are hashed whatever an array is taken for.
create function earshot.narrow_by_scans(p_org bigint, p_ids bigint[], p_floors bigint[], p_users bigint[],
  p_now timestamptz) returns table (ids bigint[], floors bigint[])
language sql stable as $$
  select coalesce(array_agg(kept.id), '{}'), coalesce(array_agg(kept.floor), '{}')
  from (
    select s.id, greatest(s.floor, max(m.floor)) as floor
    from (select m.conversation_id, m.floor from earshot.memberships m
          where m.org_id = p_org and m.user_id = any (p_users)
            and (m.expires_at is null or m.expires_at > p_now) offset 0) m
    join (select unnest(p_ids) as id, unnest(p_floors) as floor offset 0) s on s.id = m.conversation_id
    group by s.id, s.floor
    having count(*) = cardinality(p_users)
  ) kept
$$;

-- The same for very many and one reader: nothing to sort.
create function earshot.narrow_by_scan(p_org bigint, p_ids bigint[], p_floors bigint[], p_user bigint,
  p_now timestamptz) returns table (ids bigint[], floors bigint[])
language sql stable as $$
  select coalesce(array_agg(s.id), '{}'), coalesce(array_agg(greatest(s.floor, m.floor)), '{}')
  from (select m.conversation_id, m.floor from earshot.memberships m
        where m.org_id = p_org and m.user_id = p_user
          and (m.expires_at is null or m.expires_at > p_now) offset 0) m
  join (select unnest(p_ids) as id, unnest(p_floors) as floor offset 0) s on s.id = m.conversation_id
$$;

-- Question: does this person read this conversation now, from whatever floor? Where the readers can be
-- listed, this is the same as being in the audience: listed, or covered by the class.
create function earshot.reads(p_org bigint, p_user bigint, p_conversation bigint, p_now timestamptz)
returns boolean
language plpgsql stable as $$
declare
  person constant earshot.reader := person_reader(p_org, p_user);
begin
  return (select cardinality(n.ids) > 0
    from narrow(p_org, array[p_conversation], array[1::bigint], array[person], null, p_now) n);
end $$;

-- The conversations that come into question for one reader: never fewer than that reader reads, apart
-- from what `open` stands for. `ids` are those that are read by membership alone, at that reader's floors;
-- `others` those that somebody may read by another route. Null where there are more than `p_most`.
create function earshot.candidates(p_org bigint, p_reader earshot.reader, p_open boolean, p_most integer,
  p_now timestamptz, out ids bigint[], out floors bigint[], out others bigint[])
language plpgsql stable as $$
declare
  other_floors bigint[];
begin
  case p_reader.kind
    when 'user' then
      select array_agg(m.conversation_id) filter (where not m.other_routes),
        array_agg(m.floor) filter (where not m.other_routes),
        array_agg(m.conversation_id) filter (where m.other_routes),
        array_agg(m.floor) filter (where m.other_routes)
      into ids, floors, others, other_floors
      from (select m.conversation_id, m.floor::bigint as floor, m.other_routes from memberships m
            where m.org_id = p_org and m.user_id = p_reader.key and (m.expires_at is null or m.expires_at > p_now)
            limit p_most + 1) m;
      if coalesce(cardinality(ids), 0) + coalesce(cardinality(others), 0) > p_most then
        ids := null;
        return;
      end if;
      others := array(
        select c.id from unnest(others, other_floors) as o(id, floor)
        join conversations c on c.org_id = p_org and c.id = o.id
        -- At the default floor, `open` stands for it.
        where not (p_open and c.visibility = 'organization' and o.floor >= c.default_floor)
        union
        select c.id from project_members pm
        join conversations c on c.org_id = p_org and c.project_id = pm.project_id and c.visibility = 'project'
        where pm.org_id = p_org and pm.user_id = p_reader.key);
    when 'class:project' then
      others := array(
        select c.id from conversations c
        where c.org_id = p_org and c.project_id = p_reader.key and c.visibility = 'project');
    else others := '{}';
  end case;
  ids := coalesce(ids, '{}');
  floors := coalesce(floors, '{}');
end $$;

-- Question: what does every one of these readers read?
-- Adaptive narrowing: starts from a reader who has few conversations, and narrows by the others in
-- batches that grow as the survivors shrink, so the cost goes with survivors times readers and stops when
-- nothing is left. Few survivors are probed for each reader; many are found by one scan of a reader's
-- memberships, unless that reader has many more.
create function earshot.intersection(p_org bigint, p_readers earshot.reader[], p_project_bound bigint,
  p_destination bigint, p_now timestamptz) returns earshot.scope
language plpgsql stable as $$
declare
  -- Probes in the first statement, which costs about as much as 30 of them by itself.
  probes integer := 128;
  -- So few are probed for any reader.
  survivors_to_probe constant integer := 12;
  -- A membership is scanned in about a sixth of the time of a probe. So many survivors are worth a scan of
  -- any reader.
  scanned_per_probe constant integer := 6;
  many constant integer := 2048;
  -- A reader who has no more than that is a good one to start from.
  few constant integer := 512;
  everything constant integer := 1000000000;
  result earshot.scope;
  somebody_unknown boolean;
  somebody_else boolean;
  first integer;
  users bigint[];
  found record;
  others bigint[];
  other_floors bigint[];
  ordered earshot.reader[];
  chosen bigint[];
  batch integer := 3;
begin
  select count(*) = 0 or bool_or(r.kind is null), not bool_or(r.guest), bool_or(r.kind <> 'user'),
    -- A recipient may be in the audience already.
    array_agg(distinct r.key) filter (where r.kind = 'user')
  into somebody_unknown, result.open, somebody_else, users
  from unnest(p_readers) r;
  result.ids := '{}';
  result.floors := '{}';
  result.open_ids := '{}';
  result.project_bound := p_project_bound;
  result.destination_id := p_destination;
  -- INVARIANT 10: nobody, or somebody unknown, reads nothing.
  if somebody_unknown then
    result.open := false;
    return result;
  end if;

  -- The order decides the cost, never the answer, but for a guest, who reads nothing that `open` would
  -- have to stand for, and so comes before everybody; then a class.
  if somebody_else or not result.open then
    select x.place into first from unnest(p_readers) with ordinality as x(kind, key, external_id, floor, guest, place)
    where x.guest or x.kind <> 'user'
    order by x.guest desc, x.kind = 'class:organization' desc limit 1;
    found := candidates(p_org, p_readers[first], result.open, everything, p_now);
    if somebody_else then
      -- A class reads nothing by membership.
      found.ids := '{}';
      found.floors := '{}';
    end if;
  else
    for i in 1 .. cardinality(p_readers) loop
      found := candidates(p_org, p_readers[i], result.open, few, p_now);
      first := i;
      exit when found.ids is not null;
    end loop;
    if found.ids is null then
      first := (select r.place
        from unnest(p_readers) with ordinality as r(kind, key, external_id, floor, guest, place)
        cross join lateral (select count(*) as reach from (
          select from memberships m where m.org_id = p_org and m.user_id = r.key limit few * 4) m) c
        order by c.reach, r.place limit 1);
      found := candidates(p_org, p_readers[first], result.open, everything, p_now);
    end if;
  end if;
  result.ids := found.ids;
  result.floors := found.floors;
  others := found.others;

  users := array_remove(users, (p_readers[first]).key);
  while cardinality(users) > 0 and cardinality(result.ids) > 0 loop
    if cardinality(result.ids) >= many then
      select n.ids, n.floors into result.ids, result.floors
      from narrow_by_scan(p_org, result.ids, result.floors, users[1], p_now) n;
      users := users[2:];
      continue;
    end if;
    -- Of the next few, those whose memberships are worth a scan.
    chosen := case
      when cardinality(result.ids) <= survivors_to_probe then '{}'
      else array(select r.key from unnest(users[1:batch]) as r(key)
        where not exists (select from memberships m where m.org_id = p_org and m.user_id = r.key
                          offset cardinality(result.ids) * scanned_per_probe)) end;
    if cardinality(chosen) > 0 then
      select n.ids, n.floors into result.ids, result.floors
      from narrow_by_scans(p_org, result.ids, result.floors, chosen, p_now) n;
      users := array(select u from unnest(users[1:batch]) u where u <> all (chosen)) || users[batch + 1:];
    else
      batch := greatest(1, probes / cardinality(result.ids));
      select n.ids, n.floors into result.ids, result.floors
      from narrow_by_probes(p_org, result.ids, result.floors, users[1:batch], p_now) n;
      users := users[batch + 1:];
      probes := least(probes * 4, 4096);
    end if;
    batch := least(batch * 4, 1024);
  end loop;
  if cardinality(result.ids) > 0 then
    select coalesce(array_agg(s.id), '{}'), coalesce(array_agg(s.floor), '{}') into result.ids, result.floors
    from (select unnest(result.ids) as id, unnest(result.floors) as floor offset 0) s
    where not exists (select from conversations c
        where c.org_id = p_org and c.id = s.id and (c.deleted or c.staged))
      and (p_project_bound is null or exists (select from conversations c
        where c.org_id = p_org and c.id = s.id and c.project_id = p_project_bound));
  end if;

  if cardinality(others) > 0 then
    other_floors := array_fill(1::bigint, array[cardinality(others)]);
    -- The one they are candidates of has something to say about their floors alone.
    ordered := p_readers[:first - 1] || p_readers[first + 1:] || p_readers[first];
    batch := greatest(2, 64 / cardinality(others));
    while cardinality(ordered) > 0 and cardinality(others) > 0 loop
      select n.ids, n.floors into others, other_floors
      from narrow(p_org, others, other_floors, ordered[1:batch], p_project_bound, p_now) n;
      ordered := ordered[batch + 1:];
      batch := least(batch * 4, 1024);
    end loop;
  end if;
  if cardinality(others) > 0 then
    result.open_ids := array(select c.id from unnest(others) o(id)
      join conversations c on c.org_id = p_org and c.id = o.id where c.visibility = 'organization');
    result.ids := result.ids || others;
    result.floors := result.floors || other_floors;
  end if;
  return result;
end $$;

-- Question: what may enter a turn's context?
-- The extent is the mode's: the destination alone, what the requester reads, or what every reader
-- reads. The destination itself is in it at the audience's highest floor. A recipient is one more
-- reader; one who is unknown or inactive reads nothing.
--
-- `p_within` names the conversations that the question is about, the destination aside: no others are asked
-- for, which costs a probe for each of them and reader whatever the readers read, and nothing is `open`.
create function earshot.turn_scope(p_org bigint, p_destination bigint, p_readers earshot.reader[],
  p_floor bigint, p_extent text, p_requester bigint, p_project_bound bigint, p_recipient text,
  p_now timestamptz, p_within bigint[] default null) returns earshot.scope
language plpgsql stable as $$
declare
  nothing constant earshot.scope := row('{}'::bigint[], '{}'::bigint[], false, '{}'::bigint[], p_project_bound, p_destination);
  result earshot.scope := nothing;
  also earshot.reader[] := '{}';
  together earshot.reader[];
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
    when 'requester' then together := array[person_reader(p_org, p_requester)] || also;
    when 'audience' then together := p_readers || also;
  end case;
  if together is not null and p_within is null then
    result := intersection(p_org, together, p_project_bound, p_destination, p_now);
  elsif together is not null then
    select n.ids, n.floors into result.ids, result.floors
    from narrow(p_org, array_remove(p_within, p_destination),
      array_fill(1::bigint, array[cardinality(array_remove(p_within, p_destination))]), together, p_project_bound, p_now) n;
  end if;
  -- The destination's own conditions hold already; a recipient still has to read it.
  if not p_destination = any (result.ids) then
    if cardinality(also) = 0 then
      result.ids := result.ids || p_destination;
      result.floors := result.floors || p_floor;
    else
      select result.ids || n.ids, result.floors || n.floors into result.ids, result.floors
      from narrow(p_org, array[p_destination], array[p_floor], also, null, p_now) n;
    end if;
    result.open_ids := result.open_ids || array(select c.id from conversations c
      where c.org_id = p_org and c.id = p_destination and c.visibility = 'organization');
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
    and c.id <> all ((p_scope).open_ids)
$$;

-- Whether a message may be read outside of its own conversation. An assistant's text that no delivery
-- accounts for may hold anything, and one that was edited is no longer the text of its delivery, unless it
-- is a delivery that edited it.
create function earshot.may_leave(p_message earshot.messages) returns boolean
language sql immutable as $$
  select case
    when (p_message).delivery_id is not null then (p_message).state <> 'edited'
      or (p_message).revision is not distinct from (p_message).delivered_revision
    else (p_message).author_persona_id is null
  end
$$;

-- Whether everything a derived text was made from is readable in this scope (INVARIANT 13). One without sources
-- is readable by nobody. What the sources themselves came out of is beside them.
create function earshot.lineage_readable(p_org bigint, p_derived uuid, p_scope earshot.scope)
returns boolean
language plpgsql stable as $$
begin
  return exists (select from lineage d where d.org_id = p_org and d.derived_id = p_derived)
    and not exists (
      select from lineage d
      where d.org_id = p_org and d.derived_id = p_derived
        and not exists (
          select from in_scope(p_org, p_scope) s
          where s.conversation_id = d.conversation_id
            and case when d.from_seq < 0 then exists (
                select from artifacts a
                where a.org_id = p_org and a.conversation_id = d.conversation_id and a.seq = d.from_seq
                  and a.state = 'live')
              else d.from_seq >= s.floor and (d.to_seq is null or exists (
                select from messages m
                where m.org_id = p_org and m.conversation_id = d.conversation_id and m.seq = d.from_seq
                  and m.state <> 'deleted'
                  and (may_leave(m) or m.conversation_id = (p_scope).destination_id))) end));
end $$;

-- The messages of a conversation in scope, from its floor up: all that is to be seen but for the lineage
-- of those that came out of a delivery. Index: the primary key of messages.
create function earshot.conversation_messages(p_org bigint, p_conversation bigint, p_floor bigint,
  p_destination bigint) returns setof earshot.messages
language sql stable as $$
  select m.* from earshot.messages m
  where m.org_id = p_org and m.conversation_id = p_conversation and m.seq >= p_floor
    and m.state <> 'deleted'
    and (earshot.may_leave(m) or m.conversation_id = p_destination)
$$;

-- The artifacts of a conversation as messages below zero: all that is to be seen but for the lineage, which each has.
-- Index: the primary key of artifacts.
create function earshot.conversation_artifacts(p_org bigint, p_conversation bigint) returns setof earshot.messages
language sql stable as $$
  select a.org_id, a.conversation_id, a.seq, a.id::text::earshot.external_id, 'artifact', null::bigint, a.persona_id, a.body,
    1::bigint, 'live', null::earshot.external_id, a.created_at, null::timestamptz, a.id, null::bigint, a.terms
  from earshot.artifacts a
  where a.org_id = p_org and a.conversation_id = p_conversation and a.seq < 0 and a.state = 'live'
$$;

-- Question: which messages and artifacts of one conversation in scope may be seen? Its floor comes from the scope and is a
-- bound of the index: what is below it is not walked over, in either direction. What is derived asks for its lineage too,
-- and an artifact for nothing else.
create function earshot.visible_in(p_org bigint, p_scope earshot.scope, p_conversation bigint, p_floor bigint)
returns setof earshot.messages
language sql stable as $$
  select m.* from earshot.conversation_messages(p_org, p_conversation, p_floor, (p_scope).destination_id) m
  where m.delivery_id is null or earshot.lineage_readable(p_org, m.delivery_id, p_scope)
  union all
  select a.* from earshot.conversation_artifacts(p_org, p_conversation) a
  where earshot.lineage_readable(p_org, a.delivery_id, p_scope)
$$;

-- Question: which messages and artifacts may be seen in this scope? The one predicate that every path composes.
create function earshot.visible_messages(p_org bigint, p_scope earshot.scope)
returns setof earshot.messages
language sql stable as $$
  select m.* from earshot.in_scope(p_org, p_scope) s
  cross join lateral earshot.visible_in(p_org, p_scope, s.conversation_id, s.floor) m
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
language plpgsql stable as $$
begin
  return (
    select sha256(earshot.encode_part('earshot/audience/1') || earshot.encode_part(p_organization)
      || earshot.encode_part(p_destination)
      || string_agg(earshot.encode_part(r.kind) || earshot.encode_part(r.external_id) || earshot.encode_part(r.floor),
           ''::bytea order by r.kind collate "C", r.external_id collate "C"))
    from (select r.kind, r.external_id, min(r.floor) as floor,
            min(r.floor) = max(r.floor) and r.kind is not null and r.external_id is not null as one
          from unnest(p_readers) r group by r.kind, r.external_id) r
    having count(*) > 0 and bool_and(coalesce(r.one, false)));
end $$;

-- A UUID version 8 (RFC 9562) from a digest.
create function earshot.uuid_of(p_digest bytea) returns uuid
language sql immutable strict parallel safe as $$
  select encode(set_byte(set_byte(substr(p_digest, 1, 16), 6, (get_byte(p_digest, 6) & 15) | 128),
                         8, (get_byte(p_digest, 8) & 63) | 128), 'hex')::uuid
$$;

-- The session id of policy/session-id.ts for a turn with a grant; null, which names no session, without a fingerprint.
create function earshot.session_id(p_organization text, p_thread_key text, p_salt text, p_epoch bigint,
  p_persona text, p_audience_hash bytea, p_mode text, p_project_bound text, p_policy_revision bigint)
returns uuid
language sql stable as $$
  select earshot.uuid_of(sha256(
    earshot.encode_part('earshot/session/1') || earshot.encode_part(p_organization)
    || earshot.encode_part(p_thread_key) || earshot.encode_part(p_salt) || earshot.encode_part(p_epoch)
    || earshot.encode_part('grant') || earshot.encode_part(p_persona)
    || earshot.encode_part(encode(p_audience_hash, 'hex')) || earshot.encode_part(p_mode)
    || earshot.encode_part((p_project_bound is not null)::integer::bigint)
    || earshot.encode_part(coalesce(p_project_bound, '')) || earshot.encode_part(p_policy_revision)))
$$;

-- The session id of an older client that acts with a person's own credential and carries no grant.
create function earshot.legacy_session_id(p_organization text, p_thread_key text, p_salt text, p_epoch bigint)
returns uuid
language sql stable as $$
  select earshot.uuid_of(sha256(
    earshot.encode_part('earshot/session/1') || earshot.encode_part(p_organization)
    || earshot.encode_part(p_thread_key) || earshot.encode_part(p_salt) || earshot.encode_part(p_epoch)
    || earshot.encode_part('legacy')))
$$;

revoke execute on all functions in schema earshot from public;
grant execute on all functions in schema earshot to earshot_scoped;
