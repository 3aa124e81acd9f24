import type { Fact, Member } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { parseInstant } from '../../policy/instant.ts';
import type { Refusal } from '../../policy/refusal.ts';
import { putMembers, removeMember } from '../../sql/facts/conversations.ts';
import { writeFactsIn } from '../../sql/facts/fact-writer.ts';
import { knownConversation } from '../../sql/facts/known-conversation.ts';
import { knownMembers } from '../../sql/facts/known-members.ts';
import { knownUsers } from '../../sql/facts/known-users.ts';
import { recordedItems, recordItems, type ImportItem } from '../../sql/import-items.ts';
import { isRejoin, keyOf, LEFT, memberItem } from './import-item.ts';
import type { Step } from './import-step.ts';

/** What a source says of who is in one conversation. */
export interface Membership {
  readonly conversation: ExternalId;
  readonly members: readonly Member[];
  /** Whether that is everyone: whoever this source named before and does not name now has left. */
  readonly whole: boolean;
  /** Whether the conversation ends its staging with this. */
  readonly opens: boolean;
  /** Whether everything of the conversation that came before is in. */
  readonly complete: boolean;
}

/**
 * Writes members, and opens the conversation in the same transaction. A staged conversation takes
 * the whole set; in one that is open, new members join, those whom the source no longer names leave,
 * and whoever was removed here stays removed. A staged conversation that is not complete stays as it is, and
 * `unopened` says so.
 */
export async function importMembers(
  step: Step,
  membership: Membership,
): Promise<{ readonly ok: true; readonly unopened?: boolean } | Refusal> {
  const { transaction, source, tally } = step;
  const { conversation, opens } = membership;
  // First: whoever imports the same source now waits until this transaction has ended.
  await recordedItems(transaction, source, []);
  const here = await knownConversation(transaction, conversation);
  if (here?.deleted === true) {
    tally.keep('conversation', 'was deleted here', conversation);
    return { ok: true };
  }
  if (here?.staged === true && !membership.complete) return { ok: true, unopened: true };
  const named = await withoutDeleted(step, membership);
  if (here?.staged !== true) return changeMembers(step, membership, named);

  const facts: Fact[] = membership.whole
    ? [{ fact: 'members', conversation, members: named }]
    : named.map((member) => ({ fact: 'member', conversation, ...member }));
  if (opens) facts.push({ fact: 'open', conversation });
  const written = await writeFactsIn(transaction, source, facts);
  if (!written.ok) return written;
  tally.count('member', 'joined', named.length);
  if (opens) tally.count('conversation', 'opened');
  await recordItems(
    transaction,
    source,
    named.map((member) => memberItem(conversation, member)),
  );
  return { ok: true };
}

async function withoutDeleted(
  { transaction, tally }: Step,
  { members }: Membership,
): Promise<Member[]> {
  const known = await knownUsers(
    transaction,
    members.map(({ user }) => user),
  );
  return members.filter(({ user }) => {
    const deleted = known.get(user)?.deleted === true;
    if (deleted) tally.keep('member', 'was deleted here', user);
    return !deleted;
  });
}

async function changeMembers(
  { transaction, source, tally }: Step,
  { conversation, whole }: Membership,
  named: readonly Member[],
): Promise<{ readonly ok: true } | Refusal> {
  const present = await knownMembers(transaction, conversation);
  const said = named.map((member) => ({ member, item: memberItem(conversation, member) }));
  const names = new Set(named.map(({ user }) => user));
  const unnamed = whole ? [...present.keys()].filter((user) => !names.has(user)) : [];
  const recorded = await recordedItems(transaction, source, [
    ...said.map(({ item }) => item.key),
    ...unnamed.map((user) => keyOf('member', conversation, user)),
  ]);
  const joining: Member[] = [];
  const applied: ImportItem[] = [];
  for (const { member, item } of said) {
    const before = recorded.get(item.key);
    const isPresent = present.has(member.user);
    if (before !== item.digest) applied.push(item);
    if (before === undefined || before === LEFT || before === item.digest || !isPresent) {
      if (isPresent) tally.count('member', 'unchanged');
      else if (before === undefined || isRejoin(before, member, item.digest)) {
        joining.push(member);
        tally.count('member', 'joined');
      } else tally.keep('member', 'was removed here', member.user);
      continue;
    }
    // A new floor: nothing of the old one comes back, and an end that was set here stays.
    const removed = await removeMember(transaction, conversation, member.user);
    if (!removed.ok) return removed;
    const expiresAt = member.expiresAt ?? parseInstant(present.get(member.user) ?? '');
    joining.push({ ...member, ...(expiresAt !== undefined && { expiresAt }) });
    tally.count('member', 'changed');
  }
  for (const user of unnamed) {
    const key = keyOf('member', conversation, user);
    const before = recorded.get(key);
    // Somebody else's member, or one who came back by another way.
    if (before === undefined || before === LEFT) continue;
    const removed = await removeMember(transaction, conversation, user);
    if (!removed.ok) return removed;
    applied.push({ key, digest: LEFT });
    tally.count('member', 'left');
  }
  if (joining.length > 0) {
    const written = await putMembers(transaction, conversation, joining, false);
    if (!written.ok) return written;
  }
  await recordItems(transaction, source, applied);
  return { ok: true };
}
