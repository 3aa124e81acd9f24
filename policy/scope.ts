import type { Audience } from './audience.ts';
import { highestFloor, type Floor } from './floor.ts';
import type { ExternalId } from './identity.ts';
import type { Instant } from './instant.ts';
import type { TurnMode } from './mode.ts';
import { floorOf, type Reader } from './reader.ts';
import type {
  World,
  WorldArtifact,
  WorldConversation,
  WorldMessage,
  WorldSource,
} from './world.ts';

/** Conversations that may enter a turn's context, each with its effective floor. */
export type Scope = ReadonlyMap<ExternalId, Floor>;

/**
 * The scope of a turn: what every reader of the destination reads, within the mode's bounds, each
 * conversation at the highest of their floors. INVARIANTS 2 and 3.
 *
 * `recipient`, where a tool has it, is one more reader for that call: it narrows or does nothing.
 */
export function scopeOf(
  world: World,
  destination: WorldConversation,
  audience: Audience,
  mode: TurnMode,
  requester: ExternalId,
  now: Instant,
  recipient?: ExternalId,
): Scope {
  const also: Reader[] = recipient === undefined ? [] : [{ kind: 'user', user: recipient }];
  const scope = new Map<ExternalId, Floor>();
  const consider = (conversation: WorldConversation, floors: readonly (Floor | undefined)[]) => {
    const floor = highestFloor([
      ...floors,
      ...also.map((reader) => floorOf(world, reader, conversation, now)),
    ]);
    if (floor !== undefined) scope.set(conversation.id, floor);
  };

  if (mode.extent !== 'destination') {
    const readers: Reader[] =
      mode.extent === 'requester'
        ? [{ kind: 'user', user: requester }]
        : audience.readers.map((entry) => entry.reader);
    for (const conversation of world.conversations.values()) {
      if (mode.projectBound !== undefined && conversation.project !== mode.projectBound) continue;
      consider(
        conversation,
        readers.map((reader) => floorOf(world, reader, conversation, now)),
      );
    }
  }
  consider(destination, [audience.floor]);
  return scope;
}

/** Whether a message may enter a turn toward `destination` with this scope. */
export function messageInScope(
  world: World,
  scope: Scope,
  destination: ExternalId,
  message: WorldMessage,
): boolean {
  const floor = scope.get(message.conversation);
  if (floor === undefined || message.seq < floor || message.deleted) return false;
  if (!mayLeave(message) && message.conversation !== destination) return false;
  return message.delivery === undefined || isReadable(world, scope, destination, message.delivery);
}

/**
 * Whether an artifact may enter a turn toward `destination` with this scope: its lineage says so, and its home is
 * in scope. No floor is asked of the artifact itself.
 */
export function artifactInScope(
  world: World,
  scope: Scope,
  destination: ExternalId,
  { id, home, deleted }: WorldArtifact,
): boolean {
  return !deleted && scope.has(home) && isReadable(world, scope, destination, id);
}

/** Whether every source of a derived text is readable within a scope. One without any is readable by nobody. */
function isReadable(world: World, scope: Scope, destination: ExternalId, derived: string): boolean {
  const lineage = world.lineages.get(derived) ?? [];
  return (
    lineage.length > 0 &&
    lineage.every((source) => sourceReadable(world, scope, destination, source))
  );
}

/**
 * Whether a message may be read outside of its own conversation. An assistant's text that no delivery
 * accounts for may hold anything, and one that was edited is no longer the text of its delivery, unless it is a
 * delivery that edited it.
 */
function mayLeave(message: WorldMessage): boolean {
  if (message.delivery !== undefined) return !message.edited || message.editedByDelivery === true;
  return message.author === undefined || !('persona' in message.author);
}

/**
 * Whether one source of a derived text is readable within a scope. A lineage is flattened when it is
 * recorded, so a source that is derived itself, an artifact or what came out of a delivery, has its
 * own sources beside it. INVARIANT 13.
 */
export function sourceReadable(
  world: World,
  scope: Scope,
  destination: ExternalId,
  source: WorldSource,
): boolean {
  if ('artifact' in source) {
    const artifact = world.artifacts.find(({ id }) => id === source.artifact);
    return artifact !== undefined && !artifact.deleted && scope.has(artifact.home);
  }
  const floor = scope.get(source.conversation);
  if (floor === undefined || source.fromSeq < floor) return false;
  if (source.toSeq === undefined) return true;
  const message = world.messages.find(
    (candidate) =>
      candidate.conversation === source.conversation && candidate.seq === source.fromSeq,
  );
  if (message === undefined || message.deleted) return false;
  return mayLeave(message) || message.conversation === destination;
}
