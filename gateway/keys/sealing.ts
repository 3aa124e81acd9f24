import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** What a sealed text is for. One that was sealed for one thing opens for no other. */
export type Purpose = 'signing' | 'cursor';

const ALGORITHM = 'aes-256-gcm';
const [SALT_BYTES, NONCE_BYTES, TAG_BYTES] = [32, 12, 16];

/**
 * Seals with AES-256-GCM: `salt || nonce || tag || ciphertext`. The key is derived from the secret by HKDF-SHA-256 with
 * the salt, anew each time, so that no nonce is ever used twice with one key. The name of the key and the
 * purpose are authenticated.
 */
export function seal(
  secret: Uint8Array,
  purpose: Purpose,
  kid: string,
  text: string,
): Uint8Array<ArrayBuffer> {
  const salt = randomBytes(SALT_BYTES);
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, derive(secret, salt, purpose), nonce);
  cipher.setAAD(boundTo(purpose, kid));
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([salt, nonce, cipher.getAuthTag(), sealed]);
}

/** Opens what {@link seal} made; undefined with another secret, purpose or name, or when a bit was changed. */
export function unseal(
  secret: Uint8Array,
  purpose: Purpose,
  kid: string,
  bytes: Uint8Array,
): string | undefined {
  const nonceAt = SALT_BYTES;
  const tagAt = nonceAt + NONCE_BYTES;
  const textAt = tagAt + TAG_BYTES;
  if (bytes.length < textAt) return undefined;
  const key = derive(secret, bytes.subarray(0, nonceAt), purpose);
  const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(nonceAt, tagAt), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(boundTo(purpose, kid));
  decipher.setAuthTag(bytes.subarray(tagAt, textAt));
  try {
    const text = Buffer.concat([decipher.update(bytes.subarray(textAt)), decipher.final()]);
    return text.toString('utf8');
  } catch {
    return undefined;
  }
}

function derive(secret: Uint8Array, salt: Uint8Array, purpose: Purpose): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, salt, `earshot key secret, ${purpose}`, 32));
}

function boundTo(purpose: Purpose, kid: string): Uint8Array {
  return Buffer.from(JSON.stringify(['earshot', purpose, kid]));
}
