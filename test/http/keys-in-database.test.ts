import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { ConfigError, readConfig } from '../../gateway/config.ts';
import { openInstance, type Instance } from '../../gateway/instance.ts';
import { JWKS_MAX_AGE_SECONDS, KEY_REFRESH_SECONDS, openKeys } from '../../gateway/keys.ts';
import { createFirstKey, retireKey, rotateKeys } from '../../gateway/keys/key-store.ts';
import { keyTable } from '../../gateway/keys/key-table.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { gatewayOf } from '../support/gateway.ts';

const newSecret = () => randomBytes(32).toString('base64url');

let target: TestDatabase;
let administrator: Database;
let superuser: Database;
let folder: string;

beforeAll(async () => {
  target = await createTestDatabase();
  administrator = openDatabase(target.adminUrl, { max: 2 });
  superuser = openDatabase(target.superuserUrl, { max: 2 });
});
afterAll(async () => {
  await Promise.all([administrator.close(), superuser.close()]);
  await target.drop();
});
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-keys-'));
  // The age of keys is told by this clock, and by no other.
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(async () => {
  vi.useRealTimers();
  await superuser.sql`delete from earshot.signing_keys`;
  await rm(folder, { recursive: true });
});

const later = (seconds: number) => vi.advanceTimersByTime(seconds * 1000);

const SECRET = newSecret();

describe('keys in the database', () => {
  const table = (secret = SECRET) => keyTable(administrator, secret);

  test('are of no use without the secret: no row holds a private part or the secret of a cursor', async () => {
    await createFirstKey(table());
    const [key] = await table().read();
    const [row] = await superuser.sql<{ text: string; raw: Buffer }[]>`
      select k::text as text, k.sealed_key || k.sealed_cursor_secret as raw from earshot.signing_keys k`;
    for (const hidden of [key?.d, key?.x, key?.cursorSecret]) {
      expect(row?.text).not.toContain(hidden);
      expect(row?.raw.toString('latin1')).not.toContain(hidden);
      expect(row?.raw.includes(Buffer.from(hidden ?? '', 'base64url'))).toBe(false);
    }
  });

  test('are sealed each with a salt and a nonce of its own', async () => {
    await createFirstKey(table());
    await rotateKeys(table(), 0);
    const rows = await superuser.sql<{ start: string }[]>`
      select encode(substr(sealed_key, 1, 44), 'hex') as start from earshot.signing_keys
      union all select encode(substr(sealed_cursor_secret, 1, 44), 'hex') from earshot.signing_keys`;
    expect(new Set(rows.map(({ start }) => start)).size).toBe(4);
  });

  test('do not open with another secret, and the start names the setting', async () => {
    await createFirstKey(table());
    await expect(openKeys(table(newSecret()))).rejects.toThrow('EARSHOT_KEY_SECRET');
    await expect(rotateKeys(table(newSecret()), 0)).rejects.toThrow('EARSHOT_KEY_SECRET');
    const config = readConfig({
      DATABASE_URL: target.gatewayUrl,
      EARSHOT_KEY_SECRET: newSecret(),
      EARSHOT_DATA_DIR: folder,
    });
    await expect(openInstance(config)).rejects.toThrow('EARSHOT_KEY_SECRET');
  });

  test.each([
    ['a changed bit', `sealed_key = set_bit(sealed_key, 500, 1 - get_bit(sealed_key, 500))`],
    ['a changed salt', `sealed_key = set_bit(sealed_key, 3, 1 - get_bit(sealed_key, 3))`],
    ['the name of another key', `kid = reverse(kid)`],
    ['one purpose in place of the other', `sealed_cursor_secret = sealed_key`],
    ['nothing', `sealed_key = ''`],
  ])('do not open with %s', async (_, change) => {
    await createFirstKey(table());
    await superuser.sql.unsafe(`update earshot.signing_keys set ${change}`);
    await expect(openKeys(table())).rejects.toThrow('EARSHOT_KEY_SECRET');
  });

  test('of another row do not pass for it', async () => {
    await createFirstKey(table());
    await rotateKeys(table(), 0);
    await superuser.sql`
      update earshot.signing_keys k set sealed_key = o.sealed_key from earshot.signing_keys o where o.kid <> k.kid`;
    await expect(openKeys(table())).rejects.toThrow('EARSHOT_KEY_SECRET');
  });

  test('are read by the login of the gateway, and changed by that of the administrator alone', async () => {
    await createFirstKey(table());
    const gateway = openDatabase(target.gatewayUrl, { max: 1 });
    const store = keyTable(gateway, SECRET);
    const [key] = await store.read();
    expect(key?.kid).toMatch(/^[\w-]{43}$/);
    await expect(rotateKeys(store, 0)).rejects.toThrow(/permission denied/);
    await expect(retireKey(store, 'x')).rejects.toThrow(/permission denied/);
    await gateway.close();
  });

  test.each(['x', 'A'.repeat(43), randomBytes(31).toString('base64url'), '', `${newSecret()}=`])(
    'take no secret that is short, repeats itself or is spelled otherwise: %j',
    (secret) => {
      expect(() => readConfig({ EARSHOT_KEY_SECRET: secret })).toThrow(ConfigError);
      try {
        readConfig({ EARSHOT_KEY_SECRET: secret });
      } catch (error) {
        expect((error as Error).message).toContain('EARSHOT_KEY_SECRET (keySecret)');
        if (secret.length > 1) expect((error as Error).message).not.toContain(secret);
      }
    },
  );
});

