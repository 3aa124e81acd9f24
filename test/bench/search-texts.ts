import { READABLE } from './peers-sql.ts';
import type { BenchDatabase } from './server.ts';

/**
 * A copy of the live messages with a text index, for what others would do: an index on Earshot's own
 * table would change Earshot's plans. Made once for each database.
 */
const TEXTS = `
  create schema bench_search;
  create table bench_search.texts (
    conversation_id bigint not null, seq bigint not null, terms tsvector not null,
    primary key (conversation_id, seq)
  );
  insert into bench_search.texts
    select m.conversation_id, m.seq, m.terms from earshot.messages m
    join earshot.conversations c on c.org_id = 1 and c.id = m.conversation_id
    where m.org_id = 1 and m.state <> 'deleted' and not c.deleted and not c.staged
    order by 1, 2;
  create index on bench_search.texts using gin (terms) with (fastupdate = off);
  create table bench_search.open_places as
    select id, default_floor::bigint as default_floor from earshot.conversations
    where org_id = 1 and visibility = 'organization' and not deleted and not staged;
  alter table bench_search.open_places add primary key (id);
  create table bench_search.scopes (
    audience text not null, conversation_id bigint not null, floor bigint not null,
    primary key (audience, conversation_id)
  )`;

/** A table that each person sees the messages of that this person reads, as guides to row security have it. */
const PERSONAL_TEXTS = `
  do $$ begin create role earshot_bench_reader nologin; exception when duplicate_object or unique_violation then null; end $$;
  grant usage on schema bench_search, bench_run to earshot_bench_reader;
  grant select on bench_search.texts, bench_search.open_places, bench_run.readable to earshot_bench_reader;
  alter table bench_search.texts enable row level security;
  drop policy if exists mine on bench_search.texts;
  create policy mine on bench_search.texts for select to earshot_bench_reader using (
    exists (select from bench_run.readable r
            where r.user_id = (select nullif(current_setting('bench.person', true), '')::bigint)
              and r.conversation_id = texts.conversation_id and r.floor <= texts.seq
              and (r.expires_at is null or r.expires_at > now()))
    or exists (select from bench_search.open_places o
               where o.id = texts.conversation_id and o.default_floor <= texts.seq))`;

/** Finds or makes what the alternatives search in. */
export async function prepareTexts({ superuser: { sql } }: BenchDatabase): Promise<void> {
  const [known] = await sql`select to_regclass('bench_search.scopes') as scopes`;
  if (known?.scopes === null) await sql.begin((transaction) => transaction.unsafe(TEXTS));
  await sql.unsafe(READABLE);
  await sql.unsafe(PERSONAL_TEXTS);
  await sql.begin(async (transaction) => {
    await transaction`set local search_path = earshot`;
    await transaction`truncate bench_search.scopes`;
    await transaction`
      insert into bench_search.scopes
      select r.name, s.conversation_id, min(s.floor)
      from bench_run.readers r cross join lateral in_scope(1, bench_run.scope_of(r.destination)) s
      where r.name ~ '^(squad5|guest5|pow5|open1)-'
      group by 1, 2`;
  });
  for (const table of ['bench_search.texts', 'bench_search.scopes', 'bench_run.readable'])
    await sql.unsafe(`vacuum analyze ${table}`);
}
