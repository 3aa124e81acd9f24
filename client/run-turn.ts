import type {
  Cleared,
  ConversationPacket,
  Grant,
  MessagePacket,
  Proposed,
  Queued,
  SavedArtifact,
} from './answer-shape.ts';
import type { ArtifactDraft } from './artifact-calls.ts';
import type { GrantedCall } from './call.ts';
import type {
  AroundArguments,
  Client,
  ListArguments,
  ReadArguments,
  SearchArguments,
  TakenLease,
  ThreadArguments,
  TurnRequest,
} from './client.ts';
import { refuseLocally, type Answer, type ClientRefusal } from './client-refusal.ts';
import type { Proposal } from './delivery-calls.ts';
import { keepLease, type KeptLease } from './kept-lease.ts';
import { recover, recoveryOf, type Recovered, type RecoveryMeans } from './recovery.ts';
import { requestTurnGrant } from './turn-grant.ts';

/** What the work of a turn may do. Every call is judged live; a grant that has ended is minted again. */
export interface Agent {
  /** The partition of model context for this turn: cut whatever is kept between turns by it. */
  readonly sessionId: string;
  /** What the grant says of itself, without its token. */
  readonly grant: Omit<Grant, 'token'>;
  /** Which try this is, from 1. What an earlier one retrieved or wrote was for other readers. */
  readonly attempt: number;
  /** Aborted when the turn is another worker's, or over: stop then. */
  readonly signal: AbortSignal;
  search(args: SearchArguments): Promise<Answer<MessagePacket>>;
  read(args: ReadArguments): Promise<Answer<MessagePacket>>;
  around(args: AroundArguments): Promise<Answer<MessagePacket>>;
  thread(args: ThreadArguments): Promise<Answer<MessagePacket>>;
  listConversations(args: ListArguments): Promise<Answer<ConversationPacket>>;
  /** Saves a text, with all that this turn was shown as its sources. */
  saveArtifact(args: ArtifactDraft): Promise<Answer<SavedArtifact>>;
  readArtifact(args: { readonly artifact: string }): Promise<Answer<MessagePacket>>;
}

/** What the work comes to: an answer and how it is to go, nothing to say, or the refusal that it met. */
export type WorkResult = Omit<Proposal, 'destination' | 'key'> | ClientRefusal | undefined;

export interface RunOptions {
  /** The name of this worker. */
  readonly owner: string;
  readonly leaseSeconds?: number;
  /** How many turns at most, the first one counted. */
  readonly maxTurns?: number;
  /** Hands a cleared answer to its delivery endpoint, while the turn still runs. */
  readonly deliver?: (cleared: Cleared) => Promise<{ readonly ok: true } | DeliveryRefusal>;
  /**
   * What may be done in the same turn about an answer that is held: {@link recover}, with these means.
   * Nothing unless given.
   */
  readonly recovery?: Pick<RecoveryMeans, 'reduceTo'>;
  readonly signal?: AbortSignal;
}

/** A refusal as a delivery endpoint gives it, maybe of a kind that is its own. */
export interface DeliveryRefusal {
  readonly ok: false;
  readonly code: string;
  readonly recovery: string;
  readonly recoveryOwner?: string;
  readonly next?: string;
  readonly detail?: string;
}

/** How one turn ended. */
type OneTurn =
  | { readonly ok: true; readonly kind: 'silent' }
  | { readonly ok: true; readonly kind: 'cleared' | 'delivered'; readonly delivery: Cleared }
  | { readonly ok: true; readonly kind: 'queued'; readonly delivery: Queued }
  | ClientRefusal
  | HeldAnswer;

/** How it ended, and how many turns it took. */
export type TurnOutcome = OneTurn & { readonly turns: number };

/** The gateway, or the endpoint, held the answer. */
export interface HeldAnswer extends DeliveryRefusal {
  readonly from: 'delivery';
  readonly deliveryId: string;
  /** What was done about it in this turn, and what is left to whom. */
  readonly recovered?: Recovered;
}

