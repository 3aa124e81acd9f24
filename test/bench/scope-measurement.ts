import { compareAnswers, scopeSizes } from './answers.ts';
import { findAudiences, type AudienceGroup, type AudienceLimits } from './audiences.ts';
import { scaled, type Sizes } from './dataset.ts';
import { earshotShape, shapeCases, type Shape } from './earshot-scope.ts';
import { readFacts } from './facts-in-process.ts';
import { floorCases } from './floor.ts';
import {
  deliveryCases,
  liveCheckCases,
  readCases,
  retrieveCases,
  scopedMessages,
  startAsking,
  type Asking,
} from './grant-cases.ts';
import { openHttpCases } from './http-cases.ts';
import { byName, measure, type Effort, type Measurement } from './measurement.ts';
import { mentionCases, MENTIONED } from './mention-cases.ts';
import { fetchingShape, PERSONAL_POLICY, rowSecurityShape } from './peers-application.ts';
import { casbinShape, cedarShape } from './peers-in-process.ts';
import { READABLE, sqlShapes } from './peers-sql.ts';
import type { BenchDatabase, BenchServer } from './server.ts';
import { judge, LARGE, LIVE_CHECKS, RETRIEVALS, type Judged } from './targets.ts';

/** What a run of the scope bench found. */
export interface ScopeResult {
  readonly sizes: Sizes;
  readonly groups: readonly AudienceGroup[];
  /** How many conversations are in the scopes of each group, the fewest and the most. */
  readonly found: ReadonlyMap<string, readonly [number, number]>;
  readonly shapes: readonly Shape[];
  /** Answers that were compared with Earshot's and are the same. */
  readonly compared: number;
  readonly measured: readonly Measurement[];
  readonly judged: readonly Judged[];
}

/** How much is spent on a run. */
export type ScopeEffort = Effort & AudienceLimits;

/** Where every shape is measured. The others have Earshot and the two plainest. */
const MAIN = [
  ...['uni5', 'uni100', 'squad5', 'squad20', 'team100', 'pow5', 'pow20', 'guest5', 'project5'],
];

/**
 * Answers every audience in every way, compares the answers, and measures all of it in turns, with the
 * floor, the calls that a grant opens, and the HTTP around them.
 */
export async function measureScope(
  database: BenchDatabase,
  effort: ScopeEffort,
  say: (line: string) => void,
): Promise<ScopeResult> {
  const { superuser } = database;
  const all = await findAudiences(database, effort);
  const groups = all.filter(({ kind }) => !kind.startsWith('mention-'));
  say('Preparing the relations of the alternatives.');
  await superuser.sql.unsafe(READABLE);
  await superuser.sql.unsafe(PERSONAL_POLICY);
  for (const table of ['readable', 'my_conversations', 'my_memberships', 'my_projects'])
    await superuser.sql.unsafe(`vacuum analyze bench_run.${table}`);

  const earshot = earshotShape(database);
  const peers = [...sqlShapes(database), fetchingShape(database), rowSecurityShape(database)];
  const wide = peers.slice(0, 1).concat(peers.filter(({ name }) => name.startsWith('fetch')));
  const main = groups.filter(({ name }) => MAIN.includes(name));
  const rest = groups.filter((group) => !main.includes(group));
  const compared =
    (await compareAnswers([earshot, ...peers], main, say)) +
    (await compareAnswers([earshot, ...wide], rest, say));
  const found = new Map<string, [number, number]>();
  for (const group of groups) found.set(group.name, await scopeSizes(earshot, group));

  const asking = await askingOf(database, all);
  const scoped = new Map<string, number>();
  for (const name of LARGE) {
    const one = asking.get(name);
    if (one !== undefined) scoped.set(name, await scopedMessages(database, one));
  }
  const of = (names: readonly string[]) =>
    names.map((name) => asking.get(name)).filter((one) => one !== undefined);
  const delivering = of(['squad20', 'squad5'])[0];
  if (delivering === undefined) throw new Error('The data has no squad.');
  const mentioned = of(['mention-squad20'])[0] ?? delivering;
  const http = await openHttpCases(database, mentioned);
  try {
    say('Measuring.');
    const cases = [
      ...floorCases(database),
      ...shapeCases([earshot, ...peers], main),
      ...shapeCases([earshot, ...wide], rest),
      ...mentionCases(database, groups),
      ...liveCheckCases(database, of(LIVE_CHECKS.flatMap((bound) => bound.groups))),
      ...retrieveCases(database, of([...RETRIEVALS.groups, ...LARGE])),
      ...readCases(database, of(MENTIONED.flatMap((name) => [name, `mention-${name}`]))),
      ...(await deliveryCases(database, delivering.group)),
      ...http.cases,
    ];
    const measured = await measure(cases, effort);
    const find = byName(measured);
    return {
      ...{ sizes: database.sizes, groups, found, compared, measured },
      shapes: [earshot, ...peers],
      judged: judge(find, groups, scoped),
    };
  } finally {
    await http.close();
  }
}

/** Turns for the groups whose calls are measured. */
async function askingOf(
  database: BenchDatabase,
  groups: readonly AudienceGroup[],
): Promise<ReadonlyMap<string, Asking>> {
  const wanted = new Set([
    ...LIVE_CHECKS.flatMap((bound) => bound.groups),
    ...RETRIEVALS.groups,
    ...LARGE,
    ...MENTIONED,
    ...MENTIONED.map((name) => `mention-${name}`),
    'squad5',
  ]);
  const found = new Map<string, Asking>();
  for (const group of groups) {
    if (wanted.has(group.name)) found.set(group.name, await startAsking(database, group));
  }
  return found;
}

/** What engines inside the process can hold: at most so many conversations. */
const IN_PROCESS_CONVERSATIONS = 20_000;
const IN_PROCESS_GROUPS = ['uni5', 'squad5', 'squad20', 'pow2', 'pow5', 'project5'];

/** Cedar and casbin beside Earshot, on data that they can hold. */
export async function measureInProcess(
  server: BenchServer,
  { sizes }: BenchDatabase,
  effort: ScopeEffort,
  say: (line: string) => void,
): Promise<Omit<ScopeResult, 'judged'>> {
  const smaller = sizes.conversations <= IN_PROCESS_CONVERSATIONS ? sizes : scaled(0.1, sizes.seed);
  const database = await server.open(smaller);
  try {
    const groups = (await findAudiences(database, effort)).filter(({ name }) =>
      IN_PROCESS_GROUPS.includes(name),
    );
    say('Reading the facts into the process.');
    const facts = await readFacts(database);
    const earshot = earshotShape(database);
    const engines = [cedarShape(facts), await casbinShape(facts)];
    const compared = await compareAnswers([earshot, ...engines], groups, say);
    const found = new Map<string, [number, number]>();
    for (const group of groups) found.set(group.name, await scopeSizes(earshot, group));
    say('Measuring the engines.');
    const measured = await measure(shapeCases([earshot, ...engines], groups), effort);
    return { sizes: smaller, groups, found, compared, measured, shapes: [earshot, ...engines] };
  } finally {
    await database.close();
  }
}
