import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// Whose a session is: the grant's own, for the audience that it was opened for.

let gateway: TestGateway;
let acme: TestOrganization;
let mine: TestTurn;
let log: TestLog;
let id = 'of an entry';

beforeAll(async () => {
  gateway = await openTestGateway();
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.put('personas/other', { custody: 'service', designated: true });
  for (const place of ['thread', 'elsewhere'])
    await acme.conversation(place, place === 'thread' ? ['ana', 'ben'] : ['ana', 'cleo'], {
      aiThread: true,
    });
  await acme.say('thread', 'ana', 'a question');
  await acme.say('elsewhere', 'ana', 'a question');
  mine = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  log = logOf(gateway, mine);
  [id = ''] = await log.append(entry(text('mine CANARY')));
  await log.fork('side');
});

afterAll(() => gateway.close());

const theirs = { source: 'theirs', parts: [{ text: 'theirs' }] };

/** Every route of a session, with what it takes. */
const routes: [method: string, path: () => string, json?: () => object][] = [
  ['GET', () => ''],
  ['POST', () => '/entries', () => ({ entries: [entry(text('theirs'))] })],
  ['POST', () => '/entries?agent=resident', () => ({ entries: [entry(text('theirs'))] })],
  ['GET', () => '/entries'],
  ['GET', () => '/entries?agent=resident'],
  ['GET', () => '/entries?agent=nobody'],
  ['PATCH', () => `/entries/${id}`, () => ({ revision: '1', edit: { blocks: [text('theirs')] } })],
  ['POST', () => '/compile', () => ({ injections: [theirs] })],
  ['POST', () => '/preview', () => ({ injections: [theirs] })],
  ['POST', () => '/search', () => ({ query: 'canary' })],
  ['POST', () => '/summary-input', () => ({ from: id, to: id })],
  ['POST', () => '/summaries', () => ({ from: id, to: id, state: '0'.repeat(64), text: 'theirs' })],
  ['GET', () => '/summaries'],
  ['POST', () => '/injections', () => ({ injections: [theirs] })],
  ['GET', () => '/pins'],
  ['PUT', () => `/pins/${id}`],
  ['DELETE', () => `/pins/${id}`],
  ['POST', () => '/namespaces', () => ({ name: 'theirs' })],
  ['POST', () => '/fork', () => ({ name: 'theirs' })],
  [
    'POST',
    () => '/v1/retrieve?session={session}',
    () => ({ calls: [{ tool: 'search', arguments: { query: 'question' } }], store: true }),
  ],
  ['PUT', () => '/primary', () => ({ agent: 'resident' })],
  ['POST', () => '/close'],
];

const others = {
  'of another conversation': () =>
    acme.turn({ destination: 'elsewhere', requester: 'ana', trigger: '1' }),
  'of another persona': () =>
    acme.turn({ destination: 'thread', requester: 'ana', trigger: '1', persona: 'other' }),
  'of another thread': () =>
    acme.turn({ destination: 'thread', requester: 'ana', trigger: '1', threadKey: 'second' }),
};

/** What is asked, with the audience field in one way or another. */
async function ask(
  token: string,
  session: string,
  audience: string,
  [method, path, json]: (typeof routes)[number],
) {
  const asked = path();
  const place = asked.startsWith('/v1/')
    ? asked.replace('{session}', session)
    : `/v1/sessions/${session}${asked}`;
  const stated = place.includes('?') ? audience.replace('?', '&') : audience;
  return gateway.send(method, `${place}${stated}`, {
    token,
    key: 'theirs',
    ...(json !== undefined && { json: json() }),
  });
}

describe.each(Object.entries(others))('a grant %s', (_which, open) => {
  test.each(routes.map((route) => [`${route[0]} ${route[1]()}`, route] as const))(
    'does not open the session by %s, however it states the audience',
    async (_title, route) => {
      const { grant } = await open();
      const before =
        await gateway.owner`select * from earshot.log_entries order by session_id, change`;
      const stated = {
        theirs: [`?audience=${mine.grant.audienceHash}`, 404],
        own: [`?audience=${grant.audienceHash}`, 404],
        absent: ['', 400],
        empty: ['?audience=', 400],
        null: ['?audience=null', 400],
        zero: [`?audience=${'0'.repeat(64)}`, 404],
      } as const;
      for (const [audience, status] of Object.values(stated)) {
        const answer = await ask(grant.token, mine.grant.sessionId, audience, route);
        expect(answer.status).toBe(status);
        expect(answer.code).toBe(status === 404 ? 'session_not_yours' : 'invalid_input');
        expect(JSON.stringify(answer.body)).not.toContain('CANARY');
      }
      const unknown = await ask(
        grant.token,
        '00000000-0000-8000-8000-000000000000',
        `?audience=${grant.audienceHash}`,
        route,
      );
      const foreign = await ask(
        grant.token,
        mine.grant.sessionId,
        `?audience=${grant.audienceHash}`,
        route,
      );
      const told = ({ body }: typeof foreign) => ({ ...(body as object), decision: undefined });
      expect(told(foreign)).toEqual(told(unknown));
      expect(
        await gateway.owner`select * from earshot.log_entries order by session_id, change`,
      ).toEqual(before);
      expect(await log.texts()).toEqual(['mine CANARY']);
    },
  );
});

describe('the own grant', () => {
  test.each(routes.slice(0, -1).map((route) => [`${route[0]} ${route[1]()}`, route] as const))(
    'is refused by %s without the audience, with an empty one, and with another',
    async (_title, route) => {
      const asked = (audience: string) => ask(mine.grant.token, log.session, audience, route);
      expect((await asked('')).status).toBe(400);
      expect((await asked('?audience=')).status).toBe(400);
      expect((await asked(`?audience=${'0'.repeat(64)}`)).code).toBe('session_not_yours');
    },
  );

  test('opens the forks of its session too, and nobody else does', async () => {
    const fork = await log.fork('side');
    expect(await fork.texts()).toEqual(['mine CANARY']);
    const other = await acme.turn({ destination: 'elsewhere', requester: 'ana', trigger: '1' });
    expect((await fork.by(other).compile()).code).toBe('session_not_yours');
  });

  test('is refused once somebody joins, and the one of the new audience has a session of its own', async () => {
    const place = 'changing';
    await acme.conversation(place, ['ana', 'ben'], { aiThread: true });
    await acme.say(place, 'ana', 'a question');
    const before = await acme.turn({ destination: place, requester: 'ana', trigger: '1' });
    await logOf(gateway, before).append(entry(text('before CANARY')));
    await acme.put(`conversations/${place}/members/cleo`, { history: 'all' });
    expect((await logOf(gateway, before).compile()).code).toBe('audience_changed');
    const after = await acme.turn({ destination: place, requester: 'ana', trigger: '1' });
    expect(await logOf(gateway, after).texts()).toEqual([]);
    expect((await logOf(gateway, before).by(after).compile()).code).toBe('session_not_yours');
  });
});
