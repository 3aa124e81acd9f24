import { randomUUID } from 'node:crypto';
import type { z } from '@hono/zod-openapi';
import type {
  ArtifactItem,
  ConversationPacket,
  MessageItem,
  MessagePacket,
} from '../../gateway/packet.ts';
import type {
  ClaimedShape,
  DeliveryShape,
  ReleasedShape,
} from '../../gateway/shapes/delivery-shape.ts';
import { ok, type Answer, type TestGateway } from './gateway.ts';

/** A packet where no artifact is about. */
export type Messages = Omit<z.infer<typeof MessagePacket>, 'items'> & {
  readonly items: z.infer<typeof MessageItem>[];
};
/** A packet of artifacts alone. */
export type Artifacts = Omit<Messages, 'items'> & {
  readonly items: z.infer<typeof ArtifactItem>[];
};
export type Conversations = z.infer<typeof ConversationPacket>;
export type Delivery = z.infer<typeof DeliveryShape>;
type Released = z.infer<typeof ReleasedShape>;
export type Claimed = z.infer<typeof ClaimedShape>['deliveries'][number];

/** Facts and turns of one organization, sent over HTTP. What returns no `Answer` throws on a refusal. */
export interface TestOrganization {
  readonly name: string;
  put(path: string, body: unknown): Promise<{ outcome?: string; seq?: string }>;
  remove(path: string): Promise<void>;
  /** Lines of NDJSON, in order. */
  facts(...lines: object[]): Promise<void>;
  users(...ids: string[]): Promise<void>;
  /** A conversation with its members: by name, who read all, or with a history. */
  conversation(
    id: string,
    members: readonly (string | Member)[],
    more?: Readonly<Record<string, unknown>>,
  ): Promise<void>;
  /** Appends a message and gives its sequence. */
  say(conversation: string, author: string, body: string, more?: object): Promise<string>;
  openTurn(request: TurnRequest, options?: { token?: string; key?: string }): Promise<Answer>;
  /** Opens a turn, takes its lease, and mints a grant. */
  turn(request: TurnRequest): Promise<TestTurn>;
  release(delivery: Pick<Delivery, 'id' | 'clearance'>, more?: object): Promise<Answer<Released>>;
  acknowledge(
    delivery: Pick<Delivery, 'id'>,
    outcome: 'delivered' | 'failed',
    message?: string,
    more?: { readonly fence?: string; readonly reason?: string },
  ): Promise<Answer>;
  /** What the queue has for a worker, by default as much as it may take, for as long. */
  claim(more?: object): Promise<Claimed[]>;
  delivery(id: string): Promise<Delivery>;
}

interface Member {
  readonly user: string;
  readonly history: unknown;
  readonly expiresAt?: string;
}

interface TurnRequest {
  readonly destination: string;
  readonly requester: string;
  /** `assistant` unless given. */
  readonly persona?: string;
  /** What starts the turn: the sequence of a message in the thread, or all of it. */
  readonly trigger: string | object;
  readonly tools?: readonly string[];
  readonly threadKey?: string;
}

interface Grant {
  readonly token: string;
  readonly grantId: string;
  readonly sessionId: string;
  readonly sessionEpoch: string;
  readonly audienceHash: string;
  readonly mode: string;
  readonly projectBound?: string;
  readonly policyRevision: string;
  readonly conversations: number;
  readonly readers: { readonly people: number; readonly classes: number };
}

/** A running turn with a grant. */
export interface TestTurn {
  readonly id: string;
  readonly lease: { readonly leaseId: string; readonly owner: string; readonly fence: string };
  readonly grant: Grant;
  /** By another caller where a token is given. */
  mint(token?: string): Promise<Answer<Grant>>;
  end(what: 'complete' | 'stop'): Promise<Answer>;
  tool<Body = Messages>(name: string, args: object): Promise<Answer<Body>>;
  /** The texts that a search finds. */
  search(query: string, more?: object): Promise<string[]>;
  /** Proposes a payload, to the turn's own destination unless another is named. */
  propose(
    payload: string,
    options?: {
      destination?: string;
      key?: string;
      contentType?: string;
      queue?: boolean;
      sendAt?: string;
      approval?: boolean;
      edits?: string;
    },
  ): Promise<Answer<Delivery>>;
}

