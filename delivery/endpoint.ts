import type { Client } from '../client/client.ts';
import type { Released } from '../client/answer-shape.ts';
import type { ClientRefusal } from '../client/client-refusal.ts';
import { sha256Hex } from '../policy/canonical.ts';
import type { Clearance } from '../policy/clearance.ts';
import {
  checkClearance,
  refuseHere,
  type ClearanceKeys,
  type EndpointRefusal,
} from './clearance-check.ts';
import type { Journal, JournalEntry } from './journal.ts';

/** A message to send: the judged text, for the readers who were judged, and nowhere else. */
export interface OutgoingMessage {
  readonly deliveryId: string;
  readonly destination: string;
  readonly payload: string;
  readonly contentType: string;
}

/** What the platform did. Whoever does not know throws. */
export type SendResult =
  /** `message` is the id that it has in its conversation. */
  { readonly outcome: 'delivered'; readonly message: string } | { readonly outcome: 'failed' };

export interface EndpointOptions {
  /** A client whose token has the scope `deliver`. */
  readonly client: Pick<Client, 'release' | 'acknowledge' | 'showDelivery'>;
  readonly organization: string;
  /** The gateway's setting `issuer`. */
  readonly issuer: string;
  readonly keys: ClearanceKeys;
  readonly journal: Journal;
  /** Sends a message at the platform. Called at most once for each release. */
  readonly send: (message: OutgoingMessage) => Promise<SendResult>;
  /** Whether messages toward this place are this endpoint's; every one unless given. */
  readonly serves?: (destination: string) => boolean;
  /** The people whom the platform shows as readers at this moment, by user id. */
  readonly shownReaders?: (destination: string) => Promise<readonly string[]>;
  /**
   * What became of a message that may have been sent, as the platform knows it: its id, `absent`, or
   * undefined where it cannot tell.
   */
  readonly find?: (entry: JournalEntry) => Promise<{ message: string } | 'absent' | undefined>;
  readonly clockToleranceSeconds?: number;
}

export interface DeliverRequest {
  readonly clearance: string;
  /** The bytes that the caller believes to be cleared; others are refused before anything is asked. */
  readonly payload?: string | Uint8Array;
}

export type DeliverOutcome =
  | {
      readonly ok: true;
      readonly deliveryId: string;
      readonly destination: string;
      readonly message: string;
      /** Whether the gateway knows; if not, {@link Endpoint.reconcile} tells it. */
      readonly acknowledged: boolean;
    }
  | EndpointRefusal
  | ClientRefusal;

/** What became of an entry of the journal: `open` is left to a later look, or to a person. */
export interface Reconciled {
  readonly entry: JournalEntry;
  readonly outcome: 'delivered' | 'failed' | 'dropped' | 'open';
}

export interface Endpoint {
  /** Delivers one cleared answer, or sends nothing and says why. */
  readonly deliver: (request: DeliverRequest) => Promise<DeliverOutcome>;
  /** Settles what a crash or a lost answer left open. To be called at the start, and now and then. */
  readonly reconcile: () => Promise<readonly Reconciled[]>;
}

/**
 * A delivery endpoint: verifies a clearance, releases it at the gateway, sends what it is given, and
 * acknowledges.
 *
 * A refused release sends nothing. A release whose answer is lost hands out nothing, and nothing is
 * sent: the delivery counts as failed. Once the platform was called and gave no answer, only it can
 * tell (`find`); nothing is sent twice.
 */
