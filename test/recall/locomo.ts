import { readFileSync } from 'node:fs';
import { z } from '@hono/zod-openapi';
import { sharedData, type Corpus, type CorpusSource, type Question, type Talk } from './corpus.ts';

const Turn = z.object({ speaker: z.string(), dia_id: z.string(), text: z.string() });
const Sample = z.object({
  sample_id: z.string(),
  qa: z.array(z.object({ question: z.string(), evidence: z.array(z.string()) })),
  conversation: z.record(z.string(), z.union([z.string(), z.array(Turn)])),
});

const FILE = sharedData('locomo/locomo10.json');

/** Ten pairs of people who talk for months, with questions about what they said. */
export const LOCOMO: CorpusSource = {
  name: 'LoCoMo',
  files: [FILE],
  read: () => readLocomo(FILE),
};

/** Reads `locomo10.json`: each session of two people is a talk. References to turns that are not there are left out. */
function readLocomo(file: string): Corpus {
  const samples = z.array(Sample).parse(JSON.parse(readFileSync(file, 'utf8')));
  const talks = samples.flatMap(talksOf);
  const turns = new Set(talks.flatMap((talk) => talk.turns.map(({ id }) => id)));
  return {
    name: LOCOMO.name,
    talks,
    questions: samples.flatMap((sample) => questionsOf(sample, turns)),
  };
}

function talksOf({ sample_id, conversation }: z.infer<typeof Sample>): Talk[] {
  const named = (speaker: string) => `${sample_id}/${speaker}`;
  return Object.entries(conversation).flatMap(([session, turns]) => {
    if (typeof turns === 'string') return [];
    return {
      id: `${sample_id}/${session}`,
      group: sample_id,
      speakers: [...new Set(turns.map(({ speaker }) => named(speaker)))],
      turns: turns.map(({ dia_id, speaker, text }) => ({
        id: `${sample_id}/${dia_id}`,
        speaker: named(speaker),
        text,
      })),
    };
  });
}

function questionsOf(
  { sample_id, qa }: z.infer<typeof Sample>,
  turns: ReadonlySet<string>,
): Question[] {
  return qa.flatMap(({ question, evidence }, index) => {
    const gold = new Set(evidence.map((id) => `${sample_id}/${id}`).filter((id) => turns.has(id)));
    return gold.size === 0 ? [] : { id: `${sample_id}/q${index}`, text: question, gold };
  });
}
