-- The one writer of conversations, memberships and messages. Each takes the conversation's row lock
-- first: sequences are gapless and their order is commit order, and a floor read under the lock has
-- every earlier message below it and every later one above it.
--
-- A refusal is a code in the answer; nothing is written then.

-- The conversation of this name, its row locked; all null where there is none.
create function earshot.lock_conversation(p_org bigint, p_name text) returns earshot.conversations
language sql volatile as $$
  select * from earshot.conversations c
  where c.org_id = p_org and c.external_id = p_name and not c.deleted for no key update
$$;

create function earshot.put_conversation(p_organization text, p_fact jsonb) returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  was earshot.conversations;
  wanted_project bigint;
  wanted_owner bigint;
  opens boolean;
  floor_from bigint;
begin
  if org is null then
    return 'not_found';
  end if;
  if p_fact ? 'project' then
    select p.id into wanted_project from projects p where p.org_id = org and p.external_id = p_fact ->> 'project';
    if not found then
      return 'unknown_project';
    end if;
  end if;
  if p_fact ? 'owner' then
    select u.id into wanted_owner from users u where u.org_id = org and u.external_id = p_fact ->> 'owner';
    if not found then
      return 'unknown_owner';
    end if;
  end if;

  insert into conversations (org_id, external_id, kind, visibility, project_id, owner_id, ai_thread,
    external_readers, archived, staged, default_floor, title)
  values (org, p_fact ->> 'id', p_fact ->> 'kind', p_fact ->> 'visibility', wanted_project, wanted_owner,
    (p_fact ->> 'aiThread')::boolean, (p_fact ->> 'externalReaders')::boolean, (p_fact ->> 'archived')::boolean,
    coalesce((p_fact ->> 'staged')::boolean, false), coalesce((p_fact ->> 'defaultFloor')::bigint, 1),
    p_fact ->> 'title')
  on conflict (org_id, external_id) do nothing;
  if found then
    return 'created';
  end if;

  select * into was from conversations c
  where c.org_id = org and c.external_id = p_fact ->> 'id' for no key update;
  if was.deleted then
    -- An external id is never used again.
    return 'conflict';
  end if;
  -- Opening to people who had no route lowers nobody's floor by itself: they begin after the head,
  -- unless the caller says otherwise by name.
  opens := p_fact ->> 'visibility' <> 'members'
    and row(was.visibility, was.project_id)
        is distinct from row(p_fact ->> 'visibility', wanted_project)
    and not (was.visibility = 'organization' and p_fact ->> 'visibility' = 'organization');
  floor_from := coalesce((p_fact ->> 'defaultFloor')::bigint,
    case when opens and not was.staged then was.head + 1 else was.default_floor end);
  update conversations c
  set kind = p_fact ->> 'kind', visibility = p_fact ->> 'visibility', project_id = wanted_project,
    owner_id = wanted_owner, ai_thread = (p_fact ->> 'aiThread')::boolean,
    external_readers = (p_fact ->> 'externalReaders')::boolean, archived = (p_fact ->> 'archived')::boolean,
    default_floor = floor_from, title = p_fact ->> 'title',
    newest_join_at = case when (opens or floor_from > c.default_floor) and not c.staged and floor_from > 1
      then greatest(c.newest_join_at, clock_timestamp()) else c.newest_join_at end
  where c.org_id = org and c.id = was.id
    and row(c.kind, c.visibility, c.project_id, c.owner_id, c.ai_thread, c.external_readers, c.archived,
            c.default_floor, c.title)
        is distinct from row(p_fact ->> 'kind', p_fact ->> 'visibility', wanted_project, wanted_owner,
            (p_fact ->> 'aiThread')::boolean, (p_fact ->> 'externalReaders')::boolean,
            (p_fact ->> 'archived')::boolean, floor_from, p_fact ->> 'title');
  return case when found then 'updated' else 'unchanged' end;
end $$;

-- Ends the staging of an import. One that is open already stays so.
create function earshot.open_conversation(p_organization text, p_conversation text) returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  target bigint;
begin
  target := (lock_conversation(org, p_conversation)).id;
  if target is null then
    return 'not_found';
  end if;
  update conversations c set staged = false where c.org_id = org and c.id = target and c.staged;
  return case when found then 'opened' else 'unchanged' end;
end $$;

-- Deletes a conversation and, by trigger (0026), erases what was said in it. Its id is not used again.
create function earshot.delete_conversation(p_organization text, p_conversation text) returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  target bigint;
begin
  perform hold_for_erasure(org, conversation_named_whole(org, p_conversation));
  target := (lock_conversation(org, p_conversation)).id;
  if target is null then
    return 'not_found';
  end if;
  update conversations c set deleted = true, title = null where c.org_id = org and c.id = target;
  delete from memberships m where m.org_id = org and m.conversation_id = target;
  delete from unresolved_members n where n.org_id = org and n.conversation_id = target;
  return 'deleted';
