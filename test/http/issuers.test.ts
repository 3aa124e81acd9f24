import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CompactSign, exportJWK, generateSecret, UnsecuredJWT } from 'jose';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ConfigError, readConfig } from '../../gateway/config.ts';
import {
  ISSUER_COOL_DOWN_SECONDS,
  ISSUER_FRESH_SECONDS,
  ISSUER_USABLE_SECONDS,
  openIssuers,
  type Issuer,
} from '../../gateway/issuers.ts';
import type { IssuerSettings } from '../../gateway/issuer-settings.ts';
import { openIssuerHouse, type HouseKey, type IssuerHouse } from './issuer-house.ts';

const NAME = 'https://login.example';
const AUDIENCE = 'https://earshot.example';

let house: IssuerHouse;
let key: HouseKey;
let issuer: Issuer;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-issuers-'));
  vi.useFakeTimers({ toFake: ['performance'] });
  house = await openIssuerHouse(NAME, AUDIENCE);
  key = await house.addKey('one', 'ES256');
  issuer = await opened();
});
afterEach(async () => {
  vi.useRealTimers();
  await house.stop().catch(() => undefined);
  await rm(folder, { recursive: true });
});

const later = (seconds: number) => vi.advanceTimersByTime(seconds * 1000);

function settings(more: Partial<IssuerSettings> = {}): IssuerSettings {
  const url = more.file === undefined ? { url: `${house.origin}/keys` } : {};
  return { issuer: NAME, audience: AUDIENCE, algorithms: ['ES256'], ...url, ...more };
}

async function opened(more?: Partial<IssuerSettings>): Promise<Issuer> {
  const found = (await openIssuers([settings(more)], 5)).get(NAME);
  if (found === undefined) throw new Error('it is there');
  return found;
}

async function said(token: string, by = issuer): Promise<string> {
  const verified = await by.verify(token);
  return verified.ok ? verified.claims.sub : verified.code;
}

const good = (claims: object = {}, header: object = {}) =>
  key.sign({ sub: 'bridge', ...claims }, header);

