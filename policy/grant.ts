import { refuse, type Refusal } from './refusal.ts';

/**
 * The claims of a grant token whose signature, type, issuer, audience and times were verified. They
 * identify a grant and permit nothing (INVARIANT 7): the database decides at every call.
 */
export interface GrantClaims {
  readonly ok: true;
  /** The token's id; the database knows its SHA-256. */
  readonly jti: string;
  readonly requester: string;
  readonly persona: string;
  readonly organization: string;
  readonly turn: string;
  readonly lease: string;
  readonly fence: bigint;
  readonly destination: string;
  readonly audienceHash: string;
  readonly issuedAt: number;
  readonly expiresAt: number;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Admits the claims of a verified grant token, or refuses them as malformed. A lifetime above the
 * maximum is refused even when it is signed, which also catches times in milliseconds.
 */
export function judgeGrantClaims(
  claims: Readonly<Record<string, unknown>>,
  maxLifetimeSeconds: number,
): GrantClaims | Refusal {
  const { jti, sub, act, org, turn, lease, fence, dest, ah, iat, exp } = claims;
  const persona = typeof act === 'object' && act !== null && 'sub' in act ? act.sub : undefined;
  const sound =
    isText(jti) &&
    /^[A-Za-z0-9_-]{43}$/.test(jti) &&
    isText(sub) &&
    isText(persona) &&
    isText(org) &&
    isText(dest) &&
    isText(turn) &&
    UUID.test(turn) &&
    isText(lease) &&
    UUID.test(lease) &&
    isText(fence) &&
    /^[1-9][0-9]{0,18}$/.test(fence) &&
    isText(ah) &&
    /^[0-9a-f]{64}$/.test(ah) &&
    isSeconds(iat) &&
    isSeconds(exp) &&
    exp > iat &&
    exp - iat <= maxLifetimeSeconds;
  if (!sound) return refuse('malformed_token');
  return {
    ok: true,
    jti,
    requester: sub,
    persona,
    organization: org,
    turn,
    lease,
    fence: BigInt(fence),
    destination: dest,
    audienceHash: ah,
    issuedAt: iat,
    expiresAt: exp,
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0;
}

function isSeconds(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0;
}
