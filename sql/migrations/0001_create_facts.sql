-- The facts that decide access. Every table leads with the organization, and row security by
-- organization is forced on every table that has one (INVARIANT 15).
--
-- Roles: `earshot_runtime` holds the gateway's privileges, `earshot_scoped` owns the functions that
-- read content. Neither can log in, bypass row security or own a table.

revoke all on schema earshot from public;
grant usage on schema earshot to earshot_runtime, earshot_scoped;
-- For the length of this migration: a function's owner needs it at the moment it becomes the owner.
grant create on schema earshot to earshot_scoped;

-- The organization of this transaction. Unset and empty give null, which matches no row.
create function earshot.current_organization() returns bigint
language sql stable parallel safe as $$
  select nullif(current_setting('earshot.organization', true), '')::bigint
$$;
grant execute on function earshot.current_organization() to earshot_runtime, earshot_scoped;

create domain earshot.external_id as text collate "C"
  check (char_length(value) between 1 and 128 and value is nfc normalized
         and value !~ '[\u0001-\u001f\u007f-\u009f]');
create domain earshot.history_floor as bigint check (value >= 1);

create table earshot.organizations (
  id bigint generated always as identity primary key,
  external_id earshot.external_id not null unique,
  status text not null default 'active' check (status in ('active', 'suspended')),
  guard text not null default 'running' check (guard in ('running', 'paused')),
  policy_revision bigint not null default 1,
  text_search regconfig not null default 'pg_catalog.english'
);

create table earshot.users (
  org_id bigint not null references earshot.organizations,
  id bigint generated always as identity,
  external_id earshot.external_id not null,
  kind text not null check (kind in ('member', 'guest', 'bot')),
  status text not null check (status in ('active', 'deactivated')),
  -- Set when the user is deleted: the id is never used again.
  deleted boolean not null default false,
  name text,
  primary key (org_id, id),
  unique (org_id, external_id)
);

create table earshot.personas (
  org_id bigint not null references earshot.organizations,
  id bigint generated always as identity,
  external_id earshot.external_id not null,
  custody text not null check (custody in ('service', 'user')),
  status text not null check (status in ('active', 'deactivated')),
  designated boolean not null,
  -- Which of its deliveries wait for a person's approval: none, those to another place than their turn's, or all.
  approval text not null default 'none' check (approval in ('none', 'elsewhere', 'always')),
  -- Part of the session id; fixed for the life of the persona.
  salt text not null default replace(gen_random_uuid()::text, '-', ''),
  primary key (org_id, id),
  unique (org_id, external_id)
);

create table earshot.projects (
  org_id bigint not null references earshot.organizations,
  id bigint generated always as identity,
  external_id earshot.external_id not null,
  status text not null check (status in ('active', 'inactive')),
  admits_guests boolean not null,
  primary key (org_id, id),
  unique (org_id, external_id)
);

create table earshot.project_members (
  org_id bigint not null,
  project_id bigint not null,
  user_id bigint not null,
  primary key (org_id, user_id, project_id),
  foreign key (org_id, project_id) references earshot.projects,
  foreign key (org_id, user_id) references earshot.users
);
create index project_members_by_project on earshot.project_members (org_id, project_id);

create table earshot.conversations (
  org_id bigint not null references earshot.organizations,
  id bigint generated always as identity,
  external_id earshot.external_id not null,
  kind text not null check (kind in ('private', 'group', 'channel', 'direct')),
  visibility text not null check (visibility in ('members', 'project', 'organization')),
  project_id bigint,
  owner_id bigint,
  ai_thread boolean not null,
  ever_shared boolean not null default false,
  external_readers boolean not null,
  archived boolean not null default false,
  deleted boolean not null default false,
  -- An import in progress: readable by nobody.
  staged boolean not null default false,
  default_floor earshot.history_floor not null default 1,
  -- The sequence of the newest message. The row's lock orders appends and joins.
  head bigint not null default 0 check (head >= 0),
  -- The newest moment, by the source's clock, at which a floor above 1 was given.
  newest_join_at timestamptz,
  title text,
  primary key (org_id, id),
  unique (org_id, external_id),
  foreign key (org_id, project_id) references earshot.projects,
  foreign key (org_id, owner_id) references earshot.users,
  check (visibility <> 'project' or project_id is not null)
);
create index conversations_by_project on earshot.conversations (org_id, project_id)
  where project_id is not null;
create index conversations_closed on earshot.conversations (org_id, id) where deleted or staged;
create index conversations_open_to_organization on earshot.conversations (org_id, id)
  where visibility = 'organization';

