import type { Config } from '../config.ts';
import type { Keys } from '../keys.ts';
import { signCaller } from '../tokens/caller-token.ts';

/** A token that is shown once, as it is answered. */
export interface SignedToken {
  readonly token: string;
  readonly tokenExpiresAt: string;
}

/** Signs a token of the local issuer for so many days. That the client is registered is not checked. */
export async function signedToken(
  keys: Keys,
  { issuer }: Config,
  client: string,
  days: number,
): Promise<SignedToken> {
  const seconds = days * 86_400;
  const token = await signCaller(keys, issuer, client, seconds);
  const end = new Date(Date.now() + seconds * 1000).toISOString();
  return { token, tokenExpiresAt: `${end.slice(0, 19)}Z` };
}
