import { hexDigestParts } from '../../policy/canonical.ts';
import type { ConversationFact, Fact, Member, MessageFact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import type { ImportItem } from '../../sql/import-items.ts';

/**
 * Items are what an import remembers: a key for what a fact speaks of, a digest of what it says. The
 * digest of a user or a conversation is made of one part per field, so that a later import can tell
 * what its source changed from what somebody else changed here.
 */
const PART_DIGITS = 32;

export function keyOf(...names: readonly string[]): string {
  return hexDigestParts(names);
}

/** A digest of one part per value, in the order given. */
export function digestOf(...values: readonly unknown[]): string {
  return values.map(partOf).join('');
}

/** Whether the source said the same of this part before. False where nothing is recorded. */
export function samePart(before: string | undefined, now: string, part: number): boolean {
  const at = part * PART_DIGITS;
  return before?.slice(at, at + PART_DIGITS) === now.slice(at, at + PART_DIGITS);
}

function partOf(value: unknown): string {
  // What is absent differs from what is null or empty.
  const text = JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'bigint' ? `${inner.toString()}n` : inner,
  ) as string | undefined;
  return hexDigestParts([text ?? 'absent']).slice(0, PART_DIGITS);
}

/** The fields of a conversation that an import may change later, in the order of their parts. */
export const CONVERSATION_FIELDS = [
  'kind',
  'visibility',
  'project',
  'owner',
  'aiThread',
  'externalReaders',
  'archived',
  'title',
  'defaultFloor',
] as const satisfies readonly (keyof ConversationFact)[];

export function conversationItem(fact: ConversationFact): ImportItem {
  return {
    key: keyOf('conversation', fact.id),
    digest: digestOf(...CONVERSATION_FIELDS.map((field) => fact[field])),
  };
}

/**
 * A message as an item. Where the source dates its edits, the text is no part of it: it may read
 * otherwise because a person it mentions was renamed, and then nobody has edited it.
 */
export function messageItem(fact: MessageFact, editsAreDated: boolean): ImportItem {
  const { body, editedAt, deleted = false } = fact;
  return {
    key: keyOf('message', fact.conversation, fact.id),
    digest: digestOf([editedAt, deleted, editsAreDated ? '' : body]),
  };
}

/** A personas's or a project's fact, as a whole. */
export function wholeItem(fact: Extract<Fact, { fact: 'persona' | 'project' }>): ImportItem {
  return { key: keyOf(fact.fact, fact.id), digest: digestOf(fact) };
}

/** The digest of a member who left again, by this source. */
export const LEFT = digestOf('left', '');

/** A member as an item: how the history is given, then what is given. */
export function memberItem(
  conversation: ExternalId,
  { user, history, expiresAt }: Member,
): ImportItem {
  const way = typeof history === 'string' ? 'named' : Object.keys(history);
  return {
    key: keyOf('member', conversation, user),
    digest: digestOf(way, [history, expiresAt]),
  };
}

/** Whether the source dates a join anew: the person left and came back. */
export function isRejoin(before: string, member: Member, now: string): boolean {
  if (before === LEFT) return true;
  const timed = typeof member.history === 'object' && 'fromTime' in member.history;
  return timed && samePart(before, now, 0) && !samePart(before, now, 1);
}
