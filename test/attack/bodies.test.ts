import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import { serve, type ServerType } from '@hono/node-server';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestGateway, read, type TestGateway } from '../support/gateway.ts';

// A body is within the limit and is UTF-8, or nothing of it is looked at, however its length is told.

const MOST = 4096;
const SEARCH = '/v1/tools/search';
const SOUND = '{"query":"canary"}';
const HUGE = `{"query":"${'x'.repeat(10_000)}"}`;
const BROKEN = Buffer.concat([
  Buffer.from('{"query":"'),
  Buffer.from([0xff, 0xfe, 0xc0, 0x80]),
  Buffer.from('"}'),
]);

let gateway: TestGateway;
let server: ServerType;
let token: string;

beforeAll(async () => {
  gateway = await openTestGateway({ MAX_BODY_BYTES: MOST.toString() });
  const acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'which canary');
  const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  ({ token } = turn.grant);
  server = serve({ fetch: gateway.app.fetch, port: 0, hostname: '127.0.0.1' });
  await once(server, 'listening');
});
afterAll(async () => {
  server.close();
  await gateway.close();
});

/** Sends bytes as they are and gives the status and what follows the headers. */
async function sent(
  method: string,
  path: string,
  headers: readonly string[],
  body: string | Buffer = '',
  then: 'wait' | 'leave' = 'wait',
): Promise<string> {
  const head = [
    ...[`${method} ${path} HTTP/1.1`, 'host: gateway', 'connection: close'],
    ...['content-type: application/json', `authorization: Bearer ${token}`, ...headers],
  ];
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.write(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), Buffer.from(body)]));
  if (then === 'leave') socket.end();
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of socket) chunks.push(chunk as Buffer);
  } catch (error) {
    // A server that refuses a request before it has read it all may reset the connection.
    if (chunks.length === 0) throw error;
  }
  const text = Buffer.concat(chunks).toString();
  const status = text.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length);
  return `${status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? ''}`.trim();
}

const length = (body: string | Buffer) => `content-length: ${Buffer.byteLength(body).toString()}`;
const chunked = (body: string | Buffer) =>
  Buffer.concat([
    Buffer.from(`${Buffer.byteLength(body).toString(16)}\r\n`),
    Buffer.from(body),
    Buffer.from('\r\n0\r\n\r\n'),
  ]);
const CHUNKS = 'transfer-encoding: chunked';

describe('over a socket', () => {
  test('a body within the limit is read, whether its length is told or it comes in chunks', async () => {
    expect(await sent('POST', SEARCH, [length(SOUND)], SOUND)).toBe('200');
    expect(await sent('POST', SEARCH, [CHUNKS], chunked(SOUND))).toBe('200');
  });

  test('a body beyond the limit is too large, whether its length is told or it comes in chunks', async () => {
    expect(await sent('POST', SEARCH, [length(HUGE)], HUGE)).toBe('413 too_large');
    expect(await sent('POST', SEARCH, [CHUNKS], chunked(HUGE))).toBe('413 too_large');
  });

  test('a body that is not UTF-8 is refused in either way', async () => {
    expect(await sent('POST', SEARCH, [length(BROKEN)], BROKEN)).toBe('400 invalid_input');
    expect(await sent('POST', SEARCH, [CHUNKS], chunked(BROKEN))).toBe('400 invalid_input');
  });

  test.each([
    ['as hexadecimal', ['content-length: 0x12']],
    ['as nothing', ['content-length:']],
    ['below zero', ['content-length: -1']],
    ['with a sign', ['content-length: +18']],
    ['as a power', ['content-length: 1e1']],
    ['as a list', ['content-length: 18, 18']],
    ['twice', ['content-length: 18', 'content-length: 3']],
    ['beside chunks', ['content-length: 18', CHUNKS]],
  ])('a length that is told %s is no request', async (_how, headers) => {
    for (const body of [SOUND, HUGE, chunked(HUGE)]) {
      expect(await sent('POST', SEARCH, headers, body)).toBe('400');
    }
  });

  test('a body that ends before its length is no request', async () => {
    const answer = await sent('POST', SEARCH, ['content-length: 4000'], SOUND, 'leave');
    expect(answer).toMatch(/^(400.*)?$/);
  });

  test.each(['GET', 'HEAD'])('a body of %s is not looked at', async (method) => {
    for (const body of ['', SOUND, HUGE, BROKEN]) {
      expect(await sent(method, '/v1/tools', [length(body)], body)).toBe('200');
    }
  });
});

describe('embedded, where no server counts', () => {
  const asked = async (body: Blob | ReadableStream) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body, duplex: 'half' as const };
    const { status, code = '' } = await read(await gateway.app.request(SEARCH, init));
    return `${status.toString()} ${code}`.trim();
  };
  const whole = (body: string | Buffer) => new Blob([Buffer.from(body)]);
  const streamed = (body: string | Buffer) => whole(body).stream();

  test('the limit and the encoding are held to as well', async () => {
    for (const shape of [whole, streamed]) {
      expect(await asked(shape(SOUND))).toBe('200');
      expect(await asked(shape(HUGE))).toBe('413 too_large');
      expect(await asked(shape(BROKEN))).toBe('400 invalid_input');
    }
  });
});
