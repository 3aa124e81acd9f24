-- Erasure: a message, a user or an organization that is deleted takes its text along, wherever it is kept: messages and what is
-- posted of them, artifacts, answers, payloads, entries and summaries of logs. Hashes, sequences, ids and decisions stay.
--
-- By trigger on the change of state, in its transaction, so whoever deletes. Locks, in the order of every writer: the
-- organization's erasure (alone), conversations by id, their revisions by id, deliveries by id; rows of logs last, for which
-- the first of them stands (0014). The doors take them before they change anything. Raw SQL has changed a row by then, and may
-- be chosen to give way (40P01): it is run again.
--
-- What was made from a text is what its lineage names, by itself or by inheritance. A conversation as a whole, which
-- is how a turn's own destination is named, names none of its messages. But the message that started a turn is what
-- the turn was about: the artifacts and the waiting deliveries of that turn go with it.

-- The plans. Each look-up is an index scan for each text that is gone; row security asks for the organization, which leads
-- each index.
--   lineage_by_source (0003), turns_by_trigger           what was made from it
--   artifacts by id, artifacts_by_turn, messages_by_delivery, deliveries by id and by turn   which of that is still there
--   log_sources_by_source, log_summary_sources_by_source  entries and summaries, then the entry by its key and the summaries of
--                                                         its session (log_summaries_by_namespace)
--   messages_by_author, log_entries_by_person             what a user said; both shrink as it is erased
-- What waits to be let into a log (log_mail) and what is kept apart (late_messages) is looked through for the organization:
-- it waits for the length of a turn, or for an operator.
create index turns_by_trigger on earshot.turns (org_id, destination_id, trigger_seq) where trigger_seq is not null;
create index artifacts_by_turn on earshot.artifacts (org_id, turn_id) where turn_id is not null;
create index log_sources_by_source on earshot.log_sources (org_id, conversation_id, seq);
create index log_summary_sources_by_source on earshot.log_summary_sources (org_id, conversation_id, seq);
create index messages_by_author on earshot.messages (org_id, author_user_id, conversation_id, seq)
  where author_user_id is not null and state <> 'deleted';
create index log_entries_by_person on earshot.log_entries (org_id, participant, session_id, position)
  where role = 'user' and erased is distinct from 'whole';
create index sessions_by_conversation on earshot.sessions (org_id, conversation_id);

-- No sample is kept where statistics are, of what goes with a deletion, where the last migration does not say so already.
alter table earshot.users alter column name set statistics 0;
alter table earshot.conversations alter column title set statistics 0;
alter table earshot.stops alter column reason set statistics 0;
alter table earshot.deliveries alter column payload set statistics 0;
alter table earshot.deliveries alter column reason set statistics 0;

grant update on earshot.organizations, earshot.users, earshot.stops, earshot.log_mail to earshot_scoped;

-- Set when the organization is deleted. Nothing of the row changes any more, and no id in it is used again.
alter table earshot.organizations add column deleted boolean not null default false;

create function earshot.keep_deleted() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  raise exception 'the organization is deleted' using errcode = '23505';
end $$;
create trigger deleted before update on earshot.organizations for each row when (old.deleted)
  execute function earshot.keep_deleted();

-- Nothing begins in an organization that is deleted. What would be written into something of it finds that deleted too.
create function earshot.refuse_in_deleted() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  if exists (select from organizations o where o.id = new.org_id and o.deleted) then
    raise exception 'the organization is deleted' using errcode = '23505';
  end if;
  return new;
end $$;
create trigger in_deleted before insert on earshot.users
  for each row execute function earshot.refuse_in_deleted();
create trigger in_deleted before insert on earshot.personas
  for each row execute function earshot.refuse_in_deleted();
create trigger in_deleted before insert on earshot.projects
  for each row execute function earshot.refuse_in_deleted();
create trigger in_deleted before insert on earshot.conversations
  for each row execute function earshot.refuse_in_deleted();

