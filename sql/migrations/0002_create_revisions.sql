-- Revisions: every change to who can read something, or from where, moves one in the same
-- transaction, by every writer (a trigger, not a habit). They stand apart from the rows they speak
-- of, so that appending a message contends with none, and a delivery knows what to lock.

create table earshot.organization_revisions (
  org_id bigint primary key references earshot.organizations,
  revision bigint not null default 1
);
create table earshot.project_revisions (
  org_id bigint not null,
  project_id bigint not null,
  revision bigint not null default 1,
  primary key (org_id, project_id),
  foreign key (org_id, project_id) references earshot.projects
);
create table earshot.conversation_revisions (
  org_id bigint not null,
  conversation_id bigint not null,
  revision bigint not null default 1,
  primary key (org_id, conversation_id),
  foreign key (org_id, conversation_id) references earshot.conversations
);

do $$
declare
  name text;
begin
  foreach name in array array['organization_revisions', 'project_revisions', 'conversation_revisions']
  loop
    execute format('alter table earshot.%I enable row level security', name);
    execute format('alter table earshot.%I force row level security', name);
    execute format('create policy organization on earshot.%I
      using (org_id = (select earshot.current_organization()))
      with check (org_id = (select earshot.current_organization()))', name);
    -- The triggers run as whoever writes: what may change a fact may move its revision.
    execute format('grant select, insert, update on earshot.%I to earshot_runtime, earshot_scoped', name);
  end loop;
end $$;

-- Moves one revision. A writer that row security keeps from the revision is kept from the change too.
create function earshot.move_revision(p_kind text, p_org bigint, p_id bigint) returns void
language plpgsql set search_path = earshot, pg_temp as $$
begin
  case p_kind
    when 'organization' then
      update organization_revisions set revision = revision + 1 where org_id = p_org;
    when 'project' then
      update project_revisions set revision = revision + 1 where org_id = p_org and project_id = p_id;
    when 'conversation' then
      update conversation_revisions set revision = revision + 1
      where org_id = p_org and conversation_id = p_id;
  end case;
  if not found then
    raise exception 'no revision to move for % %', p_kind, p_id;
  end if;
end $$;
grant execute on function earshot.move_revision(text, bigint, bigint) to earshot_runtime, earshot_scoped;

create function earshot.start_revision() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  case tg_table_name
    when 'organizations' then insert into organization_revisions (org_id) values (new.id);
    when 'projects' then insert into project_revisions (org_id, project_id) values (new.org_id, new.id);
    when 'conversations' then
      insert into conversation_revisions (org_id, conversation_id) values (new.org_id, new.id);
  end case;
  return null;
end $$;

create trigger start_revision after insert on earshot.organizations
  for each row execute function earshot.start_revision();
create trigger start_revision after insert on earshot.projects
  for each row execute function earshot.start_revision();
create trigger start_revision after insert on earshot.conversations
  for each row execute function earshot.start_revision();

create function earshot.organization_changed() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  case tg_table_name
    when 'organizations' then perform move_revision('organization', new.id, null);
    when 'users', 'personas' then perform move_revision('organization', new.org_id, null);
    else perform move_revision('organization', coalesce(new.org_id, old.org_id), null);
  end case;
  return null;
end $$;

create trigger moved after update on earshot.organizations for each row
  when (row(old.status, old.guard, old.policy_revision)
        is distinct from row(new.status, new.guard, new.policy_revision))
  execute function earshot.organization_changed();
create trigger moved after update on earshot.users for each row
  when (row(old.kind, old.status) is distinct from row(new.kind, new.status))
  execute function earshot.organization_changed();
create trigger moved after update on earshot.personas for each row
  when (row(old.custody, old.status, old.designated, old.approval)
        is distinct from row(new.custody, new.status, new.designated, new.approval))
  execute function earshot.organization_changed();
create trigger moved after insert or update or delete on earshot.stops for each row
  execute function earshot.organization_changed();

create function earshot.project_changed() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  perform move_revision('project', new.org_id, new.id);
  return null;
end $$;

-- A function of its own: an expression that names a field which the other table lacks is an error,
-- whatever stands before it.
create function earshot.project_members_changed() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  if tg_op <> 'INSERT' then
    perform move_revision('project', old.org_id, old.project_id);
  end if;
  if tg_op <> 'DELETE'
     and (tg_op = 'INSERT' or row(new.org_id, new.project_id) is distinct from row(old.org_id, old.project_id)) then
    perform move_revision('project', new.org_id, new.project_id);
  end if;
  return null;
end $$;

create trigger moved after update on earshot.projects for each row
  when (row(old.status, old.admits_guests) is distinct from row(new.status, new.admits_guests))
  execute function earshot.project_changed();
create trigger moved after insert or update or delete on earshot.project_members for each row
  execute function earshot.project_members_changed();

-- Whatever hangs on a conversation: memberships, unresolved members, changes of its messages.
create function earshot.conversation_part_changed() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  if tg_op <> 'INSERT' then
    perform move_revision('conversation', old.org_id, old.conversation_id);
  end if;
  if tg_op <> 'DELETE'
     and (tg_op = 'INSERT'
          or row(new.org_id, new.conversation_id) is distinct from row(old.org_id, old.conversation_id)) then
    perform move_revision('conversation', new.org_id, new.conversation_id);
  end if;
  return null;
end $$;

create trigger moved after insert or update or delete on earshot.memberships for each row
  execute function earshot.conversation_part_changed();
create trigger moved after insert or update or delete on earshot.unresolved_members for each row
  execute function earshot.conversation_part_changed();
-- Appending changes nobody's reach; edits, deletions and the link to a delivery do.
create trigger moved after delete on earshot.messages for each row
  execute function earshot.conversation_part_changed();
-- Being found by other terms changes nobody's reach either.
create trigger moved_again after update on earshot.messages for each row
  when (row(old.kind, old.author_user_id, old.author_persona_id, old.body, old.revision, old.state, old.reply_to,
            old.sent_at, old.edited_at, old.delivery_id, old.delivered_revision)
        is distinct from
        row(new.kind, new.author_user_id, new.author_persona_id, new.body, new.revision, new.state, new.reply_to,
            new.sent_at, new.edited_at, new.delivery_id, new.delivered_revision))
  execute function earshot.conversation_part_changed();

create function earshot.conversation_changed() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  perform move_revision('conversation', new.org_id, new.id);
  return null;
end $$;

create trigger moved after update on earshot.conversations for each row
  when (row(old.kind, old.visibility, old.project_id, old.owner_id, old.ai_thread, old.ever_shared,
            old.external_readers, old.archived, old.deleted, old.staged, old.default_floor)
        is distinct from
        row(new.kind, new.visibility, new.project_id, new.owner_id, new.ai_thread, new.ever_shared,
            new.external_readers, new.archived, new.deleted, new.staged, new.default_floor))
  execute function earshot.conversation_changed();

-- Ever shared: set here, cleared nowhere. Bots are no readers, so a bot's membership shares nothing
-- until somebody says that the bot is a person.
create function earshot.keep_ever_shared() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  if new.visibility <> 'members' or new.external_readers
     or (tg_op = 'UPDATE' and (old.ever_shared or old.owner_id is distinct from new.owner_id)) then
    new.ever_shared := true;
  end if;
  return new;
end $$;
create trigger ever_shared before insert or update on earshot.conversations
  for each row execute function earshot.keep_ever_shared();

create function earshot.share_by_membership() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  update conversations c set ever_shared = true
  from users u
  where c.org_id = new.org_id and c.id = new.conversation_id and not c.ever_shared
    and u.org_id = new.org_id and u.id = new.user_id and u.kind <> 'bot'
    and c.owner_id is distinct from new.user_id;
  return null;
end $$;
create trigger shared after insert or update on earshot.memberships
  for each row execute function earshot.share_by_membership();

create function earshot.share_by_unknown() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  update conversations set ever_shared = true
  where org_id = new.org_id and id = new.conversation_id and not ever_shared;
  return null;
end $$;
create trigger shared after insert or update on earshot.unresolved_members
  for each row execute function earshot.share_by_unknown();

create function earshot.share_by_unmasking() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  update conversations c set ever_shared = true
  from memberships m
  where m.org_id = new.org_id and m.user_id = new.id
    and c.org_id = m.org_id and c.id = m.conversation_id and not c.ever_shared
    and c.owner_id is distinct from new.id;
  return null;
end $$;
create trigger shared after update on earshot.users for each row
  when (old.kind = 'bot' and new.kind <> 'bot')
  execute function earshot.share_by_unmasking();

-- Whether a membership is of a conversation that others read by other routes: kept for scopes to steer by.
create function earshot.note_other_routes() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  if tg_table_name = 'memberships' then
    new.other_routes := coalesce((select c.visibility <> 'members' from conversations c
      where c.org_id = new.org_id and c.id = new.conversation_id), true);
    return new;
  end if;
  update memberships m set other_routes = new.visibility <> 'members'
  where m.org_id = new.org_id and m.conversation_id = new.id
    and m.other_routes is distinct from (new.visibility <> 'members');
  return null;
end $$;
create trigger other_routes before insert or update on earshot.memberships
  for each row execute function earshot.note_other_routes();
create trigger other_routes after update on earshot.conversations for each row
  when (old.visibility is distinct from new.visibility)
  execute function earshot.note_other_routes();

-- A sequence, once given, names one message for ever, and an id is never used again.
create function earshot.keep_identity() returns trigger
language plpgsql set search_path = earshot, pg_temp as $$
begin
  if tg_table_name = 'messages' then
    if row(new.org_id, new.conversation_id, new.seq, new.external_id)
       is distinct from row(old.org_id, old.conversation_id, old.seq, old.external_id)
       or (old.state = 'deleted' and new.state <> 'deleted') then
      raise exception 'the identity of a message does not change' using errcode = '23514';
    end if;
  elsif row(new.org_id, new.external_id) is distinct from row(old.org_id, old.external_id)
     or (old.deleted and not new.deleted) then
    raise exception 'an id is never used again' using errcode = '23514';
  end if;
  return new;
end $$;
create trigger identity before update on earshot.users
  for each row execute function earshot.keep_identity();
create trigger identity before update on earshot.conversations
  for each row execute function earshot.keep_identity();
create trigger identity before update on earshot.messages
  for each row execute function earshot.keep_identity();

-- The projects that decide who reads these conversations.
create function earshot.projects_of(p_org bigint, p_conversations bigint[]) returns bigint[]
language plpgsql stable as $$
begin
  return array(select distinct c.project_id from conversations c
               where c.org_id = p_org and c.id = any (p_conversations) and c.project_id is not null
               order by c.project_id);
end $$;

-- Locks what decides who reads these conversations. A conversation that moved to another project in
-- between would leave that project unlocked: the whole is tried again (40001).
create function earshot.lock_readability(p_org bigint, p_conversations bigint[]) returns void
language plpgsql volatile as $$
declare
  projects bigint[];
begin
  perform from organization_revisions r where r.org_id = p_org for share;
  projects := projects_of(p_org, p_conversations);
  perform from project_revisions r where r.org_id = p_org and r.project_id = any (projects)
  order by r.project_id for share;
  perform from conversation_revisions r where r.org_id = p_org and r.conversation_id = any (p_conversations)
  order by r.conversation_id for share;
  if projects_of(p_org, p_conversations) <> projects then
    raise exception 'a project changed while it was being locked' using errcode = '40001';
  end if;
end $$;

-- What was shown, or reported, while the locks were waited for may have brought a source of a conversation that
-- they do not hold: the whole is tried again (40001).
create function earshot.require_locked(p_conversations bigint[], p_locked bigint[]) returns void
language plpgsql immutable as $$
begin
  if not p_conversations <@ p_locked then
    raise exception 'a source came while the locks were waited for' using errcode = '40001';
  end if;
end $$;

revoke execute on all functions in schema earshot from public;
