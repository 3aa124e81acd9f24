import type { z } from 'zod';
import type { TriggerKind } from '../policy/mode.ts';
import {
  ConversationPacketShape,
  DoneShape,
  ExtendedShape,
  LeaseShape,
  MessagePacketShape,
  OpenedShape,
  TurnShape,
  VersionShape,
  type ConversationPacket,
  type Lease,
  type MessagePacket,
  type Turn,
  type Version,
} from './answer-shape.ts';
import { artifactCalls, type ArtifactCalls } from './artifact-calls.ts';
import type { Call, CallOptions, GrantedCall, Send } from './call.ts';
import { refuseLocally, type Answer } from './client-refusal.ts';
import { systemClock, type Clock } from './clock.ts';
import { deliveryCalls, type DeliveryCalls } from './delivery-calls.ts';
import { exchange, type Exchange, type TokenSource } from './exchange.ts';
import { memoryOfProcess, type GrantMemory } from './grant-memory.ts';
import { RETRIES, retried, type RetryPolicy } from './retry.ts';

export interface ClientOptions {
  readonly baseUrl: string | URL;
  /** The token of a registered client, or what gives a fresh one. */
  readonly token: TokenSource;
  readonly fetch?: typeof globalThis.fetch;
  /** How long one try may take. */
  readonly timeoutMs?: number;
  readonly retry?: Partial<RetryPolicy>;
  /** Where it is kept that a server has grants; as long as this object unless given. */
  readonly grantMemory?: GrantMemory;
  readonly clock?: Clock;
  /** Numbers from 0 to 1, for the jitter. */
  readonly random?: () => number;
}

export interface TurnRequest {
  readonly organization: string;
  readonly persona: string;
  readonly destination: string;
  readonly requester: string;
  readonly trigger:
    | { readonly kind: Exclude<TriggerKind, 'schedule'>; readonly seq: string }
    | { readonly kind: 'schedule' };
  readonly tools?: readonly string[];
  readonly threadKey?: string;
  /** The idempotency key; a random one unless given. */
  readonly key?: string;
}

export interface TurnName {
  readonly organization: string;
  readonly turnId: string;
}

/** A lease with the time for which it was asked. */
export interface TakenLease extends Lease {
  readonly seconds: number;
}

export interface SearchArguments {
  readonly query: string;
  readonly limit?: number;
  readonly conversation?: string;
  readonly author?: string;
  readonly kind?: 'message' | 'event' | 'artifact';
  readonly since?: string;
  readonly until?: string;
  readonly recipient?: string;
  readonly total?: boolean;
  readonly cursor?: string;
}
export interface ReadArguments {
  readonly conversation: string;
  readonly fromSeq?: string;
  readonly direction?: 'forward' | 'backward';
  readonly limit?: number;
  readonly recipient?: string;
  readonly cursor?: string;
}
export interface AroundArguments {
  readonly conversation: string;
  readonly seq: string;
  readonly before?: number;
  readonly after?: number;
  readonly recipient?: string;
}
export interface ThreadArguments {
  readonly conversation: string;
  readonly seq: string;
  readonly limit?: number;
  readonly recipient?: string;
  readonly cursor?: string;
}
export interface ListArguments {
  readonly limit?: number;
  readonly recipient?: string;
  readonly cursor?: string;
}

/**
 * The gateway as a bridge or a delivery endpoint calls it. Every refusal is a value.
 *
 * Repeated after a failure that may pass, with backoff: what changes nothing (tools, `show…`, `list…`,
 * `readArtifact`, `version`), what carries an idempotency key (`openTurn`, `propose`, `saveArtifact`, `askRelease`), and
 * what is the same when it is said twice (`heartbeat`, `acknowledgeDelivery`, `approveDelivery`,
 * `discardDelivery`). Never repeated: a mint, and `takeLease`, `complete`, `stop`, `releaseDelivery`, where
 * a second request would be refused for what the first one did, and `claimDeliveries`, where it would
 * claim others.
 */
export interface Client extends DeliveryCalls, ArtifactCalls {
  /** The base URL, without a slash at its end. */
  readonly server: string;
  readonly clock: Clock;
  readonly grantMemory: GrantMemory;
  version(options?: CallOptions): Promise<Answer<Version>>;
  openTurn: Call<TurnRequest, { turnId: string }>;
  showTurn: Call<TurnName, Turn>;
  takeLease: Call<TurnName & { owner: string; seconds?: number }, TakenLease>;
  heartbeat: Call<TurnName & { lease: TakenLease }, { expiresAt: string }>;
  complete: Call<TurnName & { lease: Lease; outcome?: 'completed' | 'failed' }, { status: 'ok' }>;
  stop: Call<TurnName, { status: 'ok' }>;
  /** A tool by its name, whose answer has to have this shape. */
  callTool<Value>(
    grantToken: string,
    tool: string,
    args: object,
    shape: z.ZodType<Value>,
    options?: CallOptions,
  ): Promise<Answer<Value>>;
  search: GrantedCall<SearchArguments, MessagePacket>;
  read: GrantedCall<ReadArguments, MessagePacket>;
  around: GrantedCall<AroundArguments, MessagePacket>;
  thread: GrantedCall<ThreadArguments, MessagePacket>;
  listConversations: GrantedCall<ListArguments, ConversationPacket>;
  /** One request as it is, for a route that has no call of its own. Repeated only if it `mayRepeat`. */
  send: Send;
}

