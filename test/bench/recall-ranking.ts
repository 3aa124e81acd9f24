import { z } from 'zod';
import type { Database } from '../../sql/database.ts';
import type { Corpus, Question } from '../recall/corpus.ts';

type Sql = Database['sql'];

/** How texts become terms. */
export interface Dress {
  readonly config: 'english' | 'simple';
  /** Whether diacritics are taken off before. */
  readonly folded: boolean;
}

/** Each figure is a mean over the questions, 0 to 1. */
const Measured = z.object({
  questions: z.number(),
  /** The share of the gold turns among the first 1, 5 and 10. */
  recall1: z.number(),
  recall5: z.number(),
  recall10: z.number(),
  /** The share of questions with any gold turn among the first ten. */
  hit10: z.number(),
  /** One by the place of the first gold turn, within the first hundred. */
  mrr: z.number(),
  /** The share of questions that nothing is found for. */
  empty: z.number(),
});
type Measured = z.infer<typeof Measured>;

/** How well one way of ranking puts the gold turns at the top. */
export interface RankingFigures extends Dress, Measured {
  readonly corpus: string;
  readonly ranking: string;
}

/** k1 and b of BM25, and what a document's length is counted in. */
const bm25 = (k1: number, b: number, length: 'words' | 'terms' = 'words') =>
  `select question, doc, sum(idf * tf * (${k1} + 1)
     / (tf + ${k1} * (1 - ${b} + ${b} * ${length} / average_${length}))) as score
   from pairs group by 1, 2`;

const ranked = (score: string, query: 'any_term' | 'all_terms' = 'any_term') =>
  `select q.id as question, d.id as doc, ${score} as score
   from question_query q join docs d on d.terms @@ q.${query}`;

/** What the choice came to; the others stand beside it. */
export const CHOSEN = 'any term, BM25 k1 0.9 b 0.4';

const PLAIN = 'all terms, ts_rank_cd';
const BY_TEXT = 'any term, ts_rank, normalization 0';

/** Enough to see what another configuration changes. */
export const MAIN_RANKINGS: readonly string[] = [PLAIN, BY_TEXT, CHOSEN];

/** Each is a statement that gives `question, doc, score`, of the documents that match and no others. */
const RANKINGS: readonly (readonly [name: string, statement: string])[] = [
  [PLAIN, ranked('ts_rank_cd(d.terms, q.all_terms)', 'all_terms')],
  ...[0, 1, 2].flatMap((normalization) =>
    ['ts_rank', 'ts_rank_cd'].map(
      (rank) =>
        [
          `any term, ${rank}, normalization ${normalization}`,
          ranked(`${rank}(d.terms, q.any_term, ${normalization})`),
        ] as const,
    ),
  ),
  [CHOSEN, bm25(0.9, 0.4)],
  [`${CHOSEN}, length in different terms`, bm25(0.9, 0.4, 'terms')],
  ['any term, BM25 k1 0.9 b 0.75', bm25(0.9, 0.75)],
  ['any term, BM25 k1 1.2 b 0.4', bm25(1.2, 0.4)],
  ['any term, BM25 k1 1.2 b 0.75', bm25(1.2, 0.75)],
  [
    `${CHOSEN}, × share of the terms`,
    `select b.question, b.doc, b.score * s.share as score from (${bm25(0.9, 0.4)}) b
     join (select question, doc, count(*)::float8 / min(asked) as share from pairs group by 1, 2) s
       using (question, doc)`,
  ],
  [
    `${CHOSEN}, + a quarter for neighbours`,
    `select b.question, b.doc, b.score + 0.25 * coalesce(n.score, 0) as score
     from (${bm25(0.9, 0.4)}) b left join neighbours n using (question, doc)`,
  ],
];

/**
 * Ranks the turns of a corpus for questions about it in every wanted way, over plain tables in the
 * temporary schema of one connection. Ties break by the later turn.
 */
export async function compareRankings(
  sql: Sql,
  corpus: Corpus,
  questions: readonly Question[],
  dress: Dress,
  wanted: (ranking: string) => boolean = () => true,
): Promise<RankingFigures[]> {
  const session = await sql.reserve();
  try {
    await session`set jit = off`;
    await session`set work_mem = '256MB'`;
    await session`set search_path = pg_temp, pg_catalog`;
    await loadTexts(session, corpus, questions);
    const figures: RankingFigures[] = [];
    await dressTexts(session, dress);
    for (const [ranking, statement] of RANKINGS) {
      if (!wanted(ranking)) continue;
      const measured = await measure(session, statement);
      figures.push({ corpus: corpus.name, ranking, ...dress, ...measured });
    }
    return figures;
  } finally {
    session.release();
  }
}

