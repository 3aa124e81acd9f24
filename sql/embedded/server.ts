import { spawn, type ChildProcess } from 'node:child_process';
import { open, readFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Binaries } from './binaries.ts';
import { DATA_FOLDER, ENVIRONMENT, type Cluster } from './cluster.ts';
import { EmbeddedError } from './embedded-error.ts';

export const PORT = 5432;

/** Settings that callers cannot change: reachable through the folder only, and no content in the log. */
const FIXED_SETTINGS = {
  listen_addresses: '',
  port: String(PORT),
  unix_socket_directories: '.',
  unix_socket_permissions: '0700',
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
};

/**
 * Starts the server and stays beside it. Its input is a pipe whose other end only the owner holds, so it reads the end of
 * the pipe when the owner closes it or ends in any way, killed included, and then shuts the server down.
 */
const WATCHDOG = `
umask 077
exec 3<&0
"$@" 3<&- </dev/null >&2 &
server=$!
echo $server
( read closed <&3; kill -INT $server ) >/dev/null 2>&1 &
exec 3<&- >/dev/null
wait $server
kill $! 2>/dev/null
`;

export interface RunningServer {
  /** Shuts down fast: connected clients are cut off, what was committed is kept. */
  stop(): Promise<void>;
}

/** Asks whether a server offers TLS; it answers with one byte, before any login (SSLRequest of PostgreSQL's protocol). */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

/** Whether a server is ready on this cluster. `socketFolder` is a short enough way to its folder. */
export async function isServed(cluster: Cluster, socketFolder: string): Promise<boolean> {
  if ((await lockFile(cluster))?.status !== 'ready') return false;
  // A connection alone says nothing: the system accepts it for a server that is dying. A living one answers.
  return new Promise((resolve) => {
    const socket = net.connect(join(socketFolder, `.s.PGSQL.${PORT}`));
    const settle = (served: boolean) => {
      socket.destroy();
      resolve(served);
    };
    socket.setTimeout(2_000, () => settle(false));
    socket.once('connect', () => socket.write(SSL_REQUEST));
    socket.once('data', () => settle(true));
    socket.once('error', () => settle(false)).once('close', () => settle(false));
  });
}

/**
 * Starts the server and waits until it is ready. Undefined when another server holds the cluster, even if that one is only
 * starting, or is gone and the system has not noticed yet.
 */
export async function startServer(
  cluster: Cluster,
  binaries: Binaries,
  settings: Readonly<Record<string, string>>,
  logFile: string,
): Promise<RunningServer | undefined> {
  const log = await open(logFile, 'a', 0o600);
  const logged = (await log.stat()).size;
  try {
    const options = Object.entries({ ...settings, ...FIXED_SETTINGS }).flatMap(([name, value]) => [
      '-c',
      `${name}=${value}`,
    ]);
    const watchdog = spawn(
      '/bin/sh',
      ['-c', WATCHDOG, 'earshot-watchdog', binaries.postgres, '-D', DATA_FOLDER, ...options],
      // In a session of its own, so that an interrupt at the terminal stops us first and the server after us.
      {
        cwd: cluster.folder,
        env: ENVIRONMENT,
        stdio: ['pipe', 'pipe', log.fd],
        detached: true,
        ...cluster.account,
      },
    );
    const exited = new Promise<void>((resolve) =>
      watchdog.once('exit', () => resolve()).once('error', () => resolve()),
    );
    const pid = await firstLine(watchdog);
    if (await becomesReady(cluster, watchdog, pid)) return owned(watchdog, exited);
  } finally {
    await log.close();
  }

  const said = (await readFile(logFile)).subarray(logged).toString();
  if (/lock file .* already exists|pre-existing shared memory/.test(said)) return undefined;
  throw new EmbeddedError(
    'not-started',
    `The embedded PostgreSQL did not start. It said:\n${said}`,
  );
}

function owned(watchdog: ChildProcess, exited: Promise<void>): RunningServer {
  // An owner with nothing else to do may end; that stops the server too.
  watchdog.unref();
  (watchdog.stdin as net.Socket).unref();
  return {
    async stop() {
      watchdog.ref();
      watchdog.stdin?.end();
      await exited;
    },
  };
}

async function becomesReady(
  cluster: Cluster,
  watchdog: ChildProcess,
  pid: string,
): Promise<boolean> {
  while (watchdog.exitCode === null && watchdog.signalCode === null) {
    const lock = await lockFile(cluster);
    if (lock?.pid === pid && lock.status === 'ready') return true;
    await delay(5);
  }
  return false;
}

/** What the server holding the cluster says of itself in `postmaster.pid`; it may be left over from one that was killed. */
async function lockFile({ folder }: Cluster): Promise<{ pid: string; status: string } | undefined> {
  const content = await readFile(join(folder, 'postmaster.pid'), 'utf8').catch(() => undefined);
  if (content === undefined) return undefined;
  const lines = content.split('\n');
  return { pid: lines[0] ?? '', status: (lines[7] ?? '').trim() };
}

async function firstLine(child: ChildProcess): Promise<string> {
  const output = child.stdout as net.Socket;
  let line = '';
  for await (const chunk of output) {
    line += String(chunk);
    if (line.includes('\n')) break;
  }
  return line.trim();
}
