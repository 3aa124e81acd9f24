import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  KeyObject,
  sign,
} from 'node:crypto';

/** What an attacker works with: a sound token, and, against all odds, the gateway's own key. */
export interface Sound {
  readonly token: string;
  readonly header: Readonly<Record<string, unknown>>;
  readonly claims: Readonly<Record<string, unknown>>;
  readonly ours: KeyObject;
  /** Another sound token, of another turn. */
  readonly other: string;
  readonly caller: string;
  readonly clearance: string;
  /** An address that notes who fetches from it. */
  readonly listener: string;
  /** The longest life of a grant, in seconds. */
  readonly maxLifetime: number;
}

/** A token that is to be refused, and as what. */
export interface Attack {
  readonly name: string;
  readonly forge: (sound: Sound) => string;
  readonly code: 'malformed_token' | 'grant_expired' | 'unknown_grant';
}

export function attack(
  name: string,
  forge: Attack['forge'],
  code: Attack['code'] = 'malformed_token',
): Attack {
  return { name, forge, code };
}

export const b64 = (value: unknown): string =>
  (Buffer.isBuffer(value)
    ? value
    : Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
  ).toString('base64url');

/** Signs a header and a payload, each an object or the text of one, as they are. */
export function signed(header: unknown, payload: unknown, key: KeyObject): string {
  const input = `${b64(header)}.${b64(payload)}`;
  return `${input}.${b64(sign(null, Buffer.from(input), key))}`;
}

/** The sound token with other claims, signed by our own key. `undefined` takes a claim away. */
export const withClaims =
  (more: (sound: Sound) => object): Attack['forge'] =>
  (sound) =>
    signed(sound.header, { ...sound.claims, ...more(sound) }, sound.ours);

/** The sound token with another header, signed by our own key. */
export const withHeader =
  (more: (sound: Sound) => object): Attack['forge'] =>
  (sound) =>
    signed({ ...sound.header, ...more(sound) }, sound.claims, sound.ours);

/** Keys of the attacker's own. */
export const THEIRS = {
  ed25519: generateKeyPairSync('ed25519').privateKey,
  rsa: generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
  p256: generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey,
};

export function publicKeyOf(key: KeyObject): KeyObject {
  return createPublicKey(key);
}

/** The private key of a gateway as this module signs with it. */
export function ownKey(key: Parameters<typeof KeyObject.from>[0]): KeyObject {
  return createPrivateKey({ key: KeyObject.from(key).export({ format: 'jwk' }), format: 'jwk' });
}

/** The three segments of a token. */
export function segmentsOf(token: string): [head: string, body: string, signature: string] {
  const [head = '', body = '', signature = ''] = token.split('.');
  return [head, body, signature];
}

/** The token with another signature, given the bytes of its own. */
export const resigned =
  (change: (signature: Buffer, sound: Sound) => Buffer): Attack['forge'] =>
  (sound) => {
    const [head, body, signature] = segmentsOf(sound.token);
    return `${head}.${body}.${b64(change(Buffer.from(signature, 'base64url'), sound))}`;
  };
