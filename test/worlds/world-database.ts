import { openDatabase, type Sql } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { compareRules, type Difference } from './differential.ts';
import { compareDoor } from './door.ts';
import type { Tally } from './tally.ts';
import type { TestWorld } from './world-generator.ts';
import { freshlyNamed, loadWorld, LOADER_SETTINGS } from './world-loader.ts';

/** A database for worlds, with a session that loads them and asks about them, and one of the gateway. */
export interface WorldDatabase {
  readonly superuser: Sql;
  readonly gateway: Sql;
  readonly drop: () => Promise<void>;
}

export async function createWorldDatabase(given?: TestDatabase): Promise<WorldDatabase> {
  const database = given ?? (await createTestDatabase());
  const superuser = openDatabase(database.superuserUrl, { max: 1 });
  const gateway = openDatabase(database.gatewayUrl, { max: 1 });
  await superuser.sql.unsafe(LOADER_SETTINGS);
  await superuser.sql.unsafe('set search_path = earshot, pg_temp');
  // Planning every statement anew for every world would take more time than running it.
  for (const { sql } of [superuser, gateway]) {
    await sql.unsafe('set plan_cache_mode = force_generic_plan');
  }
  return {
    superuser: superuser.sql,
    gateway: gateway.sql,
    async drop() {
      await superuser.close();
      await gateway.close();
      await database.drop();
    },
  };
}

/** Loads a world and compares all that both implementations say about it. */
export async function compareWorld(
  { superuser, gateway }: WorldDatabase,
  world: TestWorld,
  tally: Tally,
): Promise<Difference[]> {
  const loaded = await loadWorld(superuser, freshlyNamed(world));
  const found = await Promise.all([
    compareRules(superuser, loaded, tally),
    compareDoor(gateway, loaded, tally),
  ]);
  return found.flat();
}

/** Throws with the first few differences, in words for whoever reads the shrunk world below them. */
export function expectNone(found: readonly Difference[]): void {
  if (found.length === 0) return;
  const lines = found
    .slice(0, 5)
    .map(
      ({ about, sql, plain }) =>
        `${about}\n  SQL:   ${JSON.stringify(sql)}\n  plain: ${JSON.stringify(plain)}`,
    );
  throw new Error(`${found.length} differences\n${lines.join('\n')}`);
}

/** How a run of a property is configured: `WORLDS` and `SEED` make it longer, or the same again. */
export function runSettings(worlds: number): { numRuns: number; seed?: number } {
  const { WORLDS, SEED } = process.env;
  return {
    numRuns: WORLDS === undefined ? worlds : Math.ceil((worlds * Number(WORLDS)) / DEFAULT_WORLDS),
    ...(SEED === undefined ? {} : { seed: Number(SEED) }),
  };
}

export const DEFAULT_WORLDS = 2_000;
