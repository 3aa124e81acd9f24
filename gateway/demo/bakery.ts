import { externalId } from '../../policy/identity.ts';
import type { Cast } from './cast.ts';

/** A fact as a line of NDJSON. */
type Line = Readonly<Record<string, unknown>>;

const DAY = 86_400_000;

/** A bakery with two people who plan, a private board, and an apprentice who came later. */
export const BAKERY: Cast = {
  organization: externalId('juniper-bakery'),
  requester: externalId('ada'),
  other: externalId('ben'),
  newcomer: externalId('cleo'),
  guests: false,
  guestJoins: false,
  query: 'rye flour',
  shared: { conversation: externalId('recipes'), id: externalId('recipes-4') },
  lost: { conversation: externalId('recipes'), id: externalId('recipes-2') },
  hidden: { conversation: externalId('board'), id: externalId('board-1') },
  place: externalId('recipes'),
  names: new Map([
    ['ada', 'Ada'],
    ['ben', 'Ben'],
    ['cleo', 'Cleo'],
  ]),
  titles: new Map([
    ['recipes', '#recipes'],
    ['board', '#board (private)'],
    ['general', '#general'],
  ]),
  missing: [],
};

/** The bakery up to the moment when Cleo joins #recipes. */
export function bakeryBefore(now: number): Line[] {
  const day = (ago: number) => new Date(now - ago * DAY).toISOString();
  return [
    ...['ada', 'ben', 'cleo', 'dara'].map((id) => ({ fact: 'user', id, kind: 'member' })),
    conversation('general', 'channel', 'organization', '#general'),
    conversation('recipes', 'channel', 'members', '#recipes'),
    conversation('board', 'group', 'members', '#board (private)', 'ada'),
    member('recipes', 'ada', 'all'),
    member('recipes', 'ben', 'all'),
    member('board', 'ada', 'all'),
    member('board', 'dara', 'all'),
    message('general', 'general-1', 'dara', 'The rye flour shelf moved to the cold room.', day(30)),
    message('recipes', 'recipes-1', 'ben', 'Starter fed at six, doubled by nine.', day(21)),
    message(
      'recipes',
      'recipes-2',
      'ada',
      'Trial: 40 % rye flour, the crumb was too tight. Not for the shop.',
      day(20),
    ),
    message(
      'board',
      'board-1',
      'dara',
      'We leave our rye flour supplier in May. Nobody is to know before the contract ends.',
      day(4),
    ),
    member('recipes', 'cleo', 'from_join'),
  ];
}

/** What was said after Cleo joined. */
export function bakeryAfter(now: number): Line[] {
  const sentAt = new Date(now).toISOString();
  return [
    message('recipes', 'recipes-3', 'cleo', 'Hello from the new apprentice!', sentAt),
    message(
      'recipes',
      'recipes-4',
      'ben',
      'From today: 30 % rye flour, 68 % water, 24 hours cold.',
      sentAt,
    ),
  ];
}

function conversation(
  id: string,
  kind: string,
  visibility: string,
  title: string,
  owner?: string,
): Line {
  return {
    fact: 'conversation',
    id,
    kind,
    visibility,
    title,
    ...(owner !== undefined && { owner }),
  };
}

function member(place: string, user: string, history: string): Line {
  return { fact: 'member', conversation: place, user, history };
}

function message(place: string, id: string, user: string, body: string, sentAt: string): Line {
  return { fact: 'message', conversation: place, id, author: { user }, body, sentAt };
}
