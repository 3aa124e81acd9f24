import { randomBytes } from 'node:crypto';
import { CompactSign, SignJWT, UnsecuredJWT, exportJWK } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ConfigError, readConfig } from '../../gateway/config.ts';
import { signToken } from '../../gateway/tokens/signed-token.ts';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Messages, TestOrganization, TestTurn } from '../support/organization.ts';

// Case 14, and what else is tried with tokens.

let gateway: TestGateway;
let acme: TestOrganization;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.conversation('other', ['ana', 'cleo'], { aiThread: true });
  for (const body of ['canary one', 'canary two', 'canary three'])
    await acme.say('shared', 'ben', body);
  await acme.say('thread', 'ana', 'which canary');
  await acme.say('other', 'ana', 'which canary elsewhere');
});

function start(destination = 'thread'): Promise<TestTurn> {
  return acme.turn({ destination, requester: 'ana', trigger: '1' });
}

/** The claims of a token that the gateway signed. */
function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<
    string,
    unknown
  >;
}

describe('a grant token', () => {
  const search = (token: string) =>
    gateway.send('POST', '/v1/tools/search', { token, json: { query: 'canary' } });

  test('is taken as it was signed', async () => {
    const { grant } = await start();
    expect((await search(grant.token)).status).toBe(200);
  });

  test('is not taken by a header that chooses another algorithm, type or key', async () => {
    const { grant } = await start();
    const { keys } = gateway.gateway;
    const claims = claimsOf(grant.token);
    const bytes = Buffer.from(JSON.stringify(claims));
    const header = { alg: 'EdDSA', typ: 'earshot-grant+jwt', kid: keys.signing.kid };
    const publicKey = Buffer.from(JSON.stringify(keys.jwks.keys[0]));
    const raw = Buffer.from(keys.jwks.keys[0]?.x ?? '', 'base64url');
    const signed = (more: object) =>
      new CompactSign(bytes).setProtectedHeader({ ...header, ...more }).sign(keys.signing.key);
    const [head = '', body = '', signature = ''] = grant.token.split('.');
    const b64 = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

    const forged = {
      unsecured: new UnsecuredJWT(claims).encode(),
      none: `${b64({ ...header, alg: 'none' })}.${body}.`,
      'none in capitals': `${b64({ ...header, alg: 'NONE' })}.${body}.`,
      'an HMAC of the public key': await new CompactSign(bytes)
        .setProtectedHeader({ ...header, alg: 'HS256' })
        .sign(publicKey),
      'an HMAC of the raw public key': await new CompactSign(bytes)
        .setProtectedHeader({ ...header, alg: 'HS256' })
        .sign(raw),
      'an unknown key': await signed({ kid: 'nobody' }),
      'no key': await signed({ kid: undefined }),
      'a key by path': await signed({ kid: '../../../../dev/null' }),
      'a key of the prototype': await signed({ kid: '__proto__' }),
      'a key in the header': await signed({
        kid: 'mine',
        jwk: await exportJWK(raw).then(() => keys.jwks.keys[0]),
      }),
      'another type': await signed({ typ: 'JWT' }),
      'the type of callers': await signed({ typ: 'earshot-caller+jwt' }),
      'no type': await signed({ typ: undefined }),
      'another body': `${head}.${b64({ ...claims, org: 'other' })}.${signature}`,
      'no signature': `${head}.${body}.`,
      'a longer signature': `${grant.token}AA`,
      'an embedded unknown criticality': `${b64({ ...header, crit: ['x'], x: 1 })}.${body}.${signature}`,
    };
    for (const [name, token] of Object.entries(forged)) {
      const { status, code } = await search(token);
      expect({ name, status, code }).toEqual({ name, status: 401, code: 'malformed_token' });
    }
  });

  test('is not taken with claims that no grant of ours has, even when they are signed', async () => {
    const { grant } = await start();
    const { keys, config } = gateway.gateway;
    const claims = claimsOf(grant.token);
    const now = Math.floor(Date.now() / 1000);
    const sign = (more: object) =>
      new SignJWT({ ...claims, ...more })
        .setProtectedHeader({ alg: 'EdDSA', typ: 'earshot-grant+jwt', kid: keys.signing.kid })
        .sign(keys.signing.key);

    const odd: [string, object, string][] = [
      ['a lifetime above the maximum', { exp: now + config.grantSeconds + 60 }, 'malformed_token'],
      [
        'times in milliseconds',
        { iat: now * 1000, nbf: now, exp: (now + 60) * 1000 },
        'malformed_token',
      ],
      ['an end in milliseconds', { exp: (now + 60) * 1000 }, 'malformed_token'],
      ['an end that has passed', { iat: now - 100, exp: now - 50 }, 'grant_expired'],
      ['a beginning to come', { nbf: now + 100 }, 'malformed_token'],
      ['no end', { exp: undefined }, 'malformed_token'],
      ['another issuer', { iss: 'other' }, 'malformed_token'],
      ['another audience', { aud: 'earshot/callers' }, 'malformed_token'],
      ['no requester', { sub: undefined }, 'malformed_token'],
      ['a requester of another kind', { sub: 7 }, 'malformed_token'],
      ['no persona', { act: undefined }, 'malformed_token'],
      ['a token id of another shape', { jti: 'x' }, 'malformed_token'],
      ['a fence as a number', { fence: 1 }, 'malformed_token'],
      [
        'a token id that nobody knows',
        { jti: randomBytes(32).toString('base64url') },
        'unknown_grant',
      ],
    ];
    for (const [name, more, code] of odd) {
      expect({ name, code: (await search(await sign(more))).code }).toEqual({ name, code });
    }
    expect((await search(await sign({}))).status).toBe(200);
  });

  test('identifies a grant and permits nothing: what else it says moves no scope', async () => {
    const { grant } = await start();
    const { keys, config } = gateway.gateway;
    const forged = await signToken(
      keys,
      config.issuer,
      { typ: 'earshot-grant+jwt', audience: 'earshot' },
      {
        ...claimsOf(grant.token),
        ...{ sub: 'cleo', dest: 'other', org: 'elsewhere', ah: 'f'.repeat(64) },
      },
    );
    const { body } = await search(forged);

    expect((body as Messages).items.map(({ source }) => source.conversation)).not.toContain(
      'other',
    );
  });

  test('of one type passes for no other', async () => {
    const turn = await start();
    const { body: delivery } = await turn.propose('the canary');
    const { bridge, deliver } = gateway.tokens;
    const clearance = delivery.clearance ?? '';
    const release = (token: string, cleared: string) =>
      gateway.send('POST', `/v1/deliveries/${delivery.id}/release`, {
        token,
        json: { organization: acme.name, clearance: cleared },
      });

    for (const token of [bridge, deliver, clearance])
      expect((await search(token)).code).toBe('malformed_token');
    for (const token of [turn.grant.token, clearance])
      expect((await release(token, clearance)).code).toBe('malformed_token');
    for (const cleared of [turn.grant.token, deliver])
      expect((await release(deliver, cleared)).code).toBe('malformed_token');
    expect((await release(deliver, clearance)).status).toBe(200);
  });

  test.each(['NaN', 'Infinity', '5x', '-1', '1e9', '', ' 5', '61', '0x5'])(
    'is checked with a clock tolerance that is a bounded number, and %j stops the start',
    (text) => {
      expect(() => readConfig({ EARSHOT_CLOCK_TOLERANCE_SECONDS: text })).toThrow(ConfigError);
    },
  );

  test('stands alone in its header: two of them, or one in another header, are none', async () => {
    const { grant } = await start();
    const { ingest } = gateway.tokens;
    const as = (headers: Record<string, string>) =>
      gateway.send('POST', '/v1/tools/search', { json: { query: 'canary' }, headers });

    for (const headers of [
      { authorization: `Bearer ${grant.token}, Bearer ${ingest}` },
      { authorization: `Bearer ${grant.token} ${ingest}` },
      { authorization: grant.token },
      { authorization: `Token ${grant.token}` },
      { 'x-authorization': `Bearer ${grant.token}` },
      { cookie: `authorization=Bearer ${grant.token}` },
    ]) {
      expect((await as(headers as Record<string, string>)).code).toBe('malformed_token');
    }
    expect((await as({ authorization: `bearer ${grant.token}` })).status).toBe(200);
  });

  test('is nowhere stored, and neither is its id', async () => {
    const { grant } = await start();
    const { jti } = claimsOf(grant.token) as { jti: string };
    const tables = await gateway.owner<{ name: string }[]>`
      select relname as name from pg_class where relnamespace = 'earshot'::regnamespace and relkind = 'r'`;
    for (const { name } of tables) {
      const rows = await gateway.owner.unsafe(
        `select from earshot.${name} t where t::text like $1 or t::text like $2`,
        [`%${jti}%`, `%${grant.token}%`],
      );
      expect({ name, rows: rows.length }).toEqual({ name, rows: 0 });
    }
  });
});
