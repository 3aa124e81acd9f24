import { randomBytes } from 'node:crypto';
import { newCanary } from '../http/planting.ts';
import { ok, type Answer, type TestGateway } from '../support/gateway.ts';
import type { Claimed, Delivery, TestOrganization, TestTurn } from '../support/organization.ts';
import { FLOWS, type Change, type Flow, type RacedStep, type Step } from './delivery-race-table.ts';
import type { LastLock, Place } from './race-holds.ts';

/** An answer in a thread of its own, just before one of its steps. */
export interface AnswerUnderWay {
  readonly thread: string;
  /** What stands in the source and in the answer, and nowhere else. */
  readonly canary: string;
  /** Takes the step: the state that it answers, or its refusal. */
  take(): Promise<{ delivery: string; gives: string }>;
  /** Takes every step that is left, and those that were taken once more; gives the end. */
  finish(): Promise<string>;
  /** How often the bytes were handed out so far. */
  handedOut(): number;
  /** The last lock of the step. */
  readonly lastLock: LastLock;
  /** The statuses by which the step is seen to have taken effect. */
  readonly marks: readonly string[];
  change(change: Change): Promise<void>;
  /** Two changes in one batch, whose places come in another order than a delivery's. */
  editAndDeactivate(): Promise<void>;
  /** What that change moves, and what a step has to be seen waiting at. */
  placeOf(change: Change): Place;
}

/**
 * Somebody asks in a thread; another person reads along, from the second message on; a third reads only the source
 * that the answer draws on.
 */
export async function prepareAnswer(
  gateway: TestGateway,
  acme: TestOrganization,
  step: RacedStep,
): Promise<AnswerUnderWay> {
  const name = randomBytes(6).toString('hex');
  const [thread, source] = [`thread-${name}`, `source-${name}`];
  const canary = newCanary();
  const [ana, ben, cleo] = [`ana-${name}`, `ben-${name}`, `cleo-${name}`];
  const all = (user: string) => ({ user, history: 'all' });
  const place = { kind: 'group', visibility: 'members' };
  const said = (conversation: string, id: string, author: string, body: string) => ({
    ...{ fact: 'message', conversation, id, author: { user: author }, body },
    sentAt: '2026-01-01T00:00:00Z',
  });
  await acme.facts(
    ...[ana, ben, cleo].map((id) => ({ fact: 'user', id, kind: 'member' })),
    { fact: 'conversation', id: thread, ...place, aiThread: true },
    { fact: 'conversation', id: source, ...place },
    { fact: 'members', conversation: source, members: [ana, ben, cleo].map(all) },
    said(source, 'm1', ben, canary),
    said(thread, 'm1', ana, 'hello'),
    said(thread, 'm2', ana, 'hello again'),
    said(thread, 'm3', ana, 'what is it'),
    {
      fact: 'members',
      conversation: thread,
      members: [all(ana), { user: ben, history: { fromSeq: '2' } }],
    },
  );
  const [keys] = await gateway.owner<{ thread: number; source: number }[]>`
    select max(id) filter (where external_id = ${thread})::integer as thread,
      max(id) filter (where external_id = ${source})::integer as source
    from earshot.conversations where external_id in (${thread}, ${source})`;
  if (keys === undefined) throw new Error('The conversations are not there.');
  const turn = await acme.turn({ destination: thread, requester: ana, trigger: '3' });
  ok(await turn.tool('read', { conversation: source }));

  const rejoin = (fromSeq: string) =>
    acme.facts(
      { fact: 'members', conversation: thread, members: [all(ana)] },
      { fact: 'member', conversation: thread, user: ben, history: { fromSeq } },
    );
  const changes: Readonly<Record<Change, () => Promise<unknown>>> = {
    'somebody joins the destination': () =>
      acme.put(`conversations/${thread}/members/${cleo}`, { history: 'all' }),
    'somebody leaves the destination': () => acme.remove(`conversations/${thread}/members/${ben}`),
    'a rejoin raises a floor': () => rejoin('3'),
    'a rejoin lowers a floor': () => rejoin('1'),
    'the destination is opened to a class': () =>
      acme.put(`conversations/${thread}`, { ...place, visibility: 'organization', aiThread: true }),
    'a reader loses a source': () => acme.remove(`conversations/${source}/members/${ben}`),
    'a source is edited': () => acme.facts(said(source, 'm1', ben, 'something else')),
    'a source is deleted': () => acme.remove(`conversations/${source}/messages/m1`),
    'a reader is deactivated': () =>
      acme.put(`users/${ben}`, { kind: 'member', status: 'deactivated' }),
    'a stop is set': () => acme.put(`stops/conversation/${thread}`, {}),
  };
  return {
    ...{ thread, canary },
    ...(await beforeStep(gateway, acme, turn, thread, canary, step)),
    async change(change) {
      await changes[change]();
    },
    editAndDeactivate: () =>
      acme.facts(said(source, 'm1', ben, 'something else'), {
        ...{ fact: 'user', id: ben, kind: 'member', status: 'deactivated' },
      }),
    placeOf(change) {
      switch (change) {
        case 'somebody joins the destination':
        case 'somebody leaves the destination':
        case 'a rejoin raises a floor':
        case 'a rejoin lowers a floor':
        case 'the destination is opened to a class':
          return keys.thread;
        case 'a reader loses a source':
        case 'a source is edited':
        case 'a source is deleted':
          return keys.source;
        case 'a reader is deactivated':
        case 'a stop is set':
          return 0;
      }
    },
  };
}

