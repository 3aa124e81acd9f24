import { mkdtemp, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { preparedBinaries } from './embedded/binaries.ts';
import { preparedCluster, type Cluster } from './embedded/cluster.ts';
import { EmbeddedError } from './embedded/embedded-error.ts';
import { isServed, PORT, startServer, type RunningServer } from './embedded/server.ts';

/** A PostgreSQL of our own, reached over a Unix socket in its data folder. */
export interface EmbeddedServer {
  /** The login that migrates: owns the database and may make roles, but is no superuser. */
  readonly adminUrl: (database?: string) => string;
  /** The login the gateway works with. */
  readonly gatewayUrl: (database?: string) => string;
  /** For supervision and tests only; the gateway never connects as this one. */
  readonly superuserUrl: (database?: string) => string;
  /** For example `18.4`. */
  readonly version: string;
  /** Whether this process runs the server, or has joined one that another process runs. */
  readonly owned: boolean;
  /** Ends an owned server, cutting off every client of it; leaves a joined one alone. */
  readonly stop: () => Promise<void>;
}

export interface EmbeddedOptions {
  /** Holds all data and the server's log. Made with mode 0700 if it is not there. */
  readonly dataDir: string;
  /** PostgreSQL settings for this run. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Where the binaries are unpacked; the user's or the system's cache folder unless given. */
  readonly cacheDir?: string;
}

/**
 * Starts the server of a data folder, initializing the folder first if it is new, or joins the one that runs on it.
 *
 * The process that starts the server owns it: the server ends when `stop` is called or when the owner ends, however it
 * ends. Whoever joined then sees its statements fail as unavailable, and may call this again to become the owner.
 *
 * @throws {EmbeddedError} with a message that names the mend
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const { settings = {}, cacheDir } = options;
  if (process.platform === 'win32') {
    throw new EmbeddedError(
      'no-binaries',
      'The embedded PostgreSQL needs Linux or macOS. Give the URL of a server.',
    );
  }
  const binaries = await preparedBinaries(cacheDir === undefined ? undefined : [cacheDir]);
  const dataDir = resolve(options.dataDir);
  const cluster = await preparedCluster(dataDir, binaries, settings.fsync !== 'off');
  const way = await shortWay(cluster);
  const server = await startOrJoin(cluster, way.folder, (logFile) =>
    startServer(cluster, binaries, settings, logFile),
  ).catch(async (error: unknown) => {
    await way.close();
    throw error;
  });

  const url = (login: string, database: string) =>
    `postgresql://${login}@/${database}?host=${encodeURIComponent(way.folder)}&port=${PORT}`;
  return {
    adminUrl: (database = 'earshot') => url('earshot_admin', database),
    gatewayUrl: (database = 'earshot') => url('earshot_gateway', database),
    superuserUrl: (database = 'postgres') => url('postgres', database),
    version: binaries.version,
    owned: server !== undefined,
    async stop() {
      await server?.stop();
      await way.close();
    },
  };
}

/** Undefined when another process's server is joined. One that is starting or ending is waited for. */
async function startOrJoin(
  cluster: Cluster,
  socketFolder: string,
  start: (logFile: string) => Promise<RunningServer | undefined>,
): Promise<RunningServer | undefined> {
  const logFile = join(dirname(cluster.folder), 'server.log');
  const patience = Date.now() + 20_000;
  while (!(await isServed(cluster, socketFolder))) {
    const server = await start(logFile);
    if (server !== undefined) return server;
    if (Date.now() > patience) {
      throw new EmbeddedError(
        'not-started',
        `Another server holds ${cluster.folder} and does not answer. See ${logFile}.`,
      );
    }
    await delay(50);
  }
  return undefined;
}

/** The path of a Unix socket is limited to about 100 bytes, so a long folder is reached through a link of our own. */
async function shortWay({ folder }: Cluster): Promise<{ folder: string; close(): Promise<void> }> {
  const longest = 85;
  if (Buffer.byteLength(folder) <= longest) return { folder, close: () => Promise.resolve() };
  const parent = Buffer.byteLength(tmpdir()) <= longest - 20 ? tmpdir() : '/tmp';
  const home = await mkdtemp(join(parent, 'earshot-'));
  const link = join(home, 'pg');
  await symlink(await realpath(folder), link);
  return { folder: link, close: () => rm(home, { recursive: true, force: true }) };
}
