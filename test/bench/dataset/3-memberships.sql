-- Who is in what. Ordinary people are in their team's conversations and in others, popular ones more
-- often; power users are in the core and in anything outside of the teams.

create table bench.halls (id bigint primary key, size integer not null);
insert into bench.halls
select id, (array[20, 50, 100, 200, 1000])[1 + position % 5]
from bench.places
where part = 'hall' and (array[20, 50, 100, 200, 1000])[1 + position % 5] <= {users} / 2;

insert into earshot.memberships (org_id, user_id, conversation_id, floor, expires_at, other_routes)
select 1, person, drawn.place,
  case
    when r < 0.7 then 1
    when r < 0.995 or part in ('guest', 'hall') then 1 + floor(bench.roll(person * 1000003 + drawn.place, 21) * (c.head + 1))::bigint
    else 9223372036854775807
  end,
  case
    when part = 'guest' then timestamptz '2100-01-01'
    when part = 'draw' and bench.roll(person * 1000003 + drawn.place, 22) < 0.005 then timestamptz '2020-01-01'
  end,
  c.visibility <> 'members'
from (
  select person, place, part, bench.roll(person * 1000003 + place, 20) as r
  from (
    select person, place, min(part) as part
    from (
      -- A guest is in half of the team's conversations.
      select u.id as person, u.team * 40 + n + 1 as place, case u.part when 'guest' then 'guest' else 'team' end as part
      from bench.people u cross join generate_series(0, 39) n
      where u.team is not null and (u.part = 'member' or n % 2 = 0)
      union all
      select u.id, p.id, 'core' from bench.people u cross join bench.places p
      where u.part = 'power' and p.part = 'core'
      union all
      -- In a hall, up to every second member is a power user; no person comes twice.
      select 1 + case when n % 2 = 0 and n / 2 < {power} then {ordinary} + (h.id * 7 + n / 2) % {power}
               else (h.id * 101 + n * 50) % {inFifties} / 50 * 50 + n % 49 end,
        h.id, 'hall'
      from bench.halls h cross join lateral generate_series(0, h.size - 1) n
      union all
      -- Squared: the first hundredth of the conversations gets a tenth of the draws.
      select u.id, {afterCore} + 1 + floor(power(bench.roll(u.id * 100000 + n, 23), 2) * ({conversations} - {afterCore}))::bigint,
        'draw'
      from bench.people u cross join lateral generate_series(1, u.degree) n where u.part = 'member'
      union all
      select u.id, {afterCore} + 1 + floor(bench.roll(u.id * 100000 + n, 24) * ({conversations} - {afterCore}))::bigint, 'draw'
      from bench.people u cross join lateral generate_series(1, u.degree) n where u.part = 'power'
    ) rows
    group by person, place
  ) once
) drawn
join earshot.conversations c on c.org_id = 1 and c.id = drawn.place
order by person, drawn.place;
