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

/** The claims that a grant has: each of them and no other. */
const CLAIMS = 'act,ah,aud,dest,exp,fence,iat,iss,jti,lease,nbf,org,sub,turn';

/**
 * Admits the claims of a verified grant token, or refuses them as malformed. A lifetime above the
 * maximum is refused even when it is signed, which also catches times in milliseconds. A claim that
 * no grant has is refused too: one that would bind the token to something must not be passed over.
 */
export function judgeGrantClaims(
  claims: Readonly<Record<string, unknown>>,
  maxLifetimeSeconds: number,
): GrantClaims | Refusal {
  const { jti, aud, sub, act, org, turn, lease, fence, dest, ah, iat, nbf, exp } = claims;
  const persona = soleMember(act, 'sub');
  const sound =
    Object.keys(claims).sort().join() === CLAIMS &&
    isText(aud) &&
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
    isSeconds(nbf) &&
    isSeconds(exp) &&
    // The beginning was held against the clock; so nothing is issued in the future either.
    iat <= nbf &&
    nbf < exp &&
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

/** The member of an object that has this one and no other. */
function soleMember(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  const [entry, ...more] = Object.entries(value);
  return entry?.[0] === name && more.length === 0 ? entry[1] : undefined;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0;
}

function isSeconds(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0;
}
