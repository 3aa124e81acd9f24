import { createHash } from 'node:crypto';
import type { MessageFact } from '../../../policy/fact.ts';
import { type ExternalId, parseExternalId } from '../../../policy/identity.ts';
import type { Instant } from '../../../policy/instant.ts';
import { writeBody } from './body.ts';
import type { Names } from './markup.ts';
import {
  bodyParts,
  commentedFile,
  filesOf,
  isDeleted,
  isEvent,
  isJoin,
  isLeave,
  parseMessage,
  type SlackMessage,
} from './message.ts';
import type { ReportDraft } from './report.ts';
import { instantOfTs } from './timestamp.ts';

export interface Authors {
  /** The imported user who wrote a message. */
  resolve(message: SlackMessage): ExternalId | undefined;
  /** Told of every readable entry, also of those that are not kept: who wrote here may read here. */
  witness(message: SlackMessage): void;
}

/** The messages of one conversation while its day files are read. */
export class Transcript {
  readonly #conversation: ExternalId;
  readonly #names: Names;
  readonly #authors: Authors;
  readonly #report: ReportDraft;
  readonly #messages = new Map<ExternalId, MessageFact>();
  readonly #digests = new Map<ExternalId, string>();
  readonly #changes: { at: Instant; place: string; message: SlackMessage | undefined }[] = [];
  readonly #deletions = new Map<string, string>();
  readonly #shares = new Map<string, { id: ExternalId; at: Instant }>();
  readonly #comments = new Map<ExternalId, string>();
  readonly #joins = new Map<string, Instant>();
  readonly #leaves = new Map<string, Instant>();
  #gapUntil: Instant = 0n;

  constructor(conversation: ExternalId, names: Names, authors: Authors, report: ReportDraft) {
    this.#conversation = conversation;
    this.#names = names;
    this.#authors = authors;
    this.#report = report;
  }

  /** Takes one entry of a day file. `place` names it in the report. */
  add(entry: unknown, place: string): void {
    const message = parseMessage(entry);
    if (!message) {
      this.#report.skip('message', 'has fields of unknown form', place);
      return;
    }
    const at = instantOfTs(message.ts);
    const id = parseExternalId(message.ts);
    if (at === undefined || !id.ok) {
      this.#report.skip('message', 'ts is not seconds.microseconds', place);
      return;
    }
    this.#authors.witness(message);
    if (message.subtype === 'message_deleted') {
      this.#deletions.set(message.deleted_ts ?? message.previous_message?.ts ?? '', place);
    } else if (message.subtype === 'message_changed') {
      this.#changes.push({ at, place, message: parseMessage(message.message) });
    } else if (message.subtype === 'message_replied') {
      this.#report.skip('message', 'only announces a reply', place);
    } else {
      this.#noteMembership(message, at);
      this.#keep(message, id.id, at, JSON.stringify(entry));
    }
  }