async function loadTexts(sql: Sql, { talks }: Corpus, questions: readonly Question[]) {
  const turns = talks.flatMap((talk) => talk.turns);
  const numbers = new Map(turns.map(({ id }, index) => [id, index]));
  const gold = questions.flatMap((question, index) =>
    [...question.gold].map((id) => [index, numbers.get(id) ?? -1] as const),
  );
  await sql`drop table if exists turns, asked, gold`;
  await sql`create temporary table turns as
    select * from unnest(${[...numbers.values()]}::int[], ${turns.map(({ text }) => text)}::text[]) as t(id, text)`;
  await sql`create temporary table asked as
    select * from unnest(${questions.map((_, index) => index)}::int[], ${questions.map(({ text }) => text)}::text[]) as q(id, text)`;
  await sql`create temporary table gold as
    select * from unnest(${gold.map(([question]) => question)}::int[], ${gold.map(([, doc]) => doc)}::int[]) as g(question, doc)`;
}

/** Terms, postings with the statistics of exactly these texts, and what each question asks for. */
async function dressTexts(sql: Sql, { config, folded }: Dress) {
  const text = folded
    ? String.raw`regexp_replace(normalize(text, NFKD), '[\u0300-\u036f]', '', 'g')`
    : 'text';
  await sql.unsafe(`
    drop table if exists docs, postings, frequencies, question_terms, question_query, pairs, neighbours;
    create temporary table docs as
      select d.*, length(terms) as different,
        (select coalesce(sum(cardinality(t.positions)), 0) from unnest(d.terms) t) as words
      from (select id, to_tsvector('${config}', ${text}) as terms from turns) d;
    create temporary table postings as
      select d.id as doc, t.lexeme, cardinality(t.positions) as tf, d.words, d.different as terms
      from docs d, unnest(d.terms) t;
    create temporary table frequencies as
      select lexeme, ln(1 + ((select count(*) from docs) - count(*) + 0.5) / (count(*) + 0.5))::float8 as idf
      from postings group by 1;
    create index on docs using gin (terms);
    create index on postings (lexeme);
    create temporary table question_terms as
      select q.id as question, t.lexeme, p.position
      from (select id, to_tsvector('${config}', ${text}) as terms from asked) q, unnest(q.terms) t,
        unnest(t.positions) as p(position);
    create temporary table question_query as
      select q.id, websearch_to_tsquery('${config}', ${text}) as all_terms,
        (select string_agg(distinct quote_literal(t.lexeme), ' | ')::tsquery
         from question_terms t where t.question = q.id) as any_term
      from asked q;
    analyze docs; analyze postings; analyze frequencies; analyze question_terms; analyze question_query;
    create temporary table pairs as
      with whole as (select avg(words)::float8 as average_words, avg(different)::float8 as average_terms from docs),
      wanted as (select question, lexeme, count(*) over (partition by question) as asked
                 from (select distinct question, lexeme from question_terms) t)
      select w.question, p.doc, p.tf::float8 as tf, p.words::float8 as words, p.terms::float8 as terms,
        whole.average_words, whole.average_terms, w.asked, f.idf
      from wanted w join postings p using (lexeme) join frequencies f using (lexeme), whole;
    -- Words that stand side by side in the question and in the document.
    create temporary table neighbours as
      select question, d.id as doc, sum(idf) as score
      from (select distinct a.question, x.idf + y.idf as idf,
              (quote_literal(a.lexeme) || ' <-> ' || quote_literal(b.lexeme))::tsquery as pair
            from question_terms a
            join question_terms b on b.question = a.question and b.position = a.position + 1
            join frequencies x on x.lexeme = a.lexeme join frequencies y on y.lexeme = b.lexeme) doubles
      join docs d on d.terms @@ pair group by 1, 2;
    analyze pairs; analyze neighbours;`);
}

async function measure(sql: Sql, statement: string): Promise<Measured> {
  const [row] = await sql.unsafe(`
    with scored as (${statement}),
    ranked as (
      select * from (
        select question, doc, row_number() over (partition by question order by score desc, doc desc) as place
        from scored) r
      where place <= 100
    ), each as (
      select q.id, count(g.doc) as gold,
        count(r.place) filter (where r.place <= 1) as at1,
        count(r.place) filter (where r.place <= 5) as at5,
        count(r.place) filter (where r.place <= 10) as at10,
        min(r.place) as first,
        exists (select from ranked f where f.question = q.id) as found
      from asked q join gold g on g.question = q.id
      left join ranked r on r.question = q.id and r.doc = g.doc
      group by q.id
    )
    select count(*)::int as questions,
      avg(at1::float8 / gold) as recall1, avg(at5::float8 / gold) as recall5, avg(at10::float8 / gold) as recall10,
      avg((at10 > 0)::int)::float8 as hit10, avg(coalesce(1.0 / first, 0))::float8 as mrr,
      avg((not found)::int)::float8 as empty
    from each`);
  return Measured.parse(row);
}
