import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CompactSign } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  createKeys,
  KEY_COOL_DOWN_SECONDS,
  KEY_REFRESH_SECONDS,
  openKeys,
  type Keys,
} from '../../gateway/keys.ts';
import { keyFile } from '../../gateway/keys/key-file.ts';
import {
  createFirstKey,
  retireKey,
  rotateKeys,
  type KeyStore,
} from '../../gateway/keys/key-store.ts';
import { keyTable } from '../../gateway/keys/key-table.ts';
import { KeyError } from '../../gateway/keys/signing-key.ts';
import { signCaller, verifyCaller } from '../../gateway/tokens/caller-token.ts';
import { openCursor, signCursor } from '../../gateway/tokens/cursor.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

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

/** A store that counts how often it is read. */
function counted(store: KeyStore) {
  const count = { reads: 0 };
  return {
    count,
    store: {
      ...store,
      read: () => {
        count.reads++;
        return store.read();
      },
    },
  };
}

const places: readonly (readonly [string, () => KeyStore])[] = [
  ['a file', () => keyFile(folder)],
  ['the database', () => keyTable(administrator, SECRET)],
];
const SECRET = newSecret();

describe.each(places)('keys in %s', (_, place) => {
  let store: KeyStore;
  beforeEach(async () => {
    store = place();
    expect(await createFirstKey(store)).toBe(true);
  });

  const sign = (keys: Keys) => signCaller(keys, 'earshot', 'somebody', 60);
  const verify = async (keys: Keys, token: string) => {
    const verified = await verifyCaller(keys, 'earshot', token, 5);
    return verified.ok ? verified.client : verified.code;
  };

  test('are made once: what is there is left alone', async () => {
    const before = await store.read();
    expect(await createFirstKey(store)).toBe(false);
    expect(await store.read()).toEqual(before);
  });

  test('that are not there stop the start, which says how they are made', async () => {
    await rm(folder, { recursive: true });
    await superuser.sql`delete from earshot.signing_keys`;
    await expect(openKeys(store)).rejects.toThrow('earshot init');
    await expect(rotateKeys(store, 0)).rejects.toThrow(KeyError);
    await createKeys(folder);
  });

  test('a new key is published before it signs, and the one before it goes on verifying', async () => {
    const keys = await openKeys(store);
    const old = (await keys.current()).signing.kid;
    const { kid } = await rotateKeys(store, 3600);
    later(KEY_REFRESH_SECONDS);
    expect((await keys.current()).jwks.keys.map((key) => key.kid)).toEqual([old, kid]);
    expect((await keys.current()).signing.kid).toBe(old);

    const token = await sign(keys);
    vi.useFakeTimers({ toFake: ['performance', 'Date'], now: Date.now() + 3_601_000 });
    expect((await keys.current()).signing.kid).toBe(kid);
    vi.useFakeTimers({ toFake: ['performance'] });
    expect(await verify(keys, token)).toBe('somebody');
  });

  test('a key that signs at once is known to another gateway that was not told: by its first token', async () => {
    const theirs = await openKeys(store);
    const { kid } = await rotateKeys(store, 0);
    const ours = await openKeys(store);
    expect((await ours.current()).signing.kid).toBe(kid);
    expect(await verify(theirs, await sign(ours))).toBe('somebody');
  });

  test('a retired key verifies nothing more after the time to refresh, not even a cursor', async () => {
    const keys = await openKeys(store);
    const old = (await keys.current()).signing.kid;
    const [token, cursor] = [await sign(keys), await signCursor(keys, 'g', 'q', { seq: '1' })];
    await rotateKeys(store, 0);
    expect(await retireKey(store, old)).toBe('retired');
    later(KEY_REFRESH_SECONDS - 0.001);
    expect(await verify(keys, token)).toBe('somebody');
    expect(await openCursor(keys, 'g', 'q', cursor)).toMatchObject({ ok: true });
    later(0.001);
    expect(await verify(keys, token)).toBe('malformed_token');
    expect(await openCursor(keys, 'g', 'q', cursor)).toMatchObject({ code: 'invalid_input' });
    expect((await keys.current()).jwks.keys.map(({ kid }) => kid)).not.toContain(old);
    expect(JSON.stringify(await store.read())).not.toContain(old);
  });

  test('the key that signs is not retired, nor is one that is not there, nor the last', async () => {
    const [first] = await store.read();
    expect(await retireKey(store, first?.kid ?? '')).toBe('signs');
    expect(await retireKey(store, 'x')).toBe('unknown');
    const next = await rotateKeys(store, 3600);
    expect(await retireKey(store, first?.kid ?? '')).toBe('signs');
    expect(await retireKey(store, next.kid)).toBe('retired');
    expect(await store.read()).toEqual([first]);
  });

  test('of two changes at once none is lost', async () => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 4 }, () => rotateKeys(store, 9)),
    );
    const made = outcomes.flatMap((one) => (one.status === 'fulfilled' ? [one.value.kid] : []));
    const refused = outcomes.flatMap((one) =>
      one.status === 'rejected' ? [one.reason as unknown] : [],
    );
    const kids = (await store.read()).map(({ kid }) => kid);
    expect(made.length).toBeGreaterThan(0);
    expect(kids).toHaveLength(made.length + 1);
    expect(kids).toEqual(expect.arrayContaining(made));
    for (const reason of refused) expect(reason).toBeInstanceOf(KeyError);
  });

  test('ids that nobody knows cause one reading in the cool-down, however many come at once', async () => {
    const { store: watched, count } = counted(store);
    const keys = await openKeys(watched);
    const { signing } = await keys.current();
    const stray = (kid: string) =>
      new CompactSign(Buffer.from('{}'))
        .setProtectedHeader({ alg: 'EdDSA', typ: 'earshot-caller+jwt', kid })
        .sign(signing.privateKey);
    const tokens = await Promise.all(Array.from({ length: 50 }, (_, i) => stray(`stray${i}`)));
    expect(count.reads).toBe(1);
    const storm = () => Promise.all(tokens.map((token) => verify(keys, token)));
    expect(new Set(await storm())).toEqual(new Set(['malformed_token']));
    expect(count.reads).toBe(2);
    for (const token of tokens) await verify(keys, token);
    expect(count.reads).toBe(2);
    later(KEY_COOL_DOWN_SECONDS);
    await storm();
    expect(count.reads).toBe(3);
    // A header of another algorithm asks nothing.
    later(KEY_COOL_DOWN_SECONDS);
    const hmac = await new CompactSign(Buffer.from('{}'))
      .setProtectedHeader({ alg: 'HS256', typ: 'earshot-caller+jwt', kid: 'stray' })
      .sign(randomBytes(32));
    const before = count.reads;
    expect(await verify(keys, hmac)).toBe('malformed_token');
    expect(count.reads).toBe(before);
  });

  test('every token that waits for the same reading is verified by it', async () => {
    const keys = await openKeys(store);
    await rotateKeys(store, 0);
    const others = await openKeys(store);
    const tokens = await Promise.all(Array.from({ length: 10 }, () => sign(others)));
    expect(await Promise.all(tokens.map((token) => verify(keys, token)))).toEqual(
      tokens.map(() => 'somebody'),
    );
  });

  test('keys that can no longer be read sign and verify nothing once they are due', async () => {
    const { store: watched } = counted(store);
    let broken = false;
    const keys = await openKeys({
      ...watched,
      read: () => (broken ? Promise.reject(new KeyError('gone')) : watched.read()),
    });
    const token = await sign(keys);
    broken = true;
    expect(await verify(keys, token)).toBe('somebody');
    later(KEY_REFRESH_SECONDS);
    await expect(verify(keys, token)).rejects.toThrow('gone');
    await expect(sign(keys)).rejects.toThrow('gone');
    broken = false;
    expect(await verify(keys, token)).toBe('somebody');
  });
});

