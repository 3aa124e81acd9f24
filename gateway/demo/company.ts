import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { ExternalId } from '../../policy/identity.ts';
import { addClient, type ClientScope } from '../../sql/clients.ts';
import { openDatabase } from '../../sql/database.ts';
import { localCaller, type LocalCaller } from '../cli/local-caller.ts';
import { holdTurn, type HeldTurn, type TurnRequest } from '../cli/turn.ts';
import type { Instance } from '../instance.ts';
import { ConversationPacket, MessagePacket, type MessageItem } from '../packet.ts';
import { DeliveryShape, ReleasedShape } from '../shapes/delivery-shape.ts';
import { signCaller } from '../tokens/caller-token.ts';

export const PERSONA = 'assistant';

export type Packet = Omit<z.infer<typeof MessagePacket>, 'items'> & {
  readonly items: z.infer<typeof MessageItem>[];
};
type Delivery = z.infer<typeof DeliveryShape>;

/** Every part of a deployment, each with a token of its own, over the gateway's HTTP app. */
export interface Company {
  readonly caller: LocalCaller;
  /** Writes facts, as a host's ingest does. Throws on a refusal: the demo's own facts are sound. */
  put(path: string, body: object): Promise<void>;
  putLines(lines: readonly object[]): Promise<void>;
  /** Works a turn up to its grant, as a bridge does. */
  turn(request: Omit<TurnRequest, 'organization' | 'persona'>): Promise<HeldTurn>;
  /** Asks for another grant of a turn: the code, or undefined when it was given. */
  mintAgain(turn: HeldTurn): Promise<string | undefined>;
  /** Searches messages under a grant: the packet, or the code of the refusal. */
  search(turn: HeldTurn, query: string): Promise<Packet | string>;
  /** The conversations in scope with their floors: the first hundred. */
  floors(turn: HeldTurn): Promise<ReadonlyMap<string, bigint>>;
  propose(turn: HeldTurn, destination: ExternalId, payload: string): Promise<Delivery>;
  delivery(id: string): Promise<Delivery>;
  /** Releases, as a delivery endpoint does: the bytes, or the code and the recovery. */
  release(delivery: Delivery): Promise<{ payload: string } | { code: string; recovery: string }>;
  acknowledge(delivery: Delivery, message: string): Promise<void>;
}

export async function openCompany(instance: Instance, organization: ExternalId): Promise<Company> {
  const { keys, config } = instance.gateway;
  const caller = localCaller(instance.app);
  const administrator = openDatabase(instance.adminUrl ?? '', { max: 1 });
  const register = async (id: string, scopes: ClientScope[]) => {
    await addClient(administrator, { id, scopes, organizations: ['*'], personas: [PERSONA] });
    return signCaller(keys, config.issuer, id, 3600);
  };
  const ingest = await register('demo-ingest', ['ingest', 'operator']);
  const bridge = await register('demo-bridge', ['bridge']);
  const endpoint = await register('demo-endpoint', ['deliver']);
  await administrator.close();
  const home = `/v1/organizations/${encodeURIComponent(organization)}`;

  async function must<Shape extends z.ZodType>(
    shape: Shape,
    request: Parameters<LocalCaller['call']>[1],
  ): Promise<z.infer<Shape>> {
    const answer = await caller.call(shape, request);
    if (answer.ok) return answer.body;
    throw new Error(`${request.path} answered ${answer.problem.code}`);
  }
  const post = (path: string, token: string, body: object, key?: string) => ({
    method: 'POST' as const,
    path,
    token,
    body,
    ...(key !== undefined && { key }),
  });

  return {
    caller,
    async put(path, body) {
      await must(z.unknown(), { method: 'PUT', path: `${home}${path}`, token: ingest, body });
    },
    async putLines(lines) {
      const path = `/v1/facts?organization=${encodeURIComponent(organization)}`;
      await must(z.unknown(), { method: 'POST', path, token: ingest, lines });
    },
    async turn(request) {
      const held = await holdTurn(caller, bridge, { ...request, organization, persona: PERSONA });
      if (held.ok) return held;
      throw new Error(`a turn was refused: ${held.problem.code}`);
    },
    async mintAgain({ turnId, lease }) {
      const path = `/v1/turns/${turnId}/grants`;
      const minted = await caller.call(z.unknown(), post(path, bridge, { organization, lease }));
      return minted.ok ? undefined : minted.problem.code;
    },
    async search({ grant }, query) {
      const body = { query, limit: 100 };
      const found = await caller.call(MessagePacket, post('/v1/tools/search', grant.token, body));
      if (!found.ok) return found.problem.code;
      // Nothing in the demo is saved.
      const items = found.body.items.filter((item) => item.kind !== 'artifact');
      return { ...found.body, items };
    },
    async floors({ grant }) {
      const path = '/v1/tools/list_conversations';
      const floors = new Map<string, bigint>();
      let cursor: string | undefined;
      do {
        const body = { limit: 100, ...(cursor !== undefined && { cursor }) };
        const page = await must(ConversationPacket, post(path, grant.token, body));
        for (const { conversation, envelope } of page.items) {
          floors.set(conversation, BigInt(envelope.history.fromSeq));
        }
        cursor = page.cursor;
      } while (cursor !== undefined);
      return floors;
    },
    propose({ grant }, destination, payload) {
      const body = { destination, payload };
      return must(DeliveryShape, post('/v1/deliveries', grant.token, body, randomUUID()));
    },
    delivery(id) {
      const path = `/v1/deliveries/${id}?organization=${encodeURIComponent(organization)}`;
      return must(DeliveryShape, { method: 'GET', path, token: endpoint });
    },
    async release({ id, clearance = '' }) {
      const body = { organization, clearance };
      const path = `/v1/deliveries/${id}/release`;
      const released = await caller.call(ReleasedShape, post(path, endpoint, body));
      if (released.ok) return { payload: released.body.payload };
      const { code, recovery = '' } = released.problem;
      return { code, recovery };
    },
    async acknowledge({ id }, message) {
      const body = { organization, outcome: 'delivered', message };
      await must(z.unknown(), post(`/v1/deliveries/${id}/acknowledge`, endpoint, body));
    },
  };
}
