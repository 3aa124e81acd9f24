import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import { logOf, type TestLog } from '../support/log.ts';
import type { TestOrganization } from '../support/organization.ts';
import { AUDIENCE, PEOPLE, pick, Play } from './log-play.ts';
import { index, step } from './log-steps.ts';
import { isFor, type PlainBlock } from './plain-view.ts';

// Random logs, each step against the plain rules, and against what holds whatever the rules are. `LOG_RUNS` makes it
// longer, `SEED` repeats a run.

let gateway: TestGateway;
let acme: TestOrganization;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users(...PEOPLE);
  await acme.conversation('thread', AUDIENCE, { aiThread: true });
  await acme.conversation('notes', AUDIENCE);
  await acme.say('thread', 'ana', 'a question');
  for (const n of [1, 2, 3]) {
    await acme.put(`conversations/notes/messages/m${n}`, {
      ...{ author: { user: 'ben' }, body: `note ${n}`, sentAt: '2026-01-01T00:00:00Z' },
    });
  }
});

const { LOG_RUNS, SEED } = process.env;

function settings(runs: number) {
  return {
    numRuns: LOG_RUNS === undefined ? runs : Number(LOG_RUNS),
    ...(SEED !== undefined && { seed: Number(SEED) }),
  };
}

/** A turn in the session of a thread key. */
const turnIn = (threadKey: string) =>
  acme.turn({ destination: 'thread', requester: 'ana', trigger: '1', threadKey });

describe('a random log', () => {
  // About as many each time; what is left out comes of shrinking.
  const steps = fc.array(fc.option(step, { freq: 50 }), { minLength: 18, maxLength: 22 });
  const { numRuns, ...more } = settings(25);
  const tally = new Map<string, number>();

  test(
    'answers each step as the plain rules do, shows nobody what is not for them, and gives each change once',
    { timeout: 30_000 + numRuns * 3_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(steps, async (taken) => {
          const key = randomUUID();
          const play = await Play.begin(gateway, [await turnIn(key), await turnIn(key)], tally);
          for (const one of taken) if (one !== null) await play.take(one);
          await play.readAll();
        }),
        { numRuns, ...more },
      );
    },
  );

  // A short run may miss what is rare.
  test.skipIf(numRuns < 200)('held enough of everything to have told the two apart', () => {
    if (process.env.TALLY !== undefined) console.log(Object.fromEntries([...tally].sort()));
    const rare = AT_LEAST.filter((what) => (tally.get(what) ?? 0) * 100 < numRuns);
    expect(rare).toEqual([]);
  });
});

/** What a hundred runs come upon at least once. */
const AT_LEAST = [
  'append',
  'append narrowing_refused',
  'append invalid_input',
  'edit',
  'edit narrowing_refused',
  'edit conflict',
  'edit not_found',
  'open',
  'open conflict',
  'open not_found',
  'fork',
  'fork conflict',
  'fork not_found',
  'pin',
  'pin not_found',
  'compile',
  'compile not_found',
  'entries',
  'entries invalid_input',
  'search',
  'summary input',
  'summary input not_found',
];

const names = fc.constantFrom(
  undefined,
  ['ana'],
  ['ana'],
  ['ben'],
  ['ben'],
  ['ana', 'ben'],
  ['eve'],
);
const blocks = fc.array(names, { minLength: 1, maxLength: 3 });
/** The places of `VIEWS`, and more often those of one reader. */
const place = fc.constantFrom(0, 1, 1, 2, 2, 3, 4);
const VIEWS = ['audience', 'ana', 'ben', 'ana too', 'eve'];
const move = fc.oneof(
  { weight: 3, arbitrary: fc.record({ read: place }) },
  { weight: 1, arbitrary: fc.record({ write: blocks }) },
  {
    weight: 8,
    arbitrary: fc.record({
      ...{ edit: index, through: place },
      /** For each block that is shown: who it is for from then on, or who beside. */
      changes: fc.array(
        fc.oneof(
          { weight: 3, arbitrary: fc.constant({ stays: true as const }) },
          { weight: 3, arbitrary: fc.record({ beside: names }) },
          { weight: 2, arbitrary: fc.record({ now: names }) },
        ),
        { maxLength: 3 },
      ),
      added: fc.array(names, { maxLength: 1 }),
    }),
  },
);
type Names = readonly string[] | undefined;
type Move = typeof move extends fc.Arbitrary<infer Value> ? Value : never;
type Edit = Extract<Move, { edit: number }>;

