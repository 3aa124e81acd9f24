import { sha256Hex } from '../policy/canonical.ts';
import { RECOVERIES, type Recovery } from '../policy/refusal.ts';
import type { AskedRelease, Delivery, Proposed } from './answer-shape.ts';
import type { CallOptions } from './call.ts';
import type { Client } from './client.ts';
import { knownRecovery, type Answer, type ClientRefusal } from './client-refusal.ts';

/** The same text toward a smaller place: for the one who asked to choose, never taken unasked. */
export interface ReduceAudience extends Responsible {
  readonly action: 'reduce_audience';
  /** Which place, where the gateway names one. */
  readonly destination?: string;
}

/** What is to be done about a refusal or a held delivery, by whom, and what it leads to. */
export type RecoveryStep = Responsible & {
  /** What could be done instead, as the gateway offers it. */
  readonly alternatives?: readonly ReduceAudience[];
} & (
    | {
        readonly action:
          /** The text is dropped, and made again in a new turn, whose session is that of the readers of now. */
          | 'rebuild'
          /** The audience is the same and the grant has ended: another one, in the same turn. */
          | 'remint'
          /** Nothing: it does not go on by itself. */
          | 'stop'
          /** Another request: this one gets the same answer. */
          | 'correct';
      }
    /** The text is saved as it is, and those who own what stands in the way are asked whether it may go there. */
    | { readonly action: 'ask_owner'; readonly destination?: string }
    | ReduceAudience
    /** It may have happened: whoever knows settles it under this id. Making it again does not undo it. */
    | { readonly action: 'reconcile'; readonly deliveryId?: string }
    /** The same request, after this time at least. */
    | { readonly action: 'retry'; readonly afterMs: number }
  );

interface Responsible {
  /** Who acts, as the gateway says, else as the recovery has it. */
  readonly by: string;
  /** The state that it leads to. */
  readonly next: string;
}

interface Told {
  readonly recovery?: string | undefined;
  readonly recoveryOwner?: string | undefined;
  readonly next?: string | undefined;
}

/** Something that went no further: a refusal of whatever side, or a delivery as it stands. */
export type Stopped =
  | (Told & {
      readonly ok: false;
      readonly deliveryId?: string;
      readonly retryAfterMs?: number;
    })
  | (Told & Pick<Delivery, 'id' | 'destination' | 'status' | 'alternatives'>);

/**
 * What to do next, for a bridge's loop to switch on. Undefined where nothing is to be recovered: it is
 * cleared, delivered, or on its way through the queue. What this release does not know is `stop`.
 */
export function recoveryOf(stopped: Stopped): RecoveryStep | undefined {
  if ('ok' in stopped) {
    const { deliveryId, retryAfterMs } = stopped;
    return stepOf(knownRecovery(stopped.recovery), stopped, { deliveryId, retryAfterMs });
  }
  const { id: deliveryId, destination, alternatives } = stopped;
  const recovery = recoveryAs(stopped);
  return recovery && stepOf(recovery, stopped, { deliveryId, destination, alternatives });
}

function recoveryAs({ status, recovery }: Pick<Delivery, 'status'> & Told): Recovery | undefined {
  switch (status) {
    case 'waiting':
    case 'scheduled':
    case 'cleared':
    case 'claimed':
    case 'delivered':
      return undefined;
    case 'released':
    case 'reconciling':
      return 'reconcile';
    case 'failed':
      return 'rebuild';
    case 'held':
    case 'dead':
    case 'discarded':
      return knownRecovery(recovery);
  }
}

interface Known {
  readonly deliveryId?: string | undefined;
  readonly destination?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly alternatives?: Delivery['alternatives'];
}