/**
 * Carries one piece of work to its end: opens a turn, takes and keeps its lease, gets a grant, lets
 * `work` make an answer, proposes it and hands it to `deliver`.
 *
 * - `rebuild`: what was made is dropped, and a new turn begins for the readers of now, `maxTurns` times
 * - `remint`: the grant ended while its audience stayed; another one in the same turn
 * - anything else ends it, and is the outcome
 *
 * An answer that is not let out is not kept here. What `work` throws passes through, after the turn
 * has been given up.
 */
export async function runTurn(
  client: Client,
  request: TurnRequest,
  work: (agent: Agent) => Promise<WorkResult>,
  options: RunOptions,
): Promise<TurnOutcome> {
  const { maxTurns = 3 } = options;
  for (let turns = 1; ; turns++) {
    const outcome = await runOnce(client, request, work, options, turns);
    if (!isForNewTurn(outcome) || turns >= maxTurns || options.signal?.aborted) {
      return { ...outcome, turns };
    }
  }
}

/** Whether an answer is to be made again here. One that is to go elsewhere needs another trigger. */
function isForNewTurn(outcome: OneTurn): boolean {
  if (outcome.ok || recoveryOf(outcome)?.action !== 'rebuild') return false;
  const { recovered } = outcome.from === 'delivery' ? outcome : {};
  return recovered?.kind !== 'dropped' || recovered.toward === undefined;
}

async function runOnce(
  client: Client,
  { key, ...request }: TurnRequest,
  work: (agent: Agent) => Promise<WorkResult>,
  options: RunOptions,
  attempt: number,
): Promise<OneTurn> {
  const { organization } = request;
  const { owner, leaseSeconds, signal } = options;
  // A turn of its own for each try: the same key would give the turn that was refused.
  const ownKey = key === undefined || attempt === 1 ? key : `${key}/${attempt}`;
  const opened = await client.openTurn(
    { ...request, ...(ownKey !== undefined && { key: ownKey }) },
    { signal },
  );
  if (!opened.ok) return opened;
  const { turnId } = opened.value;
  const takenAt = client.clock.now();
  const taken = await client.takeLease(
    { organization, turnId, owner, ...(leaseSeconds !== undefined && { seconds: leaseSeconds }) },
    { signal },
  );
  if (!taken.ok) return taken;
  const lease = taken.value;
  const kept = keepLease(client, { organization, turnId }, lease, takenAt);
  let outcome: OneTurn | undefined;
  try {
    outcome = await answer(client, { ...request, turnId }, lease, kept, work, options, attempt);
    // Whatever else went wrong, a lost lease is why.
    return outcome.ok ? outcome : (kept.lost ?? outcome);
  } finally {
    await kept.stop();
    if (kept.lost === undefined) {
      const ended = outcome?.ok ? 'completed' : 'failed';
      await client.complete({ organization, turnId, lease, outcome: ended });
    }
  }
}

