import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { readConfig } from '../../gateway/config.ts';
import { createKeys, openKeys } from '../../gateway/keys.ts';
import { keyFile } from '../../gateway/keys/key-file.ts';
import { signCaller } from '../../gateway/tokens/caller-token.ts';
import { addClient } from '../../sql/clients.ts';
import { fillQueue, type Answering } from './delivery-cases.ts';
import type { BenchDatabase } from './server.ts';

/** What so many gateways made of one queue. */
export interface QueueRun {
  readonly gateways: number;
  readonly batch: number;
  readonly deliveries: number;
  readonly seconds: number;
  /** Handed out more than once: each counts as nothing done. */
  readonly doubled: number;
  readonly perSecond: number;
}

const SCRIPT = fileURLToPath(new URL('delivery-gateway.ts', import.meta.url));
const ENDPOINT = 'bench-endpoint';

/** Lets one gateway and then two, each a process, take a queue that was filled before: claim, release and report all of it. */
export async function measureQueue(
  database: BenchDatabase,
  answering: Answering,
  deliveries: number,
  batches: readonly number[],
): Promise<QueueRun[]> {
  const dataDir = await mkdtemp(join(tmpdir(), 'earshot-bench-keys-'));
  try {
    await createKeys(dataDir);
    const env = {
      PATH: process.env.PATH ?? '',
      DATABASE_URL: database.gatewayUrl,
      EARSHOT_DATA_DIR: dataDir,
      EARSHOT_REQUESTS_PER_SECOND: '1000000',
    };
    const keys = await openKeys(keyFile(dataDir));
    const [organizations, personas] = [['*'], ['*']];
    await addClient(database.superuser, {
      ...{ id: ENDPOINT, scopes: ['deliver'], organizations, personas },
    });
    const token = await signCaller(keys, readConfig(env).issuer, ENDPOINT, 3_600);
    const runs: QueueRun[] = [];
    for (const batch of batches) {
      for (const gateways of [1, 2]) {
        const started: Endpoint[] = [];
        for (let nth = 0; nth < gateways; nth++)
          started.push(await startEndpoint([token, `gateway-${nth}`, batch.toString()], env));
        const ids = await fillQueue(database, answering, deliveries);
        runs.push({ gateways, batch, ...(await emptied(database, started, ids)) });
      }
    }
    return runs;
  } finally {
    await rm(dataDir, { recursive: true });
  }
}

interface Endpoint {
  /** Works until nothing is due; gives what it was handed. */
  readonly work: () => Promise<string[]>;
}

async function startEndpoint(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Endpoint> {
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), SCRIPT, ...args], {
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface(child.stdout);
  const line = async () => {
    const [text] = (await Promise.race([once(lines, 'line'), once(child, 'exit')])) as [unknown];
    if (typeof text !== 'string') throw new Error('A gateway of the bench has ended.');
    return text;
  };
  await line();
  return {
    async work() {
      child.stdin.write('go\n');
      return JSON.parse(await line()) as string[];
    },
  };
}

/** Measures from the start until the last one has nothing left, and asks what came of it. */
async function emptied(
  { superuser: { sql } }: BenchDatabase,
  endpoints: readonly Endpoint[],
  ids: readonly string[],
): Promise<Pick<QueueRun, 'deliveries' | 'seconds' | 'doubled' | 'perSecond'>> {
  const began = performance.now();
  const handed = (await Promise.all(endpoints.map(({ work }) => work()))).flat();
  const seconds = (performance.now() - began) / 1000;
  const [row] = await sql<{ n: number }[]>`
    select count(*)::integer as n from earshot.deliveries
    where org_id = 1 and id = any (${[...ids]}::uuid[]) and status = 'delivered'`;
  if (row?.n !== ids.length) throw new Error(`${row?.n} of ${ids.length} are delivered.`);
  const times = new Map<string, number>();
  for (const id of handed) times.set(id, (times.get(id) ?? 0) + 1);
  const once = ids.filter((id) => times.get(id) === 1).length;
  return {
    ...{ deliveries: ids.length, seconds },
    ...{ doubled: ids.length - once, perSecond: once / seconds },
  };
}
