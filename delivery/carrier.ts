import type { Client } from '../client/client.ts';
import type { Released } from '../client/answer-shape.ts';
import type { ClientRefusal } from '../client/client-refusal.ts';
import { systemClock, type Clock } from '../client/clock.ts';
import { sha256Hex } from '../policy/canonical.ts';
import type { Clearance } from '../policy/clearance.ts';
import { parseSequence } from '../policy/sequence.ts';
import {
  checkClearance,
  refuseHere,
  type ClearanceKeys,
  type EndpointRefusal,
} from './clearance-check.ts';
import type { Journal, JournalEntry } from './journal.ts';
import { createSettlement, type Reconciled } from './settlement.ts';

/** A message to send: the judged text, for the readers who were judged, and nowhere else. */
export interface OutgoingMessage {
  readonly deliveryId: string;
  readonly destination: string;
  readonly payload: string;
  readonly contentType: string;
}

/** The judged text of a message that is there already. */
export interface OutgoingEdit extends OutgoingMessage {
  /** The id that the message has in its conversation. */
  readonly message: string;
}

interface NotSent {
  readonly outcome: 'failed';
  /** Why, for operators: it is kept at the gateway. No text and no names. */
  readonly reason?: string;
}

/** What the platform did. Whoever does not know throws. */
export type SendResult =
  /** `message` is the id that it has in its conversation. */
  { readonly outcome: 'delivered'; readonly message: string } | NotSent;
export type EditResult = { readonly outcome: 'delivered' } | NotSent;

export interface CarrierOptions {
  /** A client whose token has the scope `deliver`. */
  readonly client: Pick<Client, 'releaseDelivery' | 'acknowledgeDelivery' | 'showDelivery'>;
  readonly organization: string;
  /** The gateway's setting `issuer`. */
  readonly issuer: string;
  readonly keys: ClearanceKeys;
  readonly journal: Journal;
  /** Sends a message at the platform. Called at most once for each release. */
  readonly send: (message: OutgoingMessage, signal: AbortSignal) => Promise<SendResult>;
  /** Edits a message at the platform, as `send` sends one. Without it no edit is taken on. */
  readonly edit?: (edit: OutgoingEdit, signal: AbortSignal) => Promise<EditResult>;
  /** Whether messages toward this place are this endpoint's; every one unless given. */
  readonly serves?: (destination: string) => boolean;
  /** The people whom the platform shows as readers at this moment, by user id. */
  readonly shownReaders?: (destination: string) => Promise<readonly string[]>;
  /**
   * What became of a message that may have been sent, as the platform knows it: its id, `absent`, or
   * undefined where it cannot tell.
   */
  readonly find?: (entry: JournalEntry) => Promise<{ message: string } | 'absent' | undefined>;
  /** How long the platform is waited for: 60 unless given. Then its signal is aborted, and it may have been sent. */
  readonly sendSeconds?: number;
  readonly clockToleranceSeconds?: number;
  readonly clock?: Clock;
}

export type DeliverOutcome =
  | {
      readonly ok: true;
      readonly deliveryId: string;
      readonly destination: string;
      readonly message: string;
      /** Whether the gateway knows; if not, `reconcile` tells it. */
      readonly acknowledged: boolean;
    }
  | EndpointRefusal
  | ClientRefusal;

/** A claim under which a queued delivery is carried. */
export interface Claim {
  readonly fence: string;
  /** Until when it is released, by the clock of the options. */
  readonly until: number;
  /** Aborted when nothing more is to be released. */
  readonly signal?: AbortSignal | undefined;
}

/** Carries deliveries from their clearance to their report, each step written down before it is taken. */
export interface Carrier {
  /** Verifies a clearance without asking the gateway, and that it is for this endpoint. */
  readonly check: (token: string) => Promise<({ readonly ok: true } & Clearance) | EndpointRefusal>;
  /** Releases a delivery, sends it and reports it, or sends nothing and says why. */
  readonly carry: (clearance: Clearance, token: string, claim?: Claim) => Promise<DeliverOutcome>;
  /** Settles what a crash or a lost answer left open. To be called at the start, and now and then. */
  readonly reconcile: () => Promise<readonly Reconciled[]>;
}

