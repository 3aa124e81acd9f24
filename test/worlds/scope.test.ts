import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Tally } from './tally.ts';
import {
  compareWorld,
  createWorldDatabase,
  DEFAULT_WORLDS,
  expectNone,
  runSettings,
  type WorldDatabase,
} from './world-database.ts';
import { worlds } from './world-generator.ts';

describe('over generated worlds', () => {
  const tally = new Tally();
  const settings = runSettings(DEFAULT_WORLDS);
  let database: WorldDatabase;

  beforeAll(async () => {
    database = await createWorldDatabase();
  });
  afterAll(() => database.drop());

  test(
    'the SQL and the plain rules agree on every audience, fingerprint, refusal, mode, scope, floor and message, and on what each tool answers',
    { timeout: settings.numRuns * 500 },
    () =>
      fc.assert(
        fc.asyncProperty(worlds, async (world) => {
          tally.count('world');
          expectNone(await compareWorld(database, world, tally));
        }),
        settings,
      ),
  );

  // A short run may miss what is rare.
  test.skipIf(settings.numRuns < 500)(
    'the worlds held enough of everything to have told the two apart',
    () => {
      if (process.env.TALLY !== undefined) console.log(tally.counts);
      const thin = Object.entries(AT_LEAST_PER_HUNDRED)
        .map(([what, least]) => ({
          what,
          least,
          found: (100 * tally.of(what)) / tally.of('world'),
        }))
        .filter(({ least, found }) => !(found >= least));
      expect(thin).toEqual([]);
      // Most audiences of several people share something beyond the place where they meet.
      const several = tally.of('intersection of several');
      expect(tally.of('intersection of several beyond the destination') / several).toBeGreaterThan(
        0.4,
      );
    },
  );
});

/** Occurrences per hundred worlds, well below what is usual and far above none. */
const AT_LEAST_PER_HUNDRED: Readonly<Record<string, number>> = {
  'around not_found': 39,
  'around some': 11,
  'artifact at home in scope hidden': 190,
  'artifact of another visible': 4,
  'artifact of several conversations visible': 6,
  'artifact visible': 45,
  audience: 99,
  'audience empty_audience': 32,
  'audience unlistable_audience': 11,
  'bound beyond the destination': 7,
  'delivered message hidden': 78,
  'delivered message visible': 9,
  'extent audience': 331,
  'extent destination': 114,
  'extent requester': 24,
  'guest beyond the destination': 21,
  'intersection of several': 48,
  'list_conversations some': 53,
  'message hidden': 1709,
  'message visible': 244,
  'open beyond the destination': 21,
  'open with an overriding membership': 3.0,
  'opening allowed': 29,
  'opening invalid_input': 0.2,
  'opening not_found': 21,
  'project route beyond the destination': 6,
  'read none': 41,
  'read not_found': 36,
  'read some': 52,
  'recipient reads nothing': 285,
  'recipient reads something': 298,
  'scope guest': 43,
  'scope mention': 30,
  'scope private': 9,
  'scope project': 13,
  'scope thread': 23,
  'search none': 100,
  'search some': 59,
  'stale artifact visible': 6,
  'standing destination_closed': 96,
  'standing empty_audience': 74,
  'standing mode_changed': 13,
  'standing organization_paused': 17,
  'standing requester_left': 149,
  'standing trigger_out_of_scope': 325,
  'standing unlistable_audience': 38,
  'thread not_found': 10,
  'thread some': 8,
  'undelivered persona message hidden': 36,
  'undelivered persona message visible': 45,
};
