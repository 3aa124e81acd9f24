import { readFileSync } from 'node:fs';
import { createClient, type Client } from '../../client/client.ts';
import { keysAt } from '../../delivery/clearance-check.ts';
import { createEndpoint } from '../../delivery/endpoint.ts';
import type { Journal } from '../../delivery/journal.ts';
import { createWorker } from '../../delivery/queue-worker.ts';
import type { Carriage } from './carriage.ts';
import { openLineJournal } from './line-journal.ts';
import { messageOf } from './platform.ts';

// A process that carries deliveries, each up to its point, and then stands still, for a test to kill. It tells on its output which
// of them is there, and what it showed at the platform.

const carriages = JSON.parse(readFileSync(0, 'utf8')) as readonly Carriage[];
await Promise.all(carriages.map(carry));

async function carry(carriage: Carriage): Promise<void> {
  const { url, token, organization, clearance } = carriage;
  const standAt = async (point: string) => {
    if (point !== carriage.point) return;
    tell({ at: carriage.name });
    await new Promise(() => {});
  };
  const client = pausing(
    createClient({ baseUrl: url, token, timeoutMs: 60_000, retry: { tries: 1 } }),
    standAt,
  );
  const options = {
    ...{ client, organization, issuer: 'earshot', keys: keysAt(url) },
    journal: pausingJournal(openLineJournal(carriage.journal), standAt),
    async send({ deliveryId, payload }: { deliveryId: string; payload: string }) {
      tell({ shown: { deliveryId, payload } });
      await standAt('shown');
      return { outcome: 'delivered' as const, message: messageOf(deliveryId) };
    },
  };
  if (clearance === undefined) {
    await createWorker({ ...options, worker: 'gone', leaseSeconds: 600 }).once();
  } else {
    await createEndpoint(options).deliver({ clearance });
  }
}

type StandAt = (point: string) => Promise<void>;

function pausing(client: Client, standAt: StandAt): Client {
  const then = async <Answer>(answer: Promise<Answer>, point: string) => {
    const answered = await answer;
    await standAt(point);
    return answered;
  };
  return {
    ...client,
    claimDeliveries: (...args) => then(client.claimDeliveries(...args), 'claimed'),
    releaseDelivery: (...args) => then(client.releaseDelivery(...args), 'released'),
    acknowledgeDelivery: (...args) => then(client.acknowledgeDelivery(...args), 'acknowledged'),
  };
}

function pausingJournal(journal: Journal, standAt: StandAt): Journal {
  return {
    ...journal,
    async read(deliveryId) {
      await standAt('asked');
      return journal.read(deliveryId);
    },
    async write(entry) {
      await journal.write(entry);
      await standAt(entry.state);
    },
    async remove(deliveryId) {
      await journal.remove(deliveryId);
      await standAt('removed');
    },
  };
}

/** Pipes are written at once, so what was told was told, whatever comes. */
function tell(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
