import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scaled } from './dataset.ts';
import { openBenchServer, type BenchDatabase, type BenchServer } from './server.ts';
import { measureSessions } from './session-measurement.ts';
import { sessionSection } from './session-report.ts';

/** As little as there can be, and logs that are longer than a page and shorter than one. */
const TINY = { ...scaled(0.001), memberships: 15_000, messages: 4_000 };
const EFFORT = { budgetMs: 0, minSamples: 1, warmUpRuns: 0, lengths: [60, 120] };

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

test('the session bench fills logs of each length and use, finds what was appended by every call, and measures each', async () => {
  const result = await measureSessions(database, EFFORT, () => {});
  expect(result.logs.map(({ length, use }) => [length, use])).toEqual([
    [60, 'unused'],
    [60, 'one in a hundred'],
    [60, 'every block'],
    [120, 'unused'],
    [120, 'one in a hundred'],
    [120, 'every block'],
  ]);
  expect(result.logs.map(({ restricted }) => restricted)).toEqual([0, 1, 70, 0, 1, 140]);
  expect(result.compared).toBe(6 * 7);
  expect(result.measured.filter(({ p50 }) => !(p50 > 0))).toEqual([]);

  const text = sessionSection(result, 'a machine', 'npm run bench sessions');
  expect(text).toContain('### A log of 120 entries');
  expect(text).toMatch(/^\| compile \| [\d.]+ \|/m);
  expect(text).not.toMatch(/NaN|undefined|Infinity/);
}, 120_000);
