import { hexDigestParts } from '../policy/canonical.ts';

export const CACHE_KEY_VERSION = 'earshot/cache-key/1';

/** Every input that can change what a reader may be shown. What the sources say is not among them. */
export interface CacheKeyParts {
  readonly organization: string;
  /** The fingerprint of the audience, as the grant's packet gives it. */
  readonly audienceHash: string;
  /** The digest of the scope, by {@link scopeDigest}. */
  readonly scopeDigest: string;
  readonly policyRevision: bigint;
  /** What was asked, whole: every argument that the answer depends on. */
  readonly query: string;
}

/** A conversation in scope, from a sequence up. */
export interface ScopedConversation {
  readonly conversation: string;
  readonly fromSeq: bigint;
}

/**
 * The one key under which anything that was read may be kept by an application: 64 lowercase hex digits.
 *
 * Guaranteed: two keys are equal only if every part is. Not checked: that the parts are those of this moment. What is
 * kept under a key is as old as its scope, so the scope is asked for anew, and a grant is checked, before a
 * kept answer is given (INVARIANT 6); an edit or a deletion moves no key. Throws a `TypeError` where a part is missing, empty or not
 * well formed: there is no key for an unknown audience.
 */
export function cacheKeyFor(parts: CacheKeyParts): string {
  const { organization, audienceHash, scopeDigest, policyRevision, query } = parts;
  if (!HEX.test(audienceHash) || !HEX.test(scopeDigest)) throw new TypeError('a digest is missing');
  if (organization === '') throw new TypeError('the organization is missing');
  // The encoder would make one text of all of them.
  if ([organization, query].some((part) => /\p{Cs}/u.test(part)))
    throw new TypeError('a part has a lone surrogate');
  return hexDigestParts([
    CACHE_KEY_VERSION,
    organization,
    audienceHash,
    scopeDigest,
    policyRevision,
    query,
  ]);
}

/** The digest of a scope, in whatever order it is listed: 64 lowercase hex digits. */
export function scopeDigest(scope: readonly ScopedConversation[]): string {
  const floors = new Map(scope.map(({ conversation, fromSeq }) => [conversation, fromSeq]));
  if (floors.size !== scope.length) throw new TypeError('a conversation is listed twice');
  const parts = [...floors].sort(([a], [b]) => (a < b ? -1 : 1)).flat();
  return hexDigestParts(['earshot/scope/1', ...parts]);
}

const HEX = /^[0-9a-f]{64}$/;
