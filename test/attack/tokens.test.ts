import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serve, type ServerType } from '@hono/node-server';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createApp } from '../../gateway/app.ts';
import { recoveryBody, REFUSALS } from '../../policy/refusal.ts';
import { holdOpen, whenBlocked, type HeldOpen } from '../http/blocked.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';
import { CLAIM_ATTACKS } from './claim-attacks.ts';
import { ownKey, segmentsOf, signed, type Attack, type Sound } from './forgery.ts';
import { HEADER_ATTACKS } from './header-attacks.ts';
import { rawRequest, type Header, type RawAnswer } from './raw-request.ts';
import { SPELLING_ATTACKS } from './spelling-attacks.ts';
import { logStatements } from './statement-log.ts';

// Case 14. Over a socket, byte for byte, while every table with content is locked against reading: a request that
// looked into one of them would not be answered.

const CONTENT =
  'messages, late_messages, message_embeds, open_postings, conversations, memberships';
const SEARCH = ['POST', '/v1/tools/search'] as const;
const JSON_BODY: Header = ['content-type', 'application/json'];

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;
let sound: Sound;
/** Turns whose grants are known and dead, by what became of them. */
let dead: Readonly<Record<string, TestTurn>>;
let listener: Server;
const fetched: string[] = [];
let server: ServerType;
let port: number;
let statements: string[];
let shut: HeldOpen;

const contentOf = (segment: string) =>
  JSON.parse(Buffer.from(segment, 'base64url').toString()) as Record<string, unknown>;
const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
const addressOf = (which: { address(): AddressInfo | string | null }) =>
  (which.address() as AddressInfo).port;

beforeAll(async () => {
  gateway = await openTestGateway();
  acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'which canary');
  turn = await start();
  const other = await start();
  const { clearance = '' } = ok(await other.propose('It sang.'));
  dead = await prepareDead();

  listener = createServer((request, answer) => {
    fetched.push(request.url ?? '');
    answer.end('{"keys":[]}');
  }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const [head, body] = segmentsOf(turn.grant.token);
  const { keys, config, database } = gateway.gateway;
  const { signing } = await keys.current();
  sound = {
    ...{ token: turn.grant.token, other: other.grant.token, clearance },
    ...{ header: contentOf(head), claims: contentOf(body), caller: gateway.tokens.bridge },
    ours: ownKey(signing.privateKey),
    listener: `http://127.0.0.1:${addressOf(listener).toString()}`,
    maxLifetime: config.grantSeconds,
  };
  const logged = logStatements(database);
  statements = logged.statements;
  const app = createApp({ ...gateway.gateway, database: logged });
  server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' });
  await once(server, 'listening');
  port = addressOf(server);
  shut = await holdOpen(gateway, (sql) =>
    sql.unsafe(`lock table ${CONTENT.replaceAll(/\w+/g, 'earshot.$&')} in access exclusive mode`),
  );
});

afterAll(async () => {
  server.close();
  listener.close();
  await gateway.close();
});

beforeEach(() => {
  statements.length = 0;
});

async function prepareDead(): Promise<Record<string, TestTurn>> {
  const begun = async (change: (turn: TestTurn) => Promise<unknown>) => {
    const begun = await start();
    await change(begun);
    return begun;
  };
  const { bridge } = gateway.tokens;
  const json = { organization: acme.name };
  const lapse = ({ id }: TestTurn) =>
    gateway.owner`update earshot.turns set lease_expires_at = now() where id = ${id}`;
  return {
    grant_revoked: await begun(({ grant }) =>
      gateway.send('POST', `/v1/grants/${grant.grantId}/revoke`, { token: bridge, json }),
    ),
    grant_expired: await begun((one) => one.mint()),
    turn_not_running: await begun((one) => one.end('complete')),
    lease_lost: await begun(lapse),
    fenced: await begun(async (one) => {
      await lapse(one);
      const path = `/v1/turns/${one.id}/lease`;
      ok(await gateway.send('POST', path, { token: bridge, json: { ...json, owner: 'newer' } }));
    }),
  };
}

const bearer = (token: string): Header => ['authorization', `Bearer ${token}`];
const search = (...headers: readonly Header[]) =>
  rawRequest(port, SEARCH, [JSON_BODY, ...headers], '{"query":"canary"}');
