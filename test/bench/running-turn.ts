import { randomBytes, randomUUID } from 'node:crypto';
import { mintGrant, type GrantPacket } from '../../sql/grants.ts';
import type { Database } from '../../sql/database.ts';
import { openTurn, takeLease } from '../../sql/turns.ts';
import { digestOf } from '../../gateway/tokens/grant-token.ts';

/** A turn with a grant, which lasts for the length of a bench. */
export interface RunningTurn {
  readonly packet: GrantPacket;
  readonly jti: string;
  readonly digest: Uint8Array;
}

const ORGANIZATION = 'bench';
const CALLER = { client: 'bench', personas: ['*'], seesNames: false };
const SECONDS = 3_600;

/** Opens a turn for the thread of an audience as a bridge would, in a session that nobody used before. */
export async function startTurn(
  gateway: Database,
  { name, requester }: { readonly name: string; readonly requester: string },
): Promise<RunningTurn> {
  const id = randomUUID();
  const opened = await openTurn(
    gateway,
    ORGANIZATION,
    CALLER,
    { key: id, digest: randomBytes(32) },
    id,
    {
      persona: 'assistant',
      destination: name,
      requester: `u${requester}`,
      trigger: name.startsWith('mention-') ? 'mention' : 'thread',
      triggerSeq: 3n,
      tools: ['search', 'read', 'around', 'thread', 'list_conversations'],
      threadKey: `${name} ${id}`,
    },
    SECONDS,
  );
  if (!opened.ok) throw new Error(`A turn for ${name} is refused: ${opened.code}.`);
  const taken = await takeLease(gateway, ORGANIZATION, CALLER, id, 'bench', SECONDS);
  if (!taken.ok) throw new Error(`A lease for ${name} is refused: ${taken.code}.`);
  const jti = randomBytes(32).toString('base64url');
  const digest = digestOf(jti);
  const minted = await mintGrant(gateway, ORGANIZATION, CALLER, id, taken.lease, {
    ...{ id: randomUUID(), digest, lifetimeSeconds: SECONDS },
  });
  if (!minted.ok) throw new Error(`A grant for ${name} is refused: ${minted.code}.`);
  return { packet: minted.packet, jti, digest };
}
