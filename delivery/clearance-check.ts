import {
  createLocalJWKSet,
  createRemoteJWKSet,
  errors,
  jwtVerify,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
} from 'jose';
import { CLEARANCE_TOKEN, judgeClearanceClaims, type Clearance } from '../policy/clearance.ts';
import { isRefusalCode, REFUSALS, type Recovery, type RefusalCode } from '../policy/refusal.ts';

/** The gateway's public keys. */
export type ClearanceKeys = JWTVerifyGetKey;

/** What an endpoint itself refuses, or could not finish. */
export interface EndpointRefusal {
  readonly ok: false;
  readonly from: 'endpoint';
  readonly code: RefusalCode | EndpointCode;
  readonly recovery: Recovery;
}

export type EndpointCode =
  /** The gateway's public keys could not be had. */
  | 'keys_unavailable'
  /** The platform did not say who reads there now: nothing was released. */
  | 'readers_unknown'
  /** A clearance of another organization, or toward a place that this endpoint does not serve. */
  | 'not_served'
  /** The delivery edits a message, and this endpoint edits none: nothing was sent. */
  | 'edits_unsupported'
  /** The worker is leaving: nothing was released, and another one claims it. */
  | 'leaving'
  /** The platform took no message: nothing was sent. */
  | 'send_failed'
  /** Sending ended without an answer: it may have been sent. */
  | 'send_unknown';

const RECOVERIES: Readonly<Record<EndpointCode, Recovery>> = {
  keys_unavailable: 'retry',
  readers_unknown: 'retry',
  not_served: 'correct',
  edits_unsupported: 'correct',
  leaving: 'retry',
  send_failed: 'rebuild',
  send_unknown: 'reconcile',
};

export function refuseHere(code: EndpointRefusal['code']): EndpointRefusal {
  const recovery = isRefusalCode(code) ? REFUSALS[code].recovery : RECOVERIES[code];
  return { ok: false, from: 'endpoint', code, recovery };
}

/**
 * The keys at a gateway, fetched when they are needed, kept for a minute, and again for an unknown key,
 * but once in five seconds: a key that signs at once is known by then, and one that is retired is gone.
 */
export function keysAt(gateway: string | URL): ClearanceKeys {
  const server = String(gateway).replace(/\/+$/, '');
  return createRemoteJWKSet(new URL(`${server}/.well-known/jwks.json`), {
    cacheMaxAge: 60_000,
    cooldownDuration: 5_000,
  });
}

/** Keys that are given: a JSON Web Key Set (RFC 7517), as the gateway serves it. */
export function keysOf(set: JSONWebKeySet): ClearanceKeys {
  return createLocalJWKSet(set);
}

/** Longer than any token of the gateway's; refused before it is decoded. */
const MAX_TOKEN_CHARACTERS = 4096;

/**
 * Verifies a clearance without asking the gateway: signature, algorithm, type, issuer, audience,
 * expiry, and the shape of its claims. Whether the delivery may still go is the release's question.
 */
export async function checkClearance(
  token: string,
  keys: ClearanceKeys,
  issuer: string,
  clockToleranceSeconds: number,
): Promise<({ readonly ok: true } & Clearance) | EndpointRefusal> {
  if (token.length > MAX_TOKEN_CHARACTERS) return refuseHere('malformed_token');
  let claims: JWTPayload;
  try {
    const verified = await jwtVerify(token, keys, {
      algorithms: ['EdDSA'],
      typ: CLEARANCE_TOKEN.typ,
      audience: CLEARANCE_TOKEN.audience,
      issuer,
      requiredClaims: ['exp', 'iat', 'iss', 'aud', 'sub'],
      clockTolerance: clockToleranceSeconds,
    });
    claims = verified.payload;
  } catch (error) {
    if (error instanceof errors.JWTExpired) return refuseHere('delivery_expired');
    return refuseHere(isOfToken(error) ? 'malformed_token' : 'keys_unavailable');
  }
  const clearance = judgeClearanceClaims(claims);
  return clearance.ok ? clearance : refuseHere(clearance.code);
}

/** Whether it was the token that could not be verified, and not the keys that could not be had. */
function isOfToken(error: unknown): boolean {
  return (
    error instanceof errors.JOSEError &&
    !(error instanceof errors.JWKSTimeout) &&
    !(error instanceof errors.JWKSInvalid) &&
    // What the fetch of a key set throws for any status but 200 and for what is not JSON.
    error.code !== 'ERR_JOSE_GENERIC'
  );
}
