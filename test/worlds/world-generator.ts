import fc from 'fast-check';
import type { ConversationKind, UserKind, Visibility } from '../../policy/fact.ts';
import { NO_HISTORY, type Floor } from '../../policy/floor.ts';
import { externalId, type ExternalId } from '../../policy/identity.ts';
import { parseInstant, type Instant } from '../../policy/instant.ts';
import type {
  World,
  WorldArtifact,
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
  readonly artifacts: readonly TestArtifact[];
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

/** Its body and its title begin with the canary, and its number stands below zero. */
export interface TestArtifact extends WorldArtifact {
  readonly seq: bigint;
  readonly canary: string;
  readonly kind: 'memory' | 'summary' | 'draft' | 'note';
  readonly title?: string;
  readonly asserted: boolean;
  readonly persona?: ExternalId;
  readonly createdAt: Instant;
}

/** A message, or an artifact as the tools have it. */
export interface TestText extends TestMessage {
  readonly artifact?: TestArtifact;
}

export function textOf(artifact: TestArtifact): TestText {
  const { id, home, seq, canary, body, deleted, persona, createdAt } = artifact;
  return {
    ...{ conversation: home, seq, id: externalId(id), canary, body, deleted, artifact },
    ...{ edited: false, delivery: id, sentAt: createdAt, embeds: [] },
    ...(persona !== undefined && { author: { persona } }),
  };
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
  const source = fc.record({
    conversation: index,
    seq: index,
    // In the conversation of what is made from it.
    near: rarely(1),
    kind: fc.constantFrom('message', 'message', 'message', 'stretch', 'artifact'),
    editedSince: rarely(4),
  });
  const artifact = fc.record({
    kind: fc.constantFrom<TestArtifact['kind']>('memory', 'summary', 'draft', 'note'),
    titled: fc.boolean(),
    words: fc.array(fc.constantFrom(...WORDS), { maxLength: 3 }),
    deleted: rarely(8),
    // Asserted where there is none.
    persona: maybe(index, 2, 1),
    sources: fc.oneof(
      { arbitrary: fc.array(source, { minLength: 1, maxLength: 2 }), weight: 4 },
      { arbitrary: fc.array(source, { maxLength: 4 }), weight: 1 },
    ),
  });
  const message = fc.record({
    author: fc.oneof(
      { arbitrary: fc.record({ user: index }), weight: 6 },
      { arbitrary: fc.record({ persona: index }), weight: 3 },
      { arbitrary: fc.constant(undefined), weight: 1 },
    ),
    words: fc.array(fc.constantFrom(...WORDS), { maxLength: 3 }),
    deleted: rarely(8),
    edited: rarely(6),
    sources: maybe(fc.array(source, { maxLength: 2 }), 1, 3),
    replyTo: maybe(index, 1, 2),
    embeds: fc.array(fc.record({ conversation: index, seq: index, artifact: rarely(4) }), {
      maxLength: 1,
    }),
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
    artifacts: fc.array(artifact, { maxLength: 2 }),
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
  return { ...world, ...buildTexts(plan, users, conversations) };
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

function buildTexts(
  plan: Plan,
  users: readonly WorldUser[],
  conversations: readonly WorldConversation[],
) {
  const artifacts = buildArtifacts(plan, conversations);
  const nameOf = (conversation: number, seq: number) => {
    const at = conversation % conversations.length;
    return {
      at,
      conversation: pick(conversations, at).id,
      message: externalId(`m-${canaryOf(at, seq)}`),
    };
  };
  type PlannedSource = Plan['conversations'][number]['artifacts'][number]['sources'][number];
  /** Of artifacts, those that were there before. */
  const sourceOf = (
    home: number,
    { conversation, near, seq, kind, editedSince }: PlannedSource,
    before: readonly TestArtifact[] = artifacts,
  ): WorldSource => {
    const artifact = near ? before.at(-1) : maybePick(before, conversation * 7 + seq);
    if (kind === 'artifact' && artifact !== undefined) return { artifact: artifact.id };
    const { at, conversation: name } = nameOf(near ? home : conversation, 0);
    // One that is there, but for a few.
    const many = Math.max(pick(plan.conversations, at).messages.length, 1);
    const fromSeq = BigInt(seq === 7 ? seq : (seq % many) + 1);
    const place = { conversation: name, fromSeq };
    if (kind === 'stretch') return place;
    return { ...place, toSeq: fromSeq, editedSince };
  };
  /** A message of the same conversation, or rarely an artifact that is at home there, which is no message. */
  const replyTo = (at: number, index: number) => {
    const { conversation, message } = nameOf(at, index % 7);
    const artifact = artifacts.find(({ home }) => home === conversation);
    return index === 7 && artifact !== undefined ? externalId(artifact.id) : message;
  };
  const lineages = new Map<string, WorldSource[]>();
  const planned = plan.conversations.flatMap((conversation, home) =>
    conversation.artifacts.map(({ sources }) => ({ home, sources })),
  );
  for (const [n, { home, sources }] of planned.entries()) {
    const before = artifacts.slice(0, n);
    lineages.set(
      pick(artifacts, n).id,
      sources.map((source) => sourceOf(home, source, before)),
    );
  }
  const messages = plan.conversations.flatMap((planned, i) =>
    planned.messages.map((message, j): TestMessage => {
      const seq = j + 1;
      let delivery: string | undefined;
      if (message.sources !== undefined) {
        delivery = `00000000-0000-4000-8000-${(lineages.size + 1).toString().padStart(12, '0')}`;
        lineages.set(
          delivery,
          message.sources.map((source) => sourceOf(i, source)),
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
        ...(delivery === undefined
          ? {}
          : { delivery, editedByDelivery: message.edited && (i + j) % 2 === 0 }),
        ...(message.replyTo === undefined ? {} : { replyTo: replyTo(i, message.replyTo) }),
        embeds: message.embeds.map(({ conversation, seq: target, artifact }) => {
          const { conversation: name, message: id } = nameOf(conversation, (target % 6) + 1);
          // One that names an artifact names no message.
          const at = artifact ? maybePick(artifacts, conversation * 7 + target) : undefined;
          return at === undefined
            ? { conversation: name, message: id }
            : { conversation: at.home, message: externalId(at.id) };
        }),
      };
    }),
  );
  return { messages, artifacts, lineages: flatten(lineages, messages) };
}

function buildArtifacts(
  plan: Plan,
  conversations: readonly WorldConversation[],
): readonly TestArtifact[] {
  let made = 0;
  return plan.conversations.flatMap(({ artifacts }, i) =>
    artifacts.map((artifact, j): TestArtifact => {
      made += 1;
      const canary = canaryOf(i, 50 + j);
      const { kind, deleted, persona, titled, words } = artifact;
      return {
        id: `30000000-0000-4000-8000-${made.toString().padStart(12, '0')}`,
        home: pick(conversations, i).id,
        // In another order than that in which they were made.
        seq: -1n - BigInt((made * 7) % 31),
        canary,
        kind,
        ...(titled && { title: `${canary} title` }),
        body: [canary, ...words].join(' '),
        deleted,
        asserted: persona === undefined,
        ...(persona !== undefined && { persona: pick(plan.ids.personas, persona) }),
        createdAt: NOW + BigInt(i * 7 + j),
      };
    }),
  );
}

/** Gives each lineage the sources of whatever in it is derived itself: an artifact, or what came out of a delivery. */
function flatten(
  lineages: ReadonlyMap<string, readonly WorldSource[]>,
  messages: readonly TestMessage[],
): Map<string, WorldSource[]> {
  const keyOf = (source: WorldSource) =>
    'artifact' in source
      ? source.artifact
      : `${source.fromSeq} ${source.toSeq === undefined ? 'up' : 'only'} ${source.conversation}`;
  const madeFrom = (source: WorldSource) =>
    'artifact' in source
      ? source.artifact
      : messages.find(
          ({ conversation, seq }) => source.toSeq === seq && source.conversation === conversation,
        )?.delivery;
  return new Map(
    [...lineages].map(([delivery, sources]) => {
      const all = new Map(sources.map((source) => [keyOf(source), source]));
      // A map's iteration goes on over what is added to it.
      for (const source of all.values()) {
        for (const deeper of lineages.get(madeFrom(source) ?? '') ?? []) {
          if (!all.has(keyOf(deeper))) all.set(keyOf(deeper), inherited(deeper));
        }
      }
      return [delivery, [...all.values()]];
    }),
  );
}

/** What it is read as there: whether it was edited since is not known of what is inherited. */
function inherited(source: WorldSource): WorldSource {
  if ('artifact' in source || source.toSeq === undefined) return source;
  const { editedSince: _editedSince, ...rest } = source;
  return rest;
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
