import type { Floor } from './floor.ts';
import type { ExternalId } from './identity.ts';
import type { Instant } from './instant.ts';

/**
 * One fact as a host or an importer states it. Every writer (single puts, NDJSON, importers) speaks
 * this, so that one place knows the rules of floors and order.
 */
export type Fact =
  | UserFact
  | PersonaFact
  | ProjectFact
  | ConversationFact
  | MessageFact
  | MembersFact
  | MemberFact
  | OpenFact;

export type UserKind = 'member' | 'guest' | 'bot';
export type ConversationKind = 'private' | 'group' | 'channel' | 'direct';
export type Visibility = 'members' | 'project' | 'organization';

export interface UserFact {
  readonly fact: 'user';
  readonly id: ExternalId;
  readonly kind: UserKind;
  readonly status: 'active' | 'deactivated';
  /** For people to read; decides nothing. */
  readonly name?: string | undefined;
}

/** No delivery of a persona, those to another place than their turn's, or every one. */
export type PersonaApproval = 'none' | 'elsewhere' | 'always';

export interface PersonaFact {
  readonly fact: 'persona';
  readonly id: ExternalId;
  readonly custody: 'service' | 'user';
  readonly status: 'active' | 'deactivated';
  /** Whether this organization lets the persona serve it. */
  readonly designated: boolean;
  /** Which of its deliveries wait for a person's approval. Absent: as it is, `none` for a new one. */
  readonly approval?: PersonaApproval | undefined;
}

export interface ProjectFact {
  readonly fact: 'project';
  readonly id: ExternalId;
  readonly status: 'active' | 'inactive';
  readonly admitsGuests: boolean;
  /** The whole set; absent leaves the members as they are. */
  readonly members?: readonly ExternalId[] | undefined;
}

export interface ConversationFact {
  readonly fact: 'conversation';
  readonly id: ExternalId;
  readonly kind: ConversationKind;
  readonly visibility: Visibility;
  readonly project?: ExternalId | undefined;
  readonly owner?: ExternalId | undefined;
  readonly aiThread: boolean;
  /** Mirrored or relayed to a place whose readers cannot be listed. */
  readonly externalReaders: boolean;
  readonly archived: boolean;
  readonly title?: string | undefined;
  /** The floor of readers by project or organization. Absent: the writer's own rule. */
  readonly defaultFloor?: Floor | undefined;
  /** An import in progress: readable by nobody until an `open` fact. Only a new conversation can be staged. */
  readonly staged?: boolean | undefined;
}

/** How much of what came before a new member reads. */
export type History =
  'all' | 'from_join' | 'none' | { readonly fromSeq: Floor } | { readonly fromTime: Instant };

export interface Member {
  readonly user: ExternalId;
  readonly history: History;
  readonly expiresAt?: Instant | undefined;
}

/** The whole membership of a conversation, replaced in one transaction. */
export interface MembersFact {
  readonly fact: 'members';
  readonly conversation: ExternalId;
  readonly members: readonly Member[];
}

export interface MemberFact extends Member {
  readonly fact: 'member';
  readonly conversation: ExternalId;
}

/** Ends the staging of a conversation. */
export interface OpenFact {
  readonly fact: 'open';
  readonly conversation: ExternalId;
}

export interface MessageReference {
  readonly conversation: ExternalId;
  readonly message: ExternalId;
}

export interface MessageFact {
  readonly fact: 'message';
  readonly conversation: ExternalId;
  /** Unique within the conversation. */
  readonly id: ExternalId;
  readonly kind: 'message' | 'event';
  readonly author?: { readonly user: ExternalId } | { readonly persona: ExternalId } | undefined;
  readonly body: string;
  readonly sentAt: Instant;
  /** Set when the source says that the text is not the first one. */
  readonly editedAt?: Instant | undefined;
  readonly deleted?: boolean | undefined;
  /** The id of the message this one answers, in the same conversation. */
  readonly replyTo?: ExternalId | undefined;
  readonly embeds?: readonly MessageReference[] | undefined;
}
