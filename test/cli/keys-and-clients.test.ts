import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../gateway/config.ts';
import { openInstance, type Instance } from '../../gateway/instance.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { command } from './command.ts';

const ISSUER = 'https://login.example';

let folder: string;
let database: TestDatabase;
/** Keys in the database, and an issuer of others. */
let settings: Record<string, string>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-cli-'));
  database = await createTestDatabase();
  const issuer = {
    ...{ issuer: ISSUER, audience: 'earshot', algorithms: ['ES256'] },
    url: 'https://login.example/keys',
  };
  await writeFile(join(folder, 'earshot.json'), JSON.stringify({ issuers: [issuer] }));
  settings = {
    DATABASE_URL: database.gatewayUrl,
    DATABASE_ADMIN_URL: database.adminUrl,
    EARSHOT_KEY_SECRET: randomBytes(32).toString('base64url'),
    EARSHOT_CONFIG: join(folder, 'earshot.json'),
    EARSHOT_DATA_DIR: join(folder, 'data'),
  };
});
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true });
});

const run = (args: readonly string[], env: Record<string, string> = settings) =>
  command(args, { cwd: folder, env });
const json = (text: string) => JSON.parse(text) as Record<string, unknown>;
const listed = async () => {
  const { out } = await run(['keys', 'list', '--json']);
  return (json(out) as { keys: { kid: string; state: string }[] }).keys;
};

