import type { Audience } from './audience.ts';
import type { ExternalId } from './identity.ts';
import { refuse, type Refusal } from './refusal.ts';
import type { WorldConversation } from './world.ts';

export type TriggerKind = 'thread' | 'mention' | 'schedule';
export type Mode = 'mention' | 'private' | 'guest' | 'project' | 'thread';

/**
 * How a turn draws on sources. The server picks it from facts; no caller names it (INVARIANT 8).
 * `extent` says which part of the world comes into question, the bounds narrow it further.
 */
export interface TurnMode {
  readonly ok: true;
  readonly mode: Mode;
  readonly extent: 'destination' | 'requester' | 'audience';
  readonly projectBound?: ExternalId;
}

/**
 * The mode of a turn. Precedence: mention, else private, else thread; the project and guest bounds
 * are then added to whichever it is and name a thread that has them.
 *
 * A `disclosure` is text that goes to another place than its turn's: nobody asked for it there, so
 * no mention confines it, and the intersection of that place's readers with the bounds decides.
 */
export function modeOf(
  destination: Pick<WorldConversation, 'project' | 'owner' | 'aiThread' | 'everShared'>,
  audience: Pick<Audience, 'readers'>,
  requester: ExternalId,
  trigger: TriggerKind | 'disclosure',
): TurnMode | Refusal {
  if (trigger === 'thread' && !destination.aiThread) {
    return refuse('invalid_input', { detail: 'A thread trigger needs an AI thread.' });
  }
  const bound = destination.project === undefined ? {} : { projectBound: destination.project };
  if (!destination.aiThread && trigger !== 'disclosure') {
    return { ok: true, mode: 'mention', extent: 'destination', ...bound };
  }

  const [first, ...others] = audience.readers;
  const sole = others.length === 0 && first?.reader.kind === 'user' ? first.reader.user : undefined;
  if (sole !== undefined && destination.aiThread) {
    const owns = destination.owner === requester && sole === requester && !destination.everShared;
    if (owns) return { ok: true, mode: 'private', extent: 'requester', ...bound };
  }
  const mode = audience.readers.some((entry) => entry.guest)
    ? 'guest'
    : destination.project === undefined
      ? 'thread'
      : 'project';
  // One person alone who is not the plain owner of a private thread gets the thread, not that person's world.
  return { ok: true, mode, extent: sole === undefined ? 'audience' : 'destination', ...bound };
}