async function answer(
  client: Client,
  turn: TurnRequest & { readonly turnId: string },
  lease: TakenLease,
  kept: KeptLease,
  work: (agent: Agent) => Promise<WorkResult>,
  options: RunOptions,
  attempt: number,
): Promise<OneTurn> {
  const signal =
    options.signal === undefined ? kept.signal : AbortSignal.any([kept.signal, options.signal]);
  const minting = () =>
    requestTurnGrant(client, { ...turn, lease, trigger: turn.trigger.kind }, { signal });
  const first = await minting();
  if (!first.ok) return first;
  // Not asked for: the request names no legacy session.
  if (first.kind === 'legacy') return refuseLocally('wrong_grant', 'stop');
  const granted = grantedCalls(first.grant, minting, signal);

  const { token: _, ...grant } = first.grant;
  const result = await work({
    sessionId: grant.sessionId,
    grant,
    attempt,
    signal,
    search: (args) => granted(client.search, args),
    read: (args) => granted(client.read, args),
    around: (args) => granted(client.around, args),
    thread: (args) => granted(client.thread, args),
    listConversations: (args) => granted(client.listConversations, args),
    saveArtifact: (args) => granted(client.saveArtifact, args),
    readArtifact: (args) => granted(client.readArtifact, args),
  });
  if (result === undefined) return { ok: true, kind: 'silent' };
  if ('ok' in result) return result;

  const proposal = proposalOf(turn.destination, result);
  const proposed = await granted(client.propose, proposal);
  if (!proposed.ok) return proposed;
  let delivery = proposed.value;
  let recovered: Recovered | undefined;
  if (options.recovery !== undefined && recoveryOf(delivery) !== undefined) {
    const answered = await granted(recovering, { delivery, means: options.recovery });
    if (answered.ok) recovered = answered.value;
    if (recovered?.kind === 'proposed') delivery = recovered.delivery;
  }

  switch (delivery.status) {
    case 'waiting':
    case 'scheduled':
    case 'claimed':
      return { ok: true, kind: 'queued', delivery };
    case 'cleared': {
      if (delivery.clearance === undefined) return { ok: true, kind: 'queued', delivery };
      if (options.deliver === undefined) return { ok: true, kind: 'cleared', delivery };
      const delivered = await options.deliver(delivery);
      return delivered.ok
        ? { ok: true, kind: 'delivered', delivery }
        : held(delivery.id, delivered, recovered);
    }
    case 'held':
    case 'released':
    case 'reconciling':
    case 'delivered':
    case 'failed':
    case 'dead':
    case 'discarded': {
      const { code = delivery.status, recoveryOwner, next, detail } = delivery;
      const recovery = recoveryOf(delivery)?.action ?? 'stop';
      const refusal = {
        ok: false,
        code,
        recovery,
        ...defined({ recoveryOwner, next, detail }),
      } as const;
      return held(delivery.id, refusal, recovered);
    }
  }

  /** Recovers as the agent, in a call that is made once: each step has a key of its own. */
  async function recovering(
    grantToken: string,
    { delivery, means }: { delivery: Proposed; means: Pick<RecoveryMeans, 'reduceTo'> },
  ): Promise<Answer<Recovered>> {
    const { organization } = turn;
    const { payload, contentType } = proposal;
    const text = { payload, ...(contentType !== undefined && { contentType }) };
    const all = { ...means, ...text, organization, grantToken, key: 'answer' };
    return { ok: true, value: await recover(client, delivery, all, { signal }) };
  }
}

/** Named one by one: whatever else the work hands back goes nowhere. */
function proposalOf(
  destination: string,
  { payload, contentType, queue, sendAt, approval, edits }: Omit<Proposal, 'destination'>,
): Proposal {
  const wishes = defined({ contentType, queue, sendAt, approval, edits });
  return { destination, payload, ...wishes, key: 'answer' };
}

function held(
  deliveryId: string,
  { code, recovery, recoveryOwner, next, detail }: DeliveryRefusal,
  recovered: Recovered | undefined,
): HeldAnswer {
  return {
    ok: false,
    from: 'delivery',
    deliveryId,
    code,
    recovery,
    ...defined({ recoveryOwner, next, detail, recovered }),
  };
}

/** The fields that are there. */
function defined<Fields extends object>(
  fields: Fields,
): { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Fields]?: Exclude<Fields[Name], undefined>;
  };
}

/**
 * Calls under the grant of a turn. Where one is refused because its grant has ended, the grant is
 * minted again, once for all calls that wait for it, and the call made once more. A mint that is refused is
 * the answer.
 */
function grantedCalls(
  first: Grant,
  mint: () => ReturnType<typeof requestTurnGrant>,
  signal: AbortSignal,
): <Arguments, Value>(
  call: GrantedCall<Arguments, Value>,
  args: Arguments,
) => Promise<Answer<Value>> {
  let current = Promise.resolve<Answer<Grant>>({ ok: true, value: first });

  async function again(): Promise<Answer<Grant>> {
    const minted = await mint();
    if (!minted.ok) return minted;
    // The context was built in the first grant's session, for the first grant's readers.
    return minted.kind === 'grant' && minted.grant.sessionId === first.sessionId
      ? { ok: true, value: minted.grant }
      : refuseLocally('session_moved', 'rebuild');
  }

  return async (call, args) => {
    const used = current;
    const grant = await used;
    if (!grant.ok) return grant;
    const answered = await call(grant.value.token, args, { signal });
    if (answered.ok || answered.recovery !== 'remint') return answered;
    if (current === used) current = again();
    const fresh = await current;
    return fresh.ok ? call(fresh.value.token, args, { signal }) : fresh;
  };
}
