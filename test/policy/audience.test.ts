import { describe, expect, test } from 'vitest';
import { audienceOf, fingerprint, isInAudience, type Audience } from '../../policy/audience.ts';
import type { World } from '../../policy/world.ts';
import { conversationOf, id, NOW, smallWorld, type SmallWorld } from './small-world.ts';

type Conversation = SmallWorld['conversations'][string];

describe('the audience of a destination', () => {
  test('is its members, each with a floor, and begins at the highest', () => {
    expect(readersOf({ members: { anna: 1, ben: 7 } })).toEqual(['anna 1', 'ben 7']);
    expect(audience(one({ members: { anna: 1, ben: 7 } }))).toMatchObject({ floor: 7n });
  });

  test('is nobody only when it is refused', () => {
    expect(readersOf({ members: { anna: 1 } })).toEqual(['anna 1']);
    expect(readersOf({ members: {} })).toBe('empty_audience');
  });

  test('has no member whose time is up, from that very moment on', () => {
    expect(readersOf({ members: { anna: 1, gus: { expiresAt: NOW + 1n } } })).toEqual([
      'anna 1',
      'gus 1',
    ]);
    expect(readersOf({ members: { anna: 1, gus: { expiresAt: NOW } } })).toEqual(['anna 1']);
  });

  test.each([
    { why: 'a bot', user: { kind: 'bot' } },
    { why: 'deactivated', user: { active: false } },
  ] as const)('has no member who is $why', ({ user }) => {
    const conversations = { x: { members: { anna: 1, robin: 1 } } };
    expect(names(smallWorld({ users: { robin: {} }, conversations }))).toEqual([
      'anna 1',
      'robin 1',
    ]);
    expect(names(smallWorld({ users: { robin: user }, conversations }))).toEqual(['anna 1']);
  });

  test('cannot be listed when it is relayed to readers elsewhere', () => {
    expect(readersOf({ members: { anna: 1 }, externalReaders: true })).toBe('unlistable_audience');
  });

  test('cannot be listed when a member is unknown', () => {
    expect(readersOf({ members: { anna: 1 }, unresolvedMembers: 1 })).toBe('unlistable_audience');
  });

  test.each([{ deleted: true }, { staged: true }])(
    'is empty when the destination is %j',
    (state) => {
      expect(readersOf({ members: { anna: 1 }, ...state })).toBe('empty_audience');
    },
  );

  test('is empty in a suspended organization', () => {
    const conversations = { x: { members: { anna: 1 } } };
    expect(names(smallWorld({ conversations, suspended: true }))).toBe('empty_audience');
  });

  test('names the class of an open channel, and beside it only those whom it does not cover', () => {
    const open: Conversation = {
      visibility: 'organization',
      defaultFloor: 3n,
      members: { anna: 1, gus: 5 },
    };
    expect(readersOf(open)).toEqual(['class:organization 3', 'gus 5']);
    expect(readersOf({ ...open, visibility: 'members' })).toEqual(['anna 1', 'gus 5']);
  });

  test('names the class of a project while the project is active', () => {
    const conversations: SmallWorld['conversations'] = {
      x: { visibility: 'project', project: id('p'), members: { anna: 2, ben: 2 } },
    };
    const world = (active: boolean) =>
      smallWorld({ projects: { p: { active, members: ['anna'] } }, conversations });
    expect(names(world(true))).toEqual(['ben 2', 'class:project p 1']);
    expect(names(world(false))).toEqual(['anna 2', 'ben 2']);
  });

  test('does not change when somebody joins whom the class covers', () => {
    const open: Conversation = { visibility: 'organization', members: { gus: 1 } };
    expect(readersOf({ ...open, members: { gus: 1, cleo: 1 } })).toEqual(readersOf(open));
    expect(readersOf({ ...open, members: { gus: 1, guest: 1 } })).toEqual(readersOf(open));
  });
});

describe('being in an audience', () => {
  test('takes a membership, or a class that covers the person', () => {
    expect(contains(one({ members: { anna: 1 } }), 'anna')).toBe(true);
    expect(contains(one({ members: { anna: 1 } }), 'ben')).toBe(false);
    const open = one({ visibility: 'organization', members: {} });
    expect(contains(open, 'ben')).toBe(true);
    expect(contains(open, 'gus')).toBe(false);
    expect(contains(open, 'nobody')).toBe(false);
  });

  test('takes a project that admits guests, for a guest', () => {
    const world = (admitsGuests: boolean) =>
      smallWorld({
        projects: { p: { admitsGuests, members: ['gus'] } },
        conversations: { x: { visibility: 'project', project: id('p') } },
      });
    expect(contains(world(true), 'gus')).toBe(true);
    expect(contains(world(false), 'gus')).toBe(false);
  });
});

describe('a fingerprint', () => {
  const of = (members: NonNullable<Conversation['members']>) =>
    fingerprint(listed(one({ members })));

  test('is 64 lowercase hex digits', () => {
    expect(of({ anna: 1 })).toMatch(/^[0-9a-f]{64}$/);
  });

  test('does not depend on the order of readers, nor on one being named twice', () => {
    const { readers, ...rest } = listed(one({ members: { anna: 1, ben: 2 } }));
    const expected = fingerprint({ ...rest, readers });
    expect(fingerprint({ ...rest, readers: [...readers].reverse() })).toBe(expected);
    expect(fingerprint({ ...rest, readers: [...readers, ...readers] })).toBe(expected);
  });

  test('depends on each member and on each floor', () => {
    const expected = of({ anna: 1, ben: 2 });
    expect(of({ anna: 1 })).not.toBe(expected);
    expect(of({ anna: 1, ben: 3 })).not.toBe(expected);
    expect(of({ anna: 1, cleo: 2 })).not.toBe(expected);
  });

  test('names a class apart from a user of that name', () => {
    const entry = { floor: 1n };
    const audience = { organization: 'acme', destination: 'x' };
    const user = { reader: { kind: 'user', user: id('p') }, ...entry } as const;
    const project = { reader: { kind: 'class:project', project: id('p') }, ...entry } as const;
    expect(fingerprint({ ...audience, readers: [user] })).not.toBe(
      fingerprint({ ...audience, readers: [project] }),
    );
  });

  test('is not made of an empty audience, nor of one reader with two floors', () => {
    const { readers, ...rest } = listed(one({ members: { anna: 1 } }));
    expect(() => fingerprint({ ...rest, readers: [] })).toThrow(RangeError);
    const moved = readers.map((entry) => ({ ...entry, floor: 2n }));
    expect(() => fingerprint({ ...rest, readers: [...readers, ...moved] })).toThrow(RangeError);
  });
});

function one(conversation: Conversation): World {
  return smallWorld({ conversations: { x: conversation }, users: { guest: {} } });
}

function audience(world: World) {
  return audienceOf(world, conversationOf(world, 'x'), NOW);
}

function listed(world: World): Audience {
  const found = audience(world);
  if (!found.ok) throw new Error(found.code);
  return found;
}

function readersOf(conversation: Conversation) {
  return names(one(conversation));
}

/** The readers with their floors, sorted, or the refusal. */
function names(world: World): string[] | string {
  const found = audience(world);
  if (!found.ok) return found.code;
  return found.readers
    .map(({ reader, floor }) => {
      if (reader.kind === 'user') return `${reader.user} ${floor}`;
      return reader.kind === 'class:project'
        ? `${reader.kind} ${reader.project} ${floor}`
        : `${reader.kind} ${floor}`;
    })
    .sort();
}

function contains(world: World, person: string): boolean {
  return isInAudience(world, conversationOf(world, 'x'), listed(world), id(person));
}
