import { highestFloor, type Floor } from './floor.ts';
import { externalId, type ExternalId } from './identity.ts';
import { modeOf, type Mode, type TriggerKind, type TurnMode } from './mode.ts';
import type { RefusalCode } from './refusal.ts';

/**
 * What a source is to a turn, gathered in one snapshot by whoever answers for the scope. `sourceFloor`
 * and `message.isVisible` are the scope's own verdict; the readers say how it came about.
 */
export interface SourceFacts {
  readonly turn: StandingTurn | { readonly code: RefusalCode };
  readonly trigger: TriggerKind | 'disclosure';
  readonly aiThread: boolean;
  readonly everShared: boolean;
  readonly isDestination: boolean;
  readonly sourceState: 'live' | 'deleted' | 'staged';
  /** The turn has a project bound, and the source is not of that project. */
  readonly isOutsideBound: boolean;
  /** The source's effective floor, absent where it is out of scope. */
  readonly sourceFloor?: Floor;
  /** The message that is asked for, if one is. */
  readonly message?: MessageFacts;
  readonly readers: readonly ReaderFacts[];
}

export interface StandingTurn {
  readonly mode: Mode;
  readonly extent: TurnMode['extent'];
  readonly projectBound?: ExternalId;
}

export interface MessageFacts {
  readonly seq: bigint;
  readonly isDeleted: boolean;
  /** Whether it may be read outside of its own conversation. */
  readonly mayLeave: boolean;
  /** Whether it came out of a delivery, whose lineage it keeps. */
  readonly isDelivered: boolean;
  readonly isVisible: boolean;
}

/** One reader of the destination. */
export interface ReaderFacts {
  readonly kind: 'user' | 'class:organization' | 'class:project';
  /** Absent where whoever is told may not know the name. */
  readonly id?: string;
  readonly isViewer: boolean;
  readonly isGuest: boolean;
  readonly isOwner: boolean;
  readonly isRequester: boolean;
  readonly destinationFloor: Floor;
  /** Where this reader's reading of the source begins; absent for one who does not read it. */
  readonly floor?: Floor;
  /** Whether this reader may read all that the message was made from; absent where nobody asked. */
  readonly readsLineage?: boolean;
}

/** Why a source is in or out. Readers are named by their place in the facts. */
export interface Explanation {
  readonly isIn: boolean;
  /** Each of which keeps the source out by itself; none where it is in. */
  readonly reasons: readonly Reason[];
  /** The highest of the readers' floors; absent where one of them has none. */
  readonly intersection?: Floor;
  readonly changes: readonly AudienceChange[];
}

export type Reason =
  | { readonly kind: 'turn_refused'; readonly code: RefusalCode }
  | { readonly kind: 'conversation_deleted' | 'conversation_staged' }
  | { readonly kind: 'mode'; readonly mode: Mode }
  | { readonly kind: 'project_bound'; readonly project: ExternalId }
  | { readonly kind: 'not_read' | 'below_floor' | 'lineage'; readonly readers: readonly number[] }
  | { readonly kind: 'message_deleted' | 'unaccounted_answer' | 'edited_answer' };

/**
 * A change that would bring the source in, all of it together: the destination without these
 * persons; or these readers reading the source, from `atMost` or further back.
 */
export type AudienceChange =
  | { readonly kind: 'without'; readonly readers: readonly number[] }
  | { readonly kind: 'floor'; readonly readers: readonly number[]; readonly atMost?: Floor };

/**
 * Explains the scope's verdict, and names the changes of the audience that would turn it.
 *
 * Throws where the reasons and the verdict do not agree: an explanation that is not that of the scope
 * is a fault, and is not given.
 */
export function explainSource(facts: SourceFacts): Explanation {
  const { readers, message, sourceFloor } = facts;
  const isIn = message === undefined ? sourceFloor !== undefined : message.isVisible;
  const reasons = reasonsOf(facts);
  if (isIn !== (reasons.length === 0)) throw new Error('the reasons are not those of the scope');
  const intersection = highestFloor(readers.map(({ floor }) => floor));
  return {
    isIn,
    reasons,
    ...(intersection !== undefined && { intersection }),
    changes: changesOf(facts, reasons),
  };
}

