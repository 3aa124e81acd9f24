import { createHash, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { judgeGrantClaims, type GrantClaims } from '../../policy/grant.ts';
import type { Refusal } from '../../policy/refusal.ts';
import type { GrantPacket } from '../../sql/grants.ts';
import type { Keys } from '../keys.ts';
import { signToken, verifyToken, type TokenType, type VerifiedToken } from './signed-token.ts';

/** The `aud` of every grant. */
export const GRANT_AUDIENCE = 'earshot';
const GRANT: TokenType = { typ: 'earshot-grant+jwt', audience: GRANT_AUDIENCE };

/** A new token id: 256 random bits. Only its digest is stored. */
export function newTokenId(): { jti: string; digest: Uint8Array } {
  const jti = randomBytes(32).toString('base64url');
  return { jti, digest: digestOf(jti) };
}

/** SHA-256 of a token id, by which the database finds a grant. */
export function digestOf(jti: string): Uint8Array {
  return createHash('sha256').update(jti).digest();
}

/** Signs the token of a grant that was recorded. */
export function signGrant(
  keys: Keys,
  issuer: string,
  packet: GrantPacket,
  jti: string,
): Promise<string> {
  return signToken(keys, issuer, GRANT, {
    jti,
    sub: packet.requester,
    act: { sub: packet.persona },
    org: packet.organization,
    turn: packet.turnId,
    lease: packet.leaseId,
    fence: packet.leaseFence.toString(),
    dest: packet.destination,
    ah: packet.audienceHash,
    iat: packet.issuedAt,
    nbf: packet.issuedAt,
    exp: packet.expiresAt,
  });
}

/**
 * Tokens whose signature has verified, by their SHA-256, as long as they are used. A signature does not change,
 * so it is not asked again at every call; the key it was made with, and the times, are.
 */
const verified = new LRUCache<string, VerifiedToken>({ max: 5000 });

/** Verifies a grant token. What it says identifies a grant; whether that one is live is not checked. */
export async function verifyGrant(
  keys: Keys,
  issuer: string,
  token: string,
  limits: { clockToleranceSeconds: number; maxLifetimeSeconds: number },
): Promise<GrantClaims | Refusal> {
  const digest = createHash('sha256').update(token).digest('base64url');
  const known = verified.get(digest);
  const again = known !== undefined && (await stillStands(keys, issuer, known, limits));
  const result = again
    ? known
    : await verifyToken(keys, issuer, GRANT, token, limits.clockToleranceSeconds);
  if (!result.ok) return result;
  if (!again) verified.set(digest, result);
  return judgeGrantClaims(result.claims, limits.maxLifetimeSeconds);
}

/** Whether a token that verified before still does: same key, same issuer, and now within its times. */
async function stillStands(
  keys: Keys,
  issuer: string,
  { kid, claims }: VerifiedToken,
  { clockToleranceSeconds }: { clockToleranceSeconds: number },
): Promise<boolean> {
  const now = Math.floor(Date.now() / 1000);
  const { exp = 0, nbf = Infinity } = claims;
  return (
    claims.iss === issuer &&
    exp > now - clockToleranceSeconds &&
    nbf <= now + clockToleranceSeconds &&
    (await keys.find(kid)) !== undefined
  );
}