-- A row that says it is deleted holds no text, whoever said so.
create function earshot.drop_text() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  case tg_table_name
    when 'messages' then
      new.body := '';
      new.terms := '';
    when 'artifacts' then
      new.body := '';
      new.title := null;
      new.terms := '';
    when 'conversations' then new.title := null;
    when 'users' then new.name := null;
  end case;
  return new;
end $$;
create trigger drop_text before insert or update on earshot.messages for each row
  when (new.state = 'deleted') execute function earshot.drop_text();
create trigger drop_text before insert or update on earshot.artifacts for each row
  when (new.state = 'deleted') execute function earshot.drop_text();
create trigger drop_text before insert or update on earshot.conversations for each row
  when (new.deleted) execute function earshot.drop_text();
create trigger drop_text before insert or update on earshot.users for each row
  when (new.deleted) execute function earshot.drop_text();

-- Whether a text was made from one that is gone: nobody reads it any more, so it is not kept.
create function earshot.rests_on_erased(p_org bigint, p_derived uuid) returns boolean
language plpgsql stable as $$
begin
  return exists (
    select from lineage l
    join conversations c on c.org_id = p_org and c.id = l.conversation_id
    where l.org_id = p_org and l.derived_id = p_derived
      and (c.deleted
        or (l.to_seq is not null and exists (select from messages m
          where m.org_id = p_org and m.conversation_id = l.conversation_id and m.seq = l.from_seq and m.state = 'deleted'))
        or (l.from_seq < 0 and exists (select from artifacts a
          where a.org_id = p_org and a.conversation_id = l.conversation_id and a.seq = l.from_seq and a.state = 'deleted'))));
end $$;

-- An answer that comes, is linked or is sent again after a source of it was deleted. The message itself stays: it is the
-- platform's, and another delivery may edit it.
create function earshot.drop_answer() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  if rests_on_erased(new.org_id, new.delivery_id) then
    new.body := '';
    new.terms := '';
  end if;
  return new;
end $$;
create trigger drop_answer before insert or update of body, delivery_id on earshot.messages for each row
  when (new.delivery_id is not null and new.body <> '')
  execute function earshot.drop_answer();

-- What stands in the place of a text that was erased. A provider takes no empty one.
create function earshot.erased_text() returns text
language sql immutable parallel safe as $$ select '[erased]' $$;

-- The blocks of an entry without the text of some of them, counted from 0; null: of all. There are as many as before, for the
-- same readers, and a call keeps its result. A form that one of them shares goes from the others, and the raw form
-- of the entry with any.
create function earshot.erased_blocks(p_blocks jsonb, p_which integer[]) returns jsonb
language sql immutable parallel safe as $$
  with blocks as (
    select b.block, b.place, b.block ->> 'type' as type, b.block #>> '{replay,id}' as replay,
      p_which is null or b.place - 1 = any (p_which) or b.block ->> 'type' = 'raw' as gone
    from jsonb_array_elements(p_blocks) with ordinality as b(block, place)
  ), told as (
    select *, bool_or(gone) over (partition by replay) as spoilt from blocks
  )
  select jsonb_agg(case when not gone then case when spoilt then block - 'replay' else block end
    else case type
        when 'tool_call' then jsonb_build_object('type', type, 'id', block -> 'id', 'name', block -> 'name', 'arguments', '{}'::jsonb)
        when 'tool_result' then jsonb_build_object('type', type, 'call', block -> 'call',
            'content', jsonb_build_array(jsonb_build_object('type', 'text', 'text', earshot.erased_text())))
          || case when block ? 'isError' then jsonb_build_object('isError', block -> 'isError') else '{}' end
        when 'thinking' then jsonb_build_object('type', type, 'text', earshot.erased_text())
        else jsonb_build_object('type', 'text', 'text', earshot.erased_text()) end
      || case when block ? 'audience' then jsonb_build_object('audience', block -> 'audience') else '{}' end
    end order by place)
  from told
$$;

-- The envelopes of an injection, of which each is beside its block.
create function earshot.erased_envelopes(p_envelopes jsonb, p_which integer[]) returns jsonb
language sql immutable parallel safe as $$
  select case when p_which is not null then
    (select jsonb_agg(case when e.place - 1 = any (p_which) then 'null' else e.envelope end order by e.place)
     from jsonb_array_elements(p_envelopes) with ordinality as e(envelope, place)) end
