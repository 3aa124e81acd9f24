import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openDatabase } from '../../sql/database.ts';
import { startEmbedded } from '../../sql/embedded.ts';
import { EmbeddedError } from '../../sql/embedded/embedded-error.ts';
import { faultOf } from '../../sql/faults.ts';

let folder: string;
let dataDir: string;
const started: { stop(): Promise<void> }[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-embedded-'));
  dataDir = join(folder, 'data');
});

afterEach(async () => {
  for (const server of started.splice(0).reverse()) await server.stop();
  await rm(folder, { recursive: true });
});

test('the gateway and the administrator of an embedded server are no superusers', async () => {
  const server = await start();
  const rights = `select rolsuper, rolbypassrls, rolcreatedb, rolcreaterole from pg_roles where rolname = current_user`;

  expect(server.owned).toBe(true);
  expect(await ask(server.gatewayUrl(), rights)).toEqual([
    { rolsuper: false, rolbypassrls: false, rolcreatedb: false, rolcreaterole: false },
  ]);
  expect(await ask(server.adminUrl(), rights)).toEqual([
    { rolsuper: false, rolbypassrls: false, rolcreatedb: true, rolcreaterole: true },
  ]);
  expect(await ask(server.adminUrl(), 'show server_encoding')).toEqual([
    { server_encoding: 'UTF8' },
  ]);
});

test('the gateway of an embedded server can connect to its own database only', async () => {
  const server = await start();

  await expect(ask(server.gatewayUrl('postgres'), 'select 1')).rejects.toMatchObject({
    code: '42501',
  });
  await expect(ask(server.gatewayUrl('template1'), 'select 1')).rejects.toMatchObject({
    code: '42501',
  });
});

test('an embedded server listens on no network address and its folders are closed to others', async () => {
  const server = await start();

  expect(await ask(server.superuserUrl(), 'show listen_addresses')).toEqual([
    { listen_addresses: '' },
  ]);
  for (const path of [dataDir, join(dataDir, 'pgdata'), join(dataDir, 'server.log')]) {
    expect((await stat(path)).mode & 0o077).toBe(0);
  }
});

test('the log of an embedded server does not repeat values from statements that fail', async () => {
  const server = await start();

  await expect(ask(server.adminUrl(), `select 'canary-value'::int`)).rejects.toMatchObject({
    code: '22P02',
  });
  await expect(
    ask(server.adminUrl(), `do $$ begin raise exception 'canary-value'; end $$`),
  ).rejects.toThrow();
  expect(await readFile(join(dataDir, 'server.log'), 'utf8')).not.toContain('canary');
});

test('a second process joins the server of the first, and may become the owner after it', async () => {
  const first = await startProcess();
  const second = await start();
  expect([first.owned, second.owned]).toEqual([true, false]);
  expect(await ask(second.superuserUrl(), 'select 1 as one')).toEqual([{ one: 1 }]);

  await first.stop();
  const refused = await ask(second.superuserUrl(), 'select 1').catch(faultOf);
  expect(refused).toMatchObject({ kind: 'unavailable' });

  expect(await start()).toMatchObject({ owned: true });
});

test('the server ends when its owner is killed, and what was committed is there afterwards', async () => {
  const owner = await startProcess();
  const { sql, close } = openDatabase(owner.superuserUrl, { max: 2 });
  await sql`create table kept as select 1 as one`;
  const cutOff = sql`select pg_sleep(3600)`.catch(faultOf);
  await sql`select 1`;

  owner.process.kill('SIGKILL');

  expect(await cutOff).toMatchObject({ kind: 'unavailable' });
  await close();
  const next = await start();
  expect(next.owned).toBe(true);
  expect(await ask(next.superuserUrl(), 'select one from kept')).toEqual([{ one: 1 }]);
});

test('a server that was killed with its owner leaves nothing that hinders the next start', async () => {
  const owner = await startProcess();
  await ask(owner.superuserUrl, 'create table kept as select 1 as one');
  const pid = Number(
    (await readFile(join(dataDir, 'pgdata', 'postmaster.pid'), 'utf8')).split('\n')[0],
  );

  process.kill(pid, 'SIGKILL');
  owner.process.kill('SIGKILL');
  await once(owner.process, 'exit');

  const next = await start();
  expect(next.owned).toBe(true);
  expect(await ask(next.superuserUrl(), 'select one from kept')).toEqual([{ one: 1 }]);
});

test('processes that start at once on a new folder and a new cache end up with one server', async () => {
  const cacheDir = join(folder, 'cache');
  // The account that runs the server has to reach the cache.
  await mkdir(cacheDir, { mode: 0o755 });
  await chmod(folder, 0o755);
  const servers = await Promise.all([1, 2, 3].map(() => start({ cacheDir })));

  expect(servers.filter(({ owned }) => owned)).toHaveLength(1);
  for (const server of servers)
    expect(await ask(server.gatewayUrl(), 'select 1 as one')).toEqual([{ one: 1 }]);
});

test('a server starts where home and temporary folder are closed to the account that runs it', async () => {
  const home = join(folder, 'home');
  const temporary = join(folder, 'tmp');
  await mkdir(home, { mode: 0o700 });
  await mkdir(temporary, { mode: 0o700 });
  dataDir = join(home, 'data');

  const owner = await startProcess({ HOME: home, TMPDIR: temporary });

  expect(owner.owned).toBe(true);
  expect(await ask(owner.superuserUrl, 'select 1 as one')).toEqual([{ one: 1 }]);
});

test('a folder whose path is longer than that of a socket may be is served all the same', async () => {
  dataDir = join(folder, 'long'.repeat(40), 'data');
  const server = await start();

  expect(await ask(server.gatewayUrl(), 'select 1 as one')).toEqual([{ one: 1 }]);
});

test('a folder of another major version is refused with the way to move on, and left as it is', async () => {
  const version = join(dataDir, 'pgdata', 'PG_VERSION');
  await mkdir(join(dataDir, 'pgdata'), { recursive: true });
  await writeFile(version, '17\n');

  const refusal = await startEmbedded({ dataDir }).catch((error: unknown) => error);

  expect(refusal).toBeInstanceOf(EmbeddedError);
  expect(refusal).toMatchObject({ code: 'other-version' });
  expect((refusal as EmbeddedError).message).toMatch(/PostgreSQL 17.*carries 18.*restore the dump/);
  expect(await readFile(version, 'utf8')).toBe('17\n');
});

test('a setting that the server does not take is reported with what the server said', async () => {
  await expect(startEmbedded({ dataDir, settings: { max_connections: 'many' } })).rejects.toThrow(
    /max_connections/,
  );
});

async function start(options: { cacheDir?: string } = {}) {
  const server = await startEmbedded({ dataDir, settings: { fsync: 'off' }, ...options });
  started.push(server);
  return server;
}

async function startProcess(env: Record<string, string> = {}) {
  const script = fileURLToPath(new URL('../support/embedded-owner.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', script, dataDir], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  });
  started.push({ stop: () => endProcess(child) });
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  const { owned, superuserUrl } = JSON.parse(line) as { owned: boolean; superuserUrl: string };
  return { process: child, owned, superuserUrl, stop: () => endProcess(child) };
}

async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.stdin?.end();
  await once(child, 'exit');
}

async function ask(url: string, question: string): Promise<unknown[]> {
  const { sql, close } = openDatabase(url, { max: 1 });
  try {
    return [...(await sql.unsafe(question))];
  } finally {
    await close();
  }
}
