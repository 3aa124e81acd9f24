import type { Client } from '../client/client.ts';
import type { ClaimedDelivery } from '../client/answer-shape.ts';
import type { ClientRefusal } from '../client/client-refusal.ts';
import { systemClock } from '../client/clock.ts';
import {
  createCarrier,
  whyOver,
  type Carrier,
  type CarrierOptions,
  type Claim,
  type DeliverOutcome,
} from './carrier.ts';
import { refuseHere } from './clearance-check.ts';

export interface WorkerOptions extends Omit<CarrierOptions, 'client'> {
  /** A client whose token has the scope `deliver`. */
  readonly client: CarrierOptions['client'] & Pick<Client, 'claimDeliveries'>;
  /** The name of this worker, which the gateway keeps with each claim. */
  readonly worker: string;
  /** Claims what goes toward these places alone. One that is claimed and not served waits for its lease to run out. */
  readonly destinations?: readonly string[];
  /** How many are claimed at once, 1 to 100: 10 unless given. */
  readonly batch?: number;
  /** How long a claim lasts, 1 to 600: 30 unless given. What was not released by then is anybody's. */
  readonly leaseSeconds?: number;
  /** How long nothing is asked where there was nothing to do: from 250 up to 5000 milliseconds unless given. */
  readonly idle?: { readonly leastMs: number; readonly mostMs: number };
  /** Numbers from 0 to 1, for the jitter. */
  readonly random?: () => number;
  /** Told of each delivery as soon as it is through. */
  readonly report?: (carried: Carried) => void;
}

/** What became of a delivery that was claimed. What is not `ok` and was not released is another claim's. */
export interface Carried {
  readonly delivery: Omit<ClaimedDelivery, 'clearance'>;
  readonly outcome: DeliverOutcome;
}

/** What one claim came to. */
export type Round = { readonly ok: true; readonly carried: readonly Carried[] } | ClientRefusal;

export interface RoundOptions {
  /** Aborted, nothing more is claimed or released; what was released is sent and reported. */
  readonly signal?: AbortSignal;
}

export interface QueueWorker {
  /** Claims once, and carries what it is given. Throws what its journal throws, when all else is through. */
  readonly once: (options?: RoundOptions) => Promise<Round>;
  /**
   * Claims until the signal is aborted, and then ends as soon as nothing is under way. Or until the gateway
   * refuses a claim in a way that does not pass: that is the answer.
   */
  readonly run: (options: Required<RoundOptions>) => Promise<{ readonly ok: true } | ClientRefusal>;
  /** Settles what a crash or a lost answer left open; `run` does so at the start and whenever it is idle. */
  readonly reconcile: Carrier['reconcile'];
}

/**
 * A worker of the queue: claims, releases each delivery under the fence of its claim, sends it as
 * {@link createCarrier} says, and reports it.
 *
 * One after the other toward one place, places side by side. A claim is never prolonged: a delivery whose turn comes
 * after the lease is left to the next claim, which tries it again. The lease is counted on this side from before
 * the claim was asked for, so it ends here before it ends at the gateway, and no clocks are compared.
 *
 * Its journal is its own: neither another worker nor an endpoint has the same.
 */
export function createWorker(options: WorkerOptions): QueueWorker {
  const { client, organization, worker, destinations, clock = systemClock } = options;
  const { batch = 10, leaseSeconds = 30, report, random = Math.random } = options;
  const { leastMs, mostMs } = options.idle ?? { leastMs: 250, mostMs: 5_000 };
  const carrier = createCarrier(options);

  async function once({ signal }: RoundOptions = {}): Promise<Round> {
    const askedAt = clock.now();
    const claimed = await client.claimDeliveries(
      {
        organization,
        worker,
        limit: batch,
        leaseSeconds,
        ...(destinations !== undefined && { destinations }),
      },
      { signal },
    );
    if (!claimed.ok) return claimed;
    const until = askedAt + leaseSeconds * 1000;
    const carrying = lanesOf(claimed.value).map((lane) => carryLane(lane, until, signal));
    const through = await Promise.allSettled(carrying);
    for (const lane of through) if (lane.status === 'rejected') throw lane.reason;
    return {
      ok: true,
      carried: through.flatMap((lane) => (lane.status === 'fulfilled' ? lane.value : [])),
    };
  }

  /** What goes toward one place, in the order of the queue. */
  async function carryLane(
    lane: readonly ClaimedDelivery[],
    until: number,
    signal: AbortSignal | undefined,
  ): Promise<readonly Carried[]> {
    const carried: Carried[] = [];
    for (const { clearance, ...delivery } of lane) {
      const claim = { fence: delivery.fence, until, signal };
      const outcome = await carryClaimed(delivery, clearance, claim);
      carried.push({ delivery, outcome });
      report?.({ delivery, outcome });
    }
    return carried;
  }

  async function carryClaimed(
    { id, destination, payloadSha256 }: Carried['delivery'],
    token: string,
    claim: Claim,
  ): Promise<DeliverOutcome> {
    const over = whyOver(claim, clock);
    if (over !== undefined) return over;
    const clearance = await carrier.check(token);
    if (!clearance.ok) return clearance;
    const isOfClaim = clearance.delivery === id && clearance.destination === destination;
    if (!isOfClaim) return refuseHere('malformed_token');
    if (clearance.payloadSha256 !== payloadSha256) return refuseHere('payload_mismatch');
    return carrier.carry(clearance, token, claim);
  }

  async function run({ signal }: Required<RoundOptions>): ReturnType<QueueWorker['run']> {
    await carrier.reconcile();
    const isLeaving = () => signal.aborted;
    for (let idle = 0; !isLeaving();) {
      const round = await once({ signal });
      if (isLeaving()) break;
      if (!round.ok && round.recovery !== 'retry') return round;
      if (round.ok && round.carried.some(({ outcome }) => outcome.ok)) {
        idle = 0;
        continue;
      }
      // Nothing is there, or nothing of it goes: asked again ever later, and not by all workers at once.
      const bound = Math.min(mostMs, leastMs * 2 ** Math.min(idle++, 30));
      await clock.wait((bound * (1 + random())) / 2, signal);
      if (!isLeaving()) await carrier.reconcile();
    }
    return { ok: true };
  }

  return { once, run, reconcile: carrier.reconcile };
}

/** What goes toward one place each, in the order in which it was given. */
function lanesOf(claimed: readonly ClaimedDelivery[]): (readonly ClaimedDelivery[])[] {
  const lanes = new Map<string, ClaimedDelivery[]>();
  for (const delivery of claimed) {
    const lane = lanes.get(delivery.destination);
    if (lane === undefined) lanes.set(delivery.destination, [delivery]);
    else lane.push(delivery);
  }
  return [...lanes.values()];
}
