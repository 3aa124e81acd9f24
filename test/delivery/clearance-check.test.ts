import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type CryptoKey, type JWK } from 'jose';
import {
  afterAll,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest';
import { checkClearance, keysAt, keysOf } from '../../delivery/clearance-check.ts';
import { startFakeServer, type FakeServer, type Reply } from '../client/fake-server.ts';

const JWKS = 'GET /.well-known/jwks.json';
const claims = {
  iss: 'earshot',
  aud: 'earshot/deliveries',
  sub: '3c572be1-87aa-4b49-b528-ab66c7655589',
  org: 'acme',
  dest: 'thread',
  ah: 'a'.repeat(64),
  psh: 'b'.repeat(64),
};
const header = { alg: 'EdDSA', typ: 'earshot-clearance+jwt', kid: 'k1' };

let ours: { privateKey: CryptoKey; jwk: JWK };
let theirs: CryptoKey;
let server: FakeServer;

beforeAll(async () => {
  const pair = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
  const jwk = { ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'EdDSA', use: 'sig' };
  ours = { privateKey: pair.privateKey, jwk };
  theirs = (await generateKeyPair('EdDSA', { crv: 'Ed25519' })).privateKey;
  server = await startFakeServer();
});
afterAll(() => server.close());
beforeEach(() => server.reset());

const now = () => Math.floor(Date.now() / 1000);

function sign(
  more: object = {},
  { head = {}, key = ours.privateKey }: { head?: object; key?: CryptoKey | Uint8Array } = {},
): Promise<string> {
  return new SignJWT({ ...claims, iat: now(), exp: now() + 60, ...more })
    .setProtectedHeader({ ...header, ...head })
    .sign(key);
}

const check = (token: string, keys = keysOf({ keys: [ours.jwk] })) =>
  checkClearance(token, keys, 'earshot', 5);

test('a clearance says which bytes may go where', async () => {
  const exp = now() + 60;
  expect(await check(await sign({ exp }))).toEqual({
    ok: true,
    delivery: claims.sub,
    organization: 'acme',
    destination: 'thread',
    audienceHash: claims.ah,
    payloadSha256: claims.psh,
    expiresAt: exp,
  });
});

describe('what is no clearance is refused', () => {
  const secret = new TextEncoder().encode('a secret that is long enough for HS256');
  const cases: readonly [string, () => Promise<string>][] = [
    ['nothing', () => Promise.resolve('')],
    ['a word', () => Promise.resolve('clearance')],
    ['something endless', () => Promise.resolve(`eyJ${'A'.repeat(100_000)}`)],
    [
      'an unsigned one',
      () => Promise.resolve(new UnsecuredJWT(claims).setExpirationTime('1m').encode()),
    ],
    ['one of another key', () => sign({}, { key: theirs })],
    ['one of an unknown key', () => sign({}, { head: { kid: 'k2' } })],
    ['one of another algorithm', () => sign({}, { head: { alg: 'HS256' }, key: secret })],
    ['a grant', () => sign({}, { head: { typ: 'earshot-grant+jwt' } })],
    ['one without a type', () => sign({}, { head: { typ: undefined } })],
    ['one for agents', () => sign({ aud: 'earshot' })],
    ['one of another issuer', () => sign({ iss: 'elsewhere' })],
    ...['iss', 'aud', 'sub', 'org', 'dest', 'ah', 'psh', 'iat', 'exp'].map(
      (name): [string, () => Promise<string>] => [
        `one without ${name}`,
        () => sign({ [name]: undefined }),
      ],
    ),
    ['one with half a digest', () => sign({ psh: 'b'.repeat(63) })],
    ['one whose bytes were changed', async () => changed(await sign(), { psh: 'c'.repeat(64) })],
    ['one whose place was changed', async () => changed(await sign(), { dest: 'room' })],
  ];

  test.each(cases)('%s', async (_, token) => {
    expect(await check(await token())).toMatchObject({ ok: false, code: 'malformed_token' });
  });

  test('one whose time has passed, by more than two clocks may differ', async () => {
    expect(await check(await sign({ exp: now() - 6 }))).toMatchObject({ code: 'delivery_expired' });
    expect((await check(await sign({ exp: now() - 3 }))).ok).toBe(true);
  });
});

/** The same signature under other claims. */
function changed(token: string, more: object): string {
  const [head, body = '', signature] = token.split('.');
  const read = JSON.parse(Buffer.from(body, 'base64url').toString()) as object;
  const written = Buffer.from(JSON.stringify({ ...read, ...more })).toString('base64url');
  return [head, written, signature].join('.');
}

describe('the keys at a gateway', () => {
  test('are fetched once for many clearances', async () => {
    server.script(JWKS, { status: 200, json: { keys: [ours.jwk] } });
    const keys = keysAt(`${server.url}/`);
    for (let i = 0; i < 3; i++) expect((await check(await sign(), keys)).ok).toBe(true);
    expect(server.asked()).toEqual([JWKS]);
  });

  test('are asked for again for an unknown key, but once in five seconds, and after a minute', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const pass = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1000);
    const { kid: _, ...nameless } = ours.jwk;
    const next = { ...nameless, kid: 'k2' };
    const byNext = () => sign({}, { head: { kid: 'k2' } });
    const sets = [[ours.jwk], [ours.jwk, next], [next]].map((set) => ({
      status: 200,
      json: { keys: set },
    }));
    server.script(JWKS, ...sets);
    const keys = keysAt(server.url);

    expect((await check(await sign(), keys)).ok).toBe(true);
    // A key that signs at once, and many tokens that name it.
    expect(await check(await byNext(), keys)).toMatchObject({ code: 'malformed_token' });
    expect(server.asked()).toHaveLength(1);
    pass(5);
    expect((await check(await byNext(), keys)).ok).toBe(true);
    expect((await check(await sign(), keys)).ok).toBe(true);
    expect(server.asked()).toHaveLength(2);
    // The old one is retired.
    pass(60);
    expect(await check(await sign(), keys)).toMatchObject({ code: 'malformed_token' });
    expect((await check(await byNext(), keys)).ok).toBe(true);
    expect(server.asked()).toHaveLength(3);
  });

  test.each<[string, Reply]>([
    ['are not there', { status: 404, html: 'not here' }],
    ['fail', { status: 500, json: {} }],
    ['are a page', { status: 200, html: 'welcome' }],
    ['are no key set', { status: 200, json: { keys: 'k1' } }],
    ['do not answer', 'cut'],
  ])('that %s leave a clearance unproved, for another try', async (_, reply) => {
    server.script(JWKS, reply);
    expect(await check(await sign(), keysAt(server.url))).toMatchObject({
      ok: false,
      code: 'keys_unavailable',
      recovery: 'retry',
    });
  });
});
