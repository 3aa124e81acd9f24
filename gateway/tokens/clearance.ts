import { z } from 'zod';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import type { Keys } from '../keys.ts';
import { signToken, verifyToken, type TokenType } from './signed-token.ts';

const CLEARANCE: TokenType = { typ: 'earshot-clearance+jwt', audience: 'earshot/deliveries' };

/** A verdict about these bytes, this place, these readers, once (INVARIANT 14). */
export interface Clearance {
  readonly delivery: string;
  readonly organization: string;
  readonly destination: string;
  readonly audienceHash: string;
  readonly payloadSha256: string;
  /** Seconds since the epoch. */
  readonly expiresAt: number;
}

export function signClearance(keys: Keys, issuer: string, clearance: Clearance): Promise<string> {
  return signToken(keys, issuer, CLEARANCE, {
    sub: clearance.delivery,
    org: clearance.organization,
    dest: clearance.destination,
    ah: clearance.audienceHash,
    psh: clearance.payloadSha256,
    iat: Math.floor(Date.now() / 1000),
    exp: clearance.expiresAt,
  });
}

const hash = z.string().regex(/^[0-9a-f]{64}$/);
const Claims = z.object({
  sub: z.string(),
  org: z.string(),
  dest: z.string(),
  ah: hash,
  psh: hash,
  exp: z.number(),
});

/** Verifies a clearance token. Whether the delivery may still go is the release's question. */
export async function verifyClearance(
  keys: Keys,
  issuer: string,
  token: string,
  clockToleranceSeconds: number,
): Promise<({ ok: true } & Clearance) | Refusal> {
  const verified = await verifyToken(keys, issuer, CLEARANCE, token, clockToleranceSeconds);
  if (!verified.ok) {
    return verified.code === 'grant_expired' ? refuse('delivery_expired') : verified;
  }
  const claims = Claims.safeParse(verified.claims);
  if (!claims.success) return refuse('malformed_token');
  const { sub, org, dest, ah, psh, exp } = claims.data;
  return {
    ok: true,
    delivery: sub,
    organization: org,
    destination: dest,
    audienceHash: ah,
    payloadSha256: psh,
    expiresAt: exp,
  };
}
