import { createHash, randomBytes } from 'node:crypto';
import { judgeGrantClaims, type GrantClaims } from '../../policy/grant.ts';
import type { Refusal } from '../../policy/refusal.ts';
import type { GrantPacket } from '../../sql/grants.ts';
import type { Keys } from '../keys.ts';
import { signToken, verifyToken, type TokenType } from './signed-token.ts';

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

/** Verifies a grant token. What it says identifies a grant; whether that one is live is not checked. */
export async function verifyGrant(
  keys: Keys,
  issuer: string,
  token: string,
  limits: { clockToleranceSeconds: number; maxLifetimeSeconds: number },
): Promise<GrantClaims | Refusal> {
  const verified = await verifyToken(keys, issuer, GRANT, token, limits.clockToleranceSeconds);
  return verified.ok ? judgeGrantClaims(verified.claims, limits.maxLifetimeSeconds) : verified;
}