end $$;

-- The floor that a history option gives to somebody who joins now, under the row lock.
create function earshot.joining_floor(p_org bigint, p_conversation earshot.conversations, p_member jsonb)
returns bigint
language sql stable as $$
  select case
    when p_member ? 'fromSeq' then (p_member ->> 'fromSeq')::bigint
    -- Below it: every message that the source dates before that moment, wherever it stands.
    when p_member ? 'fromTime' then coalesce((
      select max(m.seq) from earshot.messages m
      where m.org_id = p_org and m.conversation_id = (p_conversation).id
        and m.sent_at < (p_member ->> 'fromTime')::timestamptz), 0) + 1
    when p_member ->> 'history' = 'all' then 1
    when p_member ->> 'history' = 'from_join' then (p_conversation).head + 1
    else 9223372036854775807
  end
$$;

-- Puts members, or replaces the whole set. Somebody who is a member keeps the floor unless a
-- sequence is named; somebody whose membership had expired, or who left, joins anew. A user whom
-- nobody knows makes the audience unlistable until a later write settles it.
create function earshot.put_members(p_organization text, p_conversation text, p_members jsonb, p_replace boolean)
returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  t constant timestamptz := clock_timestamp();
  c earshot.conversations;
  member jsonb;
  person bigint;
  expiry timestamptz;
  kept earshot.memberships;
  floor_from bigint;
  changed boolean := false;
begin
  c := lock_conversation(org, p_conversation);
  if c.id is null then
    return 'not_found';
  end if;
  if p_replace then
    delete from memberships m using users u
    where m.org_id = org and m.conversation_id = c.id and u.org_id = org and u.id = m.user_id
      and not p_members @> jsonb_build_array(jsonb_build_object('user', u.external_id));
    changed := found;
    delete from unresolved_members n
    where n.org_id = org and n.conversation_id = c.id
      and not p_members @> jsonb_build_array(jsonb_build_object('user', n.external_id));
    changed := changed or found;
  end if;
  for member in select value from jsonb_array_elements(p_members) order by value ->> 'user' collate "C" loop
    expiry := (member ->> 'expiresAt')::timestamptz;
    select u.id into person from users u where u.org_id = org and u.external_id = member ->> 'user' and not u.deleted;
    if not found then
      insert into unresolved_members (org_id, conversation_id, external_id)
      values (org, c.id, member ->> 'user') on conflict do nothing;
      changed := changed or found;
      continue;
    end if;
    delete from unresolved_members n
    where n.org_id = org and n.conversation_id = c.id and n.external_id = member ->> 'user';
    changed := changed or found;
    select * into kept from memberships m
    where m.org_id = org and m.conversation_id = c.id and m.user_id = person
      and (m.expires_at is null or m.expires_at > t);
    floor_from := case when found and not member ? 'fromSeq' then kept.floor
                       else joining_floor(org, c, member) end;
    insert into memberships as m (org_id, user_id, conversation_id, floor, expires_at)
    values (org, person, c.id, floor_from, expiry)
    on conflict (org_id, user_id, conversation_id) do update
    set floor = excluded.floor, expires_at = excluded.expires_at
    where row(m.floor, m.expires_at) is distinct from row(excluded.floor, excluded.expires_at);
    if found then
      changed := true;
      -- Nothing can slip above a floor that gives everything, or nothing.
      if kept.floor is distinct from floor_from and floor_from > 1 and floor_from < 9223372036854775807 then
        update conversations x
        set newest_join_at = greatest(x.newest_join_at, coalesce((member ->> 'fromTime')::timestamptz, t))
        where x.org_id = org and x.id = c.id;
      end if;
    end if;
  end loop;
  return case when changed then 'updated' else 'unchanged' end;
end $$;

-- Leaving removes the membership at once; nothing of it comes back by itself.
create function earshot.remove_member(p_organization text, p_conversation text, p_user text) returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  c bigint;
  gone integer;
  gone_unknown integer;
begin
  c := (lock_conversation(org, p_conversation)).id;
  if c is null then
    return 'not_found';
  end if;
  delete from memberships m using users u
  where m.org_id = org and m.conversation_id = c and u.org_id = org and u.id = m.user_id
    and u.external_id = p_user;
  get diagnostics gone = row_count;
  delete from unresolved_members n where n.org_id = org and n.conversation_id = c and n.external_id = p_user;
  get diagnostics gone_unknown = row_count;
  return case when gone + gone_unknown > 0 then 'removed' else 'unchanged' end;
