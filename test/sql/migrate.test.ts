import { cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { openDatabase } from '../../sql/database.ts';
import { startEmbedded } from '../../sql/embedded.ts';
import { migrate } from '../../sql/migrate.ts';
import { MigrationError } from '../../sql/migration-error.ts';
import { dumpSchema } from '../../sql/schema-dump.ts';
import { createTestDatabase, toDatabase } from '../support/database.ts';

const MIGRATIONS = fileURLToPath(new URL('../../sql/migrations/', import.meta.url));
const names = (await readdir(MIGRATIONS)).sort();
const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

test('migrations are numbered without a gap', () => {
  expect(names.map((name) => name.slice(0, 5))).toEqual(
    names.map((_, index) => `${String(index + 1).padStart(4, '0')}_`),
  );
});

test('an empty database gets every migration in order, once', async () => {
  const { adminUrl, gatewayUrl } = await emptyDatabase();

  expect(await migrate(adminUrl, { gatewayUrl })).toEqual(names);
  expect(await migrate(adminUrl, { gatewayUrl })).toEqual([]);
});

test('the schema is the one kept in sql/schema.sql.txt', async () => {
  const { adminUrl } = await emptyDatabase();
  await migrate(adminUrl);

  await expect(await schemaOf(adminUrl)).toMatchFileSnapshot('../../sql/schema.sql.txt');
});

test('every earlier version is brought to the same schema as an empty database', async () => {
  const migrated = await createTestDatabase();
  cleanups.push(migrated.drop);
  const expected = await schemaOf(migrated.adminUrl);

  const { adminUrl } = await emptyDatabase();
  for (let version = 1; version <= names.length; version++) {
    const folder = await folderOf(names.slice(0, version));
    expect(await migrate(adminUrl, { folder })).toEqual([names[version - 1]]);
  }
  expect(await schemaOf(adminUrl)).toBe(expected);
});

test('several processes that migrate at once apply each migration once', async () => {
  const { adminUrl, gatewayUrl } = await emptyDatabase();

  const applied = await Promise.all([1, 2, 3, 4].map(() => migrate(adminUrl, { gatewayUrl })));

  expect(applied.flat().sort()).toEqual(names);
});

test('two databases of a new server can be migrated at once, though they share their roles', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'earshot-migrate-'));
  const server = await startEmbedded({ dataDir, settings: { fsync: 'off' } });
  cleanups.push(async () => {
    await server.stop();
    await rm(dataDir, { recursive: true });
  });
  const databases = ['one', 'two', 'three'];
  for (const name of databases)
    await execute(server.adminUrl('postgres'), `create database ${name}`);

  const applied = await Promise.all(
    databases.map((name) =>
      migrate(server.adminUrl(name), { gatewayUrl: server.gatewayUrl(name) }),
    ),
  );

  expect(applied).toEqual(databases.map(() => names));
});

test('a migration that changed after it was applied is refused, and nothing after it is applied', async () => {
  const { adminUrl } = await emptyDatabase();
  const folder = await folderOf([]);
  await add(folder, '0001_create_one.sql', 'create table earshot.one ()');
  await migrate(adminUrl, { folder });

  await add(folder, '0001_create_one.sql', 'create table earshot.one (id int)');
  await add(folder, '0002_create_two.sql', 'create table earshot.two ()');

  await expect(migrate(adminUrl, { folder })).rejects.toMatchObject({
    name: 'MigrationError',
    code: 'changed',
  });
  expect(await tablesOf(adminUrl)).toEqual(['migrations', 'one']);
});

test('a migration checked out with other line endings is the same migration', async () => {
  const { adminUrl } = await emptyDatabase();
  const folder = await folderOf([]);
  await add(folder, '0001_create_one.sql', 'create table earshot.one\n();\n');
  await migrate(adminUrl, { folder });

  await add(folder, '0001_create_one.sql', 'create table earshot.one\r\n();\r\n');

  expect(await migrate(adminUrl, { folder })).toEqual([]);
});

test('a database that is ahead of the release is refused', async () => {
  const { adminUrl } = await emptyDatabase();
  const newer = await folderOf([]);
  await add(newer, '0001_create_one.sql', 'create table earshot.one ()');
  await add(newer, '0002_create_two.sql', 'create table earshot.two ()');
  await migrate(adminUrl, { folder: newer });
  const older = await folderOf([]);
  await add(older, '0001_create_one.sql', 'create table earshot.one ()');

  await expect(migrate(adminUrl, { folder: older })).rejects.toMatchObject({ code: 'ahead' });
});

