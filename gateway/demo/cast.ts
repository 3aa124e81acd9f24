import type { ExternalId } from '../../policy/identity.ts';

/** A message that the story speaks of. */
export interface CastMessage {
  readonly conversation: ExternalId;
  readonly id: ExternalId;
}

/** Who and what the story is told with, chosen from the facts and not from the gateway's answers. */
export interface Cast {
  readonly organization: ExternalId;
  /** Asks, in a thread that `other` reads too. */
  readonly requester: ExternalId;
  readonly other: ExternalId;
  /** Joins the thread later. */
  readonly newcomer?: ExternalId;
  /** Whether requester or other is a guest, and whether the newcomer is. */
  readonly guests: boolean;
  readonly guestJoins: boolean;
  /** What is searched for. */
  readonly query: string;
  /** Everyone reads it, the newcomer too. */
  readonly shared?: CastMessage;
  /** The newcomer does not read it; requester and other do. */
  readonly lost?: CastMessage;
  /** The requester reads it and the other does not. */
  readonly hidden?: CastMessage;
  /** Where the requester would like to post a private draft. */
  readonly place?: ExternalId;
  readonly names: ReadonlyMap<string, string>;
  readonly titles: ReadonlyMap<string, string>;
  /** What cannot be shown with these facts, and why. */
  readonly missing: readonly string[];
}
