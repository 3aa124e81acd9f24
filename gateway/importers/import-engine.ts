import type { Fact, Member, MessageFact, UserFact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { refuse, REFUSALS, type Refusal } from '../../policy/refusal.ts';
import type { Database } from '../../sql/database.ts';
import { faultOf } from '../../sql/faults.ts';
import { createOrganization, inOrganization } from '../../sql/organization.ts';
import { importMembers } from './import-members.ts';
import { ImportTally, type ImportNoun, type ImportReport } from './import-report.ts';
import {
  importConversation,
  importMessages,
  importUsers,
  importWhole,
  type Step,
} from './import-step.ts';

export interface ImportTarget {
  readonly database: Database;
  /** Created if it is new. */
  readonly organization: ExternalId;
  /** Names the import. The same source run again changes only what it says anew. */
  readonly source: ExternalId;
  /** Whether every edit in the source has a time, so that a text alone that reads otherwise is no edit. */
  readonly editsAreDated: boolean;
}

const BATCH_FACTS = 500;
const BATCH_CHARACTERS = 2_000_000;

/**
 * Applies a stream of facts, each once: what was applied is recorded in the transaction that applies
 * it, so a run after a killed one goes on where that one stopped, and a run over the same facts
 * changes nothing and restores nothing that was removed since.
 *
 * A conversation stays staged, readable by nobody, until its messages are in; its members and its
 * opening are one transaction. What is refused is left out and reported, and a staged conversation
 * that lacks a part of itself stays unreadable. Throws where the database cannot be reached, or when
 * the stream does.
 */
export async function importFacts<Result>(
  target: ImportTarget,
  facts: AsyncGenerator<Fact, Result>,
): Promise<{ report: ImportReport; result: Result }> {
  const created = await createOrganization(target.database, target.organization);
  const run = new ImportRun(target);
  for (;;) {
    const next = await facts.next();
    if (next.done === true) {
      await run.flush();
      return { report: run.tally.finish(created, run.unopened()), result: next.value };
    }
    await run.take(next.value);
  }
}

type Messages = readonly [MessageFact, ...MessageFact[]];

/** Facts that wait for the next of their kind, to be written together. */
type Pending =
  | { readonly of: 'users'; readonly users: UserFact[] }
  | { readonly of: 'messages'; readonly messages: [MessageFact, ...MessageFact[]]; size: number }
  | {
      readonly of: 'members';
      readonly conversation: ExternalId;
      readonly members: readonly Member[];
    };

class ImportRun {
  readonly tally = new ImportTally();
  readonly #target: ImportTarget;
  #pending: Pending | undefined;
  /** Conversations of which nothing is imported, and why. */
  readonly #closed = new Map<ExternalId, string>();
  /** Conversations that lack a part of themselves, and those of them that are staged. */
  readonly #incomplete = new Set<ExternalId>();
  readonly #unopened = new Set<ExternalId>();

  constructor(target: ImportTarget) {
    this.#target = target;
  }

  unopened(): readonly ExternalId[] {
    return [...this.#unopened].sort();
  }

  async take(fact: Fact): Promise<void> {
    switch (fact.fact) {
      case 'user':
        if (this.#pending?.of !== 'users') await this.#follow({ of: 'users', users: [] });
        if (this.#pending?.of === 'users') this.#pending.users.push(fact);
        break;
      case 'message':
        await this.#takeMessage(fact);
        break;
      case 'members':
        await this.#follow({ of: 'members', ...fact });
        break;
      case 'open':
        await this.#takeOpen(fact.conversation);
        break;
      case 'member':
        await this.#follow(undefined);
        await this.#writeMembers(fact.conversation, [fact], { whole: false, opens: false });
        break;
      case 'persona':
      case 'project':
        await this.#follow(undefined);
        await this.#attempt(fact.fact, fact.id, (step) => importWhole(step, fact));
        break;
      case 'conversation':
        await this.#follow(undefined);
        await this.#attempt('conversation', fact.id, async (step) => {
          const done = await importConversation(step, fact);
          if (done.ok && done.closed !== undefined) this.#closed.set(fact.id, done.closed);
          return done;
        });
        break;
    }
    if (this.#isFull()) await this.flush();
  }

  async flush(): Promise<void> {
    const pending = this.#pending;
    this.#pending = undefined;
    switch (pending?.of) {
      case undefined:
        break;
      case 'users':
        await this.#writeUsers(pending.users);
        break;
      case 'messages':
        await this.#writeMessages(pending.messages);
        break;
      case 'members':
        await this.#writeMembers(pending.conversation, pending.members, {
          whole: true,
          opens: false,
        });
        break;
    }
  }

  async #follow(next: Pending | undefined): Promise<void> {
    await this.flush();
    this.#pending = next;
  }

  #isFull(): boolean {
    const pending = this.#pending;
    if (pending?.of === 'users') return pending.users.length >= BATCH_FACTS;
    if (pending?.of !== 'messages') return false;
    return pending.messages.length >= BATCH_FACTS || pending.size >= BATCH_CHARACTERS;
  }

  async #takeMessage(fact: MessageFact): Promise<void> {
    const pending = this.#pending;
    if (pending?.of === 'messages' && pending.messages[0].conversation === fact.conversation) {
      pending.messages.push(fact);
      pending.size += fact.body.length;
    } else await this.#follow({ of: 'messages', messages: [fact], size: fact.body.length });
  }

  /** Members that come right before the opening are written with it. */
  async #takeOpen(conversation: ExternalId): Promise<void> {
    const pending = this.#pending;
    const together = pending?.of === 'members' && pending.conversation === conversation;
    if (together) this.#pending = undefined;
    await this.flush();
    await this.#writeMembers(conversation, together ? pending.members : [], {
      whole: together,
      opens: true,
    });
  }

  async #writeUsers(users: readonly UserFact[]): Promise<void> {
    const done = await this.#try((step) => importUsers(step, users));
    if (done.ok) return;
    const [only, ...others] = users;
    if (only !== undefined && others.length === 0) this.#fail('user', only.id, done);
    else for (const user of users) await this.#writeUsers([user]);
  }

  async #writeMessages(messages: Messages): Promise<void> {
    const [first, ...others] = messages;
    const { conversation } = first;
    if (this.#isClosed('message', conversation, messages)) return;
    const done = await this.#try((step) =>
      importMessages(step, conversation, messages, this.#target.editsAreDated),
    );
    if (done.ok) return;
    if (others.length > 0) {
      for (const message of messages) await this.#writeMessages([message]);
    } else {
      this.#fail('message', `${conversation}/${first.id}`, done);
      this.#incomplete.add(conversation);
    }
  }

  async #writeMembers(
    conversation: ExternalId,
    members: readonly Member[],
    how: { whole: boolean; opens: boolean },
  ): Promise<void> {
    if (this.#isClosed('member', conversation, members)) return;
    const complete = !this.#incomplete.has(conversation);
    const done = await this.#try(async (step) => {
      const result = await importMembers(step, { conversation, members, complete, ...how });
      if (result.ok && result.unopened === true) this.#unopened.add(conversation);
      return result;
    });
    if (done.ok) return;
    this.#fail('member', conversation, done);
    this.#incomplete.add(conversation);
    if (how.opens) this.#unopened.add(conversation);
  }

  async #attempt(
    noun: ImportNoun,
    id: ExternalId,
    work: (step: Step) => Promise<{ ok: true } | Refusal>,
  ): Promise<void> {
    const done = await this.#try(work);
    if (done.ok) return;
    this.#fail(noun, id, done);
    if (noun === 'conversation') this.#closed.set(id, 'its conversation could not be imported');
  }

  /** Runs one transaction. Its tally counts only if it is committed. */
  async #try(
    work: (step: Step) => Promise<{ ok: true } | Refusal>,
  ): Promise<{ ok: true } | Refusal> {
    const { database, organization, source } = this.#target;
    let tally = new ImportTally();
    try {
      const done = await inOrganization(database, organization, (transaction) => {
        tally = new ImportTally();
        return work({ transaction, source, tally });
      });
      if (done.ok) this.tally.add(tally);
      return done;
    } catch (error) {
      const fault = faultOf(error);
      // program_limit_exceeded: a text too long to be indexed.
      if (fault.kind !== 'invalid' && fault.code !== '54000') throw error;
      return refuse('invalid_input', { detail: 'A value is outside what can be stored.' });
    }
  }

  #fail(noun: ImportNoun, id: string, { code, detail }: Refusal): void {
    this.tally.fail(noun, detail ?? REFUSALS[code].sentence, id);
  }

  #isClosed(noun: ImportNoun, conversation: ExternalId, parts: readonly unknown[]): boolean {
    const why = this.#closed.get(conversation);
    if (why === undefined) return false;
    parts.forEach(() => this.tally.keep(noun, why, conversation));
    return true;
  }
}