end $$;

create function earshot.write_embeds(p_org bigint, p_conversation bigint, p_seq bigint, p_message jsonb)
returns void
language sql volatile as $$
  delete from earshot.message_embeds e
  where e.org_id = p_org and e.conversation_id = p_conversation and e.seq = p_seq;
  insert into earshot.message_embeds (org_id, conversation_id, seq, position, target_conversation, target_message)
  select p_org, p_conversation, p_seq, e.position, e.value ->> 'conversation', e.value ->> 'message'
  from jsonb_array_elements(coalesce(p_message -> 'embeds', '[]')) with ordinality as e(value, position);
$$;

-- Appends, edits and deletes messages of one conversation, in the order given. Answers one row each:
-- its sequence and what became of it. A message that is known is edited if its text differs, unless
-- the source dates the edit no later than the one that is stored; a deleted one stays deleted. A new
-- one that was sent before the newest join is kept apart, unreadable, until it is admitted.
create function earshot.put_messages(p_organization text, p_conversation text, p_messages jsonb, p_admit_late boolean,
  out code text, out results jsonb)
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  t constant timestamptz := clock_timestamp();
  c earshot.conversations;
  message jsonb;
  was earshot.messages;
  sent timestamptz;
  edited timestamptz;
  person bigint;
  persona bigint;
  origin uuid;
  delivered earshot.deliveries;
  head_now bigint;
  outcome text;
  is_gone boolean;
begin
  perform hold_for_erasure(org, messages_named(org, p_conversation, array(
    select value ->> 'id' from jsonb_array_elements(p_messages) where (value ->> 'deleted')::boolean)));
  c := lock_conversation(org, p_conversation);
  if c.id is null then
    code := 'not_found';
    return;
  end if;
  results := '[]';
  head_now := c.head;
  for message in select value from jsonb_array_elements(p_messages) loop
    sent := (message ->> 'sentAt')::timestamptz;
    edited := (message ->> 'editedAt')::timestamptz;
    select * into was from messages m
    where m.org_id = org and m.conversation_id = c.id and m.external_id = message ->> 'id';
    if found then
      if was.state = 'deleted' then
        outcome := 'gone';
      elsif (message ->> 'deleted')::boolean then
        perform write_embeds(org, c.id, was.seq, '{}');
        update messages m set body = '', state = 'deleted', revision = m.revision + 1
        where m.org_id = org and m.conversation_id = c.id and m.seq = was.seq;
        outcome := 'deleted';
      elsif was.body <> message ->> 'body' and (edited is null or was.edited_at is null or edited > was.edited_at) then
        perform write_embeds(org, c.id, was.seq, message);
        -- Where a delivery made this edit, the message is from now on what came out of that one.
        origin := (delivery_of_text(org, c.id, was.external_id, message ->> 'body', true)).id;
        perform from deliveries d where d.org_id = org and d.id = coalesce(origin, was.delivery_id) for share;
        update messages m
        set body = message ->> 'body', state = 'edited', revision = m.revision + 1, edited_at = coalesce(edited, t),
          delivery_id = coalesce(origin, m.delivery_id),
          delivered_revision = case when origin is null then m.delivered_revision else m.revision + 1 end
        where m.org_id = org and m.conversation_id = c.id and m.seq = was.seq;
        outcome := 'edited';
      else
        outcome := 'unchanged';
      end if;
      results := results || jsonb_build_object('id', was.external_id, 'seq', was.seq::text, 'outcome', outcome);
      continue;
    end if;

    person := null;
    persona := null;
    is_gone := coalesce((message ->> 'deleted')::boolean, false);
    if message ? 'authorUser' then
      -- Nothing is kept any more of what a user said who is deleted. The lock is the one that naming the author takes: a
      -- deletion that is under way comes first.
      select u.id, is_gone or u.deleted into person, is_gone from users u
      where u.org_id = org and u.external_id = message ->> 'authorUser' for key share;
    elsif message ? 'authorPersona' then
      select a.id into persona from personas a where a.org_id = org and a.external_id = message ->> 'authorPersona';
    end if;
    if (message ? 'authorUser' and person is null) or (message ? 'authorPersona' and persona is null) then
      -- Nothing of this batch is kept: an author who is dropped silently would widen the message.
      raise exception 'unknown author' using errcode = '23503', constraint = 'messages_author';
    end if;
    if not c.staged and not p_admit_late and sent < c.newest_join_at then
      -- The newest word of the source is the one that could be admitted; what was deleted stays deleted.
      insert into late_messages as l (org_id, conversation_id, external_id, message, sent_at)
      values (org, c.id, message ->> 'id', case when is_gone then null else message end, sent)
      on conflict (org_id, conversation_id, external_id) do update
      set message = excluded.message, sent_at = excluded.sent_at
      where l.message is not null;
      outcome := case when not found or (is_gone and (message ->> 'deleted')::boolean is not true) then 'gone'
        when is_gone then 'deleted' else 'late' end;
      results := results || jsonb_build_object('id', message ->> 'id', 'outcome', outcome);
      continue;
    end if;
    -- A message that a delivery became keeps that delivery's lineage, whichever is reported first.
    delivered := delivery_of_text(org, c.id, message ->> 'id', message ->> 'body', false);
    -- An erasure of what it was made from is under way and comes first, or waits for this message.
    perform from deliveries d where d.org_id = org and d.id = delivered.id for share;
    head_now := head_now + 1;
    insert into messages (org_id, conversation_id, seq, external_id, kind, author_user_id, author_persona_id,
      body, state, reply_to, sent_at, edited_at, delivery_id, delivered_revision)
    values (org, c.id, head_now, message ->> 'id', message ->> 'kind', person, persona,
      case when is_gone then '' else message ->> 'body' end,
      case when is_gone then 'deleted' when edited is not null then 'edited' else 'live' end,
      message ->> 'replyTo', sent, edited, delivered.id, case when delivered.edits is not null then 1 end);
    if not is_gone then
      perform write_embeds(org, c.id, head_now, message);
    end if;
    outcome := case when is_gone and (message ->> 'deleted')::boolean is not true then 'gone' else 'appended' end;
    results := results || jsonb_build_object('id', message ->> 'id', 'seq', head_now::text, 'outcome', outcome);
  end loop;
  update conversations x set head = head_now where x.org_id = org and x.id = c.id and x.head <> head_now;
