import type { ExternalId } from '../../policy/identity.ts';
import { formatInstant } from '../../policy/instant.ts';
import type { WorldSource } from '../../policy/world.ts';
import type { Sql } from '../../sql/database.ts';
import type { TestMessage, TestWorld } from './world-generator.ts';

/** A world in the database, as an organization of its own. */
export interface LoadedWorld {
  readonly world: TestWorld;
  readonly org: string;
  /** The surrogate keys that its things were given. */
  readonly keys: WorldKeys;
}

export type WorldKeys = Readonly<
  Record<'users' | 'personas' | 'projects' | 'conversations', ReadonlyMap<ExternalId, number>>
>;

/** What the loader's session needs, and only a superuser may set: triggers would repair what a world says. */
export const LOADER_SETTINGS = 'set session_replication_role = replica';

let named = 0;

/** The same world under a name that no world of this process had: an organization's name is taken once. */
export function freshlyNamed(world: TestWorld): TestWorld {
  named += 1;
  const name = Array.from(world.organization.id).slice(0, 100).join('');
  const id = `${named}#${name}`.normalize('NFC') as ExternalId;
  return { ...world, organization: { ...world.organization, id } };
}

/**
 * Writes a world in one statement, exactly as it is: facts may stand together that the triggers would not let
 * stand, such as `ever_shared` beside its contrary.
 */
export async function loadWorld(sql: Sql, world: TestWorld): Promise<LoadedWorld> {
  const keys: WorldKeys = {
    users: keysOf(1_000, world.users.keys()),
    personas: keysOf(2_000, world.personas),
    projects: keysOf(3_000, world.projects.keys()),
    conversations: keysOf(4_000, world.conversations.keys()),
  };
  const rows = JSON.stringify(rowsOf(world, keys));
  const [inserted] = await sql.unsafe<{ org: string }[]>(LOAD, [rows], { prepare: true });
  if (inserted === undefined) throw new Error('the world was not loaded');
  await sql.unsafe('select earshot.post_conversations($1, null)', [inserted.org], {
    prepare: true,
  });
  return { world, org: inserted.org, keys };
}

/** Each kind of thing has keys of its own that do not grow with its ids, so that neither can be taken for the other. */
function keysOf(base: number, ids: Iterable<ExternalId>): ReadonlyMap<ExternalId, number> {
  return new Map(Array.from(ids, (id, i) => [id, base + ((i * 5 + 3) % 11)]));
}

export function keyOf(keys: WorldKeys, kind: keyof WorldKeys, id: ExternalId): number {
  const key = keys[kind].get(id);
  if (key === undefined) throw new RangeError('the world has no such thing');
  return key;
}

function rowsOf(world: TestWorld, keys: WorldKeys) {
  const user = (id: ExternalId) => keyOf(keys, 'users', id);
  const conversation = (id: ExternalId) => keyOf(keys, 'conversations', id);
  const project = (id: ExternalId) => keyOf(keys, 'projects', id);
  const conversations = [...world.conversations.values()];
  return {
    name: world.organization.id,
    status: world.organization.active ? 'active' : 'suspended',
    users: Array.from(world.users.values(), ({ id, kind, active }) => ({
      id: user(id),
      name: id,
      kind,
      status: active ? 'active' : 'deactivated',
    })),
    personas: world.personas.map((id) => ({ id: keyOf(keys, 'personas', id), name: id })),
    projects: Array.from(world.projects.values(), ({ id, active, admitsGuests }) => ({
      id: project(id),
      name: id,
      status: active ? 'active' : 'inactive',
      admits_guests: admitsGuests,
    })),
    project_members: Array.from(world.projects.values()).flatMap(({ id, members }) =>
      Array.from(members, (member) => ({ project_id: project(id), user_id: user(member) })),
    ),
    conversations: conversations.map((c) => ({
      id: conversation(c.id),
      name: c.id,
      kind: c.kind,
      visibility: c.visibility,
      project_id: c.project === undefined ? null : project(c.project),
      owner_id: c.owner === undefined ? null : user(c.owner),
      ai_thread: c.aiThread,
      ever_shared: c.everShared,
      external_readers: c.externalReaders,
      archived: c.archived,
      deleted: c.deleted,
      staged: c.staged,
      default_floor: String(c.defaultFloor),
      head: world.messages.filter((message) => message.conversation === c.id).length,
      title: world.titles.get(c.id) ?? null,
    })),
    unresolved_members: conversations.flatMap((c) =>
      Array.from({ length: c.unresolvedMembers }, (_, i) => ({
        conversation_id: conversation(c.id),
        name: `unknown ${i}`,
      })),
    ),
    memberships: world.memberships.map((row) => ({
      conversation_id: conversation(row.conversation),
      user_id: user(row.user),
      floor: String(row.floor),
      expires_at: row.expiresAt === undefined ? null : formatInstant(row.expiresAt),
    })),
    messages: world.messages.map((message) => ({
      conversation_id: conversation(message.conversation),
      seq: String(message.seq),
      name: message.id,
      ...authorOf(message, keys),
      body: message.body,
      state: message.deleted ? 'deleted' : message.edited ? 'edited' : 'live',
      reply_to: message.replyTo ?? null,
      sent_at: formatInstant(message.sentAt),
      delivery_id: message.delivery ?? null,
      // An edit of some other moment accounts for nothing.
      delivered_revision: message.editedByDelivery === true ? 1 : message.edited ? 2 : null,
    })),
    embeds: world.messages.flatMap((message) =>
      message.embeds.map((embed, position) => ({
        conversation_id: conversation(message.conversation),
        seq: String(message.seq),
        position,
        ...embed,
      })),
    ),
    artifacts: world.artifacts.map((artifact) => ({
      id: artifact.id,
      conversation_id: conversation(artifact.home),
      seq: String(artifact.seq),
      kind: artifact.kind,
      title: artifact.title ?? null,
      body: artifact.body,
      state: artifact.deleted ? 'deleted' : 'live',
      asserted: artifact.asserted,
      persona_id: artifact.persona === undefined ? null : keyOf(keys, 'personas', artifact.persona),
      created_at: formatInstant(artifact.createdAt),
    })),
    sources: [...world.lineages].flatMap(([derived, sources]) =>
      sources.map((source) => ({ derived_id: derived, ...sourceRow(world, keys, source) })),
    ),
  };
}