/** Seconds of a lease unless they are given. */
const LEASE_SECONDS = 30;

/** Makes a client. Throws a TypeError for a `baseUrl` that is none; nothing is asked yet. */
export function createClient(options: ClientOptions): Client {
  const server = serverAt(options.baseUrl);
  const fetch = options.fetch ?? ((...request) => globalThis.fetch(...request));
  const clock = options.clock ?? systemClock;
  const random = options.random ?? Math.random;
  const policy = { ...RETRIES, ...options.retry };

  async function sendAs<Value>(
    request: Exchange<Value> & { readonly mayRepeat: boolean },
    { signal, timeoutMs = options.timeoutMs ?? 10_000, retry = true }: CallOptions = {},
  ): Promise<Answer<Value>> {
    const once = () => exchange(fetch, server, request, timeoutMs, signal);
    if (!request.mayRepeat || !retry) return once();
    return retried(once, policy, clock, random, signal);
  }

  /** Sends with the client's own token. */
  const send: Send = (request, callOptions) =>
    sendAs({ ...request, token: options.token }, callOptions);
  const sendUnder =
    (token: string): Send =>
    (request, callOptions) =>
      sendAs({ ...request, token }, callOptions);

  const ofTurn = <Value>(
    step: string,
    { turnId }: TurnName,
    body: object,
    shape: z.ZodType<Value>,
  ) => ({
    method: 'POST' as const,
    path: `/v1/turns/${encodeURIComponent(turnId)}/${step}`,
    body,
    shape,
  });
  const within = (organization: string) => `?organization=${encodeURIComponent(organization)}`;

  const callTool: Client['callTool'] = (token, tool, args, shape, callOptions) =>
    sendAs(
      {
        method: 'POST',
        path: `/v1/tools/${encodeURIComponent(tool)}`,
        token,
        body: args,
        shape,
        mayRepeat: true,
      },
      callOptions,
    );
  const messageTool =
    <Arguments extends object>(tool: string): GrantedCall<Arguments, MessagePacket> =>
    (token, args, callOptions) =>
      callTool(token, tool, args, MessagePacketShape, callOptions);

  return {
    server,
    clock,
    grantMemory: options.grantMemory ?? memoryOfProcess(),
    send,
    ...deliveryCalls(send, sendUnder),
    ...artifactCalls(sendUnder),
    version: (callOptions) =>
      sendAs({ method: 'GET', path: '/v1', shape: VersionShape, mayRepeat: true }, callOptions),
    openTurn: ({ key = crypto.randomUUID(), ...body }, callOptions) =>
      send(
        {
          method: 'POST',
          path: '/v1/turns',
          body,
          idempotencyKey: key,
          shape: OpenedShape,
          mayRepeat: true,
        },
        callOptions,
      ),
    showTurn: ({ organization, turnId }, callOptions) =>
      send(
        {
          method: 'GET',
          path: `/v1/turns/${encodeURIComponent(turnId)}${within(organization)}`,
          shape: TurnShape,
          mayRepeat: true,
        },
        callOptions,
      ),
    takeLease: async ({ organization, turnId, owner, seconds = LEASE_SECONDS }, callOptions) => {
      const name = { organization, turnId };
      const body = { organization, owner, seconds };
      const taken = await send(
        { ...ofTurn('lease', name, body, LeaseShape), mayRepeat: false },
        callOptions,
      );
      if (!taken.ok) return taken;
      if (taken.value.owner !== owner) {
        return refuseLocally('malformed_answer', 'stop', { status: 200, detail: 'another owner' });
      }
      return { ok: true, value: { ...taken.value, seconds } };
    },
    heartbeat: ({ organization, turnId, lease }, callOptions) => {
      const body = { organization, lease: bare(lease), seconds: lease.seconds };
      const request = ofTurn('heartbeat', { organization, turnId }, body, ExtendedShape);
      return send({ ...request, mayRepeat: true }, callOptions);
    },
    complete: ({ organization, turnId, lease, outcome }, callOptions) => {
      const body = { organization, lease: bare(lease), ...(outcome !== undefined && { outcome }) };
      const request = ofTurn('complete', { organization, turnId }, body, DoneShape);
      return send({ ...request, mayRepeat: false }, callOptions);
    },
    stop: ({ organization, turnId }, callOptions) => {
      const request = ofTurn('stop', { organization, turnId }, { organization }, DoneShape);
      return send({ ...request, mayRepeat: false }, callOptions);
    },
    callTool,
    search: messageTool('search'),
    read: messageTool('read'),
    around: messageTool('around'),
    thread: messageTool('thread'),
    listConversations: (token, args, callOptions) =>
      callTool(token, 'list_conversations', args, ConversationPacketShape, callOptions),
  };
}

/** A base URL in one spelling. Throws for one that no request can go to, or that holds more than a place. */
function serverAt(baseUrl: string | URL): string {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  const isPlace =
    url !== undefined &&
    /^https?:$/.test(url.protocol) &&
    [url.username, url.password, url.search, url.hash].every((part) => part === '');
  if (!isPlace) {
    throw new TypeError(
      'baseUrl: it has to be an address of http or https, without a login, a query or a fragment',
    );
  }
  return url.href.replace(/\/+$/, '');
}

/** A lease as the gateway takes it. */
function bare({ leaseId, owner, fence }: Lease): Lease {
  return { leaseId, owner, fence };
}
