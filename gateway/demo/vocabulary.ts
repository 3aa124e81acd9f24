import type { MessageFact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';

/** A word that occurs in one message. */
export interface Word {
  readonly text: string;
  readonly conversation: ExternalId;
  readonly id: ExternalId;
  readonly seq: number;
}

/** Words of one stem share their beginning. Taking more for one than are is safe here. */
const STEM = 5;

/** PostgreSQL's English stop words that are long enough to be chosen: it does not search for them. */
const STOP_WORDS = new Set(
  'herself himself itself myself yourself yourselves ourselves themselves theirs during before between through against further because should'.split(
    ' ',
  ),
);

/** Finds words that occur in exactly one message of an import, so that a search for one is a search for it. */
export class Vocabulary {
  /** By stem. Null: it occurs again, or is not to be searched for. */
  readonly #words = new Map<string, Word | null>();

  /** Takes a message with its place in the conversation, counted from 1. */
  add(message: MessageFact, seq: number): void {
    const { body, conversation, id, kind, author } = message;
    const spoken = kind === 'message' && message.deleted !== true && author !== undefined;
    const chosen = new Set(spoken ? choosable(body) : []);
    for (const text of new Set(lowered(body).match(/\p{L}{3,}/gu) ?? [])) {
      const stem = text.slice(0, STEM);
      const known = this.#words.get(stem);
      if (known?.id === id && known.conversation === conversation) continue;
      const fits = known === undefined && chosen.has(text);
      this.#words.set(stem, fits ? { text, conversation, id, seq } : null);
    }
  }

  /** The words found, in the order of their messages. */
  unique(): Word[] {
    return [...this.#words.values()].filter((word) => word !== null).sort((a, b) => a.seq - b.seq);
  }
}

/** Words that stand by themselves: the search takes an address or a path as one. */
function choosable(body: string): string[] {
  const words = lowered(body).match(/(?<=^|\s)\p{L}{6,20}(?=[,.;:!?]?(?:\s|$))/gu) ?? [];
  return words.filter((word) => !STOP_WORDS.has(word));
}

const lowered = (text: string) => text.toLowerCase();