end $$;

-- Deletes one message: its text goes, wherever it is (0026), its sequence stays.
create function earshot.delete_message(p_organization text, p_conversation text, p_message text) returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  c bigint;
  target bigint;
  was_late boolean;
begin
  perform hold_for_erasure(org, messages_named(org, p_conversation, array[p_message]));
  c := (lock_conversation(org, p_conversation)).id;
  if c is null then
    return 'not_found';
  end if;
  update late_messages l set message = null
  where l.org_id = org and l.conversation_id = c and l.external_id = p_message and l.message is not null;
  was_late := found;
  select m.seq into target from messages m
  where m.org_id = org and m.conversation_id = c and m.external_id = p_message and m.state <> 'deleted';
  if not found then
    return case when was_late then 'deleted' else 'not_found' end;
  end if;
  perform write_embeds(org, c, target, '{}');
  update messages m set body = '', state = 'deleted', revision = m.revision + 1
  where m.org_id = org and m.conversation_id = c and m.seq = target;
  return 'deleted';
end $$;

-- Late messages of a conversation: which, and when; not what they say.
create function earshot.list_late(p_organization text, p_conversation text)
returns table (id text, sent_at text, arrived_at text)
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
begin
  return query select l.external_id::text, rfc3339(l.sent_at), rfc3339(l.arrived_at)
  from late_messages l join conversations c on c.org_id = l.org_id and c.id = l.conversation_id
  where l.org_id = org and c.external_id = p_conversation and not c.deleted and l.message is not null
  order by l.sent_at, l.external_id;
end $$;

-- Admits a late message: it is appended at the head, where everybody who reads there now sees it.
create function earshot.admit_late(p_organization text, p_conversation text, p_message text) returns text
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  target bigint;
  kept jsonb;
  refusal text;
begin
  -- Under the row lock: a deletion or correction that comes first is seen.
  target := (lock_conversation(org, p_conversation)).id;
  select l.message into kept from late_messages l
  where l.org_id = org and l.conversation_id = target and l.external_id = p_message and l.message is not null;
  if not found then
    return 'not_found';
  end if;
  refusal := (select p.code from put_messages(p_organization, p_conversation, jsonb_build_array(kept), true) p);
  if refusal is not null then
    return refusal;
  end if;
  delete from late_messages l
  where l.org_id = org and l.conversation_id = target and l.external_id = p_message;
  return 'admitted';
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array['put_conversation(text, jsonb)', 'open_conversation(text, text)',
    'delete_conversation(text, text)', 'put_members(text, text, jsonb, boolean)',
    'remove_member(text, text, text)', 'put_messages(text, text, jsonb, boolean)',
    'delete_message(text, text, text)', 'list_late(text, text)', 'admit_late(text, text, text)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
