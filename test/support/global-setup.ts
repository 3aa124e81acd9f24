import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { openDatabase } from '../../sql/database.ts';
import { startEmbedded } from '../../sql/embedded.ts';
import { migrate } from '../../sql/migrate.ts';
import { toDatabase } from './database.ts';

declare module 'vitest' {
  interface ProvidedContext {
    testServer: TestServer;
  }
}

/** The server of a test run. The URLs name no database of the tests yet. */
export interface TestServer {
  readonly superuserUrl: string;
  readonly adminUrl: string;
  readonly gatewayUrl: string;
  /** A migrated database that nobody is connected to. */
  readonly template: string;
}

/**
 * Starts an embedded server, or takes the one that DATABASE_URL_TEST names a superuser of, and migrates a database there
 * for the test files to clone.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env.DATABASE_URL_TEST;
  const { stop, ...server } = given ? await givenServer(given) : await embeddedServer();
  const run = randomBytes(4).toString('hex');
  const template = `earshot_test_${run}`;

  const superuser = openDatabase(server.superuserUrl, { max: 1 });
  await superuser.sql.unsafe(
    `create database ${template} owner earshot_admin template template0 encoding UTF8 locale 'C'`,
  );
  await migrate(toDatabase(server.adminUrl, template), { gatewayUrl: server.gatewayUrl });
  project.provide('testServer', { ...server, template });

  return async () => {
    const left = await superuser.sql<{ name: string }[]>`
      select datname as name from pg_database where starts_with(datname, ${template})`;
    for (const { name } of left) await superuser.sql.unsafe(`drop database ${name} with (force)`);
    await superuser.close();
    await stop();
  };
}

async function embeddedServer() {
  const dataDir = await mkdtemp(join(tmpdir(), 'earshot-test-'));
  const settings = { fsync: 'off', full_page_writes: 'off', max_connections: '200' };
  const server = await startEmbedded({ dataDir, settings });
  return {
    superuserUrl: server.superuserUrl(),
    adminUrl: server.adminUrl(),
    gatewayUrl: server.gatewayUrl(),
    async stop() {
      await server.stop();
      await rm(dataDir, { recursive: true });
    },
  };
}

/** Gives a server the two logins that the embedded one has. They stay there, for another run may be using them. */
async function givenServer(superuserUrl: string) {
  const password = randomBytes(16).toString('hex');
  const superuser = openDatabase(superuserUrl, { max: 1 });
  for (const [name, rights] of [
    ['earshot_admin', 'createdb createrole'],
    ['earshot_gateway', ''],
  ] as const) {
    const [found] = await superuser.sql`select from pg_roles where rolname = ${name}`;
    const verb = found ? 'alter' : 'create';
    await superuser.sql.unsafe(
      `${verb} role ${name} login nosuperuser nobypassrls ${rights} password '${password}'`,
    );
  }
  await superuser.close();
  const as = (login: string) => superuserUrl.replace(/\/\/([^/?#]*@)?/, `//${login}:${password}@`);
  return {
    superuserUrl,
    adminUrl: as('earshot_admin'),
    gatewayUrl: as('earshot_gateway'),
    stop: () => Promise.resolve(),
  };
}
