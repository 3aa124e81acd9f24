import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { compileSettings } from '../../sessions/compile/compile-settings.ts';
import { createApp } from '../../gateway/app.ts';
import { readConfig } from '../../gateway/config.ts';
import { createKeys, openKeys } from '../../gateway/keys.ts';
import { keyFile } from '../../gateway/keys/key-file.ts';
import { signGrant, verifyGrant } from '../../gateway/tokens/grant-token.ts';
import type { Database } from '../../sql/database.ts';
import { audienceAt } from './audiences.ts';
import { turnAt, type Asking } from './grant-cases.ts';
import type { Case } from './measurement.ts';
import type { BenchDatabase } from './server.ts';

export const SIGN = 'sign a grant token';
export const VERIFY = 'verify a grant token';
export const PLAIN_HTTP = 'Hono with a `select 1`';
export const TOOL_HTTP = 'a read over HTTP';
/** Of the same requests: what is left without the time from its statement’s start to its answer. */
export const TOOL_OVERHEAD = 'a read over HTTP, its statement apart';

/** Cases over HTTP on the loopback, one kept connection each, and the way to end them. */
export interface HttpCases {
  readonly cases: readonly Case[];
  close(): Promise<void>;
}

/** The gateway with keys of its own beside the plainest Hono over the same driver. */
export async function openHttpCases(database: BenchDatabase, asking: Asking): Promise<HttpCases> {
  const { gateway } = database;
  const dataDir = await mkdtemp(join(tmpdir(), 'earshot-bench-keys-'));
  await createKeys(dataDir);
  const keys = await openKeys(keyFile(dataDir));
  const config = readConfig({
    EARSHOT_DATA_DIR: dataDir,
    EARSHOT_GRANT_SECONDS: '3600',
    EARSHOT_REQUESTS_PER_SECOND: '1000000',
  });
  const limits = { clockToleranceSeconds: config.clockToleranceSeconds, maxLifetimeSeconds: 3_600 };
  const tokens = await Promise.all(
    asking.turns.map(({ packet, jti }) => signGrant(keys, config.issuer, packet, jti)),
  );
  const tokenAt = (turn: number) => tokens[turn % tokens.length] ?? '';

  const plain = new Hono().get('/', async (context) => {
    const [row] = await gateway.sql`select 1 as one`;
    return context.json(row ?? {});
  });
  const { database: timed, takeMs } = timedDatabase(gateway);
  const ours = await listen(
    createApp({ database: timed, keys, config, issuers: new Map(), compiling: compileSettings() })
      .fetch,
  );
  const theirs = await listen(plain.fetch);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });

  const read = (turn: number) =>
    send(agent, ours.port, 'POST', '/v1/tools/read', {
      token: tokenAt(turn),
      body: JSON.stringify({ conversation: audienceAt(asking.group, turn).name, limit: 10 }),
    });

  return {
    cases: [
      {
        name: SIGN,
        run: (turn) => {
          const { packet, jti } = turnAt(asking, turn);
          return signGrant(keys, config.issuer, packet, jti);
        },
      },
      { name: VERIFY, run: (turn) => verifyGrant(keys, config.issuer, tokenAt(turn), limits) },
      { name: PLAIN_HTTP, run: () => send(agent, theirs.port, 'GET', '/') },
      { name: TOOL_HTTP, run: read },
      {
        name: TOOL_OVERHEAD,
        async run(turn) {
          takeMs();
          const began = performance.now();
          await read(turn);
          return performance.now() - began - takeMs();
        },
      },
    ],
    async close() {
      agent.destroy();
      for (const { server } of [ours, theirs]) server.close();
      await rm(dataDir, { recursive: true });
    },
  };
}

/** A database that adds up how long the statements ran that were sent through it. */
function timedDatabase(database: Database): { database: Database; takeMs: () => number } {
  let spent = 0;
  const sql = new Proxy(database.sql, {
    apply(target, _this, args) {
      const statement = Reflect.apply(target, undefined, args) as Promise<unknown>;
      // A fragment is no statement.
      if (!(statement instanceof Promise)) return statement;
      const began = performance.now();
      const add = () => (spent += performance.now() - began);
      statement.then(add, add);
      return statement;
    },
  });
  return {
    database: { ...database, sql },
    takeMs() {
      const taken = spent;
      spent = 0;
      return taken;
    },
  };
}

function listen(
  fetch: Parameters<typeof serve>[0]['fetch'],
): Promise<{ server: Server; port: number }> {
  return new Promise((resolve) => {
    const server = serve({ fetch, hostname: '127.0.0.1', port: 0 }, (address: AddressInfo) =>
      resolve({ server, port: address.port }),
    ) as Server;
  });
}

function send(
  agent: Agent,
  port: number,
  method: string,
  path: string,
  { token = '', body = '' } = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(token !== '' && { authorization: `Bearer ${token}` }),
    };
    const sent = request({ agent, host: '127.0.0.1', port, method, path, headers }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => (text += chunk));
      answer.on('end', () => {
        if (answer.statusCode === 200) resolve(text);
        else reject(new Error(`${path} answered ${answer.statusCode}: ${text}`));
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
