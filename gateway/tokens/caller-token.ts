import type { Refusal } from '../../policy/refusal.ts';
import type { Keys } from '../keys.ts';
import { signToken, verifyToken, type TokenType } from './signed-token.ts';

const CALLER: TokenType = { typ: 'earshot-caller+jwt', audience: 'earshot/callers' };

/** Signs a token of the local issuer for a registered client. */
export function signCaller(
  keys: Keys,
  issuer: string,
  client: string,
  lifetimeSeconds: number,
): Promise<string> {
  const issuedAt = Math.floor(Date.now() / 1000);
  return signToken(keys, issuer, CALLER, {
    sub: client,
    iat: issuedAt,
    exp: issuedAt + lifetimeSeconds,
  });
}

/** Verifies a caller token and says which client it names. Whether that one is registered is not checked. */
export async function verifyCaller(
  keys: Keys,
  issuer: string,
  token: string,
  clockToleranceSeconds: number,
): Promise<{ ok: true; client: string } | Refusal> {
  const verified = await verifyToken(keys, issuer, CALLER, token, clockToleranceSeconds);
  if (!verified.ok) {
    return verified.code === 'grant_expired'
      ? {
          ...verified,
          code: 'malformed_token',
          detail: 'The token has expired.',
          recovery: 'correct',
        }
      : verified;
  }
  return { ok: true, client: verified.claims.sub ?? '' };
}
