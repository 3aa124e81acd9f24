import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ANN, BEN, said } from '../support/slack-export.ts';
import { command, startCommand } from './command.ts';

const HARBOR = fileURLToPath(new URL('../../fixtures/slack/harbor', import.meta.url));
const CHANNEL = 'C0ONE00001';

let folder: string;
let token: string;
const run = (args: readonly string[], env: Record<string, string> = {}) =>
  command(args, { cwd: folder, env });
const json = (text: string) => JSON.parse(text) as Record<string, unknown>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-cli-'));
  await writeExport('export', [ANN, BEN], [ANN.id, BEN.id]);
  const made = await run(['init', '--json', '--token-days', '1']);
  expect(made).toMatchObject({ code: 0, errors: '' });
  token = String(json(made.out).token);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** An export with one channel, in a folder beside the data folder. */
async function writeExport(name: string, users: readonly object[], members: readonly string[]) {
  const root = join(folder, name);
  await mkdir(join(root, 'one'), { recursive: true });
  const files = {
    'users.json': users,
    'channels.json': [{ id: CHANNEL, name: 'one', members }],
    'one/2021-03-01.json': [said('1614600001.000000', 'the canary sings')],
  };
  for (const [path, content] of Object.entries(files)) {
    await writeFile(join(root, path), JSON.stringify(content));
  }
}

describe('init', () => {
  test('makes keys, a closed data folder and a first client, whose token it shows', async () => {
    const data = join(folder, 'earshot-data');
    expect((await stat(data)).mode & 0o777).toBe(0o700);
    expect((await stat(join(data, 'keys.json'))).mode & 0o777).toBe(0o600);
    expect(token).toMatch(/^eyJ[\w-]+\.[\w-]+\.[\w-]+$/);
  });

  test('run again says what was there, changes no key and shows no token', async () => {
    const keys = await readFile(join(folder, 'earshot-data', 'keys.json'));
    const again = await run(['init']);
    expect(again).toMatchObject({ code: 0, errors: '' });
    expect(again.out.match(/was there/g)).toHaveLength(3);
    expect(again.out).not.toContain('eyJ');
    expect(await readFile(join(folder, 'earshot-data', 'keys.json'))).toEqual(keys);
  });
});

describe('serve', () => {
  test('answers over HTTP for the first client, logs JSON, and ends with 0 at SIGTERM', async () => {
    const child = startCommand(['serve', '--port', '0'], { cwd: folder });
    const lines = createInterface(child.stdout);
    const [first] = (await once(lines, 'line')) as [string];
    const { event, url } = json(first);
    expect(event).toBe('listening');
    expect((await fetch(`${String(url)}/readyz`)).status).toBe(200);
    const put = (bearer: string) =>
      fetch(`${String(url)}/v1/organizations/served`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
        body: '{}',
      });
    expect((await put(token)).status).toBe(200);
    expect((await put(`${token}x`)).status).toBe(401);

    const rest: string[] = [];
    lines.on('line', (line) => rest.push(line));
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
    expect(rest.map((line) => json(line).event)).toEqual(['stopping', 'stopped']);
    await expect(fetch(`${String(url)}/healthz`)).rejects.toThrow();
  });

  test('refuses to start where its port is taken, and says which setting to change', async () => {
    const child = startCommand(['serve', '--port', '0'], { cwd: folder });
    const [first] = (await once(createInterface(child.stdout), 'line')) as [string];
    const port = new URL(String(json(first).url)).port;
    const second = await run(['serve', '--port', port]);
    expect(second.code).toBe(3);
    expect(second.errors).toContain('EARSHOT_PORT');
    child.kill('SIGINT');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });
});

describe('the configuration', { timeout: 60_000 }, () => {
  test.each([
    ['EARSHOT_PORT', 'eighty', 2],
    ['EARSHOT_GRANT_SECONDS', '0', 2],
    ['EARSHOT_PROT', '80', 2],
    ['DATABASE_URL', 'mysql://secret@host/db', 2],
    ['DATABASE_URL', 'postgresql://host/db?password=secret', 2],
    ['DATABASE_ADMIN_URL', 'postgresql://admin:secret@host/db', 2],
    ['DATABASE_URL', 'postgresql://gateway:secret@127.0.0.1:9/db', 3],
  ])('%s=%s ends serve with a message that names it, and no secret', async (name, value, code) => {
    const ended = await run(['serve'], { [name]: value });
    expect(ended).toMatchObject({ code, out: '' });
    expect(ended.errors).toContain(name);
    expect(ended.errors).not.toContain('secret');
    expect(ended.errors).not.toMatch(/^ +at /m);
  });

  test('without keys every command says to run init', async () => {
    for (const args of [
      ['serve'],
      ['ask', 'canary', '--organization', 'acme', '--to', CHANNEL, '--as', ANN.id],
      ['import', 'slack', 'export', '--organization', 'acme'],
    ]) {
      const ended = await run(args, { EARSHOT_DATA_DIR: 'nowhere' });
      expect(ended).toMatchObject({ code: 2, out: '' });
      expect(ended.errors).toContain('earshot init');
    }
  });

  test('a command line that is not understood ends with 2, in JSON if that is asked for', async () => {
    expect((await run(['frobnicate'])).code).toBe(2);
    expect((await run(['ask', 'canary'])).code).toBe(2);
    const ended = await run(['import', 'slack', 'export', '--json']);
    expect(ended.code).toBe(2);
    expect(json(ended.out)).toMatchObject({ error: { code: 'usage' } });
    const id = await run(['ask', 'x', '--organization', 'a\u0007', '--to', 'b', '--as', 'c']);
    expect(id.code).toBe(2);
    expect(id.errors).toContain('--organization');
  });
});

