import { errors, jwtVerify, SignJWT, type JWTPayload } from 'jose';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import type { Keys } from '../keys.ts';

/** Longer than any token of ours; refused before it is decoded. */
const MAX_TOKEN_CHARACTERS = 4096;

/** Which token of ours is meant. Each type has an audience of its own, so none passes for another. */
export interface TokenType {
  readonly typ: string;
  readonly audience: string;
}

/** Signs a compact JWS with the newest key (Ed25519, RFC 8037). */
export function signToken(
  keys: Keys,
  issuer: string,
  type: TokenType,
  claims: JWTPayload,
): Promise<string> {
  return new SignJWT({ ...claims, iss: issuer, aud: type.audience })
    .setProtectedHeader({ alg: 'EdDSA', typ: type.typ, kid: keys.signing.kid })
    .sign(keys.signing.key);
}

/**
 * Verifies a token of ours. Algorithm, type, issuer, audience and the required claims are pinned
 * here; of the header only `kid` is read, and only to choose among our own keys.
 */
export async function verifyToken(
  keys: Keys,
  issuer: string,
  type: TokenType,
  token: string,
  clockToleranceSeconds: number,
): Promise<{ ok: true; claims: JWTPayload } | Refusal> {
  if (token.length > MAX_TOKEN_CHARACTERS) return refuse('malformed_token');
  try {
    const { payload } = await jwtVerify(
      token,
      ({ kid }) => {
        const key = kid === undefined ? undefined : keys.verifying(kid);
        if (key === undefined) throw new errors.JOSEError('unknown key');
        return key;
      },
      {
        algorithms: ['EdDSA'],
        typ: type.typ,
        issuer,
        audience: type.audience,
        requiredClaims: ['exp', 'iat', 'iss', 'aud', 'sub'],
        clockTolerance: clockToleranceSeconds,
      },
    );
    return { ok: true, claims: payload };
  } catch (error) {
    if (error instanceof errors.JWTExpired) return refuse('grant_expired');
    if (error instanceof errors.JOSEError || error instanceof TypeError)
      return refuse('malformed_token');
    throw error;
  }
}
