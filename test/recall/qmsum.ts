import { readFileSync } from 'node:fs';
import { z } from '@hono/zod-openapi';
import { sharedData, type Corpus, type CorpusSource, type Question, type Talk } from './corpus.ts';

const Meeting = z.object({
  meeting_transcripts: z.array(z.object({ speaker: z.string(), content: z.string() })),
  specific_query_list: z.array(
    z.object({
      query: z.string(),
      relevant_text_span: z.array(z.tuple([z.coerce.number(), z.coerce.number()])),
    }),
  ),
});
type Meeting = z.infer<typeof Meeting>;

const FILES = ['test', 'val'].map((part) => sharedData(`qmsum/${part}.jsonl`));

/** Meetings of several people, with questions about what was said on a matter. */
export const QMSUM: CorpusSource = {
  name: 'QMSum',
  files: FILES,
  read: () => readQmsum(FILES),
};

/** Reads the meetings of JSONL files: each is a talk, and the gold of a question is every turn of its spans. */
function readQmsum(files: readonly string[]): Corpus {
  const meetings = files.flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => Meeting.parse(JSON.parse(line))),
  );
  const talks = meetings.map(talkOf);
  return {
    name: QMSUM.name,
    talks,
    questions: meetings.flatMap((meeting, place) => questionsOf(meeting, place, talks[place])),
  };
}

const turnId = (meeting: number, turn: number) => `meeting-${meeting}/${turn}`;

/** Turns without any text are left out; the others keep their place in their id. Speakers are numbered. */
function talkOf({ meeting_transcripts }: Meeting, place: number): Talk {
  const names = [...new Set(meeting_transcripts.map(({ speaker }) => speaker))];
  const named = (speaker: string) => `meeting-${place}/speaker-${names.indexOf(speaker)}`;
  return {
    id: `meeting-${place}`,
    group: `meeting-${place}`,
    speakers: names.map(named),
    turns: meeting_transcripts.flatMap(({ speaker, content }, turn) =>
      content.trim() === ''
        ? []
        : { id: turnId(place, turn), speaker: named(speaker), text: content },
    ),
  };
}

function questionsOf(meeting: Meeting, place: number, talk: Talk | undefined): Question[] {
  const there = new Set(talk?.turns.map(({ id }) => id));
  return meeting.specific_query_list.flatMap(({ query, relevant_text_span }, index) => {
    const turns = relevant_text_span.flatMap(([from, to]) =>
      Array.from({ length: to - from + 1 }, (_, offset) => turnId(place, from + offset)),
    );
    const gold = new Set(turns.filter((id) => there.has(id)));
    return gold.size === 0 ? [] : { id: `meeting-${place}/q${index}`, text: query, gold };
  });
}
