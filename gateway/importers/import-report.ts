/** What an import did here. It holds ids and counts, never text or names. */
export interface ImportReport {
  readonly organizationCreated: boolean;
  readonly counts: Readonly<Record<ImportNoun, Readonly<Record<string, number>>>>;
  /** Left as it is here, because something later than the source's word decided it. */
  readonly kept: readonly ImportNote[];
  /** Not imported, and why. */
  readonly failed: readonly ImportNote[];
  /** Conversations that stay unreadable because a part of them could not be imported. */
  readonly unopened: readonly string[];
}

const IMPORT_NOUNS = ['user', 'persona', 'project', 'conversation', 'message', 'member'] as const;
export type ImportNoun = (typeof IMPORT_NOUNS)[number];

interface ImportNote {
  readonly what: ImportNoun;
  readonly why: string;
  readonly count: number;
  /** The first few ids. */
  readonly examples: readonly string[];
}

const MAX_EXAMPLES = 5;

/** What a transaction did, or all of them so far. One that is rolled back is thrown away with its tally. */
export class ImportTally {
  readonly #counts = new Map<ImportNoun, Map<string, number>>();
  readonly #kept = new Map<string, Note>();
  readonly #failed = new Map<string, Note>();

  count(noun: ImportNoun, outcome: string, by = 1): void {
    if (by === 0) return;
    const outcomes = this.#counts.get(noun) ?? new Map<string, number>();
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + by);
    this.#counts.set(noun, outcomes);
  }

  keep(what: ImportNoun, why: string, example: string): void {
    note(this.#kept, { what, why, count: 1, examples: [example] });
  }

  fail(what: ImportNoun, why: string, example: string): void {
    note(this.#failed, { what, why, count: 1, examples: [example] });
  }

  /** Takes over what another tally holds. */
  add(other: ImportTally): void {
    for (const [noun, outcomes] of other.#counts) {
      for (const [outcome, by] of outcomes) this.count(noun, outcome, by);
    }
    for (const entry of other.#kept.values()) note(this.#kept, entry);
    for (const entry of other.#failed.values()) note(this.#failed, entry);
  }

  finish(organizationCreated: boolean, unopened: readonly string[]): ImportReport {
    const counts = Object.fromEntries(
      IMPORT_NOUNS.map((noun) => [noun, Object.fromEntries(this.#counts.get(noun) ?? [])]),
    ) as unknown as ImportReport['counts'];
    return {
      organizationCreated,
      counts,
      kept: [...this.#kept.values()],
      failed: [...this.#failed.values()],
      unopened,
    };
  }
}

type Note = { -readonly [Key in keyof ImportNote]: ImportNote[Key] };

function note(notes: Map<string, Note>, entry: ImportNote): void {
  const key = `${entry.what}\0${entry.why}`;
  const known = notes.get(key) ?? { ...entry, count: 0, examples: [] };
  known.count += entry.count;
  known.examples = [...new Set([...known.examples, ...entry.examples])].slice(0, MAX_EXAMPLES);
  notes.set(key, known);
}
