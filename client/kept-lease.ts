import type { Client, TakenLease, TurnName } from './client.ts';
import { refuseLocally, type ClientRefusal } from './client-refusal.ts';

/** A lease that is being kept. */
export interface KeptLease {
  /** Aborted when the lease is lost; its reason is the refusal that said so. */
  readonly signal: AbortSignal;
  /** Why the lease is lost, if it is. */
  readonly lost: ClientRefusal | undefined;
  /** Ends the heartbeats, and resolves when none is under way. The signal stays as it is. */
  stop(): Promise<void>;
}

/**
 * Keeps a lease that was just taken: a heartbeat at every third of it, each with a third of it to be
 * answered.
 *
 * The lease is lost when the gateway says so, in whatever words, and when the time it was last given
 * for has passed without an answer. That time is counted on this side from before each request, so the
 * lease is given up before it ends at the gateway and no clocks are compared.
 */
export function keepLease(
  client: Client,
  { organization, turnId }: TurnName,
  lease: TakenLease,
  takenAt: number = client.clock.now(),
): KeptLease {
  const { clock } = client;
  const work = new AbortController();
  const stopping = new AbortController();
  const third = (lease.seconds * 1000) / 3;
  let lost: ClientRefusal | undefined;

  async function beat(): Promise<void> {
    let heldFrom = takenAt;
    let next = takenAt + third;
    for (;;) {
      await clock.wait(Math.max(0, next - clock.now()), stopping.signal);
      if (stopping.signal.aborted) return;
      const askedAt = clock.now();
      if (askedAt >= heldFrom + 3 * third) {
        lose(refuseLocally('lease_unkept', 'stop'));
        return;
      }
      const { signal } = stopping;
      const options = { signal, timeoutMs: Math.ceil(third), retry: false };
      const extended = await client.heartbeat({ organization, turnId, lease }, options);
      if (extended.ok) {
        heldFrom = askedAt;
        next = askedAt + third;
      } else if (signal.aborted) {
        return;
      } else if (extended.recovery !== 'retry') {
        lose(extended);
        return;
      } else {
        next = Math.min(Math.max(next + third, clock.now()), heldFrom + 3 * third);
      }
    }
  }

  function lose(refusal: ClientRefusal): void {
    lost = refusal;
    work.abort(refusal);
  }

  const beating = beat();
  return {
    signal: work.signal,
    get lost() {
      return lost;
    },
    async stop() {
      stopping.abort();
      await beating;
    },
  };
}
