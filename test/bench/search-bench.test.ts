import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scaled } from './dataset.ts';
import { measureSearch } from './search-measurement.ts';
import { searchSection } from './search-report.ts';
import { openBenchServer, type BenchDatabase, type BenchServer } from './server.ts';

/** As little as there can be: 200 people, with something to read for each audience. */
const TINY = { ...scaled(0.001), memberships: 15_000, messages: 12_000 };
const EFFORT = { budgetMs: 0, minSamples: 1, warmUpRuns: 0, audiencesEach: 1 };

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

test(
  'the search bench finds what matches in the scope by Earshot, sees what filtering afterwards loses, and measures each way',
  { timeout: 120_000 },
  async () => {
    const result = await measureSearch(database, EFFORT, () => {});
    expect([...result.scopes.keys()].sort()).toEqual(['guest5', 'open1', 'pow5', 'squad5']);
    expect(result.sets).toHaveLength(12);
    expect(result.compared).toBeGreaterThan(30);
    expect(result.measured.filter(({ p50 }) => !(p50 > 0))).toEqual([]);
    const narrow = result.losses.filter(({ set }) => set.group.name === 'guest5');
    expect(Math.min(...narrow.map(({ recall10 }) => recall10))).toBeLessThan(0.9);

    const nothing = { recall: [], rankings: [], configurations: [], absent: ['LoCoMo'] };
    const { text, charts } = searchSection(result, nothing, 'a machine', 'npm run bench search');
    expect(text).toContain('| squad5, rare word |');
    expect(text).not.toMatch(/NaN|undefined|Infinity/);
    expect(charts['search-ways']).toMatch(/^<svg [^]*<\/svg>\n$/);
    expect(charts['search-ways']).not.toMatch(/NaN|undefined|Infinity/);
  },
);
