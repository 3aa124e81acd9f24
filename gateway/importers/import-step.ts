import type { ConversationFact, Fact, MessageFact, UserFact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import type { Refusal } from '../../policy/refusal.ts';
import { writeFactsIn } from '../../sql/facts/fact-writer.ts';
import { knownConversation } from '../../sql/facts/known-conversation.ts';
import { knownUsers } from '../../sql/facts/known-users.ts';
import { recordedItems, recordItems, type ImportItem } from '../../sql/import-items.ts';
import type { OrganizationTransaction } from '../../sql/organization.ts';
import {
  CONVERSATION_FIELDS,
  conversationItem,
  digestOf,
  keyOf,
  messageItem,
  samePart,
  wholeItem,
} from './import-item.ts';
import type { ImportTally } from './import-report.ts';

/** One transaction of an import: what is recorded is read, judged and written in it. */
export interface Step {
  readonly transaction: OrganizationTransaction;
  readonly source: ExternalId;
  readonly tally: ImportTally;
}

type Done = { readonly ok: true } | Refusal;
const DONE: Done = { ok: true };

/** Writes users as far as their source says something new of them. */
export async function importUsers(
  { transaction, source, tally }: Step,
  facts: readonly UserFact[],
): Promise<Done> {
  const said = facts.map((fact) => {
    const digest = digestOf(fact.kind, fact.status, fact.name);
    return { fact, item: { key: keyOf('user', fact.id), digest } };
  });
  const recorded = await recordedItems(
    transaction,
    source,
    said.map(({ item }) => item.key),
  );
  const known = await knownUsers(
    transaction,
    facts.map(({ id }) => id),
  );
  const applied: ImportItem[] = [];
  for (const { fact, item } of said) {
    const before = recorded.get(item.key);
    const here = known.get(fact.id);
    if (here?.deleted === true) {
      tally.keep('user', 'was deleted here', fact.id);
      continue;
    }
    if (before === item.digest) {
      tally.count('user', 'unchanged');
      continue;
    }
    // What the source says as before, somebody here may have decided otherwise since.
    const merged: UserFact =
      here === undefined
        ? fact
        : {
            ...fact,
            kind: before === undefined || samePart(before, item.digest, 0) ? here.kind : fact.kind,
            status:
              (before === undefined && fact.status === 'active') || samePart(before, item.digest, 1)
                ? here.status
                : fact.status,
          };
    const written = await writeFactsIn(transaction, source, [merged]);
    if (!written.ok) return written;
    tally.count('user', written.results[0]?.outcome ?? 'unchanged');
    applied.push(item);
  }
  await recordItems(transaction, source, applied);
  return DONE;
}

/** Writes personas and projects whose source says something new of them. */
export async function importWhole(
  { transaction, source, tally }: Step,
  fact: Extract<Fact, { fact: 'persona' | 'project' }>,
): Promise<Done> {
  const item = wholeItem(fact);
  const recorded = await recordedItems(transaction, source, [item.key]);
  if (recorded.get(item.key) === item.digest) {
    tally.count(fact.fact, 'unchanged');
    return DONE;
  }
  const written = await writeFactsIn(transaction, source, [fact]);
  if (!written.ok) return written;
  tally.count(fact.fact, written.results[0]?.outcome ?? 'unchanged');
  await recordItems(transaction, source, [item]);
  return DONE;
}

/**
 * Writes a conversation, or what its source changed of it. `closed` says why nothing of it is to be
 * imported.
 */
export async function importConversation(
  { transaction, source, tally }: Step,
  fact: ConversationFact,
): Promise<{ readonly ok: true; readonly closed?: string } | Refusal> {
  const item = conversationItem(fact);
  const before = (await recordedItems(transaction, source, [item.key])).get(item.key);
  const here = await knownConversation(transaction, fact.id);
  if (here?.deleted === true) return { ok: true, closed: 'its conversation was deleted here' };
  if (here?.staged === true && before === undefined) {
    return { ok: true, closed: 'its conversation is being imported from another source' };
  }
  if (before === item.digest) {
    tally.count('conversation', 'unchanged');
    return DONE;
  }
  const merged = here === undefined ? fact : mergedConversation(fact, here, before, item.digest);
  const written = await writeFactsIn(transaction, source, merged === undefined ? [] : [merged]);
  if (!written.ok) return written;
  tally.count('conversation', written.results[0]?.outcome ?? 'unchanged');
  await recordItems(transaction, source, [item]);
  return DONE;
}

/** A conversation that is here, with what the source changed since it last spoke. */
function mergedConversation(
  fact: ConversationFact,
  here: Omit<ConversationFact, 'fact' | 'id' | 'title'>,
  before: string | undefined,
  now: string,
): ConversationFact | undefined {
  if (before === undefined) {
    // It came from elsewhere, which keeps it. Only that its readers cannot be listed is taken over.
    return fact.externalReaders && !here.externalReaders
      ? { ...fact, ...withoutFloor(here), externalReaders: true }
      : undefined;
  }
  const kept = CONVERSATION_FIELDS.filter(
    (field, part) => field !== 'title' && samePart(before, now, part),
  );
  const merged: Record<string, unknown> = { ...fact };
  for (const field of kept) {
    if (field === 'title') continue;
    // Named, a default floor would undo the writer's own rule of opening.
    merged[field] = field === 'defaultFloor' ? undefined : here[field];
  }
  return merged as unknown as ConversationFact;
}

function withoutFloor<T extends { defaultFloor?: unknown }>(here: T): Omit<T, 'defaultFloor'> {
  const { defaultFloor: _floor, ...rest } = here;
  return rest;
}

/** Appends, edits and deletes messages of one conversation that its source says something new of. */
export async function importMessages(
  { transaction, source, tally }: Step,
  conversation: ExternalId,
  facts: readonly MessageFact[],
  editsAreDated: boolean,
): Promise<Done> {
  const said = facts.map((fact) => ({ fact, item: messageItem(fact, editsAreDated) }));
  const recorded = await recordedItems(
    transaction,
    source,
    said.map(({ item }) => item.key),
  );
  const news: { fact: MessageFact; item: ImportItem }[] = [];
  for (const { fact, item } of said) {
    if (recorded.get(item.key) === item.digest) tally.count('message', 'unchanged');
    else news.push({ fact, item });
  }
  if (news.length === 0) return DONE;
  if ((await knownConversation(transaction, conversation))?.deleted === true) {
    for (const { fact } of news) {
      tally.keep('message', 'its conversation was deleted here', fact.id);
    }
    return DONE;
  }

  const written = await writeFactsIn(
    transaction,
    source,
    news.map(({ fact }) => fact),
  );
  if (!written.ok) return written;
  for (const [index, { fact }] of news.entries()) {
    const outcome = written.results[index]?.outcome ?? 'unchanged';
    if (outcome !== 'gone') tally.count('message', outcome);
    else if (fact.deleted === true) tally.count('message', 'unchanged');
    else tally.keep('message', 'was deleted here', fact.id);
  }
  await recordItems(
    transaction,
    source,
    news.map(({ item }) => item),
  );
  return DONE;
}