describe('the key file', () => {
  test('loses none of many changes that were said to be made, and brings no retired key back', async () => {
    await createKeys(folder);
    const store = keyFile(folder);
    const [first] = await store.read();
    const untilDone = async <T>(change: () => Promise<T>): Promise<T> => {
      for (;;) {
        try {
          return await change();
        } catch (error) {
          // Somebody else is at it.
          if (!(error instanceof KeyError)) throw error;
        }
      }
    };
    const kept: string[] = [];
    const work = async () => {
      for (let round = 0; round < 6; round++) {
        const { kid } = await untilDone(() => rotateKeys(store, 3600));
        kept.push((await untilDone(() => rotateKeys(store, 3600))).kid);
        expect(await untilDone(() => retireKey(store, kid))).toBe('retired');
      }
    };
    await Promise.all(Array.from({ length: 6 }, work));
    const kids = (await store.read()).map(({ kid }) => kid);
    expect(kids.sort()).toEqual([first?.kid ?? '', ...kept].sort());
  });

  test('is of its owner alone, also after a rotation, and is refused when others may read it', async () => {
    await createKeys(folder);
    const file = join(folder, 'keys.json');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    await rotateKeys(keyFile(folder), 0);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const keys = await openKeys(keyFile(folder));
    for (const mode of [0o640, 0o604, 0o660]) {
      await chmod(file, mode);
      await expect(openKeys(keyFile(folder))).rejects.toThrow(`chmod 600 ${file}`);
    }
    later(KEY_REFRESH_SECONDS);
    await expect(keys.current()).rejects.toThrow(KeyError);
  });

  test.each(['', '{', '[]', '{"keys":[]}', '{"keys":[{"kid":"x"}]}'])(
    'is refused when it holds %j',
    async (text) => {
      await createKeys(folder);
      await writeFile(join(folder, 'keys.json'), text);
      await expect(openKeys(keyFile(folder))).rejects.toThrow(KeyError);
    },
  );

  test('is refused when a key has the name of another', async () => {
    await createKeys(folder);
    const file = join(folder, 'keys.json');
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replace(/"kid":"[^"]+"/, '"kid":"mine"'));
    await expect(openKeys(keyFile(folder))).rejects.toThrow('the name that belongs to it');
  });

  test('whose change was cut off names what to remove', async () => {
    await createKeys(folder);
    const draft = join(folder, 'keys.json.draft');
    await writeFile(draft, '');
    await expect(rotateKeys(keyFile(folder), 0)).rejects.toThrow(draft);
    await rm(draft);
    await rotateKeys(keyFile(folder), 0);
  });
});
