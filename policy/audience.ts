import { digestParts, type Part } from './canonical.ts';
import { bytesToHex } from '@noble/hashes/utils.js';
import { highestFloor, type Floor } from './floor.ts';
import { compareUtf8, type ExternalId } from './identity.ts';
import type { Instant } from './instant.ts';
import { floorOf, readsByProject, type Reader } from './reader.ts';
import { refuse, type Refusal } from './refusal.ts';
import type { World, WorldConversation, WorldUser } from './world.ts';

/** Everyone who can read a destination now. Never empty (INVARIANT 10). */
export interface Audience {
  readonly ok: true;
  readonly organization: ExternalId;
  readonly destination: ExternalId;
  readonly readers: readonly AudienceReader[];
  /** The highest of the readers' floors: where the destination begins for all of them. */
  readonly floor: Floor;
}

export interface AudienceReader {
  readonly reader: Reader;
  readonly floor: Floor;
  readonly guest: boolean;
}

/**
 * The audience of a destination.
 *
 * Lists the open class if there is one, and each person whom that class does not cover. Refuses a
 * destination whose readers cannot all be listed, or that nobody reads. Does not judge whether the
 * destination takes turns: see `turn.ts`.
 */
export function audienceOf(
  world: World,
  destination: WorldConversation,
  now: Instant,
): Audience | Refusal {
  if (destination.externalReaders || destination.unresolvedMembers > 0)
    return refuse('unlistable_audience');
  const readers: AudienceReader[] = [];
  const add = (reader: Reader, guest: boolean) => {
    const floor = floorOf(world, reader, destination, now);
    if (floor !== undefined) readers.push({ reader, floor, guest });
  };

  const openClass = classOf(destination);
  if (openClass !== undefined) add(openClass, false);
  const members = new Set(
    world.memberships.filter((row) => row.conversation === destination.id).map((row) => row.user),
  );
  for (const id of members) {
    const user = world.users.get(id);
    if (user === undefined || coveredByClass(world, destination, user)) continue;
    add({ kind: 'user', user: id }, user.kind === 'guest');
  }

  const floor = highestFloor(readers.map((entry) => entry.floor));
  if (floor === undefined) return refuse('empty_audience');
  return {
    ok: true,
    organization: world.organization.id,
    destination: destination.id,
    readers,
    floor,
  };
}

/** Whether the audience contains this person, listed or covered by the destination's class. */
export function isInAudience(
  world: World,
  destination: WorldConversation,
  audience: Audience,
  person: ExternalId,
): boolean {
  if (audience.readers.some(({ reader }) => reader.kind === 'user' && reader.user === person))
    return true;
  const user = world.users.get(person);
  return user !== undefined && coveredByClass(world, destination, user);
}

/** The class a destination is open to, if any. */
function classOf(destination: WorldConversation): Reader | undefined {
  switch (destination.visibility) {
    case 'members':
      return undefined;
    case 'organization':
      return { kind: 'class:organization' };
    case 'project':
      return destination.project === undefined
        ? undefined
        : { kind: 'class:project', project: destination.project };
  }
}

/**
 * Whether the destination's class already stands for this person. The class is the weaker reader, so
 * a covered person is not listed beside it, and joining or leaving an open channel changes nothing.
 */
function coveredByClass(world: World, destination: WorldConversation, user: WorldUser): boolean {
  if (!user.active || user.kind === 'bot') return false;
  if (destination.visibility === 'organization') return user.kind !== 'guest';
  return readsByProject(world, user, destination);
}

/** The name of a reader as it is written in the fingerprint, and its id there. */
function readerName(reader: Reader): readonly [kind: string, id: string] {
  switch (reader.kind) {
    case 'user':
      return ['user', reader.user];
    case 'class:organization':
      return ['class:organization', ''];
    case 'class:project':
      return ['class:project', reader.project];
  }
}

export const FINGERPRINT_VERSION = 'earshot/audience/1';

/** What a fingerprint is made from. Order does not matter, and a reader named twice at one floor is one. */
export interface FingerprintInput {
  readonly organization: string;
  readonly destination: string;
  readonly readers: readonly { readonly reader: Reader; readonly floor: Floor }[];
}

/**
 * The fingerprint: SHA-256 over the canonical encoding of version, organization, destination and the
 * readers with their floors, sorted by UTF-8 bytes; 64 lowercase hex digits.
 *
 * It names an audience and permits nothing (INVARIANT 7). The SQL function `earshot.fingerprint`
 * gives the same digest; `fixtures/vectors/fingerprints.json` holds both to it. Throws on an empty
 * audience (INVARIANT 10) and on one reader with two floors, which no audience has.
 */
export function fingerprint(audience: FingerprintInput): string {
  if (audience.readers.length === 0) throw new RangeError('an empty audience has no fingerprint');
  const rows = new Map<string, { kind: string; id: string; floor: Floor }>();
  for (const { reader, floor } of audience.readers) {
    const [kind, id] = readerName(reader);
    const key = `${kind.length.toString()}:${kind}${id}`;
    const known = rows.get(key);
    if (known !== undefined && known.floor !== floor)
      throw new RangeError('one reader has two floors');
    rows.set(key, { kind, id, floor });
  }
  const sorted = [...rows.values()].sort(
    (a, b) => compareUtf8(a.kind, b.kind) || compareUtf8(a.id, b.id),
  );
  const parts: Part[] = [FINGERPRINT_VERSION, audience.organization, audience.destination];
  for (const { kind, id, floor } of sorted) parts.push(kind, id, floor);
  return bytesToHex(digestParts(parts));
}