/** Takes the steps that come before, and says how this one is taken and what comes after it. */
async function beforeStep(
  gateway: TestGateway,
  acme: TestOrganization,
  turn: TestTurn,
  thread: string,
  canary: string,
  step: RacedStep,
): Promise<Pick<AnswerUnderWay, 'take' | 'finish' | 'handedOut' | 'lastLock' | 'marks'>> {
  const { steps, arrive, handedOut, known } = stepsOf(gateway, acme, turn, thread, canary);
  const flow: Flow = (FLOWS.direct as readonly Step[]).includes(step) ? 'direct' : 'queued';
  const all: readonly Step[] = FLOWS[flow];
  const at = all.indexOf(step);
  for (const earlier of all.slice(0, at)) {
    const gives = await steps[earlier]();
    if (!EARLIER.includes(gives)) throw new Error(`${earlier} gives ${gives}`);
  }
  // The platform tells of the message before its endpoint does.
  if (step.startsWith('acknowledge')) await arrive();
  return {
    async take() {
      const gives = await steps[step]();
      return { delivery: known()?.id ?? '', gives };
    },
    async finish() {
      for (const left of [...all.slice(at + 1), ...all]) await steps[left]();
      const { status, code } = await acme.delivery(known()?.id ?? '');
      return code === undefined ? status : `${status}: ${code}`;
    },
    handedOut,
    lastLock: step === 'propose' ? { grant: turn.grant.grantId } : { delivery: known()?.id ?? '' },
    marks: MARKS[step],
  };
}

/** What the steps before the one in question come to. */
const EARLIER: readonly string[] = ['waiting', 'cleared', 'claimed', 'released', 'delivered'];

const MARKS: Readonly<Record<RacedStep, readonly string[]>> = {
  propose: ['cleared', 'held'],
  approve: ['cleared', 'held'],
  claim: ['claimed'],
  release: ['released', 'held'],
  'release a claimed one': ['released', 'held'],
  acknowledge: ['delivered'],
  'its message arrives': ['delivered'],
  'acknowledge that': ['delivered'],
};

/** The steps of one delivery, each as often as one likes. */
function stepsOf(
  gateway: TestGateway,
  acme: TestOrganization,
  turn: TestTurn,
  thread: string,
  canary: string,
) {
  let delivery: Delivery | undefined;
  let claimed: Claimed | undefined;
  let handedOut = 0;
  const id = () => ({ id: delivery?.id ?? '' });
  const stateOf = ({ status, code }: Pick<Delivery, 'status' | 'code'>) =>
    code === undefined ? status : `${status}: ${code}`;

  async function propose(wishes: object) {
    const answer = await turn.propose(canary, { key: 'answer', ...wishes });
    if (answer.status !== 200) return refusal(answer);
    delivery = { ...delivery, ...answer.body };
    return stateOf(answer.body);
  }
  /** A refusal may be the verdict that the delivery has from then on. */
  async function refusal({ status, code }: Answer) {
    if (status >= 500 || delivery === undefined) return `refused: ${code ?? status}`;
    const shown = await acme.delivery(delivery.id);
    return shown.status === 'held' && shown.code === code
      ? stateOf(shown)
      : `refused: ${code ?? ''}`;
  }
  async function release(of: Pick<Delivery, 'id' | 'clearance'>, more: object) {
    const answer = await acme.release(of, more);
    if (answer.status !== 200) return refusal(answer);
    handedOut += 1;
    return 'released';
  }
  async function acknowledge(more: object) {
    const answer = await acme.acknowledge(id(), 'delivered', `answer in ${thread}`, more);
    return answer.status === 200 ? 'delivered' : refusal(answer);
  }
  const arrive = () =>
    acme.facts({
      ...{ fact: 'message', conversation: thread, id: `answer in ${thread}`, body: canary },
      ...{ author: { persona: 'assistant' }, sentAt: '2050-01-01T00:00:00Z' },
    });
  const fence = () => (claimed === undefined ? {} : { fence: claimed.fence });
  const steps: Readonly<Record<Step, () => Promise<string>>> = {
    propose: () => propose({}),
    release: () => release(delivery ?? id(), {}),
    acknowledge: () => acknowledge({}),
    async 'its message arrives'() {
      const { status } = await acme.delivery(id().id);
      if (status === 'delivered') await arrive();
      return status;
    },
    'ask for approval': () => propose({ approval: true }),
    async approve() {
      const answer = (await gateway.send('POST', `/v1/deliveries/${id().id}/approve`, {
        token: gateway.tokens.operator,
        json: { organization: acme.name, payloadSha256: delivery?.payloadSha256 },
      })) as Answer<Delivery>;
      return answer.status === 200 ? stateOf(answer.body) : refusal(answer);
    },
    async claim() {
      const [one] = await acme.claim({ worker: 'worker', destinations: [thread] });
      claimed = one ?? claimed;
      return one === undefined ? 'nothing' : 'claimed';
    },
    'release a claimed one': () =>
      release({ ...id(), clearance: claimed?.clearance ?? '' }, fence()),
    'acknowledge that': () => acknowledge(fence()),
  };
  return { steps, arrive, handedOut: () => handedOut, known: () => delivery };
}
