import { sha256Hex } from '../policy/canonical.ts';
import {
  AskedReleaseShape,
  MessagePacketShape,
  SavedArtifactShape,
  type AskedRelease,
  type MessagePacket,
  type SavedArtifact,
} from './answer-shape.ts';
import type { GrantedCall, Send } from './call.ts';
import { refuseLocally } from './client-refusal.ts';

export interface ArtifactDraft {
  readonly kind: 'memory' | 'summary' | 'draft' | 'note';
  readonly text: string;
  readonly title?: string;
  readonly contentType?: string;
  /** The idempotency key; a random one unless given. */
  readonly key?: string;
}

export interface ReleaseQuestion {
  readonly artifact: string;
  readonly destination: string;
  /** The idempotency key; a random one unless given. */
  readonly key?: string;
}

/** The calls about derived texts, under a grant. */
export interface ArtifactCalls {
  /** Saves a text. What it was made from is the turn's whole ledger, and not for the caller to say. */
  saveArtifact: GrantedCall<ArtifactDraft, SavedArtifact>;
  /** A packet of one item, if every one of its sources may be read under the grant; else it is `not_found`. */
  readArtifact: GrantedCall<{ readonly artifact: string }, MessagePacket>;
  /** Asks the owners of what stands in the way whether these bytes may go there. */
  askRelease: GrantedCall<ReleaseQuestion, AskedRelease>;
}

export function artifactCalls(sendUnder: (token: string) => Send): ArtifactCalls {
  return {
    saveArtifact: async (token, { key = crypto.randomUUID(), ...body }, options) => {
      const saved = await sendUnder(token)(
        {
          method: 'POST',
          path: '/v1/artifacts',
          body,
          idempotencyKey: key,
          shape: SavedArtifactShape,
          mayRepeat: true,
        },
        options,
      );
      if (!saved.ok || saved.value.textSha256 === sha256Hex(body.text)) return saved;
      return refuseLocally('malformed_answer', 'stop', { status: 200, detail: 'another text' });
    },
    readArtifact: (token, { artifact }, options) =>
      sendUnder(token)(
        {
          method: 'GET',
          path: `/v1/artifacts/${encodeURIComponent(artifact)}`,
          shape: MessagePacketShape,
          mayRepeat: true,
        },
        options,
      ),
    askRelease: (token, { artifact, destination, key = crypto.randomUUID() }, options) =>
      sendUnder(token)(
        {
          method: 'POST',
          path: `/v1/artifacts/${encodeURIComponent(artifact)}/releases`,
          body: { destination },
          idempotencyKey: key,
          shape: AskedReleaseShape,
          mayRepeat: true,
        },
        options,
      ),
  };
}
