import fc from 'fast-check';
import type { ConversationKind, UserKind, Visibility } from '../../policy/fact.ts';
import { NO_HISTORY, type Floor } from '../../policy/floor.ts';
import { externalId, type ExternalId } from '../../policy/identity.ts';
import { parseInstant, type Instant } from '../../policy/instant.ts';
import type {
  World,
  WorldConversation,
  WorldMembership,
  WorldMessage,
  WorldProject,
  WorldSource,
  WorldUser,
} from '../../policy/world.ts';
import { nastyId } from './nasty-ids.ts';

/** A world with what the rules do not read and the answers show. */
export interface TestWorld extends World {
  /** The first one serves the organization. */
  readonly personas: readonly ExternalId[];
  readonly messages: readonly TestMessage[];
  readonly titles: ReadonlyMap<ExternalId, string>;
  /** Where a test that takes a sample of something takes it. */
  readonly picks: readonly number[];
}

export interface TestMessage extends WorldMessage {
  /** Holds the canary, as the body does: a word that occurs in no other message. */
  readonly id: ExternalId;
  readonly canary: string;
  readonly sentAt: Instant;
  readonly replyTo?: ExternalId;
  readonly embeds: readonly { readonly conversation: ExternalId; readonly message: ExternalId }[];
}

/** The moment that worlds are judged at. Long past, so that what expires near it has expired by the clock. */
export const NOW: Instant = instant('2001-09-09T01:46:40.123456Z');
const FAR_FUTURE = instant('2999-12-31T23:59:59.999999Z');
const EXPIRIES = [NOW - 1n, NOW, NOW + 1n, instant('1970-01-01T00:00:00Z'), FAR_FUTURE] as const;

/** Words of bodies and queries, which the English stemmer leaves as they are. */
export const WORDS = ['lantern', 'harbor', 'pewter'] as const;

/**
 * One organization, small, and likely to be interesting: conversations that several people share,
 * private threads, several routes for one person, floors and expiries at their edges.
 */
export const worlds: fc.Arbitrary<TestWorld> = plan().map(build);

type Plan = ReturnType<typeof plan> extends fc.Arbitrary<infer Value> ? Value : never;

/** Everything by position, so that a world shrinks by dropping parts of it. */
function plan() {
  const index = fc.nat({ max: 7 });
  const rarely = (weight: number) =>
    fc.oneof(
      { arbitrary: fc.constant(false), weight },
      { arbitrary: fc.constant(true), weight: 1 },
    );
  const maybe = <Value>(arbitrary: fc.Arbitrary<Value>, present: number, absent: number) =>
    fc.oneof({ arbitrary: fc.constant(undefined), weight: absent }, { arbitrary, weight: present });
  const floor = fc.oneof(
    { arbitrary: fc.constant('first' as const), weight: 6 },
    { arbitrary: fc.constantFrom('second', 'head', 'above', 'none'), weight: 3 },
    { arbitrary: index, weight: 1 },
  );
  const message = fc.record({
    author: fc.oneof(
      { arbitrary: fc.record({ user: index }), weight: 6 },
      { arbitrary: fc.record({ persona: index }), weight: 3 },
      { arbitrary: fc.constant(undefined), weight: 1 },
    ),
    words: fc.array(fc.constantFrom(...WORDS), { maxLength: 3 }),
    deleted: rarely(8),
    edited: rarely(6),
    sources: maybe(
      fc.array(
        fc.record({
          conversation: index,
          seq: index,
          kind: fc.constantFrom('message', 'message', 'stretch'),
        }),
        { maxLength: 2 },
      ),
      1,
      3,
    ),
    replyTo: maybe(index, 1, 2),
    embeds: fc.array(fc.record({ conversation: index, seq: index }), { maxLength: 1 }),
  });
  const member = fc.record({
    user: index,
    floor,
    expiry: maybe(fc.constantFrom(...EXPIRIES), 1, 4),
  });
  const conversation = fc.record({
    kind: fc.constantFrom<ConversationKind>('private', 'group', 'channel', 'direct'),
    // A private thread has its owner for its only member.
    private: rarely(3),
    visibility: fc.oneof(
      { arbitrary: fc.constant<Visibility>('members'), weight: 3 },
      { arbitrary: fc.constant<Visibility>('project'), weight: 3 },
      { arbitrary: fc.constant<Visibility>('organization'), weight: 2 },
    ),
    project: maybe(fc.constantFrom(0, 0, 0, 1, 2), 1, 1),
    owner: maybe(index, 2, 1),
    aiThread: fc.constantFrom(true, true, false),
    everShared: rarely(4),
    externalReaders: rarely(24),
    unresolvedMembers: fc.oneof(
      { arbitrary: fc.constant(0), weight: 16 },
      { arbitrary: fc.nat({ max: 2 }), weight: 1 },
    ),
    archived: rarely(24),
    deleted: rarely(24),
    staged: rarely(24),
    defaultFloor: floor,
    everyone: rarely(1),
    members: fc.array(member, { maxLength: 5 }),
    messages: fc.array(message, { maxLength: 6 }),
  });
  return fc.record({
    organization: fc.record({ id: nastyId, suspended: rarely(24) }),
    ids: fc.record({
      users: fc.uniqueArray(nastyId, { minLength: 6, maxLength: 6, size: 'max' }),
      projects: fc.uniqueArray(nastyId, { minLength: 3, maxLength: 3, size: 'max' }),
      conversations: fc.uniqueArray(nastyId, { minLength: 8, maxLength: 8, size: 'max' }),
      personas: fc.uniqueArray(nastyId, { minLength: 2, maxLength: 2, size: 'max' }),
    }),
    users: fc.array(
      fc.record({
        kind: fc.constantFrom<UserKind>(
          'member',
          'member',
          'member',
          'member',
          'guest',
          'guest',
          'bot',
        ),
        inactive: rarely(10),
      }),
      { minLength: 2, maxLength: 6 },
    ),
    projects: fc.array(
      fc.record({
        inactive: rarely(5),
        admitsGuests: fc.boolean(),
        members: fc.array(index, { maxLength: 6, size: 'max' }),
      }),
      { maxLength: 3, size: 'max' },
    ),
    conversations: fc.array(conversation, { minLength: 1, maxLength: 8, size: 'max' }),
    picks: fc.array(fc.nat({ max: 997 }), { minLength: 4, maxLength: 4 }),
  });
}

