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
  readonly artifacts: readonly WorldArtifact[];
  /** The lineage of each delivery and each artifact, flattened: what its text was made from. */
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
  /** Whether the text, though edited, is that of its delivery, which edited the message. */
  readonly editedByDelivery?: boolean;
}

/** Text that was made from sources and kept. */
export interface WorldArtifact {
  readonly id: string;
  /** The conversation that it was made for. */
  readonly home: ExternalId;
  readonly body: string;
  readonly deleted: boolean;
}

/** A message or a stretch of a conversation, or an artifact. */
export type WorldSource = PlaceSource | { readonly artifact: string };

/** A message (`fromSeq` = `toSeq`) or a stretch of a conversation from a floor up (`toSeq` absent). */
export interface PlaceSource {
  readonly conversation: ExternalId;
  readonly fromSeq: bigint;
  readonly toSeq?: bigint;
  /** Of a message that was read itself, whether it has been edited since. Absent where it is inherited. */
  readonly editedSince?: boolean;
}
