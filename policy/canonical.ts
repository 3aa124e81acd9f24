import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, concatBytes, utf8ToBytes } from '@noble/hashes/utils.js';

/** One part of a canonical encoding: text, or a 64-bit integer. */
export type Part = string | bigint;

/**
 * Encodes parts so that no two different lists give the same bytes: each part is preceded by its
 * length in bytes (4 bytes, big-endian), text is UTF-8, an integer is 8 bytes big-endian.
 *
 * Injective for lists whose parts have the same types at the same places. The caller has refused
 * lone surrogates; the encoder would turn them into U+FFFD.
 */
export function encodeParts(parts: readonly Part[]): Uint8Array {
  return concatBytes(
    ...parts.flatMap((part) => {
      const bytes = typeof part === 'string' ? utf8ToBytes(part) : int64(part);
      return [uint32(bytes.length), bytes];
    }),
  );
}

/** SHA-256 (FIPS 180-4) over {@link encodeParts}. */
export function digestParts(parts: readonly Part[]): Uint8Array {
  return sha256(encodeParts(parts));
}

/** {@link digestParts} as 64 lowercase hex digits. */
export function hexDigestParts(parts: readonly Part[]): string {
  return bytesToHex(digestParts(parts));
}

/** SHA-256 of bytes, or of the UTF-8 form of a text, as 64 lowercase hex digits. */
export function sha256Hex(data: string | Uint8Array): string {
  return bytesToHex(sha256(typeof data === 'string' ? utf8ToBytes(data) : data));
}

function uint32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

function int64(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigInt64(0, value);
  return bytes;
}
