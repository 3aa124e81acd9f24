import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Conversations that people had, with questions about them and the turns that answer each. */
export interface Corpus {
  readonly name: string;
  readonly talks: readonly Talk[];
  readonly questions: readonly Question[];
}

/** One conversation of a few speakers. */
export interface Talk {
  readonly id: string;
  /** The talks that one question can be about. */
  readonly group: string;
  readonly speakers: readonly string[];
  readonly turns: readonly SpokenTurn[];
}

export interface SpokenTurn {
  /** Unique in the corpus. */
  readonly id: string;
  readonly speaker: string;
  readonly text: string;
}

export interface Question {
  readonly id: string;
  readonly text: string;
  /** The ids of the turns that answer it: never none, each of them there. */
  readonly gold: ReadonlySet<string>;
}

/** A corpus that may not be there. */
export interface CorpusSource {
  readonly name: string;
  readonly files: readonly string[];
  readonly read: () => Corpus;
}

const DATA = new URL('../../../shared/data/', import.meta.url);

/** Where a file of the shared data is or would be. */
export function sharedData(file: string): string {
  return fileURLToPath(new URL(file, DATA));
}

/** Whether a corpus is there to be read. */
export function isThere({ files }: CorpusSource): boolean {
  return files.every((file) => existsSync(file));
}

/** Every n-th, so that at most `most` are left: the same ones each time, from all over. */
export function sampled<T>(all: readonly T[], most: number): readonly T[] {
  const step = Math.max(1, Math.ceil(all.length / most));
  return all.filter((_, index) => index % step === 0);
}

/** A part of a corpus: at most so many groups of talks, from all over, and the questions about them. */
export function shortened(corpus: Corpus, groups: number): Corpus {
  const kept = new Set(sampled([...new Set(corpus.talks.map(({ group }) => group))], groups));
  const talks = corpus.talks.filter(({ group }) => kept.has(group));
  const turns = new Set(talks.flatMap((talk) => talk.turns.map(({ id }) => id)));
  return {
    ...corpus,
    talks,
    questions: corpus.questions.filter(({ gold }) => [...gold].every((id) => turns.has(id))),
  };
}
