import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createClient, type ClientOptions } from '../../client/client.ts';
import { problemReply, startFakeServer, type FakeServer, type Reply } from './fake-server.ts';

// What a server, a proxy, a token provider or somebody between them may do to a client.

const SEARCH = 'POST /v1/tools/search';
const VERSION = 'GET /v1';
const TURNS = 'POST /v1/turns';
const turn = {
  organization: 'acme',
  persona: 'assistant',
  destination: 'thread',
  requester: 'ana',
  trigger: { kind: 'schedule' },
} as const;
const sound: Reply = { status: 200, json: { name: 'earshot', version: '1' } };

let server: FakeServer;
let elsewhere: FakeServer;
beforeAll(async () => {
  server = await startFakeServer();
  elsewhere = await startFakeServer();
});
afterAll(() => Promise.all([server.close(), elsewhere.close()]));
beforeEach(() => {
  server.reset();
  elsewhere.reset();
});

function clientOf(options: Partial<ClientOptions> = {}) {
  return createClient({
    baseUrl: server.url,
    token: 'token',
    retry: { baseMs: 0 },
    random: () => 0,
    ...options,
  });
}

const never = () => new Promise<never>(() => {});

describe('a token', () => {
  test.each([301, 302, 303, 307, 308])('follows no redirect to another server: %i', async (to) => {
    const headers = { location: `${elsewhere.url}/v1/turns` };
    server.script(TURNS, { status: to, html: '', headers });
    elsewhere.script(TURNS, { status: 200, json: { turnId: 'x' } });
    expect(await clientOf().openTurn(turn)).toMatchObject({ code: 'foreign_answer', status: to });
    expect(server.asked()).toEqual([TURNS]);
    expect(elsewhere.asked()).toEqual([]);
  });

  test('is asked for anew by each try', async () => {
    const tokens = ['one', 'two', 'three'];
    server.script(TURNS, problemReply(503, 'unavailable', { recovery: 'retry' }));
    await clientOf({ token: () => tokens.shift() ?? '' }).openTurn(turn);
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer one',
      'Bearer two',
      'Bearer three',
    ]);
  });

  test.each(['', ' ', 'eyJ…', 'two words', 'line\nbreak', 'nul\0'])(
    'that no header can carry is none, and nothing is sent: %j',
    async (token) => {
      expect(await clientOf({ token }).openTurn(turn)).toMatchObject({ code: 'no_token' });
      expect(server.asked()).toEqual([]);
    },
  );

  test('may end with the line that its file ends with', async () => {
    await clientOf({ token: 'token\n' }).openTurn(turn);
    expect(server.requests[0]?.headers.authorization).toBe('Bearer token');
  });

  test('that does not come is not waited for beyond the time of a try', async () => {
    const client = clientOf({ token: never, timeoutMs: 1 });
    expect(await client.openTurn(turn)).toMatchObject({ code: 'timed_out', recovery: 'retry' });
    expect(server.asked()).toEqual([]);
  });

  test('that comes when the caller has left is not sent', async () => {
    const leaving = new AbortController();
    let give = (_: string): void => {};
    const token = () => new Promise<string>((resolve) => (give = resolve));
    const refused = clientOf({ token }).openTurn(turn, { signal: leaving.signal });
    leaving.abort();
    expect(await refused).toMatchObject({ code: 'aborted', recovery: 'stop' });
    give('token');
    await clientOf().version();
    expect(server.asked()).toEqual([VERSION]);
  });
});

describe('a caller that leaves', () => {
  test('between two tries is told so, and there is no further try', async () => {
    const leaving = new AbortController();
    server.script(VERSION, problemReply(503, 'unavailable', { recovery: 'retry' }));
    const clock = {
      now: () => 0,
      wait: () => {
        leaving.abort();
        return Promise.resolve();
      },
    };
    const refused = await clientOf({ clock }).version({ signal: leaving.signal });
    expect(refused).toMatchObject({ code: 'aborted', recovery: 'stop' });
    expect(server.asked()).toEqual([VERSION]);
  });

  test('or whose time is over is answered by a fetch that does not look at its signal as well', async () => {
    const leaving = new AbortController();
    const refused = clientOf({ fetch: never }).version({ signal: leaving.signal });
    leaving.abort();
    expect(await refused).toMatchObject({ code: 'aborted' });
    const late = clientOf({ fetch: never, timeoutMs: 1 }).version({ retry: false });
    expect(await late).toMatchObject({ code: 'timed_out' });
  });
});

