-- Full-text search: what a message's terms are, the index of what is open to the organization, and the
-- search itself.

-- A text as it is compared: without accents (canonical decomposition, less the combining marks of the first
-- block), in lower case, and with punctuation and pictographs beyond ASCII as spaces. By the Unicode rules
-- of ICU and by code points, whatever the locale of the database is. As many characters come out as went
-- in, for a text in NFC whose marks all belong to precomposed letters.
create function earshot.folded(p_text text) returns text
language sql immutable strict parallel safe as $$
  select case when octet_length(p_text) = char_length(p_text) then p_text
    else regexp_replace(
      lower(normalize(regexp_replace(normalize(p_text, nfd), '[\u0300-\u036F]', '', 'g'), nfc) collate "und-x-icu"),
      '[\u00A1-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u2000-\u200B\u200E-\u206F\u2190-\u2BFF'
      '\u2E00-\u2E7F\u3000-\u3004\u3008-\u3020\u3030\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\U0001F000-\U0001FAFF]',
      ' ', 'g') end
$$;

-- What a text is found by, in a configuration. Words of more than 512 bytes are not: an entry of an index
-- has no room for the longest.
create function earshot.search_terms(p_configuration regconfig, p_text text) returns tsvector
language sql immutable strict parallel safe as $$
  select case when octet_length(p_text) <= 512 then to_tsvector(p_configuration, earshot.folded(p_text))
    else (select ts_delete(t.terms, array(select w.lexeme from unnest(t.terms) w where octet_length(w.lexeme) > 512))
          from (select to_tsvector(p_configuration, earshot.folded(p_text)) as terms) t) end
$$;

-- The first half of the keys of the advisory locks that order writers of messages with a change of the
-- configuration; the second is the organization's.
create function earshot.text_search_lock() returns integer
language sql immutable parallel safe as $$ select 8433 $$;

-- Whoever writes a message, its terms are those of its text in the organization's configuration.
create function earshot.set_terms() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  -- The configuration is read under the lock: a change of it comes wholly before this, or finds this row.
  perform pg_advisory_xact_lock_shared(text_search_lock(), (new.org_id % 2147483647)::integer);
  new.terms := case when new.state = 'deleted' then ''::tsvector
    else search_terms((select o.text_search from organizations o where o.id = new.org_id), new.body) end;
  return new;
end $$;
create trigger set_terms before insert or update of body, state, terms on earshot.messages
  for each row execute function earshot.set_terms();
create trigger set_terms before insert or update of body, state, terms on earshot.artifacts
  for each row execute function earshot.set_terms();

-- Another configuration of an organization: every message is read anew, in the same transaction. Locks come
-- in the order of every writer: conversations, then the configuration.
create function earshot.text_search_changed() returns trigger
language plpgsql security definer set search_path = earshot, pg_temp as $$
begin
  perform from conversations c where c.org_id = new.id order by c.id for share;
  perform pg_advisory_xact_lock(text_search_lock(), (new.id % 2147483647)::integer);
  update messages m set terms = '' where m.org_id = new.id and m.state <> 'deleted';
  update artifacts a set terms = '' where a.org_id = new.id and a.state <> 'deleted';
  return null;
end $$;
create trigger text_search_changed after update on earshot.organizations for each row
  when (old.text_search is distinct from new.text_search)
  execute function earshot.text_search_changed();

