import { externalId, type ExternalId } from '../../policy/identity.ts';
import type { WorldConversation, WorldMembership, WorldSource } from '../../policy/world.ts';
import type { DoorTurn } from './door.ts';
import { NASTY_IDS } from './nasty-ids.ts';
import {
  pick,
  WORDS,
  type TestArtifact,
  type TestMessage,
  type TestWorld,
} from './world-generator.ts';

/** The world with one more member of a conversation: a version for each person who is not one. */
export function withReader(
  world: TestWorld,
  { id }: WorldConversation,
  allHistory: boolean,
): TestWorld[] {
  const members = new Set(
    world.memberships.filter(({ conversation }) => conversation === id).map(({ user }) => user),
  );
  const floor = allHistory ? 1n : 3n;
  return [...world.users.keys()]
    .filter((user) => !members.has(user))
    .map((user) => ({
      ...world,
      memberships: [...world.memberships, { conversation: id, user, floor }],
    }));
}

/**
 * The world with rows that this turn may not see, all of them about the words that are searched for: a
 * conversation of its own, more messages where the turn does not read, and in every conversation messages that are
 * deleted, an assistant's that nothing accounts for, and answers whose sources are out of scope or unknown; and artifacts
 * of the same kinds.
 */
export function withHiddenRows({ world, turn, scope, plain }: DoorTurn): TestWorld {
  const hidden = externalId('hidden conversation');
  const template = turn.destination;
  const conversation: WorldConversation = {
    id: hidden,
    kind: template.kind,
    visibility: 'members',
    ...(template.project === undefined ? {} : { project: template.project }),
    aiThread: true,
    everShared: true,
    externalReaders: false,
    unresolvedMembers: 0,
    defaultFloor: 1n,
    archived: false,
    deleted: false,
    staged: false,
  };
  const readers = new Set(
    plain.audience.readers.map(({ reader }) => (reader.kind === 'user' ? reader.user : undefined)),
  );
  const outsiders = [...world.users.keys()].filter(
    (user) => !readers.has(user) && user !== turn.requester && plain.mode.extent !== 'destination',
  );
  const openClass = plain.audience.readers.some(({ reader }) => reader.kind !== 'user');
  const memberships: WorldMembership[] = (openClass ? [...world.users.keys()] : outsiders).map(
    (user) => ({ conversation: hidden, user, floor: 1n }),
  );

  // From a source out of scope, and from none.
  const lineages = new Map(world.lineages);
  const derivedFrom = (...sources: WorldSource[]) => {
    const delivery = `10000000-0000-4000-8000-${String(lineages.size).padStart(12, '0')}`;
    lineages.set(delivery, sources);
    return delivery;
  };
  const persona = pick(world.personas, 0);
  const text = WORDS.join(' ').repeat(3);
  const artifacts = [...world.conversations.keys(), hidden].flatMap((home, i) =>
    [[], [{ conversation: hidden, fromSeq: 1n }], [{ conversation: home, fromSeq: 1n }]].map(
      (sources, n): TestArtifact => {
        const id = derivedFrom(...sources);
        return {
          ...{ id, home, seq: BigInt(-100 - n), canary: `h${i}m${50 + n}q`, kind: 'note' },
          // What would be readable is deleted.
          ...{ body: `h${i}m${50 + n}q ${text}`, deleted: n === 2, asserted: true },
          createdAt: 0n,
        };
      },
    ),
  );
  const additions = [...world.conversations.keys(), hidden].flatMap((id, i): TestMessage[] => {
    const message = (n: number, more: Partial<TestMessage>): TestMessage => ({
      conversation: id,
      // Above what any lineage names, so that no source comes into being.
      seq: BigInt(8 + n),
      id: externalId(`hidden ${i} ${n}`),
      canary: `h${i}m${n}q`,
      body: `h${i}m${n}q ${text}`,
      deleted: false,
      edited: false,
      sentAt: 0n,
      embeds: [],
      ...more,
    });
    return [
      message(1, { deleted: true }),
      message(2, { delivery: derivedFrom() }),
      message(3, {
        delivery: derivedFrom({ conversation: hidden, fromSeq: 1n }),
        author: { persona },
      }),
      ...(id === turn.destination.id ? [] : [message(4, { author: { persona } })]),
      ...(scope.has(id) ? [] : [message(5, { author: { user: turn.requester } })]),
    ];
  });
  return {
    ...world,
    conversations: new Map([[hidden, conversation], ...world.conversations]),
    titles: new Map([[hidden, 'title hidden'], ...world.titles]),
    memberships: [...memberships, ...world.memberships],
    messages: [...additions, ...world.messages],
    artifacts: [...artifacts, ...world.artifacts],
    lineages,
  };
}

/** The world with other names for its people, no two of them alike. */
export function withUsersRenamed(world: TestWorld, shift: number) {
  const free = NASTY_IDS.slice(shift).concat(NASTY_IDS.slice(0, shift));
  const names = new Map(Array.from(world.users.keys(), (id, i) => [id, pick(free, i)]));
  const named = (id: ExternalId) => names.get(id) ?? id;
  const renamed: TestWorld = {
    ...world,
    users: new Map(
      Array.from(world.users.values(), (user) => [named(user.id), { ...user, id: named(user.id) }]),
    ),
    projects: new Map(
      Array.from(world.projects, ([id, project]) => [
        id,
        { ...project, members: new Set(Array.from(project.members, named)) },
      ]),
    ),
    conversations: new Map(
      Array.from(world.conversations, ([id, conversation]) => [
        id,
        conversation.owner === undefined
          ? conversation
          : { ...conversation, owner: named(conversation.owner) },
      ]),
    ),
    memberships: world.memberships.map((row) => ({ ...row, user: named(row.user) })),
    messages: world.messages.map((message) =>
      message.author !== undefined && 'user' in message.author
        ? { ...message, author: { user: named(message.author.user) } }
        : message,
    ),
  };
  return { world: renamed, names };
}

/** The same facts in another order, and so with other surrogate keys. */
export function withOtherOrder(world: TestWorld, seed: number): TestWorld {
  let state = seed;
  const shuffled = <Item>(items: Iterable<Item>): Item[] =>
    Array.from(items, (item) => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return { item, place: state };
    })
      .sort((a, b) => a.place - b.place)
      .map(({ item }) => item);
  return {
    ...world,
    users: new Map(shuffled(world.users)),
    projects: new Map(shuffled(world.projects)),
    conversations: new Map(shuffled(world.conversations)),
    memberships: shuffled(world.memberships),
    messages: shuffled(world.messages),
    artifacts: shuffled(world.artifacts),
    lineages: new Map(shuffled(world.lineages)),
  };
}
