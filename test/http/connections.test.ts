import type { AddressInfo } from 'node:net';
import { serve, type ServerType } from '@hono/node-server';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestGateway, read, type TestGateway } from '../support/gateway.ts';
import type { Messages, TestOrganization, TestTurn } from '../support/organization.ts';

// Cases 17 and 24, over sockets.

interface Side {
  readonly org: TestOrganization;
  readonly turn: TestTurn;
  readonly canary: string;
}

/** Two audiences, each with a canary of its own; the requester is in both. */
async function sidesOf(gateway: TestGateway): Promise<Side[]> {
  const acme = await gateway.organization();
  const other = await gateway.organization();
  const sides: Side[] = [];
  for (const [org, thread, reader] of [
    [acme, 'thread-a', 'ben'],
    [acme, 'thread-b', 'cleo'],
    [other, 'thread-a', 'ben'],
  ] as const) {
    const canary = `canary${String(sides.length)}`;
    await org.users('ana', reader);
    await org.conversation(thread, ['ana', reader], { aiThread: true });
    await org.conversation(`source-${thread}`, ['ana', reader]);
    await org.say(`source-${thread}`, reader, `the bird is ${canary}`);
    await org.say(thread, 'ana', 'ask');
    const turn = await org.turn({ destination: thread, requester: 'ana', trigger: '1' });
    sides.push({ org, turn, canary });
  }
  return sides;
}

function served(gateway: TestGateway): Promise<{ url: string; server: ServerType }> {
  return new Promise((resolve) => {
    const server = serve(
      { fetch: gateway.app.fetch, port: 0, hostname: '127.0.0.1' },
      (address: AddressInfo) => {
        resolve({ url: `http://127.0.0.1:${String(address.port)}`, server });
      },
    );
  });
}

function call(url: string, { turn }: Side, tool: string, args: object, signal?: AbortSignal) {
  return fetch(`${url}/v1/tools/${tool}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${turn.grant.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(args),
    ...(signal !== undefined && { signal }),
  }).then(read);
}

describe('answers of many calls at once', () => {
  let gateway: TestGateway;
  let server: ServerType;
  let url: string;
  let sides: Side[];

  beforeAll(async () => {
    gateway = await openTestGateway();
    sides = await sidesOf(gateway);
    ({ url, server } = await served(gateway));
  });

  afterAll(async () => {
    server.close();
    await gateway.close();
  });

  test('hold the canary of their own audience and no other', async () => {
    const turns = Array.from({ length: 70 }, () => sides).flat();
    const calls = turns.map((side, index) => {
      const [tool, args] = [
        ['search', { query: 'bird', limit: 100 }],
        ['list_conversations', { limit: 100 }],
        ['read', { conversation: index % 2 ? 'source-thread-a' : 'source-thread-b' }],
      ][index % 7 === 0 ? 1 : index % 5 === 0 ? 2 : 0] as [string, object];
      return call(url, side, tool, args).then((answer) => ({ answer, side, tool }));
    });
    let seen = 0;
    for (const { answer, side, tool } of await Promise.all(calls)) {
      const text = JSON.stringify(answer.body);
      for (const { canary } of sides)
        if (canary !== side.canary) expect(text).not.toContain(canary);
      if (tool === 'search') {
        expect((answer.body as Messages).items.map((item) => item.text)).toEqual([
          `the bird is ${side.canary}`,
        ]);
        seen++;
      }
    }
    expect(seen).toBeGreaterThan(100);
  });
});

describe('a pool of one connection', () => {
  let gateway: TestGateway;
  let server: ServerType;
  let url: string;
  let sides: Side[];

  beforeAll(async () => {
    gateway = await openTestGateway({ POOL_SIZE: '1' });
    sides = await sidesOf(gateway);
    ({ url, server } = await served(gateway));
  });

  afterAll(async () => {
    server.close();
    await gateway.close();
  });

  test('serves nobody another one’s canary, however many requests are aborted, and keeps no setting and no lock', async () => {
    const [one, two, three] = sides as [Side, Side, Side];
    let aborted = 0;
    let finished = 0;
    for (let round = 0; round < 100; round++) {
      const doomed = Array.from({ length: 5 }, (_, index) => {
        const controller = new AbortController();
        const side = index % 2 ? one : three;
        const request = call(url, side, 'search', { query: 'bird' }, controller.signal).then(
          () => finished++,
          () => aborted++,
        );
        // Anywhere between before it was sent and after it was answered.
        setTimeout(() => controller.abort(), Math.random() * 60);
        return request;
      });
      const { body } = await call(url, two, 'search', { query: 'bird' });
      expect((body as Messages).items.map(({ text }) => text)).toEqual([
        `the bird is ${two.canary}`,
      ]);
      await Promise.all(doomed);
    }
    expect(aborted).toBeGreaterThan(20);
    expect(finished).toBeGreaterThan(20);

    const settings = await gateway.gateway.database.sql`
      select nullif(current_setting('earshot.organization', true), '') as organization,
        nullif(current_setting('earshot.grant_digest', true), '') as grant`;
    expect(settings).toEqual([{ organization: null, grant: null }]);
    const [left] = await gateway.owner<{ connections: string; open: string; locks: string }[]>`
      select count(*) as connections, count(*) filter (where a.xact_start is not null) as open,
        (select count(*) from pg_locks l join pg_stat_activity b using (pid)
         where b.usename = 'earshot_gateway' and b.datname = current_database()) as locks
      from pg_stat_activity a where a.usename = 'earshot_gateway' and a.datname = current_database()`;
    expect(left).toEqual({ connections: '1', open: '0', locks: '0' });
  });
});
