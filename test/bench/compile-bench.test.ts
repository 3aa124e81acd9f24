import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { measureCompile } from './compile-measurement.ts';
import { compileSection, keptOf } from './compile-report.ts';
import { scaled } from './dataset.ts';
import { openBenchServer, type BenchDatabase, type BenchServer } from './server.ts';

/** As little as there can be; logs with a summary of summaries and without, and turns enough for a retrieval that is unchanged. */
const TINY = { ...scaled(0.001), memberships: 15_000, messages: 4_000 };
const EFFORT = { budgetMs: 0, minSamples: 1, warmUpRuns: 0, lengths: [120, 660], turns: 8 };

let dataDir: string;
let server: BenchServer;
let database: BenchDatabase;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'earshot-bench-'));
  const migrations = new URL('../../sql/migrations/', import.meta.url);
  server = await openBenchServer({ databaseUrl: undefined, dataDir, migrations }, () => {});
  database = await server.open(TINY);
}, 120_000);

afterAll(async () => {
  await database.close();
  await server.close();
  await rm(dataDir, { recursive: true });
});

test('the compile bench finds stored injections kept in the next request and placed ones not, and measures each step of a compile', async () => {
  const result = await measureCompile(database, EFFORT, () => {});
  const [stored, placed] = result.conversations;
  expect(stored?.requests).toHaveLength(8);
  expect(stored?.unchanged).toBe(9);
  expect(stored && keptOf(stored)).toMatchObject({ p50: 1, least: 1, total: 1 });
  expect(placed && keptOf(placed).p50).toBeLessThan(1);

  expect(result.logs.map(({ length, summaries }) => [length, summaries])).toEqual([
    [120, { first: 1, second: 0 }],
    [660, { first: 10, second: 1 }],
  ]);
  expect(result.logs.map(({ stats }) => stats.summaries)).toEqual([1, 1]);
  expect(result.compared).toBe(4);
  expect([...result.rounds].filter(([, times]) => !times.every((took) => took > 0))).toEqual([]);

  const text = compileSection(result, 'a machine', 'npm run bench compile');
  expect(text).toMatch(/^\| record what is sent \| [\d.]+ \|/m);
  expect(text).not.toMatch(/NaN|undefined|Infinity/);
}, 120_000);
