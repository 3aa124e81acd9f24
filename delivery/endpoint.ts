import { sha256Hex } from '../policy/canonical.ts';
import { refuseHere } from './clearance-check.ts';
import {
  createCarrier,
  type Carrier,
  type CarrierOptions,
  type DeliverOutcome,
} from './carrier.ts';

/** What an endpoint needs of the gateway, of the platform and of itself. */
export type EndpointOptions = CarrierOptions;

export interface DeliverRequest {
  readonly clearance: string;
  /** The bytes that the caller believes to be cleared; others are refused before anything is asked. */
  readonly payload?: string | Uint8Array;
}

export interface Endpoint {
  /** Delivers one cleared answer, or sends nothing and says why. */
  readonly deliver: (request: DeliverRequest) => Promise<DeliverOutcome>;
  /** Settles what a crash or a lost answer left open. To be called at the start, and now and then. */
  readonly reconcile: Carrier['reconcile'];
}

/**
 * A delivery endpoint: verifies a clearance, releases it at the gateway, sends what it is given, and
 * acknowledges, as {@link createCarrier} says. What is queued is for a worker: released without a claim
 * it is `fenced`.
 */
export function createEndpoint(options: EndpointOptions): Endpoint {
  const { check, carry, reconcile } = createCarrier(options);
  return {
    reconcile,
    async deliver({ clearance: token, payload }) {
      const clearance = await check(token);
      if (!clearance.ok) return clearance;
      if (payload !== undefined && sha256Hex(payload) !== clearance.payloadSha256) {
        return refuseHere('payload_mismatch');
      }
      return carry(clearance, token);
    },
  };
}