$$;

-- What is gone is named like a source: a message or an artifact by its number, a conversation as a whole without an end.
--
-- What was made from it, at whatever remove: `texts`, the artifacts that are still there; `made`, all that has one of these in
-- its lineage; `started`, the turns that were begun by it.
create function earshot.made_from(p_org bigint, p_gone earshot.source[], out texts earshot.source[], out made uuid[],
  out started uuid[])
language plpgsql stable as $$
declare
  asked earshot.source[] := p_gone;
  ids uuid[];
  begun uuid[];
begin
  texts := '{}';
  made := '{}';
  started := '{}';
  while cardinality(asked) > 0 loop
    ids := array(
      select l.derived_id from unnest(asked) g
      join lineage l on l.org_id = p_org and l.conversation_id = g.conversation_id and l.from_seq = g.from_seq
      where g.to_seq is not null and l.to_seq is not null
      union
      select l.derived_id from unnest(asked) g
      join lineage l on l.org_id = p_org and l.conversation_id = g.conversation_id
      where g.to_seq is null);
    begun := array(
      select t.id from unnest(asked) g
      join turns t on t.org_id = p_org and t.destination_id = g.conversation_id and t.trigger_seq = g.from_seq
      where g.to_seq is not null);
    asked := array(
      select row(a.conversation_id, a.seq, a.seq, null)::source from (
        select a1.conversation_id, a1.seq from artifacts a1
        where a1.org_id = p_org and a1.id = any (ids) and a1.state = 'live'
        union
        select a2.conversation_id, a2.seq from artifacts a2
        where a2.org_id = p_org and a2.turn_id = any (begun) and a2.state = 'live') a
      except select x from unnest(texts) x);
    texts := texts || asked;
    made := made || ids;
    started := started || begun;
  end loop;
end $$;

-- Locks what an erasure changes, in the order that is written above, and gives what was made from what is gone, as it is under
-- the locks. Something in a conversation that is not locked may have come meanwhile: the whole is tried again (40001).
create function earshot.hold_for_erasure(p_org bigint, p_gone earshot.source[], out texts earshot.source[], out made uuid[],
  out started uuid[])
language plpgsql volatile as $$
declare
  found_before record;
  held bigint[];
begin
  if cardinality(p_gone) = 0 then
    return;
  end if;
  perform pg_advisory_xact_lock(erasure_lock(), (p_org % 2147483647)::integer);
  found_before := made_from(p_org, p_gone);
  held := conversations_to_hold(p_org, p_gone || found_before.texts, found_before.made);
  perform from conversations c where c.org_id = p_org and c.id = any (held) order by c.id for no key update;
  perform from conversation_revisions r where r.org_id = p_org and r.conversation_id = any (held)
  order by r.conversation_id for no key update;
  -- Those that may just become a message: its report, or the message itself, is under way and links it.
  perform from deliveries d
  where d.org_id = p_org and d.id = any (found_before.made) and d.status in ('released', 'reconciling', 'delivered')
  order by d.id for no key update;
  select f.texts, f.made, f.started into texts, made, started from made_from(p_org, p_gone) f;
  perform require_locked(conversations_to_hold(p_org, p_gone || texts, made), held);
end $$;

-- The conversations of these texts, and of the answers among what was made from them.
create function earshot.conversations_to_hold(p_org bigint, p_texts earshot.source[], p_made uuid[]) returns bigint[]
language plpgsql stable as $$
begin
  return array(
    select t.conversation_id from unnest(p_texts) t
    union
    select m.conversation_id from messages m where m.org_id = p_org and m.delivery_id = any (p_made) and m.body <> '');
end $$;

