import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { pairOf, type Pair } from './pair.ts';

// What changes what a search finds: the text search configuration, and what happens to a message.

let gateway: TestGateway;
let acme: Pair['acme'];
let start: Pair['start'];
let write: Pair['write'];

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  ({ acme, start, write } = await pairOf(gateway));
  await acme.facts(
    { fact: 'project', id: 'apollo', members: ['ana', 'ben', 'cleo'] },
    { fact: 'conversation', id: 'closed', kind: 'channel', visibility: 'members' },
    {
      fact: 'conversation',
      id: 'apollo',
      kind: 'channel',
      visibility: 'project',
      project: 'apollo',
    },
    { fact: 'conversation', id: 'open', kind: 'channel', visibility: 'organization' },
    { fact: 'member', conversation: 'closed', user: 'ana', history: 'all' },
    { fact: 'member', conversation: 'closed', user: 'ben', history: 'all' },
  );
});

const places = ['closed', 'apollo', 'open'] as const;

describe('another text search configuration', () => {
  const configure = (textSearch: string) =>
    gateway.send('PUT', `/v1/organizations/${acme.name}`, {
      token: gateway.tokens.operator,
      json: { textSearch },
    });
  const revisions = () => gateway.owner`
    select 'organization' as kind, null as id, r.revision, o.policy_revision
    from earshot.organization_revisions r join earshot.organizations o on o.id = r.org_id
    where o.external_id = ${acme.name}
    union all select 'conversation', r.conversation_id, r.revision, null
    from earshot.conversation_revisions r join earshot.organizations o on o.id = r.org_id
    where o.external_id = ${acme.name}
    union all select 'project', r.project_id, r.revision, null
    from earshot.project_revisions r join earshot.organizations o on o.id = r.org_id
    where o.external_id = ${acme.name} order by 1, 2`;

  test('reads old messages anew, in every kind of conversation, and a live grant goes on', async () => {
    for (const place of places) await write(place, `m-${place}`, `Die Häuser in ${place}`);
    const turn = await start();
    const before = await revisions();
    expect(await turn.search('Haus')).toEqual([]);
    expect(await turn.search('die')).toHaveLength(3);

    ok(await configure('german'));
    expect(await turn.search('Haus')).toHaveLength(3);
    expect(await turn.search('hauses')).toHaveLength(3);
    expect(await turn.search('die')).toEqual([]);
    expect(await revisions()).toEqual(before);
    await write('open', 'new', 'ein Haus');
    expect(await turn.search('Häusern')).toHaveLength(4);

    ok(await configure('english'));
    expect(await turn.search('Häuser')).toHaveLength(3);
    expect(await turn.search('Haus')).toEqual(['ein Haus']);
  });

  test('is one of this organization alone', async () => {
    const other = await pairOf(gateway);
    await other.acme.conversation('open', [], { visibility: 'organization' });
    await other.write('open', 'm', 'Häuser');
    ok(await configure('german'));

    expect(await (await other.start()).search('Haus')).toEqual([]);
    expect(await (await other.start()).search('Häuser')).toEqual(['Häuser']);
  });

  test.each(['klingon', 'pg_catalog.german', 'German', '', "german'; --"])(
    'that the server does not have is refused and changes nothing: %j',
    async (name) => {
      await write('open', 'm', 'the houses and Häuser');
      const turn = await start();
      const before = await revisions();
      const answer = await gateway.send('PUT', `/v1/organizations/${acme.name}`, {
        token: gateway.tokens.operator,
        json: { textSearch: name, guard: 'paused', policyRevision: '7' },
      });

      expect(answer.code).toBe('invalid_input');
      expect(await revisions()).toEqual(before);
      expect(await turn.search('house')).toEqual(['the houses and Häuser']);
      expect(await turn.search('Haus')).toEqual([]);
    },
  );
});

