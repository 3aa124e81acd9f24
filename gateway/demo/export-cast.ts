import type { Fact, Member } from '../../policy/fact.ts';
import { externalId, type ExternalId } from '../../policy/identity.ts';
import type { Instant } from '../../policy/instant.ts';
import type { Cast, CastMessage } from './cast.ts';
import { Vocabulary, type Word } from './vocabulary.ts';

/** A conversation as the export tells it: who reads it from which message on. */
interface Place {
  readonly title: string;
  readonly takesAnswers: boolean;
  readonly floors: ReadonlyMap<ExternalId, number>;
  readonly size: number;
}

/**
 * Watches an import and chooses a cast from it: people, places, and words that occur in one message
 * each. Reads the facts alone and computes its own floors, so that the story can be held against
 * them.
 */
export class ExportCast {
  readonly #names = new Map<string, string>();
  readonly #guests = new Set<ExternalId>();
  readonly #people = new Set<ExternalId>();
  readonly #bots = new Set<ExternalId>();
  readonly #places = new Map<ExternalId, Place>();
  readonly #vocabulary = new Vocabulary();
  #times: Instant[] = [];
  #open: { id: ExternalId; title: string; takesAnswers: boolean } | undefined;

  /** Passes the facts on and keeps what it needs of each. */
  async *watch<Result>(facts: AsyncGenerator<Fact, Result>): AsyncGenerator<Fact, Result> {
    for (;;) {
      const next = await facts.next();
      if (next.done === true) return next.value;
      this.#note(next.value);
      yield next.value;
    }
  }