export function createEndpoint(options: EndpointOptions): Endpoint {
  const { client, organization, issuer, keys, journal, clockToleranceSeconds = 5 } = options;
  /** Deliveries under way in this process. */
  const active = new Set<string>();

  const acknowledge = (deliveryId: string, outcome: 'delivered' | 'failed', message?: string) =>
    client.acknowledge({
      organization,
      deliveryId,
      outcome,
      ...(message !== undefined && { message }),
    });

  /** Tells the gateway, and takes the entry out once it knows. */
  async function settle(deliveryId: string, outcome: 'delivered' | 'failed', message?: string) {
    const told = await acknowledge(deliveryId, outcome, message);
    if (told.ok) await journal.remove(deliveryId);
    return told.ok;
  }

  async function deliver({ clearance: token, payload }: DeliverRequest): Promise<DeliverOutcome> {
    const clearance = await checkClearance(token, keys, issuer, clockToleranceSeconds);
    if (!clearance.ok) return clearance;
    const { delivery: deliveryId, destination } = clearance;
    const serves = options.serves?.(destination) ?? true;
    if (clearance.organization !== organization || !serves) return refuseHere('not_served');
    if (payload !== undefined && sha256Hex(payload) !== clearance.payloadSha256) {
      return refuseHere('payload_mismatch');
    }
    if (active.has(deliveryId)) return refuseHere('already_released');
    active.add(deliveryId);
    try {
      return await deliverOnce(clearance, token);
    } finally {
      active.delete(deliveryId);
    }
  }

  async function deliverOnce(clearance: Clearance, token: string): Promise<DeliverOutcome> {
    const { delivery: deliveryId, destination } = clearance;
    const earlier = await journal.read(deliveryId);
    if (earlier !== undefined && earlier.state !== 'releasing')
      return refuseHere('already_released');
    let shownReaders: readonly string[] | undefined;
    try {
      shownReaders = await options.shownReaders?.(destination);
    } catch {
      return refuseHere('readers_unknown');
    }
    await journal.write({ deliveryId, destination, state: 'releasing' });
    const released = await client.release({
      organization,
      deliveryId,
      clearance: token,
      ...(shownReaders !== undefined && { shownReaders }),
    });
    if (!released.ok) return afterRefusal(deliveryId, released, earlier !== undefined);
    if (!isWhatWasJudged(released.value, clearance)) {
      await settle(deliveryId, 'failed');
      return refuseHere('payload_mismatch');
    }

    await journal.write({ deliveryId, destination, state: 'sending' });
    const { payload, contentType } = released.value;
    let sent: SendResult;
    try {
      sent = await options.send({ deliveryId, destination, payload, contentType });
    } catch {
      return refuseHere('send_unknown');
    }
    if (sent.outcome === 'failed') {
      // As good as never sent, also if the gateway cannot be told now.
      await journal.write({ deliveryId, destination, state: 'releasing' });
      await settle(deliveryId, 'failed');
      return refuseHere('send_failed');
    }
    const { message } = sent;
    await journal.write({ deliveryId, destination, state: 'sent', message });
    const acknowledged = await settle(deliveryId, 'delivered', message);
    return { ok: true, deliveryId, destination, message, acknowledged };
  }

  /** Nothing was sent. What is left is whether the gateway takes it for released. */
  async function afterRefusal(
    deliveryId: string,
    refusal: ClientRefusal,
    wasAsked: boolean,
  ): Promise<ClientRefusal> {
    // An earlier request of this process took the release, and its answer was lost; unless the gateway
    // has another end of it on record.
    if (wasAsked && refusal.code === 'already_released') {
      const isFailed = await settle(deliveryId, 'failed');
      return isFailed ? { ...refusal, recovery: 'rebuild' } : refusal;
    }
    const isCertain = refusal.from === 'gateway' && refusal.status < 500;
    if (isCertain) await journal.remove(deliveryId);
    return refusal;
  }

  async function askPlatform(entry: JournalEntry) {
    try {
      return await options.find?.(entry);
    } catch {
      return undefined;
    }
  }

  /** Takes an entry out whose end the gateway has on record already: a person has told it. */
  async function dropEnded(deliveryId: string): Promise<'dropped' | 'open'> {
    const shown = await client.showDelivery({ organization, deliveryId });
    if (!shown.ok || !['delivered', 'failed'].includes(shown.value.status)) return 'open';
    await journal.remove(deliveryId);
    return 'dropped';
  }

  async function reconcileEntry(entry: JournalEntry): Promise<Reconciled['outcome']> {
    const { deliveryId } = entry;
    const settled = async (outcome: 'delivered' | 'failed', message?: string) =>
      (await settle(deliveryId, outcome, message)) ? outcome : dropEnded(deliveryId);
    switch (entry.state) {
      case 'sent':
        return settled('delivered', entry.message);
      case 'sending': {
        const found = await askPlatform(entry);
        if (found === undefined) return dropEnded(deliveryId);
        return found === 'absent' ? settled('failed') : settled('delivered', found.message);
      }
      case 'releasing': {
        const shown = await client.showDelivery({ organization, deliveryId });
        // A release that is still on its way may come: it waits until the delivery is too old for it.
        if (!shown.ok || shown.value.status === 'cleared') return 'open';
        const { status } = shown.value;
        if (status === 'released' || status === 'reconciling') return settled('failed');
        await journal.remove(deliveryId);
        return 'dropped';
      }
    }
  }

  return {
    deliver,
    async reconcile() {
      const reconciled: Reconciled[] = [];
      for (const { deliveryId } of await journal.all()) {
        if (active.has(deliveryId)) continue;
        active.add(deliveryId);
        try {
          // As it is now: it may have been asked for again, and sent, since the list was made.
          const entry = await journal.read(deliveryId);
          if (entry !== undefined) reconciled.push({ entry, outcome: await reconcileEntry(entry) });
        } finally {
          active.delete(deliveryId);
        }
      }
      return reconciled;
    },
  };
}

/** Whether the bytes that were handed out are those of the clearance, for its place. */
function isWhatWasJudged(released: Released, clearance: Clearance): boolean {
  return (
    released.destination === clearance.destination &&
    sha256Hex(released.payload) === clearance.payloadSha256
  );
}
