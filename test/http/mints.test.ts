import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { carryTurn, type TestOrganization, type TestTurn } from '../support/organization.ts';

// Case 15: minting again, and what ends a turn's grants for good.

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

const THREAD = { kind: 'group', visibility: 'members', aiThread: true };

/** Somebody joins the thread, and leaves it again. */
function joined(user: string, history: string) {
  const member = `conversations/thread/members/${user}`;
  return [() => acme.put(member, { history }), () => acme.remove(member)] as const;
}

/** A field of the organization takes one value, and another one again. */
function toggled(path: string, field: string, one: string, other: string) {
  return [
    () => acme.put(path, { [field]: one }),
    () => acme.put(path, { [field]: other }),
  ] as const;
}

describe('another grant for a turn', () => {
  test('of the same audience ends the one before it', async () => {
    const turn = await start();
    const again = ok(await turn.mint());

    expect((await turn.tool('search', { query: 'canary' })).code).toBe('grant_expired');
    expect((await turn.propose('x')).code).toBe('grant_expired');
    const used = await gateway.send('POST', '/v1/tools/search', {
      token: again.token,
      json: { query: 'canary' },
    });
    expect(used.status).toBe(200);
    expect(again.sessionId).toBe(turn.grant.sessionId);
  });

  test.each([
    ['a reader left', () => acme.remove('conversations/thread/members/ben')],
    ['a reader joined', () => acme.put('conversations/thread/members/cleo', { history: 'all' })],
  ])('is refused when %s, and a new turn takes one', async (_what, change) => {
    const turn = await start();
    await change();

    const refused = await turn.mint();
    expect(refused).toMatchObject({
      status: 409,
      code: 'audience_changed',
      body: { recovery: 'rebuild' },
    });
    expect(JSON.stringify(refused.body)).not.toMatch(/ana|ben|cleo/);
    expect((await start()).grant.audienceHash).not.toBe(turn.grant.audienceHash);
  });

  test('refused because readers moved tells who they are to a client that may see names alone', async () => {
    const turn = await start();
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    await acme.remove('conversations/thread/members/ben');
    const entitled = await gateway.addCaller({ id: 'entitled', scopes: ['bridge', 'names'] });

    const counts = { added: 1, gone: 1, floorsMoved: 0 };
    const [plain, named] = [await turn.mint(), await turn.mint(entitled)];
    expect((plain.body as { changes?: unknown }).changes).toEqual(counts);
    expect((named.body as { changes?: unknown }).changes).toEqual({
      ...counts,
      names: {
        added: [{ kind: 'user', id: 'cleo' }],
        gone: [{ kind: 'user', id: 'ben' }],
        floorsMoved: [],
      },
    });
    const kept = await gateway.owner<{ detail: string }[]>`
      select detail::text as detail from earshot.decisions where turn_id = ${turn.id} and detail is not null`;
    expect(kept.map(({ detail }) => detail).join()).not.toMatch(/ben|cleo/);
  });

  test('is refused for good, and so is the grant, when the audience changes back', async () => {
    const turn = await start();
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    const seen = await turn.tool('search', { query: 'canary' });
    await acme.remove('conversations/thread/members/cleo');

    expect(seen).toMatchObject({
      code: 'audience_changed',
      body: { changes: { added: 1, gone: 0, floorsMoved: 0 } },
    });
    expect((await turn.tool('search', { query: 'canary' })).code).toBe('grant_revoked');
    expect((await turn.mint()).code).toBe('audience_changed');
    expect((await start()).grant.audienceHash).toBe(turn.grant.audienceHash);
  });

  test.each([
    ['the audience', 'audience_changed', ...joined('cleo', 'all')],
    [
      'the mode',
      'mode_changed',
      () => acme.put('users/ben', { kind: 'guest' }),
      () => acme.put('users/ben', { kind: 'member' }),
    ],
    [
      'the bound',
      'mode_changed',
      () => acme.put('conversations/thread', { ...THREAD, project: 'apollo' }),
      () => acme.put('conversations/thread', THREAD),
    ],
    ['what may start it', 'trigger_out_of_scope', ...joined('cleo', 'from_join')],
    [
      'the requester',
      'requester_left',
      () => acme.remove('conversations/thread/members/ana'),
      () => acme.put('conversations/thread/members/ana', { history: 'all' }),
    ],
    [
      'the message that started it, which was deleted,',
      'trigger_out_of_scope',
      () =>
        gateway.owner`update earshot.messages set state = 'deleted' where body = 'which canary'`,
      () => acme.say('thread', 'ana', 'which canary, then'),
    ],
  ] as const)(
    'is refused for good when it was the first to ask after %s changed: %s',
    async (_what, code, change, back) => {
      await acme.facts({ fact: 'project', id: 'apollo', members: ['ana', 'ben'] });
      const turn = await start();
      await change();
      expect((await turn.mint()).code).toBe(code);
      await back();

      expect((await turn.tool('search', { query: 'canary' })).code).toBe('grant_revoked');
      expect((await turn.mint()).status).not.toBe(200);
      const trigger = await acme.say('thread', 'ana', 'once more');
      const next = await acme.turn({ destination: 'thread', requester: 'ana', trigger });
      expect((await next.tool('search', { query: 'canary' })).status).toBe(200);
    },
  );

  test('under another policy revision is of another session, and refused once a call was refused by it', async () => {
    const [minting, calling] = [await start(), await start()];
    await acme.put('', { policyRevision: '2' });

    expect(ok(await minting.mint()).sessionId).not.toBe(minting.grant.sessionId);
    expect((await calling.tool('search', { query: 'canary' })).code).toBe('policy_changed');
    expect((await calling.mint()).code).toBe('policy_changed');
  });

  const cleo = { added: 1, gone: 0, floorsMoved: 0 };
  test.each([
    [
      'the guard is paused',
      'organization_paused',
      ...toggled('guard', 'guard', 'paused', 'running'),
    ],
    [
      'the organization is suspended',
      'organization_paused',
      ...toggled('', 'status', 'suspended', 'active'),
    ],
    [
      'the destination is archived',
      'destination_closed',
      () => acme.put('conversations/thread', { ...THREAD, archived: true }),
      () => acme.put('conversations/thread', THREAD),
    ],
    [
      'a stop is set',
      'stopped',
      () => acme.put('stops/persona/assistant', {}),
      () => acme.remove('stops/persona/assistant'),
    ],
    [
      'the persona is not designated',
      'persona_not_designated',
      () => acme.put('personas/assistant', { custody: 'service', designated: false }),
      () => acme.put('personas/assistant', { custody: 'service', designated: true }),
    ],
  ] as const)(
    'is refused while it lasts, and no grant ends by it, when %s: %s',
    async (_what, code, change, back) => {
      const turn = await start();
      await change();
      const refused = await turn.mint();
      await back();

      expect(refused.code).toBe(code);
      expect(refused.body).not.toHaveProperty('changes');
      expect(await turn.search('canary')).toHaveLength(4);
      expect((await turn.mint()).status).toBe(200);
    },
  );

  test('says that the audience moved, and ends for good by it, whatever is refused first', async () => {
    const turn = await start();
    await acme.put('guard', { guard: 'paused' });
    await acme.put('conversations/thread/members/cleo', { history: 'all' });

    expect(await turn.mint()).toMatchObject({
      code: 'organization_paused',
      body: { changes: cleo },
    });
    await acme.put('guard', { guard: 'running' });
    await acme.remove('conversations/thread/members/cleo');
    expect((await turn.mint()).code).toBe('audience_changed');
  });

  test('is one of many at once: each ends the ones before, and one is live', async () => {
    const turn = await start();
    const minted = (await Promise.all(Array.from({ length: 8 }, () => turn.mint()))).map(ok);
    const answers = await Promise.all(
      [turn.grant, ...minted].map(({ token }) =>
        gateway.send('POST', '/v1/tools/search', { token, json: { query: 'canary' } }),
      ),
    );

    expect(answers.map(({ code }) => code ?? 'live').sort()).toEqual([
      ...Array<string>(8).fill('grant_expired'),
      'live',
    ]);
    await expect(
      gateway.owner`update earshot.grants set ended_at = null where turn_id = ${turn.id}`,
    ).rejects.toThrow('grants_once_at_a_time');
  });

  test('needs the lease as it is held', async () => {
    const turn = await start();
    const { leaseId, owner, fence } = turn.lease;
    const mint = (lease: object) =>
      gateway.send('POST', `/v1/turns/${turn.id}/grants`, {
        token: gateway.tokens.bridge,
        json: { organization: acme.name, lease },
      });

    expect((await mint({ leaseId: turn.id, owner, fence })).code).toBe('lease_lost');
    expect((await mint({ leaseId, owner: 'another', fence })).code).toBe('lease_lost');
    expect((await mint({ leaseId, owner, fence: '2' })).code).toBe('lease_lost');
    expect((await mint({ leaseId, owner, fence: '0' })).code).toBe('fenced');
    expect((await turn.tool('search', { query: 'canary' })).status).toBe(200);
    expect((await mint({ leaseId, owner, fence })).status).toBe(200);
  });

  test('of a newer worker fences the older one out of everything', async () => {
    const turn = await start();
    const { body: cleared } = await turn.propose('before');
    await gateway.owner`update earshot.turns set lease_expires_at = now() where id = ${turn.id}`;
    await carryTurn(gateway.send, gateway.tokens.bridge, acme.name, turn.id, 'thread');

    expect((await turn.tool('search', { query: 'canary' })).code).toBe('grant_expired');
    expect((await turn.mint()).code).toBe('fenced');
    expect((await turn.end('complete')).code).toBe('fenced');
    expect((await acme.release(cleared)).code).toBe('fenced');
  });
});

