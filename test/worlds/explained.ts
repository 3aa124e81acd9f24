import type { AudienceChange, Explanation } from '../../policy/explanation.ts';
import { highestFloor } from '../../policy/floor.ts';
import type { ExternalId } from '../../policy/identity.ts';
import type { Instant } from '../../policy/instant.ts';
import { floorOf, type Reader } from '../../policy/reader.ts';
import { messageInScope, scopeOf, sourceReadable, type Scope } from '../../policy/scope.ts';
import type { Sql } from '../../sql/database.ts';
import type { Difference, Standing } from './differential.ts';
import {
  ask,
  differs,
  questionsOf,
  viewedQuestions,
  type Question,
  type Told,
} from './explain-questions.ts';
import { plainReads, plainScope, plainStanding, type PlainStanding } from './plain-standing.ts';
import type { Tally } from './tally.ts';
import { NOW, pick, type TestWorld } from './world-generator.ts';
import type { LoadedWorld } from './world-loader.ts';

/**
 * Asks for every conversation and message of a world why it is in or out, for one turn of each kind
 * that each destination takes or refuses, and compares that with what the plain rules do; and asks as
 * each person.
 */
export async function compareExplained(
  sql: Sql,
  loaded: LoadedWorld,
  tally: Tally,
): Promise<Difference[]> {
  const { world } = loaded;
  const asked = questionsOf(world);
  const viewed = viewedQuestions(world);
  const answers = await ask(sql, loaded, [
    ...asked,
    ...viewed,
    ...viewed.map(({ viewer: _unseen, ...question }) => question),
  ]);
  const found: Difference[] = [];
  asked.forEach((question, n) => {
    const told = pick(answers, n);
    if ('code' in told) {
      found.push(...differs(question, told.code, null));
      return;
    }
    const plain = plainStanding(world, question.turn, NOW);
    found.push(
      ...toldDifferences(world, question, told, plain),
      ...changeDifferences(world, question, told.said, plain, tally),
    );
    for (const { kind } of told.said.reasons) tally.count(`reason ${kind}`);
    if (told.said.isIn) tally.count('in');
  });
  viewed.forEach((question, n) => {
    const told = pick(answers, asked.length + n);
    const operator = pick(answers, asked.length + viewed.length + n);
    found.push(...viewerDifferences(world, question, told, operator, tally));
  });
  return found;
}

function toldDifferences(
  world: TestWorld,
  question: Question,
  { facts, said }: Exclude<Told, { code: string }>,
  plain: PlainStanding,
): Difference[] {
  const { turn, source, message } = question;
  if (plain.code !== null) {
    return differs(
      question,
      [said.isIn, codeOf(said), facts.sourceFloor],
      [false, plain.code, undefined],
    );
  }
  const scope = plainScope(world, turn, plain, NOW);
  const cells = plain.audience.readers.map(({ reader, floor }) =>
    cell(reader.kind, nameOf(reader), floor, floorOf(world, reader, source, NOW)),
  );
  const floors = plain.audience.readers.map(({ reader }) => floorOf(world, reader, source, NOW));
  const blamed = said.reasons.flatMap((reason) =>
    reason.kind === 'lineage' ? reason.readers.map((place) => pick(facts.readers, place).id) : [],
  );
  return differs(
    question,
    [
      said.isIn,
      facts.turn,
      facts.sourceFloor?.toString(),
      said.intersection?.toString(),
      facts.readers
        .map((reader) => cell(reader.kind, reader.id, reader.destinationFloor, reader.floor))
        .sort(),
      blamed.sort(),
    ],
    [
      message === undefined
        ? scope.has(source.id)
        : messageInScope(world, scope, turn.destination.id, message),
      turnFacts(plain),
      scope.get(source.id)?.toString(),
      highestFloor(floors)?.toString(),
      cells.sort(),
      lackLineage(world, question, plain).sort(),
    ],
  );
}

/** Who would not see, alone in the destination, all that the message was made from. */
function lackLineage(
  world: TestWorld,
  { turn, message }: Question,
  { audience, mode }: Standing,
): string[] {
  if (message?.delivery === undefined) return [];
  const lineage = world.lineages.get(message.delivery) ?? [];
  const { destination, requester } = turn;
  return audience.readers.flatMap((entry) => {
    const alone = { ...audience, readers: [entry], floor: entry.floor };
    const scope = scopeOf(world, destination, alone, mode, requester, NOW);
    const reads = lineage.every((part) => sourceReadable(world, scope, destination.id, part));
    return lineage.length > 0 && reads ? [] : [nameOf(entry.reader)];
  });
}

function turnFacts({ mode: { ok: _stands, ...mode } }: Standing) {
  const { mode: name, extent, projectBound } = mode;
  return { mode: name, extent, ...(projectBound !== undefined && { projectBound }) };
}

/**
 * A change that was named brings the source in by the plain rules; and where taking readers out would
 * do that and no change says so, something was left unsaid.
 */
