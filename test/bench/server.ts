import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { openDatabase, type Database } from '../../sql/database.ts';
import { parseDatabaseUrl } from '../../sql/database-url.ts';
import { startEmbedded } from '../../sql/embedded.ts';
import { migrate } from '../../sql/migrate.ts';
import { toDatabase } from '../support/database.ts';
import type { BenchOptions } from './options.ts';
import { datasetDigest, loadDataset, type Sizes } from './dataset.ts';

/** A server to measure on. */
export interface BenchServer {
  readonly version: string;
  /** Finds the data of these sizes, or makes it, and prepares it for a run. */
  open(sizes: Sizes): Promise<BenchDatabase>;
  /** Removes that data. */
  drop(sizes: Sizes): Promise<void>;
  close(): Promise<void>;
}

/** A database with the data of a bench, and the three ways into it. */
export interface BenchDatabase {
  readonly name: string;
  readonly sizes: Sizes;
  readonly superuserUrl: string;
  readonly gatewayUrl: string;
  /** What the gateway works with. */
  readonly gateway: Database;
  /** Sees everything, held by no row security: for loading, and for what others would do. */
  readonly superuser: Database;
  close(): Promise<void>;
}

interface Logins {
  readonly superuserUrl: string;
  readonly adminUrl: string;
  readonly gatewayUrl: string;
  stop(): Promise<void>;
}

/**
 * Starts an embedded server in a folder of the bench, durable as the product's is, or takes the one
 * whose superuser is named. Data stays there under a name made of its sizes and the schema.
 *
 * @param say is told what takes long
 */
export async function openBenchServer(
  {
    databaseUrl,
    dataDir,
    migrations,
  }: Pick<BenchOptions, 'databaseUrl' | 'dataDir' | 'migrations'>,
  say: (line: string) => void,
): Promise<BenchServer> {
  const logins =
    databaseUrl === undefined ? await embeddedLogins(dataDir) : await givenLogins(databaseUrl);
  const root = openDatabase(logins.superuserUrl, { max: 1 });
  const [server] = await root.sql<{ version: string }[]>`
    select current_setting('server_version') as version`;
  return {
    version: server?.version ?? '',
    open: (sizes) => openData(logins, root, migrations, sizes, say),
    async drop(sizes) {
      await root.sql.unsafe(
        `drop database if exists ${await nameOf(sizes, migrations)} with (force)`,
      );
    },
    async close() {
      await root.close();
      await logins.stop();
    },
  };
}

async function nameOf(sizes: Sizes, migrations: URL): Promise<string> {
  return `earshot_bench_${await datasetDigest(sizes, migrations)}`;
}

async function openData(
  logins: Logins,
  root: Database,
  migrations: URL,
  sizes: Sizes,
  say: (line: string) => void,
): Promise<BenchDatabase> {
  const name = await nameOf(sizes, migrations);
  const [superuserUrl, gatewayUrl] = [
    toDatabase(logins.superuserUrl, name),
    toDatabase(logins.gatewayUrl, name),
  ];
  const [known] = await root.sql`select from pg_database where datname = ${name}`;
  if (known === undefined) {
    say(`Making ${name}: ${sizes.memberships} memberships, ${sizes.messages} messages.`);
    // Under another name until it is whole.
    const draft = `${name}_draft`;
    await root.sql.unsafe(`drop database if exists ${draft} with (force)`);
    const owner = parseDatabaseUrl(logins.adminUrl).user;
    await root.sql.unsafe(
      `create database ${draft} owner ${owner} template template0 encoding UTF8 locale 'C'`,
    );
    await migrate(toDatabase(logins.adminUrl, draft), {
      gatewayUrl: toDatabase(logins.gatewayUrl, draft),
      folder: migrations,
    });
    const loader = openDatabase(toDatabase(logins.superuserUrl, draft), { max: 1 });
    try {
      await loadDataset(loader, sizes, (step, seconds) => say(`  ${step} ${seconds.toFixed(1)} s`));
    } finally {
      await loader.close();
    }
    await root.sql.unsafe(`alter database ${draft} rename to ${name}`);
  }
  // What others would do may keep every connection for long.
  const superuser = openDatabase(superuserUrl, { max: 10, connectTimeoutSeconds: 600 });
  await superuser.sql.unsafe(await readFile(new URL('setup.sql', import.meta.url), 'utf8'));
  const gateway = openDatabase(gatewayUrl, { max: 10 });
  return {
    ...{ name, sizes, superuserUrl, gatewayUrl, gateway, superuser },
    async close() {
      await gateway.close();
      await superuser.close();
    },
  };
}

async function embeddedLogins(dataDir: string): Promise<Logins> {
  const cores = availableParallelism();
  const buffers = Math.min(4096, Math.floor(totalmem() / 4 / 1024 / 1024));
  const server = await startEmbedded({
    dataDir,
    settings: {
      shared_buffers: `${buffers}MB`,
      max_wal_size: '8GB',
      max_connections: '100',
      max_parallel_workers: String(cores),
    },
  });
  return {
    superuserUrl: server.superuserUrl(),
    adminUrl: server.adminUrl(),
    gatewayUrl: server.gatewayUrl(),
    stop: () => server.stop(),
  };
}

/** The superuser migrates too; the gateway gets a login of its own, which stays there. */
async function givenLogins(superuserUrl: string): Promise<Logins> {
  const password = randomBytes(16).toString('hex');
  const login = 'earshot_bench_gateway';
  const { sql, close } = openDatabase(superuserUrl, { max: 1 });
  const [found] = await sql`select from pg_roles where rolname = ${login}`;
  const verb = found === undefined ? 'create' : 'alter';
  await sql.unsafe(`${verb} role ${login} login nosuperuser nobypassrls password '${password}'`);
  await close();
  return {
    superuserUrl,
    adminUrl: superuserUrl,
    gatewayUrl: superuserUrl.replace(/\/\/([^/?#]*@)?/, `//${login}:${password}@`),
    stop: () => Promise.resolve(),
  };
}
