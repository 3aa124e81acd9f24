import type { AddressInfo } from 'node:net';
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { serve, type ServerType } from '@hono/node-server';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestGateway, read, type Answer, type TestGateway } from '../support/gateway.ts';
import type { Messages } from '../support/organization.ts';
import { pick } from '../worlds/world-generator.ts';
import { buildSides, expectOwn, TOOLS, type Side } from './gated-sides.ts';

// Requests that end before their answer, at random: the client goes away, or the server ends the statement. Whatever
// was answered is right and on record, and nothing of what was not is left.

const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));

/** Numbers from 0 up to a bound, the same for the same seed (mulberry32). */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below || 0;
  };
}

interface Answered {
  readonly side: Side;
  readonly tool: string;
  readonly body: Messages;
}

describe.each([
  [1, 320],
  [3, 120],
])('with a pool of %i', (poolSize, rounds) => {
  let gateway: TestGateway;
  let server: ServerType;
  let url: string;
  let sides: readonly Side[];
  const answered: Answered[] = [];

  beforeAll(async () => {
    gateway = await openTestGateway({
      POOL_SIZE: String(poolSize),
      REQUEST_TIMEOUT_MS: '120000',
      STATEMENT_TIMEOUT_MS: '60000',
    });
    sides = await buildSides(gateway);
    url = await new Promise((resolve) => {
      server = serve(
        { fetch: gateway.app.fetch, port: 0, hostname: '127.0.0.1' },
        ({ port }: AddressInfo) => resolve(`http://127.0.0.1:${String(port)}`),
      );
    });
  });
  afterAll(async () => {
    server.close();
    await gateway.close();
  });

  /** A call over a socket. An answer is checked and kept, a failure must say that it is one, a lost one is undefined. */
  async function call(side: Side, tool: string, args: object, signal?: AbortSignal) {
    let answer: Answer;
    try {
      answer = await fetch(`${url}/v1/tools/${tool}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${side.turn.grant.token}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify(args),
        ...(signal !== undefined && { signal }),
      }).then(read);
    } catch (error) {
      if (signal?.aborted === true) return undefined;
      throw error;
    }
    if (answer.status === 200) {
      expectOwn(side, sides, tool, answer);
      answered.push({ side, tool, body: answer.body as Messages });
    } else {
      expect([answer.status, answer.code]).toEqual([503, 'unavailable']);
    }
    return answer.status;
  }

  const anyCall = (random: (below: number) => number, signal?: AbortSignal) => {
    const side = pick(sides, Math.floor(random(sides.length)));
    const [tool, args] = pick<(typeof TOOLS)[number]>(TOOLS, Math.floor(random(TOOLS.length)));
    return call(side, tool, args(side), signal);
  };

  const busy = () => gateway.owner<{ pid: number }[]>`
    select pid from pg_stat_activity
    where usename = 'earshot_gateway' and datname = current_database() and state = 'active'`;

  /** Ends the statements that run at this moment, if any do. */
  const cancelRunning = () => gateway.owner`
    select pg_cancel_backend(pid) from pg_stat_activity
    where usename = 'earshot_gateway' and datname = current_database() and state = 'active'`;

  test('a hundred requests at once, of all audiences and tools, get each their own answer', async () => {
    const random = randomFrom(SEED);
    for (let round = 0; round < 3; round++) {
      const statuses = await Promise.all(Array.from({ length: 100 }, () => anyCall(random)));
      expect(new Set(statuses), `seed ${String(SEED)}`).toEqual(new Set([200]));
    }
  });

  test(
    'after clients that go away and statements that are cut off at random, every further answer is right',
    { timeout: 180_000 },
    async () => {
      const random = randomFrom(SEED);
      let [aborted, cut, whole] = [0, 0, 0];
      for (let round = 0; round < rounds; round++) {
        const ends: (() => unknown)[] = [];
        const calls = Array.from({ length: 4 }, () => {
          const controller = new AbortController();
          if (random(2) < 1) ends.push(() => controller.abort());
          return anyCall(random, controller.signal);
        });
        if (random(3) < 2) ends.push(cancelRunning);
        if (random(3) < 2) ends.push(cancelRunning);
        const ending = ends.map(async (end) => {
          // Anywhere between before it was sent and after it was answered.
          for (let turns = Math.floor(random(60)); turns > 0; turns--) await turnOfTheLoop();
          await end();
        });
        const statuses = await Promise.all(calls);
        await Promise.all(ending);
        aborted += statuses.filter((status) => status === undefined).length;
        cut += statuses.filter((status) => status === 503).length;
        whole += statuses.filter((status) => status === 200).length;
        // A cancellation that came late ends nothing later.
        expect(await anyCall(random), `seed ${String(SEED)}, round ${String(round)}`).toBe(200);
      }
      const counts = { aborted, cut, whole, seed: SEED };
      expect(aborted, JSON.stringify(counts)).toBeGreaterThan(rounds / 10);
      expect(cut, JSON.stringify(counts)).toBeGreaterThan(rounds / 60);
      expect(whole, JSON.stringify(counts)).toBeGreaterThan(rounds / 10);
    },
  );

  test('writers that are cut off are done or not done, and what an answer said was done is', async () => {
    const random = randomFrom(SEED + 1);
    const side = pick(sides, 0);
    let [done, cut] = [0, 0];
    for (let round = 0; round < 60; round++) {
      const id = `cut-${String(round)}`;
      const payload = `payload ${String(round)}`;
      const writing = gateway.send(
        'PUT',
        `/v1/organizations/${side.org.name}/conversations/thread-cleo/messages/${id}`,
        {
          token: gateway.tokens.ingest,
          json: { author: { user: 'ana' }, body: id, sentAt: new Date().toISOString() },
        },
      );
      const proposing = side.turn.propose(payload, { key: id });
      for (let turns = Math.floor(random(30)); turns > 0; turns--) await turnOfTheLoop();
      await cancelRunning();
      const [written, proposed] = [await writing, await proposing];
      const [row] = await gateway.owner<
        { messages: string; deliveries: string; decisions: string }[]
      >`
        select (select count(*) from earshot.messages where external_id = ${id}) as messages,
          count(d.id) as deliveries, count(x.id) as decisions
        from earshot.deliveries d left join earshot.decisions x
          on x.org_id = d.org_id and x.delivery_id = d.id and x.kind = 'propose'
        where d.idempotency_key = ${id}`;
      expect(row?.deliveries).toBe(row?.decisions);
      if (written.status === 200) expect(row?.messages).toBe('1');
      else expect(written.code).toBe('unavailable');
      if (proposed.status === 200) expect(row?.deliveries).toBe('1');
      else expect(proposed.code).toBe('unavailable');
      done += [written, proposed].filter(({ status }) => status === 200).length;
      cut += [written, proposed].filter(({ status }) => status !== 200).length;
    }
    expect(done, `seed ${String(SEED)}, ${String(cut)} cut`).toBeGreaterThan(20);
    const gaps = await gateway.owner`
      select conversation_id from earshot.messages group by org_id, conversation_id
      having max(seq) <> count(*)`;
    expect(gaps).toEqual([]);
  });

  test('nothing is left in a session: no setting, no lock, no transaction', async () => {
    while ((await busy()).length > 0) await turnOfTheLoop();
    const { database } = gateway.gateway;
    const sessions = await Promise.all(
      Array.from(
        { length: poolSize * 4 },
        () => database.sql<{ setting: string | null }[]>`
          select nullif(concat(current_setting('earshot.organization', true),
            current_setting('earshot.organization_name', true),
            current_setting('earshot.grant_digest', true)), '') as setting`,
      ),
    );
    expect(new Set(sessions.flat().map(({ setting }) => setting))).toEqual(new Set([null]));
    const [left] = await gateway.owner<{ sessions: number; open: number; locks: number }[]>`
      select count(*)::int as sessions, count(*) filter (where a.xact_start is not null)::int as open,
        (select count(*)::int from pg_locks l join pg_stat_activity b using (pid)
         where b.datname = current_database() and (b.usename = 'earshot_gateway' or l.locktype = 'advisory')) as locks
      from pg_stat_activity a where a.usename = 'earshot_gateway' and a.datname = current_database()`;
    expect(left).toMatchObject({ open: 0, locks: 0 });
    expect(left?.sessions).toBeLessThanOrEqual(poolSize);
  });

  test('every answer that was given is on record, and every row of it in its ledger', async () => {
    expect(answered.length).toBeGreaterThan(rounds);
    const decisions = await gateway.owner<
      { id: string; items: number; verdict: string; session: string }[]
    >`
      select id, items, verdict, session_id as session from earshot.decisions where kind = 'tool'`;
    const known = new Map(decisions.map((decision) => [decision.id, decision]));
    const entries = await gateway.owner<{ key: string }[]>`
      select concat_ws(' ', l.session_id, c.external_id, l.from_seq) as key
      from earshot.ledger_entries l
      join earshot.conversations c on c.org_id = l.org_id and c.id = l.conversation_id`;
    const ledger = new Set(entries.map(({ key }) => key));
    const missing: unknown[] = [];
    for (const { side, tool, body } of answered) {
      const decision = known.get(body.decision);
      const { sessionId } = side.turn.grant;
      if (
        decision?.verdict !== 'allowed' ||
        decision.session !== sessionId ||
        decision.items !== body.items.length
      ) {
        missing.push([tool, body.decision, decision]);
      }
      if (tool === 'list_conversations') continue;
      for (const { source } of body.items) {
        if (!ledger.has(`${sessionId} ${source.conversation} ${source.seq}`)) missing.push(source);
      }
    }
    expect(missing, `seed ${String(SEED)}`).toEqual([]);
    const [orphans] = await gateway.owner<{ n: string }[]>`
      select count(*) as n from earshot.ledger_entries l
      where not exists (select from earshot.decisions d where d.org_id = l.org_id and d.id = l.decision_id)`;
    expect(orphans?.n).toBe('0');
  });
});
