import type { Refusal } from '../../policy/refusal.ts';
import type { ClientScope } from '../../sql/clients.ts';
import type { Keys } from '../keys.ts';
import { signToken, verifyToken, type TokenType } from './signed-token.ts';

const CALLER: TokenType = { typ: 'earshot-caller+jwt', audience: 'earshot/callers' };

/** Signs a token of the local issuer for a registered client: for all its scopes, or for these of them alone. */
export function signCaller(
  keys: Keys,
  issuer: string,
  client: string,
  lifetimeSeconds: number,
  scopes?: readonly ClientScope[],
): Promise<string> {
  const issuedAt = Math.floor(Date.now() / 1000);
  return signToken(keys, issuer, CALLER, {
    sub: client,
    iat: issuedAt,
    exp: issuedAt + lifetimeSeconds,
    ...(scopes !== undefined && { scope: scopes.join(' ') }),
  });
}

/** Verifies a caller token and says which client it names, and what else it says. Whether that one is registered is not checked. */
export async function verifyCaller(
  keys: Keys,
  issuer: string,
  token: string,
  clockToleranceSeconds: number,
): Promise<
  | {
      readonly ok: true;
      readonly client: string;
      readonly claims: Readonly<Record<string, unknown>>;
    }
  | Refusal
> {
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
  const { claims } = verified;
  return { ok: true, client: claims.sub ?? '', claims };
}
