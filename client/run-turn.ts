import type { ConversationPacket, Grant, MessagePacket, Proposed } from './answer-shape.ts';
import type {
  AroundArguments,
  CallOptions,
  Client,
  ListArguments,
  Proposal,
  ReadArguments,
  SearchArguments,
  TakenLease,
  ThreadArguments,
  TurnRequest,
} from './client.ts';
import {
  recover,
  recoveryOf,
  refuseLocally,
  type Answer,
  type ClientRefusal,
} from './client-refusal.ts';
import { keepLease, type KeptLease } from './kept-lease.ts';
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
}

/** What the work comes to: an answer, nothing to say, or the refusal that it met. */
export type WorkResult =
  { readonly payload: string; readonly contentType?: string } | ClientRefusal | undefined;

export type Cleared = Extract<Proposed, { status: 'cleared' }>;

export interface RunOptions {
  /** The name of this worker. */
  readonly owner: string;
  readonly leaseSeconds?: number;
  /** How many turns at most, the first one counted. */
  readonly maxTurns?: number;
  /** Hands a cleared answer to its delivery endpoint, while the turn still runs. */
  readonly deliver?: (cleared: Cleared) => Promise<{ readonly ok: true } | DeliveryRefusal>;
  readonly signal?: AbortSignal;
}

/** A refusal as a delivery endpoint gives it, maybe of a kind that is its own. */
export interface DeliveryRefusal {
  readonly ok: false;
  readonly code: string;
  readonly recovery: string;
  readonly detail?: string;
}

/** How one turn ended. */
type OneTurn =
  | { readonly ok: true; readonly kind: 'silent' }
  | { readonly ok: true; readonly kind: 'cleared' | 'delivered'; readonly delivery: Cleared }
  | ClientRefusal
  | HeldAnswer;

/** How it ended, and how many turns it took. */
export type TurnOutcome = OneTurn & { readonly turns: number };

/** The gateway, or the endpoint, held the answer. */
export interface HeldAnswer extends DeliveryRefusal {
  readonly from: 'delivery';
  readonly deliveryId: string;
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
    const again = !outcome.ok && recoveryOf(outcome.recovery) === 'rebuild' && turns < maxTurns;
    if (!again || options.signal?.aborted) return { ...outcome, turns };
  }
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
  });
  if (result === undefined) return { ok: true, kind: 'silent' };
  if ('ok' in result) return result;

  // Named one by one: whatever else the work hands back goes nowhere.
  const { payload, contentType } = result;
  const proposal: Proposal = {
    destination: turn.destination,
    payload,
    ...(contentType !== undefined && { contentType }),
    key: 'answer',
  };
  const proposed = await granted(client.propose, proposal);
  if (!proposed.ok) return proposed;
  const delivery = proposed.value;
  if (delivery.status !== 'cleared') {
    const { code = delivery.status, detail } = delivery;
    const recovery = recover(delivery) ?? 'stop';
    return held(delivery.id, {
      ok: false,
      code,
      recovery,
      ...(detail !== undefined && { detail }),
    });
  }
  if (options.deliver === undefined) return { ok: true, kind: 'cleared', delivery };
  const delivered = await options.deliver(delivery);
  return delivered.ok ? { ok: true, kind: 'delivered', delivery } : held(delivery.id, delivered);
}

function held(deliveryId: string, { code, recovery, detail }: DeliveryRefusal): HeldAnswer {
  return {
    ok: false,
    from: 'delivery',
    deliveryId,
    code,
    recovery,
    ...(detail !== undefined && { detail }),
  };
}

type Call<Arguments, Value> = (
  token: string,
  args: Arguments,
  options: CallOptions,
) => Promise<Answer<Value>>;

/**
 * Calls under the grant of a turn. Where one is refused because its grant has ended, the grant is
 * minted again, once for all calls that wait for it, and the call made once more. A mint that is refused is
 * the answer.
 */
function grantedCalls(
  first: Grant,
  mint: () => ReturnType<typeof requestTurnGrant>,
  signal: AbortSignal,
): <Arguments, Value>(call: Call<Arguments, Value>, args: Arguments) => Promise<Answer<Value>> {
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
