import type { ConversationFact, Member } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { formatInstant } from '../../policy/instant.ts';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import type { OrganizationTransaction } from '../organization.ts';
import type { Written } from './written.ts';

/** Puts a conversation. See `earshot.put_conversation` for what opening one does to floors. */
export async function putConversation(
  { sql, name }: OrganizationTransaction,
  fact: ConversationFact,
): Promise<Written | Refusal> {
  const { fact: _kind, defaultFloor, ...rest } = fact;
  const stated = { ...rest, ...(defaultFloor && { defaultFloor: defaultFloor.toString() }) };
  const [row] = await sql<{ outcome: string }[]>`
    select earshot.put_conversation(${name}, ${JSON.stringify(stated)}::text::jsonb) as outcome`;
  return writtenFrom(row?.outcome);
}

/** Ends the staging of an import. */
export async function openConversation(
  { sql, name }: OrganizationTransaction,
  conversation: ExternalId,
): Promise<Written | Refusal> {
  const [row] = await sql<{ outcome: string }[]>`
    select earshot.open_conversation(${name}, ${conversation}) as outcome`;
  return writtenFrom(row?.outcome);
}

/** Deletes a conversation and erases its text. */
export async function deleteConversation(
  { sql, name }: OrganizationTransaction,
  conversation: ExternalId,
): Promise<Written | Refusal> {
  const [row] = await sql<{ outcome: string }[]>`
    select earshot.delete_conversation(${name}, ${conversation}) as outcome`;
  return writtenFrom(row?.outcome);
}

/** Puts members; with `replace`, the set given is the whole membership afterwards. */
export async function putMembers(
  { sql, name }: OrganizationTransaction,
  conversation: ExternalId,
  members: readonly Member[],
  replace: boolean,
): Promise<Written | Refusal> {
  const stated = members.map((member) => ({
    user: member.user,
    ...historyOf(member),
    ...(member.expiresAt !== undefined && { expiresAt: formatInstant(member.expiresAt) }),
  }));
  const [row] = await sql<{ outcome: string }[]>`
    select earshot.put_members(${name}, ${conversation}, ${JSON.stringify(stated)}::text::jsonb,
      ${replace}) as outcome`;
  return writtenFrom(row?.outcome);
}

/** Removes one member at once. */
export async function removeMember(
  { sql, name }: OrganizationTransaction,
  conversation: ExternalId,
  user: ExternalId,
): Promise<Written | Refusal> {
  const [row] = await sql<{ outcome: string }[]>`
    select earshot.remove_member(${name}, ${conversation}, ${user}) as outcome`;
  return writtenFrom(row?.outcome);
}

function historyOf({ history }: Member): Record<string, string> {
  if (typeof history === 'string') return { history };
  if ('fromSeq' in history) return { fromSeq: history.fromSeq.toString() };
  return { fromTime: formatInstant(history.fromTime) };
}

/** Reads what a writer in SQL answers. Whatever is not a known outcome is a refusal. */
export function writtenFrom(outcome: string | undefined): Written | Refusal {
  switch (outcome) {
    case 'created':
    case 'updated':
    case 'unchanged':
    case 'deleted':
    case 'removed':
    case 'opened':
    case 'admitted':
      return { ok: true, outcome };
    case 'not_found':
    case 'conflict':
      return refuse(outcome);
    case 'unknown_project':
      return refuse('invalid_input', { detail: 'The project is unknown.' });
    case 'unknown_owner':
      return refuse('invalid_input', { detail: 'The owner is unknown.' });
    case undefined:
    default:
      return refuse('fault');
  }
}