describe.each(places)('a message in a conversation such as %s', (place) => {
  test('is found by its newest words once it was edited', async () => {
    await write(place, 'm', 'lantern');
    const turn = await start();
    expect(await turn.search('lantern')).toEqual(['lantern']);
    await write(place, 'm', 'harbor');

    expect(await turn.search('lantern')).toEqual([]);
    expect(await turn.search('harbor')).toEqual(['harbor']);
  });

  test('is not found once it was deleted, and weighs nothing', async () => {
    await write(place, 'm1', 'lantern');
    await write(place, 'm2', 'lantern harbor');
    await acme.remove(`conversations/${place}/messages/m1`);
    const turn = await start();
    const scoreOf = async () => {
      const { items } = ok(await turn.tool('search', { query: 'lantern' }));
      return items.map(({ text, score }) => [text, score]);
    };
    const deleted = await scoreOf();
    await write(place, 'm3', 'pewter');
    await acme.remove(`conversations/${place}/messages/m3`);

    expect(deleted).toEqual([['lantern harbor', expect.any(Number)]]);
    expect(await scoreOf()).toEqual(deleted);
  });

  test('that arrived late is found when it is admitted, and by nobody before', async () => {
    await write(place, 'first', 'harbor');
    await acme.put(`conversations/${place}/members/cleo`, { history: 'from_join' });
    const sentAt = '2020-01-01T00:00:00Z';
    expect(await write(place, 'late', 'lantern', { sentAt })).toMatchObject({ outcome: 'late' });
    const turn = await start();
    expect(await turn.search('lantern')).toEqual([]);
    expect(ok(await turn.tool('search', { query: 'lantern', total: true })).total).toEqual({
      messages: '0',
      complete: true,
    });

    const room = `/v1/organizations/${acme.name}/conversations/${place}/late`;
    ok(await gateway.send('POST', `${room}/late/admit`, { token: gateway.tokens.ingest }));
    expect(await turn.search('lantern')).toEqual(['lantern']);
  });

  test('by an assistant that no delivery accounts for is not found from elsewhere', async () => {
    await write(place, 'm', 'lantern', { author: { persona: 'assistant' } });
    await write(place, 'n', 'lantern by ana');
    const turn = await start();

    expect(await turn.search('lantern')).toEqual(['lantern by ana']);
  });

  test('is not found once the conversation was deleted', async () => {
    await write(place, 'm', 'lantern');
    const turn = await start();
    expect(await turn.search('lantern')).toEqual(['lantern']);
    await acme.remove(`conversations/${place}`);

    expect(await turn.search('lantern')).toEqual([]);
    expect(await turn.search('lantern', { conversation: place })).toEqual([]);
  });
});

describe('a conversation that is opened to the organization', () => {
  const visibility = (to: string, more: object = {}) =>
    acme.facts({ fact: 'conversation', id: 'of-cleo', kind: 'channel', visibility: to, ...more });

  test('is searched from its default floor, and no more once it is closed', async () => {
    await acme.conversation('of-cleo', ['cleo']);
    await write('of-cleo', 'm1', 'lantern one', { author: { user: 'cleo' } });
    const turn = await start();
    expect(await turn.search('lantern')).toEqual([]);

    await visibility('organization');
    expect(await turn.search('lantern')).toEqual([]);
    await write('of-cleo', 'm2', 'lantern two', { author: { user: 'cleo' } });
    expect(await turn.search('lantern')).toEqual(['lantern two']);
    await visibility('organization', { defaultFloor: '1' });
    expect(await turn.search('lantern')).toEqual(['lantern two', 'lantern one']);
    await visibility('organization', { defaultFloor: '3' });
    expect(await turn.search('lantern')).toEqual([]);
    await visibility('organization', { defaultFloor: '2' });
    expect(await turn.search('lantern')).toEqual(['lantern two']);
    await visibility('members');
    expect(await turn.search('lantern')).toEqual([]);
  });

  test('is searched when its import ends, and not before', async () => {
    await visibility('organization', { staged: true });
    await write('of-cleo', 'm', 'lantern', { author: { user: 'cleo' } });
    const turn = await start();
    expect(await turn.search('lantern')).toEqual([]);
    ok(
      await gateway.send('POST', `/v1/organizations/${acme.name}/conversations/of-cleo/open`, {
        token: gateway.tokens.ingest,
      }),
    );

    expect(await turn.search('lantern')).toEqual(['lantern']);
  });
});
