import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { OutgoingMessage } from '../../delivery/carrier.ts';
import type { Platform } from './platform.ts';

/** The steps of an endpoint, in order: it stands still once each is taken. A worker's begin with a claim. */
export const CARRIER_POINTS = [
  ...(['claimed', 'asked', 'releasing', 'released', 'sending'] as const),
  ...(['shown', 'sent', 'acknowledged', 'removed'] as const),
];

/** Requests that are under way: the database stops them, at their locks. */
export const REQUESTS_UNDER_WAY = ['release', 'acknowledge'] as const;

export type CarrierPoint = (typeof CARRIER_POINTS)[number] | (typeof REQUESTS_UNDER_WAY)[number];

/** A delivery for a process to carry up to a point. */
export interface Carriage {
  readonly name: string;
  readonly point: CarrierPoint;
  readonly url: string;
  readonly token: string;
  readonly organization: string;
  /** Where its journal is kept. */
  readonly journal: string;
  /** Of a delivery that is not queued. */
  readonly clearance?: string | undefined;
}

interface Told {
  readonly at?: string;
  readonly shown?: Pick<OutgoingMessage, 'deliveryId' | 'payload'>;
}

/** A process that stands still with each of its deliveries at its point. */
export interface CarrierProcess {
  /** Kills it. What it told before is heard to the end. */
  kill(): Promise<void>;
}

/** Starts a process, and waits until all is where it is to be; `untilStopped` waits for what the database stops. */
export async function startCarrier(
  carriages: readonly Carriage[],
  platform: Platform,
  untilStopped: () => Promise<void>,
): Promise<CarrierProcess> {
  const script = fileURLToPath(new URL('carrier-process.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(JSON.stringify(carriages));
  const lines = createInterface(child.stdout);
  const underWay: readonly CarrierPoint[] = REQUESTS_UNDER_WAY;
  const awaited = new Set(
    carriages.filter(({ point }) => !underWay.includes(point)).map(({ name }) => name),
  );
  const standing = new Promise<void>((resolve, reject) => {
    lines.on('line', (line) => {
      const { at, shown } = JSON.parse(line) as Told;
      if (shown !== undefined) platform.show(shown);
      if (at !== undefined) awaited.delete(at);
      if (awaited.size === 0) resolve();
    });
    child.once('exit', () => {
      reject(new Error(`It ended before ${[...awaited].join(', ')}.`));
    });
  });
  await standing;
  await untilStopped();
  return {
    async kill() {
      const heard = once(lines, 'close');
      child.kill('SIGKILL');
      await heard;
    },
  };
}
