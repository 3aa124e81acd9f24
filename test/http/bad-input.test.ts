import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isRefusalCode, REFUSALS } from '../../policy/refusal.ts';
import { signCaller } from '../../gateway/tokens/caller-token.ts';
import {
  openTestGateway,
  type Answer,
  type SendOptions,
  type TestGateway,
} from '../support/gateway.ts';
import { ELSEWHERE, soundRequests, surroundingsOf, type SoundRequest } from './routes.ts';
import { LONE, leavesOf, NO_IDS, NUL, OPTIONAL, replaced, TEXTS } from './spoiling.ts';
import { contentOf } from './stored.ts';

let gateway: TestGateway;
let requests: SoundRequest[];
/** Tokens that prove somebody, and not somebody who may. */
let strangers: Record<string, string>;

beforeAll(async () => {
  gateway = await openTestGateway({
    MAX_BODY_BYTES: '65536',
    LEASE_SECONDS: '600',
    DELIVERY_SECONDS: '3600',
  });
  const surroundings = await surroundingsOf(gateway);
  requests = soundRequests(surroundings);
  const { keys, config } = gateway.gateway;
  const revoked = await gateway.addCaller({
    id: 'revoked',
    scopes: ['operator', 'ingest', 'bridge', 'deliver'],
  });
  await gateway.owner`update earshot.clients set revoked_at = now() where id = 'revoked'`;
  strangers = {
    grant: surroundings.turn.grant.token,
    clearance: surroundings.delivery.clearance ?? '',
    caller: gateway.tokens.bridge,
    expired: await gateway.addCaller(
      { id: 'late', scopes: ['operator', 'ingest', 'bridge', 'deliver'] },
      -60,
    ),
    unregistered: await signCaller(keys, config.issuer, 'nobody', 60),
    revoked,
    abroad: await gateway.addCaller({
      id: 'abroad',
      scopes: ['operator', 'ingest', 'bridge', 'deliver'],
      organizations: ['other'],
    }),
  };
});

afterAll(() => gateway.close());

test('every route that asks who calls has a sound request here', async () => {
  const { body } = await gateway.send('GET', '/openapi.json');
  const { paths } = body as { paths: Record<string, Record<string, { security?: unknown[] }>> };
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { security }]) => security === undefined)
      .map(([method]) => `${method.toUpperCase()} ${path}`),
  );

  const known = requests.map(({ method, route }) => `${method} ${route}`);
  expect([...known, ...ELSEWHERE].sort()).toEqual(routes.sort());
});

/** Sends a request spoiled in one place. */
function sendSpoiled(
  { method, path, token, key, json, lines }: SoundRequest,
  spoiled: SendOptions & { path?: string },
): Promise<Answer> {
  const { path: other = path, ...options } = spoiled;
  return gateway.send(method, other, {
    token,
    ...(key !== undefined && { key }),
    ...('body' in spoiled
      ? {}
      : lines === undefined
        ? json !== undefined && { json }
        : { body: lines, headers: { 'content-type': 'application/x-ndjson' } }),
    ...options,
  });
}

/** Refused as problem details, with a code whose status this is. */
function expectRefusal(answer: Answer, name: string) {
  const { status, headers, body, code } = answer;
  const isRefused = isRefusalCode(code ?? '') && status >= 400 && status < 500;
  expect({ name, isRefused, answer: isRefused ? '' : JSON.stringify(body) }).toEqual({
    name,
    isRefused: true,
    answer: '',
  });
  expect(headers.get('content-type')).toBe('application/problem+json');
  const { status: expected, sentence } = REFUSALS[code as keyof typeof REFUSALS];
  expect(status).toBe(expected);
  expect(body).toMatchObject({ status, title: sentence });
  expect((body as { type: string }).type).toMatch(/^urn:earshot:refusal:/);
  expect(headers.get('cache-control')).toBe('no-store');
}