create table earshot.memberships (
  org_id bigint not null,
  user_id bigint not null,
  conversation_id bigint not null,
  floor earshot.history_floor not null,
  expires_at timestamptz,
  -- Whether others may read the conversation without a membership; false only while none may. It steers
  -- how a scope is computed and never what is in it: kept by trigger, and true until it is known.
  other_routes boolean not null default true,
  -- Covering, so that a scope is read from the index alone.
  primary key (org_id, user_id, conversation_id) include (floor, expires_at, other_routes),
  foreign key (org_id, user_id) references earshot.users,
  foreign key (org_id, conversation_id) references earshot.conversations
);
create unique index memberships_by_conversation
  on earshot.memberships (org_id, conversation_id, user_id) include (floor, expires_at);

-- Members that a host named and nobody knows. While there is one, the conversation's audience
-- cannot be listed (INVARIANT 10).
create table earshot.unresolved_members (
  org_id bigint not null,
  conversation_id bigint not null,
  external_id earshot.external_id not null,
  primary key (org_id, conversation_id, external_id),
  foreign key (org_id, conversation_id) references earshot.conversations
);

create table earshot.messages (
  org_id bigint not null,
  conversation_id bigint not null,
  seq bigint not null check (seq >= 1),
  external_id earshot.external_id not null,
  kind text not null check (kind in ('message', 'event')),
  author_user_id bigint,
  author_persona_id bigint,
  body text not null,
  revision bigint not null default 1,
  state text not null default 'live' check (state in ('live', 'edited', 'deleted')),
  reply_to earshot.external_id,
  sent_at timestamptz not null,
  edited_at timestamptz,
  -- The delivery that this message came out of, whose lineage it keeps.
  delivery_id uuid,
  -- The revision whose text is that delivery's, where the delivery edited the message.
  delivered_revision bigint,
  terms tsvector not null,
  primary key (org_id, conversation_id, seq),
  unique (org_id, conversation_id, external_id),
  foreign key (org_id, conversation_id) references earshot.conversations,
  foreign key (org_id, author_user_id) references earshot.users,
  foreign key (org_id, author_persona_id) references earshot.personas,
  check (author_user_id is null or author_persona_id is null)
);
-- A floor known only by time, and neighbours by time.
create index messages_by_time on earshot.messages (org_id, conversation_id, sent_at);
create index messages_by_reply on earshot.messages (org_id, conversation_id, reply_to)
  where reply_to is not null;
create index messages_by_delivery on earshot.messages (org_id, delivery_id)
  where delivery_id is not null;

-- References to other messages. They carry no text of what they name.
create table earshot.message_embeds (
  org_id bigint not null,
  conversation_id bigint not null,
  seq bigint not null,
  position smallint not null,
  target_conversation earshot.external_id not null,
  target_message earshot.external_id not null,
  primary key (org_id, conversation_id, seq, position),
  foreign key (org_id, conversation_id, seq) references earshot.messages
);

-- Messages that arrived in an open conversation although they were sent before its newest join.
-- Readable by nobody until an operator admits them.
create table earshot.late_messages (
  org_id bigint not null,
  conversation_id bigint not null,
  external_id earshot.external_id not null,
  -- Null: it was deleted while it waited, and stays so.
  message jsonb,
  sent_at timestamptz not null,
  arrived_at timestamptz not null default clock_timestamp(),
  primary key (org_id, conversation_id, external_id),
  foreign key (org_id, conversation_id) references earshot.conversations
);

-- Where facts come from, and when each source last said that they still hold.
create table earshot.fact_sources (
  org_id bigint not null references earshot.organizations,
  name earshot.external_id not null,
  -- Null: this source is never stale.
  max_age interval check (max_age > interval '0'),
  confirmed_at timestamptz not null default clock_timestamp(),
  primary key (org_id, name)
);

-- What an import has applied, so that running it again restores nothing that was removed since.
create table earshot.import_items (
  org_id bigint not null references earshot.organizations,
  source earshot.external_id not null,
  item bytea not null,
  digest bytea not null,
  primary key (org_id, source, item)
);

-- A stop condition: any of them ends what runs. `target` is the external id, or the turn's id.
create table earshot.stops (
  org_id bigint not null references earshot.organizations,
  kind text not null check (kind in ('organization', 'persona', 'conversation', 'turn')),
  target text collate "C" not null,
  reason text,
  stopped_at timestamptz not null default clock_timestamp(),
  primary key (org_id, kind, target)
);

