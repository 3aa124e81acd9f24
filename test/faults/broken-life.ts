import { createClient } from '../../client/client.ts';
import { createEndpoint } from '../../delivery/endpoint.ts';
import { memoryJournal } from '../../delivery/journal.ts';
import { createWorker } from '../../delivery/queue-worker.ts';
import type { CrashSite } from './crash-site.ts';
import type { LifeGates } from './life-gates.ts';

// The life of one answer, from its proposal until it was sent and reported, which is broken off at points that are given. Those who take
// part in it do what they would do: they ask again where there was no answer, by the key of the request, by the record of
// the endpoint, by the next claim. Nobody looks into the database to know what to do.

export const FLOWS = {
  direct: ['propose', 'release', 'send', 'acknowledge'],
  queued: ['propose', 'approve', 'claim', 'release', 'send', 'acknowledge'],
} as const;
export type Flow = keyof typeof FLOWS;
type Step = (typeof FLOWS)[Flow][number];

/** Inside of a step: its statement has judged and is about to write. After it: the answer was heard. */
export type Point = `in ${Step}` | `after ${Step}`;

/** While something is sent, neither the gateway nor the database does anything. */
export function pointsOf(flow: Flow): Point[] {
  return FLOWS[flow].flatMap((step): Point[] =>
    step === 'send' ? ['in send'] : [`in ${step}`, `after ${step}`],
  );
}

/** How a life stands: `asking` inside of a step, whose statement may come to be stopped; `stopped` at a point. */
type State = 'under way' | 'asking' | 'stopped' | 'over';

export interface Life {
  readonly organization: string;
  readonly name: string;
  state(): State;
  /** The points at which it was broken off. */
  readonly broken: readonly Point[];
  /** Lets it go on from the point where it stopped. */
  goOn(): void;
  /** What it came to. */
  readonly end: Promise<End>;
}

export interface End {
  /** The texts that the platform was given, each as often as it was. */
  readonly sent: readonly string[];
  /** How many tries of it the gateway was told to have failed. */
  readonly failed: number;
  readonly status: string;
  /** What the endpoint has not settled. */
  readonly open: number;
}

/** More tries than any two faults can cost. */
const TRIES = 12;

/**
 * Begins the life of an answer, in an organization of its own. It stops at each of the points once, in their order. Patience is long: nothing
 * is to end by itself while others are on their way to where they stop.
 */