function changeDifferences(
  world: TestWorld,
  question: Question,
  said: Explanation,
  plain: PlainStanding,
  tally: Tally,
): Difference[] {
  const { turn, source, message } = question;
  if (plain.code !== null) return differs(question, said.changes, []);
  // The facts list readers in another order than the plain rules do.
  const readers = [...plain.audience.readers].sort((a, b) => compareReaders(a.reader, b.reader));
  const usersAt = (places: readonly number[]) =>
    places.flatMap((place) => {
      const { reader } = pick(readers, place);
      return reader.kind === 'user' ? [reader.user] : [];
    });
  const found = said.changes.flatMap((change): Difference[] => {
    const users = usersAt(change.readers);
    if (users.length < change.readers.length) {
      // A class is not changed by memberships.
      return change.kind === 'without' ? differs(question, change, null) : [];
    }
    tally.count(`change ${change.kind}`);
    const changed = applied(world, question, change, users);
    return differs({ ...question, change }, isInByPlainRules(changed, question), true);
  });

  const offered = said.changes.some(({ kind }) => kind === 'without');
  if (said.isIn || offered || message?.delivery !== undefined) return found;
  const hindering = readers.flatMap(({ reader }, place) => {
    const floor = floorOf(world, reader, source, NOW);
    return floor === undefined || (message !== undefined && floor > message.seq) ? [place] : [];
  });
  const users = usersAt(hindering);
  if (users.length < hindering.length || users.includes(turn.requester)) return found;
  const changed = applied(world, question, { kind: 'without', readers: hindering }, users);
  return [
    ...found,
    ...differs({ ...question, change: 'unsaid' }, isInByPlainRules(changed, question), false),
  ];
}

function applied(
  world: TestWorld,
  { turn, source }: Question,
  change: AudienceChange,
  users: readonly ExternalId[],
): TestWorld {
  const place = change.kind === 'without' ? turn.destination.id : source.id;
  const memberships = world.memberships.filter(
    ({ conversation, user }) => conversation !== place || !users.includes(user),
  );
  if (change.kind === 'without') return { ...world, memberships };
  const floor = change.atMost ?? 1n;
  const given = users.map((user) => ({ conversation: place, user, floor }));
  return { ...world, memberships: [...memberships, ...given] };
}

function isInByPlainRules(world: TestWorld, { turn, source, message }: Question): boolean {
  const plain = plainStanding(world, turn, NOW);
  if (plain.code !== null) return false;
  const scope = plainScope(world, turn, plain, NOW);
  return message === undefined
    ? scope.has(source.id)
    : messageInScope(world, scope, turn.destination.id, message);
}

/** A person is told what an operator is, without names, if that person reads it all; else nothing. */
function viewerDifferences(
  world: TestWorld,
  question: Question,
  told: Told,
  operator: Told,
  tally: Tally,
): Difference[] {
  const { turn, source, message, viewer } = question;
  if (viewer === undefined) return [];
  const reads =
    world.organization.active &&
    plainReads(world, viewer, turn.destination, NOW) &&
    plainReads(world, viewer, source, NOW) &&
    (message === undefined ||
      messageInScope(world, personalScope(world, viewer, NOW), source.id, message));
  tally.count(`viewer ${reads ? 'told' : 'told nothing'}`);
  if ('code' in told || 'code' in operator)
    return differs(question, 'code' in told && told.code, !reads && 'not_found');
  const others = told.facts.readers.filter(
    ({ kind, id }) => kind === 'user' && id !== undefined && id !== viewer,
  );
  return differs(question, [reads, others, bare(told)], [true, [], bare(operator)]);
}

/** All that one person reads, wherever it is. */
function personalScope(world: TestWorld, user: ExternalId, now: Instant): Scope {
  return new Map(
    [...world.conversations.values()].flatMap((conversation): [ExternalId, bigint][] => {
      const floor = floorOf(world, { kind: 'user', user }, conversation, now);
      return floor === undefined ? [] : [[conversation.id, floor]];
    }),
  );
}

/** What was told apart from names and order. */
function bare({ facts, said }: Exclude<Told, { code: string }>) {
  const rowsOf = (places: readonly number[]) =>
    places
      .map((place) => {
        const { kind, destinationFloor, floor } = pick(facts.readers, place);
        return cell(kind, undefined, destinationFloor, floor);
      })
      .sort();
  return JSON.stringify(
    [facts.turn, facts.sourceFloor, said, rowsOf([...facts.readers.keys()])],
    (name, value: unknown) =>
      name === 'readers'
        ? rowsOf(value as number[])
        : typeof value === 'bigint'
          ? value.toString()
          : value,
  );
}

function cell(kind: string, id: string | undefined, destination: bigint, floor?: bigint) {
  return `${kind} ${id ?? ''} ${destination} ${floor ?? 'none'}`;
}

function nameOf(reader: Reader): string {
  return reader.kind === 'user'
    ? reader.user
    : reader.kind === 'class:project'
      ? reader.project
      : '';
}

function compareReaders(a: Reader, b: Reader): number {
  return Buffer.compare(
    Buffer.from(`${a.kind}\0${nameOf(a)}`),
    Buffer.from(`${b.kind}\0${nameOf(b)}`),
  );
}

function codeOf({ reasons }: Explanation): string | undefined {
  return reasons.flatMap((reason) => (reason.kind === 'turn_refused' ? [reason.code] : []))[0];
}
