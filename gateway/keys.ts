import { randomBytes } from 'node:crypto';
import { mkdir, open, readFile, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  calculateJwkThumbprint,
  exportJWK,
  generateKeyPair,
  importJWK,
  type CryptoKey,
  type JWK,
} from 'jose';
import { z } from 'zod';

/** The gateway's signing keys and the secret of its cursors. Nothing here has a default. */
export interface Keys {
  /** Signs: the newest key. */
  readonly signing: { readonly kid: string; readonly key: CryptoKey };
  /** The public key with this id, or undefined: a header chooses nothing but which of ours. */
  verifying(kid: string): CryptoKey | undefined;
  readonly cursorSecret: Uint8Array;
  /** The public parts (RFC 7517). */
  readonly jwks: { readonly keys: Record<string, string>[] };
}

const StoredKeys = z.object({
  keys: z
    .array(
      z.object({
        kid: z.string(),
        kty: z.literal('OKP'),
        crv: z.literal('Ed25519'),
        x: z.string(),
        d: z.string(),
      }),
    )
    .min(1),
  cursorSecret: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
});

export class KeyError extends Error {}

const fileOf = (dataDir: string) => join(dataDir, 'keys.json');

/** Makes a key file, readable by its owner only. Leaves one that is there alone, and says so. */
export async function createKeys(dataDir: string): Promise<boolean> {
  const file = fileOf(dataDir);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  if (await exists(file)) return false;
  const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
  const jwk = await exportJWK(privateKey);
  const stored = {
    keys: [{ kid: await calculateJwkThumbprint(jwk), ...jwk }],
    cursorSecret: randomBytes(32).toString('base64url'),
  };
  // Written whole under another name first: a reader sees all of it or nothing.
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  const handle = await open(draft, 'wx', 0o600);
  await handle.writeFile(JSON.stringify(stored));
  await handle.sync();
  await handle.close();
  await rename(draft, file);
  return true;
}

/**
 * Loads the keys. Throws a {@link KeyError} if there are none, if they are not what was written, or
 * if others than the owner may read the file.
 */
export async function loadKeys(dataDir: string): Promise<Keys> {
  const file = fileOf(dataDir);
  if (!(await exists(file))) throw new KeyError('There are no keys. Run `earshot init`.');
  const { mode } = await stat(file);
  if ((mode & 0o077) !== 0) {
    throw new KeyError(`Others may read the key file. Run \`chmod 600 ${file}\`.`);
  }
  const parsed = StoredKeys.safeParse(JSON.parse(await readFile(file, 'utf8')));
  if (!parsed.success) throw new KeyError('The key file is not one that `earshot init` made.');

  const pairs = await Promise.all(
    parsed.data.keys.map(async ({ kid, d, ...shared }) => ({
      kid,
      private: await importKey({ ...shared, d }),
      public: await importKey(shared),
      jwk: { kid, ...shared, alg: 'EdDSA', use: 'sig' },
    })),
  );
  const byId = new Map(pairs.map((pair) => [pair.kid, pair.public]));
  const newest = pairs.at(-1);
  if (newest === undefined) throw new KeyError('There are no keys. Run `earshot init`.');
  return {
    signing: { kid: newest.kid, key: newest.private },
    verifying: (kid) => byId.get(kid),
    cursorSecret: Buffer.from(parsed.data.cursorSecret, 'base64url'),
    jwks: { keys: pairs.map((pair) => pair.jwk) },
  };
}

async function importKey(jwk: JWK): Promise<CryptoKey> {
  const key = await importJWK(jwk, 'EdDSA');
  if (key instanceof Uint8Array) throw new KeyError('The key file holds a key of another kind.');
  return key;
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