/** Makes an organization with one persona, `assistant`. */
export async function testOrganization(
  {
    send,
    tokens,
  }: Pick<TestGateway, 'send'> & { readonly tokens: Omit<TestGateway['tokens'], 'names'> },
  name: string,
): Promise<TestOrganization> {
  const at = `/v1/organizations/${encodeURIComponent(name)}`;
  const { ingest, operator, bridge, deliver } = tokens;
  const operated = /^(guard$|stops\/|$)/;
  const tokenFor = (path: string) => (operated.test(path) ? operator : ingest);
  const endpoint = (path: string, json: object) =>
    send('POST', `/v1/deliveries/${path}`, {
      token: deliver,
      json: { organization: name, ...json },
    });

  const organization: TestOrganization = {
    name,
    async put(path, json) {
      const place = path === '' ? at : `${at}/${path}`;
      return ok(await send('PUT', place, { token: tokenFor(path), json })) as { seq?: string };
    },
    async remove(path) {
      ok(await send('DELETE', `${at}/${path}`, { token: tokenFor(path) }));
    },
    async facts(...lines) {
      const body = lines.map((line) => JSON.stringify(line)).join('\n');
      const headers = { 'content-type': 'application/x-ndjson' };
      const query = `organization=${encodeURIComponent(name)}`;
      ok(await send('POST', `/v1/facts?${query}`, { token: ingest, body, headers }));
    },
    users: (...ids) =>
      organization.facts(...ids.map((id) => ({ fact: 'user', id, kind: 'member' }))),
    conversation: (id, members, more = {}) =>
      organization.facts(
        { fact: 'conversation', id, kind: 'group', visibility: 'members', ...more },
        {
          fact: 'members',
          conversation: id,
          members: members.map((member) =>
            typeof member === 'string' ? { user: member, history: 'all' } : member,
          ),
        },
      ),
    async say(conversation, author, body, more = {}) {
      const message = { author: { user: author }, body, sentAt: new Date().toISOString(), ...more };
      const [place, id] = [encodeURIComponent(conversation), randomUUID()];
      const { seq } = await organization.put(`conversations/${place}/messages/${id}`, message);
      return seq ?? '';
    },
    openTurn: ({ trigger, ...request }, { token = bridge, key = randomUUID() } = {}) =>
      send('POST', '/v1/turns', {
        token,
        key,
        json: {
          organization: name,
          persona: 'assistant',
          ...request,
          trigger: typeof trigger === 'string' ? { kind: 'thread', seq: trigger } : trigger,
        },
      }),
    async turn(request) {
      const { turnId } = ok(await organization.openTurn(request)) as { turnId: string };
      return carryTurn(send, bridge, name, turnId, request.destination);
    },
    release: ({ id, clearance }, more = {}) =>
      endpoint(`${id}/release`, { clearance, ...more }) as Promise<Answer<Released>>,
    acknowledge: ({ id }, outcome, message, more = {}) =>
      endpoint(`${id}/acknowledge`, {
        outcome,
        ...(message !== undefined && { message }),
        ...more,
      }),
    async claim(more = {}) {
      const wanted = { worker: 'worker', limit: 100, leaseSeconds: 600, ...more };
      return (ok(await endpoint('claim', wanted)) as z.infer<typeof ClaimedShape>).deliveries;
    },
    async delivery(id) {
      const place = `/v1/deliveries/${id}?organization=${encodeURIComponent(name)}`;
      return ok(await send('GET', place, { token: deliver })) as Delivery;
    },
  };
  await organization.put('', {});
  await organization.put('personas/assistant', { custody: 'service', designated: true });
  return organization;
}

/** Takes the lease of an open turn and mints its first grant. */
export async function carryTurn(
  send: TestGateway['send'],
  bridge: string,
  organization: string,
  id: string,
  destination: string,
): Promise<TestTurn> {
  const step = (path: string, json: object, token = bridge) =>
    send('POST', `/v1/turns/${id}/${path}`, { token, json: { organization, ...json } });
  const { leaseId, owner, fence } = ok(
    await step('lease', { owner: 'worker' }),
  ) as TestTurn['lease'];
  const lease = { leaseId, owner, fence };
  const mint = (token?: string) => step('grants', { lease }, token) as Promise<Answer<Grant>>;
  const grant = ok(await mint());

  const tool = <Body>(name: string, json: object) =>
    send('POST', `/v1/tools/${name}`, { token: grant.token, json }) as Promise<Answer<Body>>;
  return {
    id,
    lease,
    grant,
    mint,
    tool,
    end: (what) => step(what, what === 'complete' ? { lease } : {}),
    async search(query, more = {}) {
      const { items } = ok(await tool<Messages>('search', { query, ...more }));
      return items.map(({ text }) => text);
    },
    propose: (payload, { key = randomUUID(), ...more } = {}) =>
      send('POST', '/v1/deliveries', {
        token: grant.token,
        key,
        json: { destination, payload, ...more },
      }) as Promise<Answer<Delivery>>,
  };
}
