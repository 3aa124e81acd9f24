import { isDeepStrictEqual } from 'node:util';
import { compileMaterial } from '../../sessions/compile/compile.ts';
import type { CompileMaterial } from '../../sessions/compile/compile-material.ts';
import { planCompile } from '../../sessions/compile/compile-plan.ts';
import { compileSettings } from '../../sessions/compile/compile-settings.ts';
import type { CompiledLog } from '../../sessions/compile/compile-shape.ts';
import { compileSession, type CompilePlace } from '../../sessions/session-compile.ts';
import { estimatorNamed } from '../../sessions/compile/token-estimator.ts';
import { converse, PLACEMENTS, type Conversation } from './compile-conversation.ts';
import { fillSummarized, summarize, type SummarizedLog } from './compile-logs.ts';
import { partsOfSchema, sentences } from './compile-texts.ts';
import { measureRounds, timed, type Rounds, type Subject } from './compile-rounds.ts';
import { built, materialOf, stageCompile, type RuledOptions } from './compile-stages.ts';
import { floorCases } from './floor.ts';
import { measure, type Effort, type Measurement } from './measurement.ts';
import type { BenchDatabase } from './server.ts';
import { drawEntries, fillLog, granted, phrasesOf } from './session-logs.ts';
import { settle, threadOf, type LogLengths } from './session-measurement.ts';

/** A log that was compiled, and what a compile of it gives. */
export interface CompiledSize {
  readonly length: number;
  readonly summaries: SummarizedLog['summaries'];
  /** Of what a compile reads, as JSON. */
  readonly bytes: number;
  readonly stats: CompiledLog['stats'];
  readonly messages: number;
}

/** What a run of the compile bench found. */
export interface CompileResult {
  readonly logs: readonly CompiledSize[];
  readonly conversations: readonly Conversation[];
  /** Answers that were compared with each other before anything was measured. */
  readonly compared: number;
  /** The lengths at which the rule about dear summaries was measured. */
  readonly ruled: readonly number[];
  readonly rounds: Rounds;
  /** The texts that were counted, in bytes. */
  readonly counted: Readonly<Record<string, number>>;
  readonly measured: readonly Measurement[];
}

/** How long the conversations are. */
export interface Turns {
  readonly turns?: number;
}

/** What is measured in rounds, beside the steps of a compile. */
export const timeName = (what: string, length: number) => `${what}: ${length}`;
export const WHOLE = 'whole compile';
export const RULED = { with: 'with the rule', without: 'without' } as const;
export const PLANNED = { with: 'choice with the rule', without: 'choice without' } as const;
export const COUNT = { cold: 'count anew', warm: 'count from memory' } as const;
export const countName = (way: keyof typeof COUNT, texts: string) => `${COUNT[way]}: ${texts}`;

/** The longest log at which the rule is measured. */
const MOST_RULED = 8_000;

/** Measures what a compile costs by the length of a log, and what it keeps of the request before. */
export async function measureCompile(
  database: BenchDatabase,
  effort: Effort & LogLengths & Turns,
  say: (line: string) => void,
): Promise<CompileResult> {
  const audience = await threadOf(database);
  say('Having conversations.');
  const conversations: Conversation[] = [];
  for (const placement of PLACEMENTS)
    conversations.push(await converse(database, audience, placement, effort.turns ?? 50));

  const settings = compileSettings({ injectionBytesPerTurn: 16_777_216 });
  const placeOf = ({ caller }: Pick<SummarizedLog, 'caller'>): CompilePlace => ({
    ...{ database: database.gateway, caller, namespace: undefined, settings },
  });
  await provesRule(database, audience, placeOf);
  const prose = await sentences();
  const filled: SummarizedLog[] = [];
  for (const length of effort.lengths ?? [2_000, 8_000, 32_000]) {
    say(`Filling and summarizing a log of ${length} entries.`);
    filled.push(await fillSummarized(database, audience, length, prose));
  }
  await settle(database);

  say('Comparing the answers.');
  const logs: CompiledSize[] = [];
  let compared = 0;
  const ruled: number[] = [];
  const materials: CompileMaterial[] = [];
  for (const log of filled) {
    const place = placeOf(log);
    const material = await materialOf(place);
    const { result } = granted(await log.log.preview());
    const stepped = built(compileMaterial(material, [], {}, await settings.estimator())).compiled;
    const kept = await compiledBy(place, { dearer: 'keep' }, 'preview');
    if (result.stats.dearerReplaced > 0) throw new Error('A summary is dear.');
    for (const other of [stepped, kept]) {
      if (!isDeepStrictEqual(result, other)) throw new Error('A compile differs from another one.');
      compared += 1;
    }
    if (log.length <= MOST_RULED) ruled.push(log.length);
    materials.push(material);
    logs.push({
      ...{ length: log.length, summaries: log.summaries, stats: result.stats },
      bytes: Buffer.byteLength(JSON.stringify(material)),
      messages: result.messages.length,
    });
  }

  say('Measuring.');
  const measured = await measure(floorCases(database), effort);
  const texts = {
    'prose, sentences of these pages': prose,
    'code, the schema of the database': await partsOfSchema(),
    'the words of the data, most of them made up': (await phrasesOf(database)).slice(0, 4_000),
  };
  const ruling = await Promise.all(
    filled.map(async (log, nth) => {
      const material = materials[nth];
      if (material === undefined || !ruled.includes(log.length)) return [];
      return ruleSubjects(placeOf(log), material, log.length);
    }),
  );
  const rounds = new Map([
    ...(await measureRounds(
      filled.map((log) => steps(placeOf(log), log.length)),
      effort,
    )),
    ...(await measureRounds(ruling.flat(), effort)),
    ...(await measureRounds(await countSubjects(texts), effort)),
  ]);
  const counted = Object.fromEntries(
    Object.entries(texts).map(([name, some]) => [name, Buffer.byteLength(some.join(''))]),
  );
  return { logs, conversations, compared, ruled, rounds, counted, measured };
}

