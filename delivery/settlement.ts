import type { Delivery } from '../client/answer-shape.ts';
import type { CarrierOptions } from './carrier.ts';
import type { JournalEntry } from './journal.ts';

/** What became of an entry of the journal: `open` is left to a later look, or to a person. */
export interface Reconciled {
  readonly entry: JournalEntry;
  readonly outcome: 'delivered' | 'failed' | 'dropped' | 'open';
}

type Reported = Omit<JournalEntry, 'state' | 'message'>;

interface Report {
  readonly message?: string | undefined;
  readonly reason?: string;
}

/** Tells the gateway what became of deliveries, and takes out of the journal what it knows. */
export interface Settlement {
  /** Whether the gateway knows now. */
  readonly settle: (
    entry: Reported,
    outcome: 'delivered' | 'failed',
    report: Report,
  ) => Promise<boolean>;
  readonly reconcile: () => Promise<readonly Reconciled[]>;
}

/** Nothing comes after these: whatever this endpoint knows of the delivery changes nothing. */
const ENDS: readonly Delivery['status'][] = ['delivered', 'failed', 'dead', 'held', 'discarded'];

/** The longest reason that the gateway takes. */
const MAX_REASON = 500;

/** `active`: deliveries under way, which are left alone. */
export function createSettlement(
  { client, organization, journal, find }: CarrierOptions,
  active: Set<string>,
): Settlement {
  async function tell(
    { deliveryId, fence }: Reported,
    outcome: 'delivered' | 'failed',
    { message, reason }: Report,
  ) {
    const why = outcome === 'failed' ? plainReason(reason) : undefined;
    const told = await client.acknowledgeDelivery({
      organization,
      deliveryId,
      outcome,
      ...(fence !== undefined && { fence }),
      ...(message !== undefined && { message }),
      ...(why !== undefined && { reason: why }),
    });
    if (told.ok) await journal.remove(deliveryId);
    return told;
  }

  async function askPlatform(entry: JournalEntry) {
    try {
      return await find?.(entry);
    } catch {
      return undefined;
    }
  }

  /** Takes an entry out whose end the gateway has on record already: a person has told it. */
  async function dropEnded(deliveryId: string): Promise<'dropped' | 'open'> {
    const shown = await client.showDelivery({ organization, deliveryId });
    if (!shown.ok || !ENDS.includes(shown.value.status)) return 'open';
    await journal.remove(deliveryId);
    return 'dropped';
  }

  async function sentAs(entry: JournalEntry, message: string | undefined) {
    const told = await tell(entry, 'delivered', { message });
    return told.ok ? 'delivered' : dropEnded(entry.deliveryId);
  }

  async function notSent(entry: JournalEntry, reason: string) {
    const told = await tell(entry, 'failed', { reason });
    if (told.ok) return 'failed';
    if (told.code !== 'fenced') return dropEnded(entry.deliveryId);
    // It was claimed anew, and nothing of this try went out.
    await journal.remove(entry.deliveryId);
    return 'dropped';
  }

  async function notReleased(entry: JournalEntry): Promise<Reconciled['outcome']> {
    const { deliveryId } = entry;
    const shown = await client.showDelivery({ organization, deliveryId });
    if (!shown.ok) return 'open';
    switch (shown.value.status) {
      // A release that is still on its way may come: it waits until the delivery is too old for it, or
      // somebody else's.
      case 'cleared':
      case 'claimed':
        return 'open';
      case 'released':
      case 'reconciling':
        return notSent(entry, 'not_sent');
      case 'waiting':
      case 'scheduled':
      case 'held':
      case 'delivered':
      case 'failed':
      case 'dead':
      case 'discarded':
        await journal.remove(deliveryId);
        return 'dropped';
    }
  }

  async function reconcileEntry(entry: JournalEntry): Promise<Reconciled['outcome']> {
    switch (entry.state) {
      case 'sent':
        return sentAs(entry, entry.message);
      case 'sending': {
        const found = await askPlatform(entry);
        if (found === undefined) return dropEnded(entry.deliveryId);
        return found === 'absent' ? notSent(entry, 'not_sent') : sentAs(entry, found.message);
      }
      case 'releasing':
        return notReleased(entry);
    }
  }

  return {
    settle: async (entry, outcome, report) => (await tell(entry, outcome, report)).ok,
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

/** A reason as the gateway takes it, or undefined where nothing is left of it. */
function plainReason(reason = ''): string | undefined {
  const plain = reason
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, MAX_REASON)
    .replace(/\p{Cs}/gu, '')
    .trim();
  return plain === '' ? undefined : plain;
}