-- These messages of a conversation, those that are there; and the conversation as a whole.
create function earshot.messages_named(p_org bigint, p_conversation text, p_messages text[]) returns earshot.source[]
language plpgsql stable as $$
begin
  return array(
    select row(m.conversation_id, m.seq, m.seq, null)::source from conversations c
    join messages m on m.org_id = p_org and m.conversation_id = c.id and m.external_id = any (p_messages)
    where c.org_id = p_org and c.external_id = p_conversation and not c.deleted and m.state <> 'deleted');
end $$;

create function earshot.conversation_named_whole(p_org bigint, p_conversation text) returns earshot.source[]
language plpgsql stable as $$
begin
  return array(
    select row(c.id, 1, null, null)::source from conversations c
    where c.org_id = p_org and c.external_id = p_conversation and not c.deleted);
end $$;

-- A revision of an entry, with the blocks of it that are gone, counted from 0; null: all.
create type earshot.entry_part as (session_id uuid, pos bigint, revision bigint, id uuid, blocks integer[]);

-- The entries that say they came from what is gone. Of a revision that says so, the blocks of which it does; of the others of
-- its entry, which may hold the same words, in whatever fork they are, all.
create function earshot.entries_from(p_org bigint, p_gone earshot.source[]) returns earshot.entry_part[]
language plpgsql stable as $$
begin
  return array(
    with hits as materialized (
      select s.session_id, s.position, s.revision,
        case when bool_and(s.block is not null) then array_agg(distinct s.block) end as blocks
      from (
        select x.session_id, x.position, x.revision, x.block from unnest(p_gone) g
        join log_sources x on x.org_id = p_org and x.conversation_id = g.conversation_id and x.seq = g.from_seq
        where g.to_seq is not null
        union
        select x.session_id, x.position, x.revision, x.block from unnest(p_gone) g
        join log_sources x on x.org_id = p_org and x.conversation_id = g.conversation_id
        where g.to_seq is null) s
      group by s.session_id, s.position, s.revision)
    select row(e.session_id, e.position, e.revision, e.id, h.blocks)::entry_part
    from (
      select distinct f.id as session_id, x.id
      from (select distinct y.session_id, y.position from hits y) n
      cross join lateral (select o.id from log_entries o
        where o.org_id = p_org and o.session_id = n.session_id and o.position = n.position limit 1) x
      join sessions s on s.org_id = p_org and s.id = n.session_id
      join sessions f on f.org_id = p_org and f.root_id = s.root_id) k
    join log_entries e on e.org_id = p_org and e.session_id = k.session_id and e.id = k.id
    left join hits h on h.session_id = e.session_id and h.position = e.position and h.revision = e.revision);
end $$;

-- Takes the text out of these entries, and of every summary above them. How many that were.
create function earshot.erase_entries(p_org bigint, p_entries earshot.entry_part[]) returns integer
language plpgsql volatile as $$
declare
  entries integer;
  summaries integer;
begin
  update log_entries e
  set blocks = erased_blocks(e.blocks, p.blocks), envelopes = erased_envelopes(e.envelopes, p.blocks),
    erased = case when p.blocks is null then 'whole' else 'part' end
  from unnest(p_entries) p
  where e.org_id = p_org and e.session_id = p.session_id and e.position = p.pos and e.revision = p.revision
    and e.erased is distinct from 'whole';
  get diagnostics entries = row_count;
  update log_summaries s set body = '', stale_at = s.change
  from (select p.session_id, array_agg(distinct p.pos) as positions from unnest(p_entries) p group by p.session_id) n
  where s.org_id = p_org and s.session_id = n.session_id and s.positions && n.positions and s.body <> '';
  get diagnostics summaries = row_count;
  return entries + summaries;
end $$;

-- The same of what waits to be let into a log: what came from what is gone, or was such an entry elsewhere, what a person said, or
-- all of some sessions.
create function earshot.erase_mail(p_org bigint, p_gone earshot.source[], p_entries earshot.entry_part[] default '{}',
  p_person text default null, p_sessions uuid[] default '{}') returns integer
language plpgsql volatile as $$
declare
  letters integer;
