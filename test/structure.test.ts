import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { VERSION } from '../gateway/version.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** From the bottom up: a folder may import itself and those before it. */
const LAYERS = ['policy', 'sql', 'sessions', 'gateway'] as const;

/** What goes to those who write a bridge or an endpoint: beside the gateway, and on the same rules. */
const PACKAGES = ['policy', 'client', 'delivery'] as const;

/** Each folder with those that it may import, itself the last. */
const ROOMS = [
  ...LAYERS.map((folder, place) => [folder, LAYERS.slice(0, place + 1)] as const),
  ...PACKAGES.slice(1).map((folder, place) => [folder, PACKAGES.slice(0, place + 2)] as const),
];

test('the release that the gateway names is that of the package', async () => {
  const manifest = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as object;
  expect(manifest).toMatchObject({ version: VERSION });
});

test.each(ROOMS)(
  'no import in %s leads upward, and each relative one names its file',
  async (folder, allowed) => {
    for (const { file, specifier } of await importsOf(folder)) {
      if (!specifier.startsWith('.')) continue;
      const target = relative(ROOT, resolve(ROOT, dirname(file), specifier));
      expect(allowed, `${file} imports ${specifier}`).toContain(target.split('/')[0]);
      expect(specifier, `${file} imports ${specifier}`).toSatisfy((name: string) =>
        name.endsWith('.ts'),
      );
    }
  },
);

test.each([
  ['client', ['zod']],
  ['delivery', ['jose', 'zod']],
])('%s imports what runs wherever there are fetch and WebCrypto: %j', async (folder, allowed) => {
  const imports = (await importsOf(folder)).map(({ specifier }) => specifier);
  const foreign = imports.filter((specifier) => !specifier.startsWith('.'));
  expect([...new Set(foreign)].sort()).toEqual(allowed);
});

test('policy imports nothing that could reach a clock, the environment or a database', async () => {
  const foreign = (await importsOf('policy')).filter(({ specifier }) => !specifier.startsWith('.'));
  expect(foreign.filter(({ specifier }) => !specifier.startsWith('@noble/hashes/'))).toEqual([]);
});

test('policy takes no time, no randomness and no environment from its surroundings', async () => {
  for (const file of await sourcesOf('policy')) {
    const text = await readFile(join(ROOT, file), 'utf8');
    expect(text, file).not.toMatch(
      /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bprocess\.|\bconsole\.|\bglobalThis\b/,
    );
  }
});

test.each([
  ['policy', 'sql'],
  ['policy', 'gateway'],
  ['sql', 'sessions'],
  ['sessions', 'gateway'],
  ['policy', 'client'],
  ['client', 'delivery'],
])('a build with an import from %s up to %s fails', async (lower, upper) => {
  const { up, down } = await buildWithImports(lower, upper);
  expect(up).toMatch(new RegExp(`${lower}/probe.ts.*error TS6307`));
  expect(down).toBe('');
});

test.each(['client', 'delivery'])(
  '%s does not build with anything of Node.js alone',
  async (folder) => {
    const project = await emptyProject();
    const probe = `export const taken = [process.pid, Buffer.from('x'), fetch];\nimport 'node:fs';\n`;
    await writeFile(join(project, folder, 'probe.ts'), probe);
    const errors = await build(project, folder);
    for (const name of ['process', 'Buffer', 'node:fs']) expect(errors).toContain(`'${name}'`);
    expect(errors).not.toContain(`'fetch'`);
    await rm(project, { recursive: true });
  },
);

test('policy does not build with anything of Node.js or of a browser', async () => {
  const project = await emptyProject();
  const probe = `export const taken = [process.pid, new Date(), setTimeout, fetch];\nimport 'node:fs';\n`;
  await writeFile(join(project, 'policy', 'probe.ts'), probe);
  const errors = await build(project, 'policy');
  for (const name of ['process', 'setTimeout', 'fetch', 'node:fs'])
    expect(errors).toContain(`'${name}'`);
  await rm(project, { recursive: true });
});

/** What the compiler says of a project in which `lower` imports `upper`, and of one in which it is the other way round. */
async function buildWithImports(
  lower: string,
  upper: string,
): Promise<{ up: string; down: string }> {
  const project = await emptyProject();
  const probe = (folder: string) => join(project, folder, 'probe.ts');
  const importing = (folder: string) =>
    `import { value } from '../${folder}/probe.ts';\nexport const copy = value;\n`;
  const plain = 'export const value = 1;\n';
  try {
    await writeFile(probe(lower), plain);
    await writeFile(probe(upper), importing(lower));
    const down = await build(project, upper);
    await writeFile(probe(upper), plain);
    await writeFile(probe(lower), importing(upper));
    return { up: await build(project, lower), down };
  } finally {
    await rm(project, { recursive: true });
  }
}

/** The folders of this project with their compiler settings and one file each. */
async function emptyProject(): Promise<string> {
  const project = await mkdtemp(join(tmpdir(), 'earshot-structure-'));
  await cp(join(ROOT, 'tsconfig.base.json'), join(project, 'tsconfig.base.json'));
  await writeFile(join(project, 'package.json'), '{ "type": "module" }');
  await symlink(join(ROOT, 'node_modules'), join(project, 'node_modules'));
  for (const layer of new Set([...LAYERS, ...PACKAGES])) {
    await mkdir(join(project, layer));
    await cp(join(ROOT, layer, 'tsconfig.json'), join(project, layer, 'tsconfig.json'));
    await writeFile(join(project, layer, 'probe.ts'), 'export const value = 1;\n');
  }
  return project;
}

function build(project: string, folder: string): Promise<string> {
  const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  return new Promise((resolve) => {
    execFile(process.execPath, [compiler, '-b', folder], { cwd: project }, (_error, output) =>
      resolve(output),
    );
  });
}

async function importsOf(folder: string): Promise<{ file: string; specifier: string }[]> {
  const files = await sourcesOf(folder);
  const imports = files.map(async (file) => {
    const text = await readFile(join(ROOT, file), 'utf8');
    return ts
      .preProcessFile(text)
      .importedFiles.map(({ fileName }) => ({ file, specifier: fileName }));
  });
  return (await Promise.all(imports)).flat();
}

async function sourcesOf(folder: string): Promise<string[]> {
  const names = await readdir(join(ROOT, folder), { recursive: true });
  return names.filter((name) => name.endsWith('.ts')).map((name) => join(folder, name));
}
