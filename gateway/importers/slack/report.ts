import type { ConversationKind, UserKind } from '../../../policy/fact.ts';
import type { ExternalId } from '../../../policy/identity.ts';

/** What an import took over, and what it left out and why. It holds ids and counts, never text or names. */
export interface SlackReport {
  readonly counts: {
    readonly users: Readonly<Record<UserKind, number>>;
    readonly deactivatedUsers: number;
    readonly conversations: Readonly<Record<ConversationKind, number>>;
    /** Each message in exactly one of these. */
    readonly messages: Readonly<Record<MessageOutcome, number>>;
    readonly messagesWithoutAuthor: number;
    readonly embeds: number;
    readonly repairedTexts: { readonly nul: number; readonly loneSurrogates: number };
  };
  readonly skipped: readonly Skipped[];
  /** Members whose join is not in the export: with `from_join` they get no history. */
  readonly withoutJoin: readonly MemberReference[];
  /** Members that are no imported user: nobody can say who reads such a conversation. */
  readonly unresolvedMembers: readonly MemberReference[];
  /** Conversations that list nobody, as Slack does for archived ones. */
  readonly withoutMembers: readonly {
    readonly conversation: ExternalId;
    readonly archived: boolean;
  }[];
  readonly externalReaders: readonly {
    readonly conversation: ExternalId;
    readonly because: readonly ExternalReason[];
  }[];
}

type MessageOutcome = 'live' | 'edited' | 'deleted' | 'event';

export type ExternalReason =
  'shared' | 'outsider_member' | 'outsider_author' | 'relay_bot' | 'unreadable_member';

export interface Skipped {
  readonly what: string;
  readonly why: string;
  readonly count: number;
  /** Ids, or a place like `C01/2016-01-15.json#3` where there is no usable id. The first few. */
  readonly examples: readonly string[];
}

interface MemberReference {
  readonly conversation: ExternalId;
  readonly user: ExternalId;
}

const MAX_EXAMPLES = 5;

/** The report while it is being written. */
export class ReportDraft {
  readonly users: Record<UserKind, number> = { member: 0, guest: 0, bot: 0 };
  deactivatedUsers = 0;
  readonly conversations: Record<ConversationKind, number> = {
    private: 0,
    group: 0,
    channel: 0,
    direct: 0,
  };
  readonly messages: Record<MessageOutcome, number> = { live: 0, edited: 0, deleted: 0, event: 0 };
  messagesWithoutAuthor = 0;
  embeds = 0;
  nul = 0;
  loneSurrogates = 0;
  readonly withoutJoin: MemberReference[] = [];
  readonly unresolvedMembers: MemberReference[] = [];
  readonly withoutMembers: { conversation: ExternalId; archived: boolean }[] = [];
  readonly externalReaders: { conversation: ExternalId; because: ExternalReason[] }[] = [];
  readonly #skipped = new Map<
    string,
    { what: string; why: string; count: number; examples: string[] }
  >();

  skip(what: string, why: string, example?: string): void {
    const key = `${what}\0${why}`;
    const entry = this.#skipped.get(key) ?? { what, why, count: 0, examples: [] };
    entry.count += 1;
    if (example !== undefined && entry.examples.length < MAX_EXAMPLES) entry.examples.push(example);
    this.#skipped.set(key, entry);
  }

  finish(): SlackReport {
    return {
      counts: {
        users: this.users,
        deactivatedUsers: this.deactivatedUsers,
        conversations: this.conversations,
        messages: this.messages,
        messagesWithoutAuthor: this.messagesWithoutAuthor,
        embeds: this.embeds,
        repairedTexts: { nul: this.nul, loneSurrogates: this.loneSurrogates },
      },
      skipped: [...this.#skipped.values()],
      withoutJoin: this.withoutJoin,
      unresolvedMembers: this.unresolvedMembers,
      withoutMembers: this.withoutMembers,
      externalReaders: this.externalReaders,
    };
  }
}
