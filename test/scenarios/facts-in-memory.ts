import type { ExternalId } from '../../policy/identity.ts';
import { parseInstant } from '../../policy/instant.ts';
import type { World, WorldConversation, WorldMessage, WorldSource } from '../../policy/world.ts';
import type { Sql } from '../../sql/database.ts';

/**
 * All facts of one organization, read table by table as a superuser: the input of the plain rules.
 * None of the functions that decide anything in SQL has a part in it.
 */
export async function worldIn(owner: Sql, organization: string): Promise<World> {
  const [org] = await owner<{ key: string; active: boolean }[]>`
    select id as key, status = 'active' as active from earshot.organizations
    where external_id = ${organization}`;
  if (org === undefined) throw new Error('there is no such organization');
  const { key } = org;
  const id = (text: string) => text as ExternalId;

  const users = await owner<{ id: string; kind: 'member' | 'guest' | 'bot'; active: boolean }[]>`
    select external_id as id, kind, status = 'active' as active from earshot.users where org_id = ${key}`;
  const projects = await owner<
    { id: string; active: boolean; guests: boolean; members: string[] }[]
  >`
    select external_id as id, status = 'active' as active, admits_guests as guests, array(
      select u.external_id::text from earshot.project_members m
      join earshot.users u on u.org_id = m.org_id and u.id = m.user_id
      where m.org_id = p.org_id and m.project_id = p.id) as members
    from earshot.projects p where org_id = ${key}`;
  const conversations = await owner<Record<string, string | boolean | null>[]>`
    select c.external_id as id, c.kind, c.visibility, p.external_id as project, u.external_id as owner,
      ai_thread as "aiThread", ever_shared as "everShared", external_readers as "externalReaders",
      archived, c.deleted, staged, default_floor as "defaultFloor",
      (select count(*) from earshot.unresolved_members n
       where n.org_id = c.org_id and n.conversation_id = c.id) as unresolved
    from earshot.conversations c
    left join earshot.projects p on p.org_id = c.org_id and p.id = c.project_id
    left join earshot.users u on u.org_id = c.org_id and u.id = c.owner_id
    where c.org_id = ${key}`;
  const memberships = await owner<
    { conversation: string; user: string; floor: string; expires: string | null }[]
  >`
    select c.external_id as conversation, u.external_id as user, floor,
      to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as expires
    from earshot.memberships m
    join earshot.conversations c on c.org_id = m.org_id and c.id = m.conversation_id
    join earshot.users u on u.org_id = m.org_id and u.id = m.user_id
    where m.org_id = ${key}`;
  const messages = await owner<
    {
      conversation: string;
      seq: string;
      body: string;
      deleted: boolean;
      edited: boolean;
      user: string | null;
      persona: string | null;
      delivery: string | null;
      editedByDelivery: boolean;
    }[]
  >`
    select c.external_id as conversation, seq, body, state = 'deleted' as deleted, state = 'edited' as edited,
      m.revision is not distinct from m.delivered_revision as "editedByDelivery",
      u.external_id as user, a.external_id as persona, m.delivery_id as delivery
    from earshot.messages m
    join earshot.conversations c on c.org_id = m.org_id and c.id = m.conversation_id
    left join earshot.users u on u.org_id = m.org_id and u.id = m.author_user_id
    left join earshot.personas a on a.org_id = m.org_id and a.id = m.author_persona_id
    where m.org_id = ${key}`;
  const sources = await owner<
    {
      delivery: string;
      conversation: string;
      from: string;
      to: string | null;
      artifact: string | null;
    }[]
  >`
    select derived_id as delivery, c.external_id as conversation, from_seq as from, to_seq as to, a.id as artifact
    from earshot.lineage s
    join earshot.conversations c on c.org_id = s.org_id and c.id = s.conversation_id
    left join earshot.artifacts a on a.org_id = s.org_id and a.conversation_id = s.conversation_id and a.seq = s.from_seq
    where s.org_id = ${key}`;
  const artifacts = await owner<{ id: string; home: string; body: string; deleted: boolean }[]>`
    select a.id, c.external_id as home, a.body, a.state = 'deleted' as deleted from earshot.artifacts a
    join earshot.conversations c on c.org_id = a.org_id and c.id = a.conversation_id
    where a.org_id = ${key}`;

  const lineages = new Map<string, WorldSource[]>();
  for (const { delivery, conversation, from, to, artifact } of sources) {
    const place = { conversation: id(conversation), fromSeq: BigInt(from) };
    const known = lineages.get(delivery) ?? [];
    const source = to === null ? place : { ...place, toSeq: BigInt(to) };
    lineages.set(delivery, [...known, artifact === null ? source : { artifact }]);
  }
  return {
    organization: { id: id(organization), active: org.active },
    users: byId(users.map((user) => ({ ...user, id: id(user.id) }))),
    projects: byId(
      projects.map((project) => ({
        id: id(project.id),
        active: project.active,
        admitsGuests: project.guests,
        members: new Set(project.members.map(id)),
      })),
    ),
    conversations: byId(
      conversations.map(({ project, owner: ownedBy, unresolved, defaultFloor, ...rest }) => ({
        ...(rest as unknown as WorldConversation),
        ...(project !== null && { project: id(String(project)) }),
        ...(ownedBy !== null && { owner: id(String(ownedBy)) }),
        unresolvedMembers: Number(unresolved),
        defaultFloor: BigInt(String(defaultFloor)),
      })),
    ),
    memberships: memberships.map(({ conversation, user, floor, expires }) => ({
      conversation: id(conversation),
      user: id(user),
      floor: BigInt(floor),
      ...(expires !== null && { expiresAt: parseInstant(expires) ?? ALWAYS }),
    })),
    messages: messages.map(({ user, persona, delivery, seq, conversation, ...rest }) => {
      const message: WorldMessage = { ...rest, conversation: id(conversation), seq: BigInt(seq) };
      return {
        ...message,
        ...(user !== null && { author: { user: id(user) } }),
        ...(persona !== null && { author: { persona: id(persona) } }),
        ...(delivery !== null && { delivery }),
      };
    }),
    artifacts: artifacts.map(({ home, ...artifact }) => ({ ...artifact, home: id(home) })),
    lineages,
  };
}

/** A time that cannot be parsed never passes for one that has gone by. */
const ALWAYS = 2n ** 62n;

function byId<Item extends { readonly id: ExternalId }>(
  items: readonly Item[],
): ReadonlyMap<ExternalId, Item> {
  return new Map(items.map((item) => [item.id, item]));
}
