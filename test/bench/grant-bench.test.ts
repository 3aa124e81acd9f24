import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { scaled } from './dataset.ts';
import { measureGrant } from './grant-measurement.ts';
import { grantSection } from './grant-report.ts';
import { openBenchServer, type BenchDatabase, type BenchServer } from './server.ts';

/** As little as there can be, but with two hundred people to ask together. */
const TINY = { ...scaled(0.001), users: 400, memberships: 15_000, messages: 4_000 };
const EFFORT = { budgetMs: 0, minSamples: 1, warmUpRuns: 0, audiencesEach: 1 };

let server: BenchServer;
let database: BenchDatabase;

beforeAll(async () => {
  const databaseUrl = inject('testServer').superuserUrl;
  const migrations = new URL('../../sql/migrations/', import.meta.url);
  server = await openBenchServer({ databaseUrl, dataDir: '', migrations }, () => {});
  database = await server.open(TINY);
}, 120_000);

afterAll(async () => {
  await database.close();
  await server.drop(TINY);
  await server.close();
});

test('the grant bench checks, introspects and mints for audiences of each size, and measures each', async () => {
  const result = await measureGrant(database, EFFORT, () => {});
  const names = result.groups.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['uni2', 'uni20', 'uni200', 'squad20']));
  expect(result.compared).toBe(names.length);
  expect(result.measured.filter(({ p50 }) => !(p50 > 0))).toEqual([]);

  const text = grantSection(result, 'a machine', 'npm run bench grant');
  expect(text).toContain('| uni200 | 200 |');
  expect(text).not.toMatch(/NaN|undefined|Infinity/);
}, 120_000);
