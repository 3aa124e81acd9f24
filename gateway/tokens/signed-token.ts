import { errors, jwtVerify, SignJWT, type JWTPayload } from 'jose';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import type { Keys } from '../keys.ts';
import { isOurSpelling } from './our-spelling.ts';

/** Which token of ours is meant. Each type has an audience of its own, so none passes for another. */
export interface TokenType {
  readonly typ: string;
  readonly audience: string;
}

/** A token that verified, with the id of the key that signed it: the thumbprint of its public part. */
export interface VerifiedToken {
  readonly ok: true;
  readonly claims: JWTPayload;
  readonly kid: string;
}

/** Signs a compact JWS with the key that signs now (Ed25519, RFC 8037). */
export async function signToken(
  keys: Keys,
  issuer: string,
  type: TokenType,
  claims: JWTPayload,
): Promise<string> {
  const { signing } = await keys.current();
  return new SignJWT({ ...claims, iss: issuer, aud: type.audience })
    .setProtectedHeader({ alg: 'EdDSA', typ: type.typ, kid: signing.kid })
    .sign(signing.privateKey);
}

/**
 * Verifies a token of ours, in the one spelling it was signed in. Algorithm, type, issuer, audience and the required claims are pinned
 * here; of the header only `kid` is read, and only to choose among our own keys.
 */
export async function verifyToken(
  keys: Keys,
  issuer: string,
  type: TokenType,
  token: string,
  clockToleranceSeconds: number,
): Promise<VerifiedToken | Refusal> {
  if (!isOurSpelling(token, type.typ)) return refuse('malformed_token');
  try {
    const { payload, protectedHeader } = await jwtVerify(
      token,
      async ({ kid }) => {
        const key = kid === undefined ? undefined : await keys.find(kid);
        if (key === undefined) throw new errors.JOSEError('unknown key');
        return key.publicKey;
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
    return { ok: true, claims: payload, kid: protectedHeader.kid ?? '' };
  } catch (error) {
    if (error instanceof errors.JWTExpired) return refuse('grant_expired');
    if (error instanceof errors.JOSEError || error instanceof TypeError)
      return refuse('malformed_token');
    throw error;
  }
}
