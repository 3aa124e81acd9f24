import { digestParts, type Part } from './canonical.ts';
import type { Mode } from './mode.ts';

export const SESSION_ID_VERSION = 'earshot/session/1';

/** What a session is cut by. Another value in any part is another session. */
export interface SessionParts {
  readonly organization: string;
  readonly threadKey: string;
  /** Fixed per persona. */
  readonly salt: string;
  readonly epoch: bigint;
  /** Present for a turn that carries a grant. */
  readonly audience?: {
    readonly persona: string;
    /** The fingerprint. */
    readonly audienceHash: string;
    readonly mode: Mode;
    readonly projectBound?: string;
    readonly policyRevision: bigint;
  };
}

/**
 * The session id: a UUID version 8 (RFC 9562) from SHA-256 over the canonical encoding of its parts.
 *
 * A partition name, neither secret nor credential. The SQL function `earshot.session_id` gives the
 * same; `fixtures/vectors/session-ids.json` holds both to it.
 */
export function sessionIdFor(parts: SessionParts): string {
  const encoded: Part[] = [
    SESSION_ID_VERSION,
    parts.organization,
    parts.threadKey,
    parts.salt,
    parts.epoch,
  ];
  if (parts.audience !== undefined) {
    const { persona, audienceHash, mode, projectBound, policyRevision } = parts.audience;
    encoded.push('grant', persona, audienceHash, mode);
    encoded.push(projectBound === undefined ? 0n : 1n, projectBound ?? '', policyRevision);
  } else {
    encoded.push('legacy');
  }
  return uuidOf(digestParts(encoded));
}

export const FORK_ID_VERSION = 'earshot/fork/1';

/** The id of a fork of a session, by its name. `earshot.fork_id` gives the same. */
export function forkIdFor(parent: string, name: string): string {
  return uuidOf(digestParts([FORK_ID_VERSION, parent, name]));
}

/** A UUID version 8 (RFC 9562) from a digest. */
function uuidOf(digest: Uint8Array): string {
  const bytes = digest.slice(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ].join('-');
}
