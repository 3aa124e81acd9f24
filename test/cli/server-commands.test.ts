import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createKeys } from '../../gateway/keys.ts';
import { openDatabase } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { command } from './command.ts';

let folder: string;
let database: TestDatabase;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-cli-'));
  await createKeys(join(folder, 'earshot-data'));
});
afterAll(() => rm(folder, { recursive: true }));
beforeEach(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

const run = (args: readonly string[], env: Record<string, string>) =>
  command(args, { cwd: folder, env });

/** Runs the doctor on a server and gives what it found bad, by what it looked at. */
async function examined(env: Record<string, string>) {
  const { code, out } = await run(['doctor', '--json'], env);
  const { findings } = JSON.parse(out) as {
    findings: { check: string; state: string; found: string; mend?: string }[];
  };
  const bad = findings.filter(({ state }) => state === 'bad');
  const unknown = findings.filter(({ state }) => state === 'unknown').map(({ check }) => check);
  return { code, unknown, bad: Object.fromEntries(bad.map(({ check, found }) => [check, found])) };
}

async function asSuperuser(statement: string) {
  const { sql, close } = openDatabase(database.superuserUrl, { max: 1 });
  await sql.unsafe(statement);
  await close();
}

describe('doctor on a server', { timeout: 60_000 }, () => {
  const urls = () => ({
    DATABASE_URL: database.gatewayUrl,
    DATABASE_ADMIN_URL: database.adminUrl,
  });

  test('finds nothing to mend where the logins are as they should be', async () => {
    expect(await examined(urls())).toEqual({ code: 0, unknown: [], bad: {} });
  });

  test('does not guess about migrations without the login that may look', async () => {
    const found = await examined({ DATABASE_URL: database.gatewayUrl });
    expect(found).toEqual({ code: 0, unknown: ['migrations'], bad: {} });
  });

  test('names a login that could read content by itself', async () => {
    const { code, bad } = await examined({ DATABASE_URL: database.superuserUrl });
    expect(code).toBe(1);
    expect(bad.login).toContain('is a superuser');
    expect(bad.content).toContain('messages.body');
    const owner = await examined({ DATABASE_URL: database.adminUrl });
    expect(owner.bad.login).toContain('owns what it should only use');
  });

  test('names one column that was given to the gateway', async () => {
    await asSuperuser('grant select (title) on earshot.conversations to earshot_runtime');
    const { code, bad } = await examined(urls());
    expect(code).toBe(1);
    expect(bad).toEqual({ content: 'the login can select conversations.title' });
  });

  test('names a table whose row security is not forced', async () => {
    await asSuperuser('alter table earshot.messages no force row level security');
    const { code, bad } = await examined(urls());
    expect(code).toBe(1);
    expect(bad).toEqual({ 'row security': 'not forced on messages' });
  });

  test('says of a server that does not answer that it does not', async () => {
    const { code, bad } = await examined({ DATABASE_URL: 'postgresql://gateway@127.0.0.1:9/db' });
    expect(code).toBe(1);
    expect(bad.database).toContain('does not answer');
  });
});

describe('migrate', { timeout: 60_000 }, () => {
  test('makes an empty database one of this release, and until then nothing else starts', async () => {
    const empty = await createTestDatabase({ empty: true });
    const gateway = { DATABASE_URL: empty.gatewayUrl };
    const admin = { ...gateway, DATABASE_ADMIN_URL: empty.adminUrl };
    try {
      const early = await run(['serve', '--port', '0'], gateway);
      expect(early.code).toBe(1);
      expect(early.errors).toContain('earshot migrate');
      const found = await examined(admin);
      expect(found.bad).toMatchObject({ 'row security': 'there are no tables' });
      expect(found.bad.migrations).toMatch(/^\d+ to apply$/);

      const lacking = await run(['migrate'], gateway);
      expect(lacking.code).toBe(2);
      expect(lacking.errors).toContain('DATABASE_ADMIN_URL');
      const first = await run(['migrate', '--json'], admin);
      expect(first.code).toBe(0);
      expect((JSON.parse(first.out) as { applied: string[] }).applied[0]).toMatch(/^0001_/);
      const again = await run(['migrate'], admin);
      expect(again).toEqual({ code: 0, out: 'The database is up to date.\n', errors: '' });
      expect((await examined(admin)).bad).toEqual({});
    } finally {
      await empty.drop();
    }
  });
});
