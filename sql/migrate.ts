import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import type postgres from 'postgres';
import { z } from 'zod';
import { admitGateway, prepareRoles } from './cluster-roles.ts';
import { openDatabase } from './database.ts';
import { MigrationError } from './migration-error.ts';

export interface MigrateOptions {
  /** The login that the gateway will use: it is made if it is not there, and given the gateway's privileges. */
  readonly gatewayUrl?: string;
  /** Where the migrations are, with a slash at the end; beside this module unless given. */
  readonly folder?: URL;
}

/**
 * Brings the database up to this release and returns the names of the migrations it applied.
 *
 * Forward only, each migration in a transaction of its own, several processes at once safely one after the other. Needs a
 * login that owns the database and may make roles; a superuser is not needed.
 *
 * @throws {MigrationError} if the server is unsuitable, a migration that was applied has changed since, the database is
 * ahead of this release, or a role has more rights than it may have
 */
export async function migrate(adminUrl: string, options: MigrateOptions = {}): Promise<string[]> {
  const migrations = await readMigrations(
    options.folder ?? new URL('./migrations/', import.meta.url),
  );
  const database = openDatabase(adminUrl, { max: 1, applicationName: 'earshot migrate' });
  try {
    const session = await database.sql.reserve();
    try {
      return await migrateIn(session, migrations, options);
    } finally {
      session.release();
    }
  } finally {
    await database.close();
  }
}

/**
 * The names of the migrations that this release has and the database lacks. Changes nothing.
 *
 * @throws {MigrationError} as {@link migrate} does, if the server is unsuitable, or the database is ahead or other
 */
export async function pendingMigrations(adminUrl: string, folder?: URL): Promise<string[]> {
  const migrations = await readMigrations(folder ?? new URL('./migrations/', import.meta.url));
  const database = openDatabase(adminUrl, { max: 1, applicationName: 'earshot doctor' });
  try {
    await checkServer(database.sql);
    const [{ known } = { known: false }] = await database.sql<{ known: boolean }[]>`
      select to_regclass('earshot.migrations') is not null as known`;
    const applied = known ? await readApplied(database.sql) : [];
    checkHistory(applied, migrations);
    return migrations.slice(applied.length).map(({ name }) => name);
  } finally {
    await database.close();
  }
}

interface Migration {
  readonly name: string;
  readonly sha256: string;
  readonly text: string;
}

const RECORD = `
  create schema if not exists earshot;
  create table if not exists earshot.migrations (
    name text collate "C" primary key,
    sha256 text not null,
    applied_at timestamptz not null default now()
  );
`;

const Applied = z.array(z.object({ name: z.string(), sha256: z.string() }));

async function migrateIn(
  session: postgres.Sql,
  migrations: Migration[],
  { gatewayUrl }: MigrateOptions,
) {
  await checkServer(session);
  await session`select pg_advisory_lock(hashtextextended('earshot migrate', 0))`;
  await prepareRoles(session);
  await session.unsafe(RECORD);

  const applied = await readApplied(session);
  checkHistory(applied, migrations);
  const pending = migrations.slice(applied.length);
  for (const migration of pending) await apply(session, migration);

  if (gatewayUrl !== undefined) await admitGateway(session, gatewayUrl);
  return pending.map(({ name }) => name);
}

async function readMigrations(folder: URL): Promise<Migration[]> {
  const names = (await readdir(folder))
    .filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name))
    .sort();
  return Promise.all(
    names.map(async (name) => {
      // A checkout with other line endings is the same migration.
      const text = (await readFile(new URL(name, folder), 'utf8')).replaceAll('\r\n', '\n');
      return { name, sha256: createHash('sha256').update(text).digest('hex'), text };
    }),
  );
}

async function readApplied(session: postgres.Sql) {
  return Applied.parse(await session`select name, sha256 from earshot.migrations order by name`);
}

async function apply(session: postgres.Sql, { name, sha256, text }: Migration): Promise<void> {
  await session.begin(async (transaction) => {
    await transaction.unsafe(text);
    await transaction`insert into earshot.migrations (name, sha256) values (${name}, ${sha256})`;
  });
}

function checkHistory(applied: z.infer<typeof Applied>, migrations: readonly Migration[]): void {
  for (const [index, { name, sha256 }] of applied.entries()) {
    const migration = migrations[index];
    if (migration?.name !== name) {
      throw new MigrationError(
        'ahead',
        `The database has the migration ${name}, which this release does not know. Use a newer release.`,
      );
    }
    if (migration.sha256 !== sha256) {
      throw new MigrationError(
        'changed',
        `The migration ${name} is not the one that was applied to this database.`,
      );
    }
  }
}

async function checkServer(session: postgres.Sql): Promise<void> {
  const [server] = await session<{ version: number; name: string; encoding: string }[]>`
    select current_setting('server_version_num')::int as version, current_setting('server_version') as name,
      current_setting('server_encoding') as encoding`;
  if (server === undefined || server.version < 150_000) {
    throw new MigrationError(
      'server',
      `Earshot needs PostgreSQL 15 or newer; this is ${server?.name}.`,
    );
  }
  if (server.encoding !== 'UTF8') {
    throw new MigrationError(
      'server',
      `Earshot needs a database with encoding UTF8; this one has ${server.encoding}.`,
    );
  }
}