describe('a token of a configured issuer', () => {
  test('is verified by the keys at its address, which are read once', async () => {
    for (let i = 0; i < 5; i++) expect(await said(await good())).toBe('bridge');
    expect(house.requests).toEqual(['/keys']);
  });

  test('is verified by the keys of a file, and by those that are put there later', async () => {
    const file = join(folder, 'keys.json');
    await writeFile(file, JSON.stringify(house.keySet()));
    const byFile = await opened({ file });
    expect(await said(await good(), byFile)).toBe('bridge');
    const two = await house.addKey('two', 'ES256');
    const token = await two.sign({ sub: 'other' });
    expect(await said(token, byFile)).toBe('malformed_token');
    await writeFile(file, JSON.stringify(house.keySet()));
    later(ISSUER_COOL_DOWN_SECONDS);
    expect(await said(token, byFile)).toBe('other');
    expect(house.requests).toEqual([]);
  });

  test('has the issuer, the audience, an end and a subject, or is none', async () => {
    const now = Math.floor(Date.now() / 1000);
    const odd: [string, object][] = [
      ['another issuer', { iss: 'https://other.example' }],
      ['an issuer with a slash more', { iss: `${NAME}/` }],
      ['no issuer', { iss: undefined }],
      ['another audience', { aud: 'https://other.example' }],
      ['audiences without this one', { aud: ['a', 'b'] }],
      ['no audience', { aud: undefined }],
      ['no end', { exp: undefined }],
      ['an end that has passed', { exp: now - 10 }],
      ['a beginning to come', { nbf: now + 100 }],
      ['no subject', { sub: undefined }],
      ['an empty subject', { sub: '' }],
      ['a subject that is no text', { sub: 7 }],
      ['a subject of many', { sub: ['bridge'] }],
      ['a subject that an encoder would repair', { sub: 'bridge\ud800' }],
      ['a subject with a zero', { sub: 'bridge\0' }],
    ];
    for (const [name, claims] of odd) {
      expect({ name, said: await said(await good(claims)) }).toEqual({
        name,
        said: 'malformed_token',
      });
    }
    expect(await said(await good({ aud: ['other', AUDIENCE] }))).toBe('bridge');
    expect(await said(await good({ exp: now - 2 }))).toBe('bridge');
  });

  test('has the type that the configuration names, if it names one', async () => {
    const typed = await opened({ type: 'at+jwt' });
    expect(await said(await good({}, { typ: 'at+jwt' }), typed)).toBe('bridge');
    expect(await said(await good({}, { typ: 'JWT' }), typed)).toBe('malformed_token');
    expect(await said(await good(), typed)).toBe('malformed_token');
  });

  test('is signed by an algorithm that this issuer is listed with, or is none', async () => {
    const rsa = await house.addKey('rsa', 'RS256');
    const token = await rsa.sign({ sub: 'bridge' });
    expect(await said(token)).toBe('malformed_token');
    expect(await said(token, await opened({ algorithms: ['RS256'] }))).toBe('bridge');
    const payload = { iss: NAME, aud: AUDIENCE, sub: 'bridge', exp: Date.now() };
    const bytes = Buffer.from(JSON.stringify(payload));
    const spki = Buffer.from(JSON.stringify(key.publicJwk));
    const hmac = (secret: Uint8Array, alg = 'HS256') =>
      new CompactSign(bytes).setProtectedHeader({ alg, kid: 'one' }).sign(secret);
    const [head = '', body = '', signature = ''] = token.split('.');
    const none = Buffer.from(JSON.stringify({ alg: 'none', kid: 'one' })).toString('base64url');
    const forged = {
      unsecured: new UnsecuredJWT(payload).encode(),
      none: `${none}.${body}.`,
      'none with a signature': `${none}.${body}.${signature}`,
      'an HMAC of the public key': await hmac(spki),
      'an HMAC of its raw part': await hmac(Buffer.from(key.publicJwk.x ?? '', 'base64url')),
      'no signature': `${head}.${body}.`,
      'the key of another algorithm': await rsa.sign({ sub: 'bridge' }, { kid: 'one' }),
    };
    for (const [name, text] of Object.entries(forged)) {
      expect({ name, said: await said(text) }).toEqual({ name, said: 'malformed_token' });
    }
  });

  test('is not verified by a secret, even one that the issuer publishes', async () => {
    const secret = await generateSecret('HS256', { extractable: true });
    const file = join(folder, 'keys.json');
    const jwk = { ...(await exportJWK(secret)), kid: 'shared', alg: 'HS256' };
    await writeFile(file, JSON.stringify({ keys: [jwk, key.publicJwk] }));
    const byFile = await opened({ file });
    const payload = Buffer.from(JSON.stringify({ iss: NAME, aud: AUDIENCE, sub: 'bridge' }));
    const token = await new CompactSign(payload)
      .setProtectedHeader({ alg: 'HS256', kid: 'shared' })
      .sign(secret);
    expect(await said(token, byFile)).toBe('malformed_token');
    expect(await said(await good(), byFile)).toBe('bridge');
  });

  test('brings no key of its own, and no address of one that would be asked', async () => {
    const mine = await house.addKey('mine', 'ES256', false);
    await said(await good());
    house.requests.length = 0;
    const headers: object[] = [
      { jwk: mine.publicJwk },
      { jwk: mine.publicJwk, kid: undefined },
      { jku: `${house.origin}/jku` },
      { x5u: `${house.origin}/x5u` },
      { x5c: ['MIIB'] },
      { kid: `${house.origin}/kid` },
      { kid: '../../etc/passwd' },
    ];
    for (const header of headers) {
      expect(await said(await mine.sign({ sub: 'bridge' }, header))).toBe('malformed_token');
    }
    expect(house.requests.filter((path) => path !== '/keys')).toEqual([]);
    expect(house.requests.length).toBeLessThanOrEqual(1);
  });
});

describe('the keys of an issuer', () => {
  test.each([
    ['is no point of its curve', { x: Buffer.alloc(32, 1).toString('base64url') }],
    ['is not spelled as one', { x: '!' }],
    ['lacks a part', { y: undefined }],
  ])('verify nothing by one that %s, and go on by the others', async (_what, spoiled) => {
    const two = await house.addKey('two', 'ES256');
    Object.assign(two.publicJwk, spoiled);
    expect(await said(await two.sign({ sub: 'bridge' }))).toBe('unavailable');
    expect(await said(await good())).toBe('bridge');
  });

  test('verify nothing by an id that two of them have', async () => {
    const other = await house.addKey('two', 'ES256');
    other.publicJwk.kid = 'one';
    expect(await said(await good())).toBe('malformed_token');
    expect(await said(await other.sign({ sub: 'bridge' }, { kid: 'one' }))).toBe('malformed_token');
  });

  test('are read anew for an id that nobody knows, once in the cool-down', async () => {
    await said(await good());
    const two = await house.addKey('two', 'ES256');
    const token = await two.sign({ sub: 'bridge' });
    const verdicts = await Promise.all(Array.from({ length: 20 }, () => said(token)));
    expect(new Set(verdicts)).toEqual(new Set(['bridge']));
    expect(house.requests).toHaveLength(2);

    const stray = await house.addKey('stray', 'ES256', false);
    for (let i = 0; i < 20; i++) {
      expect(await said(await stray.sign({ sub: 'x' }, { kid: `stray${i}` }))).toBe(
        'malformed_token',
      );
    }
    expect(house.requests).toHaveLength(2);
    later(ISSUER_COOL_DOWN_SECONDS);
    await Promise.all(Array.from({ length: 20 }, async () => said(await stray.sign({ sub: 'x' }))));
    expect(house.requests).toHaveLength(3);
  });

  test('that were withdrawn verify nothing more once they are due', async () => {
    const token = await good();
    await said(token);
    await house.addKey('two', 'ES256');
    house.withdraw('one');
    later(ISSUER_FRESH_SECONDS - 1);
    expect(await said(token)).toBe('bridge');
    later(1);
    expect(await said(token)).toBe('malformed_token');
  });

  test.each(['down', 'redirects', 'nonsense'] as const)(
    'that were never read are unavailable while the server is %s, and few ask it',
    async (state) => {
      house.state = state;
      for (let i = 0; i < 10; i++) expect(await said(await good())).toBe('unavailable');
      expect(house.requests).toEqual(['/keys']);
      house.state = 'up';
      later(ISSUER_COOL_DOWN_SECONDS);
      expect(await said(await good())).toBe('bridge');
    },
  );

  test('that were read are used while the server is gone, and no longer than is allowed', async () => {
    const token = await good();
    expect(await said(token)).toBe('bridge');
    await house.stop();
    later(ISSUER_FRESH_SECONDS);
    expect(await said(token)).toBe('bridge');
    expect(await said(await good({ aud: 'other' }))).toBe('malformed_token');
    // A key that nobody knows may be a new one: that cannot be told now.
    const two = await house.addKey('two', 'ES256');
    expect(await said(await two.sign({ sub: 'x' }))).toBe('unavailable');
    later(ISSUER_USABLE_SECONDS - ISSUER_FRESH_SECONDS);
    expect(await said(token)).toBe('unavailable');
  });
});

