import type { Database } from '../../sql/database.ts';
import { changeSealedKeys, listSealedKeys, type SealedKey } from '../../sql/signing-keys.ts';
import type { KeyStore } from './key-store.ts';
import { seal, unseal } from './sealing.ts';
import { KeyError, StoredKey } from './signing-key.ts';

/**
 * Keys in the database, sealed with a secret that is not there: a row without the secret is of no use,
 * and one that was made without it is refused. To change them takes the administrator's login.
 */
export function keyTable(database: Database, keySecret: string): KeyStore {
  const secret = Buffer.from(keySecret, 'base64url');
  const opened = (rows: readonly SealedKey[]) => rows.map((row) => unsealKey(secret, row));
  return {
    place: 'the database',
    read: async () => opened(await listSealedKeys(database)),
    change: (work) =>
      changeSealedKeys(database, async (rows) => {
        const known = new Map(rows.map((row) => [row.kid, row]));
        const keys = await work(opened(rows));
        return keys.map((key) => known.get(key.kid) ?? sealKey(secret, key));
      }),
  };
}

function sealKey(secret: Uint8Array, { cursorSecret, ...key }: StoredKey): SealedKey {
  const { kid, createdAt, signsFrom, kty, crv, x, d } = key;
  return {
    kid,
    createdAt,
    signsFrom,
    sealedKey: seal(secret, 'signing', kid, JSON.stringify({ kty, crv, x, d })),
    sealedCursorSecret: seal(secret, 'cursor', kid, cursorSecret),
  };
}

function unsealKey(
  secret: Uint8Array,
  { kid, createdAt, signsFrom, ...row }: SealedKey,
): StoredKey {
  const jwk = unseal(secret, 'signing', kid, row.sealedKey);
  const cursorSecret = unseal(secret, 'cursor', kid, row.sealedCursorSecret);
  if (jwk === undefined || cursorSecret === undefined) {
    throw new KeyError(
      'EARSHOT_KEY_SECRET (keySecret): the keys in the database were sealed with another secret.',
    );
  }
  const shape = JSON.parse(jwk) as object;
  return StoredKey.parse({ ...shape, kid, cursorSecret, createdAt, signsFrom });
}
