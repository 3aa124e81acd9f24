import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { openDatabase, type Database } from '../../sql/database.ts';
import { preparedBinaries } from '../../sql/embedded/binaries.ts';
import { pendingMigrations } from '../../sql/migrate.ts';
import { roleRights } from '../../sql/role-rights.ts';
import { serverState } from '../../sql/server-state.ts';
import { unforcedTables } from '../../sql/unforced-tables.ts';
import type { Config } from '../config.ts';
import { placeOf } from '../instance.ts';
import { keyStoreOf, openKeys } from '../keys.ts';
import { keyFile } from '../keys/key-file.ts';
import type { KeyStore } from '../keys/key-store.ts';
import { failureOf } from './failure.ts';
import { counted } from './terminal.ts';

/** One thing that was looked at, how it is, and what mends it. */
export interface Finding {
  readonly check: string;
  readonly state: 'good' | 'bad' | 'unknown';
  readonly found: string;
  readonly mend?: string;
}

const good = (check: string, found: string): Finding => ({ check, state: 'good', found });
const bad = (check: string, found: string, mend?: string): Finding => ({
  check,
  state: 'bad',
  found,
  ...(mend !== undefined && { mend }),
});

/** Looks at everything that a gateway with this configuration needs. Changes nothing of it. */
export async function* checkUp(config: Config): AsyncGenerator<Finding> {
  yield await checkFolder(config.dataDir);
  if (config.keySecret === undefined) yield await checkKeys(keyFile(config.dataDir));
  if (config.databaseUrl === undefined) {
    const binaries = await checkBinaries();
    yield binaries.finding;
    const cluster = await checkCluster(config.dataDir, binaries.major);
    yield cluster;
    if (binaries.finding.state !== 'good' || cluster.state !== 'good') return;
  }
  yield* checkDatabase(config);
}

async function checkFolder(folder: string): Promise<Finding> {
  const found = await stat(folder).catch(() => undefined);
  if (found === undefined)
    return bad('data folder', `${folder} is not there`, 'Run `earshot init`.');
  return (found.mode & 0o077) === 0
    ? good('data folder', folder)
    : bad('data folder', `others may enter ${folder}`, `Run \`chmod 700 ${folder}\`.`);
}

async function checkKeys(store: KeyStore): Promise<Finding> {
  try {
    const { jwks } = await (await openKeys(store)).current();
    return good('keys', `${counted(jwks.keys.length, 'key')} in ${store.place}`);
  } catch (error) {
    const { message, mend } = failureOf(error);
    return bad('keys', message, mend);
  }
}

async function checkBinaries(): Promise<{ finding: Finding; major?: string }> {
  try {
    const { version, major } = await preparedBinaries();
    return { finding: good('embedded binaries', `PostgreSQL ${version}`), major };
  } catch (error) {
    return { finding: bad('embedded binaries', failureOf(error).message) };
  }
}

async function checkCluster(dataDir: string, major: string | undefined): Promise<Finding> {
  const check = 'embedded data';
  const file = join(dataDir, 'postgresql', 'pgdata', 'PG_VERSION');
  const made = await readFile(file, 'utf8').then(
    (text) => text.trim(),
    () => undefined,
  );
  if (made === undefined) return bad(check, 'there is none', 'Run `earshot init`.');
  if (made === major) return good(check, `made by PostgreSQL ${made}`);
  return bad(
    check,
    `made by PostgreSQL ${made}, while this release carries ${major ?? 'none'}`,
    'Dump it with the release that made it, move the folder away, run `earshot init` and restore the dump; ' +
      `or serve it with a PostgreSQL ${made} of your own and set DATABASE_URL.`,
  );
}