function reasonsOf(facts: SourceFacts): Reason[] {
  const { turn, message, isDestination } = facts;
  const reasons: Reason[] = [];
  const blame = (
    kind: 'not_read' | 'below_floor' | 'lineage',
    isBlamed: (reader: ReaderFacts) => boolean,
  ) => {
    const readers = facts.readers.flatMap((reader, place) => (isBlamed(reader) ? [place] : []));
    if (readers.length > 0) reasons.push({ kind, readers });
  };

  if ('code' in turn) reasons.push({ kind: 'turn_refused', code: turn.code });
  if (facts.sourceState !== 'live') reasons.push({ kind: `conversation_${facts.sourceState}` });
  if ('mode' in turn && !isDestination) {
    if (turn.extent === 'destination') reasons.push({ kind: 'mode', mode: turn.mode });
    if (facts.isOutsideBound && turn.projectBound !== undefined)
      reasons.push({ kind: 'project_bound', project: turn.projectBound });
  }
  blame('not_read', ({ floor }) => floor === undefined);
  if (message === undefined) return reasons;

  blame('below_floor', ({ floor }) => floor !== undefined && floor > message.seq);
  if (message.isDeleted) reasons.push({ kind: 'message_deleted' });
  if (!message.mayLeave && !isDestination)
    reasons.push({ kind: message.isDelivered ? 'edited_answer' : 'unaccounted_answer' });
  if (message.isDelivered) blame('lineage', ({ readsLineage }) => readsLineage === false);
  return reasons;
}

function changesOf(facts: SourceFacts, reasons: readonly Reason[]): AudienceChange[] {
  const blamed = new Set<number>();
  let lineage = false;
  for (const reason of reasons) {
    // Another reason stays, whoever reads the destination.
    if (!('readers' in reason)) return [];
    for (const place of reason.readers) blamed.add(place);
    lineage ||= reason.kind === 'lineage';
  }
  if (blamed.size === 0) return [];
  const readers = [...blamed].sort((a, b) => a - b);
  const changes: AudienceChange[] = [];
  if (wouldHelpWithout(facts, blamed)) changes.push({ kind: 'without', readers });
  // What a message was made from has floors of its own.
  if (!lineage) {
    const atMost = facts.message?.seq;
    changes.push({ kind: 'floor', readers, ...(atMost !== undefined && { atMost }) });
  }
  return changes;
}

/**
 * Whether the source would be in without these readers. The rest all read it, so what is left to ask
 * is what their turn would be: fewer readers may have another mode.
 *
 * A class is not taken out: a conversation that is closed to it lists the people that it stood for.
 */
function wouldHelpWithout(facts: SourceFacts, blamed: ReadonlySet<number>): boolean {
  const places = [...facts.readers.entries()];
  const gone = places.filter(([place]) => blamed.has(place));
  const left = places.filter(([place]) => !blamed.has(place));
  if (left.length === 0) return false;
  if (gone.some(([, { kind, isRequester }]) => kind !== 'user' || isRequester)) return false;

  const named = (place: number) => externalId(`reader ${place}`);
  const placeOf = (is: (reader: ReaderFacts) => boolean) =>
    places.find(([, reader]) => is(reader))?.[0];
  const owner = placeOf(({ isOwner }) => isOwner);
  const requester = placeOf(({ isRequester }) => isRequester);
  const mode = modeOf(
    {
      aiThread: facts.aiThread,
      everShared: facts.everShared,
      ...(owner !== undefined && { owner: named(owner) }),
    },
    {
      readers: left.map(([place, { kind, destinationFloor, isGuest }]) => ({
        reader:
          kind === 'user'
            ? { kind, user: named(place) }
            : kind === 'class:project'
              ? { kind, project: named(place) }
              : { kind },
        floor: destinationFloor,
        guest: isGuest,
      })),
    },
    // One whom a class stands for is nobody of the list.
    requester === undefined ? externalId('covered') : named(requester),
    facts.trigger,
  );
  if (!mode.ok) return false;
  return mode.extent !== 'destination' || (facts.isDestination && !facts.message?.isDelivered);
}
