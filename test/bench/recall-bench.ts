import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfig } from '../../gateway/config.ts';
import { openInstance } from '../../gateway/instance.ts';
import { createKeys } from '../../gateway/keys.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { startEmbedded, type EmbeddedServer } from '../../sql/embedded.ts';
import { migrate } from '../../sql/migrate.ts';
import { isThere, sampled, type CorpusSource } from '../recall/corpus.ts';
import { LOCOMO } from '../recall/locomo.ts';
import { QMSUM } from '../recall/qmsum.ts';
import { measureRecall, type RecallFigures } from '../recall/recall.ts';
import { gatewayOf } from '../support/gateway.ts';
import {
  compareRankings,
  MAIN_RANKINGS,
  type Dress,
  type RankingFigures,
} from './recall-ranking.ts';

/** What the real conversations say about search; nothing of a corpus that is not there. */
export interface RecallResult {
  readonly recall: readonly RecallFigures[];
  readonly rankings: readonly RankingFigures[];
  /** The main rankings where texts become terms in other ways. */
  readonly configurations: readonly RankingFigures[];
  readonly absent: readonly string[];
}

const ALL = process.env.RECALL === 'all';
/** Questions of each corpus, at most. */
const QUESTIONS = { recall: ALL ? Infinity : 120, ranking: ALL ? Infinity : 200 };

const ENGLISH: Dress = { config: 'english', folded: false };
/** Other ways to make terms, of the main rankings only. */
const OTHERS: readonly Dress[] = [
  { config: 'english', folded: true },
  { config: 'simple', folded: false },
];
const QUESTIONS_OF_OTHERS = 200;

/** Measures recall through the tool call and compares rankings, on a server of its own that forgets. */
export async function measureOnCorpora(say: (line: string) => void): Promise<RecallResult> {
  const sources = [LOCOMO, QMSUM];
  const present = sources.filter(isThere);
  const absent = sources.filter((source) => !isThere(source)).map(({ name }) => name);
  for (const name of absent) say(`Left out: ${name} is not at ../shared/data.`);
  if (present.length === 0) return { recall: [], rankings: [], configurations: [], absent };
  const dataDir = await mkdtemp(join(tmpdir(), 'earshot-recall-'));
  const settings = { fsync: 'off', full_page_writes: 'off', shared_buffers: '512MB' };
  const server = await startEmbedded({ dataDir: join(dataDir, 'data'), settings });
  const superuser = openDatabase(server.superuserUrl('earshot'), { max: 3 });
  try {
    await migrate(server.adminUrl(), { gatewayUrl: server.gatewayUrl() });
    const recall: RecallFigures[] = [];
    const rankings: RankingFigures[] = [];
    const configurations: RankingFigures[] = [];
    for (const source of present) {
      say(`Asking the questions of ${source.name}.`);
      recall.push(await recallOf(server, superuser, dataDir, source));
      say(`Ranking for the questions of ${source.name}.`);
      rankings.push(...(await rankingsOf(superuser, source)));
      // Where stop words are terms, every text is found by every question: the smaller corpus only.
      if (source === LOCOMO) configurations.push(...(await configurationsOf(superuser, source)));
    }
    return { recall, rankings, configurations, absent };
  } finally {
    await superuser.close();
    await server.stop();
    await rm(dataDir, { recursive: true });
  }
}

async function recallOf(
  server: EmbeddedServer,
  superuser: Database,
  dataDir: string,
  source: CorpusSource,
): Promise<RecallFigures> {
  const keys = await mkdtemp(join(dataDir, 'keys-'));
  await createKeys(keys);
  const instance = await openInstance(
    readConfig({
      DATABASE_URL: server.gatewayUrl(),
      EARSHOT_DATA_DIR: keys,
      EARSHOT_LEASE_SECONDS: '600',
      EARSHOT_REQUESTS_PER_SECOND: '1000000',
    }),
  );
  const host = await gatewayOf(instance, superuser.sql);
  try {
    const corpus = source.read();
    return await measureRecall(host, corpus, sampled(corpus.questions, QUESTIONS.recall));
  } finally {
    await host.close();
  }
}

async function rankingsOf({ sql }: Database, source: CorpusSource): Promise<RankingFigures[]> {
  const corpus = source.read();
  return compareRankings(sql, corpus, sampled(corpus.questions, QUESTIONS.ranking), ENGLISH);
}

async function configurationsOf(
  { sql }: Database,
  source: CorpusSource,
): Promise<RankingFigures[]> {
  const corpus = source.read();
  const asked = sampled(corpus.questions, QUESTIONS_OF_OTHERS);
  const isMain = (ranking: string) => MAIN_RANKINGS.includes(ranking);
  const figures: RankingFigures[] = [];
  for (const dress of [ENGLISH, ...OTHERS])
    figures.push(...(await compareRankings(sql, corpus, asked, dress, isMain)));
  return figures;
}