type Moves = [{ write: Names[] }, (Move | null)[]];
/** A block that comes into a view, or goes from it, and moves those after it. */
const SHIFTED: readonly [Moves][] = [
  [
    [
      { write: [['ben'], ['ana']] },
      [
        { read: 1 },
        { edit: 0, through: 2, changes: [{ beside: ['ana'] }], added: [] },
        { edit: 0, through: 1, changes: [{ stays: true }, { now: ['eve'] }], added: [] },
      ],
    ],
  ],
  [
    [
      { write: [['ana'], undefined] },
      [
        { edit: 0, through: 1, changes: [{ now: ['eve'] }], added: [] },
        { read: 1 },
        { edit: 0, through: 1, changes: [], added: [['ben']] },
      ],
    ],
  ],
];

describe('whatever was read before', () => {
  const moves = fc.tuple(
    fc.record({ write: blocks }),
    fc.array(fc.option(move, { freq: 50 }), { minLength: 18, maxLength: 20 }),
  );
  const { numRuns, ...more } = settings(25);
  const outcomes = { widened: 0, narrowed: 0, refused: 0 };

  test(
    'an edit takes no text from whom it was shown to, and one that names more readers is never refused',
    { timeout: 30_000 + numRuns * 3_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(moves, async ([first, others]) => {
          const key = randomUUID();
          const log = logOf(gateway, await turnIn(key));
          // Whoever writes was shown nothing, and may write for everybody.
          const writer = await turnIn(key);
          const places: ReadersPlace[] = [];
          for (const view of VIEWS) places.push(await ReadersPlace.open(log, view, log.by(writer)));
          const ids: string[] = [];
          for (const one of [first, ...others]) {
            if (one === null) continue;
            if ('read' in one) await pick(places, one.read).read();
            else if ('write' in one)
              ids.push(...(await log.by(writer).append(said(...one.write.map(newText)))));
            else outcomes[await pick(places, one.through).edit(pick(ids, one.edit), one)] += 1;
          }
          for (const place of places) await place.read();
        }),
        { numRuns, ...more, examples: [...SHIFTED] },
      );
      expect(Math.min(...Object.values(outcomes))).toBeGreaterThan(0);
    },
  );
});

/** What some readers are shown at one place, and what they make of it. */
class ReadersPlace {
  readonly #log: TestLog;
  readonly #unread: TestLog;
  readonly #readers: readonly string[];
  readonly #shown = new Set<string>();

  private constructor(log: TestLog, unread: TestLog, readers: readonly string[]) {
    this.#log = log;
    this.#unread = unread;
    this.#readers = readers;
  }

  static async open(log: TestLog, view: string, unread: TestLog): Promise<ReadersPlace> {
    const [reader = ''] = view.split(' ');
    const ofAudience = view === 'audience';
    const { handle } = await log.open(ofAudience ? {} : { name: view, reader });
    const readers = ofAudience ? AUDIENCE : [reader];
    return new ReadersPlace(log.through(handle), unread.through(handle), readers);
  }

  /** Everything that was shown here is still shown. */
  async read(): Promise<void> {
    const found = new Set(await this.#log.texts());
    for (const before of this.#shown) expect(found).toContain(before);
    for (const text of found) this.#shown.add(text);
  }

  async edit(id: string, { changes, added }: Edit): Promise<'widened' | 'narrowed' | 'refused'> {
    // As it is stored: a look at it by a route would be a read.
    const [row] = await gateway.owner<{ revision: string; blocks: PlainBlock[] }[]>`
      select revision, blocks from earshot.log_entries where id = ${id} and superseded_by is null`;
    const seen = row?.blocks.filter((block) => isFor(block, this.#readers)) ?? [];
    if (row === undefined || seen.length === 0) return 'refused';
    const audiences = seen.map(({ audience }, n) => {
      const change = changes[n] ?? { beside: [] };
      return 'now' in change
        ? change.now
        : widened(audience, 'beside' in change ? change.beside : []);
    });
    const narrowed = seen.some(({ audience }, n) => {
      const now = audiences[n];
      return now !== undefined && !(audience?.every((name) => now.includes(name)) ?? false);
    });
    const edited = seen.map(({ type, text = '' }, n) => {
      const now = audiences[n];
      return { type, text, ...(now !== undefined && { audience: [...new Set(now)] }) };
    });
    const blocks = [...edited, ...added.map(newText)];
    const answer = await this.#unread.edit(id, row.revision, blocks);
    if (!narrowed) expect(answer.code).toBeUndefined();
    if (answer.code === undefined) return narrowed ? 'narrowed' : 'widened';
    expect(answer.code).toBe('narrowing_refused');
    return 'refused';
  }
}

/** Those who were named and those beside them; everybody, where either are. */
function widened(names: Names, beside: Names): Names {
  return names === undefined || beside === undefined ? undefined : [...names, ...beside];
}

function newText(of: Names): PlainBlock {
  return { type: 'text', text: randomUUID(), ...(of !== undefined && { audience: of }) };
}

function said(...blocks: PlainBlock[]) {
  return { role: 'user', participant: 'ben', blocks };
}