describe('keys and clients from the command line', { timeout: 120_000 }, () => {
  test('keys in a file are made, listed, rotated and retired without a database', async () => {
    const own = {
      EARSHOT_DATA_DIR: join(folder, 'own'),
      DATABASE_URL: 'postgresql://a@127.0.0.1:1/x',
    };
    const none = await run(['keys', 'list'], own);
    expect(none).toMatchObject({ code: 2, out: '' });
    expect(none.errors).toContain('earshot init');
    const made = await run(['keys', 'create', '--json'], own);
    expect(made).toMatchObject({ code: 0, errors: '' });
    const { place, keys } = json(made.out) as { place: string; keys: { kid: string }[] };
    expect(place).toBe(join(folder, 'own', 'keys.json'));
    const first = keys[0]?.kid ?? '';
    expect((await run(['keys', 'create'], own)).code).toBe(1);

    const rotated = await run(['keys', 'rotate', '--json'], own);
    expect(json(rotated.out).keys).toMatchObject([
      { kid: first, state: 'signs' },
      { kid: json(rotated.out).key, state: 'published' },
    ]);
    const early = await run(['keys', 'retire', first], own);
    expect(early.code).toBe(1);
    expect(early.errors).toContain('signs now');
    const now = await run(['keys', 'rotate', '--after', '0'], own);
    expect(now.out).toMatch(new RegExp(`^${first} {2}verifies`, 'm'));
    expect(await run(['keys', 'retire', first], own)).toMatchObject({ code: 0, errors: '' });
    const told = await run(['keys', 'list'], own);
    expect(told.out).not.toContain(first);
    expect(told.out).not.toContain('"d"');
    expect((await run(['keys', 'retire', first], own)).code).toBe(1);
    expect((await run(['keys', 'rotate', '--after', '-1'], own)).code).toBe(2);
  });

  test('with a secret init makes the keys in the database, and nothing in the folder', async () => {
    const made = await run(['init', '--json']);
    expect(made).toMatchObject({ code: 0, errors: '' });
    expect(json(made.out)).toMatchObject({ keys: { place: 'the database', created: true } });
    expect(await readdir(join(folder, 'data'))).toEqual([]);
    expect(await listed()).toMatchObject([{ state: 'signs' }]);
    const doctor = await run(['doctor', '--json']);
    const { findings } = json(doctor.out) as { findings: { check: string; state: string }[] };
    expect(findings.filter(({ check }) => check === 'keys')).toMatchObject([{ state: 'good' }]);
  });

  test('another secret ends serve with 2 and the name of the setting, and shows neither', async () => {
    const other = randomBytes(32).toString('base64url');
    const ended = await run(['serve'], { ...settings, EARSHOT_KEY_SECRET: other });
    expect(ended).toMatchObject({ code: 2, out: '' });
    expect(ended.errors).toContain('EARSHOT_KEY_SECRET');
    expect(ended.errors).not.toContain(other);
    const rotated = await run(['keys', 'rotate'], { ...settings, EARSHOT_KEY_SECRET: other });
    expect(rotated.code).toBe(2);
    expect(await listed()).toHaveLength(1);
  });

  test('what changes keys in the database or clients needs the administrator', async () => {
    const { DATABASE_ADMIN_URL: _, ...less } = settings;
    for (const args of [
      ['keys', 'rotate'],
      ['client', 'add', 'x', '--scope', 'ingest', '--organization', 'acme'],
      ['client', 'revoke', 'operator'],
      ['client', 'list'],
    ]) {
      const ended = await run(args, less);
      expect(ended).toMatchObject({ code: 2, out: '' });
      expect(ended.errors).toContain('DATABASE_ADMIN_URL');
    }
  });

  test('a client is added with a token that is shown once, gets another, and ends when it is revoked', async () => {
    const instance = await openInstance(readConfig({ ...settings, DATABASE_ADMIN_URL: undefined }));
    try {
      const args = ['client', 'add', 'host', '--scope', 'operator', '--scope', 'ingest'];
      const made = await run([...args, '--organization', 'acme', '--persona', '*', '--json']);
      expect(made).toMatchObject({ code: 0, errors: '' });
      const { token } = json(made.out) as { token: string };
      expect(json(made.out)).toMatchObject({
        client: { id: 'host', scopes: ['operator', 'ingest'], organizations: ['acme'] },
      });
      expect(await put(instance, 'acme', token)).toBe(200);
      expect(await put(instance, 'other', token)).toBe(403);

      const twice = await run([...args, '--organization', '*', '--persona', '*']);
      expect(twice).toMatchObject({ code: 1, out: '' });
      expect(await put(instance, 'other', token)).toBe(403);
      const again = await run(['client', 'add', 'host', '--new-token', '--token-days', '1']);
      const shown = /eyJ[\w-]+\.[\w-]+\.[\w-]+/.exec(again.out)?.[0] ?? '';
      expect(await put(instance, 'acme', shown)).toBe(200);

      const list = await run(['client', 'list']);
      expect(list.out).toMatch(/^host {2}operator, ingest$/m);
      expect(list.out).not.toContain('eyJ');
      expect(await run(['client', 'revoke', 'host'])).toMatchObject({ code: 0, errors: '' });
      for (const ended of [token, shown]) expect(await put(instance, 'acme', ended)).toBe(401);
      expect((await run(['client', 'list'])).out).toMatch(/^host .* revoked /m);
      expect((await run(['client', 'add', 'host', '--new-token'])).code).toBe(1);
      expect((await run([...args, '--organization', '*', '--persona', '*'])).code).toBe(1);
      expect((await run(['client', 'revoke', 'nobody'])).code).toBe(1);
    } finally {
      await instance.close();
    }
  });

  test('a client of a configured issuer is registered without a token', async () => {
    const args = ['client', 'add', 'robot', '--scope', 'ingest', '--organization', 'acme'];
    const made = await run([...args, '--issuer', ISSUER, '--subject', 'robot@login', '--json']);
    expect(made).toMatchObject({ code: 0, errors: '' });
    expect(json(made.out)).toMatchObject({ issuer: ISSUER, subject: 'robot@login' });
    expect(made.out).not.toContain('token');
    const { clients } = json((await run(['client', 'list', '--json'])).out) as {
      clients: object[];
    };
    expect(clients).toContainEqual(
      expect.objectContaining({ id: 'robot', issuer: ISSUER, subject: 'robot@login' }),
    );
    for (const more of [
      ['--issuer', 'https://other.example', '--subject', 'x'],
      ['--issuer', ISSUER],
      ['--subject', 'x'],
    ]) {
      expect((await run(['client', 'add', 'more', ...args.slice(3), ...more])).code).toBe(2);
    }
    expect((await run(['client', 'add', 'robot', '--new-token'])).code).toBe(1);
  });

  test.each([
    ['--scope', ['--organization', 'acme']],
    ['--organization', ['--scope', 'ingest']],
    ['--persona', ['--scope', 'bridge', '--organization', 'acme']],
    ['--scope', ['--scope', 'everything', '--organization', 'acme']],
    ['--new-token', ['--new-token', '--scope', 'ingest']],
    ['--token-days', ['--scope', 'ingest', '--organization', 'acme', '--token-days', '0']],
  ])('a client is not guessed: without a right %s it ends with 2', async (option, args) => {
    const ended = await run(['client', 'add', 'guessed', ...args]);
    expect(ended.code).toBe(2);
    expect(ended.errors).toContain(option);
  });
});

async function put({ app }: Instance, organization: string, token: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const path = `/v1/organizations/${organization}`;
  return (await app.request(path, { method: 'PUT', headers, body: '{}' })).status;
}