function stepOf(action: Recovery, told: Told, known: Known): RecoveryStep {
  const { owner, next } = RECOVERIES[action];
  // What the gateway says of another recovery than this one is not about it.
  const isTold = told.recovery === action;
  const alternatives = offersOf(known.alternatives);
  const shared = {
    by: (isTold ? told.recoveryOwner : undefined) ?? owner,
    next: (isTold ? told.next : undefined) ?? next,
    ...(alternatives.length > 0 && { alternatives }),
  };
  const { deliveryId, destination, retryAfterMs: afterMs = 0 } = known;
  switch (action) {
    case 'rebuild':
    case 'remint':
    case 'stop':
    case 'correct':
      return { ...shared, action };
    case 'ask_owner':
      return { ...shared, action, ...(destination !== undefined && { destination }) };
    case 'reduce_audience': {
      const place = alternatives[0]?.destination;
      return { ...shared, action, ...(place !== undefined && { destination: place }) };
    }
    case 'reconcile':
      return { ...shared, action, ...(deliveryId !== undefined && { deliveryId }) };
    case 'retry':
      return { ...shared, action, afterMs };
  }
}

/** What is offered, as far as this release knows it. */
function offersOf(alternatives: Delivery['alternatives'] = []): ReduceAudience[] {
  const { owner, next } = RECOVERIES.reduce_audience;
  return alternatives.flatMap(({ action, destination }) =>
    action === 'reduce_audience' && destination !== undefined
      ? [{ action, by: owner, next, destination }]
      : [],
  );
}

/** What a bridge has at hand to recover with. Whatever is missing leaves its step undone. */
export interface RecoveryMeans {
  readonly organization: string;
  /** The text that was held. Another one than its delivery names is not saved and not proposed. */
  readonly payload?: string;
  readonly contentType?: string;
  /** The token of a grant of the same turn that still stands. */
  readonly grantToken?: string;
  /** Gives the token of another grant in the same turn and the same session, or says why there is none. */
  readonly remint?: () => Promise<Answer<string>>;
  /** Asks the one who asked whether one of these smaller places may have the text. None unless given. */
  readonly reduceTo?: (
    destinations: readonly string[],
  ) => string | undefined | Promise<string | undefined>;
  /** What the keys of the requests are made from, so that recovering twice is as good as once. */
  readonly key?: string;
}

type RecoveryCalls = Pick<
  Client,
  'showDelivery' | 'discardDelivery' | 'propose' | 'saveArtifact' | 'askRelease'
>;

export type Recovered =
  /** Nothing was to be recovered. */
  | { readonly kind: 'nothing' }
  /** The text is dropped. What is left is a new turn: `toward` the smaller place, if one was chosen. */
  | { readonly kind: 'dropped'; readonly step: RecoveryStep; readonly toward?: string }
  /** It was proposed again: under another grant, or toward the smaller place that was chosen. */
  | { readonly kind: 'proposed'; readonly step: RecoveryStep; readonly delivery: Proposed }
  /** The owners were asked. Once they have approved, the same text is to be proposed again. */
  | {
      readonly kind: 'asked';
      readonly step: RecoveryStep;
      readonly artifact: string;
      readonly release: AskedRelease;
    }
  /** Nothing was done: it is for `step.by` to do. */
  | { readonly kind: 'left'; readonly step: RecoveryStep }
  /** A step was refused. Nothing follows it. */
  | { readonly kind: 'refused'; readonly step: RecoveryStep; readonly refusal: ClientRefusal };

/**
 * Takes the steps of a held delivery that are a bridge's own, and says what is left to whom.
 *
 * - `rebuild`: discarded; the new turn is the caller's, in the smaller place if one is offered and `reduceTo` chooses
 *   it: the session went with the text, so no grant of this turn takes it there
 * - `ask_owner`, and a smaller place is offered and chosen: proposed there
 * - `remint`, with `remint`: proposed again under the grant that it gives
 * - `ask_owner`, with a grant: saved as a draft, and a release is asked for
 * - everything else is left
 *
 * Each text that goes anywhere is judged there anew; no older session is opened and no wider place tried.
 */
