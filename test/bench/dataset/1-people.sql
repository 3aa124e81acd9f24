-- Who there is. Braced names are the sizes and the seed of the run. Everything drawn is a hash of the
-- seed, a number that names the draw, and the row, so that a seed gives the same data on every server
-- of one major version.
--
-- People come in the order: teams of 25, what is left of the ordinary ones, then the power users. Every
-- second team has a guest.

create function bench.roll(p_row bigint, p_draw integer) returns double precision
language sql immutable parallel safe as $$
  select (hashint8extended(p_row, {seed} * 1000 + p_draw) & 9007199254740991)::double precision / 9007199254740992
$$;

-- Between two bounds, each power of two as likely as another.
create function bench.spread(p_roll double precision, p_low double precision, p_high double precision) returns bigint
language sql immutable parallel safe as $$
  select floor(p_low * power(p_high / p_low, p_roll))::bigint
$$;

insert into earshot.organizations (id, external_id) overriding system value values (1, 'bench');
insert into earshot.organization_revisions (org_id) values (1);
insert into earshot.personas (org_id, id, external_id, custody, status, designated) overriding system value
values (1, 1, 'assistant', 'service', 'active', true);

create table bench.people (id bigint primary key, team integer, part text not null, degree integer not null);
insert into bench.people
select i + 1,
  case when i < {inTeams} then i / 25 end,
  case when i >= {ordinary} then 'power' when i < {inTeams} and i % 50 = 49 then 'guest' else 'member' end,
  case
    -- What a power user is in beside the common core.
    when i >= {ordinary} then bench.spread(bench.roll(i, 1), {conversations} * 0.025, {conversations} * 0.1) - {core}
    when i < {inTeams} and i % 50 = 49 then 0
    else bench.spread(bench.roll(i, 1), {degree} / 5.41, {degree} * 16 / 5.41)
  end
from generate_series(0, {users} - 1) i;

insert into earshot.users (org_id, id, external_id, kind, status, name) overriding system value
select 1, id, 'u' || id, case part when 'guest' then 'guest' else 'member' end,
  case when part = 'member' and bench.roll(id, 2) < 0.005 then 'deactivated' else 'active' end, 'Person ' || id
from bench.people;

insert into earshot.projects (org_id, id, external_id, status, admits_guests) overriding system value
select 1, i + 1, 'p' || (i + 1), case when bench.roll(i, 3) < 0.01 then 'inactive' else 'active' end, i % 4 = 0
from generate_series(0, {projects} - 1) i;
insert into earshot.project_revisions (org_id, project_id) select 1, id from earshot.projects;

-- A project is one team's, with a few people from elsewhere.
insert into earshot.project_members (org_id, project_id, user_id)
select distinct 1, project, person
from (
  select p.id as project, u.id as person from earshot.projects p
  join bench.people u on u.team = (p.id - 1) % {teams}
  union all
  select p.id, 1 + floor(bench.roll(p.id * 10 + n, 4) * {users})::bigint
  from earshot.projects p cross join generate_series(0, 4) n
) drawn
order by person, project;