  /** Notes that entries before an instant could not be read: there may have been later joins among them. */
  gap(until: Instant): void {
    if (until > this.#gapUntil) this.#gapUntil = until;
  }

  /** When a user last joined, if the export tells and tells of no later leaving. */
  lastJoin(user: ExternalId): Instant | undefined {
    const join = this.#joins.get(user);
    if (join === undefined || join < this.#gapUntil) return undefined;
    return join > (this.#leaves.get(user) ?? -1n) ? join : undefined;
  }

  /** Applies changes and deletions and gives the messages in order. Called once, at the end. */
  finish(): MessageFact[] {
    this.#applyChanges();
    this.#applyDeletions();
    this.#linkComments();
    return [...this.#messages.values()].sort((a, b) =>
      a.sentAt === b.sentAt ? (a.id < b.id ? -1 : 1) : a.sentAt < b.sentAt ? -1 : 1,
    );
  }

  #keep(message: SlackMessage, id: ExternalId, at: Instant, raw: string): void {
    const digest = createHash('sha256').update(raw).digest('base64');
    const earlier = this.#digests.get(id);
    if (earlier !== undefined) {
      const why = earlier === digest ? 'is in the export twice' : 'has the ts of an earlier one';
      this.#report.skip('message', why, `${this.#conversation}/${id}`);
      return;
    }
    this.#digests.set(id, digest);
    this.#messages.set(id, this.#fact(message, id, at));
  }

  #noteMembership(message: SlackMessage, at: Instant): void {
    const times = isJoin(message) ? this.#joins : isLeave(message) ? this.#leaves : undefined;
    const user = message.user;
    if (!times || !user) return;
    const known = times.get(user);
    if (known === undefined || at > known) times.set(user, at);
  }

  #fact(message: SlackMessage, id: ExternalId, sentAt: Instant): MessageFact {
    const author = this.#authors.resolve(message);
    const base = {
      fact: 'message',
      conversation: this.#conversation,
      id,
      kind: isEvent(message) ? 'event' : 'message',
      ...(author === undefined ? {} : { author: { user: author } }),
      sentAt,
      ...this.#reply(message),
    } as const;
    if (isDeleted(message)) return { ...base, body: '', deleted: true };

    const body = writeBody(bodyParts(message), this.#names);
    this.#report.nul += body.nul;
    this.#report.loneSurrogates += body.loneSurrogates;
    for (let quote = 0; quote < body.namelessQuotes; quote++) {
      this.#report.skip('quote', 'names no message', `${this.#conversation}/${id}`);
    }
    this.#noteFiles(message, id, sentAt);
    const editedAt = message.edited?.ts ? instantOfTs(message.edited.ts) : undefined;
    return {
      ...base,
      body: body.text,
      ...(editedAt === undefined ? {} : { editedAt }),
      ...(body.embeds.length === 0 ? {} : { embeds: body.embeds }),
    };
  }

  #reply(message: SlackMessage): { replyTo?: ExternalId } {
    const root = message.thread_ts;
    if (!root || root === message.ts) return {};
    const parsed = parseExternalId(root);
    if (parsed.ok && instantOfTs(root) !== undefined) return { replyTo: parsed.id };
    this.#report.skip('reply', 'names no message', `${this.#conversation}/${message.ts}`);
    return {};
  }

  #noteFiles(message: SlackMessage, id: ExternalId, at: Instant): void {
    const commented = commentedFile(message);
    if (commented !== undefined) {
      this.#comments.set(id, commented);
      return;
    }
    for (const file of filesOf(message)) {
      const known = file.id === undefined ? undefined : this.#shares.get(file.id);
      if (file.id !== undefined && (!known || at < known.at)) this.#shares.set(file.id, { id, at });
    }
  }

  /** A comment answers the message that shared its file, so the reference holds what the notice said. */
  #linkComments(): void {
    for (const [id, file] of this.#comments) {
      const message = this.#messages.get(id);
      const share = this.#shares.get(file);
      if (!message || !share || share.at >= message.sentAt) continue;
      if (message.deleted !== true && message.replyTo === undefined) {
        this.#messages.set(id, { ...message, replyTo: share.id });
      }
    }
  }

  #applyChanges(): void {
    this.#changes.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
    for (const { at, place, message } of this.#changes) {
      const id = message && parseExternalId(message.ts);
      const sentAt = message && instantOfTs(message.ts);
      if (!message || sentAt === undefined || id?.ok !== true) {
        this.#report.skip('change', 'names no message', place);
        continue;
      }
      this.#authors.witness(message);
      const earlier = this.#messages.get(id.id);
      const fact = this.#fact(message, id.id, sentAt);
      const editedAt = fact.editedAt ?? at;
      // Deleted stays deleted, and an export may hold the newest text beside the way there.
      if (earlier?.deleted === true || (earlier?.editedAt ?? -1n) >= editedAt) continue;
      // The first entry of a message says who wrote it and when; a change says what it says now.
      const { author = fact.author, replyTo = fact.replyTo } = earlier ?? {};
      this.#messages.set(id.id, {
        ...fact,
        ...(author === undefined ? {} : { author }),
        ...(replyTo === undefined ? {} : { replyTo }),
        ...(fact.deleted === true ? {} : { editedAt }),
      });
    }
  }

  #applyDeletions(): void {
    for (const [ts, place] of this.#deletions) {
      const parsed = parseExternalId(ts);
      const message = parsed.ok ? this.#messages.get(parsed.id) : undefined;
      if (!message) {
        this.#report.skip('deletion', 'names no message', place);
        continue;
      }
      this.#messages.set(message.id, withoutContent(message));
    }
  }
}

function withoutContent(message: MessageFact): MessageFact {
  const { fact, conversation, id, kind, author, sentAt, replyTo } = message;
  return {
    fact,
    conversation,
    id,
    kind,
    ...(author === undefined ? {} : { author }),
    body: '',
    sentAt,
    deleted: true,
    ...(replyTo === undefined ? {} : { replyTo }),
  };
}
