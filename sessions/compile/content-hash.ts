import { xxh3 } from '@node-rs/xxhash';

/**
 * The xxh3-128 of bytes, or of a text's UTF-8 form: 32 lowercase hex digits, the most significant first.
 *
 * It finds what may be equal, content or prefixes, and never decides who may read it. Guaranteed: equal content has equal
 * hashes, on every machine. Not guaranteed: the reverse; whoever wants to can make two texts with one hash, so what is
 * found is compared before anything depends on it. A lone surrogate counts as U+FFFD.
 */
export function contentHash(content: string | Uint8Array): string {
  return xxh3.xxh128(content).toString(16).padStart(32, '0');
}

/**
 * The next link of a chain: the hash, as 16 bytes, over the link before it and the bytes that follow. Two chains share a
 * prefix as far as their links are equal. The first link follows an empty one; all others should be of one length, or
 * the same bytes parted elsewhere give the same link.
 */
export function chainedHash(link: Uint8Array, content: Uint8Array): Uint8Array {
  return Buffer.from(contentHash(Buffer.concat([link, content])), 'hex');
}
