import { randomBytes } from 'node:crypto';
import {
  calculateJwkThumbprint,
  exportJWK,
  generateKeyPair,
  importJWK,
  type CryptoKey,
  type JWK,
} from 'jose';
import { z } from 'zod';

/** A key as it is kept: a private JWK (RFC 8037) with the secret of the cursors of its time. */
export const StoredKey = z.strictObject({
  kid: z.string(),
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string(),
  d: z.string(),
  cursorSecret: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
  createdAt: z.iso.datetime(),
  /** Published at once; other gateways and verifiers have known it for a while by then. */
  signsFrom: z.iso.datetime(),
});
export type StoredKey = z.infer<typeof StoredKey>;

/** A key, ready to be used. */
export interface SigningKey {
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly publicKey: CryptoKey;
  readonly cursorSecret: Uint8Array;
  /** The public part (RFC 7517). */
  readonly jwk: Record<string, string>;
  readonly createdAt: string;
  readonly signsFrom: string;
}

/** Why keys cannot be read or changed. The message is for people and holds no key. */
export class KeyError extends Error {
  override readonly name = 'KeyError';
}

/** Makes a key that signs as soon as so many seconds have passed. */
export async function newStoredKey(signsAfterSeconds: number): Promise<StoredKey> {
  const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
  const jwk = await exportJWK(privateKey);
  const kid = await calculateJwkThumbprint(jwk);
  // A name that begins with a dash would read as an option on a command line.
  if (kid.startsWith('-')) return newStoredKey(signsAfterSeconds);
  const now = Date.now();
  return StoredKey.parse({
    kid,
    ...jwk,
    cursorSecret: randomBytes(32).toString('base64url'),
    createdAt: new Date(now).toISOString(),
    signsFrom: new Date(now + signsAfterSeconds * 1000).toISOString(),
  });
}

/** Makes a stored key ready. Throws a {@link KeyError} if its name is not that of its public part (RFC 7638). */
export async function openSigningKey(stored: StoredKey): Promise<SigningKey> {
  const { kid, d, cursorSecret, createdAt, signsFrom, ...shared } = stored;
  if ((await calculateJwkThumbprint(shared)) !== kid) {
    throw new KeyError('A key does not have the name that belongs to it.');
  }
  return {
    kid,
    privateKey: await importKey({ ...shared, d }),
    publicKey: await importKey(shared),
    cursorSecret: Buffer.from(cursorSecret, 'base64url'),
    jwk: { kid, ...shared, alg: 'EdDSA', use: 'sig' },
    createdAt,
    signsFrom,
  };
}

async function importKey(jwk: JWK): Promise<CryptoKey> {
  const key = await importJWK(jwk, 'EdDSA');
  if (key instanceof Uint8Array) throw new KeyError('There is a key of another kind.');
  return key;
}

/** The key that signs at a moment: the last one that has begun to, or the first where none has. */
export function signingKeyAt<Key extends Pick<StoredKey, 'signsFrom'>>(
  keys: readonly Key[],
  now: number,
): Key | undefined {
  const inOrder = [...keys].sort((a, b) => Date.parse(a.signsFrom) - Date.parse(b.signsFrom));
  // A clock that is behind the one that made the first key must not leave the gateway without.
  return inOrder.findLast((key) => Date.parse(key.signsFrom) <= now) ?? inOrder[0];
}
