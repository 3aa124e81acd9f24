import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compareExplained } from './explained.ts';
import { withMutant, type Mutant } from './mutant.ts';
import { Tally } from './tally.ts';
import {
  createWorldDatabase,
  expectNone,
  runSettings,
  type WorldDatabase,
} from './world-database.ts';
import { worlds, type TestWorld } from './world-generator.ts';
import { freshlyNamed, loadWorld } from './world-loader.ts';

describe('over generated worlds', () => {
  const tally = new Tally();
  const settings = runSettings(100);
  let database: WorldDatabase;

  beforeAll(async () => {
    database = await createWorldDatabase();
  });
  afterAll(() => database.drop());

  test(
    'an explanation says what the scope does, with each reader’s floor, and the changes it names turn it',
    { timeout: settings.numRuns * 2_000 },
    () =>
      fc.assert(
        fc.asyncProperty(worlds, async (world) => {
          const loaded = await loadWorld(database.superuser, freshlyNamed(world));
          expectNone(await compareExplained(database.superuser, loaded, tally));
        }),
        settings,
      ),
  );

  test('every reason, every change and every kind of viewer occurred', () => {
    if (process.env.TALLY !== undefined) console.log(tally.counts);
    expect(WHAT_OCCURS.filter((what) => tally.of(what) === 0)).toEqual([]);
  });
});

const WHAT_OCCURS = [
  'in',
  'reason turn_refused',
  'reason conversation_deleted',
  'reason conversation_staged',
  'reason mode',
  'reason project_bound',
  'reason not_read',
  'reason below_floor',
  'reason lineage',
  'reason message_deleted',
  'reason unaccounted_answer',
  'reason edited_answer',
  'change without',
  'change floor',
  'viewer told',
  'viewer told nothing',
];

/** Each of them would tell somebody too much, or something that is not so. */
const MUTANTS: readonly Mutant[] = [
  {
    title: 'one who reads only the destination is told',
    routine: 'may_be_explained',
    from: 'and earshot.reads(p_org, u.id, p_source, p_now)',
    to: '',
  },
  {
    title: 'one who reads only the source is told',
    routine: 'may_be_explained',
    from: 'and earshot.reads(p_org, u.id, p_destination, p_now)',
    to: '',
  },
  {
    title: 'one is told of a message that one may not read',
    routine: 'may_be_explained',
    from: 'and v.seq = (p_message).seq',
    to: '',
  },
  {
    title: 'somebody of a suspended organization is told',
    routine: 'may_be_explained',
    from: "and o.status = 'active'",
    to: '',
  },
  {
    title: 'others are named',
    routine: 'explained_readers',
    from: "r.kind <> 'user' or r.external_id = p_viewer",
    to: 'true',
  },
  {
    title: 'what the bound cuts is laid on the readers',
    routine: 'explained_readers',
    from: 'array[r], null, p_now) own',
    to: 'array[r], (p_standing).project_bound, p_now) own',
  },
  {
    title: 'a lineage is judged beyond the mode',
    routine: 'explained_readers',
    from: "when (p_standing).extent = 'destination'",
    to: 'when false',
  },
  {
    title: 'a conversation that is named twice counts as two readers',
    routine: 'scope_part',
    from: 'select distinct c',
    to: 'select c',
  },
  {
    title: 'the bound is not told of',
    routine: 'explanation',
    from: 'is distinct from standing.project_bound',
    to: 'is distinct from source.project_id',
  },
];

describe('each mutant is told from the plain rules when', () => {
  const seen = fc.sample(worlds, { numRuns: 100, seed: 4 });
  let database: WorldDatabase;

  beforeAll(async () => {
    database = await createWorldDatabase();
  });
  afterAll(() => database.drop());

  test.each(MUTANTS)('$title ($routine)', { timeout: 120_000 }, async (change) => {
    await withMutant(database.superuser, change, async () => {
      expect(await caught(database, seen)).toBe(true);
    });
  });

  test('nothing has been mutated', async () => {
    expect(await caught(database, seen.slice(0, 20))).toBe(false);
  });
});

async function caught({ superuser }: WorldDatabase, all: readonly TestWorld[]): Promise<boolean> {
  for (const world of all) {
    const loaded = await loadWorld(superuser, freshlyNamed(world));
    try {
      if ((await compareExplained(superuser, loaded, new Tally())).length > 0) return true;
    } catch (error) {
      // Then the explanation is not given.
      if (error instanceof Error && error.message === 'the reasons are not those of the scope')
        return true;
      throw error;
    }
  }
  return false;
}
