import { randomBytes } from 'node:crypto';
import { decodeJwt } from 'jose';
import { digestOf } from '../../gateway/tokens/grant-token.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Delivery, TestTurn } from '../support/organization.ts';

/** A word that the server's own catalogs do not hold, and that the stemmer leaves as it is. */
export const CANARY = 'zebrafinch';

/**
 * Two organizations in which whatever holds content holds the word {@link CANARY}: bodies, terms, titles, payloads, late
 * messages. Nothing else does.
 */
export interface CanaryHouse {
  readonly gateway: TestGateway;
  readonly acme: House;
  readonly other: House;
  /** A login with the right to connect and nothing else. */
  readonly strangerUrl: string;
  close(): Promise<void>;
}

export interface House {
  readonly name: string;
  /** The organization's key, which no caller is told. */
  readonly key: string;
  readonly turn: TestTurn;
  readonly delivery: Delivery;
  /** The digest of a live grant, and of one that a newer grant of its turn has ended. */
  readonly live: Buffer;
  readonly ended: Buffer;
}

export async function buildCanaryHouse(): Promise<CanaryHouse> {
  const gateway = await openTestGateway();
  const stranger = `earshot_stranger_${randomBytes(6).toString('hex')}`;
  const password = randomBytes(12).toString('hex');
  await gateway.owner.unsafe(`create role ${stranger} login password '${password}'`);
  await gateway.owner.unsafe(`grant connect on database ${gateway.target.name} to ${stranger}`);
  const [acme, other] = [await buildHouse(gateway, 'acme'), await buildHouse(gateway, 'other')];
  await gateway.owner.unsafe('analyze');
  return {
    gateway,
    acme,
    other,
    strangerUrl: gateway.target.gatewayUrl.replace(/\/\/[^/?#]*@/, `//${stranger}:${password}@`),
    async close() {
      await gateway.owner.unsafe(`drop owned by ${stranger}`);
      await gateway.owner.unsafe(`drop role ${stranger}`);
      await gateway.close();
    },
  };
}

async function buildHouse(gateway: TestGateway, name: string): Promise<House> {
  const org = await gateway.organization(name);
  await org.users('ana', 'ben', 'cleo');
  const title = `${CANARY} title of ${name}`;
  await org.conversation('thread', ['ana', 'ben'], { aiThread: true, title });
  await org.conversation('source', ['ana', 'ben'], { title });
  await org.conversation('secret', ['ben', { user: 'cleo', history: 'from_join' }], { title });
  await org.say('source', 'ben', `${CANARY} bird of ${name}`);
  for (let i = 0; i < 30; i++) await org.say('secret', 'ben', `${CANARY} secret of ${name}`);
  await org.say('secret', 'ben', `${CANARY} late`, { sentAt: '2001-01-01T00:00:00Z' });
  await org.say('thread', 'ana', `${CANARY} ask`);
  const turn = await org.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  const ended = digestOfToken(turn.grant.token);
  const { token } = ok(await turn.mint());
  await gateway.send('POST', '/v1/tools/search', { token, json: { query: 'bird' } });
  const delivery = ok(
    await gateway.send('POST', '/v1/deliveries', {
      token,
      key: `delivery-of-${name}`,
      json: { destination: 'thread', payload: `${CANARY} answer of ${name}` },
    }),
  ) as Delivery;
  const [row] = await gateway.owner<{ key: string }[]>`
    select id as key from earshot.organizations where external_id = ${name}`;
  return { name, key: row?.key ?? '', turn, delivery, live: digestOfToken(token), ended };
}

function digestOfToken(token: string): Buffer {
  return Buffer.from(digestOf(decodeJwt(token).jti ?? ''));
}
