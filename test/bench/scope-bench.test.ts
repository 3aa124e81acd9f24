import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { findAudiences } from './audiences.ts';
import { scaled } from './dataset.ts';
import { nestedPlans, nodesOf } from './plans.ts';
import { startTurn } from './running-turn.ts';
import { measureInProcess, measureScope } from './scope-measurement.ts';
import { scopeSection } from './scope-report.ts';
import { openBenchServer, type BenchDatabase, type BenchServer } from './server.ts';

/** As little as there can be: 200 people, and every kind of audience but the largest. */
const TINY = { ...scaled(0.001), memberships: 15_000, messages: 4_000 };
const EFFORT = { budgetMs: 0, minSamples: 1, warmUpRuns: 0, audiencesEach: 1 };

let server: BenchServer;
let database: BenchDatabase;

beforeAll(async () => {
  server = await openBenchServer(
    {
      databaseUrl: inject('testServer').superuserUrl,
      dataDir: '',
      migrations: new URL('../../sql/migrations/', import.meta.url),
    },
    () => {},
  );
  database = await server.open(TINY);
});

afterAll(async () => {
  await database.close();
  await server.drop(TINY);
  await server.close();
});

describe('the scope bench', () => {
  test(
    'gives the same scope by every shape and engine, and measures each',
    { timeout: 120_000 },
    async () => {
      const result = await measureScope(database, { ...EFFORT, largestAudience: 50 }, () => {});
      const engines = await measureInProcess(
        server,
        database,
        { ...EFFORT, largestAudience: 5 },
        () => {},
      );
      expect(result.compared).toBeGreaterThan(50);
      expect(engines.compared).toBeGreaterThan(8);
      expect([...result.measured, ...engines.measured].filter(({ p50 }) => !(p50 > 0))).toEqual([]);
      // The data has what the questions are about: something in common, and something that is not.
      const found = (name: string) => result.found.get(name)?.[0];
      expect(found('squad5')).toBeGreaterThan(30);
      expect(found('pow5')).toBeGreaterThan(found('squad5') ?? 0);
      expect(found('team20')).toBeLessThan(15);

      const { text, charts } = scopeSection(
        result,
        engines,
        [],
        'a machine',
        'npm run bench scope',
      );
      expect(text).toContain('| Earshot |');
      expect(text).not.toMatch(/NaN|undefined|Infinity/);
      expect(charts['scope-shapes']).toMatch(/^<svg [^]*<\/svg>\n$/);
      expect(charts['scope-shapes']).not.toMatch(/NaN|undefined|Infinity/);
    },
  );
});

describe('a mention', () => {
  /** How many rows of memberships each node of the last call's plans read, by its condition. */
  async function membershipRows(name: string) {
    const groups = await findAudiences(database, { audiencesEach: 1 });
    const audience = groups.flatMap(({ audiences }) => audiences).find((one) => one.name === name);
    if (audience === undefined) throw new Error(`There is no audience ${name}.`);
    const { digest } = await startTurn(database.gateway, audience);
    const call = `select * from earshot.call_tool('\\x${Buffer.from(digest).toString('hex')}', 'list_conversations',
      '{"limit": "10"}', '\\x00')`;
    const plans = await nestedPlans(database.superuserUrl, Array(7).fill(call) as string[]);
    return plans
      .flatMap(({ plan }) => nodesOf(plan))
      .filter((node) => node['Relation Name'] === 'memberships' && (node['Actual Loops'] ?? 0) > 0)
      .map((node) => ({
        index: node['Index Cond'] ?? '',
        rows: (node['Actual Rows'] ?? 0) * (node['Actual Loops'] ?? 0),
      }));
  }
  const total = (nodes: readonly { rows: number }[]) =>
    nodes.reduce((sum, { rows }) => sum + rows, 0);

  test('reads no membership but those of its own conversation', async () => {
    const nodes = await membershipRows('mention-squad20-1');
    expect(nodes).not.toEqual([]);
    expect(nodes.filter(({ index }) => !index.includes('conversation_id'))).toEqual([]);
    // Its 20 readers, and at most the requester once more.
    expect(total(nodes)).toBeGreaterThanOrEqual(20);
    expect(total(nodes)).toBeLessThanOrEqual(21);
  });

  test('of the same people in a thread reads more, so that the plan would show it', async () => {
    expect(total(await membershipRows('squad20-1'))).toBeGreaterThan(100);
  });
});
