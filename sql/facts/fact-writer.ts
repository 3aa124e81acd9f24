import type { Fact, MessageFact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import type { Refusal } from '../../policy/refusal.ts';
import type { Database } from '../database.ts';
import { inOrganization, type OrganizationTransaction } from '../organization.ts';
import { openConversation, putConversation, putMembers } from './conversations.ts';
import { confirmSource } from './fact-source.ts';
import { putMessages } from './messages.ts';
import { putProject } from './projects.ts';
import { putPersona, putUser } from './users.ts';
import type { Written } from './written.ts';

/**
 * Writes facts of one organization in one transaction, all or none: the one writer behind single
 * puts, NDJSON and importers. Messages of one conversation that follow each other go in one
 * statement.
 */
export async function writeFacts(
  database: Database,
  organization: ExternalId,
  source: ExternalId,
  facts: readonly Fact[],
): Promise<{ ok: true; results: Written[] } | Refusal> {
  return inOrganization(database, organization, (transaction) =>
    writeFactsIn(transaction, source, facts),
  );
}

/** {@link writeFacts} in a transaction of the caller's, who rolls it back on a refusal. */
export async function writeFactsIn(
  transaction: OrganizationTransaction,
  source: ExternalId,
  facts: readonly Fact[],
): Promise<{ ok: true; results: Written[] } | Refusal> {
  const results: Written[] = [];
  for (const run of runsOf(facts)) {
    const written = await writeRun(transaction, run);
    if (!written.ok) return written;
    results.push(...written.results);
  }
  await confirmSource(transaction, source);
  return { ok: true, results };
}

/** A fact, or messages of one conversation that follow each other. */
type Run = readonly [MessageFact, ...MessageFact[]] | readonly [Exclude<Fact, MessageFact>];

function runsOf(facts: readonly Fact[]): Run[] {
  const runs: Run[] = [];
  for (const fact of facts) {
    const last = runs.at(-1);
    if (fact.fact !== 'message') runs.push([fact]);
    else if (last?.[0].fact === 'message' && last[0].conversation === fact.conversation) {
      runs[runs.length - 1] = [...(last as readonly [MessageFact, ...MessageFact[]]), fact];
    } else runs.push([fact]);
  }
  return runs;
}

async function writeRun(
  transaction: OrganizationTransaction,
  run: Run,
): Promise<{ ok: true; results: Written[] } | Refusal> {
  const [first] = run;
  if (first.fact === 'message') {
    return putMessages(transaction, first.conversation, run as readonly MessageFact[]);
  }
  const written = await writeOne(transaction, first);
  return written.ok ? { ok: true, results: [written] } : written;
}

function writeOne(
  transaction: OrganizationTransaction,
  fact: Exclude<Fact, MessageFact>,
): Promise<Written | Refusal> {
  switch (fact.fact) {
    case 'user':
      return putUser(transaction, fact);
    case 'persona':
      return putPersona(transaction, fact);
    case 'project':
      return putProject(transaction, fact);
    case 'conversation':
      return putConversation(transaction, fact);
    case 'members':
      return putMembers(transaction, fact.conversation, fact.members, true);
    case 'member':
      return putMembers(transaction, fact.conversation, [fact], false);
    case 'open':
      return openConversation(transaction, fact.conversation);
  }
}
