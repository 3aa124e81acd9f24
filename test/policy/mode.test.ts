import { describe, expect, test } from 'vitest';
import { audienceOf } from '../../policy/audience.ts';
import { modeOf, type TriggerKind } from '../../policy/mode.ts';
import { conversationOf, id, NOW, smallWorld, type SmallWorld } from './small-world.ts';

type Conversation = SmallWorld['conversations'][string];

const shared: Conversation = { members: { anna: 1, ben: 1 } };
const alone: Conversation = { owner: id('anna'), members: { anna: 1 } };

describe('the mode of a turn', () => {
  test('is the thread of everyone who reads it', () => {
    expect(mode(shared)).toBe('thread audience');
  });

  test('is private only for the owner, alone, in a thread that was never shared', () => {
    expect(mode(alone)).toBe('private requester');
    expect(mode({ ...alone, everShared: true })).toBe('thread destination');
    expect(mode({ ...alone, owner: id('ben') })).toBe('thread destination');
    expect(mode(alone, 'thread', 'ben')).toBe('thread destination');
    expect(mode({ ...alone, members: { anna: 1, ben: 1 } })).toBe('thread audience');
  });

  test('has one guest alone keep to the thread', () => {
    expect(mode({ owner: id('anna'), members: { gus: 1 } }, 'thread', 'gus')).toBe(
      'guest destination',
    );
  });

  test('is a guest\u2019s as soon as one reader is a guest', () => {
    expect(mode({ members: { anna: 1, gus: 1 } })).toBe('guest audience');
    expect(mode({ members: { anna: 1, ben: 1 } })).toBe('thread audience');
  });

  test('keeps the project bound beside whichever it is', () => {
    const project = id('p');
    expect(mode({ ...shared, project })).toBe('project audience p');
    expect(mode({ ...alone, project })).toBe('private requester p');
    expect(mode({ members: { anna: 1, gus: 1 }, project })).toBe('guest audience p');
    expect(mode({ ...shared, project, aiThread: false }, 'mention')).toBe('mention destination p');
  });

  test('is a mention outside AI threads, whoever reads it', () => {
    expect(mode({ ...shared, aiThread: false }, 'mention')).toBe('mention destination');
    expect(mode({ ...alone, aiThread: false }, 'mention')).toBe('mention destination');
    expect(mode({ ...shared, aiThread: true }, 'mention')).toBe('thread audience');
  });

  test('is that of the place for a schedule', () => {
    expect(mode(shared, 'schedule')).toBe('thread audience');
    expect(mode({ ...shared, aiThread: false }, 'schedule')).toBe('mention destination');
  });

  test('is refused for a thread trigger toward what is no AI thread', () => {
    expect(mode({ ...shared, aiThread: false }, 'thread')).toBe('invalid_input');
  });

  test('of a disclosure is not confined by a mention that nobody made', () => {
    expect(mode({ ...shared, aiThread: false }, 'disclosure')).toBe('thread audience');
    expect(mode({ ...alone, aiThread: false }, 'disclosure')).toBe('thread destination');
  });

  test('of an open channel with one class for a reader is not one person\u2019s', () => {
    expect(mode({ visibility: 'organization', owner: id('anna') })).toBe('thread audience');
  });
});

function mode(
  conversation: Conversation,
  trigger: TriggerKind | 'disclosure' = 'thread',
  requester = 'anna',
) {
  const world = smallWorld({ projects: { p: {} }, conversations: { x: conversation } });
  const destination = conversationOf(world, 'x');
  const audience = audienceOf(world, destination, NOW);
  if (!audience.ok) throw new Error(audience.code);
  const found = modeOf(destination, audience, id(requester), trigger);
  if (!found.ok) return found.code;
  return [found.mode, found.extent, found.projectBound]
    .filter((part) => part !== undefined)
    .join(' ');
}
