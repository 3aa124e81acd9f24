-- Who asks: audiences of several kinds and sizes, four of each, each with a thread of its own that
-- nobody else reads, named `KIND` `SIZE` `-` `1 to 4`, as `squad5-1`.
--
-- uni: anybody. squad: people of one team. team: people of one hall. pow: power users. guest: people of
-- one team, a guest among them. project: people of one project, in a thread that is bound to it.
-- open: a thread open to the organization. openproject: one open to a project. mention: the readers of
-- another audience, in a conversation that is no AI thread.

create table bench.audiences (
  name text primary key,
  kind text not null,
  size integer not null,
  instance integer not null,
  readers bigint[] not null,
  destination bigint generated always as identity unique
);

insert into bench.audiences (name, kind, size, instance, readers)
select kind || size || '-' || instance, kind, size, instance, readers
from (
  select 'uni' as kind, size, instance, array(
    select u.id from earshot.users u
    where u.kind = 'member' and u.status = 'active'
    order by bench.roll(u.id, 100 + instance) limit size) as readers
  from unnest(array[2, 5, 20, 100, 200, 1000]) size, generate_series(1, 4) instance
  where size <= {users} / 2
  union all
  select 'squad', size, instance, array(
    select u.id from bench.people p join earshot.users u on u.org_id = 1 and u.id = p.id
    where p.team = 2 * floor(bench.roll(instance, 50) * ({teams} / 2)) and u.status = 'active' and u.kind = 'member'
    order by u.id limit size)
  from unnest(array[2, 5, 10, 20]) size, generate_series(1, 4) instance
  union all
  select 'team', h.size, h.instance, array(
    select m.user_id from earshot.memberships m join earshot.users u on u.org_id = 1 and u.id = m.user_id
    where m.org_id = 1 and m.conversation_id = h.id and u.status = 'active' and u.kind = 'member'
    order by m.user_id)
  from (select id, size, row_number() over (partition by size order by id) as instance from bench.halls) h
  where h.instance <= 4
  union all
  select 'pow', size, instance, array(
    select p.id from bench.people p where p.part = 'power' order by bench.roll(p.id, 200 + instance) limit size)
  from unnest(array[2, 5, 20]) size, generate_series(1, 4) instance
  where size <= {power}
  union all
  select 'guest', size, instance, array(
    select u.id from bench.people p join earshot.users u on u.org_id = 1 and u.id = p.id
    where p.team = 2 * floor(bench.roll(instance, 51) * ({teams} / 2)) + 1 and u.status = 'active'
    order by u.kind = 'member', u.id limit size)
  from unnest(array[5, 20]) size, generate_series(1, 4) instance
  union all
  select 'project', size, instance, array(
    select u.id from earshot.project_members pm join earshot.users u on u.org_id = 1 and u.id = pm.user_id
    where pm.org_id = 1 and pm.project_id = instance and u.status = 'active' and u.kind = 'member'
    order by u.id limit size)
  from unnest(array[5, 20]) size, generate_series(1, 4) instance
  union all
  select 'open', 1, instance, array[instance::bigint] from generate_series(1, 4) instance
  union all
  select 'openproject', 1, instance, array(
    select min(pm.user_id) from earshot.project_members pm join earshot.users u on u.org_id = 1 and u.id = pm.user_id
    where pm.org_id = 1 and pm.project_id = instance and u.status = 'active' and u.kind = 'member')
  from generate_series(1, 4) instance
) drawn
order by kind, size, instance;
insert into bench.audiences (name, kind, size, instance, readers)
select 'mention-' || name, 'mention-' || kind, size, instance, readers from bench.audiences
where (kind, size) in (('squad', 20), ('team', 100), ('team', 1000), ('pow', 20))
order by name;

insert into earshot.conversations (org_id, id, external_id, kind, visibility, project_id, owner_id, ai_thread,
  ever_shared, external_readers, head, title) overriding system value
select 1, {conversations} + destination, name, case kind when 'open' then 'channel' else 'group' end,
  case kind when 'open' then 'organization' when 'openproject' then 'project' else 'members' end,
  case when kind in ('project', 'openproject') then instance end,
  readers[1], kind not like 'mention-%', true, false, 3, name
from bench.audiences;
insert into earshot.conversation_revisions (org_id, conversation_id)
select 1, {conversations} + destination from bench.audiences;

insert into earshot.memberships (org_id, user_id, conversation_id, floor, expires_at, other_routes)
select 1, r.id, {conversations} + a.destination, 1 + r.place % 2,
  (select timestamptz '2100-01-01' from earshot.users u where u.org_id = 1 and u.id = r.id and u.kind = 'guest'),
  c.visibility <> 'members'
from bench.audiences a
join earshot.conversations c on c.org_id = 1 and c.id = {conversations} + a.destination
cross join lateral unnest(a.readers) with ordinality r(id, place);

-- The last message is what the turn answers.
insert into earshot.messages (org_id, conversation_id, seq, external_id, kind, author_user_id, body, sent_at, terms)
select 1, {conversations} + a.destination, s.seq, 'm' || s.seq, 'message', a.readers[1], p.phrase,
  timestamptz '2025-06-01' + make_interval(hours => s.seq), {terms}('pg_catalog.english', p.phrase)
from bench.audiences a cross join generate_series(1, 3) s(seq)
join bench.phrases p on p.id = (a.destination * 3 + s.seq) % {phrases}
order by 2, 3;

-- Whatever is made from here on takes a number of its own.
select setval(pg_get_serial_sequence('earshot.' || t, 'id'), 10000000)
from unnest(array['organizations', 'users', 'personas', 'projects', 'conversations']) t;