test('a migration that fails half-way leaves nothing of itself and keeps those before it', async () => {
  const { adminUrl } = await emptyDatabase();
  const folder = await folderOf([]);
  await add(folder, '0001_create_one.sql', 'create table earshot.one ()');
  await add(folder, '0002_create_two.sql', 'create table earshot.two (); select 1 / 0;');

  await expect(migrate(adminUrl, { folder })).rejects.toMatchObject({ code: '22012' });

  expect(await tablesOf(adminUrl)).toEqual(['migrations', 'one']);
  await add(folder, '0002_create_two.sql', 'create table earshot.two ();');
  expect(await migrate(adminUrl, { folder })).toEqual(['0002_create_two.sql']);
});

test('a database with another encoding than UTF8 is refused', async () => {
  const database = await emptyDatabase();
  const name = `${database.name}_ascii`;
  await execute(
    database.superuserUrl,
    `create database ${name} owner earshot_admin template template0 encoding SQL_ASCII`,
  );

  await expect(migrate(toDatabase(database.adminUrl, name))).rejects.toMatchObject({
    code: 'server',
  });
});

test('a gateway login that is not there is made, with the rights of the gateway and no others', async () => {
  const { adminUrl, gatewayUrl, superuserUrl, name } = await emptyDatabase();
  const login = `gateway of ${name}`;
  const url = gatewayUrl.replace(/\/\/[^@]*@/, `//${encodeURIComponent(login)}:secret@`);

  await migrate(adminUrl, { gatewayUrl: url });
  cleanups.push(() => execute(superuserUrl, `drop owned by "${login}"; drop role "${login}"`));

  const { sql, close } = openDatabase(url, { max: 1 });
  const [rights] = await sql`
    select current_user as login, rolsuper or rolbypassrls or rolcreaterole or rolcreatedb as powerful,
      pg_has_role('earshot_runtime', 'usage') as runtime, pg_has_role('earshot_scoped', 'member') as scoped
    from pg_roles where rolname = current_user`;
  expect(rights).toEqual({ login, powerful: false, runtime: true, scoped: false });
  await close();
});

test('a gateway login that could get round row security is refused', async () => {
  const { adminUrl, superuserUrl } = await emptyDatabase();

  for (const gatewayUrl of [superuserUrl, adminUrl]) {
    const refusal = await migrate(adminUrl, { gatewayUrl }).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(MigrationError);
    expect(refusal).toMatchObject({ code: 'roles' });
  }
});

test('the password of a gateway login that is made reaches the server as a verifier only', async () => {
  const { adminUrl, gatewayUrl, superuserUrl, name } = await emptyDatabase();
  const login = `gateway_${name}`;
  // The server would store a password it was told in this older way.
  await execute(superuserUrl, `alter database ${name} set password_encryption = 'md5'`);

  await migrate(adminUrl, { gatewayUrl: gatewayUrl.replace(/\/\/[^@]*@/, `//${login}:secret@`) });
  cleanups.push(() => execute(superuserUrl, `drop owned by ${login}; drop role ${login}`));

  const { sql, close } = openDatabase(superuserUrl, { max: 1 });
  const [stored] = await sql`select rolpassword as secret from pg_authid where rolname = ${login}`;
  expect(stored).toEqual({ secret: expect.stringMatching(/^SCRAM-SHA-256\$4096:/) as string });
  await close();
});

async function emptyDatabase() {
  const database = await createTestDatabase({ empty: true });
  cleanups.push(database.drop);
  return database;
}

/** A folder of its own with copies of some of the migrations. */
async function folderOf(migrations: readonly string[]): Promise<URL> {
  const folder = await mkdtemp(join(tmpdir(), 'earshot-migrations-'));
  cleanups.push(() => rm(folder, { recursive: true }));
  for (const name of migrations) await cp(join(MIGRATIONS, name), join(folder, name));
  return pathToFileURL(`${folder}/`);
}

function add(folder: URL, name: string, text: string): Promise<void> {
  return writeFile(new URL(name, folder), text);
}

async function schemaOf(url: string): Promise<string> {
  const { sql, close } = openDatabase(url, { max: 1 });
  try {
    return await dumpSchema(sql);
  } finally {
    await close();
  }
}

async function tablesOf(url: string): Promise<string[]> {
  const { sql, close } = openDatabase(url, { max: 1 });
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'earshot'::regnamespace and relkind = 'r' order by relname`;
  await close();
  return tables.map(({ name }) => name);
}

async function execute(url: string, statements: string): Promise<void> {
  const { sql, close } = openDatabase(url, { max: 1 });
  try {
    await sql.unsafe(statements);
  } finally {
    await close();
  }
}
