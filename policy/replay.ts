import type { Floor } from './floor.ts';
import type { Mode, TurnMode } from './mode.ts';
import { isRefusalCode, type RefusalCode } from './refusal.ts';

/** What a decision was about, and how that stands now, gathered in one snapshot. Nothing here is judged yet. */
export interface ReplayFacts {
  readonly of: DecisionThen;
  /** As the record has it: absent is not known. */
  readonly then: Standing;
  /** What the grant was bound to under which it was decided, or the turn by an earlier one; absent where nothing was. */
  readonly bound?: Standing;
  /** The turn toward its own destination; absent where the decision is of no turn. */
  readonly own?: Standing;
  /** The place where a delivery would be read, with the verdict on what it was made from; else the same as `own`. */
  readonly there?: Standing;
  /** How far a turn toward that place draws; absent where none stands. */
  readonly extent?: TurnMode['extent'];
  /** Whether the turn still allows the tool, if it was a call of one. */
  readonly toolAllowed?: boolean;
  /** What the delivery was cleared for, as it stands. */
  readonly delivery?: Standing;
  /** Who reads that place, then and now; absent where it is not known who did. */
  readonly readers?: readonly ReaderThenAndNow[];
  readonly sources: readonly SourceThenAndNow[];
  /** Of each conversation that has a source which is not shown any more: what each reader reads of it. */
  readonly readings: ReadonlyMap<string, readonly ReaderReading[]>;
}

export interface DecisionThen {
  readonly kind: string;
  readonly verdict: 'allowed' | 'refused';
  readonly code?: RefusalCode;
  readonly tool?: string;
  readonly isDelivery: boolean;
}

export interface Standing {
  readonly code?: RefusalCode;
  readonly fingerprint?: string;
  readonly mode?: Mode;
  readonly projectBound?: string;
  readonly policyRevision?: bigint;
}

export type ReaderKind = 'user' | 'class:organization' | 'class:project';

interface NamedReader {
  readonly kind: ReaderKind;
  /** Absent where whoever is told may not know it. */
  readonly id?: string;
}

/** A reader with the floors at the destination; without one of them, not a reader at that time. */
export interface ReaderThenAndNow extends NamedReader {
  readonly then?: Floor;
  readonly now?: Floor;
}

/** Where a reader's reading of a conversation begins now; without it, the reader does not read it. */
export interface ReaderReading extends NamedReader {
  readonly floor?: Floor;
}

/** What was shown, or what a text was made from. */
export interface SourceThenAndNow {
  readonly type: 'message' | 'artifact' | 'stretch';
  readonly conversation: string;
  /** Of a message; of a stretch of a conversation, where it begins. */
  readonly seq?: bigint;
  readonly state: 'live' | 'edited' | 'deleted';
  readonly isStaged: boolean;
  readonly isDestination: boolean;
  readonly isOutsideBound: boolean;
  /** Whether it may be read outside of its own conversation. */
  readonly mayLeave: boolean;
  /** The scope's own verdict. */
  readonly isShown: boolean;
}

/** What a decision comes to on the facts of now, or why it is not asked again. */
export type Replay =
  | {
      readonly isJudged: true;
      readonly now: Verdict;
      /** Whether that answers the question of then: a refusal that was about the course of a turn is about nothing that stays. */
      readonly isComparable: boolean;
      readonly changes: readonly ReplayChange[];
      readonly sources: readonly SourceVerdict[];
      readonly notRepeated: readonly NotRepeated[];
    }
  | {
      readonly isJudged: false;
      readonly why: NotJudged;
      readonly sources: readonly SourceVerdict[];
    };

/**
 * - course: a step of a turn, a lease, a grant or a delivery, which is over
 * - request_not_kept: what was asked is on record as a digest alone
 * - act: what somebody did, which no rule decided
 * - assertion: what a caller registered, for nobody's reading in particular
 */
export type NotJudged = 'course' | 'request_not_kept' | 'act' | 'assertion';

/**
 * - query: what else the call would find now
 * - course: whether the turn runs, and lease, grant and session are those of then
 * - shown_readers: whom the platform showed
 */
export type NotRepeated = 'query' | 'course' | 'shown_readers';

export interface Verdict {
  readonly verdict: 'allowed' | 'refused';
  readonly code?: RefusalCode;
}

export interface ReaderCount {
  readonly kind: ReaderKind;
  readonly count: number;
  /** Absent where whoever is told may not know them. */
  readonly ids?: readonly string[];
}

/** What is not as it was. */
export type ReplayChange =
  | { readonly kind: 'verdict'; readonly then: Verdict; readonly now: Verdict }
  | {
      readonly kind: 'audience';
      /** Absent where it is not known who was there. */
      readonly came?: readonly ReaderCount[];
      readonly gone?: readonly ReaderCount[];
      readonly floorsMoved?: readonly ReaderCount[];
    }
  | { readonly kind: 'mode' | 'project_bound'; readonly then?: string; readonly now?: string }
  | { readonly kind: 'policy_revision'; readonly then: bigint; readonly now: bigint }
  | { readonly kind: 'sources'; readonly edited: number; readonly out: number };

