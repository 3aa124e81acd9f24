import { refuse, type Refusal } from '../policy/refusal.ts';
import {
  raiseWatermark,
  readLog,
  type LogRefusal,
  type SessionCaller,
} from '../sql/context-log.ts';
import type { Database } from '../sql/database.ts';
import { sendLog, storeInjections } from '../sql/log-compile.ts';
import { CompileMaterial } from './compile/compile-material.ts';
import type { CompileSettings } from './compile/compile-settings.ts';
import {
  LEAST_ENTRY_TOKENS,
  type CompiledLog,
  type CompileOptions,
  type OverBudget,
} from './compile/compile-shape.ts';
import { compileMaterial } from './compile/compile.ts';
import { countAhead } from './compile/counted-ahead.ts';
import { isStorable, sourcesOfUnits, storableUnit, type StartUnit } from './injections.ts';

export type CompileRefusal = LogRefusal & { readonly over?: OverBudget };
export type CompileAnswer = Promise<
  { readonly ok: true; readonly decision: string; readonly result: CompiledLog } | CompileRefusal
>;

/** What became of a unit: stored, in the log already, or for the compile to place. */
export type InjectionOutcome = 'stored' | 'unchanged' | 'held' | 'bound' | 'placed';

/** Where a session's log is compiled, and for whom. */
export interface CompilePlace {
  readonly database: Database;
  readonly caller: SessionCaller;
  readonly namespace: string | undefined;
  readonly settings: CompileSettings;
}

/** Stores the units of a start that are for the log, all or none, and says of each unit what became of it. */
export async function injectUnits(
  { database, caller, namespace, settings }: CompilePlace,
  units: readonly StartUnit[],
): Promise<
  | { readonly ok: true; readonly decision: string; readonly outcomes: InjectionOutcome[] }
  | LogRefusal
> {
  const storable = units.filter(isStorable).map(storableUnit);
  const most = settings.injectionBytesPerTurn;
  const answer = await storeInjections(database, caller, namespace, storable, most);
  if (!answer.ok) return answer;
  let nth = 0;
  const outcomes = units.map((unit): InjectionOutcome => {
    const verdict = isStorable(unit) ? answer.verdicts[nth++] : 'placed';
    return verdict === 'store' ? 'stored' : (verdict ?? 'placed');
  });
  return { ok: true, decision: answer.decision, outcomes };
}

/**
 * Compiles what a model is sent, and puts it on record as sent before it is given away: what is refused on the way was not
 * sent. Units for the log are stored first; a compile that fails after that finds them when it is tried again. A preview
 * gives the same, stores no unit and counts as no send; it is a read like any other, announced by the watermark.
 */
export async function compileSession(
  place: CompilePlace,
  mode: 'compile' | 'preview',
  units: readonly StartUnit[],
  options: CompileOptions,
): CompileAnswer {
  const { database, caller, namespace, settings } = place;
  const storable = units.filter(isStorable);
  let outcomes: readonly InjectionOutcome[] = [];
  if (mode === 'compile' && storable.length > 0) {
    const stored = await injectUnits(place, storable);
    if (!stored.ok) return stored;
    ({ outcomes } = stored);
  }
  const raised = await raiseWatermark(database, caller, namespace);
  if (!raised.ok) return raised;
  const asked = {
    units: storable.map(storableUnit).map(({ source, hash, blocks }) => ({ source, hash, blocks })),
    sources: sourcesOfUnits(units),
    most: settings.injectionBytesPerTurn,
    pins: options.pins ?? [],
  };
  const { mark: announced } = raised;
  const read = await readLog(database, caller, namespace, mode, asked, announced, CompileMaterial);
  if (!read.ok) return read;
  const estimator = await settings.estimator(options.estimator, options.model);
  await countAhead(estimator, read.result);
  // What this start has put into the log is there, whatever another one put there since.
  const verdicts = read.result.verdicts.map((verdict, nth) =>
    outcomes[nth] === 'stored' || outcomes[nth] === 'unchanged' ? 'unchanged' : verdict,
  );
  const outcome = compileMaterial({ ...read.result, verdicts }, units, options, estimator);
  const { mark } = read.result;
  if (!outcome.ok) {
    if (outcome.code === 'not_found') return refuse('not_found', { decision: read.decision });
    // A preview is on record by its read, and was to send nothing.
    if (mode === 'preview') {
      return withSteps(refuse('over_budget', { decision: read.decision }), outcome.over);
    }
    const none = { mark, held: [], chain: new Uint8Array(0), items: 0 };
    const refused = await sendLog(database, caller, namespace, none, 'over_budget');
    // The check that comes with the record may find something else first.
    return refused.ok ? refuse('fault') : withSteps(refused, outcome.over);
  }
  const { compiled, held, chain } = outcome;
  if (mode === 'compile') {
    const items = compiled.messages.length;
    const record = { mark, held, chain: chain.hashes, items };
    const sent = await sendLog(database, caller, namespace, record);
    if (!sent.ok) return sent;
  }
  return { ok: true, decision: read.decision, result: compiled };
}

/** What to do, in the names of the options. */
function wordsOfStep({ step, from, to, of, needs = [] }: OverBudget['steps'][number]): string {
  const also = needs.map((one) => (one === 'pins' ? ' and no pins' : ` and ${one} 0`)).join('');
  switch (step) {
    case 'summarize':
      return of === undefined
        ? `summarize entries ${from ?? ''} to ${to ?? ''}${also}`
        : `summarize ${of.length.toString()} summaries${also}`;
    case 'recentTokens':
    case 'headTokens':
    case 'pruneToolResults':
      return `${step} 0${also}`;
    case 'maxEntryTokens':
      return `${step} ${LEAST_ENTRY_TOKENS.toString()}`;
    case 'pins':
      return `no pins${also}`;
    case 'injections':
      return 'no injections';
  }
}

function withSteps(refusal: LogRefusal, over: OverBudget): CompileRefusal | Refusal {
  if (refusal.code !== 'over_budget') return refusal;
  const steps = over.steps.map(
    (step) => `${wordsOfStep(step)} (frees up to ${step.frees.toString()})`,
  );
  const detail =
    `The request has ${over.tokens.toString()} tokens, and its budget is ${over.budget.toString()}. ` +
    (steps.length > 0
      ? `Tokens are freed by: ${steps.join(', ')}.`
      : 'Nothing in it can be left out.');
  return { ...refusal, detail, over };
}
