import { lowestRoute, type Floor } from './floor.ts';
import type { ExternalId } from './identity.ts';
import type { Instant } from './instant.ts';
import type { World, WorldConversation, WorldUser } from './world.ts';

/** Someone who reads a destination: a person, or a class that stands for everyone in it. */
export type Reader =
  | { readonly kind: 'user'; readonly user: ExternalId }
  | { readonly kind: 'class:organization' }
  | { readonly kind: 'class:project'; readonly project: ExternalId };

/**
 * The floor at which a reader reads a conversation, or undefined when there is no route.
 *
 * A person reads by membership, by project, or by organization, at the lowest of those floors. A
 * class reads only what it gives to everyone in it. INVARIANTS 2 and 3.
 */
export function floorOf(
  world: World,
  reader: Reader,
  conversation: WorldConversation,
  now: Instant,
): Floor | undefined {
  if (!world.organization.active || conversation.deleted || conversation.staged) return undefined;
  switch (reader.kind) {
    case 'user': {
      const user = world.users.get(reader.user);
      return user === undefined ? undefined : personFloor(world, user, conversation, now);
    }
    case 'class:organization':
      return conversation.visibility === 'organization' ? conversation.defaultFloor : undefined;
    case 'class:project':
      return projectClassFloor(world, reader.project, conversation);
  }
}

function personFloor(
  world: World,
  user: WorldUser,
  conversation: WorldConversation,
  now: Instant,
): Floor | undefined {
  if (!user.active || user.kind === 'bot') return undefined;
  const membership = world.memberships.find(
    (row) =>
      row.conversation === conversation.id &&
      row.user === user.id &&
      (row.expiresAt === undefined || row.expiresAt > now),
  );
  return lowestRoute([
    membership?.floor,
    readsByProject(world, user, conversation) ? conversation.defaultFloor : undefined,
    conversation.visibility === 'organization' && user.kind !== 'guest'
      ? conversation.defaultFloor
      : undefined,
  ]);
}

/** Route 2: the conversation is open to its project, and the person is in that project. */
export function readsByProject(
  world: World,
  user: WorldUser,
  conversation: WorldConversation,
): boolean {
  if (conversation.visibility !== 'project' || conversation.project === undefined) return false;
  const project = world.projects.get(conversation.project);
  if (!project?.active || !project.members.has(user.id)) return false;
  return user.kind !== 'guest' || project.admitsGuests;
}

function projectClassFloor(
  world: World,
  id: ExternalId,
  conversation: WorldConversation,
): Floor | undefined {
  const project = world.projects.get(id);
  if (!project?.active) return undefined;
  const open =
    (conversation.visibility === 'project' && conversation.project === id) ||
    // A project that admits guests may hold people who read nothing by organization.
    (conversation.visibility === 'organization' && !project.admitsGuests);
  return open ? conversation.defaultFloor : undefined;
}
