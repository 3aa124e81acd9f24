import { callMessageTool } from '../../sql/tools.ts';
import { findAudiences, type AudienceLimits } from './audiences.ts';
import { floorCases } from './floor.ts';
import { search, startAsking, turnAt, type Asking } from './grant-cases.ts';
import { measure, type Case, type Effort, type Measurement } from './measurement.ts';
import { BROAD, broadCases, EARSHOT, exactly, placesOf, rowSecurityCases } from './search-peers.ts';
import { drawQuestions, questionAt, setName, type QuestionSet } from './search-questions.ts';
import { prepareTexts } from './search-texts.ts';
import type { BenchDatabase } from './server.ts';

/** What filtering afterwards loses of one set's answers, for one number of hits fetched. */
export interface Loss {
  readonly set: QuestionSet;
  readonly first: number;
  /** Questions that the scope has an answer to. */
  readonly answered: number;
  /** The share of the ten best in scope that is found. */
  readonly recall10: number;
  /** The share of those questions for which nothing is left. */
  readonly empty: number;
}

export interface SearchResult {
  readonly sets: readonly QuestionSet[];
  /** Conversations in the scopes of each group, the fewest and the most. */
  readonly scopes: ReadonlyMap<string, readonly [number, number]>;
  /** Answers of Earshot that were compared with all that matches in the scope. */
  readonly compared: number;
  readonly losses: readonly Loss[];
  readonly measured: readonly Measurement[];
}

/** Narrow without and with what is open to the organization, wide, and what is open alone. */
const GROUPS = ['guest5', 'squad5', 'pow5', 'open1'];
/** Under row security the index does not serve, so that the words hardly matter: one kind is enough. */
const ROW_SECURITY_KIND = 'common word';

/** Compares Earshot's answers with what matches in the scope, and measures it beside the alternatives. */
export async function measureSearch(
  database: BenchDatabase,
  effort: Effort & AudienceLimits,
  say: (line: string) => void,
): Promise<SearchResult> {
  const groups = (await findAudiences(database, effort)).filter(({ name }) =>
    GROUPS.includes(name),
  );
  say('Preparing what the alternatives search in.');
  await prepareTexts(database);
  const sets = await drawQuestions(database, groups);
  const asking = new Map<string, Asking>();
  for (const group of groups) asking.set(group.name, await startAsking(database, group));
  say('Comparing the answers.');
  const compared = await compareWithMatches(database, sets, asking);
  say('Filtering afterwards.');
  const losses = await lossesOf(database, sets);
  say('Measuring.');
  const measured = await measure(
    [
      ...floorCases(database),
      ...earshotCases(database, sets, asking),
      ...broadCases(database, sets),
    ],
    { ...effort, minSamples: 3 },
  );
  say('Measuring row-level security.');
  const personal = sets.filter(
    ({ group, kind }) => ['squad5', 'pow5'].includes(group.name) && kind === ROW_SECURITY_KIND,
  );
  const slow = await measure(rowSecurityCases(database, personal), {
    budgetMs: 1,
    minSamples: 2,
    warmUpRuns: 1,
  });
  return {
    ...{ sets, compared, losses },
    scopes: await scopeSizes(
      database,
      groups.map(({ name }) => name),
    ),
    measured: [...measured, ...slow],
  };
}

function earshotCases(
  { gateway }: BenchDatabase,
  sets: readonly QuestionSet[],
  asking: ReadonlyMap<string, Asking>,
): Case[] {
  return sets.map((set) => ({
    name: `${EARSHOT}: ${setName(set)}`,
    run: (turn) => {
      const { instance, text } = questionAt(set, turn);
      return search(gateway, turnAt(askingOf(asking, set), instance), text);
    },
  }));
}

function askingOf(asking: ReadonlyMap<string, Asking>, { group }: QuestionSet): Asking {
  const found = asking.get(group.name);
  if (found === undefined) throw new Error(`Nobody asks for ${group.name}.`);
  return found;
}

const MOST = 100;

/** Earshot and the plain statement found different messages: the bench measures nothing then. */
export class DifferentMatches extends Error {}

/** Every hit matches in the scope; where they fit into a page, every match is a hit. */
async function compareWithMatches(
  database: BenchDatabase,
  sets: readonly QuestionSet[],
  asking: ReadonlyMap<string, Asking>,
): Promise<number> {
  const ids = new Map<string, string>();
  const rows = await database.superuser.sql<{ id: string; name: string }[]>`
    select distinct c.id, c.external_id as name from bench_search.scopes s
    join earshot.conversations c on c.org_id = 1 and c.id = s.conversation_id`;
  for (const { id, name } of rows) ids.set(name, id);
  let compared = 0;
  for (const set of sets) {
    for (const question of set.questions) {
      const { digest } = turnAt(askingOf(asking, set), question.instance);
      const args = { query: question.text, limit: MOST.toString() };
      const answer = await callMessageTool(
        database.gateway,
        digest,
        'search',
        args,
        Buffer.alloc(32),
      );
      if (!answer.ok) throw new Error(`A search is refused: ${answer.code}.`);
      const hits = answer.rows.map(
        ({ conversation, seq }) => `${ids.get(conversation) ?? conversation}/${seq}`,
      );
      const matches = new Set(await exactly(database, question, 1_000_000));
      const foreign = hits.filter((hit) => !matches.has(hit));
      if (foreign.length > 0 || hits.length !== Math.min(MOST, matches.size)) {
        throw new DifferentMatches(
          `${setName(set)}: ${hits.length} hits, ${foreign.length} of them not among the ${matches.size} matches`,
        );
      }
      compared++;
    }
  }
  return compared;
}

/** Questions of a set for which filtering afterwards is held against the exact answer. */
const QUESTIONS_OF_A_LOSS = 12;

async function lossesOf(database: BenchDatabase, sets: readonly QuestionSet[]): Promise<Loss[]> {
  const losses: Loss[] = [];
  for (const set of sets) {
    const asked: { exact: string[]; broad: Awaited<ReturnType<typeof placesOf>> }[] = [];
    for (const question of set.questions.slice(0, QUESTIONS_OF_A_LOSS)) {
      const exact = await exactly(database, question);
      if (exact.length > 0) asked.push({ exact, broad: await placesOf(database, question) });
    }
    for (const first of BROAD) {
      const each = asked.map(({ exact, broad }) => {
        const found = broad.filter(({ place }) => place <= first).slice(0, 10);
        const right = found.filter(({ key }) => exact.includes(key));
        return { recall: right.length / exact.length, empty: found.length === 0 ? 1 : 0 };
      });
      const mean = (of: (one: (typeof each)[number]) => number) =>
        each.reduce((sum, one) => sum + of(one), 0) / each.length;
      losses.push({
        ...{ set, first, answered: each.length },
        recall10: mean(({ recall }) => recall),
        empty: mean(({ empty }) => empty),
      });
    }
  }
  return losses;
}

async function scopeSizes(
  { superuser: { sql } }: BenchDatabase,
  groups: readonly string[],
): Promise<Map<string, readonly [number, number]>> {
  const rows = await sql<{ group: string; least: number; most: number }[]>`
    select split_part(audience, '-', 1) as group, min(n)::int as least, max(n)::int as most
    from (select audience, count(*) as n from bench_search.scopes group by 1) s group by 1`;
  const sizes = new Map(rows.map(({ group, least, most }) => [group, [least, most] as const]));
  return new Map(groups.map((name) => [name, sizes.get(name) ?? [0, 0]]));
}