async function* checkDatabase(config: Config): AsyncGenerator<Finding> {
  let place;
  try {
    place = await placeOf(config);
  } catch (error) {
    const { message, mend } = failureOf(error);
    yield bad('database', message, mend);
    return;
  }
  const database = openDatabase(place.gatewayUrl, { max: 1, applicationName: 'earshot doctor' });
  try {
    for (const look of [checkServer, checkRoles, checkRowSecurity]) yield* look(database, config);
    if (config.keySecret !== undefined) yield await checkKeys(keyStoreOf(config, database));
    yield await checkMigrations(place.adminUrl);
  } catch (error) {
    const { message, mend } = failureOf(error);
    yield bad('database', message, mend);
  } finally {
    await database.close();
    await place.stop();
  }
}

async function* checkServer(database: Database, config: Config): AsyncGenerator<Finding> {
  // The first connection is not timed: it would look like a difference of the clocks.
  await database.sql`select 1`;
  const before = Date.now();
  const server = await serverState(database);
  const after = Date.now();
  yield good('database', 'it answers');
  yield server.versionNumber >= 150_000
    ? good('version', `PostgreSQL ${server.version}`)
    : bad('version', `PostgreSQL ${server.version}`, 'Move to PostgreSQL 15 or newer.');
  yield server.encoding === 'UTF8'
    ? good('encoding', server.encoding)
    : bad('encoding', server.encoding, 'Create the database anew with encoding UTF8.');
  yield server.standby
    ? bad('primary', 'this is a standby', 'Name the primary in DATABASE_URL.')
    : good('primary', 'this server decides');
  // The server read its clock somewhere between our two readings.
  const apart = Math.max(0, before - server.clockMs, server.clockMs - after) / 1000;
  yield apart <= config.clockToleranceSeconds
    ? good(
        'clock',
        `${apart.toFixed(1)} s from the database's, ${config.clockToleranceSeconds} s allowed`,
      )
    : bad(
        'clock',
        `${apart.toFixed(1)} s from the database's, ${config.clockToleranceSeconds} s allowed`,
        'Set both clocks by NTP.',
      );
}

async function* checkRoles(database: Database): AsyncGenerator<Finding> {
  const rights = await roleRights(database);
  const tooMuch = [
    ...(rights.superuser ? ['is a superuser'] : []),
    ...(rights.bypassesRowSecurity ? ['bypasses row security'] : []),
    ...(rights.ownsContent ? ['owns what it should only use'] : []),
    ...(rights.unsafeRoles.length > 0
      ? [`stands on unsafe roles: ${rights.unsafeRoles.join(', ')}`]
      : []),
  ];
  const mend =
    'Name another login in DATABASE_URL and run `earshot migrate` with DATABASE_ADMIN_URL.';
  if (tooMuch.length > 0) yield bad('login', `${rights.login} ${tooMuch.join(', ')}`, mend);
  else if (!rights.runtime) {
    yield bad(
      'login',
      `${rights.login} lacks the rights of earshot_runtime`,
      'Run `earshot migrate`.',
    );
  } else yield good('login', `${rights.login}, no superuser, under row security`);
  yield rights.readableContent.length === 0
    ? good('content', 'the login cannot select it')
    : bad('content', `the login can select ${rights.readableContent.join(', ')}`, mend);
}

async function* checkRowSecurity(database: Database): AsyncGenerator<Finding> {
  const unforced = await unforcedTables(database);
  if (unforced === undefined) {
    yield bad('row security', 'there are no tables', 'Run `earshot migrate`.');
  } else if (unforced.length > 0) {
    const mend =
      'Restore the schema of this release: `alter table … enable row level security, force row level security`.';
    yield bad('row security', `not forced on ${unforced.join(', ')}`, mend);
  } else yield good('row security', 'forced on every table of an organization');
}

async function checkMigrations(adminUrl: string | undefined): Promise<Finding> {
  if (adminUrl === undefined) {
    return {
      check: 'migrations',
      state: 'unknown',
      found: 'only the login of DATABASE_ADMIN_URL can tell',
    };
  }
  try {
    const pending = await pendingMigrations(adminUrl);
    return pending.length === 0
      ? good('migrations', 'up to date')
      : bad('migrations', `${pending.length} to apply`, 'Run `earshot migrate`.');
  } catch (error) {
    const { message, mend } = failureOf(error);
    return bad('migrations', message, mend);
  }
}
