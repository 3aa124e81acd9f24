import { describe, expect, test } from 'vitest';
import { audienceOf } from '../../policy/audience.ts';
import { NO_HISTORY } from '../../policy/floor.ts';
import { modeOf, type TriggerKind } from '../../policy/mode.ts';
import { messageInScope, scopeOf, type Scope } from '../../policy/scope.ts';
import type { World } from '../../policy/world.ts';
import { conversationOf, id, NOW, smallWorld, type SmallWorld } from './small-world.ts';

const both = { anna: 1, ben: 1 };

describe('a scope', () => {
  test('has what every reader of the destination reads, and nothing that one of them does not', () => {
    expect(scope({ x: { members: both }, y: { members: both } })).toEqual({ x: 1n, y: 1n });
    expect(scope({ x: { members: both }, y: { members: { anna: 1 } } })).toEqual({ x: 1n });
  });

  test('begins each conversation at the highest of the readers\u2019 floors', () => {
    expect(scope({ x: { members: both }, y: { members: { anna: 2, ben: 9 } } })).toEqual({
      x: 1n,
      y: 9n,
    });
    expect(scope({ x: { members: { anna: 4, ben: 1 } } })).toEqual({ x: 4n });
  });

  test('takes the lowest of one person\u2019s routes', () => {
    const open = { visibility: 'organization', defaultFloor: 5n } as const;
    expect(
      scope({ x: { members: both }, y: { ...open, members: { anna: 2, ben: 3 } } }),
    ).toMatchObject({ y: 3n });
    expect(scope({ x: { members: both }, y: { ...open, members: { anna: 2 } } })).toMatchObject({
      y: 5n,
    });
    expect(
      scope({ x: { members: both }, y: { ...open, members: { anna: 8, ben: 8 } } }),
    ).toMatchObject({ y: 5n });
  });

  test('keeps a conversation of which nothing may be read yet', () => {
    expect(scope({ x: { members: both }, y: { members: { anna: 1, ben: NO_HISTORY } } })).toEqual({
      x: 1n,
      y: NO_HISTORY,
    });
  });

  test.each([{ deleted: true }, { staged: true }])('leaves out what is %j', (state) => {
    expect(scope({ x: { members: both }, y: { members: both, ...state } })).toEqual({ x: 1n });
  });

  test('keeps what is archived: it takes no turns and is still read', () => {
    expect(scope({ x: { members: both }, y: { members: both, archived: true } })).toEqual({
      x: 1n,
      y: 1n,
    });
  });

  test('of a guest has only what the guest was given by name, and while it lasts', () => {
    const guests = { anna: 1, gus: 1 };
    const until = (expiresAt: bigint) => ({ members: { anna: 1, gus: { expiresAt } } });
    const open = { visibility: 'organization' } as const;
    expect(scope({ x: { members: guests }, y: { members: guests }, z: open })).toEqual({
      x: 1n,
      y: 1n,
    });
    expect(scope({ x: { members: guests }, y: until(NOW + 1n) })).toEqual({ x: 1n, y: 1n });
    expect(scope({ x: { members: guests }, y: until(NOW) })).toEqual({ x: 1n });
  });

  test('of a bound thread stays in its project', () => {
    const p = { members: both, project: id('p') };
    const q = { members: both, project: id('q') };
    expect(scope({ x: p, y: p, z: q, free: { members: both } })).toEqual({ x: 1n, y: 1n });
  });

  test('of an open channel has what is open at least as widely', () => {
    const open = { visibility: 'organization' } as const;
    const inProject = { visibility: 'project', project: id('p') } as const;
    expect(scope({ x: open, y: open, z: { members: both }, p: inProject })).toEqual({
      x: 1n,
      y: 1n,
    });
  });

  test('of a project channel has what is open to the organization only if the project has no guests', () => {
    const channel = { visibility: 'project', project: id('p') } as const;
    const open = { visibility: 'organization', project: id('p') } as const;
    const projects = (admitsGuests: boolean) => ({ p: { admitsGuests, members: ['anna', 'ben'] } });
    expect(scope({ x: channel, y: open }, { projects: projects(false) })).toEqual({ x: 1n, y: 1n });
    expect(scope({ x: channel, y: open }, { projects: projects(true) })).toEqual({ x: 1n });
  });

  test('of a mention is the destination alone', () => {
    const plain = { members: both, aiThread: false };
    expect(scope({ x: plain, y: { members: both } }, { trigger: 'mention' })).toEqual({ x: 1n });
    expect(scope({ x: { members: both }, y: { members: both } }, { trigger: 'mention' })).toEqual({
      x: 1n,
      y: 1n,
    });
  });

  test('of a private thread is the owner\u2019s world, and of one that was shared the thread', () => {
    const own = { owner: id('anna'), members: { anna: 1 } };
    expect(scope({ x: own, y: { members: both } })).toEqual({ x: 1n, y: 1n });
    expect(scope({ x: { ...own, everShared: true }, y: { members: both } })).toEqual({ x: 1n });
  });

  test('is narrowed by a recipient and never widened', () => {
    const conversations = {
      x: { members: { ...both, cleo: 3 } },
      y: { members: both },
      z: { members: { cleo: 1 } },
    };
    expect(scope(conversations, { recipient: 'cleo' })).toEqual({ x: 3n });
    expect(scope({ x: { members: both }, y: { members: both } }, { recipient: 'anna' })).toEqual({
      x: 1n,
      y: 1n,
    });
  });

  test.each(['nobody', 'robin', 'bot'])(
    'holds nothing for a recipient who reads nothing: %s',
    (recipient) => {
      const users = { robin: { active: false }, bot: { kind: 'bot' } } as const;
      const conversations = { x: { members: { ...both, robin: 1, bot: 1 } } };
      expect(scope(conversations, { recipient, users })).toEqual({});
      expect(scope(conversations, { recipient: 'ben', users })).toEqual({ x: 1n });
    },
  );
});