describe('an answer', () => {
  test.each([
    [200, 'malformed_answer'],
    [500, 'foreign_answer'],
  ])('that has no end is read no further than the longest page: %i', async (status, code) => {
    const megabyte = new Uint8Array(1024 * 1024).fill(0x20);
    let given = 0;
    let isLeft = false;
    const endless = () =>
      new ReadableStream<Uint8Array<ArrayBuffer>>({
        pull(stream) {
          given++;
          stream.enqueue(megabyte);
        },
        cancel() {
          isLeft = true;
        },
      });
    const fetch = () => Promise.resolve(new Response(endless(), { status }));
    const refused = await clientOf({ fetch }).version({ retry: false });
    expect(refused).toMatchObject({ ok: false, code, status });
    expect(isLeft).toBe(true);
    expect(given).toBeLessThan(70);
  });

  test.each([
    ['{"__proto__":{"name":"earshot","version":"1"}}', 200, 'malformed_answer'],
    ['{"constructor":{"prototype":{"name":"earshot"}}}', 200, 'malformed_answer'],
    ['{"name":"earshot","name":7,"version":"1"}', 200, 'malformed_answer'],
    ['{"__proto__":{"code":"not_found"}}', 404, 'foreign_answer'],
    ['{"code":"__proto__"}', 409, 'unknown_code'],
    ['{"code":"constructor","recovery":"retry"}', 409, 'unknown_code'],
    ['[{"code":"not_found"}]', 404, 'foreign_answer'],
    ['"not_found"', 404, 'foreign_answer'],
    ['null', 404, 'foreign_answer'],
    ['', 404, 'foreign_answer'],
    ['', 204, 'malformed_answer'],
  ])('is only what it has of its own: %s', async (html, status, code) => {
    server.script(VERSION, { status, html });
    const refused = await clientOf().version({ retry: false });
    expect(refused).toMatchObject({ ok: false, from: 'client', code });
    expect(Object.keys(Object.prototype)).toEqual([]);
    expect('name' in {}).toBe(false);
  });

  test('whose recovery is a word of every object is the end', async () => {
    server.script(SEARCH, problemReply(409, 'conflict', { recovery: 'constructor' }));
    expect(await clientOf().search('grant', { query: 'x' })).toMatchObject({ recovery: 'stop' });
  });

  test('that asks for a wait of no length, or for one without end, is waited for as long as may be', async () => {
    const asked = async (after: string) => {
      server.reset();
      const busy = problemReply(503, 'unavailable', { recovery: 'retry' });
      server.script(VERSION, { ...busy, headers: { 'retry-after': after } });
      const waits: number[] = [];
      const wait = (ms: number) => Promise.resolve(void waits.push(ms));
      await clientOf({ clock: { now: () => 0, wait } }).version();
      return waits;
    };
    expect(await asked('Thu, 01 Jan 1970 00:00:00 GMT')).toEqual([0, 0]);
    expect(await asked('-5')).toHaveLength(2);
    expect(await asked('soon')).toEqual([0, 0]);
    expect(await asked('9'.repeat(400))).toEqual([]);
    expect(await asked('9'.repeat(15))).toEqual([]);
    expect(await asked('Fri, 31 Dec 9999 23:59:59 GMT')).toEqual([]);
  });
});

describe('the place of a gateway', () => {
  test.each([
    ['http://gateway.test', 'http://gateway.test'],
    ['HTTP://Gateway.Test:80/', 'http://gateway.test'],
    ['https://gateway.test/earshot//', 'https://gateway.test/earshot'],
  ])('has one spelling: %s', (baseUrl, spelled) => {
    expect(clientOf({ baseUrl }).server).toBe(spelled);
    expect(clientOf({ baseUrl: new URL(baseUrl) }).server).toBe(spelled);
  });

  test.each([
    'gateway.test:8787',
    '/v1',
    '',
    'file:///etc',
    'http://user:password@gateway.test',
    'http://gateway.test?tenant=acme',
    'http://gateway.test#v1',
  ])('is refused before anything is asked where it is none: %j', (baseUrl) => {
    expect(() => clientOf({ baseUrl })).toThrow(TypeError);
  });

  test('is not left by any id, whatever is in it', async () => {
    const id = '../..//elsewhere.test/\\@?#%2e';
    server.script(VERSION, sound);
    const client = clientOf();
    await client.showTurn({ organization: id, turnId: id });
    await client.releaseDelivery({ organization: id, deliveryId: id, clearance: 'x' });
    await client.callTool('grant', id, {}, { safeParse: () => ({}) } as never);
    for (const { route } of server.requests) {
      expect(route).toContain(encodeURIComponent(id));
    }
    expect(server.requests).toHaveLength(3);
  });
});
