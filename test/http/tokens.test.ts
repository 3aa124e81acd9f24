import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ConfigError, readConfig } from '../../gateway/config.ts';
import { signToken } from '../../gateway/tokens/signed-token.ts';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Messages, TestOrganization, TestTurn } from '../support/organization.ts';

// What a token is taken for; what is tried with it is in test/attack.

let gateway: TestGateway;
let acme: TestOrganization;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.conversation('other', ['ana', 'cleo'], { aiThread: true });
  for (const body of ['canary one', 'canary two', 'canary three'])
    await acme.say('shared', 'ben', body);
  await acme.say('thread', 'ana', 'which canary');
  await acme.say('other', 'ana', 'which canary elsewhere');
});

function start(destination = 'thread'): Promise<TestTurn> {
  return acme.turn({ destination, requester: 'ana', trigger: '1' });
}

/** The claims of a token that the gateway signed. */
function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<
    string,
    unknown
  >;
}

describe('a grant token', () => {
  const search = (token: string) =>
    gateway.send('POST', '/v1/tools/search', { token, json: { query: 'canary' } });

  test('is taken as it was signed', async () => {
    const { grant } = await start();
    expect((await search(grant.token)).status).toBe(200);
  });

  test('is taken too when every id in it is as long as one may be', async () => {
    const long = (letter: string) => letter + '😀'.repeat(127);
    const org = await gateway.organization(long('o'));
    await org.users(long('u'), 'ben');
    await org.conversation(long('c'), [long('u'), 'ben'], { aiThread: true });
    await org.put(`personas/${encodeURIComponent(long('p'))}`, {
      ...{ custody: 'service', designated: true },
    });
    const trigger = await org.say(long('c'), long('u'), 'which canary');
    const request = { destination: long('c'), requester: long('u'), trigger };
    const { grant } = await org.turn({ ...request, persona: long('p') });
    expect(grant.token.length).toBeGreaterThan(3_000);
    expect((await search(grant.token)).status).toBe(200);
  });

  test('identifies a grant and permits nothing: what else it says moves no scope', async () => {
    const { grant } = await start();
    const { keys, config } = gateway.gateway;
    const forged = await signToken(
      keys,
      config.issuer,
      { typ: 'earshot-grant+jwt', audience: 'earshot' },
      {
        ...claimsOf(grant.token),
        ...{ sub: 'cleo', dest: 'other', org: 'elsewhere', ah: 'f'.repeat(64) },
      },
    );
    const { body } = await search(forged);

    expect((body as Messages).items.map(({ source }) => source.conversation)).not.toContain(
      'other',
    );
  });

  test.each(['NaN', 'Infinity', '5x', '-1', '1e9', '', ' 5', '61', '0x5'])(
    'is checked with a clock tolerance that is a bounded number, and %j stops the start',
    (text) => {
      expect(() => readConfig({ EARSHOT_CLOCK_TOLERANCE_SECONDS: text })).toThrow(ConfigError);
    },
  );

  test('is nowhere stored, and neither is its id', async () => {
    const { grant } = await start();
    const { jti } = claimsOf(grant.token) as { jti: string };
    const tables = await gateway.owner<{ name: string }[]>`
      select relname as name from pg_class where relnamespace = 'earshot'::regnamespace and relkind = 'r'`;
    for (const { name } of tables) {
      const rows = await gateway.owner.unsafe(
        `select from earshot.${name} t where t::text like $1 or t::text like $2`,
        [`%${jti}%`, `%${grant.token}%`],
      );
      expect({ name, rows: rows.length }).toEqual({ name, rows: 0 });
    }
  });
});