/** Tries every spoiled request of a route, and looks at what is stored before and after. */
async function refusesAll(
  spoil: (
    request: SoundRequest,
  ) => Iterable<readonly [name: string, spoiled: SendOptions & { path?: string }, code?: string]>,
) {
  for (const request of requests) {
    const before = await contentOf(gateway.owner);
    for (const [what, spoiled, code] of spoil(request)) {
      const name = `${request.method} ${request.route}: ${what}`;
      const answer = await sendSpoiled(request, spoiled);
      expectRefusal(answer, name);
      if (code !== undefined) expect({ name, code: answer.code }).toEqual({ name, code });
    }
    expect({ route: request.route, content: await contentOf(gateway.owner) }).toEqual({
      route: request.route,
      content: before,
    });
  }
}

describe('nothing is stored and a problem is answered for', () => {
  test('a token that does not prove a caller of the right kind', () =>
    refusesAll(function* ({ scopes }) {
      yield ['no token', { token: undefined }, 'malformed_token'];
      for (const token of ['', 'x', 'a.b.c', 'e30.e30.', '"', 'a b', 'a'.repeat(5000)]) {
        yield [`the token ${token.slice(0, 10)}`, { token }, 'malformed_token'];
      }
      yield [
        'basic',
        { token: undefined, headers: { authorization: 'Basic YTpi' } },
        'malformed_token',
      ];
      const wrong =
        scopes.length === 0
          ? ['caller', 'clearance']
          : ['grant', 'clearance', 'expired', 'unregistered', 'revoked'];
      for (const name of wrong)
        yield [`a token: ${name}`, { token: strangers[name] }, 'malformed_token'];
    }));

  test('a caller that lacks the scope or is registered for another organization', () =>
    refusesAll(function* ({ scopes }) {
      if (scopes.length === 0) return;
      yield ['another organization', { token: strangers.abroad }, 'not_permitted'];
      for (const scope of ['bridge', 'deliver', 'ingest', 'operator'] as const) {
        if (!scopes.includes(scope))
          yield [scope, { token: gateway.tokens[scope] }, 'not_permitted'];
      }
    }));

  test('a body that is no JSON object of the shape', () =>
    refusesAll(function* ({ json, lines }) {
      if (json === undefined && lines === undefined) return;
      const as = (type: string) => ({ headers: { 'content-type': type } });
      const text = JSON.stringify(json ?? {});
      const depth = 20_000;
      if (json !== undefined) {
        yield ['no body', { body: '' }];
        yield ['no content type', { body: text, headers: { 'content-type': '' } }];
        yield ['as text', { body: text, ...as('text/plain') }];
        yield ['as a form', { body: 'a=b', ...as('application/x-www-form-urlencoded') }];
        yield ['as NDJSON', { body: text, ...as('application/x-ndjson') }];
        for (const top of ['null', 'true', '1', '"x"', '[]', `[${text}]`, `[${text},${text}]`]) {
          yield [`top level ${top.slice(0, 5)}`, { body: top }];
        }
        for (const [field, value] of [
          ['unknown', '1'],
          ['__proto__', '{"a":1}'],
          ['constructor', '{"prototype":{"a":1}}'],
          ['audience', '["ana"]'],
          ['scope', '"all"'],
          ['mode', '"private"'],
          ['readers', '[]'],
          ['floor', '"1"'],
        ] as const) {
          const open = text === '{}' ? '{' : `${text.slice(0, -1)},`;
          yield [`the field ${field}`, { body: `${open}"${field}":${value}}` }, 'invalid_input'];
        }
      }
      const wrap = (inner: string) => (lines === undefined ? inner : inner.replaceAll('\n', ' '));
      const type = as(lines === undefined ? 'application/json' : 'application/x-ndjson');
      for (const broken of [
        '{',
        '{"a":',
        `${text}}`,
        "{'a':1}",
        'undefined',
        '\0',
        'NaN',
        '{"a":1,}',
      ]) {
        yield [`JSON broken as ${broken.slice(0, 9)}`, { body: wrap(broken), ...type }];
      }
      yield ['deep arrays', { body: '['.repeat(depth) + ']'.repeat(depth), ...type }];
      yield ['deep objects', { body: '{"a":'.repeat(5000) + '1' + '}'.repeat(5000), ...type }];
      yield [
        'invalid UTF-8',
        { body: new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), ...type },
      ];
      yield ['too large', { body: `{"a":"${'x'.repeat(70_000)}"}`, ...type }, 'too_large'];
    }));

  test('a text that is not UTF-8', () =>
    refusesAll(function* ({ json, lines }) {
      const text = lines ?? JSON.stringify(json ?? {});
      const at = text.indexOf('":"') + 3;
      if (at < 3) return;
      const type = lines === undefined ? 'application/json' : 'application/x-ndjson';
      for (const bytes of [[0xff], [0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf0, 0x9f, 0x98]]) {
        const body = Buffer.concat([
          Buffer.from(text.slice(0, at)),
          Buffer.from(bytes),
          Buffer.from(text.slice(at)),
        ]);
        yield [bytes.join(), { body, headers: { 'content-type': type } }, 'invalid_input'];
      }
    }));

  test('a field that is missing or of another type', () =>
    refusesAll(function* ({ json }) {
      if (json === undefined) return;
      for (const { path, value, parent } of leavesOf(json)) {
        const others = [
          null,
          true,
          [],
          {},
          [value],
          { value },
          typeof value === 'string' ? 1 : '1',
        ];
        for (const other of others.filter((one) => typeof one !== typeof value || one === null)) {
          yield [
            `${path.join('.')} as ${JSON.stringify(other)}`,
            { json: replaced(json, path, other) },
            'invalid_input',
          ];
        }
        if (typeof value === 'number') {
          for (const number of [-1, 0.5, 1e21, 999_999_999]) {
            yield [
              `${path.join('.')} as ${number}`,
              { json: replaced(json, path, number) },
              'invalid_input',
            ];
          }
        }
        if (parent && !OPTIONAL.has(String(path.at(-1)))) {
          yield [
            `without ${path.join('.')}`,
            { json: replaced(json, path, undefined) },
            'invalid_input',
          ];
        }
      }
    }));

  test('a text or an id that cannot be one', () =>
    refusesAll(function* ({ json }) {
      if (json === undefined) return;
      for (const { path, value } of leavesOf(json)) {
        if (typeof value !== 'string') continue;
        const name = String(path.at(-1));
        const poisons = TEXTS.has(name)
          ? name === 'payload'
            ? [LONE]
            : [LONE, NUL]
          : [LONE, NUL, ...NO_IDS];
        for (const poison of poisons) {
          yield [
            `${path.join('.')} as ${JSON.stringify(poison.slice(0, 9))}`,
            { json: replaced(json, path, poison) },
          ];
        }
      }
    }));

  test('a path that names no id', () =>
    refusesAll(function* ({ route, path, scopes }) {
      if (scopes.length === 0 || !route.includes('{')) return;
      const names = route.split('/');
      const values = path.split('?');
      const parts = (values[0] ?? '').split('/');
      for (const [index, name] of names.entries()) {
        if (!name.startsWith('{')) continue;
        for (const poison of [
          '%00',
          '%0a',
          '%7f',
          '%C2%85',
          'e%CC%81',
          'a'.repeat(129),
          '%ED%A0%80',
          '%FF',
          '%E0%A4',
          '%',
          '%zz',
          '%2',
          '%F0%9F%98%80'.repeat(129),
          '',
        ]) {
          const spoiled = parts.map((part, at) => (at === index ? poison : part)).join('/');
          const query = values[1] === undefined ? '' : `?${values[1]}`;
          yield [`${name} as ${poison.slice(0, 12)}`, { path: `${spoiled}${query}` }];
        }
      }
    }));

  test('a query parameter that is unknown, repeated or missing', () =>
    refusesAll(function* ({ path }) {
      const [place = '', query] = path.split('?');
      const more = (extra: string) => `${place}?${query === undefined ? '' : `${query}&`}${extra}`;
      for (const extra of [
        'unknown=1',
        'audience=ana',
        'scope=all',
        '__proto__=1',
        'organization=other&organization=acme',
      ]) {
        yield [extra, { path: more(extra) }];
      }
      if (query !== undefined) {
        yield ['no query', { path: place }];
        yield ['an empty value', { path: `${place}?organization=` }];
        yield ['a NUL', { path: `${place}?organization=a%00` }];
        yield ['no UTF-8', { path: `${place}?organization=%FF` }];
      }
    }));

  test('an idempotency key that is missing or no key', () =>
    refusesAll(function* ({ key, json }) {
      if (key === undefined) return;
      const type = { 'content-type': 'application/json' };
      yield ['no key', { headers: type, body: JSON.stringify(json), key: '' }, 'invalid_input'];
      for (const bad of ['a b', 'x'.repeat(201), 'a\tb', '\u00e9']) {
        yield [`the key ${bad.slice(0, 5)}`, { key: bad }, 'invalid_input'];
      }
    }));

  test('a method or a path that is no route', () =>
    refusesAll(function* ({ path }) {
      const [place = ''] = path.split('?');
      for (const other of [
        `${place}/`,
        `${place}/more`,
        `/${place}`,
        place.toUpperCase(),
        `${place}/..`,
      ]) {
        if (new URL(other, 'http://localhost').pathname === place) continue;
        yield [other, { path: other }];
      }
    }));
});

