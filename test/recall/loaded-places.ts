import type { TestGateway } from '../support/gateway.ts';
import type { TestOrganization } from '../support/organization.ts';
import { floorOf, type Asking, type GatedCorpus, type GatedPlace } from './gated-places.ts';

/** All of a gated corpus in an organization of its own, with its floors. */
export async function loadGated(
  host: Pick<TestGateway, 'organization'>,
  { places, askings, witness }: GatedCorpus,
): Promise<TestOrganization> {
  const organization = await host.organization();
  await loadPlaces(organization, places, [witness, ...askings.flatMap(({ readers }) => readers)]);
  return organization;
}

/**
 * Exactly what the readers of an asking may see, in an organization of one reader who reads everything from the
 * first message on. What they may not see is a deleted message here, so that each keeps its sequence.
 */
export async function loadVisible(
  host: Pick<TestGateway, 'organization'>,
  { places }: GatedCorpus,
  { readers }: Asking,
  reader: string,
): Promise<TestOrganization> {
  const organization = await host.organization();
  const visible = places.flatMap((place) => {
    const floor = floorOf(place, readers);
    if (floor === undefined) return [];
    const messages = place.messages.map((message, index) =>
      index + 1 < floor ? { ...message, body: '' } : message,
    );
    return { ...place, messages, members: new Map([[reader, 1]]), openFrom: undefined };
  });
  await loadPlaces(organization, visible, [reader]);
  return organization;
}

/** Makes the thread in which these readers ask. */
export async function openThread(
  organization: TestOrganization,
  thread: string,
  readers: readonly string[],
): Promise<void> {
  const [owner] = readers;
  await organization.conversation(thread, readers, {
    aiThread: true,
    ...(readers.length === 1 && { kind: 'private', owner }),
  });
}

/** Requests stay below the limit of a body. */
const CHARACTERS = 500_000;

async function loadPlaces(
  organization: TestOrganization,
  places: readonly GatedPlace[],
  people: readonly string[],
): Promise<void> {
  const authors = places.flatMap(({ messages }) => messages.map(({ author }) => author));
  const members = places.flatMap((place) => [...place.members.keys()]);
  await organization.users(...new Set([...people, ...authors, ...members]));
  let [batch, size]: [object[], number] = [[], 0];
  for (const line of places.flatMap(placeLines)) {
    batch.push(line);
    size += JSON.stringify(line).length;
    if (size > CHARACTERS) {
      await organization.facts(...batch);
      [batch, size] = [[], 0];
    }
  }
  await organization.facts(...batch);
}

function placeLines({ id, members, openFrom, messages }: GatedPlace): object[] {
  return [
    {
      fact: 'conversation',
      id,
      kind: openFrom === undefined ? 'group' : 'channel',
      staged: true,
      ...(openFrom === undefined
        ? { visibility: 'members' }
        : { visibility: 'organization', defaultFloor: openFrom.toString() }),
    },
    ...messages.map((message, index) => ({
      fact: 'message',
      conversation: id,
      id: message.id,
      author: { user: message.author },
      body: message.body,
      // An empty body stands for what is not there.
      ...(message.body === '' && { deleted: true }),
      sentAt: new Date(Date.UTC(2026, 0, 1) + index * 60_000).toISOString(),
    })),
    {
      fact: 'members',
      conversation: id,
      members: [...members].map(([user, floor]) => ({
        user,
        history: { fromSeq: floor.toString() },
      })),
    },
    { fact: 'open', conversation: id },
  ];
}