  counts(): { people: number; conversations: number } {
    return { people: this.#names.size, conversations: this.#places.size };
  }

  /** The best cast there is, or why there is none. */
  choose(organization: ExternalId): Cast | string {
    const words = this.#vocabulary.unique();
    if (this.#people.size < 2) return 'The export has fewer than two people who can read.';
    const trios = this.#trios(words);
    const best = trios
      .map((trio) => ({ ...trio, ...this.#scenes(trio, words) }))
      .sort((a, b) => this.#worth(b) - this.#worth(a))[0];
    if (best === undefined) return 'No two people of the export read one conversation.';

    const { requester, other, newcomer, shared, lost, hidden, home } = best;
    const missing = [
      ...(newcomer === undefined ? ['nobody is left to join: the export has two people'] : []),
      ...(shared === undefined ? ['no word occurs in one message alone that everyone reads'] : []),
      ...(newcomer !== undefined && lost === undefined
        ? ['nothing is read by the first two and not by the newcomer']
        : []),
      ...(hidden === undefined ? ['nothing is read by one of the two and not by the other'] : []),
    ];
    const used = [shared, lost, hidden].filter((word) => word !== undefined);
    const place = this.#places.get(home)?.takesAnswers === true ? home : undefined;
    return {
      organization,
      requester,
      other,
      ...(newcomer !== undefined && { newcomer }),
      guests: this.#guests.has(requester) || this.#guests.has(other),
      guestJoins: newcomer !== undefined && this.#guests.has(newcomer),
      query: used.length === 0 ? 'anything' : used.map(({ text }) => text).join(' or '),
      ...(shared && { shared: messageOf(shared) }),
      ...(lost && { lost: messageOf(lost) }),
      ...(hidden && { hidden: messageOf(hidden) }),
      ...(place !== undefined && { place }),
      names: this.#names,
      titles: new Map([...this.#places].map(([id, { title }]) => [id, title])),
      missing,
    };
  }

  #note(fact: Fact): void {
    switch (fact.fact) {
      case 'user':
        if (fact.kind === 'bot') {
          this.#bots.add(fact.id);
          break;
        }
        this.#names.set(fact.id, fact.name ?? fact.id);
        if (fact.status === 'active') this.#people.add(fact.id);
        if (fact.kind === 'guest') this.#guests.add(fact.id);
        break;
      case 'conversation':
        this.#open = {
          id: fact.id,
          title: fact.kind === 'channel' ? `#${fact.title ?? fact.id}` : (fact.title ?? fact.id),
          takesAnswers: !fact.archived && !fact.externalReaders,
        };
        this.#times = [];
        break;
      case 'message':
        this.#times.push(fact.sentAt);
        this.#vocabulary.add(fact, this.#times.length);
        break;
      case 'members':
        this.#close(fact.members);
        break;
      case 'persona':
      case 'project':
      case 'member':
      case 'open':
        break;
    }
  }

  #close(members: readonly Member[]): void {
    if (this.#open === undefined) return;
    const { id, ...rest } = this.#open;
    const floors = new Map<ExternalId, number>();
    for (const { user, history } of members) {
      const floor = floorOf(history, this.#times);
      if (floor !== undefined && this.#people.has(user)) floors.set(user, floor);
    }
    // A member whom nobody knows makes the readers unlistable.
    const known = members.every(({ user }) => this.#names.has(user) || this.#bots.has(user));
    this.#places.set(id, {
      ...rest,
      takesAnswers: rest.takesAnswers && known,
      floors,
      size: this.#times.length,
    });
  }

  /** Who might play: in each large place its two earliest readers, and the one who came late. */
  #trios(words: readonly Word[]): Trio[] {
    const large = [...this.#places].sort(([, a], [, b]) => b.size - a.size).slice(0, 30);
    return large.flatMap(([home, { floors }]) => {
      const readers = [...floors].sort(([, a], [, b]) => a - b).map(([user]) => user);
      const [first, second, ...later] = readers;
      if (first === undefined || second === undefined) return [];
      const here = words.filter(({ conversation }) => conversation === home);
      const start = Math.max(floors.get(first) ?? 0, floors.get(second) ?? 0);
      const worth = (user: ExternalId) => {
        const floor = floors.get(user) ?? 0;
        const before = here.filter(({ seq }) => seq >= start && seq < floor).length;
        const after = here.filter(({ seq }) => seq >= floor).length;
        return Math.min(before, after) * 1000 + before + after;
      };
      const latecomer = later.sort((a, b) => worth(b) - worth(a))[0];
      const outsider = [...this.#people].find((user) => !floors.has(user));
      const newcomer = latecomer ?? outsider;
      return [
        [first, second],
        [second, first],
      ].map(([requester = first, other = second]) => ({
        home,
        requester,
        other,
        ...(newcomer !== undefined && { newcomer }),
      }));
    });
  }

  #worth({ requester, other, newcomer, shared, lost, hidden, home }: Trio & Scenes): number {
    // Best is somebody who came late to the very place that the answer draws on.
    const late = lost?.conversation === home && shared?.conversation === home;
    const guests = [requester, other, newcomer].some((one) => one && this.#guests.has(one));
    const wishes = [!guests, late, hidden, shared, lost, newcomer];
    return wishes.reduce((worth, wish, place) => worth + (wish ? 2 ** place : 0), 0);
  }

  /** The words that each scene of the story needs, where there are any. */
  #scenes({ home, requester, other, newcomer }: Trio, words: readonly Word[]): Scenes {
    const reads = (user: ExternalId | undefined, { conversation, seq }: Word) =>
      user === undefined ||
      seq >= (this.#places.get(conversation)?.floors.get(user) ?? Number.POSITIVE_INFINITY);
    const last = (fits: (word: Word) => boolean) => {
      const fitting = words.filter(fits);
      return fitting.findLast(({ conversation }) => conversation === home) ?? fitting.at(-1);
    };
    const both = (word: Word) => reads(requester, word) && reads(other, word);
    const shared = last((word) => both(word) && reads(newcomer, word));
    const lost =
      newcomer === undefined ? undefined : last((word) => both(word) && !reads(newcomer, word));
    const hidden = last((word) => reads(requester, word) && !reads(other, word));
    return {
      ...(shared && { shared }),
      ...(lost && { lost }),
      ...(hidden && { hidden }),
    };
  }
}

interface Trio {
  readonly home: ExternalId;
  readonly requester: ExternalId;
  readonly other: ExternalId;
  readonly newcomer?: ExternalId;
}

interface Scenes {
  readonly shared?: Word;
  readonly lost?: Word;
  readonly hidden?: Word;
}

function messageOf({ conversation, id }: Word): CastMessage {
  return { conversation, id };
}

/** The first message that a member reads, counted from 1; undefined for none of them. */
function floorOf(history: Member['history'], times: readonly Instant[]): number | undefined {
  if (history === 'all') return 1;
  if (history === 'from_join') return times.length + 1;
  if (history === 'none') return undefined;
  if ('fromSeq' in history) return Number(history.fromSeq);
  return times.findLastIndex((time) => time < history.fromTime) + 2;
}

/** The organization that a demo imports into. */
export const IMPORTED = externalId('imported');