-- The terms of every message that is open to the organization: in a conversation visible to it, from
-- the default floor up, not deleted, and free to leave its conversation; and of the artifacts that are at home there. Derived, kept by triggers, and
-- never a permission: it only names candidates, and each is asked of `visible_messages`.
--
-- An index of its own, because its cost then depends on nothing that somebody cannot read, because
-- `@@` is not leakproof and so no index serves it under row security, and because a term's range gives
-- what ranking needs. Measured beside `search_candidates`.
create table earshot.open_postings (
  org_id bigint not null references earshot.organizations,
  term text collate "C" not null,
  conversation_id bigint not null,
  seq bigint not null,
  -- How often the term occurs, 8 at most, and how many different terms the message has.
  frequency smallint not null,
  length integer not null,
  -- Written by somebody; false for what is derived.
  authored boolean not null,
  primary key (org_id, term, conversation_id, seq) include (frequency, length, authored)
);
-- Of the messages above that somebody wrote: how many, and how many different terms they have.
create table earshot.open_statistics (
  org_id bigint not null references earshot.organizations,
  conversation_id bigint not null,
  messages bigint not null,
  terms bigint not null,
  primary key (org_id, conversation_id) include (messages, terms)
);

do $$
declare
  name text;
begin
  foreach name in array array['open_postings', 'open_statistics']
  loop
    execute format('alter table earshot.%I enable row level security', name);
    execute format('alter table earshot.%I force row level security', name);
    execute format('create policy organization on earshot.%I
      using (org_id = (select earshot.current_organization()))
      with check (org_id = (select earshot.current_organization()))', name);
    execute format('grant select, insert, update, delete on earshot.%I to earshot_scoped', name);
  end loop;
end $$;

-- Adds a message to what is open, or takes it out.
create function earshot.post_open(p_message earshot.messages) returns void
language plpgsql volatile set search_path = earshot, pg_temp as $$
begin
  insert into open_postings (org_id, term, conversation_id, seq, frequency, length, authored)
  select p_message.org_id, t.lexeme, p_message.conversation_id, p_message.seq,
    least(greatest(cardinality(t.positions), 1), 8), length(p_message.terms), p_message.delivery_id is null
  from unnest(p_message.terms) t;
  if found and p_message.delivery_id is null then
    insert into open_statistics as s (org_id, conversation_id, messages, terms)
    values (p_message.org_id, p_message.conversation_id, 1, length(p_message.terms))
    on conflict (org_id, conversation_id) do update
    set messages = s.messages + 1, terms = s.terms + excluded.terms;
  end if;
end $$;

create function earshot.unpost_open(p_message earshot.messages) returns void
language plpgsql volatile set search_path = earshot, pg_temp as $$
begin
  delete from open_postings p
  where p.org_id = p_message.org_id and p.term = any (tsvector_to_array(p_message.terms))
    and p.conversation_id = p_message.conversation_id and p.seq = p_message.seq;
  if found and p_message.delivery_id is null then
    update open_statistics s set messages = s.messages - 1, terms = s.terms - length(p_message.terms)
    where s.org_id = p_message.org_id and s.conversation_id = p_message.conversation_id;
  end if;
end $$;

-- The lock orders it with a change of the conversation, whatever that is now: whichever comes second sees
-- the first.
create function earshot.message_posted() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
declare
  c earshot.conversations;
begin
  select * into c from conversations x
  where x.org_id = coalesce(new.org_id, old.org_id) and x.id = coalesce(new.conversation_id, old.conversation_id)
  for share;
  if (c.visibility = 'organization' and not c.deleted and not c.staged
      and c.default_floor <= coalesce(new.seq, old.seq)) is not true then
    return null;
  end if;
  if tg_op <> 'INSERT' then
    perform unpost_open(old);
  end if;
  if tg_op = 'DELETE' then
    return null;
  end if;
  if new.state <> 'deleted' and may_leave(new) then
    perform post_open(new);
  end if;
  return null;
end $$;
create trigger posted after insert or delete on earshot.messages
  for each row execute function earshot.message_posted();

-- An artifact has no floor: whether it is read is its lineage's to say.
create function earshot.artifact_posted() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
declare
  c earshot.conversations;
  posted earshot.messages;
begin
  select * into c from conversations x where x.org_id = new.org_id and x.id = new.conversation_id for share;
  if (c.visibility = 'organization' and not c.deleted and not c.staged) is not true then
    return null;
  end if;
  posted.org_id := new.org_id;
  posted.conversation_id := new.conversation_id;
  posted.seq := new.seq;
  posted.delivery_id := new.id;
  if tg_op = 'UPDATE' then
    posted.terms := old.terms;
    perform unpost_open(posted);
  end if;
  if new.state = 'live' then
    posted.terms := new.terms;
    perform post_open(posted);
  end if;
  return null;
end $$;
create trigger posted after insert on earshot.artifacts
  for each row execute function earshot.artifact_posted();
create trigger posted_again after update on earshot.artifacts for each row
  when (row(old.terms, old.state) is distinct from row(new.terms, new.state))
  execute function earshot.artifact_posted();
create trigger posted_again after update on earshot.messages for each row
  when (row(old.terms, old.state, old.delivery_id, old.author_persona_id, old.revision = old.delivered_revision)
        is distinct from
        row(new.terms, new.state, new.delivery_id, new.author_persona_id, new.revision = new.delivered_revision))
  execute function earshot.message_posted();

-- Posts what is open in one conversation anew, or in all of them.
create function earshot.post_conversations(p_org bigint, p_conversation bigint) returns void
language plpgsql volatile set search_path = earshot, pg_temp as $$
begin
  delete from open_postings p where p.org_id = p_org
    and (p_conversation is null or (p.conversation_id = p_conversation
      and p.term in (select unnest(tsvector_to_array(m.terms)) from messages m
                     where m.org_id = p_org and m.conversation_id = p_conversation
                     union all
                     select unnest(tsvector_to_array(a.terms)) from artifacts a
                     where a.org_id = p_org and a.conversation_id = p_conversation)));
  delete from open_statistics s
  where s.org_id = p_org and (p_conversation is null or s.conversation_id = p_conversation);
  with open_messages as materialized (
    select m.conversation_id, m.seq, m.terms, m.delivery_id is null as authored
    from conversations c
    join messages m on m.org_id = p_org and m.conversation_id = c.id and m.seq >= c.default_floor
    where c.org_id = p_org and (p_conversation is null or c.id = p_conversation)
      and c.visibility = 'organization' and not c.deleted and not c.staged
      and m.state <> 'deleted' and m.terms <> '' and may_leave(m)
    union all
    select c.id, a.seq, a.terms, false
    from conversations c
    cross join lateral conversation_artifacts(p_org, c.id) a
    where c.org_id = p_org and (p_conversation is null or c.id = p_conversation)
      and c.visibility = 'organization' and not c.deleted and not c.staged and a.terms <> ''
  ), counted as (
    insert into open_statistics (org_id, conversation_id, messages, terms)
    select p_org, o.conversation_id, count(*), sum(length(o.terms))
    from open_messages o where o.authored group by o.conversation_id
  )
  insert into open_postings (org_id, term, conversation_id, seq, frequency, length, authored)
  select p_org, t.lexeme, o.conversation_id, o.seq, least(greatest(cardinality(t.positions), 1), 8),
    length(o.terms), o.authored
  from open_messages o cross join lateral unnest(o.terms) t
  order by t.lexeme, o.conversation_id, o.seq;
end $$;

create function earshot.conversation_posted() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  -- The terms that are posted are those of the configuration that stays.
  perform pg_advisory_xact_lock_shared(text_search_lock(), (new.org_id % 2147483647)::integer);
  perform post_conversations(new.org_id, new.id);
  return null;
end $$;
create trigger posted after update on earshot.conversations for each row
  when ((old.visibility = 'organization' or new.visibility = 'organization')
    and row(old.visibility, old.default_floor, old.deleted, old.staged)
        is distinct from row(new.visibility, new.default_floor, new.deleted, new.staged))
  execute function earshot.conversation_posted();

-- What a query asks for. Words are any-of and decide the rank; `-word` and `-"a phrase"` exclude;
-- `"a phrase"` is required, and its words rank as well; `word*` stands for every word that begins so.
create type earshot.search_query as (
  -- One for each different term, with the beginning it stands for where it is a prefix.
  terms tsquery[],
  lexemes text[],
  prefixes boolean[],
  -- Any of the terms; what a hit must satisfy beyond it, or null.
  any_term tsquery,
  required tsquery
);

create function earshot.lexeme_query(p_lexeme text, p_prefix boolean) returns tsquery
language sql immutable parallel safe as $$
  select ('''' || replace(replace(p_lexeme, '\', '\\'), '''', '''''') || case when p_prefix then ''':*' else '''' end)::tsquery
$$;

create function earshot.parse_search(p_configuration regconfig, p_query text) returns earshot.search_query
language plpgsql stable as $$
declare
  result earshot.search_query;
  part record;
  words text := '';
  beginnings text[] := '{}';
  piece tsquery;
begin
  for part in
    select m.found[1] = '-' as excluded, m.found[2] as phrase, m.found[3] as word
    from regexp_matches(folded(p_query), '(-?)(?:"([^"]*)"|([^\s"]+))', 'g') as m(found)
  loop
    piece := phraseto_tsquery(p_configuration, coalesce(part.phrase, part.word));
    if part.excluded then
      if numnode(piece) > 0 then
        result.required := coalesce(result.required && !!piece, !!piece);
      end if;
    elsif part.phrase is not null then
      words := words || ' ' || part.phrase;
      if numnode(piece) > 0 then
        result.required := coalesce(result.required && piece, piece);
      end if;
    elsif part.word ~ '^[^*]{2,}\*$' and octet_length(part.word) <= 512 then
      beginnings := beginnings || coalesce(
        (select case when count(*) = 1 then min(t.lexeme) end
         from unnest(to_tsvector(p_configuration, rtrim(part.word, '*'))) t),
        lower(rtrim(part.word, '*')));
    else
      words := words || ' ' || part.word;
    end if;
  end loop;
  select array_agg(lexeme_query(t.lexeme, t.prefix) order by t.lexeme collate "C", t.prefix),
    array_agg(t.lexeme order by t.lexeme collate "C", t.prefix),
    array_agg(t.prefix order by t.lexeme collate "C", t.prefix)
  into result.terms, result.lexemes, result.prefixes
  from (select lexeme, false as prefix from unnest(to_tsvector(p_configuration, words))
        union select b, true from unnest(beginnings) b) t;
  result.any_term := (select string_agg(t::text, ' | ')::tsquery from unnest(result.terms) t);
  return result;
end $$;

-- Where a term, or a word that begins so, occurs in what is open: a range of the index. A message that has
-- several words of one beginning is there once, and it counts once.
create function earshot.open_occurrences(p_org bigint, p_scope earshot.scope, p_lexeme text, p_prefix boolean,
  p_conversation bigint)
returns table (conversation_id bigint, seq bigint, length integer, frequency smallint, authored boolean)
language sql stable as $$
  select p.conversation_id, p.seq, p.length, p.frequency, p.authored from earshot.open_postings p
  where (p_scope).open and not p_prefix and p.org_id = p_org and p.term = p_lexeme
    and p.conversation_id <> all ((p_scope).open_ids)
    and (p_conversation is null or p.conversation_id = p_conversation)
    and ((p_scope).project_bound is null or exists (
      select from earshot.conversations c
      where c.org_id = p_org and c.id = p.conversation_id and c.project_id = (p_scope).project_bound))
  union all
  select distinct p.conversation_id, p.seq, p.length, 1::smallint, p.authored from earshot.open_postings p
  where (p_scope).open and p_prefix and p.org_id = p_org
    and p.term >= p_lexeme and p.term <= p_lexeme || U&'\+10FFFF'
    and p.conversation_id <> all ((p_scope).open_ids)
    and (p_conversation is null or p.conversation_id = p_conversation)
    and ((p_scope).project_bound is null or exists (
      select from earshot.conversations c
      where c.org_id = p_org and c.id = p.conversation_id and c.project_id = (p_scope).project_bound))
$$;

-- Question: which messages of the scope have any of these terms, and how do they rank?
--
-- BM25 (Robertson and Zaragoza 2009) with k1 0.9 and b 0.4. Every number in it is of the scope alone, or of
-- the one conversation that is asked for: the messages that somebody wrote, how many different terms they
-- have, in how many of them each term occurs. Contributions are whole millionths, whose sum does not
-- depend on an order.
--
-- The listed conversations are read once each, by the primary key from the floor up: what cannot be read
-- is not touched. What is open to the organization is found in its index by the ranges of the terms.
--
-- Sorting is off because an array and a common table expression are taken for few rows whatever they hold:
-- groups are hashed, and the last place is found by sorting all the same, there being no other way to it.
--
-- The first `p_window` of them and whatever ties with the last, after a place in the order; what is left
-- to ask is whether the lineage of an answer is readable.
create function earshot.search_candidates(p_org bigint, p_scope earshot.scope, p_query earshot.search_query,
  p_conversation bigint, p_after_score bigint, p_after_seq bigint, p_window bigint)
returns table (conversation_id bigint, seq bigint, score bigint)
language plpgsql stable set enable_sort = off as $$
#variable_conflict use_column
begin
  return query with listed as materialized (
    select s.id, m.seq, m.length, m.authored, m.frequencies
    from unnest((p_scope).ids, (p_scope).floors) as s(id, floor)
    cross join lateral (
      select m.seq, length(m.terms) as length, m.delivery_id is null as authored,
        case when m.terms @@ (p_query).any_term then array(
          -- The rank of one term is the partial sum of 1/n^2 up to how often it occurs, over pi^2/6.
          select case when t.prefix then (m.terms @@ t.term)::integer
            else width_bucket(ts_rank('{1, 1, 1, 1}', m.terms, t.term),
              array[0.3, 0.68, 0.79, 0.846, 0.877, 0.898, 0.912, 0.923]::real[]) end
          from unnest((p_query).terms, (p_query).prefixes) with ordinality as t(term, prefix, place)
          order by t.place) end as frequencies
      from (select v.seq, v.terms, v.delivery_id
          from earshot.conversation_messages(p_org, s.id, s.floor, (p_scope).destination_id) v
        union all
        select a.seq, a.terms, a.delivery_id from earshot.conversation_artifacts(p_org, s.id) a) m
      where m.terms <> '' offset 0) m
    where p_conversation is null or s.id = p_conversation
  ), occurrences as materialized (
    select a.place, h.id, h.seq, h.length, h.authored, h.frequencies[a.place] as frequency
    from listed h cross join generate_series(1, cardinality((p_query).terms)) as a(place)
    where h.frequencies[a.place] > 0
    union all
    select a.place::integer, p.conversation_id, p.seq, p.length, p.authored, p.frequency::integer
    from unnest((p_query).lexemes, (p_query).prefixes) with ordinality as a(lexeme, prefix, place)
    cross join lateral (
      select p.conversation_id, p.seq, p.length, p.authored, p.frequency
      from earshot.open_occurrences(p_org, p_scope, a.lexeme, a.prefix, p_conversation) p offset 0) p
  ), size as materialized (
    select l.messages + o.messages as messages,
      (l.terms + o.terms) / greatest(l.messages + o.messages, 1)::float8 as average
    from (select count(*) as messages, coalesce(sum(length), 0)::bigint as terms from listed where authored) l,
      (select coalesce(sum(o.messages), 0)::bigint as messages, coalesce(sum(o.terms), 0)::bigint as terms
       from earshot.open_statistics o
       where (p_scope).open and o.org_id = p_org and o.conversation_id <> all ((p_scope).open_ids)
         and (p_conversation is null or o.conversation_id = p_conversation)
         and ((p_scope).project_bound is null or exists (
           select from earshot.conversations c
           where c.org_id = p_org and c.id = o.conversation_id and c.project_id = (p_scope).project_bound))) o
  ), weights as materialized (
    select f.place, 0.9::float8 * 0.6::float8 as base, 0.9::float8 * 0.4::float8 / greatest(z.average, 1) as by_length,
      1e6::float8 * 1.9::float8 * ln(1 + (z.messages - f.messages + 0.5::float8) / (f.messages + 0.5::float8)) as weight
    from size z
    cross join (select o.place, count(*) filter (where o.authored) as messages from occurrences o group by o.place) f
  ), scored as materialized (
    select s.id, s.seq, s.score from (
      -- Whole numbers far below 2^53: their sum in floating point is exact.
      select o.id, o.seq, sum(round(w.weight * o.frequency / (o.frequency + w.base + w.by_length * o.length)))::bigint as score
      from occurrences o join weights w on w.place = o.place
      group by o.id, o.seq) s
    where p_after_score is null or s.score < p_after_score or (s.score = p_after_score and s.seq <= p_after_seq)
  ), last as materialized (
    select s.score, s.seq from scored s order by s.score desc, s.seq desc offset p_window - 1 limit 1
  )
  select s.id, s.seq, s.score from scored s
  where (s.score, s.seq) >= (coalesce((select l.score from last l), 0), coalesce((select l.seq from last l), 0));
end $$;

-- Whether a candidate is a hit: visible, and what the query and the filters ask for.
create type earshot.search_filter as (
  required tsquery,
  author_id bigint,
  kind text,
  since timestamptz,
  until timestamptz
);

create function earshot.hit_message(p_org bigint, p_scope earshot.scope, p_conversation bigint, p_seq bigint,
  p_filter earshot.search_filter) returns setof earshot.messages
language sql stable as $$
  select v.* from earshot.visible_messages(p_org, p_scope) v
  where v.conversation_id = p_conversation and v.seq = p_seq
    and ((p_filter).required is null or v.terms @@ (p_filter).required)
    and ((p_filter).author_id is null or v.author_user_id = (p_filter).author_id)
    and ((p_filter).kind is null or v.kind = (p_filter).kind)
    and ((p_filter).since is null or v.sent_at >= (p_filter).since)
    and ((p_filter).until is null or v.sent_at < (p_filter).until)
  limit 1
$$;

-- How many hits there are. Counting stops at a deadline, and says so.
create function earshot.count_hits(p_org bigint, p_scope earshot.scope, p_query earshot.search_query,
  p_conversation bigint, p_filter earshot.search_filter) returns jsonb
language plpgsql stable as $$
declare
  at_once constant integer := 500;
  deadline constant timestamptz := clock_timestamp() + interval '1 second';
  conversations bigint[];
  seqs bigint[];
  counted bigint := 0;
  at integer := 1;
begin
  select array_agg(c.conversation_id), array_agg(c.seq) into conversations, seqs
  from search_candidates(p_org, p_scope, p_query, p_conversation, null, null, 9223372036854775807) c;
  while at <= cardinality(seqs) and clock_timestamp() < deadline loop
    counted := counted + (
      select count(*)
      from unnest(conversations[at:at + at_once - 1], seqs[at:at + at_once - 1]) as k(conversation_id, seq)
      cross join lateral hit_message(p_org, p_scope, k.conversation_id, k.seq, p_filter));
    at := at + at_once;
  end loop;
  return jsonb_build_object('messages', counted::text, 'complete', at > coalesce(cardinality(seqs), 0));
end $$;

-- Full-text search over the scope. Order: score, then the higher sequence, then the conversation's id, so
-- that pages are stable. An empty query, or one of stop words and operators only, finds nothing.
--
-- Candidates are asked of the one predicate, best first, until the page is full; where that takes more
-- than a first window, a wider one is taken.
create function earshot.search_messages(p_org bigint, p_scope earshot.scope, p_arguments jsonb)
returns earshot.tool_result
language plpgsql stable as $$
declare
  page constant integer := (p_arguments ->> 'limit')::integer;
  wants_total constant boolean := coalesce((p_arguments ->> 'total')::boolean, false);
  config constant regconfig := (select o.text_search from organizations o where o.id = p_org);
  query constant earshot.search_query := parse_search(config, p_arguments ->> 'query');
  -- One that does not exist is 0, and is searched for as one out of scope is.
  wanted_conversation constant bigint := case when p_arguments ? 'conversation' then coalesce((
    select c.id from conversations c
    where c.org_id = p_org and c.external_id = p_arguments ->> 'conversation'), 0) end;
  wanted_author constant bigint := case when p_arguments ? 'author' then coalesce((
    select u.id from users u where u.org_id = p_org and u.external_id = p_arguments ->> 'author'), 0) end;
  filter constant earshot.search_filter := row(query.required, wanted_author, p_arguments ->> 'kind',
    (p_arguments ->> 'since')::timestamptz, (p_arguments ->> 'until')::timestamptz);
  after_score constant bigint := (p_arguments #>> '{after,score}')::bigint;
  after_seq constant bigint := (p_arguments #>> '{after,seq}')::bigint;
  after_conversation constant text := p_arguments #>> '{after,conversation}';
  candidates_in_window bigint := page + 5;
  found_in_window bigint;
  result earshot.tool_result;
begin
  if query.any_term is null then
    return row(null, '{}'::hit[], false,
      case when wants_total then jsonb_build_object('messages', '0', 'complete', true) end)::tool_result;
  end if;
  loop
    with candidates as materialized (
      select c.* from search_candidates(p_org, p_scope, query, wanted_conversation, after_score, after_seq,
        candidates_in_window) c
    ), ordered as materialized (
      select k.score, n.external_id as name, h as message
      from candidates k
      cross join lateral (select c.external_id from conversations c
        where c.org_id = p_org and c.id = k.conversation_id limit 1) n
      cross join lateral hit_message(p_org, p_scope, k.conversation_id, k.seq, filter) h
      where after_score is null or k.score < after_score or k.seq < after_seq or n.external_id > after_conversation
      order by k.score desc, k.seq desc, n.external_id
      limit page + 1
    ), placed as (
      select o.*, row_number() over (order by o.score desc, (o.message).seq desc, o.name) as place from ordered o
    )
    select null,
      array_agg(row(
        row((r.message).conversation_id, (r.message).seq, (r.message).seq, (r.message).revision)::source,
        i.item || jsonb_build_object(
          'score', r.score::text, 'marked', marked(config, (r.message).body, query.any_term))
      )::hit order by r.place) filter (where r.place <= page),
      coalesce(bool_or(r.place > page), false),
      (select count(*) from candidates)
    into result.code, result.hits, result.more, found_in_window
    from placed r cross join lateral message_item(p_org, p_scope, r.message) i;
    exit when result.more or found_in_window < candidates_in_window;
    candidates_in_window := candidates_in_window * 16;
  end loop;
  if wants_total then
    result.total := count_hits(p_org, p_scope, query, wanted_conversation, filter);
  end if;
  return result;
end $$;

-- A text with its matches between U+0001 and U+0002, characters that it has been freed of; the reader of
-- this turns them into offsets. Found without accents where that moves no character.
create function earshot.marked(p_configuration regconfig, p_text text, p_query tsquery) returns text
language plpgsql stable as $$
declare
  clean constant text := translate(p_text, chr(1) || chr(2), '');
  plain constant text := folded(clean);
begin
  return ts_headline(p_configuration,
    case when clean is nfc normalized and char_length(plain) = char_length(clean) then plain else clean end,
    p_query, format('HighlightAll=true, StartSel="%s", StopSel="%s"', chr(1), chr(2)));
end $$;

grant create on schema earshot to earshot_scoped;
alter function earshot.text_search_changed() owner to earshot_scoped;
revoke create on schema earshot from earshot_scoped;
revoke execute on all functions in schema earshot from public;
grant execute on all functions in schema earshot to earshot_scoped;
