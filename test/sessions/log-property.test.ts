import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import { logOf } from '../support/log.ts';
import type { TestOrganization } from '../support/organization.ts';
import { audience, AUDIENCE, index, PEOPLE, pick, Play, step } from './log-play.ts';
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

describe('whatever was read before', () => {
  const views = ['audience', 'ana', 'ben', 'ana too', 'eve'] as const;
  const move = fc.oneof(
    fc.record({ read: fc.nat({ max: 4 }) }),
    fc.record({ write: fc.array(audience, { minLength: 1, maxLength: 3 }) }),
    fc.record({
      ...{ edit: index, through: fc.nat({ max: 4 }), added: fc.array(audience, { maxLength: 1 }) },
      /** For each block: who it is for from then on, more than before where it is to be wider. */
      audiences: fc.array(audience, { minLength: 3, maxLength: 3 }),
      wider: fc.boolean(),
    }),
  );
  const { numRuns, ...more } = settings(30);
  let widened = 0;
  let refused = 0;

  test(
    'an edit takes no text from whom it was shown to, and one that names more readers is never refused',
    { timeout: 30_000 + numRuns * 3_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(move, { minLength: 1, maxLength: 20, size: 'max' }),
          async (moves) => {
            const key = randomUUID();
            // Whoever writes was shown nothing, and may write for everybody.
            const writer = await turnIn(key);
            const log = logOf(gateway, await turnIn(key));
            const places = await Promise.all(
              views.map(async (view) => {
                const [reader = ''] = view.split(' ');
                const opened = await log.open(view === 'audience' ? {} : { name: view, reader });
                const readers = view === 'audience' ? AUDIENCE : [reader];
                return { of: log.through(opened.handle), readers, shown: new Set<string>() };
              }),
            );
            const ids: string[] = [];
            let texts = 0;
            const text = (of: readonly string[] | undefined) => {
              texts += 1;
              return { type: 'text', text: `t${texts}`, ...(of !== undefined && { audience: of }) };
            };
            const look = async ({ of, shown }: (typeof places)[number]) => {
              const found = new Set(await of.texts());
              for (const before of shown) expect(found).toContain(before);
              for (const now of found) shown.add(now);
            };

            for (const one of moves) {
              if ('read' in one) await look(pick(places, one.read));
              else if ('write' in one)
                ids.push(
                  ...(await log.by(writer).append({
                    ...{ role: 'user', participant: 'ben', blocks: one.write.map(text) },
                  })),
                );
              else if (ids.length > 0) {
                const { of, readers } = pick(places, one.through);
                const id = pick(ids, one.edit);
                // As it is stored: reading it by a route would be a read.
                const [row] = await gateway.owner<{ revision: string; blocks: PlainBlock[] }[]>`
                select revision, blocks from earshot.log_entries where id = ${id} and superseded_by is null`;
                const seen = row?.blocks.filter((block) => isFor(block, readers)) ?? [];
                if (row === undefined || seen.length === 0) continue;
                const edited = seen.map(({ audience: before, ...block }, n) => {
                  const now = one.audiences[n];
                  const all = one.wider && (before === undefined || now === undefined);
                  const named = one.wider ? [...new Set([...(before ?? []), ...(now ?? [])])] : now;
                  return { ...block, ...(!all && named !== undefined && { audience: named }) };
                });
                const answer = await of
                  .by(writer)
                  .edit(id, row.revision, [...edited, ...one.added.map(text)]);
                if (one.wider) expect(answer.code).toBeUndefined();
                else expect([undefined, 'narrowing_refused']).toContain(answer.code);
                if (answer.code !== undefined) refused += 1;
                else if (one.wider) widened += 1;
              }
            }
            for (const place of places) await look(place);
          },
        ),
        { numRuns, ...more },
      );
      expect(Math.min(widened, refused)).toBeGreaterThan(numRuns / 4);
    },
  );
});
