import { sessionIdFor } from '../policy/session-id.ts';
import type { GrantPacket } from '../sql/grants.ts';

/**
 * The session that a grant's packet names, derived again from the packet's own parts.
 *
 * The database derives the id where it opens the session; a bridge derives it from the packet. This
 * is the bridge's derivation, run before the packet leaves: if the two ever differ, the session that
 * a bridge resumes is not the one whose ledger is kept, so a difference is a fault.
 */
export function sessionOf(packet: GrantPacket): string {
  const derived = sessionIdFor({
    organization: packet.organization,
    threadKey: packet.threadKey,
    salt: packet.salt,
    epoch: packet.sessionEpoch,
    audience: {
      persona: packet.persona,
      audienceHash: packet.audienceHash,
      mode: packet.mode,
      policyRevision: packet.policyRevision,
      ...(packet.projectBound !== undefined && { projectBound: packet.projectBound }),
    },
  });
  if (derived !== packet.sessionId) throw new Error('the session id and its parts do not agree');
  return derived;
}