describe('doctor', () => {
  test('finds nothing to mend after init', async () => {
    const ended = await run(['doctor', '--json']);
    expect(ended.code).toBe(0);
    const { healthy, findings } = json(ended.out) as {
      healthy: boolean;
      findings: { check: string; state: string }[];
    };
    expect(healthy).toBe(true);
    expect(findings.map(({ state }) => state)).toEqual(findings.map(() => 'good'));
    expect(findings.map(({ check }) => check)).toEqual([
      ...['data folder', 'keys', 'embedded binaries', 'embedded data', 'database', 'version'],
      ...['encoding', 'primary', 'clock', 'login', 'content', 'row security', 'migrations'],
    ]);
  });

  test('names a key file that others may read, with its mend, and ends with 1', async () => {
    const file = join(folder, 'earshot-data', 'keys.json');
    await chmod(file, 0o644);
    const ended = await run(['doctor']);
    await chmod(file, 0o600);
    expect(ended.code).toBe(1);
    expect(ended.out).toContain(`chmod 600 ${file}`);
  });

  test('names a data folder of another major version', async () => {
    const file = join(folder, 'earshot-data', 'postgresql', 'pgdata', 'PG_VERSION');
    const made = await readFile(file);
    await writeFile(file, '14\n');
    const ended = await run(['doctor']);
    await writeFile(file, made);
    expect(ended.code).toBe(1);
    expect(ended.out).toMatch(/made by PostgreSQL 14[^]*Dump it/);
  });
});

describe('import and ask', { timeout: 60_000 }, () => {
  const ask = (...more: string[]) =>
    run(['ask', 'canary', '--organization', 'acme', '--to', CHANNEL, '--as', ANN.id, ...more]);

  test('an export is imported once, and a question toward its channel finds what its readers share', async () => {
    const args = ['import', 'slack', 'export', '--organization', 'acme', '--history', 'all'];
    const first = await run([...args, '--json']);
    expect(first).toMatchObject({ code: 0, errors: '' });
    expect(json(first.out)).toMatchObject({
      whole: true,
      import: { counts: { message: { appended: 1 }, member: { joined: 2 } } },
    });
    const second = await run(args);
    expect(second.code).toBe(0);
    expect(second.out).toMatch(/messages +1 unchanged/);

    const refused = await ask();
    expect(refused.code).toBe(1);
    expect(refused.errors).toContain('--create-persona');
    const asked = await ask('--create-persona', '--json');
    expect(asked.code).toBe(0);
    expect(json(asked.out)).toMatchObject({
      mode: 'mention',
      readers: { people: 2, classes: 0 },
      packet: { items: [{ text: 'the canary sings', envelope: { sensitivity: 'members' } }] },
    });
    const told = await ask();
    expect(told.out).toMatch(/mode mention, read by 2 people\nsession [0-9a-f-]{36}/);
    expect(told.out).toContain('the canary sings');
  });

  test('a requester who does not read the place is told the same as of a place that is not there', async () => {
    const of = async (to: string, as: string) => {
      const { code, errors } = await run([
        ...['ask', 'canary', '--organization', 'acme', '--to', to, '--as', as],
      ]);
      return { code, errors };
    };
    const absent = await of('C0NONE0001', ANN.id);
    expect(absent.code).toBe(1);
    expect(await of(CHANNEL, 'U0NOBODY01')).toEqual(absent);
  });

  test('an import that leaves something out says so and ends with 1', async () => {
    const ended = await run(['import', 'slack', HARBOR, '--organization', 'harbor']);
    expect(ended.code).toBe(1);
    expect(ended.out).toContain('not imported');
    expect(ended.out).not.toContain('PERIWINKLE');
  });

  test('a path that is no export ends with 2', async () => {
    for (const path of ['nowhere', 'earshot-data']) {
      const ended = await run(['import', 'slack', path, '--organization', 'acme']);
      expect(ended.code).toBe(2);
      expect(ended.errors).toContain('The export cannot be read');
    }
  });
});

describe('demo', { timeout: 120_000 }, () => {
  test('tells the story of the small world, and every expectation holds', async () => {
    const ended = await run(['demo']);
    expect(ended).toMatchObject({ code: 0, errors: '' });
    expect(ended.out).toMatch(/All \d+ expectations held/);
    for (const code of ['audience_changed, rebuild', 'already_released', 'source_revoked']) {
      expect(ended.out).toContain(code);
    }
  });

  test.each(['from_join', 'all'])('tells it with an export, history %s', async (history) => {
    const ended = await run(['demo', '--slack', HARBOR, '--history', history, '--json']);
    expect(ended).toMatchObject({ code: 0, errors: '' });
    expect(json(ended.out)).toMatchObject({ held: true, told: true, messages: 59 });
  });

  test('says what a tiny export cannot show, and finds it beside the caller when npm runs it', async () => {
    await writeExport('lonely', [ANN], [ANN.id]);
    const lonely = await run(['demo', '--slack', 'lonely']);
    expect(lonely).toMatchObject({ code: 0, errors: '' });
    expect(lonely.out).toContain('fewer than two people');

    const npm = { INIT_CWD: folder, npm_lifecycle_event: 'demo' };
    const args = ['demo', '--slack', 'export', '--history', 'all'];
    const two = await command(args, { cwd: tmpdir(), env: npm });
    expect(two).toMatchObject({ code: 0, errors: '' });
    expect(two.out).toContain('Not shown: nobody is left to join');
  });
});
