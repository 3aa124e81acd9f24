import type { RecallFigures } from '../recall/recall.ts';
import type { RecallResult } from './recall-bench.ts';
import { CHOSEN, type RankingFigures } from './recall-ranking.ts';
import { grouped, type Table } from './report.ts';

/** The tables of what the real conversations say, by what each is about. */
export function recallTables({
  recall,
  rankings,
  configurations,
}: RecallResult): Record<string, Table> {
  const corpora = [...new Set(rankings.map(({ corpus }) => corpus))];
  const titled = (title: string, [first]: readonly RankingFigures[]) =>
    `${title}: ${first?.corpus}, ${grouped(first?.questions ?? 0)} questions`;
  return {
    ...(recall.length > 0 && { 'Recall through the tool call': recallTable(recall) }),
    ...Object.fromEntries(
      corpora.map((name) => {
        const figures = rankings.filter(({ corpus }) => corpus === name);
        return [titled('Rankings', figures), rankingTable(figures, ({ ranking }) => ranking)];
      }),
    ),
    ...(configurations.length > 0 && {
      [titled('The main rankings by how texts become terms', configurations)]: rankingTable(
        configurations,
        ({ config, folded, ranking }) => `${config}${folded ? ' without accents' : ''}: ${ranking}`,
      ),
    }),
  };
}

const FIGURES: readonly (readonly [string, (one: RecallFigures) => string])[] = [
  ['questions', ({ questions }) => grouped(questions)],
  ['messages there', ({ all }) => grouped(all.messages)],
  ['messages in scope', ({ visible }) => grouped(visible.messages)],
  ['recall@10', ({ gated }) => share(gated.recall10)],
  ['recall@10 without a scope', ({ ungated }) => share(ungated.recall10)],
  ['any of ten', ({ gated }) => share(gated.hit10)],
  ['MRR@10', ({ gated }) => share(gated.mrr10)],
  ['answers that differ from those without a scope', ({ differing }) => grouped(differing)],
  ['results from outside of the scope', ({ foreign }) => grouped(foreign)],
  [
    'results from outside that a reader of everything gets',
    ({ foreignToWitness }) => grouped(foreignToWitness),
  ],
];

function recallTable(recall: readonly RecallFigures[]): Table {
  return {
    head: ['', ...recall.map(({ corpus }) => corpus)],
    rows: FIGURES.map(([name, figure]) => [name, ...recall.map(figure)]),
  };
}

function rankingTable(
  figures: readonly RankingFigures[],
  nameOf: (one: RankingFigures) => string,
): Table {
  return {
    head: ['ranking', 'recall@1', 'recall@5', 'recall@10', 'any of ten', 'MRR', 'nothing found'],
    rows: figures.map((one) => [
      one.ranking === CHOSEN ? `**${nameOf(one)}**` : nameOf(one),
      ...[one.recall1, one.recall5, one.recall10, one.hit10, one.mrr, one.empty].map(share),
    ]),
  };
}

export function share(value: number): string {
  return value.toFixed(3);
}

/** What the tables of recall say in words. */
export function recallProse({ recall, absent }: RecallResult): string[] {
  if (recall.length === 0)
    return [`Recall was not measured: ${absent.join(' and ')} were not there.`];
  return [
    'Recall is measured on conversations that people had: LoCoMo (each session of two people a conversation) and ' +
      'QMSum (each meeting one). Two audiences of three ask the questions whose answers all three read. They read ' +
      'different parts of the rest, from different floors; copies of the answers stand outside of the scope and ' +
      'below floors. *Without a scope* is the same search where exactly the visible text is, by one reader who reads ' +
      'all of it: an answer differs if any of its ten results, their text, their score or their highlights do.',
    '',
    'A question of QMSum has spans of about twenty turns for an answer, so ten results cannot hold many of them: ' +
      'look at *any of ten* there. Rankings are compared over all of a corpus as one scope; *nothing found* is the ' +
      'share of questions without a result.',
  ];
}