begin
  with hits as materialized (
    select m.session_id, m.number,
      case when bool_and(s.block is not null) then array_agg(distinct s.block) end as blocks
    from log_mail m
    cross join lateral jsonb_to_recordset(m.sources) as s(block integer, conversation_id bigint, seq bigint)
    join unnest(p_gone) g on g.conversation_id = s.conversation_id and (g.to_seq is null or g.from_seq = s.seq)
    where m.org_id = p_org
    group by m.session_id, m.number
  ), letters as materialized (
    select m.session_id, m.number, h.session_id is not null as hit, h.blocks,
      (m.role = 'user' and m.participant = p_person) is true or m.session_id = any (p_sessions) as whole,
      exists (select from unnest(p_entries) e where e.id = m.id) as elsewhere
    from log_mail m
    left join hits h on h.session_id = m.session_id and h.number = m.number
    where m.org_id = p_org
  )
  update log_mail m set blocks = erased_blocks(m.blocks, case when not l.whole then l.blocks end)
  from letters l
  where m.org_id = p_org and m.session_id = l.session_id and m.number = l.number and (l.hit or l.whole or l.elsewhere);
  get diagnostics letters = row_count;
  return letters;
end $$;

-- Holds deliveries that wait, each on record, and takes the bytes of those that are kept for another try.
create function earshot.erase_payloads(p_org bigint, p_deliveries uuid[], p_code text, p_now timestamptz) returns integer
language plpgsql volatile as $$
declare
  waiting constant text[] := array['waiting', 'scheduled', 'cleared', 'claimed'];
  touched uuid[];
begin
  touched := array(
    select d.id from deliveries d
    where d.org_id = p_org and d.id = any (p_deliveries) and (d.payload is not null or d.status = any (waiting))
    order by d.id for no key update);
  with held as (
    update deliveries d set status = 'held', code = p_code, payload = null
    where d.org_id = p_org and d.id = any (touched) and d.status = any (waiting)
    returning d.id, d.turn_id, d.grant_id, d.payload_sha256, d.audience_hash, d.policy_revision
  )
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, delivery_id, subject_sha256,
    audience_hash, policy_revision, detail)
  select p_org, gen_random_uuid(), p_now, 'erase', 'refused', p_code, h.turn_id, h.grant_id, h.id, h.payload_sha256,
    h.audience_hash, h.policy_revision, '{"by": "gateway"}'
  from held h;
  update deliveries d set payload = null where d.org_id = p_org and d.id = any (touched) and d.payload is not null;
  return cardinality(touched);
end $$;

-- Puts on record that something was erased, of what and how much, never what.
create function earshot.record_erasure(p_org bigint, p_of text, p_count integer, p_now timestamptz) returns void
language sql volatile as $$
  insert into earshot.decisions (org_id, id, decided_at, kind, verdict, items, detail)
  values (p_org, gen_random_uuid(), p_now, 'erase', 'allowed', p_count, jsonb_build_object('of', p_of))
$$;

-- Erases what was made from what is gone. Again, it finds nothing.
create function earshot.erase_made_from(p_org bigint, p_gone earshot.source[], p_of text) returns void
language plpgsql volatile as $$
declare
  f record;
  t timestamptz;
  texts integer;
  answers integer;
  payloads integer;
  parts earshot.entry_part[];
  entries integer;
  summaries integer;
