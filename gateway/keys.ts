import type { Database } from '../sql/database.ts';
import type { Config } from './config.ts';
import { keyFile } from './keys/key-file.ts';
import { createFirstKey, NO_KEYS, type KeyStore } from './keys/key-store.ts';
import { keyTable } from './keys/key-table.ts';
import { KeyError, openSigningKey, signingKeyAt, type SigningKey } from './keys/signing-key.ts';
import { refreshed } from './refreshed.ts';

/** The gateway's signing keys, asked at each use: they change while it runs. Nothing here has a default. */
export interface Keys {
  /** The keys as they stand, at most {@link KEY_REFRESH_SECONDS} old. Throws when they cannot be read. */
  current(): Promise<KeyRing>;
  /**
   * The key with this id, or undefined: a header chooses nothing but which of ours. One that is not
   * known is looked for anew, once in {@link KEY_COOL_DOWN_SECONDS}.
   */
  find(kid: string): Promise<SigningKey | undefined>;
}

/** Keys at one moment. */
export interface KeyRing {
  /** The one that signs. */
  readonly signing: SigningKey;
  /** The public parts of all that verify, those that do not sign yet among them (RFC 7517). */
  readonly jwks: { readonly keys: Record<string, string>[] };
}

/** After so long every gateway works with a change of the keys: a retired one verifies nothing more. */
export const KEY_REFRESH_SECONDS = 10;
/** Between two readings because of ids that nobody knows. */
export const KEY_COOL_DOWN_SECONDS = 5;
/** How long others may keep the public keys. */
export const JWKS_MAX_AGE_SECONDS = 60;

/** Where the keys of this configuration are: sealed in the database with a secret, in a file without. */
export function keyStoreOf(config: Config, database: Database): KeyStore {
  return config.keySecret === undefined
    ? keyFile(config.dataDir)
    : keyTable(database, config.keySecret);
}

/** Makes the first key in a file of the data folder. Leaves one that is there alone, and says so by false. */
export function createKeys(dataDir: string): Promise<boolean> {
  return createFirstKey(keyFile(dataDir));
}

/**
 * Opens keys, reading them once. Throws a {@link KeyError} if there are none, if they are not what was
 * written, if others than the owner may read the file, or if the secret is another one.
 */
export async function openKeys(store: KeyStore): Promise<Keys> {
  const rings = refreshed(() => readRing(store), {
    freshSeconds: KEY_REFRESH_SECONDS,
    coolDownSeconds: KEY_COOL_DOWN_SECONDS,
  });
  await rings.current();
  return {
    current: () => rings.current(),
    async find(kid) {
      const ring = await rings.current();
      return ring.find(kid) ?? (await rings.again()).find(kid);
    },
  };
}

interface FoundRing extends KeyRing {
  find(kid: string): SigningKey | undefined;
}

async function readRing(store: KeyStore): Promise<FoundRing> {
  const keys = await Promise.all((await store.read()).map(openSigningKey));
  const byId = new Map(keys.map((key) => [key.kid, key]));
  const signing = () => {
    const key = signingKeyAt(keys, Date.now());
    if (key === undefined) throw new KeyError(NO_KEYS);
    return key;
  };
  signing();
  return {
    // A key begins to sign by the clock, between two readings.
    get signing() {
      return signing();
    },
    find: (kid) => byId.get(kid),
    jwks: { keys: keys.map(({ jwk }) => jwk) },
  };
}
