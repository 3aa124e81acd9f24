import { z } from 'zod';
import type { MessageFact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { formatInstant } from '../../policy/instant.ts';
import { isRefusalCode, refuse, type Refusal } from '../../policy/refusal.ts';
import { faultOf } from '../faults.ts';
import type { OrganizationTransaction } from '../organization.ts';
import { writtenFrom } from './conversations.ts';
import type { Written } from './written.ts';

const Results = z.array(
  z.object({
    outcome: z.enum(['appended', 'edited', 'deleted', 'unchanged', 'late', 'gone']),
    seq: z.string().transform(BigInt).optional(),
  }),
);

/**
 * Appends, edits or deletes messages of one conversation, in the order given, all or none. A message
 * whose author is unknown refuses the whole.
 */
export async function putMessages(
  { sql, name }: OrganizationTransaction,
  conversation: ExternalId,
  messages: readonly Omit<MessageFact, 'fact' | 'conversation'>[],
): Promise<{ ok: true; results: Written[] } | Refusal> {
  const stated = messages.map((message) => ({
    id: message.id,
    kind: message.kind,
    ...authorOf(message),
    body: message.body,
    sentAt: formatInstant(message.sentAt),
    ...(message.editedAt !== undefined && { editedAt: formatInstant(message.editedAt) }),
    ...(message.deleted !== undefined && { deleted: message.deleted }),
    ...(message.replyTo !== undefined && { replyTo: message.replyTo }),
    ...(message.embeds !== undefined && { embeds: message.embeds }),
  }));
  try {
    const [row] = await sql<{ code: string | null; results: unknown }[]>`
      select code, results
      from earshot.put_messages(${name}, ${conversation}, ${JSON.stringify(stated)}::text::jsonb, false)`;
    if (row === undefined) return refuse('fault');
    if (row.code !== null) return refuse(isRefusalCode(row.code) ? row.code : 'fault');
    const results = Results.parse(row.results).map(({ outcome, seq }) => ({
      ok: true as const,
      outcome,
      ...(seq !== undefined && { seq }),
    }));
    return { ok: true, results };
  } catch (error) {
    const fault = faultOf(error);
    if (fault.kind === 'invalid' && fault.constraint === 'messages_author') {
      return refuse('invalid_input', { detail: 'The author of a message is unknown.' });
    }
    throw error;
  }
}

/** Deletes a message: its text goes, its sequence stays. */
export async function deleteMessage(
  { sql, name }: OrganizationTransaction,
  conversation: ExternalId,
  message: ExternalId,
): Promise<Written | Refusal> {
  const [row] = await sql<{ outcome: string }[]>`
    select earshot.delete_message(${name}, ${conversation}, ${message}) as outcome`;
  return writtenFrom(row?.outcome);
}

export interface LateMessage {
  readonly id: string;
  readonly sentAt: string;
  readonly arrivedAt: string;
}

/** Messages kept apart because they were sent before the newest join: which, not what they say. */
export async function listLate(
  { sql, name }: OrganizationTransaction,
  conversation: ExternalId,
): Promise<{ ok: true; messages: LateMessage[] }> {
  const messages = await sql<LateMessage[]>`
    select id, sent_at as "sentAt", arrived_at as "arrivedAt"
    from earshot.list_late(${name}, ${conversation})`;
  return { ok: true, messages: [...messages] };
}

/** Admits a late message: it is appended at the head. */
export async function admitLate(
  { sql, name }: OrganizationTransaction,
  conversation: ExternalId,
  message: ExternalId,
): Promise<Written | Refusal> {
  const [row] = await sql<{ outcome: string }[]>`
    select earshot.admit_late(${name}, ${conversation}, ${message}) as outcome`;
  return writtenFrom(row?.outcome);
}

function authorOf({ author }: Pick<MessageFact, 'author'>): Record<string, string> {
  if (author === undefined) return {};
  return 'user' in author ? { authorUser: author.user } : { authorPersona: author.persona };
}