describe('the configuration of issuers', () => {
  const given = async (...issuers: object[]) => {
    const file = join(folder, 'earshot.json');
    await writeFile(file, JSON.stringify({ issuers }));
    return readConfig({ EARSHOT_CONFIG: file });
  };
  const plain = { issuer: NAME, audience: AUDIENCE, algorithms: ['ES256'] };
  const url = 'https://login.example/keys';

  test('takes an address or a file, and loopback without TLS', async () => {
    const loopback = ['http://127.0.0.1:9/k', 'http://localhost/k', 'http://[::1]:8/k', url];
    for (const address of loopback) {
      const { issuers } = await given({ ...plain, url: address });
      expect(issuers).toEqual([{ ...plain, url: address }]);
    }
    const people = { organizations: ['acme'] };
    const { issuers } = await given({ ...plain, file: '/keys.json', people });
    expect(issuers?.[0]?.people).toEqual({ organizations: ['acme'], claim: 'sub' });
  });

  test.each([
    ['issuers.0.algorithms.0', { ...plain, url, algorithms: ['HS256'] }],
    ['issuers.0.algorithms.0', { ...plain, url, algorithms: ['none'] }],
    ['issuers.0.algorithms', { ...plain, url, algorithms: [] }],
    ['issuers.0.algorithms', { ...plain, url, algorithms: undefined }],
    ['issuers.0.url', { ...plain, url: 'http://login.example/keys' }],
    ['issuers.0.url', { ...plain, url: 'http://127.0.0.1.example/keys' }],
    ['issuers.0.url', { ...plain, url: 'https://me:secret@login.example/keys' }],
    ['issuers.0.url', { ...plain, url: 'file:///etc/keys' }],
    ['issuers.0.url', { ...plain, url, file: '/keys.json' }],
    ['issuers.0.url', plain],
    ['issuers.0.audience', { ...plain, url, audience: '' }],
    ['issuers.0.people.organizations', { ...plain, url, people: { organizations: [] } }],
    ['issuers.0', { ...plain, url, secret: 'x' }],
  ])('stops the start and names %s', async (where, one) => {
    const reading = given(one);
    await expect(reading).rejects.toThrow(ConfigError);
    await expect(reading).rejects.toThrow(new RegExp(`^${where.replaceAll('.', '\\.')}: `));
    await expect(reading).rejects.not.toThrow('secret@');
  });

  test('lists no issuer twice, and none with the name of the gateway', async () => {
    await expect(given({ ...plain, url }, { ...plain, url })).rejects.toThrow('listed twice');
    await expect(given({ ...plain, url, issuer: 'earshot' })).rejects.toThrow('EARSHOT_ISSUER');
  });

  test('is in the file alone', () => {
    expect(() => readConfig({ EARSHOT_ISSUERS: '[]' })).toThrow(ConfigError);
  });

  test('with a file that is not there, is no key set or that others may write stops the start', async () => {
    const file = join(folder, 'keys.json');
    await expect(opened({ file })).rejects.toThrow(ConfigError);
    for (const text of ['', '{}', '{"keys":7}']) {
      await writeFile(file, text);
      await expect(opened({ file })).rejects.toThrow(/issuers: .*no key set/);
    }
    await writeFile(file, JSON.stringify(house.keySet()));
    await opened({ file });
    await chmod(file, 0o666);
    await expect(opened({ file })).rejects.toThrow('others may write');
  });
});