describe('a message', () => {
  const conversations = {
    x: { members: both },
    y: { members: { anna: 1, ben: 3 } },
    z: { members: { anna: 1 } },
  };
  const from = { persona: id('helper') };
  const seen = (world: SmallWorld) => visible(smallWorld(world));

  test('is seen from the floor up, the floor included', () => {
    expect(
      seen({ conversations, messages: [{ at: ['y', 2] }, { at: ['y', 3] }, { at: ['z', 9] }] }),
    ).toEqual(['y 3']);
  });

  test('is not seen when it is deleted', () => {
    expect(
      seen({ conversations, messages: [{ at: ['x', 1] }, { at: ['x', 2], deleted: true }] }),
    ).toEqual(['x 1']);
  });

  test('of an assistant that no delivery accounts for stays where it is', () => {
    expect(
      seen({
        conversations,
        messages: [
          { at: ['x', 1], author: from },
          { at: ['y', 3], author: from },
        ],
      }),
    ).toEqual(['x 1']);
  });

  test('that a delivery accounts for is seen if its whole lineage is readable', () => {
    const source = (conversation: string, seq: bigint) => ({
      conversation: id(conversation),
      fromSeq: seq,
      toSeq: seq,
    });
    const messages = [
      { at: ['y', 4], author: from, delivery: 'd' },
      { at: ['x', 1] },
      { at: ['z', 1] },
    ] as const;
    const lineage = (...sources: ReturnType<typeof source>[]) =>
      seen({ conversations, messages, lineages: { d: sources } });
    expect(lineage(source('x', 1n))).toEqual(['x 1', 'y 4']);
    expect(lineage(source('x', 1n), source('z', 1n))).toEqual(['x 1']);
    expect(lineage(source('x', 2n))).toEqual(['x 1']);
    expect(lineage()).toEqual(['x 1']);
  });

  test('that was edited after its delivery stays in its conversation, with its lineage', () => {
    const lineages = { d: [{ conversation: id('y'), fromSeq: 3n }] };
    const answers = (edited: boolean) => [
      { at: ['x', 1], author: from, delivery: 'd', edited } as const,
      { at: ['y', 4], author: from, delivery: 'd', edited } as const,
    ];
    expect(seen({ conversations, lineages, messages: answers(false) })).toEqual(['x 1', 'y 4']);
    expect(seen({ conversations, lineages, messages: answers(true) })).toEqual(['x 1']);
    const lost = { d: [{ conversation: id('y'), fromSeq: 2n }] };
    expect(seen({ conversations, lineages: lost, messages: answers(true) })).toEqual([]);
  });

  test('that a delivery edited is read elsewhere again, with its lineage', () => {
    const messages = [{ at: ['y', 4], author: from, delivery: 'd', edited: true }] as const;
    const edited = messages.map((message) => ({ ...message, editedByDelivery: true }));
    const lineages = { d: [{ conversation: id('y'), fromSeq: 3n }] };
    expect(seen({ conversations, lineages, messages })).toEqual([]);
    expect(seen({ conversations, lineages, messages: edited })).toEqual(['y 4']);
    const lost = { d: [{ conversation: id('y'), fromSeq: 2n }] };
    expect(seen({ conversations, lineages: lost, messages: edited })).toEqual([]);
    const unaccounted = edited.map(({ delivery: _delivery, ...message }) => message);
    expect(seen({ conversations, messages: unaccounted })).toEqual([]);
  });

  test('made from a stretch is seen if the stretch begins at the floor or above', () => {
    const messages = [{ at: ['x', 1], author: from, delivery: 'd' }] as const;
    const stretch = (fromSeq: bigint) =>
      seen({ conversations, messages, lineages: { d: [{ conversation: id('y'), fromSeq }] } });
    expect(stretch(3n)).toEqual(['x 1']);
    expect(stretch(2n)).toEqual([]);
  });

  test('made from what an assistant said elsewhere, unaccounted for, is not seen', () => {
    const lineages = { d: [{ conversation: id('y'), fromSeq: 3n, toSeq: 3n }] };
    const derived = { at: ['x', 1], author: from, delivery: 'd' } as const;
    expect(seen({ conversations, lineages, messages: [derived, { at: ['y', 3] }] })).toEqual([
      'x 1',
      'y 3',
    ]);
    expect(
      seen({ conversations, lineages, messages: [derived, { at: ['y', 3], author: from }] }),
    ).toEqual([]);
  });
});

