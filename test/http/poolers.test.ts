import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../gateway/config.ts';
import { openInstance, type Instance } from '../../gateway/instance.ts';
import { createKeys } from '../../gateway/keys.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { gatewayOf, ok, type TestGateway } from '../support/gateway.ts';
import { buildSides, expectOwn, TOOLS, type Side } from './gated-sides.ts';
import { noPgbouncer, startPgbouncer, type Pooler } from './pgbouncer.ts';

// The gateway behind a real PgBouncer in transaction mode: consecutive transactions of one client run in different
// sessions, and one session serves everybody in turn.

if (noPgbouncer !== undefined) console.warn(`Skipped: ${noPgbouncer}.`);

describe.skipIf(noPgbouncer !== undefined).each([1, 2])(
  'behind a pooler in transaction mode with %i connections to the server',
  (poolSize) => {
    let target: TestDatabase;
    let pooler: Pooler;
    let instance: Instance;
    let superuser: Database;
    let gateway: Omit<TestGateway, 'target'>;
    let sides: readonly Side[];
    let dataDir: string;

    beforeAll(async () => {
      target = await createTestDatabase();
      pooler = await startPgbouncer(target.gatewayUrl, poolSize);
      dataDir = await mkdtemp(join(tmpdir(), 'earshot-keys-'));
      await createKeys(dataDir);
      instance = await openInstance(
        readConfig({
          DATABASE_URL: pooler.url,
          EARSHOT_DATA_DIR: dataDir,
          EARSHOT_PREPARE_STATEMENTS: 'false',
          EARSHOT_POOL_SIZE: '10',
          EARSHOT_REQUESTS_PER_SECOND: '1000000',
          EARSHOT_REQUEST_TIMEOUT_MS: '120000',
        }),
      );
      superuser = openDatabase(target.superuserUrl, { max: 2 });
      gateway = await gatewayOf(instance, superuser.sql);
      sides = await buildSides(gateway);
    });
    afterAll(async () => {
      await instance.close();
      await superuser.close();
      await pooler.stop();
      await target.drop();
      await rm(dataDir, { recursive: true });
    });

    test('every audience gets its own rows, however many ask at once', async () => {
      const calls = Array.from({ length: 40 }, () => sides)
        .flat()
        .map((side, n) => ({ side, tool: TOOLS[(n * 7) % TOOLS.length] ?? TOOLS[0] }));
      const answers = await Promise.all(
        calls.map(({ side, tool: [name, args] }) => side.turn.tool<unknown>(name, args(side))),
      );
      calls.forEach(({ side, tool: [name] }, n) => {
        const answer = answers[n];
        expect(answer?.status).toBe(200);
        if (answer !== undefined) expectOwn(side, sides, name, answer);
      });
      expect(calls.length).toBe(240);
    });

    test('turns are opened, answers cleared and released through it, once each', async () => {
      const [, side] = sides as [Side, Side];
      await side.turn.search('bird');
      const delivery = ok(await side.turn.propose('It is a bird.'));
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => side.org.release(delivery)),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([
        200,
        ...Array.from({ length: 7 }, () => 409),
      ]);
    });

    test('what was just written is in the next answer, and what was removed is not', async () => {
      await Promise.all(
        sides.map(async (side) => {
          const message = `conversations/${side.source}/messages/passing`;
          const found = async () =>
            expectOwn(
              side,
              sides,
              'search',
              await side.turn.tool('search', { query: 'bird', limit: 100 }),
            );
          for (let round = 0; round < 12; round++) {
            const body = `bird ${String(round)} of ${side.canary}`;
            await side.org.say(side.source, 'ana', body);
            side.said.push(body);
            await found();
          }
          const passing = {
            author: { user: 'ana' },
            body: 'bird of passage',
            sentAt: new Date().toISOString(),
          };
          await side.org.put(message, passing);
          side.said.push(passing.body);
          await found();
          await side.org.remove(message);
          side.said.pop();
          await found();
        }),
      );
    });

    test('a grant whose audience has moved is refused at the next call, and only that one', async () => {
      const [moved, ...rest] = sides as [Side, ...Side[]];
      await moved.org.put(`conversations/${moved.thread}/members/dan`, { history: 'all' });
      const answers = await Promise.all(
        sides.map((side) => side.turn.tool('search', { query: 'bird', limit: 100 })),
      );
      expect(answers[0]?.code).toBe('audience_changed');
      rest.forEach((side, n) => {
        const answer = answers[n + 1];
        if (answer !== undefined) expectOwn(side, sides, 'search', answer);
      });
    });

    test('no session keeps a setting, a statement, a lock or a transaction', async () => {
      const through = openDatabase(pooler.url, { max: 8, prepare: false });
      try {
        const left = await Promise.all(
          Array.from(
            { length: 40 },
            () => through.sql<{ pid: number; setting: string | null; timeout: string }[]>`
              select pg_backend_pid() as pid, current_setting('statement_timeout') as timeout,
                nullif(concat(current_setting('earshot.organization', true),
                  current_setting('earshot.organization_name', true),
                  current_setting('earshot.grant_digest', true)), '') as setting`,
          ),
        );
        const rows = left.flat();
        expect(new Set(rows.map(({ setting }) => setting))).toEqual(new Set([null]));
        expect(new Set(rows.map(({ timeout }) => timeout))).toEqual(new Set(['30s']));
        expect(new Set(rows.map(({ pid }) => pid)).size).toBeLessThanOrEqual(poolSize);
        expect(await through.sql`select name from pg_prepared_statements`).toEqual([]);
        expect(await through.sql`select name from pg_cursors where name <> ''`).toEqual([]);
        expect(await through.sql`select from earshot.conversations`).toHaveLength(0);
      } finally {
        await through.close();
      }
      const [state] = await superuser.sql<{ sessions: number; open: number; locks: number }[]>`
        select count(*)::int as sessions, count(*) filter (where a.xact_start is not null)::int as open,
          (select count(*)::int from pg_locks l join pg_stat_activity b using (pid)
           where b.usename = 'earshot_gateway' and b.datname = current_database()) as locks
        from pg_stat_activity a where a.usename = 'earshot_gateway' and a.datname = current_database()`;
      expect(state).toMatchObject({ open: 0, locks: 0 });
      expect(state?.sessions).toBeGreaterThan(0);
      expect(state?.sessions).toBeLessThanOrEqual(poolSize);
    });
  },
);
