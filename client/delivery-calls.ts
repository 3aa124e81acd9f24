import type { z } from 'zod';
import { sha256Hex } from '../policy/canonical.ts';
import {
  ClaimedShape,
  DeliveryPageShape,
  DeliveryShape,
  DoneShape,
  ProposedShape,
  ReleasedShape,
  type ClaimedDelivery,
  type Delivery,
  type DeliveryPage,
  type DeliveryStatus,
  type Proposed,
  type Released,
} from './answer-shape.ts';
import type { Call, GrantedCall, Send } from './call.ts';
import { refuseLocally } from './client-refusal.ts';

export interface Proposal {
  readonly destination: string;
  readonly payload: string;
  readonly contentType?: string;
  /** Whether workers claim it, instead of whoever has its clearance. */
  readonly queue?: boolean;
  /** Not to be sent before (RFC 3339); implies the queue. */
  readonly sendAt?: string;
  /** Whether a person has to approve it; implies the queue. It asks for an approval, and lifts none. */
  readonly approval?: boolean;
  /** A delivered delivery of the same destination, whose message this one edits. */
  readonly edits?: string;
  /** The idempotency key, within the turn; a random one unless given. */
  readonly key?: string;
}

export interface DeliveryName {
  readonly organization: string;
  readonly deliveryId: string;
}

export interface ClaimArguments {
  readonly organization: string;
  /** The name of this worker. */
  readonly worker: string;
  /** Toward these alone; toward every place unless given. */
  readonly destinations?: readonly string[];
  /** 1 to 100; 10 unless given. */
  readonly limit?: number;
  /** 1 to 600; 30 unless given. */
  readonly leaseSeconds?: number;
}

export interface ReleaseArguments extends DeliveryName {
  readonly clearance: string;
  readonly shownReaders?: readonly string[];
  /** Of the claim, where the delivery is queued. */
  readonly fence?: string;
}

export interface AcknowledgeArguments extends DeliveryName {
  readonly outcome: 'delivered' | 'failed';
  readonly message?: string;
  /** Of the claim that was released, where the delivery is queued. */
  readonly fence?: string;
  /** Why it failed: 1 to 500 characters, kept at the gateway and shown to operators. */
  readonly reason?: string;
}

export interface ListDeliveriesArguments {
  readonly organization: string;
  readonly status?: DeliveryStatus;
  readonly destination?: string;
  /** 1 to 100; 20 unless given. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** The calls about deliveries, each for a client with the scope that its route asks for. */
export interface DeliveryCalls {
  /** A held delivery is a value too; `recoveryOf` says what to do about it. */
  propose: GrantedCall<Proposal, Proposed>;
  showDelivery: Call<DeliveryName, Delivery>;
  /** The newest first. */
  listDeliveries: Call<ListDeliveriesArguments, DeliveryPage>;
  claimDeliveries: Call<ClaimArguments, readonly ClaimedDelivery[]>;
  releaseDelivery: Call<ReleaseArguments, Released>;
  acknowledgeDelivery: Call<AcknowledgeArguments, { status: 'ok' }>;
  /** Approves these bytes, named by their SHA-256. They may be held all the same, which is a value. */
  approveDelivery: Call<DeliveryName & { readonly payloadSha256: string }, Delivery>;
  discardDelivery: Call<DeliveryName, Delivery>;
}

/** How the calls of a client are sent: by its own token, and by a grant's. */
export function deliveryCalls(send: Send, sendUnder: (token: string) => Send): DeliveryCalls {
  const pathOf = (deliveryId: string) => `/v1/deliveries/${encodeURIComponent(deliveryId)}`;
  const step = <Value>(
    what: string,
    { deliveryId, ...body }: DeliveryName,
    shape: z.ZodType<Value>,
    mayRepeat: boolean,
  ) => ({
    method: 'POST' as const,
    path: `${pathOf(deliveryId)}/${what}`,
    body,
    shape,
    mayRepeat,
  });

  return {
    propose: async (token, { key = crypto.randomUUID(), ...body }, options) => {
      const proposed = await sendUnder(token)(
        {
          method: 'POST',
          path: '/v1/deliveries',
          body,
          idempotencyKey: key,
          shape: ProposedShape,
          mayRepeat: true,
        },
        options,
      );
      if (!proposed.ok) return proposed;
      return isAnswerTo(proposed.value, body)
        ? proposed
        : refuseLocally('malformed_answer', 'stop', { status: 200, detail: 'another proposal' });
    },
    showDelivery: ({ organization, deliveryId }, options) => {
      const path = `${pathOf(deliveryId)}?${queryOf({ organization })}`;
      return send({ method: 'GET', path, shape: DeliveryShape, mayRepeat: true }, options);
    },
    listDeliveries: (query, options) => {
      const path = `/v1/deliveries?${queryOf({ ...query })}`;
      return send({ method: 'GET', path, shape: DeliveryPageShape, mayRepeat: true }, options);
    },
    claimDeliveries: async (body, options) => {
      const path = '/v1/deliveries/claim';
      const claimed = await send(
        { method: 'POST', path, body, shape: ClaimedShape, mayRepeat: false },
        options,
      );
      return claimed.ok ? { ok: true, value: claimed.value.deliveries } : claimed;
    },
    releaseDelivery: (args, options) => send(step('release', args, ReleasedShape, false), options),
    acknowledgeDelivery: (args, options) =>
      send(step('acknowledge', args, DoneShape, true), options),
    approveDelivery: (args, options) => send(step('approve', args, DeliveryShape, true), options),
    discardDelivery: (args, options) => send(step('discard', args, DeliveryShape, true), options),
  };
}

/** Whether a verdict speaks of what was proposed, and clears without a clearance only what is queued. */
function isAnswerTo(proposed: Proposed, proposal: Omit<Proposal, 'key'>): boolean {
  const { queue = false, sendAt, approval = false } = proposal;
  const isQueued = queue || sendAt !== undefined || approval || proposed.approval !== undefined;
  return (
    proposed.destination === proposal.destination &&
    proposed.payloadSha256 === sha256Hex(proposal.payload) &&
    (proposed.status !== 'cleared' || proposed.clearance !== undefined || isQueued)
  );
}

function queryOf(parts: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(parts).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  );
  return new URLSearchParams(given).toString();
}
