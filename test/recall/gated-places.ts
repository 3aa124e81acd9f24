import type { Corpus, Question, Talk } from './corpus.ts';

/** A talk as a conversation of an organization: who reads it from where, with bait that nobody who asks may see. */
export interface GatedPlace {
  readonly id: string;
  /** From which sequence each member reads. */
  readonly members: ReadonlyMap<string, number>;
  /** Where everybody else in the organization reads it from, if they do. */
  readonly openFrom: number | undefined;
  /** The first has sequence 1. */
  readonly messages: readonly PlaceMessage[];
}

export interface PlaceMessage {
  readonly id: string;
  readonly author: string;
  readonly body: string;
}

/** Several readers of one thread and what is asked there. Each reads more than all of them do. */
export interface Asking {
  readonly thread: string;
  readonly readers: readonly string[];
  readonly questions: readonly Question[];
}

export interface GatedCorpus {
  readonly places: readonly GatedPlace[];
  readonly askings: readonly Asking[];
  /** Reads everything from the first message on: sees what a leak would show. */
  readonly witness: string;
}

const BAIT = 'bait/';
const WITNESS = 'witness';

/**
 * Gates a corpus: two audiences of three each ask about half of the talks. All three read what answers
 * their questions; of the rest they share some, from the middle on, and some is read by one or two of
 * them. A copy of each gold turn stands in a conversation outside of the scope, and another below
 * the floor of one inside.
 */
export function gateCorpus(
  { talks, ...corpus }: Corpus,
  questions: readonly Question[] = corpus.questions,
): GatedCorpus {
  const gold = new Set(questions.flatMap((question) => [...question.gold]));
  const copies = copiesOf(talks, gold);
  const sides = sidesOf(talks);
  const askings = sides.map((side, index): Asking => {
    const turns = new Set(side.flatMap((talk) => talk.turns.map(({ id }) => id)));
    return {
      thread: `thread-${index}`,
      readers: ['asker', 'second', 'third'].map((name) => `${name}-${index}`),
      questions: questions.filter((question) => [...question.gold].some((id) => turns.has(id))),
    };
  });
  const places = talks.map((talk, index) => {
    const bait = copies.filter((_, place) => place % talks.length === index);
    const asked = sides.findIndex((side) => side.includes(talk));
    return gateTalk({ talk, index, gold, bait, asked, askings });
  });
  return { places: [...places, ...hiddenPlaces(copies, askings)], askings, witness: WITNESS };
}

/** Two halves; what one question can be about is in one of them. */
function sidesOf(talks: readonly Talk[]): Talk[][] {
  const groups = [...new Set(talks.map(({ group }) => group))];
  const first = new Set(groups.slice(0, Math.ceil(groups.length / 2)));
  return [true, false].map((wanted) => talks.filter(({ group }) => first.has(group) === wanted));
}

/** Near-duplicates of the gold turns. */
function copiesOf(talks: readonly Talk[], gold: ReadonlySet<string>): PlaceMessage[] {
  return talks
    .flatMap((talk) => talk.turns)
    .filter(({ id }) => gold.has(id))
    .map(({ id, text }, index) => ({
      id: `${BAIT}${id}`,
      author: WITNESS,
      // Every second one differs, by a word that no question asks for.
      body: index % 2 === 0 ? text : `${text} Zyzzyva`,
    }));
}

interface Gating {
  readonly talk: Talk;
  readonly index: number;
  readonly gold: ReadonlySet<string>;
  /** Stands before the talk, below the floor of everybody who asks together. */
  readonly bait: readonly PlaceMessage[];
  /** Which of the askings is about this talk. */
  readonly asked: number;
  readonly askings: readonly Asking[];
}

function gateTalk({ talk, index, gold, bait, asked, askings }: Gating): GatedPlace {
  const first = talk.turns.findIndex(({ id }) => gold.has(id));
  // All of them read it from the first gold turn on, or from the middle where none is.
  const start = first === -1 ? Math.floor(talk.turns.length / 2) : first;
  const from = bait.length + 1 + start;
  const isOpen = index % 4 === 3;
  const members = new Map([...talk.speakers, WITNESS].map((person) => [person, 1]));
  for (const [asking, { readers }] of askings.entries()) {
    if (isOpen) continue;
    // What the others ask about is read by all three of these, or by two, or by one.
    const reading = asking === asked ? 3 : 3 - (index % 3);
    // One of them reads all of it; which of the other two begins latest takes turns.
    const floors = [1, 1 + Math.floor(from / 2), from];
    if (index % 2 === 0) floors.reverse().unshift(floors.pop() ?? 1);
    for (const [place, reader] of readers.slice(0, reading).entries()) {
      members.set(reader, floors[place] ?? from);
    }
  }
  return {
    id: talk.id,
    members,
    openFrom: isOpen ? from : undefined,
    messages: [
      ...bait,
      ...talk.turns.map(({ id, speaker, text }) => ({ id, author: speaker, body: text })),
    ],
  };
}

/** Conversations that one, two or none of those who ask read, each with a part of the copies. */
function hiddenPlaces(copies: readonly PlaceMessage[], askings: readonly Asking[]): GatedPlace[] {
  return [1, 2, 0].map((reading, index) => ({
    id: `hidden-${index}`,
    members: new Map(
      [WITNESS, ...askings.flatMap(({ readers }) => readers.slice(0, reading))].map((person) => [
        person,
        1,
      ]),
    ),
    openFrom: undefined,
    messages: copies.filter((_, place) => place % 3 === index),
  }));
}

/** From where all of these read a place, or undefined where one of them does not. */
export function floorOf(place: GatedPlace, readers: readonly string[]): number | undefined {
  const floors = readers.map((reader) =>
    Math.min(place.members.get(reader) ?? Infinity, place.openFrom ?? Infinity),
  );
  const floor = Math.max(...floors);
  return floor === Infinity ? undefined : floor;
}
