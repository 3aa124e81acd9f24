import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chown, mkdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { serverAccount, type Account } from './account.ts';
import type { Binaries } from './binaries.ts';
import { EmbeddedError } from './embedded-error.ts';

/** An initialized data folder of the server, and the account that owns it. */
export interface Cluster {
  readonly folder: string;
  readonly account: Account;
}

/**
 * How the server's programs name the data folder: they are started in it, and this way name it without a walk through its
 * parents, which may be closed to the account that runs them.
 */
export const DATA_FOLDER = process.platform === 'linux' ? '/proc/self/cwd' : '.';

/** Nothing of our own environment reaches the server's programs; messages stay in English, for us to recognize. */
export const ENVIRONMENT = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };

/** The logins are told apart by name only: whoever may enter the folder, of mode 0700, may do anything to it anyway. */
const SETUP = [
  'create role earshot_admin login createdb createrole',
  'create role earshot_gateway login',
  'create database earshot owner earshot_admin',
  'revoke connect, temporary on database earshot, postgres, template1 from public',
  'grant connect on database earshot to earshot_gateway',
  'grant connect on database postgres to earshot_admin',
];

/**
 * Finds the cluster in a data folder, or makes one whole: with its logins and its database, under its name only when it is
 * complete, so that a process that dies half-way or starts at the same time does no harm.
 */
export async function preparedCluster(
  dataDir: string,
  binaries: Binaries,
  durable: boolean,
): Promise<Cluster> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const folder = join(dataDir, 'pgdata');
  return (await existingCluster(folder, binaries)) ?? (await newCluster(folder, binaries, durable));
}

async function existingCluster(folder: string, binaries: Binaries): Promise<Cluster | undefined> {
  const found = await stat(folder).catch(() => undefined);
  if (found === undefined) return undefined;

  const major = (await readFile(join(folder, 'PG_VERSION'), 'utf8')).trim();
  if (major !== binaries.major) {
    throw new EmbeddedError(
      'other-version',
      `${folder} was made by PostgreSQL ${major}, and this release of Earshot carries ${binaries.major}. ` +
        `Dump it with the release that made it, move the folder away, start once, and restore the dump; ` +
        `or serve it with a PostgreSQL ${major} of your own and give Earshot its URL.`,
    );
  }
  if (process.getuid?.() === 0) return { folder, account: { uid: found.uid, gid: found.gid } };
  if (process.getuid?.() === found.uid) return { folder, account: undefined };
  throw new EmbeddedError(
    'no-account',
    `${folder} belongs to another user. Start Earshot as that user.`,
  );
}

async function newCluster(folder: string, binaries: Binaries, durable: boolean): Promise<Cluster> {
  const account = await serverAccount();
  const unfinished = { folder: `${folder}.${randomUUID()}`, account };
  const data = ['-D', DATA_FOLDER];
  try {
    await mkdir(unfinished.folder, { mode: 0o700 });
    if (account) await chown(unfinished.folder, account.uid, account.gid);
    await run(unfinished, binaries.initdb, [
      ...[
        ...data,
        '--username=postgres',
        '--encoding=UTF8',
        '--locale=C',
        '--no-sync',
        '--no-instructions',
      ],
      ...['--auth-local=trust', '--auth-host=reject'],
    ]);
    const setup = SETUP.map((statement) => `${statement};\n`).join('');
    await run(
      unfinished,
      binaries.postgres,
      ['--single', ...data, '-c', 'exit_on_error=on', 'postgres'],
      setup,
    );
    if (durable) await run(unfinished, binaries.initdb, [...data, '--sync-only']);
    await rename(unfinished.folder, folder);
    return { folder, account };
  } catch (error) {
    const other = await existingCluster(folder, binaries);
    if (other === undefined) throw error;
    return other;
  } finally {
    await rm(unfinished.folder, { recursive: true, force: true });
  }
}

async function run(
  { folder, account }: Cluster,
  program: string,
  args: string[],
  input = '',
): Promise<void> {
  const child = spawn(program, args, { cwd: folder, env: ENVIRONMENT, ...account });
  child.stdin.end(input);
  const exit = new Promise<number | null>((resolve, reject) =>
    child.on('exit', resolve).on('error', reject),
  );
  const [code, , errors] = await Promise.all([exit, text(child.stdout), text(child.stderr)]);
  if (code !== 0) throw new EmbeddedError('not-started', `${program} failed.\n${errors}`);
}