/**
 * A refused release sends nothing. A release whose answer is lost hands out nothing, and nothing is
 * sent: the try counts as failed. Once the platform was called and gave no answer, only it can
 * tell (`find`); nothing is sent twice.
 */
export function createCarrier(options: CarrierOptions): Carrier {
  const { client, organization, issuer, keys, journal, clock = systemClock } = options;
  const { clockToleranceSeconds = 5, sendSeconds = 60 } = options;
  /** Deliveries under way in this process, also those that nobody waits for any more. */
  const active = new Set<string>();
  const { settle, reconcile } = createSettlement(options, active);

  async function check(token: string) {
    const clearance = await checkClearance(token, keys, issuer, clockToleranceSeconds);
    if (!clearance.ok) return clearance;
    const serves = options.serves?.(clearance.destination) ?? true;
    return clearance.organization === organization && serves ? clearance : refuseHere('not_served');
  }

  async function carry(
    clearance: Clearance,
    token: string,
    claim?: Claim,
  ): Promise<DeliverOutcome> {
    const { delivery: deliveryId } = clearance;
    if (active.has(deliveryId)) return refuseHere('already_released');
    active.add(deliveryId);
    const end = () => {
      active.delete(deliveryId);
    };
    let isSending = false;
    try {
      const released = await release(clearance, token, claim);
      if (!('payload' in released)) return released;
      isSending = true;
      const platform = new AbortController();
      // What the platform says late is still heard, and until then nobody else settles it.
      const sending = send(released, platform.signal).finally(end);
      return await Promise.race([sending, overdue(sending, platform)]);
    } finally {
      if (!isSending) end();
    }
  }

  /** `send_unknown`, once the platform was waited for long enough. */
  async function overdue(sending: Promise<unknown>, platform: AbortController) {
    const ended = new AbortController();
    const end = () => {
      ended.abort();
    };
    void sending.then(end, end);
    await clock.wait(sendSeconds * 1000, ended.signal);
    if (!ended.signal.aborted) platform.abort();
    return refuseHere('send_unknown');
  }

  /** What the gateway handed out, written down as about to be sent; or why nothing is. */
  async function release(
    clearance: Clearance,
    token: string,
    claim: Claim | undefined,
  ): Promise<Loaded | Exclude<DeliverOutcome, { ok: true }>> {
    const { delivery: deliveryId, destination } = clearance;
    const fenced = claim === undefined ? {} : { fence: claim.fence };
    const earlier = await journal.read(deliveryId);
    if (earlier !== undefined && holdsBack(earlier, claim)) return refuseHere('already_released');
    const shown = await shownReaders(destination, claim);
    if (shown !== undefined && 'ok' in shown) return shown;
    const over = claim && whyOver(claim, clock);
    if (over !== undefined) return over;

    const entry = { deliveryId, destination, ...fenced };
    await journal.write({ ...entry, state: 'releasing' });
    const released = await client.releaseDelivery({
      organization,
      deliveryId,
      clearance: token,
      ...fenced,
      ...(shown !== undefined && { shownReaders: shown }),
    });
    if (!released.ok) return afterRefusal(entry, released, earlier);
    const { payload, contentType, edits } = released.value;
    const refused = !isWhatWasJudged(released.value, clearance)
      ? 'payload_mismatch'
      : edits !== undefined && options.edit === undefined
        ? 'edits_unsupported'
        : undefined;
    if (refused !== undefined) {
      await settle(entry, 'failed', { reason: refused });
      return refuseHere(refused);
    }
    const loaded = { ...entry, ...(edits !== undefined && { edits: edits.message }) };
    await journal.write({ ...loaded, state: 'sending' });
    return { ...loaded, payload, contentType };
  }

  /** Who reads there, as the platform shows it, as long as the claim lasts. */
  async function shownReaders(destination: string, claim: Claim | undefined) {
    if (options.shownReaders === undefined) return undefined;
    const answered = new AbortController();
    try {
      const asked = options.shownReaders(destination);
      if (claim === undefined) return await asked;
      const late = clock.wait(Math.max(0, claim.until - clock.now()), answered.signal);
      return await Promise.race([asked, late.then(() => refuseHere('readers_unknown'))]);
    } catch {
      return refuseHere('readers_unknown');
    } finally {
      answered.abort();
    }
  }

  async function send(
    { payload, contentType, ...entry }: Loaded,
    signal: AbortSignal,
  ): Promise<DeliverOutcome> {
    const { deliveryId, destination, edits } = entry;
    const outgoing = { deliveryId, destination, payload, contentType };
    let sent: SendResult;
    try {
      sent = await atPlatform(outgoing, edits, signal);
    } catch {
      return refuseHere('send_unknown');
    }
    if (sent.outcome === 'failed') {
      // As good as never sent, also if the gateway cannot be told now.
      await journal.write({ ...entry, state: 'releasing' });
      await settle(entry, 'failed', { reason: sent.reason ?? 'send_failed' });
      return refuseHere('send_failed');
    }
    const { message } = sent;
    await journal.write({ ...entry, state: 'sent', message });
    const acknowledged = await settle(entry, 'delivered', { message });
    return { ok: true, deliveryId, destination, message, acknowledged };
  }

  async function atPlatform(
    outgoing: OutgoingMessage,
    edits: string | undefined,
    signal: AbortSignal,
  ): Promise<SendResult> {
    if (edits === undefined || options.edit === undefined) return options.send(outgoing, signal);
    const edited = await options.edit({ ...outgoing, message: edits }, signal);
    return edited.outcome === 'failed' ? edited : { outcome: 'delivered', message: edits };
  }

  /** Nothing was sent. What is left is whether the gateway takes it for released. */
  async function afterRefusal(
    entry: Omit<JournalEntry, 'state'>,
    refusal: ClientRefusal,
    earlier: JournalEntry | undefined,
  ): Promise<ClientRefusal> {
    // An earlier request of this process took the release, and its answer was lost; unless the gateway
    // has another end of it on record.
    if (earlier !== undefined && refusal.code === 'already_released') {
      const isFailed = await settle(entry, 'failed', { reason: 'not_sent' });
      return isFailed ? { ...refusal, recovery: 'rebuild' } : refusal;
    }
    const isCertain = refusal.from === 'gateway' && refusal.status < 500;
    if (isCertain) await journal.remove(entry.deliveryId);
    return refusal;
  }

  return { check, carry, reconcile };
}