interface Turn extends Omit<SmallWorld, 'conversations'> {
  readonly trigger?: TriggerKind;
  readonly recipient?: string;
}

function scope(
  conversations: SmallWorld['conversations'],
  { trigger, recipient, ...more }: Turn = {},
) {
  const projects = { p: { members: ['anna', 'ben'] }, q: {} };
  const world = smallWorld({ projects, ...more, conversations });
  return Object.fromEntries(scopeIn(world, trigger, recipient));
}

/** The scope of a turn of Anna's toward `x`. */
function scopeIn(world: World, trigger: TriggerKind = 'schedule', recipient?: string): Scope {
  const destination = conversationOf(world, 'x');
  const audience = audienceOf(world, destination, NOW);
  if (!audience.ok) throw new Error(audience.code);
  const mode = modeOf(destination, audience, id('anna'), trigger);
  if (!mode.ok) throw new Error(mode.code);
  const also = recipient === undefined ? undefined : id(recipient);
  return scopeOf(world, destination, audience, mode, id('anna'), NOW, also);
}

function visible(world: World): string[] {
  const found = scopeIn(world);
  return world.messages
    .filter((message) => messageInScope(world, found, id('x'), message))
    .map(({ conversation, seq }) => `${conversation} ${seq}`)
    .sort();
}