describe('two gateways on one database', () => {
  let instances: Instance[];
  beforeEach(async () => {
    await createFirstKey(keyTable(administrator, SECRET));
    const open = () =>
      openInstance(
        readConfig({
          DATABASE_URL: target.gatewayUrl,
          EARSHOT_KEY_SECRET: SECRET,
          // There is nothing in it, and nothing is put there.
          EARSHOT_DATA_DIR: join(folder, 'nowhere'),
        }),
      );
    instances = [await open(), await open()];
  });
  afterEach(() => Promise.all(instances.map((instance) => instance.close())));

  test('pick up a rotation and a retirement without a restart and without a folder', async () => {
    const opened = await Promise.all(instances.map((one) => gatewayOf(one, superuser.sql)));
    const [one, two] = opened;
    if (one === undefined || two === undefined) throw new Error('there are two');
    const call = (at: typeof one, token: string) =>
      at.send('PUT', '/v1/organizations/acme', { token, json: {} });
    const old = await one.addCaller({ id: 'host', scopes: ['ingest', 'operator'] });
    expect((await call(two, old)).status).toBe(200);

    const store = keyTable(administrator, SECRET);
    const [first] = await store.read();
    const { kid } = await rotateKeys(store, 0);
    later(KEY_REFRESH_SECONDS);
    const young = await one.addCaller({ id: 'host', scopes: ['ingest'] });
    expect(young.split('.')[0]).toBe(
      Buffer.from(JSON.stringify({ alg: 'EdDSA', typ: 'earshot-caller+jwt', kid })).toString(
        'base64url',
      ),
    );
    for (const at of opened) {
      for (const token of [old, young]) expect((await call(at, token)).status).toBe(200);
      const { body, headers } = await at.send('GET', '/.well-known/jwks.json');
      const { keys } = body as { keys: Record<string, string>[] };
      expect(keys.map((key) => key.kid)).toEqual([first?.kid, kid]);
      for (const key of keys) expect(Object.keys(key).sort()).toEqual(PUBLIC_MEMBERS);
      expect(headers.get('cache-control')).toBe(`public, max-age=${JWKS_MAX_AGE_SECONDS}`);
    }

    expect(await retireKey(store, first?.kid ?? '')).toBe('retired');
    later(KEY_REFRESH_SECONDS);
    for (const at of opened) {
      expect((await call(at, old)).code).toBe('malformed_token');
      expect((await call(at, young)).status).toBe(200);
    }
  });

  test('are not ready when the keys cannot be read, and answer nothing that needs them', async () => {
    const [instance] = instances;
    if (instance === undefined) throw new Error('there are two');
    const { send, tokens } = await gatewayOf(instance, superuser.sql);
    expect((await send('GET', '/readyz')).status).toBe(200);
    await superuser.sql`delete from earshot.signing_keys`;
    later(KEY_REFRESH_SECONDS);
    expect((await send('GET', '/readyz')).code).toBe('unavailable');
    const answer = await send('PUT', '/v1/organizations/acme', {
      token: tokens.operator,
      json: {},
    });
    expect(answer.status).toBe(500);
    await createFirstKey(keyTable(administrator, SECRET));
    expect((await send('GET', '/readyz')).status).toBe(200);
  });
});

const PUBLIC_MEMBERS = ['alg', 'crv', 'kid', 'kty', 'use', 'x'];
