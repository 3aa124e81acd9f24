-- What a run of the bench calls beside the product's own doors. It is made anew at each start.
drop schema if exists bench_run cascade;
create schema bench_run;
grant usage on schema bench_run to earshot_scoped, earshot_runtime;

grant usage on schema bench to earshot_runtime;
grant select on bench.people to earshot_runtime;

-- The readers of each audience as the live check hands them on, so that the scope is measured alone.
-- Stored as they are: unpacking would be measured with them.
create table bench_run.readers (
  destination bigint primary key,
  name text not null unique,
  readers earshot.reader[] not null,
  users bigint[] not null,
  bound bigint,
  guests boolean not null
);
alter table bench_run.readers alter column readers set storage external;
insert into bench_run.readers
select c.id, a.name, r.readers, array(select key from unnest(r.readers) where kind = 'user'), c.project_id,
  exists (select from unnest(r.readers) u where u.guest)
from bench.audiences a
join earshot.conversations c on c.org_id = 1 and c.external_id = a.name
cross join lateral (select array(select x from earshot.audience(1, c.id, now()) x) as readers) r;
analyze bench_run.readers;
grant select on bench_run.readers to earshot_scoped;

create function bench_run.nothing(p_org bigint) returns integer
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
begin
  perform set_config('earshot.organization', p_org::text, true);
  return 0;
end $$;

create function bench_run.scope_of(p_destination bigint) returns earshot.scope
language plpgsql volatile as $$
declare
  known bench_run.readers;
begin
  perform set_config('earshot.organization', '1', true);
  select * into known from bench_run.readers r where r.destination = p_destination;
  return earshot.intersection(1, known.readers, known.bound, p_destination, clock_timestamp());
end $$;

-- The scope, as the statements that read content use it: it stays in the database.
create function bench_run.scope_size(p_destination bigint) returns integer
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
begin
  return cardinality((bench_run.scope_of(p_destination)).ids);
end $$;

-- The same as rows, without what every reader reads by the organization alone, at the default floor.
create function bench_run.scope_rows(p_destination bigint) returns table (id bigint, floor bigint)
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  found earshot.scope := bench_run.scope_of(p_destination);
begin
  return query
  select s.conversation_id, s.floor from in_scope(1, found) s
  join conversations c on c.org_id = 1 and c.id = s.conversation_id
  where not (found.open and c.visibility = 'organization' and s.floor = c.default_floor);
end $$;

-- How many messages a search goes over.
create function bench_run.scope_messages(p_destination bigint) returns bigint
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
begin
  return (select count(*) from visible_messages(1, bench_run.scope_of(p_destination)));
end $$;

-- Messages that everyone there may have, those of the place itself apart: the private ones first, and so many of one conversation
-- at most.
create function bench_run.messages_in_scope(p_destination bigint, p_each integer, p_limit integer)
returns table (conversation_id bigint, seq bigint, revision bigint)
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  found earshot.scope := bench_run.scope_of(p_destination);
begin
  return query
  select m.conversation_id, m.seq::bigint, m.revision::bigint
  from in_scope(1, found) s
  join conversations c on c.org_id = 1 and c.id = s.conversation_id
  cross join lateral (
    select x.conversation_id, x.seq, x.revision from messages x
    where x.org_id = 1 and x.conversation_id = s.conversation_id and x.seq >= s.floor and x.state <> 'deleted'
      and x.delivery_id is null and may_leave(x)
    order by x.seq limit p_each) m
  where s.conversation_id <> p_destination
  order by c.visibility = 'organization', m.conversation_id, m.seq limit p_limit;
end $$;

create function bench_run.turn_scope_size(p_destination bigint, p_extent text) returns integer
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  known bench_run.readers;
begin
  perform set_config('earshot.organization', '1', true);
  select * into known from bench_run.readers r where r.destination = p_destination;
  return cardinality((turn_scope(1, p_destination, known.readers, 1, p_extent, known.users[1], known.bound, null,
    clock_timestamp())).ids);
end $$;

create function bench_run.live_code(p_digest bytea) returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
begin
  perform enter_grant(p_digest);
  return (live_check(p_digest, 'search', clock_timestamp())).code;
end $$;

-- One durable insert.
create table bench_run.inserts (id bigint generated always as identity primary key, at timestamptz not null default now());

-- They run as the product's door runs, with its settings.
do $$
declare
  signature text;
  setting text;
begin
  revoke execute on all functions in schema bench_run from public;
  foreach signature in array array['nothing(bigint)', 'scope_size(bigint)', 'scope_rows(bigint)', 'scope_messages(bigint)',
    'messages_in_scope(bigint, integer, integer)', 'turn_scope_size(bigint, text)', 'live_code(bytea)'] loop
    foreach setting in array (select proconfig from pg_proc where oid = 'earshot.call_tool'::regproc) loop
      execute format('alter function bench_run.%s set %s', signature, regexp_replace(setting, '=', ' to '));
    end loop;
    execute format('alter function bench_run.%s owner to earshot_scoped', signature);
    execute format('grant execute on function bench_run.%s to earshot_runtime', signature);
  end loop;
  -- No door: it runs inside of the others.
  grant execute on function bench_run.scope_of(bigint) to earshot_scoped;
  grant insert on bench_run.inserts to earshot_runtime;
end $$;
