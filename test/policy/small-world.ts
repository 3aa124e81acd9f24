import { externalId, type ExternalId } from '../../policy/identity.ts';
import type { Instant } from '../../policy/instant.ts';
import type {
  World,
  WorldArtifact,
  WorldConversation,
  WorldMembership,
  WorldMessage,
  WorldProject,
  WorldSource,
  WorldUser,
} from '../../policy/world.ts';

export const NOW: Instant = 1_000_000_000_000_000n;

export const id = externalId;

/** What differs from a plain thing of its kind. A conversation is a members-only AI thread unless it says otherwise. */
export interface SmallWorld {
  readonly suspended?: boolean;
  readonly users?: Readonly<Record<string, Partial<WorldUser>>>;
  readonly projects?: Readonly<
    Record<string, Partial<Omit<WorldProject, 'members'>> & { members?: readonly string[] }>
  >;
  readonly conversations: Readonly<
    Record<string, Partial<WorldConversation> & { members?: Members }>
  >;
  readonly messages?: readonly (Partial<WorldMessage> & {
    at: readonly [conversation: string, seq: number];
  })[];
  readonly artifacts?: readonly (Partial<WorldArtifact> & { id: string; home: ExternalId })[];
  readonly lineages?: Readonly<Record<string, readonly WorldSource[]>>;
}

type Members = Readonly<Record<string, number | bigint | { floor?: bigint; expiresAt?: Instant }>>;

/** Anna, Ben and Cleo are members of the organization, Gus is a guest; whoever else is named is a member too. */
export function smallWorld(small: SmallWorld): World {
  const users: Record<string, Partial<WorldUser>> = {
    anna: {},
    ben: {},
    cleo: {},
    gus: { kind: 'guest' },
    ...small.users,
  };
  return {
    organization: { id: id('acme'), active: small.suspended !== true },
    users: mapOf(users, (name, user) => ({ id: name, kind: 'member', active: true, ...user })),
    projects: mapOf(small.projects ?? {}, (name, { members = [], ...project }) => ({
      id: name,
      active: true,
      admitsGuests: false,
      ...project,
      members: new Set(members.map(id)),
    })),
    conversations: mapOf(small.conversations, (name, conversation) =>
      without({ ...PLAIN, id: name, ...conversation }, 'members'),
    ),
    memberships: Object.entries(small.conversations).flatMap(([conversation, { members = {} }]) =>
      Object.entries(members).map(([user, given]): WorldMembership => ({
        conversation: id(conversation),
        user: id(user),
        ...(typeof given === 'object' ? { floor: 1n, ...given } : { floor: BigInt(given) }),
      })),
    ),
    messages: (small.messages ?? []).map(({ at: [conversation, seq], ...message }) => ({
      conversation: id(conversation),
      seq: BigInt(seq),
      body: 'text',
      deleted: false,
      edited: false,
      ...message,
    })),
    artifacts: (small.artifacts ?? []).map((artifact) => ({
      body: 'text',
      deleted: false,
      ...artifact,
    })),
    lineages: new Map(Object.entries(small.lineages ?? {})),
  };
}

/** A conversation of a small world. */
export function conversationOf(world: World, name: string): WorldConversation {
  const found = world.conversations.get(id(name));
  if (found === undefined) throw new RangeError('the world has no such conversation');
  return found;
}

const PLAIN: Omit<WorldConversation, 'id'> = {
  kind: 'group',
  visibility: 'members',
  aiThread: true,
  everShared: false,
  externalReaders: false,
  unresolvedMembers: 0,
  defaultFloor: 1n,
  archived: false,
  deleted: false,
  staged: false,
};

function without<Thing extends object, Name extends keyof Thing>(
  thing: Thing,
  name: Name,
): Omit<Thing, Name> {
  const rest = { ...thing };
  // eslint-disable-next-line @typescript-eslint/no-dynamic-delete -- a copy of our own
  delete rest[name];
  return rest;
}

function mapOf<From, To>(
  things: Readonly<Record<string, From>>,
  make: (name: ExternalId, thing: From) => To,
): Map<ExternalId, To> {
  return new Map(Object.entries(things).map(([name, thing]) => [id(name), make(id(name), thing)]));
}