async function compiledBy(
  place: CompilePlace,
  options: RuledOptions,
  mode: 'compile' | 'preview' = 'compile',
): Promise<CompiledLog> {
  return granted(await compileSession(place, mode, [], options)).result;
}

/** Shows on a log with a dear summary that the rule is there with the one option and not with the other. */
async function provesRule(
  database: BenchDatabase,
  audience: Parameters<typeof fillLog>[1],
  placeOf: (log: Pick<SummarizedLog, 'caller'>) => CompilePlace,
): Promise<void> {
  const phrases = await phrasesOf(database);
  const filled = await fillLog(database, audience, 6, drawEntries(phrases, 'unused', []));
  const range = { from: filled.ids[0] ?? '', to: filled.ids.at(-1) ?? '' };
  await summarize(filled.log, range, phrases.slice(0, 500).join(' '));
  const [ruled, kept] = [
    await compiledBy(placeOf(filled), {}),
    await compiledBy(placeOf(filled), { dearer: 'keep' }),
  ].map(({ stats }) => stats);
  if (ruled?.dearerReplaced !== 1 || kept?.summaries !== 1)
    throw new Error('The rule about dear summaries is not what is measured.');
}

/** All steps of a compile, and the whole of it as a caller has it. */
function steps(place: CompilePlace, length: number): Subject {
  return {
    async run(round) {
      // Another one each time, so that it is stored.
      const unit = {
        ...{ source: 'bench', position: 'after_user' as const, placement: 'stored' as const },
        parts: [{ text: `What was found at round ${round} at ${performance.now()}.` }],
      };
      const { times } = await stageCompile(place, unit);
      const next = { ...unit, parts: [{ text: `What was found next at ${performance.now()}.` }] };
      const whole = await timed(async () =>
        granted(await compileSession(place, 'compile', [next], {})),
      );
      return Object.fromEntries(
        Object.entries({ ...times, [WHOLE]: whole.took }).map(([step, took]) => [
          timeName(step, length),
          took,
        ]),
      );
    },
  };
}

/** The rule against without it: the whole compile, and what alone reads it. */
async function ruleSubjects(
  place: CompilePlace,
  material: CompileMaterial,
  length: number,
): Promise<Subject[]> {
  const estimator = await place.settings.estimator();
  const subject = (name: string, run: () => unknown): Subject => ({
    run: async () => ({ [timeName(name, length)]: (await timed(run)).took }),
  });
  const plan = (options: RuledOptions) =>
    planCompile(material, [], { ...options, pins: new Set() }, estimator);
  return [
    subject(RULED.with, () => compiledBy(place, {})),
    subject(RULED.without, () => compiledBy(place, { dearer: 'keep' })),
    subject(PLANNED.with, () => plan({})),
    subject(PLANNED.without, () => plan({ dearer: 'keep' })),
  ];
}

async function countSubjects(
  texts: Readonly<Record<string, readonly string[]>>,
): Promise<Subject[]> {
  const cold = await estimatorNamed('o200k_base');
  const warm = await compileSettings().estimator('o200k_base');
  const subject = (name: string, count: () => void): Subject => ({
    run: async () => ({ [name]: (await timed(count)).took }),
  });
  return Object.entries(texts).flatMap(([name, some]) => [
    subject(countName('cold', name), () => some.forEach((text) => cold.count(text))),
    subject(countName('warm', name), () => some.forEach((text) => warm.count(text))),
  ]);
}
