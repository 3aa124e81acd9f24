import { explainSource, type Explanation, type SourceFacts } from '../../policy/explanation.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { formatInstant } from '../../policy/instant.ts';
import type { WorldConversation } from '../../policy/world.ts';
import type { Sql } from '../../sql/database.ts';
import { sourceFacts } from '../../sql/explain.ts';
import { describeTurn, everyTurn, type Difference } from './differential.ts';
import { plainStanding, type TurnCase } from './plain-standing.ts';
import { NOW, pick, type TestMessage, type TestWorld } from './world-generator.ts';
import type { LoadedWorld } from './world-loader.ts';

/** One question: why is this source in or out for this turn, as the operator or as one person. */
export interface Question {
  readonly turn: TurnCase;
  readonly source: WorldConversation;
  readonly message?: TestMessage;
  readonly viewer?: ExternalId;
}

/** What was told, or nothing where the viewer may not know that there is anything. */
export type Told =
  { readonly facts: SourceFacts; readonly said: Explanation } | { readonly code: string };

/** A turn of each scope that a destination has, and one of each refusal, toward every source. */
export function questionsOf(world: TestWorld): Question[] {
  const distinct = new Map<string, TurnCase>();
  for (const turn of everyTurn(world)) {
    const plain = plainStanding(world, turn, NOW);
    const kind = plain.code ?? [plain.mode.mode, plain.mode.extent];
    distinct.set(JSON.stringify([turn.destination.id, kind]), turn);
  }
  return [...distinct.values()].flatMap((turn) => sourcesOf(world).map((at) => ({ turn, ...at })));
}

/** Each person, as the requester of a turn in each conversation, about a sample of the sources. */
export function viewedQuestions(world: TestWorld): Question[] {
  const sources = sourcesOf(world);
  return [...world.users.keys()].flatMap((viewer, i) =>
    [...world.conversations.values()].flatMap((destination, j) =>
      [0, 1, 2, 3].map((k) => ({
        turn: { destination, requester: viewer, trigger: 'schedule' as const },
        ...pick(sources, pick(world.picks, k) + 5 * i + 3 * j),
        viewer,
      })),
    ),
  );
}

function sourcesOf(world: TestWorld): Pick<Question, 'source' | 'message'>[] {
  return [...world.conversations.values()].flatMap((source) => [
    { source },
    ...world.messages
      .filter(({ conversation }) => conversation === source.id)
      .map((message) => ({ source, message })),
  ]);
}

/** Asks them all in one round trip, and explains what is told. */
export async function ask(
  sql: Sql,
  { world, org }: LoadedWorld,
  questions: readonly Question[],
): Promise<Told[]> {
  const rows = questions.map((question) => ({
    viewer: question.viewer ?? null,
    request: requestOf(world, question),
  }));
  const answers = await sql.unsafe<{ code: string | null; facts: unknown }[]>(
    `select e.code, e.facts
     from jsonb_array_elements($1::text::jsonb) with ordinality as x(question, n)
     cross join lateral earshot.explanation($2::bigint, question -> 'request', '{*}', question ->> 'viewer',
       $3::timestamptz) e order by x.n`,
    [JSON.stringify(rows), org, formatInstant(NOW)],
    { prepare: true },
  );
  return Array.from(answers, ({ code, facts }, n): Told => {
    if (code !== null) return { code };
    const known = sourceFacts(facts, pick(questions, n).turn.trigger);
    return { facts: known, said: explainSource(known) };
  });
}

function requestOf(world: TestWorld, { turn, source, message }: Question) {
  const { destination, requester, trigger, triggerSeq } = turn;
  return {
    destination: destination.id,
    source: source.id,
    ...(message !== undefined && { seq: message.seq.toString() }),
    requester,
    persona: pick(world.personas, 0),
    trigger,
    ...(triggerSeq !== undefined && { triggerSeq: triggerSeq.toString() }),
  };
}

function describe({ turn, source, message, viewer, ...more }: Question & { change?: unknown }) {
  const parts = [
    `${source.id} ${message?.seq ?? ''} for ${describeTurn(turn)}`,
    ...(viewer === undefined ? [] : [`as ${viewer}`]),
    ...Object.values(more).map((value) => text(value)),
  ];
  return parts.join(' ');
}

/** Nothing where the two agree. */
export function differs(
  question: Question & { change?: unknown },
  sql: unknown,
  plain: unknown,
): Difference[] {
  return text(sql) === text(plain)
    ? []
    : [{ about: `explaining ${describe(question)}`, sql: text(sql), plain: text(plain) }];
}

function text(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) =>
    typeof part === 'bigint' ? part.toString() : part,
  );
}
