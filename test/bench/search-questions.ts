import { z } from 'zod';
import type { Audience, AudienceGroup } from './audiences.ts';
import { wordAt } from './grant-cases.ts';
import type { BenchDatabase } from './server.ts';

/** A word of a few messages in fifty thousand, one of a few in a hundred, and all words of a message. */
export const KINDS = ['rare word', 'common word', 'a message’s words'] as const;
export type Kind = (typeof KINDS)[number];

/** What an audience searches for. */
export interface SearchQuestion {
  readonly audience: Audience;
  /** Which of its group's the audience is. */
  readonly instance: number;
  readonly text: string;
  /** The same as a query of PostgreSQL's: any of the terms. */
  readonly anyTerm: string;
}

/** The questions of one kind that the audiences of a group ask in turn. */
export interface QuestionSet {
  readonly group: AudienceGroup;
  readonly kind: Kind;
  readonly questions: readonly SearchQuestion[];
  /** How many messages are in the scopes, on average. */
  readonly scoped: number;
}

const EACH = 6;

/** Draws questions from what each audience may read, so that there is something to find. */
export async function drawQuestions(
  { superuser: { sql } }: BenchDatabase,
  groups: readonly AudienceGroup[],
): Promise<QuestionSet[]> {
  const sets: QuestionSet[] = [];
  for (const group of groups) {
    const drawn = new Map<Kind, SearchQuestion[]>(KINDS.map((kind) => [kind, []]));
    let scoped = 0;
    for (const [instance, audience] of group.audiences.entries()) {
      const rows = Rows.parse(
        await sql`
          select m.body, count(*) over ()::int as messages
          from bench_search.scopes s join earshot.messages m
            on m.org_id = 1 and m.conversation_id = s.conversation_id and m.seq >= s.floor
          where s.audience = ${audience.name} and m.state <> 'deleted'
          order by hashint8extended(m.conversation_id * 10000 + m.seq, ${audience.destination}::bigint)
          limit ${EACH}`,
      );
      scoped += (rows[0]?.messages ?? 0) / group.audiences.length;
      for (const [index, { body }] of rows.entries()) {
        const texts: Record<Kind, string> = {
          'rare word': body.split(' ').at(-1) ?? '',
          'common word': wordAt(instance * EACH + index),
          'a message’s words': body,
        };
        for (const kind of KINDS) {
          const text = texts[kind];
          const anyTerm = await anyTermOf(sql, text);
          drawn.get(kind)?.push({ audience, instance, text, anyTerm });
        }
      }
    }
    for (const [kind, questions] of drawn) {
      if (questions.length > 0)
        sets.push({ group, kind, questions: interleaved(questions), scoped });
    }
  }
  return sets;
}

const Rows = z.array(z.object({ body: z.string(), messages: z.number() }));

async function anyTermOf(sql: BenchDatabase['superuser']['sql'], text: string): Promise<string> {
  const [row] = await sql<{ query: string }[]>`
    select string_agg(quote_literal(lexeme), ' | ')::tsquery::text as query
    from unnest(to_tsvector('english', ${text}))`;
  return row?.query ?? '';
}

/** So that questions that follow each other are of different audiences. */
function interleaved(questions: readonly SearchQuestion[]): SearchQuestion[] {
  return questions
    .map((question, place) => ({ question, key: place % EACH }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ question }) => question);
}

export function questionAt({ questions }: QuestionSet, turn: number): SearchQuestion {
  const question = questions[turn % questions.length];
  if (question === undefined) throw new Error('A set of questions is never empty.');
  return question;
}

export function setName({ group, kind }: Pick<QuestionSet, 'group' | 'kind'>): string {
  return `${group.name}, ${kind}`;
}
