import type { Answer, TestGateway } from '../support/gateway.ts';
import { ok } from '../support/gateway.ts';
import type { Claimed, Delivery, TestOrganization, TestTurn } from '../support/organization.ts';

/** Ana and ben in a thread, with a turn that has read a canary which both may have; and what is done with its deliveries. */
export interface QueueHouse {
  readonly acme: TestOrganization;
  readonly turn: TestTurn;
  /** Proposes a queued delivery. */
  queue(payload?: string, options?: object): Promise<Delivery>;
  /** Claims the one that is due. */
  claimOne(worker?: string): Promise<Claimed>;
  release(claimed: Claimed, more?: object): ReturnType<TestOrganization['release']>;
  report(
    claimed: Claimed,
    outcome: 'delivered' | 'failed',
    reason?: string,
    message?: string,
  ): Promise<Answer>;
  /** A step that a caller takes with a delivery. */
  step(
    what: 'acknowledge' | 'approve' | 'discard',
    id: string,
    token: string,
    json?: object,
  ): Promise<Answer<Delivery>>;
  /** Moves a time of a delivery to now, as if it had come. */
  pass(id: string, what: DeliveryTime): Promise<void>;
  rowOf(id: string): Promise<DeliveryRow>;
  /** What was decided about a delivery, in order. */
  stepsOf(id: string): Promise<readonly Step[]>;
}

type DeliveryTime = 'lease_expires_at' | 'not_before' | 'expires_at' | 'acknowledge_by';

interface DeliveryRow {
  readonly status: string;
  readonly code: string | null;
  readonly reason: string | null;
  readonly payload: string | null;
}

interface Step {
  readonly kind: string;
  readonly verdict: string;
  readonly code: string | null;
  readonly detail: object;
}

export async function enterQueueHouse(
  gateway: Omit<TestGateway, 'target'>,
  name?: string,
): Promise<QueueHouse> {
  const { owner } = gateway;
  const acme = await gateway.organization(name);
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('room', ['ana', 'ben']);
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.say('shared', 'ben', 'canary');
  await acme.say('thread', 'ana', 'which one');
  const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  await turn.search('canary');

  return {
    acme,
    turn,
    queue: async (payload = 'It sang.', options = {}) =>
      ok(await turn.propose(payload, { queue: true, ...options })),
    async claimOne(worker = 'one') {
      const [claimed, ...more] = await acme.claim({ worker });
      if (claimed === undefined || more.length > 0) throw new Error('not one');
      return claimed;
    },
    release: (claimed, more = {}) => acme.release(claimed, { fence: claimed.fence, ...more }),
    report: (claimed, outcome, reason, message) =>
      acme.acknowledge(claimed, outcome, message, {
        fence: claimed.fence,
        ...(reason !== undefined && { reason }),
      }),
    step: (what, id, token, json = {}) =>
      gateway.send('POST', `/v1/deliveries/${id}/${what}`, {
        ...{ token, json: { organization: acme.name, ...json } },
      }) as Promise<Answer<Delivery>>,
    async pass(id, what) {
      await owner`
        update earshot.deliveries set ${owner(what)} = clock_timestamp() where id = ${id}`;
    },
    async rowOf(id) {
      const [row] = await owner<(Omit<DeliveryRow, 'payload'> & { payload: Buffer | null })[]>`
        select status, code, reason, payload from earshot.deliveries where id = ${id}`;
      if (row === undefined) throw new Error('there is no such delivery');
      return { ...row, payload: row.payload?.toString() ?? null };
    },
    stepsOf: (id) => owner<Step[]>`
      select kind, verdict, code, detail from earshot.decisions
      where delivery_id = ${id} order by decided_at`,
  };
}
