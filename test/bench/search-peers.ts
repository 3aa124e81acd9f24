import type { Case } from './measurement.ts';
import { questionAt, setName, type QuestionSet, type SearchQuestion } from './search-questions.ts';
import type { BenchDatabase } from './server.ts';

/** How many hits somebody fetches who filters afterwards. */
export const BROAD = [50, 1_000] as const;

export const EARSHOT = 'Earshot';
export const broadName = (first: number) => `first ${first} of all, then filtered`;
export const ROW_SECURITY = 'row-level security for one person';

const ORDER = 'rank desc, t.seq desc, t.conversation_id';

/**
 * Retrieves broadly and filters afterwards: the best of the whole organization by `ts_rank`, of which
 * the first ten in the scope are kept. What the scope costs is left out, and so are the texts.
 */
async function broadly(
  { superuser: { sql } }: BenchDatabase,
  { audience, anyTerm }: SearchQuestion,
  first: number,
): Promise<string[]> {
  return keys(
    await sql.unsafe(
      `select t.conversation_id, t.seq from (
         select t.conversation_id, t.seq, ts_rank(t.terms, $1::tsquery) as rank
         from bench_search.texts t where t.terms @@ $1::tsquery
         order by ${ORDER} limit $2) t
       join bench_search.scopes s
         on s.audience = $3 and s.conversation_id = t.conversation_id and s.floor <= t.seq
       order by ${ORDER} limit 10`,
      [anyTerm, first, audience.name],
      { prepare: true },
    ),
  );
}

/**
 * What is in the scope among the best of the whole organization, with the place of each there: one
 * search answers for every number of hits that somebody might have fetched.
 */
export async function placesOf(
  { superuser: { sql } }: BenchDatabase,
  { audience, anyTerm }: SearchQuestion,
): Promise<{ key: string; place: number }[]> {
  const rows = await sql.unsafe(
    `select t.conversation_id, t.seq, t.place from (
       select t.conversation_id, t.seq, row_number() over (order by ${ORDER})::int as place
       from (select t.*, ts_rank(t.terms, $1::tsquery) as rank
             from bench_search.texts t where t.terms @@ $1::tsquery) t
       order by ${ORDER} limit $2) t
     join bench_search.scopes s
       on s.audience = $3 and s.conversation_id = t.conversation_id and s.floor <= t.seq
     order by t.place`,
    [anyTerm, Math.max(...BROAD), audience.name],
    { prepare: true },
  );
  return keys(rows).map((key, index) => ({ key, place: Number(rows[index]?.place) }));
}

/** What the same ranking finds in the scope itself: the answer that filtering afterwards is held against. */
export async function exactly(
  { superuser: { sql } }: BenchDatabase,
  { audience, anyTerm }: SearchQuestion,
  limit = 10,
): Promise<string[]> {
  return keys(
    await sql.unsafe(
      `select t.conversation_id, t.seq, ts_rank(t.terms, $1::tsquery) as rank
       from bench_search.scopes s join bench_search.texts t
         on t.conversation_id = s.conversation_id and t.seq >= s.floor
       where s.audience = $2 and t.terms @@ $1::tsquery
       order by ${ORDER} limit $3`,
      [anyTerm, audience.name, limit],
      { prepare: true },
    ),
  );
}

function keys(rows: readonly Record<string, unknown>[]): string[] {
  return rows.map(({ conversation_id, seq }) => `${String(conversation_id)}/${String(seq)}`);
}

export function broadCases(database: BenchDatabase, sets: readonly QuestionSet[]): Case[] {
  return sets.flatMap((set) =>
    BROAD.map((first) => ({
      name: `${broadName(first)}: ${setName(set)}`,
      run: (turn: number) => broadly(database, questionAt(set, turn), first),
    })),
  );
}

/**
 * A policy for persons on the table of the messages, and the search under one reader's setting. An answer
 * for an audience would need every reader's whole result, met with the others'.
 */
export function rowSecurityCases(
  { superuser: { sql } }: BenchDatabase,
  sets: readonly QuestionSet[],
): Case[] {
  return sets.map((set) => ({
    name: `${ROW_SECURITY}: ${setName(set)}`,
    run: (turn) => {
      const { audience, anyTerm } = questionAt(set, turn);
      const [person = ''] = audience.users;
      return sql.begin(async (transaction) => {
        await transaction`set local role earshot_bench_reader`;
        await transaction`select set_config('bench.person', ${person}, true)`;
        return transaction.unsafe(
          `select t.conversation_id, t.seq, ts_rank(t.terms, $1::tsquery) as rank
           from bench_search.texts t where t.terms @@ $1::tsquery order by ${ORDER} limit 10`,
          [anyTerm],
        );
      });
    },
  }));
}
