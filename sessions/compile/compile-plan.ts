import { choose, type Choice } from '../../policy/selection.ts';
import { arrange, type Message, type Piece } from './arrangement.ts';
import type { CompileMaterial, MaterialEntry, MaterialSummary } from './compile-material.ts';
import type { CompileOptions } from './compile-shape.ts';
import { weighLog, weighPart, type Weighed } from './compile-weights.ts';
import { blocksOf, type StartUnit } from '../injections.ts';
import { weighMessage } from './message-tokens.ts';
import type { TokenEstimator } from './token-estimator.ts';

/** What a message comes from. */
export type Origin =
  | { readonly kind: 'entry'; readonly index: number }
  | { readonly kind: 'summary'; readonly index: number }
  | { readonly kind: 'placed'; readonly unit: StartUnit }
  | { readonly kind: 'marker' };

/** An entry of the view; or a unit of this start that is for the log and is not in it, as the entry that it would be. */
export type LogEntryToSend = MaterialEntry & { readonly unit?: StartUnit };

export interface PlannedMessage extends Message<Origin> {
  readonly tokens: number;
}

/** What a request would be, whatever its budget. */
export interface Plan {
  readonly entries: readonly Weighed[];
  readonly choice: Choice;
  readonly messages: readonly PlannedMessage[];
  readonly tokens: number;
}

/** What stands at the end where the agent spoke last, so that it does not take an injection for what woke it. */
export const CONTINUE = '[continue]';

/** A summary as it is sent. */
export function summaryText({ text, covers }: Pick<MaterialSummary, 'text' | 'covers'>): string {
  return `[a summary of ${covers.length.toString()} earlier entries]\n${text}`;
}

export interface PlanMaterial extends Pick<CompileMaterial, 'summaries'> {
  readonly entries: readonly LogEntryToSend[];
}

export type PlanOptions = Pick<
  CompileOptions,
  'headTokens' | 'recentTokens' | 'maxEntryTokens' | 'pruneToolResults' | 'self'
> & {
  readonly pins: ReadonlySet<number>;
  readonly dearer?: 'replace' | 'keep' | undefined;
};

/**
 * Plans a request from a view of a log: what goes raw and what under a summary, in log order, then what `units` place.
 * The same view, units and options give the same plan. No budget is read.
 */
export function planCompile(
  { entries: log, summaries }: PlanMaterial,
  units: readonly StartUnit[],
  options: PlanOptions,
  estimator: TokenEstimator,
): Plan {
  const entries = weighLog(log, { ...options, parted: summaries.length > 0 }, estimator);
  const indexAt = new Map(log.map(({ at }, index) => [at, index]));
  const priced = summaries.map((summary) => ({
    level: summary.level,
    covers: summary.covers.map((at) => indexAt.get(at) ?? -1),
    price: weighMessage(estimator, summaryMessage(summary)),
  }));
  const choice = choose(entries, priced, {
    headTokens: options.headTokens ?? 0,
    recentTokens: options.recentTokens ?? 0,
    ...(options.dearer !== undefined && { dearer: options.dearer }),
  });

  const standing = new Map(choice.taken.map((index, nth) => [choice.standsAt[nth], index]));
  const pieces: Piece<Origin>[] = [];
  for (const [index, entry] of log.entries()) {
    const summary = standing.get(index);
    const stands = summary === undefined ? undefined : summaries[summary];
    if (summary !== undefined && stands !== undefined) {
      const { role, participant, content } = summaryMessage(stands);
      pieces.push({
        role,
        participant,
        blocks: content,
        origin: { kind: 'summary', index: summary },
      });
    }
    const { role, participant } = entry;
    const sent = choice.raw[index] ?? true;
    // One that is not sent is there for the pairing, which is the same in whatever form.
    const { blocks } = (sent ? entries[index] : undefined) ?? entry;
    pieces.push({ role, participant, blocks, origin: { kind: 'entry', index }, sent });
  }

  const arranged = arrange(placeUnits(pieces, units, log));
  if (endsOnOwn(arranged, log, options.self)) arranged.push(MARKER);
  const messages = arranged.map((message) => ({
    ...message,
    tokens: weighPart(message, entryOf(message, entries), estimator),
  }));
  const tokens = messages.reduce((total, message) => total + message.tokens, 0);
  return { entries, choice, messages, tokens };
}

function entryOf({ origin }: Message<Origin>, entries: readonly Weighed[]): Weighed | undefined {
  return origin.kind === 'entry' ? entries[origin.index] : undefined;
}

function summaryMessage(summary: Pick<MaterialSummary, 'text' | 'covers'>) {
  const text = summaryText(summary);
  return {
    role: 'user' as const,
    participant: 'summary',
    content: [{ type: 'text' as const, text }],
  };
}

/** Puts units where they go. */
function placeUnits(
  pieces: readonly Piece<Origin>[],
  units: readonly StartUnit[],
  log: readonly MaterialEntry[],
): Piece<Origin>[] {
  const at = (position: StartUnit['position']) =>
    units
      .filter((unit) => unit.position === position)
      .map((unit): Piece<Origin> => ({
        role: position === 'system' ? 'system' : 'user',
        participant: unit.source,
        blocks: blocksOf(unit),
        origin: { kind: 'placed', unit },
      }));
  const latest = pieces.findLastIndex(
    ({ origin, role, blocks, sent }) =>
      sent !== false &&
      role === 'user' &&
      origin.kind === 'entry' &&
      log[origin.index]?.injection === undefined &&
      // The provider's own form of a result is not what a user says.
      (blocks.some(({ type }) => type !== 'tool_result' && type !== 'raw') ||
        blocks.every(({ type }) => type === 'raw')),
  );
  const before = latest === -1 ? pieces.length : latest;
  return [
    ...at('system'),
    ...pieces.slice(0, before),
    ...at('before_user'),
    ...pieces.slice(before),
    ...at('after_user'),
  ];
}

const MARKER: Message<Origin> = {
  role: 'user',
  participant: 'gateway',
  content: [{ type: 'text', text: CONTINUE }],
  origin: { kind: 'marker' },
};

/** Whether the agent's own words are the last, injections apart. */
function endsOnOwn(
  messages: readonly Message<Origin>[],
  log: readonly MaterialEntry[],
  self: string | undefined,
): boolean {
  const last = messages.findLast(
    ({ origin }) =>
      origin.kind === 'summary' ||
      (origin.kind === 'entry' && log[origin.index]?.injection === undefined),
  );
  return (
    last?.role === 'agent' &&
    (self === undefined || last.participant === self) &&
    last.content.every(({ type }) => type !== 'tool_result')
  );
}