const propose = (...headers: readonly Header[]) =>
  rawRequest(
    port,
    ['POST', '/v1/deliveries'],
    [JSON_BODY, ['idempotency-key', randomUUID()], ...headers],
    '{"destination":"thread","payload":"It sang."}',
  );
const introspect = (token: string) =>
  rawRequest(
    port,
    ['POST', '/v1/grants/introspect'],
    [['content-type', 'application/x-www-form-urlencoded'], bearer(gateway.tokens.bridge)],
    new URLSearchParams({ token }).toString(),
  );

/** The whole of a refusal: nothing in it says more than its code. */
function refusalOf(code: Attack['code'] | 'grant_revoked'): RawAnswer {
  const { status, sentence, recovery, page } = REFUSALS[code];
  const type = `urn:earshot:refusal:${page}:${code}`;
  return {
    ...{ status, code },
    body: { type, title: sentence, status, detail: sentence, code, ...recoveryBody(recovery) },
  };
}

/** The doors that statements knocked at: the tables and functions they name. */
const doors = () =>
  statements.flatMap((text) => [...text.matchAll(/earshot\.(\w+)/g)].map(([, name]) => name));

describe.each([
  ['claims', CLAIM_ATTACKS],
  ['header', HEADER_ATTACKS],
  ['spelling', SPELLING_ATTACKS],
] as const)(
  'a token that is wrong in its %s is refused, and nothing is asked of the database:',
  (_in, attacks) => {
    test('the table names each of them once', () => {
      expect(new Set(attacks.map(({ name }) => name)).size).toBe(attacks.length);
    });

    test.each(attacks.map(({ name, ...rest }) => [name, rest] as const))(
      '%s',
      async (_name, { forge, code }) => {
        const token = forge(sound);
        expect(token).not.toBe(sound.token);
        // White space after a header's value is none of the value.
        if (token.trimEnd() === token) {
          for (const ask of [search, propose]) {
            const answer = await ask(bearer(token));
            const { decision: _id, ...body } = answer.body as Record<string, unknown>;
            expect({ ...answer, body }).toEqual(refusalOf(code));
          }
          expect(doors()).toEqual(
            code === 'unknown_grant' ? ['call_tool', 'propose_delivery'] : [],
          );
        }
        statements.length = 0;
        // To whom a token is only shown, it is not live, and that is all.
        expect(await introspect(token)).toEqual({
          status: 200,
          code: undefined,
          body: { active: false },
        });
        expect(doors().filter((name) => name !== 'clients')).toEqual(
          code === 'unknown_grant' ? ['introspect_grant'] : [],
        );
      },
    );
  },
);

describe('a sound token of a grant that is dead is refused before any content is looked at:', () => {
  test.each(['grant_revoked', 'grant_expired', 'turn_not_running', 'lease_lost', 'fenced'])(
    '%s',
    async (code) => {
      const token = dead[code]?.grant.token ?? '';
      expect((await search(bearer(token))).code).toBe(code);
      expect((await introspect(token)).body).toEqual({ active: false });
    },
  );
});