export interface SourceVerdict {
  /** Kept: it is there, and nobody's reading is asked about. */
  readonly now: 'shown' | 'edited' | 'out' | 'kept';
  readonly reasons: readonly SourceReason[];
}

/** Each keeps the source out by itself. */
export type SourceReason =
  | { readonly kind: 'deleted' | 'staged' | 'unaccounted_answer' | 'lineage' }
  | { readonly kind: 'turn_refused'; readonly code: RefusalCode }
  | { readonly kind: 'mode'; readonly mode: Mode }
  | { readonly kind: 'project_bound'; readonly project: string }
  | { readonly kind: 'not_read' | 'below_floor'; readonly readers: readonly ReaderCount[] };

/** Judges what was decided once more, on the facts of now, and says what is not as it was. */
export function judgeReplay(facts: ReplayFacts): Replay {
  const sources = facts.sources.map((source) => judgeSource(source, facts));
  const why = notJudged(facts);
  if (why !== undefined) return { isJudged: false, why, sources };
  const { of, then } = facts;
  const now = verdictOf(codeNow(facts));
  const isComparable = of.code === undefined || ABOUT_FACTS.has(of.code);
  const changes: ReplayChange[] = [];
  const was: Verdict = verdictOf(of.code);
  if (isComparable && was.code !== now.code) changes.push({ kind: 'verdict', then: was, now });
  changes.push(...standingChanges(facts, then));
  const edited = sources.filter((source) => source.now === 'edited').length;
  const out = sources.filter((source) => source.now === 'out').length;
  // What was refused was shown to nobody.
  if (of.verdict === 'allowed' && edited + out > 0) changes.push({ kind: 'sources', edited, out });
  return { isJudged: true, now, isComparable, changes, sources, notRepeated: notRepeated(of) };
}

/** Refusals that the facts of an organization decide, whatever becomes of the turn. Others are about its course. */
const ABOUT_FACTS: ReadonlySet<RefusalCode> = new Set([
  ...([
    'organization_paused',
    'destination_closed',
    'unlistable_audience',
    'empty_audience',
  ] as const),
  ...(['requester_left', 'persona_not_designated', 'stopped', 'facts_stale'] as const),
  ...(['trigger_out_of_scope', 'mode_changed', 'policy_changed', 'audience_changed'] as const),
  ...(['source_revoked', 'source_changed', 'narrowing_refused', 'tool_not_allowed'] as const),
]);

/** The questions that a standing turn answers, and those that a delivery or an artifact does. */
const OF_TURNS = new Set(['open', 'mint', 'tool', 'session', 'introspect', 'ask release']);
const OF_TEXTS = new Set(['propose', 'release', 'approve', 'artifact']);
const OF_A_COURSE = new Set([
  ...['lease', 'heartbeat', 'complete', 'fail', 'stop', 'revoke', 'claim', 'retry', 'expire'],
  ...['dead', 'reconcile', 'discard'],
]);
const OF_A_REQUEST = new Set(['explain', 'lineage', 'list releases', 'replay']);

function notJudged({ of: { kind }, own }: ReplayFacts): NotJudged | undefined {
  if (OF_A_COURSE.has(kind)) return 'course';
  if (OF_A_REQUEST.has(kind)) return 'request_not_kept';
  if (!OF_TURNS.has(kind) && !OF_TEXTS.has(kind)) return 'act';
  if (own !== undefined) return undefined;
  // What was refused before there was a turn, and what was registered outside of any.
  return kind === 'artifact' ? 'assertion' : 'request_not_kept';
}

/** The first check that fails on the facts of now, in the order of the live check and of a release. */
function codeNow(facts: ReplayFacts): RefusalCode | undefined {
  const { of, own, there, bound, delivery, toolAllowed } = facts;
  const first = own?.code ?? (bound === undefined ? undefined : driftOf(bound, own));
  if (first !== undefined) return first;
  if (OF_TEXTS.has(of.kind)) {
    const isAgain = of.kind === 'release' || of.kind === 'approve';
    return (
      there?.code ?? (isAgain && delivery !== undefined ? driftOf(delivery, there) : undefined)
    );
  }
  return toolAllowed === false ? 'tool_not_allowed' : undefined;
}

/** Why what something was bound to is not what stands now. */
function driftOf(bound: Standing, now: Standing | undefined): RefusalCode | undefined {
  if (bound.mode !== now?.mode || bound.projectBound !== now?.projectBound) return 'mode_changed';
  if (bound.policyRevision !== undefined && bound.policyRevision !== now?.policyRevision) {
    return 'policy_changed';
  }
  return bound.fingerprint === now?.fingerprint ? undefined : 'audience_changed';
}