test('a method that a path does not have is no route', async () => {
  for (const { path, route, token } of requests) {
    for (const method of ['PATCH', 'OPTIONS', 'PROPFIND']) {
      expectRefusal(await gateway.send(method, path, { token }), `${method} ${route}`);
    }
  }
});

test('a line of NDJSON that is no fact ends the stream there, and says how many are in', async () => {
  const [request] = requests.filter(({ lines }) => lines !== undefined);
  if (request === undefined) throw new Error('no such route');
  const before = await contentOf(gateway.owner);
  for (const line of [
    '{',
    '[]',
    'null',
    '{"fact":"unknown"}',
    '{"fact":"user","id":"\\u0000","kind":"member"}',
    '{"fact":"user","id":"a","kind":"member","__proto__":{"kind":"bot"}}',
    '{"fact":"user","id":"\\ud800","kind":"member"}',
    '{"fact":"message","conversation":"thread","id":"m","body":"\\u0000","sentAt":"2026-01-01T00:00:00Z"}',
    '{"fact":"message","conversation":"nowhere","id":"m","body":"x","sentAt":"2026-01-01T00:00:00Z"}',
    '{"fact":"members","conversation":"thread","members":[{"user":"a","history":"all"},{"user":"a","history":"none"}]}',
    '{"fact":"project","id":"p","members":["nobody"]}',
  ]) {
    const answer = await sendSpoiled(request, {
      body: line,
      headers: { 'content-type': 'application/x-ndjson' },
    });
    expectRefusal(answer, line);
    expect((answer.body as { detail: string }).detail).toMatch(/^Line 1, after 0 that are in: /);
  }
  expect(await contentOf(gateway.owner)).toEqual(before);
});

test('each of those requests goes through when nothing is spoiled', async () => {
  for (const request of requests) {
    const answer = await sendSpoiled(request, {});
    const name = `${request.method} ${request.route}`;
    // By then the turn has ended by one of the others.
    const expected = request.route.endsWith('/lease') ? 'turn_not_running' : undefined;
    expect({ name, code: answer.code }).toEqual({ name, code: expected });
  }
});
