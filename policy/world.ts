import type { ConversationKind, UserKind, Visibility } from './fact.ts';
import type { Floor } from './floor.ts';
import type { ExternalId } from './identity.ts';
import type { Instant } from './instant.ts';

/**
 * All facts of one organization at one moment, in memory. The plain rules of this folder read
 * nothing else; the SQL that runs is held to them over generated worlds.
 */
export interface World {
  readonly organization: WorldOrganization;
  readonly users: ReadonlyMap<ExternalId, WorldUser>;
  readonly projects: ReadonlyMap<ExternalId, WorldProject>;
  readonly conversations: ReadonlyMap<ExternalId, WorldConversation>;
  readonly memberships: readonly WorldMembership[];
  readonly messages: readonly WorldMessage[];
  /** The lineage of each delivery, flattened: what its payload was made from. */
  readonly lineages: ReadonlyMap<string, readonly WorldSource[]>;
}

export interface WorldOrganization {
  readonly id: ExternalId;
  readonly active: boolean;
}

export interface WorldUser {
  readonly id: ExternalId;
  readonly kind: UserKind;
  readonly active: boolean;
}

export interface WorldProject {
  readonly id: ExternalId;
  readonly active: boolean;
  readonly admitsGuests: boolean;
  readonly members: ReadonlySet<ExternalId>;
}

export interface WorldConversation {
  readonly id: ExternalId;
  readonly kind: ConversationKind;
  readonly visibility: Visibility;
  readonly project?: ExternalId;
  readonly owner?: ExternalId;
  readonly aiThread: boolean;
  readonly everShared: boolean;
  readonly externalReaders: boolean;
  /** Members that a host named and the gateway does not know. */
  readonly unresolvedMembers: number;
  readonly defaultFloor: Floor;
  readonly archived: boolean;
  readonly deleted: boolean;
  /** An import in progress: readable by nobody. */
  readonly staged: boolean;
}

export interface WorldMembership {
  readonly conversation: ExternalId;
  readonly user: ExternalId;
  readonly floor: Floor;
  readonly expiresAt?: Instant;
}

export interface WorldMessage {
  readonly conversation: ExternalId;
  readonly seq: bigint;
  readonly author?: { readonly user: ExternalId } | { readonly persona: ExternalId };
  readonly body: string;
  readonly deleted: boolean;
  /** Whether the text is not the first one. */
  readonly edited: boolean;
  /** The delivery that this message came out of. */
  readonly delivery?: string;
}

/** A message (`fromSeq` = `toSeq`) or a stretch of a conversation from a floor up (`toSeq` absent). */
export interface WorldSource {
  readonly conversation: ExternalId;
  readonly fromSeq: bigint;
  readonly toSeq?: bigint;
}
