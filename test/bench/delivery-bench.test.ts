import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { scaled } from './dataset.ts';
import { measureDelivery } from './delivery-measurement.ts';
import { deliverySection } from './delivery-report.ts';
import { openBenchServer, type BenchDatabase, type BenchServer } from './server.ts';

/** As little as there can be, but with fifty messages that twenty people share. */
const TINY = { ...scaled(0.001), users: 400, memberships: 15_000, messages: 20_000 };
const EFFORT = {
  ...{ budgetMs: 0, minSamples: 1, warmUpRuns: 0, audiencesEach: 1 },
  ...{ queueLength: 12, batches: [5] },
};

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

test('the delivery bench proposes and releases for audiences and ledgers of each size, and two gateways empty one queue', async () => {
  const result = await measureDelivery(database, EFFORT, () => {});
  const sizes = result.answering.map(({ group, rows }) => `${group.size} ${rows}`);
  expect(sizes).toEqual(expect.arrayContaining(['2 1', '2 50', '20 50', '100 1']));
  expect(result.measured.filter(({ p50 }) => !(p50 > 0))).toEqual([]);
  expect(result.queue).toMatchObject([
    { gateways: 1, batch: 5, deliveries: 12, doubled: 0 },
    { gateways: 2, batch: 5, deliveries: 12, doubled: 0 },
  ]);

  const text = deliverySection(result, 'a machine', 'npm run bench delivery');
  expect(text).toContain('| squad20 | 20 | 50 |');
  expect(text).not.toMatch(/NaN|undefined|Infinity/);
}, 120_000);