/** An artifact by its number; a message at the revision that was read, or at another one if it has been edited since. */
function sourceRow(world: TestWorld, keys: WorldKeys, source: WorldSource) {
  if ('artifact' in source) {
    const artifact = world.artifacts.find(({ id }) => id === source.artifact);
    if (artifact === undefined) throw new RangeError('the world has no such artifact');
    const seq = String(artifact.seq);
    const home = keyOf(keys, 'conversations', artifact.home);
    return { conversation_id: home, from_seq: seq, to_seq: seq, revision: 1 };
  }
  const { conversation, fromSeq, toSeq, editedSince } = source;
  return {
    conversation_id: keyOf(keys, 'conversations', conversation),
    from_seq: String(fromSeq),
    to_seq: toSeq === undefined ? null : String(toSeq),
    revision: editedSince === undefined ? null : editedSince ? 2 : 1,
  };
}

function authorOf({ author }: TestMessage, keys: WorldKeys) {
  if (author === undefined) return {};
  return 'user' in author
    ? { author_user_id: keyOf(keys, 'users', author.user) }
    : { author_persona_id: keyOf(keys, 'personas', author.persona) };
}

const LOAD = `
with w as materialized (select $1::text::jsonb as w),
o as (
  insert into earshot.organizations (external_id, status)
  select w ->> 'name', w ->> 'status' from w returning id
), organization_revisions as (
  insert into earshot.organization_revisions (org_id) select id from o
), users as (
  insert into earshot.users (org_id, id, external_id, kind, status) overriding system value
  select o.id, x.id, x.name, x.kind, x.status
  from o, w, jsonb_to_recordset(w -> 'users') as x(id bigint, name text, kind text, status text)
), personas as (
  insert into earshot.personas (org_id, id, external_id, custody, status, designated) overriding system value
  select o.id, x.id, x.name, 'service', 'active', true
  from o, w, jsonb_to_recordset(w -> 'personas') as x(id bigint, name text)
), projects as (
  insert into earshot.projects (org_id, id, external_id, status, admits_guests) overriding system value
  select o.id, x.id, x.name, x.status, x.admits_guests
  from o, w, jsonb_to_recordset(w -> 'projects') as x(id bigint, name text, status text, admits_guests boolean)
  returning id
), project_revisions as (
  insert into earshot.project_revisions (org_id, project_id) select o.id, p.id from o, projects p
), project_members as (
  insert into earshot.project_members (org_id, project_id, user_id)
  select o.id, x.project_id, x.user_id
  from o, w, jsonb_to_recordset(w -> 'project_members') as x(project_id bigint, user_id bigint)
), conversations as (
  insert into earshot.conversations (org_id, id, external_id, kind, visibility, project_id, owner_id, ai_thread,
    ever_shared, external_readers, archived, deleted, staged, default_floor, head, title) overriding system value
  select o.id, x.id, x.name, x.kind, x.visibility, x.project_id, x.owner_id, x.ai_thread, x.ever_shared,
    x.external_readers, x.archived, x.deleted, x.staged, x.default_floor, x.head, x.title
  from o, w, jsonb_to_recordset(w -> 'conversations') as x(id bigint, name text, kind text, visibility text,
    project_id bigint, owner_id bigint, ai_thread boolean, ever_shared boolean, external_readers boolean,
    archived boolean, deleted boolean, staged boolean, default_floor bigint, head bigint, title text)
  returning id
), conversation_revisions as (
  insert into earshot.conversation_revisions (org_id, conversation_id) select o.id, c.id from o, conversations c
), unresolved_members as (
  insert into earshot.unresolved_members (org_id, conversation_id, external_id)
  select o.id, x.conversation_id, x.name
  from o, w, jsonb_to_recordset(w -> 'unresolved_members') as x(conversation_id bigint, name text)
), memberships as (
  -- One in three has not been looked at: how a scope is computed must not show in what is in it.
  insert into earshot.memberships (org_id, user_id, conversation_id, floor, expires_at, other_routes)
  select o.id, x.user_id, x.conversation_id, x.floor, x.expires_at,
    (x.user_id + x.conversation_id) % 3 = 0 or c.visibility <> 'members'
  from o, w, jsonb_to_recordset(w -> 'memberships')
    as x(user_id bigint, conversation_id bigint, floor bigint, expires_at timestamptz),
  lateral (select visibility from jsonb_to_recordset(w -> 'conversations') as c(id bigint, visibility text)
    where c.id = x.conversation_id) c
), messages as (
  insert into earshot.messages (org_id, conversation_id, seq, external_id, kind, author_user_id, author_persona_id,
    body, state, reply_to, sent_at, delivery_id, delivered_revision, terms)
  select o.id, x.conversation_id, x.seq, x.name, 'message', x.author_user_id, x.author_persona_id, x.body, x.state,
    x.reply_to, x.sent_at, x.delivery_id, x.delivered_revision, earshot.search_terms('pg_catalog.english', x.body)
  from o, w, jsonb_to_recordset(w -> 'messages') as x(conversation_id bigint, seq bigint, name text,
    author_user_id bigint, author_persona_id bigint, body text, state text, reply_to text, sent_at timestamptz,
    delivery_id uuid, delivered_revision bigint)
), embeds as (
  insert into earshot.message_embeds (org_id, conversation_id, seq, position, target_conversation, target_message)
  select o.id, x.conversation_id, x.seq, x.position, x.conversation, x.message
  from o, w, jsonb_to_recordset(w -> 'embeds')
    as x(conversation_id bigint, seq bigint, position smallint, conversation text, message text)
), deliveries as (
  insert into earshot.deliveries (org_id, id, turn_id, grant_id, destination_id, status, payload_sha256, content_type,
    audience_hash, idempotency_key, request_digest, proposed_at, expires_at, message_id)
  select o.id, x.delivery_id, x.delivery_id, x.delivery_id, x.conversation_id, 'delivered', sha256(''), 'text/plain',
    sha256(''), x.delivery_id, '', x.sent_at, x.sent_at, x.name
  from o, w, jsonb_to_recordset(w -> 'messages')
    as x(conversation_id bigint, name text, sent_at timestamptz, delivery_id uuid)
  where x.delivery_id is not null
), sources as (
  insert into earshot.lineage (org_id, derived_id, conversation_id, from_seq, to_seq, revision)
  select o.id, x.derived_id, x.conversation_id, x.from_seq, x.to_seq, x.revision
  from o, w, jsonb_to_recordset(w -> 'sources')
    as x(derived_id uuid, conversation_id bigint, from_seq bigint, to_seq bigint, revision bigint)
), artifacts as (
  insert into earshot.artifacts (org_id, conversation_id, seq, id, kind, title, body, body_sha256, content_type, state,
    asserted, persona_id, turn_id, created_at, client_id, idempotency_key, request_digest, terms)
  select o.id, x.conversation_id, x.seq, x.id, x.kind, x.title, x.body, sha256(''), 'text/plain', x.state, x.asserted,
    x.persona_id, case when not x.asserted then x.id end, x.created_at, 'worlds', x.id::text, '',
    earshot.search_terms('pg_catalog.english', x.body)
  from o, w, jsonb_to_recordset(w -> 'artifacts') as x(conversation_id bigint, seq bigint, id uuid, kind text, title text,
    body text, state text, asserted boolean, persona_id bigint, created_at timestamptz)
)
select id as org from o`;
