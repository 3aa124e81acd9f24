/**
 * Makes what looks at a text divide by zero on the word hemlock: the match operator, ranks, headlines, and what takes
 * a vector apart. For a superuser, in a database that is thrown away.
 */
export const POISON = `
set allow_system_table_mods = on;
create schema poison;
grant usage on schema poison to public;
create function poison.taste(text) returns void language plpgsql immutable as $$
begin
  if $1 like '%hemlock%' then
    perform 1 / (length($1) - length($1));
  end if;
end $$;
create function poison.match(tsvector, tsquery) returns boolean language plpgsql immutable as $$
begin
  perform poison.taste($1::text);
  return ts_match_vq($1, $2);
end $$;
create function poison.match(tsquery, tsvector) returns boolean language plpgsql immutable as $$
begin
  perform poison.taste($2::text);
  return ts_match_vq($2, $1);
end $$;
update pg_operator set oprcode = 'poison.match(tsvector, tsquery)'::regprocedure
where oid = '@@(tsvector, tsquery)'::regoperator;
update pg_operator set oprcode = 'poison.match(tsquery, tsvector)'::regprocedure
where oid = '@@(tsquery, tsvector)'::regoperator;
do $poison$
declare
  f record;
begin
  for f in
    select p.oid, p.proname, p.proretset, pg_get_function_result(p.oid) as result, oidvectortypes(p.proargtypes) as args,
      pg_get_function_arguments(p.oid) as parameters,
      array_position(p.proargtypes::oid[], case when p.proname = 'ts_headline' then 'text' else 'tsvector' end::regtype) as at,
      (select string_agg('$' || n, ', ' order by n) from generate_series(1, p.pronargs) n) as passed
    from pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace
      and p.proname in ('ts_rank', 'ts_rank_cd', 'ts_headline', 'ts_filter', 'ts_delete', 'strip', 'setweight',
                        'tsvector_to_array', 'length', 'unnest')
      and ((p.proname = 'ts_headline' and 'text'::regtype = any (p.proargtypes))
           or (p.proname <> 'ts_headline' and 'tsvector'::regtype = any (p.proargtypes)))
  loop
    execute format('alter function pg_catalog.%I(%s) rename to %I', f.proname, f.args, f.proname || '_unpoisoned');
    execute format('create function pg_catalog.%I(%s) returns %s language plpgsql immutable as $$ begin
      perform poison.taste($%s::text); %s; end $$', f.proname, f.parameters, f.result, f.at + 1,
      case when f.proretset then format('return query select * from %I(%s)', f.proname || '_unpoisoned', f.passed)
           else format('return %I(%s)', f.proname || '_unpoisoned', f.passed) end);
  end loop;
end $poison$;
reset allow_system_table_mods`;
