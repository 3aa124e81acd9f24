import { createClient, type Client } from '../../client/client.ts';
import type { CarrierOptions } from '../../delivery/carrier.ts';
import { createEndpoint } from '../../delivery/endpoint.ts';
import type { Journal } from '../../delivery/journal.ts';
import { createWorker } from '../../delivery/queue-worker.ts';
import type { Delivery } from '../../client/answer-shape.ts';
import { sha256Hex } from '../../policy/canonical.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';
import type { CrashSite } from './crash-site.ts';
import { stepOf, type Path, type Statement } from './delivery-path.ts';
import type { Platform } from './platform.ts';

/** A turn of an organization of its own, and the delivery that it makes. */
export interface Place {
  readonly path: Path;
  /** The idempotency key of its proposal. */
  readonly key: string;
  readonly acme: TestOrganization;
  readonly turn: TestTurn;
}

export const DESTINATION = 'thread';
export const PAYLOAD = 'It sang.';

/** Ana and ben in a thread, and a turn there. */
export async function enterPlace({ arranger }: CrashSite, path: Path): Promise<Place> {
  const acme = await arranger.organization();
  await acme.users('ana', 'ben');
  await acme.conversation(DESTINATION, ['ana', 'ben'], { aiThread: true });
  await acme.say(DESTINATION, 'ana', 'which one');
  const turn = await acme.turn({ destination: DESTINATION, requester: 'ana', trigger: '1' });
  return { path, key: 'once', acme, turn };
}

/** Those through whose hands a delivery goes. */
export interface Hands {
  readonly site: CrashSite;
  readonly platform: Platform;
  readonly journal: Journal;
  /** Around each request that is a step. */
  readonly around?: (step: Statement, ask: () => Promise<Response>) => Promise<Response>;
  readonly beforeSending?: () => Promise<void>;
}

/** A delivery that came to its end. */
export interface Ended {
  readonly id: string;
  readonly delivery: Delivery;
  /** What was not answered, or answered with a refusal, in order. */
  readonly refusals: readonly string[];
}

/** More tries than any fault here takes. */
const MOST_ROUNDS = 200;

/**
 * Does with a delivery what its agent, its operator and its endpoint do, until it comes to an end: asks again what got no
 * answer, settles what was left open, and tries anew what failed. Where time has to pass, the row is moved instead.
 */
export async function carryToEnd(place: Place, hands: Hands, proposed?: string): Promise<Ended> {
  const { acme, turn, path } = place;
  const organization = acme.name;
  const { tokens } = hands.site.arranger;
  const refusals: string[] = [];
  const client = clientFor(tokens.deliver, hands, refusals);
  const operator = clientFor(tokens.operator, hands, refusals);
  const carrier = carrierOptions(place, hands, client);
  const endpoint = createEndpoint(carrier);
  const worker = createWorker({ ...carrier, client, worker: 'one', leaseSeconds: 600 });
  const reconcile = path === 'direct' ? endpoint.reconcile : worker.reconcile;
  const pass = (time: 'lease_expires_at' | 'not_before' | 'acknowledge_by') =>
    hands.site.owner`
      update earshot.deliveries set ${hands.site.owner(time)} = clock_timestamp() where id = ${id}`;

  let id = proposed ?? '';
  let clearance: string | undefined;
  for (let round = 0; round < MOST_ROUNDS; round++) {
    if (id === '' || (path === 'direct' && clearance === undefined)) {
      const answer = await client.propose(turn.grant.token, {
        destination: DESTINATION,
        payload: PAYLOAD,
        key: place.key,
        ...(path === 'queued' && { queue: true }),
        ...(path === 'approved' && { approval: true }),
      });
      if (!answer.ok) continue;
      id = answer.value.id;
      clearance = answer.value.clearance ?? '';
    }
    await reconcile();
    const shown = await client.showDelivery({ organization, deliveryId: id });
    if (!shown.ok) continue;
    const { status } = shown.value;
    switch (status) {
      case 'waiting':
        await operator.approveDelivery({
          ...{ organization, deliveryId: id, payloadSha256: sha256Hex(PAYLOAD) },
        });
        break;
      case 'cleared':
      case 'scheduled':
      case 'claimed':
        if (status === 'scheduled') await pass('not_before');
        if (status === 'claimed') await pass('lease_expires_at');
        await (path === 'direct'
          ? endpoint.deliver({ clearance: clearance ?? '' })
          : worker.once());
        break;
      case 'released':
      case 'reconciling': {
        // Its endpoint looks again once it is late; what it has no record of is a person's to settle, by the platform's.
        await pass('acknowledge_by');
        if ((await hands.journal.read(id)) !== undefined) break;
        const found = await hands.platform.find({
          ...{ deliveryId: id, destination: DESTINATION, state: 'sending' },
        });
        await operator.acknowledgeDelivery({
          ...{ organization, deliveryId: id },
          ...(found === undefined || found === 'absent'
            ? { outcome: 'failed' }
            : { outcome: 'delivered', message: found.message }),
        });
        break;
      }
      case 'held':
      case 'delivered':
      case 'failed':
      case 'dead':
      case 'discarded':
        return { id, delivery: shown.value, refusals };
    }
  }
  throw new Error(`${id || 'The delivery'} comes to no end: ${refusals.join(', ')}`);
}

function carrierOptions({ acme }: Place, hands: Hands, client: Client): CarrierOptions {
  const { site, platform, journal, beforeSending } = hands;
  return {
    client,
    organization: acme.name,
    issuer: 'earshot',
    keys: site.keys,
    journal,
    async send(message) {
      await beforeSending?.();
      return { outcome: 'delivered', message: platform.show(message) };
    },
    find: platform.find,
  };
}

/** A client that asks the gateway process, wherever it is at that moment, and asks nothing again by itself. */
function clientFor(token: string, { site, around }: Hands, refusals: string[]): Client {
  return createClient({
    ...{ baseUrl: 'http://gateway.test', token, timeoutMs: 60_000, retry: { tries: 1 } },
    async fetch(input, init) {
      const { pathname, search } = new URL(input instanceof Request ? input.url : input);
      const step = stepOf(init?.method ?? 'GET', pathname);
      const ask = () => globalThis.fetch(`${site.url()}${pathname}${search}`, init);
      try {
        const answer = await (step === undefined || around === undefined
          ? ask()
          : around(step, ask));
        if (!answer.ok) refusals.push(await codeOf(answer.clone()));
        return answer;
      } catch (error) {
        refusals.push('no_answer');
        throw error;
      }
    },
  });
}

async function codeOf(answer: Response): Promise<string> {
  return ((await answer.json()) as { code: string }).code;
}