begin
  f := hold_for_erasure(p_org, p_gone);
  t := clock_timestamp();
  -- What moves revisions first.
  update artifacts a set state = 'deleted' from unnest(f.texts) g
  where a.org_id = p_org and a.conversation_id = g.conversation_id and a.seq = g.from_seq and a.state = 'live';
  get diagnostics texts = row_count;
  update messages m set body = '' where m.org_id = p_org and m.delivery_id = any (f.made) and m.body <> '';
  get diagnostics answers = row_count;
  -- The code is that of a release: a turn that cannot stand comes before its sources.
  payloads := erase_payloads(p_org, array(select d.id from deliveries d where d.org_id = p_org and d.turn_id = any (f.started)),
    'trigger_out_of_scope', t);
  payloads := payloads + erase_payloads(p_org, f.made, 'source_revoked', t);
  parts := entries_from(p_org, p_gone);
  entries := erase_entries(p_org, parts) + erase_mail(p_org, p_gone, parts);
  update log_summaries s set body = '', stale_at = s.change
  from (
    select x.session_id, x.summary_id from unnest(p_gone) g
    join log_summary_sources x on x.org_id = p_org and x.conversation_id = g.conversation_id and x.seq = g.from_seq
    where g.to_seq is not null
    union
    select x.session_id, x.summary_id from unnest(p_gone) g
    join log_summary_sources x on x.org_id = p_org and x.conversation_id = g.conversation_id
    where g.to_seq is null) n
  where s.org_id = p_org and s.session_id = n.session_id and s.id = n.summary_id and s.body <> '';
  get diagnostics summaries = row_count;
  if texts + answers + payloads + entries + summaries > 0 then
    perform record_erasure(p_org, p_of, texts + answers + payloads + entries + summaries, t);
  end if;
end $$;

-- Enters an organization for the length of a trigger, also for whoever row security does not hold. What it gives is to be
-- set again at the end.
create function earshot.enter_for_erasure(p_org bigint) returns text
language plpgsql volatile as $$
declare
  entered constant text := coalesce(current_setting('earshot.organization', true), '');
  ignored text;
begin
  ignored := set_config('earshot.organization', p_org::text, true);
  return entered;
end $$;

-- The messages, or artifacts, that a statement deleted: all at once.
create function earshot.messages_erased() returns trigger
language plpgsql security definer set search_path = earshot, pg_temp as $$
declare
  org bigint;
  entered text;
  gone earshot.source[];
begin
  for org in select distinct n.org_id from written n where n.state = 'deleted' or (n.delivery_id is not null and n.body = '') loop
    entered := enter_for_erasure(org);
    gone := array(
      select row(n.conversation_id, n.seq, n.seq, null)::source from written n
      where n.org_id = org and (n.state = 'deleted'
        or (n.delivery_id is not null and n.body = '' and rests_on_erased(org, n.delivery_id))));
    delete from message_embeds e using unnest(gone) g
    where e.org_id = org and e.conversation_id = g.conversation_id and e.seq = g.from_seq;
    perform erase_made_from(org, gone, 'message');
    perform set_config('earshot.organization', entered, true);
  end loop;
  return null;
end $$;
create trigger erased after update on earshot.messages referencing new table as written
  for each statement execute function earshot.messages_erased();

create function earshot.artifacts_erased() returns trigger
language plpgsql security definer set search_path = earshot, pg_temp as $$
declare
  org bigint;
  entered text;
begin
  for org in select distinct n.org_id from written n where n.state = 'deleted' loop
    entered := enter_for_erasure(org);
    perform erase_made_from(org, array(
      select row(n.conversation_id, n.seq, n.seq, null)::source from written n where n.org_id = org and n.state = 'deleted'),
      'artifact');
    perform set_config('earshot.organization', entered, true);
  end loop;
  return null;
end $$;
create trigger erased after update on earshot.artifacts referencing new table as written
  for each statement execute function earshot.artifacts_erased();

-- All that is in a conversation, and whatever else was kept for it: an entry without a source counts as the destination's own.
create function earshot.erase_conversation(p_org bigint, p_conversation bigint) returns void
language plpgsql volatile as $$
declare
  whole constant earshot.source[] := array[row(p_conversation, 1, null, null)::source];
  t timestamptz;
  logs uuid[];
begin
  perform hold_for_erasure(p_org, whole);
  t := clock_timestamp();
  perform erase_payloads(p_org, array(
    select d.id from deliveries d where d.org_id = p_org and d.destination_id = p_conversation
      and (d.payload is not null or d.status in ('waiting', 'scheduled', 'cleared', 'claimed'))), 'destination_closed', t);
  delete from late_messages l where l.org_id = p_org and l.conversation_id = p_conversation;
  update messages m set state = 'deleted', revision = m.revision + 1
  where m.org_id = p_org and m.conversation_id = p_conversation and m.state <> 'deleted';
  update artifacts a set state = 'deleted'
  where a.org_id = p_org and a.conversation_id = p_conversation and a.state = 'live';
  perform erase_made_from(p_org, whole, 'conversation');
  logs := array(select s.id from sessions s where s.org_id = p_org and s.conversation_id = p_conversation);
  perform erase_entries(p_org, array(
    select row(e.session_id, e.position, e.revision, e.id, null)::entry_part from log_entries e
    where e.org_id = p_org and e.session_id = any (logs)));
  perform erase_mail(p_org, '{}', p_sessions => logs);