test('a stop and the guard are on record when they are set and when they are lifted', async () => {
  await acme.put('stops/persona/assistant', { reason: 'it said too much' });
  await acme.put('stops/persona/assistant', {});
  await acme.remove('stops/persona/assistant');
  await acme.put('guard', { guard: 'paused' });
  await acme.put('guard', { guard: 'running' });

  const rows = await gateway.owner<{ kind: string; detail: unknown }[]>`
    select d.kind, d.detail from earshot.decisions d join earshot.organizations o on o.id = d.org_id
    where o.external_id = ${acme.name} and (d.kind like 'stop %' or d.kind like 'guard %')
    order by d.decided_at`;
  expect(rows.map(({ kind, detail }) => [kind, detail])).toEqual([
    ['stop set', { on: 'persona' }],
    ['stop lifted', { on: 'persona' }],
    ['guard paused', null],
    ['guard running', null],
  ]);
});

test('a stop and the guard are set by statements too, in every organization that they name, and are on record', async () => {
  const other = await gateway.organization();
  const names = [acme.name, other.name].sort();
  const { count } = await gateway.owner.begin(async (sql) => {
    await sql`select earshot.enter_organization(${acme.name})`;
    const stopped = await sql`
      insert into earshot.stops (org_id, kind, target)
      select id, 'organization', external_id from earshot.organizations where external_id = any (${names}::text[])`;
    await sql`update earshot.organizations set guard = 'paused' where external_id = any (${names}::text[])`;
    const [entered] = await sql<{ name: string }[]>`
      select external_id as name from earshot.organizations where id = earshot.current_organization()`;
    expect(entered?.name).toBe(acme.name);
    return stopped;
  });
  expect(count).toBe(2);
  const rows = await gateway.owner<{ name: string; kind: string }[]>`
    select o.external_id as name, d.kind from earshot.decisions d join earshot.organizations o on o.id = d.org_id
    where o.external_id = any (${names}::text[]) and (d.kind like 'stop %' or d.kind like 'guard %')
    order by 1, 2`;
  expect(rows.map(({ name, kind }) => [name, kind])).toEqual(
    names.flatMap((name) => [
      [name, 'guard paused'],
      [name, 'stop set'],
    ]),
  );
});
