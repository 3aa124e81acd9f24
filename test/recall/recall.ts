import { ok, type TestGateway } from '../support/gateway.ts';
import type { Messages, TestOrganization } from '../support/organization.ts';
import type { Corpus, Question } from './corpus.ts';
import { floorOf, gateCorpus, type Asking, type GatedCorpus } from './gated-places.ts';
import { loadGated, loadVisible, openThread } from './loaded-places.ts';

/** What searching a corpus behind its gate finds. Shares are means over questions, 0 to 1. */
export interface RecallFigures {
  readonly corpus: string;
  readonly questions: number;
  readonly gold: number;
  /** What the audiences may see, in their scopes and in all: a message that both see counts twice. */
  readonly visible: { readonly conversations: number; readonly messages: number };
  /** What there is for both, visible or not. */
  readonly all: { readonly conversations: number; readonly messages: number };
  readonly gated: Found;
  /** The same search where exactly the visible text is, and one reader who reads all of it. */
  readonly ungated: Found;
  /** Questions whose ten results are not the same in both, one by one, with text and score. */
  readonly differing: number;
  /** Results from outside the scope or from below a floor. */
  readonly foreign: number;
  /** The same of somebody who reads everything and asks the same: what a leak would look like. */
  readonly foreignToWitness: number;
}

/** Of the gold turns, how many are among the first ten. */
export interface Found {
  readonly recall10: number;
  /** The share of questions with any. */
  readonly hit10: number;
  /** One by the place of the first, within the first ten. */
  readonly mrr10: number;
  /** The share of questions that nothing is found for. */
  readonly empty: number;
}

type Item = Messages['items'][number];

/** Asks every question through the tool call, of the audience that reads its answer. */
export async function measureRecall(
  host: Pick<TestGateway, 'organization'>,
  corpus: Corpus,
  questions: readonly Question[],
): Promise<RecallFigures> {
  const gated = gateCorpus(corpus, questions);
  const organization = await loadGated(host, gated);
  const measured: Measured[] = [];
  for (const asking of gated.askings) {
    if (asking.questions.length === 0) continue;
    measured.push(await ask(host, organization, gated, asking));
  }
  const answers = measured.flatMap((one) => one.answers);
  const sum = (count: (one: Measured) => number) =>
    measured.reduce((total, one) => total + count(one), 0);
  return {
    corpus: corpus.name,
    questions: answers.length,
    gold: answers.reduce((total, { question }) => total + question.gold.size, 0),
    visible: {
      conversations: sum(({ scope }) => new Set([...scope].map((key) => key.split('\n')[0])).size),
      messages: sum(({ scope }) => scope.size),
    },
    all: {
      conversations: gated.places.length * measured.length,
      messages:
        gated.places.reduce((total, { messages }) => total + messages.length, 0) * measured.length,
    },
    gated: found(answers.map(({ question, inside }) => [question, inside])),
    ungated: found(answers.map(({ question, outside }) => [question, outside])),
    differing: answers.filter(({ inside, outside }) => shown(inside) !== shown(outside)).length,
    foreign: sum(({ scope, answers: each }) =>
      outsideOf(
        scope,
        each.flatMap(({ inside }) => inside),
      ),
    ),
    foreignToWitness: sum(({ scope, answers: each }) =>
      outsideOf(
        scope,
        each.flatMap(({ everything }) => everything),
      ),
    ),
  };
}

function outsideOf(scope: ReadonlySet<string>, items: readonly Item[]): number {
  return items.filter((item) => !scope.has(keyOf(item))).length;
}

interface Measured {
  /** Conversation and message of all that may be seen. */
  readonly scope: ReadonlySet<string>;
  readonly answers: readonly {
    readonly question: Question;
    readonly inside: readonly Item[];
    readonly outside: readonly Item[];
    readonly everything: readonly Item[];
  }[];
}

async function ask(
  host: Pick<TestGateway, 'organization'>,
  organization: TestOrganization,
  gated: GatedCorpus,
  asking: Asking,
): Promise<Measured> {
  const reader = 'reader';
  const visible = await loadVisible(host, gated, asking, reader);
  const thread = asking.thread;
  const witnessing = `${thread}-${gated.witness}`;
  await openThread(organization, thread, asking.readers);
  await openThread(visible, thread, [reader]);
  await openThread(organization, witnessing, [gated.witness]);
  const answers: Measured['answers'][number][] = [];
  for (let start = 0; start < asking.questions.length; start += QUESTIONS_OF_A_TURN) {
    const questions = asking.questions.slice(start, start + QUESTIONS_OF_A_TURN);
    const inside = await askAll(organization, thread, asking.readers[0], questions);
    const outside = await askAll(visible, thread, reader, questions);
    const everything = await askAll(organization, witnessing, gated.witness, questions);
    for (const [place, question] of questions.entries()) {
      answers.push({
        question,
        inside: inside[place] ?? [],
        outside: outside[place] ?? [],
        everything: everything[place] ?? [],
      });
    }
  }
  return { scope: scopeOf(gated, asking), answers };
}

/** A turn's lease has an end, and so has its grant. */
const QUESTIONS_OF_A_TURN = 50;

/** The first ten for each question, in one turn. */
async function askAll(
  organization: TestOrganization,
  destination: string,
  requester = '',
  questions: readonly Question[],
): Promise<(readonly Item[])[]> {
  const trigger = { kind: 'schedule' };
  const turn = await organization.turn({ destination, requester, trigger });
  const answers: (readonly Item[])[] = [];
  for (const { text } of questions) {
    answers.push(ok(await turn.tool('search', { query: text, limit: 10 })).items);
  }
  await turn.end('complete');
  return answers;
}

function scopeOf({ places }: GatedCorpus, { readers }: Asking): Set<string> {
  return new Set(
    places.flatMap((place) => {
      const floor = floorOf(place, readers);
      if (floor === undefined) return [];
      return place.messages.slice(floor - 1).map(({ id }) => `${place.id}\n${id}`);
    }),
  );
}

function keyOf({ source }: Item): string {
  return `${source.conversation}\n${source.id}`;
}

/** What must be the same, whoever else there is. */
function shown(items: readonly Item[]): string {
  return JSON.stringify(
    items.map(({ source, text, score, highlights }) => [source, text, score, highlights]),
  );
}

function found(answers: readonly (readonly [Question, readonly Item[]])[]): Found {
  const each = answers.map(([{ gold }, items]) => {
    const places = items.flatMap(({ source }, index) => (gold.has(source.id) ? index + 1 : []));
    const [first] = places;
    return {
      recall10: places.length / gold.size,
      hit10: places.length > 0 ? 1 : 0,
      mrr10: first === undefined ? 0 : 1 / first,
      empty: items.length === 0 ? 1 : 0,
    };
  });
  const mean = (of: (one: (typeof each)[number]) => number) =>
    each.reduce((total, one) => total + of(one), 0) / each.length;
  return {
    recall10: mean((one) => one.recall10),
    hit10: mean((one) => one.hit10),
    mrr10: mean((one) => one.mrr10),
    empty: mean((one) => one.empty),
  };
}