export async function beginLife(
  site: CrashSite,
  gates: LifeGates,
  flow: Flow,
  points: readonly Point[],
): Promise<Life> {
  const { arranger, owner } = site;
  const acme = await arranger.organization();
  const organization = acme.name;
  await acme.facts(
    ...['ana', 'ben'].map((id) => ({ fact: 'user', id, kind: 'member' })),
    { fact: 'conversation', id: 'thread', kind: 'group', visibility: 'members', aiThread: true },
    {
      ...{ fact: 'members', conversation: 'thread' },
      members: ['ana', 'ben'].map((user) => ({ user, history: 'all' })),
    },
    {
      ...{ fact: 'message', conversation: 'thread', id: 'm1', author: { user: 'ana' } },
      ...{ body: 'what sang', sentAt: '2026-01-01T00:00:00Z' },
    },
  );
  const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });

  let state: State = 'under way';
  let goOn = () => {};
  const left = [...points];
  const broken: Point[] = [];
  /** Stands still until the fault has struck and was mended. */
  function stop(as: 'asking' | 'stopped'): Promise<void> {
    state = as;
    return new Promise((resolve) => {
      goOn = () => {
        state = 'under way';
        resolve();
      };
    });
  }
  function passed(point: Point) {
    left.shift();
    broken.push(point);
  }

  /** Sends a request to the process, and breaks off at it if its turn has come. */
  async function request(input: string | URL | Request, init?: RequestInit): Promise<Response> {
    const { pathname, search } = new URL(input instanceof Request ? input.url : input);
    // The process that has taken over listens elsewhere.
    const ask = () => fetch(`${site.url()}${pathname}${search}`, init);
    const step = stepOf(pathname, init?.method);
    if (step === undefined) return ask();
    if (left[0] === `in ${step}`) return askAtGate(left[0], ask);
    const response = await ask();
    if (left[0] === `after ${step}` && (await tookEffect(response, step))) {
      passed(left[0]);
      await stop('stopped');
    }
    return response;
  }

  /** Asks while the gate is closed. What writes nothing is answered, and the point is still to come. */
  async function askAtGate(point: Point, ask: () => Promise<Response>): Promise<Response> {
    await gates.close(organization);
    const asked = ask();
    const struck = stop('asking');
    const answer = await asked.catch((error: unknown) => new Unanswered(error));
    if (!(answer instanceof Unanswered) && answer.status < 500) {
      goOn();
      await gates.open(organization);
      return answer;
    }
    passed(point);
    await struck;
    if (answer instanceof Unanswered) throw answer.cause;
    return answer;
  }

  const sent: string[] = [];
  const client = (token: string) =>
    createClient({
      baseUrl: 'http://gateway.test',
      token,
      fetch: request,
      retry: { tries: 1 },
      timeoutMs: 300_000,
    });
  const [bridge, operator, deliver] = [
    client(arranger.tokens.bridge),
    client(arranger.tokens.operator),
    client(arranger.tokens.deliver),
  ];
  const journal = memoryJournal();
  const endpoint = {
    ...{
      client: deliver,
      organization,
      issuer: 'earshot',
      keys: site.keys,
      journal,
      sendSeconds: 600,
    },
    async send({ deliveryId, payload }: { deliveryId: string; payload: string }) {
      sent.push(payload);
      if (left[0] === 'in send') {
        passed('in send');
        await stop('stopped');
      }
      return { outcome: 'delivered' as const, message: `m-${deliveryId}` };
    },
  };

  /** Proposes until there is an answer. */
  async function propose(key: string) {
    const wishes = flow === 'queued' ? { approval: true } : {};
    for (let tries = 0; tries < TRIES; tries++) {
      const answer = await bridge.propose(turn.grant.token, {
        ...{ destination: 'thread', payload: 'It sang.', key },
        ...wishes,
      });
      if (answer.ok) return answer.value;
    }
    throw new Error('There is no verdict.');
  }
  const statusOf = async (deliveryId: string) => {
    const shown = await bridge.showDelivery({ organization, deliveryId });
    return shown.ok ? shown.value.status : shown.code;
  };

  async function direct(): Promise<string> {
    const { deliver: send, reconcile } = createEndpoint(endpoint);
    let [key, id] = [0, ''];
    for (let tries = 0; tries < TRIES; tries++) {
      const proposed = await propose(key.toString());
      id = proposed.id;
      if (proposed.clearance !== undefined) await send({ clearance: proposed.clearance });
      await reconcile();
      const status = await statusOf(id);
      if (status === 'delivered') break;
      // It was not sent, and never will be: the agent answers anew.
      if (status === 'failed') key += 1;
    }
    return id;
  }

  async function queued(): Promise<string> {
    const { id, payloadSha256 } = await propose('0');
    const worker = createWorker({ ...endpoint, worker: 'worker', leaseSeconds: 600 });
    for (let tries = 0; tries < TRIES; tries++) {
      await worker.reconcile();
      const status = await statusOf(id);
      if (status === 'delivered') break;
      if (status === 'waiting')
        await operator.approveDelivery({ organization, deliveryId: id, payloadSha256 });
      // What the time does: a lease runs out, the next try is due.
      await owner`
        update earshot.deliveries set lease_expires_at = clock_timestamp(), not_before = clock_timestamp()
        where id = ${id} and status in ('claimed', 'scheduled')`;
      await worker.once();
    }
    return id;
  }

  async function live(): Promise<End> {
    try {
      const id = await (flow === 'direct' ? direct() : queued());
      const rows = await owner`
        select from earshot.deliveries d join earshot.organizations o on o.id = d.org_id
        where o.external_id = ${organization} and d.status = 'failed'`;
      const retries = await owner`
        select from earshot.decisions where delivery_id = ${id} and kind = 'retry'`;
      return {
        sent,
        failed: rows.length + retries.length,
        status: await statusOf(id),
        open: (await journal.all()).length,
      };
    } finally {
      state = 'over';
    }
  }
  const end = live();
  // Whoever asks for it is told; until then others are under way.
  end.catch(() => {});
  return {
    organization,
    name: `${flow}: ${points.join(', ')}`,
    state: () => state,
    broken,
    goOn: () => goOn(),
    end,
  };
}

/** What was thrown in the place of an answer. */
class Unanswered {
  readonly cause: unknown;
  constructor(cause: unknown) {
    this.cause = cause;
  }
}

function stepOf(pathname: string, method = 'GET'): Step | undefined {
  if (method !== 'POST') return undefined;
  if (pathname === '/v1/deliveries') return 'propose';
  const [, step] =
    /^\/v1\/deliveries\/(?:[0-9a-f-]{36}\/)?(approve|claim|release|acknowledge)$/.exec(pathname) ??
    [];
  return step as Step | undefined;
}

/** Whether the step came about: a claim may find nothing. */
async function tookEffect(response: Response, step: Step): Promise<boolean> {
  if (!response.ok) return false;
  if (step !== 'claim') return true;
  const { deliveries } = (await response.clone().json()) as { deliveries: unknown[] };
  return deliveries.length > 0;
}
