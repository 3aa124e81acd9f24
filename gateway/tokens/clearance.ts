import { CLEARANCE_TOKEN, judgeClearanceClaims, type Clearance } from '../../policy/clearance.ts';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import type { Keys } from '../keys.ts';
import { signToken, verifyToken } from './signed-token.ts';

export function signClearance(keys: Keys, issuer: string, clearance: Clearance): Promise<string> {
  return signToken(keys, issuer, CLEARANCE_TOKEN, {
    sub: clearance.delivery,
    org: clearance.organization,
    dest: clearance.destination,
    ah: clearance.audienceHash,
    psh: clearance.payloadSha256,
    iat: Math.floor(Date.now() / 1000),
    exp: clearance.expiresAt,
  });
}

/** Verifies a clearance token. Whether the delivery may still go is the release's question. */
export async function verifyClearance(
  keys: Keys,
  issuer: string,
  token: string,
  clockToleranceSeconds: number,
): Promise<({ ok: true } & Clearance) | Refusal> {
  const verified = await verifyToken(keys, issuer, CLEARANCE_TOKEN, token, clockToleranceSeconds);
  if (verified.ok) return judgeClearanceClaims(verified.claims);
  return verified.code === 'grant_expired' ? refuse('delivery_expired') : verified;
}