describe('a token that is not alone, or not where it belongs, is none:', () => {
  const junk = 'e30.e30.e30';
  const ways: Readonly<Record<string, (token: string) => readonly Header[]>> = {
    'no header': () => [],
    'two headers, the sound one first': (token) => [bearer(token), bearer(junk)],
    'two headers, the sound one last': (token) => [bearer(junk), bearer(token)],
    'two headers, both sound': (token) => [bearer(token), bearer(token)],
    'two tokens with a comma': (token) => [['authorization', `Bearer ${token}, Bearer ${junk}`]],
    'two tokens with a space': (token) => [['authorization', `Bearer ${token} ${token}`]],
    'no scheme': (token) => [['authorization', token]],
    'a scheme and no token': () => [['authorization', 'Bearer']],
    'another scheme': (token) => [['authorization', `Token ${token}`]],
    'a scheme of two words': (token) => [['authorization', `Bearer Bearer ${token}`]],
    'the scheme of DPoP': (token) => [['authorization', `DPoP ${token}`]],
    'a password': (token) => [
      ['authorization', `Basic ${Buffer.from(`x:${token}`).toString('base64')}`],
    ],
    'two spaces': (token) => [['authorization', `Bearer  ${token}`]],
    'a tab': (token) => [['authorization', `Bearer\t${token}`]],
    'a parameter': (token) => [['authorization', `Bearer token="${token}"`]],
    'a no-break space': (token) => [['authorization', `Bearer\u00a0${token}`]],
    'a header of a proxy': (token) => [['proxy-authorization', `Bearer ${token}`]],
    'a header of another name': (token) => [['x-authorization', `Bearer ${token}`]],
    'a cookie': (token) => [['cookie', `authorization=Bearer ${token}; token=${token}`]],
  };
  test.each(Object.entries(ways))('%s', async (_what, headers) => {
    for (const ask of [search, propose]) {
      expect(await ask(...headers(sound.token))).toEqual(refusalOf('malformed_token'));
    }
    expect(statements).toEqual([]);
  });

  test.each([
    ['in the address', '/v1/tools/search?access_token=', JSON_BODY, '{"query":"canary"}'],
    [
      'in a form',
      '/v1/tools/search',
      ['content-type', 'application/x-www-form-urlencoded'],
      'query=canary&access_token=',
    ],
  ] as const)('%s', async (_what, path, type, body) => {
    const inPath = path.endsWith('=');
    const { status } = await rawRequest(
      port,
      ['POST', inPath ? path + sound.token : path],
      [type],
      inPath ? body : body + sound.token,
    );
    expect([400, 401]).toContain(status);
    expect(statements).toEqual([]);
  });

  test.each([
    ['a NUL', 'Bearer \0'],
    ['a line end', 'Bearer x\n'],
    ['a carriage return', 'Bearer x\r'],
  ])('with %s in it: the request is none', async (_what, value) => {
    expect((await search(['authorization', value + sound.token])).status).toBe(400);
    expect(statements).toEqual([]);
  });
});

test('no key is fetched from anywhere that a token names', () => {
  expect(fetched).toEqual([]);
});

test('a sound token waits for the content, so that reading would show', async () => {
  const answer = search(bearer(sound.token));
  const [pid = 0] = await whenBlocked(gateway);
  await gateway.owner`select pg_cancel_backend(${pid})`;
  expect((await answer).code).toBe('unavailable');
  expect(doors()).toEqual(['call_tool']);
});

describe('a token of one type passes for no other:', () => {
  // A release asks whose delivery it is before it looks at a clearance.
  beforeAll(() => shut.commit());

  const TYPES = {
    grant: ['earshot-grant+jwt', 'earshot'],
    caller: ['earshot-caller+jwt', 'earshot/callers'],
    clearance: ['earshot-clearance+jwt', 'earshot/deliveries'],
  } as const;
  type Type = keyof typeof TYPES;
  const tokenOf = (type: Type) =>
    type === 'grant' ? sound.token : type === 'caller' ? sound.caller : sound.clearance;
  const release = (caller: string, clearance: string) =>
    rawRequest(
      port,
      ['POST', `/v1/deliveries/${String(contentOf(segmentsOf(sound.clearance)[1]).sub)}/release`],
      [JSON_BODY, bearer(caller)],
      JSON.stringify({ organization: acme.name, clearance }),
    );
  const doorOf: Readonly<Record<Type, (token: string) => Promise<RawAnswer>>> = {
    grant: (token) => search(bearer(token)),
    caller: (token) => release(token, sound.clearance),
    clearance: (token) => release(gateway.tokens.deliver, token),
  };
  const kinds = Object.keys(TYPES) as Type[];
  const pairs = kinds.flatMap((type) =>
    kinds.filter((door) => door !== type).map((door) => [type, door] as const),
  );

  test.each(pairs)(
    'a %s where a %s is asked for, also with its type or its audience alone',
    async (type, door) => {
      const [typ, aud] = TYPES[door];
      const [head, body] = segmentsOf(tokenOf(type));
      const [header, claims] = [contentOf(head), contentOf(body)];
      for (const token of [
        tokenOf(type),
        signed({ ...header, typ }, claims, sound.ours),
        signed(header, { ...claims, aud }, sound.ours),
        // A caller is nothing but a name; the others have claims that this one lacks.
        ...(door === 'caller' ? [] : [signed({ ...header, typ }, { ...claims, aud }, sound.ours)]),
      ]) {
        expect(await doorOf[door](token)).toEqual(refusalOf('malformed_token'));
      }
      expect(doors().filter((name) => name === 'release_delivery' || name === 'call_tool')).toEqual(
        [],
      );
    },
  );
});