end $$;

create function earshot.conversation_erased() returns trigger
language plpgsql security definer set search_path = earshot, pg_temp as $$
declare
  entered constant text := enter_for_erasure(new.org_id);
begin
  perform erase_conversation(new.org_id, new.id);
  perform set_config('earshot.organization', entered, true);
  return null;
end $$;
-- After what is posted of it was taken out, which needs the terms: triggers run in the order of their names.
create trigger text_erased after update on earshot.conversations for each row
  when (new.deleted and not old.deleted)
  execute function earshot.conversation_erased();

-- Erases what a user said, as much as is asked for at most of messages and of entries of logs. How much it was: at 0 there is
-- nothing left.
create function earshot.erase_said(p_org bigint, p_user bigint, p_most integer) returns integer
language plpgsql volatile as $$
declare
  person constant text := (select u.external_id from users u where u.org_id = p_org and u.id = p_user);
  said constant earshot.source[] := array(
    select row(m.conversation_id, m.seq, m.seq, null)::source from messages m
    where m.org_id = p_org and m.author_user_id = p_user and m.state <> 'deleted'
    order by m.conversation_id, m.seq limit p_most);
  erased integer := 0;
begin
  perform pg_advisory_xact_lock(erasure_lock(), (p_org % 2147483647)::integer);
  perform hold_for_erasure(p_org, said);
  update messages m set state = 'deleted', revision = m.revision + 1 from unnest(said) g
  where m.org_id = p_org and m.conversation_id = g.conversation_id and m.seq = g.from_seq and m.state <> 'deleted';
  get diagnostics erased = row_count;
  update late_messages l set message = null
  where l.org_id = p_org and l.message ->> 'authorUser' = person;
  perform erase_mail(p_org, '{}', p_person => person);
  return erased + erase_entries(p_org, array(
    select row(e.session_id, e.position, e.revision, e.id, null)::entry_part from log_entries e
    where e.org_id = p_org and e.role = 'user' and e.participant = person and e.erased is distinct from 'whole'
    limit p_most));
end $$;

create function earshot.user_erased() returns trigger
language plpgsql security definer set search_path = earshot, pg_temp as $$
declare
  entered constant text := enter_for_erasure(new.org_id);
begin
  perform pg_advisory_xact_lock(erasure_lock(), (new.org_id % 2147483647)::integer);
  while erase_said(new.org_id, new.id, 1000) > 0 loop
    null;
  end loop;
  -- Whoever is just writing a message by this user has a conversation locked, and then asks for the user. It comes before; where
  -- it has left something, the whole is tried again (40001), rather than wait for that conversation with the user locked.
  perform from users u where u.org_id = new.org_id and u.id = new.id for update;
  if exists (select from messages m where m.org_id = new.org_id and m.author_user_id = new.id and m.state <> 'deleted')
    or exists (select from late_messages l where l.org_id = new.org_id and l.message ->> 'authorUser' = new.external_id) then
    raise exception 'a message came while its author was being deleted' using errcode = '40001';
  end if;
  perform record_erasure(new.org_id, 'user', null, clock_timestamp());
  perform set_config('earshot.organization', entered, true);
  return null;
end $$;
create trigger text_erased after update on earshot.users for each row
  when (new.deleted and not old.deleted)
  execute function earshot.user_erased();

-- Whatever is left in an organization.
create function earshot.organization_erased() returns trigger
language plpgsql security definer set search_path = earshot, pg_temp as $$
declare
  entered constant text := enter_for_erasure(new.id);
  place record;
