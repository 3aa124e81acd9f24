import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { JSONWebKeySet } from 'jose';
import { keysOf, type ClearanceKeys } from '../../delivery/clearance-check.ts';
import { readConfig } from '../../gateway/config.ts';
import { openInstance } from '../../gateway/instance.ts';
import { createKeys } from '../../gateway/keys.ts';
import { openDatabase } from '../../sql/database.ts';
import { startEmbedded } from '../../sql/embedded.ts';
import { startCommand } from '../cli/command.ts';
import { gatewayOf, type TestGateway } from '../support/gateway.ts';
import { openHolds, type Holds } from './holds.ts';

/** A database server of the test's own and a gateway process over it, each of which is struck by faults. */
export interface CrashSite {
  /** Another gateway, in this process and never killed: for what surrounds a delivery. */
  readonly arranger: Omit<TestGateway, 'target'>;
  readonly owner: TestGateway['owner'];
  readonly keys: ClearanceKeys;
  /** Where the gateway process listens now. */
  readonly url: () => string;
  readonly holds: Holds;
  /** Has another gateway started, to take over at once. */
  prepareGateway(): void;
  /** Kills the gateway process; another one takes over. What it asked of the database goes on there. */
  killGateway(): Promise<void>;
  /** Kills the database server and starts it again, which recovers. */
  killDatabase(): Promise<void>;
  /** Cuts every connection of every gateway at the database. */
  cutConnections(): Promise<void>;
  close(): Promise<void>;
}

/** Nothing ends by itself while a test holds it. */
const SETTINGS = {
  EARSHOT_STATEMENT_TIMEOUT_MS: '60000',
  EARSHOT_REQUEST_TIMEOUT_MS: '60000',
  EARSHOT_POOL_SIZE: '80',
  EARSHOT_REQUESTS_PER_SECOND: '1000000',
  EARSHOT_GRANT_SECONDS: '3600',
  EARSHOT_LEASE_SECONDS: '600',
  EARSHOT_DELIVERY_SECONDS: '3600',
  EARSHOT_ACKNOWLEDGE_SECONDS: '3600',
};

export async function openCrashSite(): Promise<CrashSite> {
  const folder = await mkdtemp(join(tmpdir(), 'earshot-crash-'));
  const start = () =>
    startEmbedded({
      dataDir: join(folder, 'pg'),
      settings: { fsync: 'off', full_page_writes: 'off', max_connections: '200' },
    });
  let server = await start();
  await createKeys(folder);
  const env = {
    DATABASE_URL: server.gatewayUrl(),
    EARSHOT_DATA_DIR: folder,
    ...SETTINGS,
  };
  const instance = await openInstance(
    readConfig({ ...env, EARSHOT_POOL_SIZE: '10', DATABASE_ADMIN_URL: server.adminUrl() }),
  );
  const superuser = openDatabase(server.superuserUrl('earshot'), { max: 3 });
  const owner = superuser.sql;
  const arranger = await gatewayOf(instance, owner);
  const holds = await openHolds(owner, server.superuserUrl('earshot'));
  const { body } = await arranger.send('GET', '/.well-known/jwks.json');

  let serving = await startGateway(folder, env);
  let next: ReturnType<typeof startGateway> | undefined;
  return {
    arranger,
    owner,
    keys: keysOf(body as JSONWebKeySet),
    url: () => serving.url,
    holds,
    prepareGateway() {
      next ??= startGateway(folder, env);
    },
    async killGateway() {
      const successor = await (next ?? startGateway(folder, env));
      next = undefined;
      await serving.kill('SIGKILL');
      serving = successor;
    },
    async killDatabase() {
      const lock = await readFile(join(folder, 'pg', 'pgdata', 'postmaster.pid'), 'utf8');
      process.kill(Number(lock.split('\n')[0]), 'SIGKILL');
      await server.stop();
      server = await start();
    },
    async cutConnections() {
      const ofGateways = () => owner<{ pid: number }[]>`
        select pid from pg_stat_activity where usename = 'earshot_gateway'`;
      const cut = new Set((await ofGateways()).map(({ pid }) => pid));
      await owner`select pg_terminate_backend(pid) from unnest(${owner.array([...cut])}::integer[]) pid`;
      while ((await ofGateways()).some(({ pid }) => cut.has(pid)));
    },
    async close() {
      await Promise.all([serving.kill('SIGTERM'), next?.then((spare) => spare.kill('SIGTERM'))]);
      await holds.letGo();
      await instance.close();
      await superuser.close();
      await server.stop();
      await rm(folder, { recursive: true });
    },
  };
}

async function startGateway(cwd: string, env: Readonly<Record<string, string>>) {
  const child = startCommand(['serve', '--port', '0'], { cwd, env });
  child.stderr.resume();
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  const { url } = JSON.parse(line) as { url: string };
  return {
    url,
    async kill(signal: 'SIGKILL' | 'SIGTERM') {
      const exited = once(child, 'exit');
      child.kill(signal);
      await exited;
    },
  };
}