function build(plan: Plan): TestWorld {
  const users = plan.users.map((user, i): WorldUser => ({
    id: pick(plan.ids.users, i),
    kind: user.kind,
    active: !user.inactive,
  }));
  const projects = plan.projects.map((project, i): WorldProject => ({
    id: pick(plan.ids.projects, i),
    active: !project.inactive,
    admitsGuests: project.admitsGuests,
    members: new Set(project.members.map((member) => pick(users, member).id)),
  }));
  const conversations = plan.conversations.map((planned, i) =>
    buildConversation(planned, pick(plan.ids.conversations, i), users, projects),
  );
  const world = {
    organization: { id: plan.organization.id, active: !plan.organization.suspended },
    users: byId(users),
    projects: byId(projects),
    conversations: byId(conversations),
    memberships: plan.conversations.flatMap((planned, i) =>
      buildMemberships(planned, pick(conversations, i), users),
    ),
    personas: plan.ids.personas,
    titles: new Map(conversations.map(({ id }, i) => [id, `title t${i}q`])),
    picks: plan.picks,
  };
  return { ...world, ...buildMessages(plan, users, conversations) };
}

type PlannedConversation = Plan['conversations'][number];

function buildConversation(
  planned: PlannedConversation,
  id: ExternalId,
  users: readonly WorldUser[],
  projects: readonly WorldProject[],
): WorldConversation {
  const project =
    planned.project === undefined ? undefined : maybePick(projects, planned.project)?.id;
  const owner = planned.owner ?? (planned.private ? 0 : undefined);
  const visibility =
    planned.private || (planned.visibility === 'project' && project === undefined)
      ? 'members'
      : planned.visibility;
  return {
    id,
    kind: planned.kind,
    visibility,
    ...(project === undefined ? {} : { project }),
    ...(owner === undefined ? {} : { owner: pick(users, owner).id }),
    aiThread: planned.aiThread,
    everShared: planned.everShared,
    externalReaders: planned.externalReaders,
    unresolvedMembers: planned.unresolvedMembers,
    defaultFloor: floorOf(planned.defaultFloor, planned),
    archived: planned.archived,
    deleted: planned.deleted,
    staged: planned.staged,
  };
}

function buildMemberships(
  planned: PlannedConversation,
  { id, owner }: WorldConversation,
  users: readonly WorldUser[],
): WorldMembership[] {
  const rows = new Map<ExternalId, WorldMembership>();
  for (const { user, floor, expiry } of planned.members) {
    const person = planned.private ? (owner ?? pick(users, user).id) : pick(users, user).id;
    rows.set(person, {
      conversation: id,
      user: person,
      floor: floorOf(floor, planned),
      ...(expiry === undefined ? {} : { expiresAt: expiry }),
    });
  }
  if (planned.everyone && !planned.private) {
    for (const { id: user } of users) {
      if (!rows.has(user)) rows.set(user, { conversation: id, user, floor: 1n });
    }
  }
  return [...rows.values()];
}

