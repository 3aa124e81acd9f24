import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { readConfig } from '../../gateway/config.ts';
import { openInstance } from '../../gateway/instance.ts';

// A gateway, with an endpoint that takes what is queued: claims a batch, releases each, takes it for sent, reports it. It waits
// for a line, works until nothing is due, and tells which deliveries it was handed.

const [token = '', worker = '', batch = ''] = process.argv.slice(2);
const organization = 'bench';
/** Deliveries under way at once. */
const LANES = 8;

const instance = await openInstance(readConfig(process.env));

async function post<Body>(path: string, json: object): Promise<Body> {
  const response = await instance.app.request(`/v1/deliveries/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ organization, ...json }),
  });
  if (response.status !== 200) throw new Error(`${path}: ${await response.text()}`);
  return (await response.json()) as Body;
}

interface Claimed {
  readonly id: string;
  readonly fence: string;
  readonly clearance: string;
}

const claim = async () =>
  (await post<{ deliveries: Claimed[] }>('claim', { worker, limit: Number(batch) })).deliveries;

async function carry({ id, fence, clearance }: Claimed): Promise<void> {
  await post(`${id}/release`, { clearance, fence });
  handed.push(id);
  await post(`${id}/acknowledge`, { outcome: 'delivered', message: `sent ${id}`, fence });
}

const handed: string[] = [];
await claim();
console.log('ready');
await once(createInterface(process.stdin), 'line');
for (let claimed = await claim(); claimed.length > 0; claimed = await claim()) {
  const left = [...claimed];
  const lane = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await carry(next);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}
console.log(JSON.stringify(handed));
await instance.close();
process.exit();