/** Why nothing is released under a claim any more, or undefined while it holds. */
export function whyOver({ until, signal }: Claim, clock: Clock): EndpointRefusal | undefined {
  if (signal?.aborted) return refuseHere('leaving');
  return clock.now() >= until ? refuseHere('fenced') : undefined;
}

/** What was handed out to be sent. */
interface Loaded extends Omit<JournalEntry, 'state' | 'message'> {
  readonly payload: string;
  readonly contentType: string;
}

/**
 * Whether what this endpoint has on record keeps a delivery from being released. What was sent is never sent again; a
 * try of which nothing is known is given anew by the gateway alone, under a fence that has grown.
 */
function holdsBack({ state, fence }: JournalEntry, claim: Claim | undefined): boolean {
  const [earlier, now] = [numberOf(fence), numberOf(claim?.fence)];
  return state === 'sent' || now < earlier || (now === earlier && state === 'sending');
}

/** Fences are positive; without a claim there is none. */
function numberOf(fence: string | undefined): bigint {
  return parseSequence(fence ?? '0') ?? 0n;
}

/** Whether the bytes that were handed out are those of the clearance, for its place. */
function isWhatWasJudged(released: Released, clearance: Clearance): boolean {
  return (
    released.destination === clearance.destination &&
    sha256Hex(released.payload) === clearance.payloadSha256
  );
}
