import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

// The package as somebody else has it: built, packed, unpacked in a project of its own.

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COMPILER = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
const run = promisify(execFile);

let folder: string;
let project: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-package-'));
  const source = join(folder, 'source');
  const own = ['policy', 'client', 'delivery', 'tsconfig.base.json', 'package.json', 'README.md'];
  for (const name of own) await cp(join(ROOT, name), join(source, name), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(source, 'node_modules'));
  await run(process.execPath, [COMPILER, '-b', 'delivery'], { cwd: source });
  await run('npm', ['pack', '--ignore-scripts', '--offline'], { cwd: source });

  project = join(folder, 'project');
  const modules = join(project, 'node_modules');
  await mkdir(join(modules, 'earshot'), { recursive: true });
  const [tarball = ''] = (await readdir(source)).filter((name) => name.endsWith('.tgz'));
  const unpack = [
    '-xzf',
    join(source, tarball),
    '-C',
    join(modules, 'earshot'),
    '--strip-components=1',
  ];
  await run('tar', unpack);
  // What the two subpaths need at run time, and nothing else.
  for (const name of ['jose', 'zod', '@noble']) {
    await symlink(join(ROOT, 'node_modules', name), join(modules, name));
  }
  await writeFile(join(project, 'package.json'), '{ "type": "module" }');
}, 120_000);
afterAll(() => rm(folder, { recursive: true }));

test('its subpaths are there by their names, and nothing of it by another', async () => {
  const script = `
    import { createClient, sessionIdFor } from 'earshot/client';
    import { createEndpoint } from 'earshot/delivery';
    import { REFUSALS, sessionIdFor as plain } from 'earshot/policy';
    const inner = await import('earshot/dist/client/client.js').catch((error) => error.code);
    console.log([typeof createClient, typeof createEndpoint, sessionIdFor === plain,
      REFUSALS.not_found.status, inner].join());`;
  await writeFile(join(project, 'bridge.js'), script);
  const { stdout } = await run(process.execPath, ['bridge.js'], { cwd: project });
  expect(stdout.trim()).toBe('function,function,true,404,ERR_PACKAGE_PATH_NOT_EXPORTED');
});

test('its types hold without those of Node.js', { timeout: 120_000 }, async () => {
  const script = `
    import { createClient, recoveryOf, runTurn, type TurnOutcome } from 'earshot/client';
    import { createEndpoint, createWorker, keysAt, memoryJournal, type Endpoint } from 'earshot/delivery';
    const client = createClient({ baseUrl: 'http://localhost:8787', token: 'token' });
    const parts = {
      client, organization: 'acme', issuer: 'earshot', keys: keysAt(client.server), journal: memoryJournal(),
      send: async ({ payload }: { payload: string }) => ({ outcome: 'delivered', message: payload }) as const,
    };
    export const endpoint: Endpoint = createEndpoint(parts);
    export const running = createWorker({ ...parts, worker: 'one' }).run(new AbortController());
    export async function byWhom(): Promise<string | undefined> {
      const stopped = await outcome;
      if (stopped.ok) return stopped.kind === 'queued' ? stopped.delivery.sendAt : undefined;
      const step = recoveryOf(stopped);
      return step?.action === 'ask_owner' ? step.destination : step?.by;
    }
    export const outcome: Promise<TurnOutcome> = runTurn(
      client,
      { organization: 'acme', persona: 'assistant', destination: 'thread', requester: 'ana',
        trigger: { kind: 'thread', seq: '1' } },
      async (agent) => {
        const found = await agent.search({ query: 'launch' });
        return found.ok ? { payload: found.value.items[0]?.text ?? '' } : found;
      },
      { owner: 'worker', deliver: endpoint.deliver },
    );
    // @ts-expect-error a sequence is a decimal string
    void client.around('grant', { conversation: 'thread', seq: 1 });`;
  await writeFile(join(project, 'bridge.ts'), script);
  const options = ['--noEmit', '--strict', '--exactOptionalPropertyTypes'];
  const target = ['--module', 'nodenext', '--target', 'es2023', '--lib', 'es2023,dom'];
  const compiled = run(process.execPath, [COMPILER, ...options, ...target, 'bridge.ts'], {
    cwd: project,
  }).catch((error: unknown) => error);
  expect(await compiled).toMatchObject({ stdout: '' });
});