-- Callers that hold a token of the local issuer, which names the id, or of a configured one, which names the
-- subject. An id is never used again. Not of one organization.
create table earshot.clients (
  id earshot.external_id primary key,
  issuer text collate "C",
  subject text collate "C",
  scopes text[] not null,
  -- '*' stands for every one.
  organizations text[] not null,
  personas text[] not null,
  created_at timestamptz not null default clock_timestamp(),
  revoked_at timestamptz,
  check ((issuer is null) = (subject is null))
);
create unique index clients_by_subject on earshot.clients (issuer, subject)
  where issuer is not null and revoked_at is null;

do $$
declare
  name text;
begin
  foreach name in array array['users', 'personas', 'projects', 'project_members', 'conversations',
    'memberships', 'unresolved_members', 'messages', 'message_embeds', 'late_messages',
    'fact_sources', 'import_items', 'stops']
  loop
    execute format('alter table earshot.%I enable row level security', name);
    execute format('alter table earshot.%I force row level security', name);
    execute format('create policy organization on earshot.%I
      using (org_id = (select earshot.current_organization()))
      with check (org_id = (select earshot.current_organization()))', name);
    execute format('grant select on earshot.%I to earshot_scoped', name);
  end loop;
end $$;

alter table earshot.organizations enable row level security;
alter table earshot.organizations force row level security;
create policy organization on earshot.organizations
  using (id = (select earshot.current_organization())) with check (id = (select earshot.current_organization()));
-- A name finds its organization; there is no listing of them under this policy.
create policy by_name on earshot.organizations for select
  using (external_id = nullif(current_setting('earshot.organization_name', true), ''));
grant select on earshot.organizations to earshot_scoped;

-- What the gateway may touch by itself: facts that are not content. Messages, late messages, titles
-- and payloads are out of its reach but for the functions that the later migrations grant.
grant select on earshot.migrations to earshot_runtime;
grant select, update on earshot.organizations to earshot_runtime;
grant select, insert, update on earshot.users, earshot.personas, earshot.projects to earshot_runtime;
grant select, insert, delete on earshot.project_members to earshot_runtime;
grant select (org_id, id, external_id, kind, visibility, project_id, owner_id, ai_thread, ever_shared,
    external_readers, archived, deleted, staged, default_floor, head, newest_join_at)
  on earshot.conversations to earshot_runtime;
grant select on earshot.memberships, earshot.unresolved_members to earshot_runtime;
grant select, insert, update on earshot.fact_sources, earshot.import_items to earshot_runtime;
grant select, insert, delete on earshot.stops to earshot_runtime;
-- Only the administrator registers and revokes.
grant select on earshot.clients to earshot_runtime;

-- What the writers of messages and memberships do on the gateway's behalf.
grant insert, update on earshot.conversations to earshot_scoped;
grant insert, update, delete on earshot.memberships, earshot.unresolved_members to earshot_scoped;
grant insert, update on earshot.messages to earshot_scoped;
grant insert, delete on earshot.message_embeds to earshot_scoped;
grant insert, update, delete on earshot.late_messages to earshot_scoped;

-- Makes an organization the one of this transaction and returns its key, or null when there is none.
create function earshot.enter_organization(p_name text) returns bigint
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  found_id bigint;
  -- An assignment, which is evaluated at once; `perform` would run a statement for each.
  ignored text;
begin
  ignored := set_config('earshot.organization_name', p_name, true);
  select id into found_id from organizations where external_id = p_name;
  ignored := set_config('earshot.organization_name', '', true);
  ignored := set_config('earshot.organization', coalesce(found_id::text, ''), true);
  return found_id;
end $$;

-- Creates an organization if it is new, and enters it.
create function earshot.create_organization(p_name text) returns bigint
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  found_id bigint := enter_organization(p_name);
begin
  if found_id is not null then
    return found_id;
  end if;
  -- The key is drawn first, so that the row satisfies the policy it is written under.
  found_id := nextval(pg_get_serial_sequence('earshot.organizations', 'id'));
  perform set_config('earshot.organization', found_id::text, true);
  insert into organizations (id, external_id) overriding system value values (found_id, p_name)
  on conflict (external_id) do nothing;
  -- Another writer may have been first; its row is the one.
  return enter_organization(p_name);
end $$;
grant insert on earshot.organizations to earshot_scoped;
grant usage on sequence earshot.organizations_id_seq to earshot_scoped;

alter function earshot.enter_organization(text) owner to earshot_scoped;
alter function earshot.create_organization(text) owner to earshot_scoped;
-- Functions are executable by PUBLIC unless said otherwise; here nothing is.
revoke execute on all functions in schema earshot from public;
revoke create on schema earshot from earshot_scoped;
grant execute on function earshot.enter_organization(text), earshot.create_organization(text) to earshot_runtime;