function standingChanges({ of, there, own, readers }: ReplayFacts, then: Standing): ReplayChange[] {
  const now = of.isDelivery ? there : own;
  const changes: ReplayChange[] = [];
  if (now === undefined) return changes;
  if (then.fingerprint !== undefined && then.fingerprint !== now.fingerprint) {
    changes.push({ kind: 'audience', ...(readers !== undefined && movesOf(readers)) });
  }
  // A turn that does not stand has no mode; the verdict says so.
  if (then.mode !== undefined && now.mode !== undefined) {
    if (then.mode !== now.mode) changes.push({ kind: 'mode', then: then.mode, now: now.mode });
    if (then.projectBound !== now.projectBound) {
      changes.push({
        kind: 'project_bound',
        ...(then.projectBound !== undefined && { then: then.projectBound }),
        ...(now.projectBound !== undefined && { now: now.projectBound }),
      });
    }
  }
  const { policyRevision } = now;
  if (
    then.policyRevision !== undefined &&
    policyRevision !== undefined &&
    then.policyRevision !== policyRevision
  ) {
    changes.push({ kind: 'policy_revision', then: then.policyRevision, now: policyRevision });
  }
  return changes;
}

function movesOf(readers: readonly ReaderThenAndNow[]) {
  return {
    came: countReaders(readers.filter(({ then }) => then === undefined)),
    gone: countReaders(readers.filter(({ now }) => now === undefined)),
    floorsMoved: countReaders(
      readers.filter(({ then, now }) => then !== undefined && now !== undefined && then !== now),
    ),
  };
}

/** By kind; with ids where every one of them has one. */
function countReaders(readers: readonly NamedReader[]): ReaderCount[] {
  const kinds = [...new Set(readers.map(({ kind }) => kind))];
  return kinds.map((kind) => {
    const those = readers.filter((reader) => reader.kind === kind);
    const ids = those.flatMap(({ id }) => (id === undefined ? [] : [id]));
    return { kind, count: those.length, ...(ids.length === those.length && { ids }) };
  });
}

function judgeSource(source: SourceThenAndNow, facts: ReplayFacts): SourceVerdict {
  if (source.state === 'deleted') return { now: 'out', reasons: [{ kind: 'deleted' }] };
  const isEdited = source.state === 'edited';
  if (facts.own === undefined) return { now: isEdited ? 'edited' : 'kept', reasons: [] };
  if (source.isShown) return { now: isEdited ? 'edited' : 'shown', reasons: [] };
  const reasons = reasonsOf(source, facts);
  // Whatever else is right with it, something that it was made from is not readable.
  return { now: 'out', reasons: reasons.length > 0 ? reasons : [{ kind: 'lineage' }] };
}

function reasonsOf(source: SourceThenAndNow, facts: ReplayFacts): SourceReason[] {
  const { own, there, extent, readings } = facts;
  const reasons: SourceReason[] = [];
  const code = own?.code ?? (there?.mode === undefined ? there?.code : undefined);
  if (code !== undefined) reasons.push({ kind: 'turn_refused', code });
  // Where an artifact is at home says nothing of who reads it.
  if (source.type === 'artifact') return reasons;
  if (source.isStaged) reasons.push({ kind: 'staged' });
  if (!source.isDestination) {
    if (extent === 'destination' && there?.mode !== undefined) {
      reasons.push({ kind: 'mode', mode: there.mode });
    }
    if (source.isOutsideBound && there?.projectBound !== undefined) {
      reasons.push({ kind: 'project_bound', project: there.projectBound });
    }
    if (!source.mayLeave) reasons.push({ kind: 'unaccounted_answer' });
  }
  const readers = readings.get(source.conversation) ?? [];
  const blame = (
    kind: 'not_read' | 'below_floor',
    isBlamed: (reader: ReaderReading) => boolean,
  ) => {
    const blamed = countReaders(readers.filter(isBlamed));
    if (blamed.length > 0) reasons.push({ kind, readers: blamed });
  };
  blame('not_read', ({ floor }) => floor === undefined);
  const { seq } = source;
  if (seq !== undefined) blame('below_floor', ({ floor }) => floor !== undefined && floor > seq);
  return reasons;
}

function notRepeated({ kind, tool }: DecisionThen): NotRepeated[] {
  return [
    ...(SEARCHES.has(tool ?? '') ? (['query'] as const) : []),
    ...(kind === 'open' ? [] : (['course'] as const)),
    ...(kind === 'release' ? (['shown_readers'] as const) : []),
  ];
}

/** Calls that find something by words: on record as a digest. */
const SEARCHES = new Set(['search', 'retrieve']);

function verdictOf(code: RefusalCode | undefined): Verdict {
  return code === undefined ? { verdict: 'allowed' } : { verdict: 'refused', code };
}

/** A code as a record has it. One that is unknown by now is a fault, never an allowance. */
export function recordedCode(code: string): RefusalCode {
  return isRefusalCode(code) ? code : 'fault';
}