begin
  perform pg_advisory_xact_lock(erasure_lock(), (new.id % 2147483647)::integer);
  for place in select c.id from conversations c where c.org_id = new.id and not c.deleted order by c.id loop
    update conversations c set deleted = true where c.org_id = new.id and c.id = place.id;
    delete from memberships m where m.org_id = new.id and m.conversation_id = place.id;
    delete from unresolved_members n where n.org_id = new.id and n.conversation_id = place.id;
  end loop;
  update users u set deleted = true, status = 'deactivated' where u.org_id = new.id and not u.deleted;
  update stops s set reason = null where s.org_id = new.id and s.reason is not null;
  update deliveries d set reason = null where d.org_id = new.id and d.reason is not null;
  perform record_erasure(new.id, 'organization', null, clock_timestamp());
  perform set_config('earshot.organization', entered, true);
  return null;
end $$;
create trigger text_erased after update on earshot.organizations for each row
  when (new.deleted and not old.deleted)
  execute function earshot.organization_erased();

-- Deletes a user, who reads nothing from now on: the name goes, and all that the user said.
create function earshot.delete_user(p_organization text, p_user text) returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
begin
  -- Before the user's row, as an erasure that is under way has it.
  perform pg_advisory_xact_lock(erasure_lock(), (org % 2147483647)::integer);
  update users u set status = 'deactivated', deleted = true, name = null
  where u.org_id = org and u.external_id = p_user and not u.deleted;
  return case when found then 'deleted' else 'not_found' end;
end $$;

-- Deletes an organization: suspended and empty, its ids stay.
create function earshot.delete_organization(p_organization text) returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
begin
  perform pg_advisory_xact_lock(erasure_lock(), (org % 2147483647)::integer);
  update organizations o set status = 'suspended', deleted = true where o.id = org and not o.deleted;
  return case when found then 'deleted' else 'not_found' end;
end $$;

-- Erases ahead of a deletion, a bounded part in each transaction, so that none takes long and nobody waits long for its locks:
-- what a user said, or what is in a conversation or in an organization. How much it was; at 0 the deletion has little left.
create function earshot.erase_ahead(p_organization text, p_kind text, p_target text, p_most integer) returns integer
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  target bigint;
  place record;
  said earshot.source[];
begin
  if p_kind = 'user' then
    target := (select u.id from users u where u.org_id = org and u.external_id = p_target and not u.deleted);
    return case when target is null then 0 else erase_said(org, target, p_most) end;
  end if;
  select c.id, c.external_id, c.head into place from conversations c
  where c.org_id = org and not c.deleted and (p_kind = 'organization' or c.external_id = p_target)
  order by c.id limit 1;
  -- A small one is left to its deletion.
  if place.head > p_most then
    said := array(
      select row(m.conversation_id, m.seq, m.seq, null)::source from messages m
      where m.org_id = org and m.conversation_id = place.id and m.state <> 'deleted' order by m.seq limit p_most);
    perform hold_for_erasure(org, said);
    update messages m set state = 'deleted', revision = m.revision + 1 from unnest(said) g
    where m.org_id = org and m.conversation_id = g.conversation_id and m.seq = g.from_seq and m.state <> 'deleted';
    if p_kind = 'conversation' or cardinality(said) > 0 then
      return cardinality(said);
    end if;
  end if;
  if p_kind = 'organization' and place.id is not null then
    perform delete_conversation(p_organization, place.external_id);
    return 1;
  end if;
  if p_kind = 'organization' then
    for target in
      select u.id from users u where u.org_id = org and not u.deleted order by u.id limit least(p_most, 100)
    loop
      perform delete_user(p_organization, (select u.external_id from users u where u.org_id = org and u.id = target));
    end loop;
    return case when found then 1 else 0 end;
  end if;
  return 0;
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array['messages_erased()', 'artifacts_erased()', 'conversation_erased()', 'user_erased()',
    'organization_erased()']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
  end loop;
  foreach signature in array array['delete_user(text, text)', 'delete_organization(text)',
    'erase_ahead(text, text, text, integer)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
