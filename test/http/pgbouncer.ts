import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chown, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { parseDatabaseUrl } from '../../sql/database-url.ts';

const BINARY = '/usr/sbin/pgbouncer';
const PORT = 6432;

/** Why there is no pooler to test with; undefined where there is one. */
export const noPgbouncer = existsSync(BINARY) ? undefined : `${BINARY} is not installed`;

export interface Pooler {
  /** The same login and database, through the pooler. */
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * Starts a PgBouncer in transaction mode before one database, on a socket of its own, with so many connections to the
 * server. It runs as the server's account, since it is as root that it refuses to run, and may then use the server's socket.
 */
export async function startPgbouncer(gatewayUrl: string, poolSize: number): Promise<Pooler> {
  const { user, password, database, host, port } = parseDatabaseUrl(gatewayUrl);
  const bySocket = host.startsWith('/');
  const account = await accountOf(bySocket ? `${host}/.s.PGSQL.${String(port)}` : '/');
  const folder = await mkdtemp(join(tmpdir(), 'earshot-pooler-'));
  // The way to the server's socket may be closed to its own account; a working directory needs no way.
  const server = bySocket ? '/proc/self/cwd' : host;
  await writeFile(
    join(folder, 'pgbouncer.ini'),
    [
      '[databases]',
      `${database} = host=${server} port=${String(port)} dbname=${database} user=${user}` +
        `${password === '' ? '' : ` password='${password}'`} connect_query='set statement_timeout = 30000'`,
      '[pgbouncer]',
      'pool_mode = transaction',
      `default_pool_size = ${String(poolSize)}`,
      'max_client_conn = 200',
      // The gateway asks for it when it connects, and a pooler in transaction mode cannot keep it for one client.
      'ignore_startup_parameters = statement_timeout',
      'auth_type = any',
      `unix_socket_dir = ${folder}`,
      `listen_port = ${String(PORT)}`,
      `logfile = ${folder}/log`,
    ].join('\n'),
  );
  if (account !== undefined) await chown(folder, account.uid, account.gid);
  const child = spawn(BINARY, ['--quiet', join(folder, 'pgbouncer.ini')], {
    ...account,
    ...(bySocket && { cwd: host }),
    stdio: 'ignore',
  });
  const ended = once(child, 'exit');
  const socket = join(folder, `.s.PGSQL.${String(PORT)}`);
  while (!(await accepts(socket))) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`no pooler: ${await readFile(join(folder, 'log'), 'utf8').catch(() => '')}`);
    }
    await turn();
  }
  return {
    url: `postgresql://${encodeURIComponent(user)}@/${database}?host=${encodeURIComponent(folder)}&port=${String(PORT)}`,
    async stop() {
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

async function accountOf(path: string): Promise<{ uid: number; gid: number } | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const { uid, gid } = await stat(path);
  const nobody = 65_534;
  return uid === 0 ? { uid: nobody, gid: nobody } : { uid, gid };
}

function accepts(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net
      .connect(path)
      .once('connect', () => {
        socket.destroy();
        resolve(true);
      })
      .once('error', () => resolve(false));
  });
}