export async function recover(
  client: RecoveryCalls,
  held: Delivery | Proposed,
  means: RecoveryMeans,
  options: CallOptions = {},
): Promise<Recovered> {
  const step = await stepNow(client, held, means, options);
  if (step === undefined) return { kind: 'nothing' };
  const { organization, grantToken, remint, key = crypto.randomUUID() } = means;
  const text = textOf(held, means);
  const refused = (refusal: ClientRefusal): Recovered => ({ kind: 'refused', step, refusal });

  const smaller = await chosenPlace(step, means);
  const isHere = step.action !== 'rebuild';
  if (isHere && smaller !== undefined && text !== undefined && grantToken !== undefined) {
    const proposal = { ...text, destination: smaller, key: `${key}/smaller` };
    const delivery = await client.propose(grantToken, proposal, options);
    return delivery.ok ? { kind: 'proposed', step, delivery: delivery.value } : refused(delivery);
  }
  switch (step.action) {
    case 'rebuild': {
      const dropped = await client.discardDelivery({ organization, deliveryId: held.id }, options);
      // One that went out and failed has no text any more, and is a conflict.
      if (!dropped.ok && dropped.code !== 'conflict') return refused(dropped);
      return { kind: 'dropped', step, ...(smaller !== undefined && { toward: smaller }) };
    }
    case 'remint': {
      if (remint === undefined || text === undefined) return { kind: 'left', step };
      const token = await remint();
      if (!token.ok) return refused(token);
      const proposal = { ...text, destination: held.destination, key: `${key}/again` };
      const delivery = await client.propose(token.value, proposal, options);
      return delivery.ok ? { kind: 'proposed', step, delivery: delivery.value } : refused(delivery);
    }
    case 'ask_owner': {
      if (grantToken === undefined || text === undefined) return { kind: 'left', step };
      const { payload, ...typed } = text;
      const draft = { kind: 'draft', text: payload, ...typed, key: `${key}/draft` } as const;
      const saved = await client.saveArtifact(grantToken, draft, options);
      if (!saved.ok) return refused(saved);
      const question = { artifact: saved.value.id, destination: held.destination };
      const asked = await client.askRelease(
        grantToken,
        { ...question, key: `${key}/release` },
        options,
      );
      return asked.ok
        ? { kind: 'asked', step, artifact: saved.value.id, release: asked.value }
        : refused(asked);
    }
    case 'reduce_audience':
    case 'stop':
    case 'reconcile':
    case 'retry':
    case 'correct':
      return { kind: 'left', step };
  }
}

/** The step, with what the gateway offers instead, which it tells those alone who ask for the delivery by its id. */
async function stepNow(
  client: RecoveryCalls,
  held: Delivery | Proposed,
  { organization, reduceTo }: RecoveryMeans,
  options: CallOptions,
): Promise<RecoveryStep | undefined> {
  const step = recoveryOf(held);
  if (step === undefined || held.status !== 'held' || reduceTo === undefined) return step;
  const shown = await client.showDelivery({ organization, deliveryId: held.id }, options);
  return shown.ok ? recoveryOf(shown.value) : step;
}

/** The smaller place that was chosen of those that are offered, and none beside them. */
async function chosenPlace(
  { alternatives = [] }: RecoveryStep,
  { reduceTo }: RecoveryMeans,
): Promise<string | undefined> {
  const offered = alternatives.flatMap(({ destination }) => destination ?? []);
  if (offered.length === 0) return undefined;
  const chosen = await reduceTo?.(offered);
  return offered.find((place) => place === chosen);
}

/** The text that was held, if it is at hand. */
function textOf(
  { payloadSha256 }: Delivery | Proposed,
  { payload, contentType }: RecoveryMeans,
): { payload: string; contentType?: string } | undefined {
  return payload === undefined || sha256Hex(payload) !== payloadSha256
    ? undefined
    : { payload, ...(contentType !== undefined && { contentType }) };
}