function buildMessages(
  plan: Plan,
  users: readonly WorldUser[],
  conversations: readonly WorldConversation[],
) {
  const nameOf = (conversation: number, seq: number) => {
    const at = conversation % conversations.length;
    return {
      at,
      conversation: pick(conversations, at).id,
      message: externalId(`m-${canaryOf(at, seq)}`),
    };
  };
  const lineages = new Map<string, WorldSource[]>();
  const messages = plan.conversations.flatMap((planned, i) =>
    planned.messages.map((message, j): TestMessage => {
      const seq = j + 1;
      let delivery: string | undefined;
      if (message.sources !== undefined) {
        delivery = `00000000-0000-4000-8000-${(lineages.size + 1).toString().padStart(12, '0')}`;
        lineages.set(
          delivery,
          message.sources.map((source) => {
            const fromSeq = BigInt(source.seq % 7) + 1n;
            return {
              conversation: nameOf(source.conversation, 0).conversation,
              fromSeq,
              ...(source.kind === 'message' ? { toSeq: fromSeq } : {}),
            };
          }),
        );
      }
      const canary = canaryOf(i, seq);
      return {
        conversation: pick(conversations, i).id,
        seq: BigInt(seq),
        ...authorOf(message.author, users, plan.ids.personas),
        id: nameOf(i, seq).message,
        canary,
        body: [canary, ...message.words].join(' '),
        deleted: message.deleted,
        edited: message.edited,
        sentAt: NOW + BigInt(i * 7 + j),
        ...(delivery === undefined ? {} : { delivery }),
        ...(message.replyTo === undefined
          ? {}
          : { replyTo: nameOf(i, message.replyTo % 7).message }),
        embeds: message.embeds.map(({ conversation, seq: target }) => {
          const { conversation: name, message: id } = nameOf(conversation, (target % 6) + 1);
          return { conversation: name, message: id };
        }),
      };
    }),
  );
  return { messages, lineages: flatten(lineages, messages) };
}

/** Gives each lineage the sources of whatever in it came out of a delivery itself. */
function flatten(
  lineages: ReadonlyMap<string, readonly WorldSource[]>,
  messages: readonly TestMessage[],
): Map<string, WorldSource[]> {
  const keyOf = ({ conversation, fromSeq, toSeq }: WorldSource) =>
    `${fromSeq} ${toSeq === undefined ? 'up' : 'only'} ${conversation}`;
  return new Map(
    [...lineages].map(([delivery, sources]) => {
      const all = new Map(sources.map((source) => [keyOf(source), source]));
      // A map's iteration goes on over what is added to it.
      for (const source of all.values()) {
        const inner = messages.find(
          ({ conversation, seq }) => source.toSeq === seq && source.conversation === conversation,
        )?.delivery;
        for (const deeper of lineages.get(inner ?? '') ?? []) {
          if (!all.has(keyOf(deeper))) all.set(keyOf(deeper), deeper);
        }
      }
      return [delivery, [...all.values()]];
    }),
  );
}

function authorOf(
  author: { user: number } | { persona: number } | undefined,
  users: readonly WorldUser[],
  personas: readonly ExternalId[],
): Pick<WorldMessage, 'author'> {
  if (author === undefined) return {};
  return {
    author:
      'user' in author
        ? { user: pick(users, author.user).id }
        : { persona: pick(personas, author.persona) },
  };
}

function floorOf(choice: string | number, { messages }: PlannedConversation): Floor {
  const head = BigInt(messages.length);
  if (typeof choice === 'number') return BigInt(choice + 1);
  switch (choice) {
    case 'second':
      return 2n;
    case 'head':
      return head === 0n ? 1n : head;
    case 'above':
      return head + 1n;
    case 'none':
      return NO_HISTORY;
    default:
      return 1n;
  }
}

function canaryOf(conversation: number, seq: number): string {
  return `c${conversation}m${seq}q`;
}

function byId<Item extends { readonly id: ExternalId }>(
  items: readonly Item[],
): Map<ExternalId, Item> {
  return new Map(items.map((item) => [item.id, item]));
}

/** An item of a list that is not empty, by an index of any size. */
export function pick<Item>(items: readonly Item[], index: number): Item {
  const item = maybePick(items, index);
  if (item === undefined) throw new RangeError('nothing to pick from');
  return item;
}

function maybePick<Item>(items: readonly Item[], index: number): Item | undefined {
  return items[index % items.length];
}

function instant(text: string): Instant {
  const parsed = parseInstant(text);
  if (parsed === undefined) throw new RangeError('not an instant');
  return parsed;
}
