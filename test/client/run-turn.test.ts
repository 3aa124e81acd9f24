import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Cleared, Grant } from '../../client/answer-shape.ts';
import type { ClientOptions, TurnRequest } from '../../client/client.ts';
import { runTurn, type Agent, type RunOptions } from '../../client/run-turn.ts';
import { sessionIdFor } from '../../policy/session-id.ts';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization } from '../support/organization.ts';
import { clientOf, type Seen } from './bridge-gateway.ts';
import { steppedClock } from './stepped-clock.ts';

// A bridge's turn against a real gateway: ana asks in a thread that ben reads, and cleo may join.

let gateway: TestGateway;
let acme: TestOrganization;
let request: TurnRequest;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());
beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.conversation('open', ['ana', 'ben', 'cleo']);
  await acme.say('shared', 'ben', 'canary in the cellar');
  await acme.say('open', 'ben', 'canary in the attic');
  await acme.say('thread', 'ana', 'where does it sing');
  request = {
    organization: acme.name,
    persona: 'assistant',
    destination: 'thread',
    requester: 'ana',
    trigger: { kind: 'thread', seq: '1' },
  };
});

const joins = (user: string) =>
  acme.put(`conversations/thread/members/${user}`, { history: 'all' });

/** Answers with what it finds. */
async function quote(agent: Agent) {
  const found = await agent.search({ query: 'canary' });
  if (!found.ok) return found;
  const texts = found.value.items.map(({ text }) => text);
  return { payload: texts.length === 0 ? 'nothing' : texts.join('; ') };
}

function run(
  work: Parameters<typeof runTurn>[2],
  options: Partial<RunOptions> = {},
  ofClient: Partial<ClientOptions> & { before?: (route: string) => Promise<void> } = {},
) {
  const { client, seen } = clientOf(gateway, 'bridge', ofClient);
  return { ended: runTurn(client, request, work, { owner: 'worker', ...options }), seen };
}

const countOf = (seen: readonly Seen[], route: string) =>
  seen.filter((request) => request.route === route).length;
const OPEN = 'POST /v1/turns';
const MINT = 'POST /v1/turns/{id}/grants';
const PROPOSE = 'POST /v1/deliveries';

function turns() {
  return gateway.owner<{ state: string }[]>`
    select t.state from earshot.turns t join earshot.organizations o on o.id = t.org_id
    where o.external_id = ${acme.name} order by t.id`;
}

function deliveries() {
  return gateway.owner<{ status: string; code: string | null; payload: Uint8Array | null }[]>`
    select d.status, d.code, d.payload from earshot.deliveries d
    join earshot.organizations o on o.id = d.org_id
    where o.external_id = ${acme.name} order by d.expires_at`;
}

describe('a turn', () => {
  test('goes from its trigger to a cleared answer, each request once', async () => {
    const { ended, seen } = run(quote);
    expect(await ended).toMatchObject({ ok: true, kind: 'cleared', turns: 1 });
    expect(seen).toEqual(
      [
        OPEN,
        'POST /v1/turns/{id}/lease',
        `GET /v1/organizations/${acme.name}/personas/assistant`.replace(/[0-9a-f-]{36}/, '{id}'),
        MINT,
        'POST /v1/tools/search',
        PROPOSE,
        'POST /v1/turns/{id}/complete',
      ].map((route) => ({ route, status: 200 })),
    );
    expect(await turns()).toMatchObject([{ state: 'completed' }]);
  });

  test('without anything to say proposes nothing', async () => {
    const { ended, seen } = run(() => Promise.resolve(undefined));
    expect(await ended).toMatchObject({ ok: true, kind: 'silent' });
    expect(countOf(seen, PROPOSE)).toBe(0);
    expect(await turns()).toMatchObject([{ state: 'completed' }]);
  });

  test('answers where it was asked, whatever else its work hands back', async () => {
    const more = { destination: 'open', key: 'other', organization: 'other' };
    const { ended } = run(() => Promise.resolve({ payload: 'It sings.', ...more }));
    expect(await ended).toMatchObject({ kind: 'cleared', delivery: { destination: 'thread' } });
  });

  test('whose work throws is given up, and the error passes through', async () => {
    const clock = steppedClock();
    const { ended } = run(() => Promise.reject(new Error('the model is gone')), {}, { clock });
    await expect(ended).rejects.toThrow('the model is gone');
    expect(await turns()).toMatchObject([{ state: 'failed' }]);
    expect(clock.waiting).toBe(0);
  });

  test('with the key of one that has ended is not run again', async () => {
    request = { ...request, key: 'reply-to-1' };
    expect(await run(quote).ended).toMatchObject({ ok: true });
    expect(await run(quote).ended).toMatchObject({ ok: false, code: 'turn_not_running' });
    expect(await deliveries()).toHaveLength(1);
  });

  test('that may not be opened is not tried in another way', async () => {
    await acme.put('personas/assistant', { custody: 'user', designated: true });
    const { ended, seen } = run(quote);
    expect(await ended).toMatchObject({ ok: false, code: 'invalid_input', turns: 1 });
    expect(seen).toEqual([{ route: OPEN, status: 400 }]);
  });

  test('whose mint is refused mints no second time', async () => {
    const before = async (route: string) => {
      if (route === MINT) await acme.put('guard', { guard: 'paused' });
    };
    const { ended, seen } = run(quote, {}, { before });
    expect(await ended).toMatchObject({ ok: false, code: 'organization_paused', turns: 1 });
    expect(countOf(seen, MINT)).toBe(1);
  });
});

describe('when somebody joins', () => {
  /** Lets cleo join before the first request of a route. */
  function joining(route: string) {
    let joined = false;
    return async (asked: string) => {
      if (asked !== route || joined) return;
      joined = true;
      await joins('cleo');
    };
  }

  test.each(['POST /v1/tools/search', PROPOSE])(
    'before %s, the answer is made again in a new turn, for the readers of now',
    async (route) => {
      const sessions: string[] = [];
      const drafts: string[] = [];
      const { ended, seen } = run(
        async (agent) => {
          sessions.push(agent.sessionId);
          const draft = await quote(agent);
          if ('payload' in draft) drafts.push(draft.payload);
          return draft;
        },
        {},
        { before: joining(route) },
      );
      expect(await ended).toMatchObject({ ok: true, kind: 'cleared', turns: 2 });
      expect(drafts.at(-1)).toBe('canary in the attic');
      expect(new Set(sessions).size).toBe(2);
      expect(countOf(seen, MINT)).toBe(2);
      expect((await turns()).map(({ state }) => state).sort()).toEqual(['completed', 'failed']);
      const cleared = (await deliveries()).filter(({ status }) => status === 'cleared');
      expect(cleared.map(({ payload }) => Buffer.from(payload ?? []).toString())).toEqual([
        'canary in the attic',
      ]);
    },
  );

  test('before its release, nothing of the first answer is handed out', async () => {
    request = { ...request, key: 'reply-to-1' };
    const endpoint = clientOf(gateway, 'deliver').client;
    const released: string[] = [];
    const deliver = async ({ id, clearance }: Cleared) => {
      if (released.length === 0 && (await deliveries()).length === 1) await joins('cleo');
      const name = { organization: acme.name, deliveryId: id };
      const answer = await endpoint.releaseDelivery({ ...name, clearance });
      if (!answer.ok) return answer;
      released.push(answer.value.payload);
      return { ok: true } as const;
    };
    expect(await run(quote, { deliver }).ended).toMatchObject({ kind: 'delivered', turns: 2 });
    expect(released).toEqual(['canary in the attic']);
    expect(await deliveries()).toMatchObject([
      { status: 'held', code: 'audience_changed', payload: null },
      { status: 'released' },
    ]);
  });

  test('again and again, it ends after as many turns as it may take', async () => {
    const guests = ['dora', 'egon', 'fay'];
    await acme.users(...guests);
    const before = async (route: string) => {
      if (route === PROPOSE) await joins(guests.shift() ?? 'cleo');
    };
    const { ended, seen } = run(quote, { maxTurns: 2 }, { before });
    expect(await ended).toMatchObject({
      ok: false,
      from: 'delivery',
      recovery: 'rebuild',
      turns: 2,
    });
    expect(countOf(seen, OPEN)).toBe(2);
    expect((await deliveries()).map(({ status }) => status)).toEqual(['held', 'held']);
  });
});

describe('a grant that ends', () => {
  const expire = () =>
    gateway.owner`update earshot.grants set expires_at = now() where ended_at is null`;

  test('before the work is done is minted again in the same turn, once for all calls', async () => {
    let isExpired = false;
    const { ended, seen } = run(async (agent) => {
      if (!isExpired) await expire();
      isExpired = true;
      const [one, two] = await Promise.all([quote(agent), quote(agent)]);
      expect(one).toEqual(two);
      return one;
    });
    expect(await ended).toMatchObject({ ok: true, kind: 'cleared', turns: 1 });
    expect(countOf(seen, MINT)).toBe(2);
    expect(countOf(seen, OPEN)).toBe(1);
  });

  test('while its audience changed is not minted again: the answer is rebuilt', async () => {
    const { ended, seen } = run(async (agent) => {
      if (agent.attempt === 1) {
        await expire();
        await joins('cleo');
      }
      return quote(agent);
    });
    expect(await ended).toMatchObject({ ok: true, kind: 'cleared', turns: 2 });
    // One for each turn, and the refused one.
    expect(countOf(seen, MINT)).toBe(3);
    expect((await deliveries()).map(({ payload }) => String(payload))).toEqual([
      'canary in the attic',
    ]);
  });
});

test('a fresh grant of another session is not gone on with: the context is of the first', async () => {
  const { client, seen } = clientOf(gateway, 'bridge');
  let mints = 0;
  const send: typeof client.send = async (asked, options) => {
    const answer = await client.send(asked, options);
    if (!asked.path.endsWith('/grants') || !answer.ok || ++mints !== 2) return answer;
    const grant = answer.value as unknown as Grant;
    const { threadKey, salt, audienceHash, mode } = grant;
    const audience = { persona: 'assistant', audienceHash, mode, policyRevision: 1n };
    const parts = { organization: acme.name, threadKey, salt, epoch: 2n, audience };
    const moved = { ...grant, sessionEpoch: '2', sessionId: sessionIdFor(parts) };
    return { ok: true, value: moved as unknown as typeof answer.value };
  };
  const sessions: string[] = [];
  const outcome = await runTurn(
    { ...client, send },
    request,
    async (agent) => {
      sessions.push(agent.sessionId);
      if (agent.attempt === 1) await gateway.owner`update earshot.grants set expires_at = now()`;
      return quote(agent);
    },
    { owner: 'worker' },
  );
  expect(outcome).toMatchObject({ ok: true, kind: 'cleared', turns: 2 });
  expect(countOf(seen, 'POST /v1/tools/search')).toBe(2);
  expect(sessions).toHaveLength(2);
});

describe('a lease', () => {
  const steal = async () => {
    const [turn] = await gateway.owner<{ id: string }[]>`
      update earshot.turns t set lease_expires_at = now() from earshot.organizations o
      where o.id = t.org_id and o.external_id = ${acme.name} returning t.id`;
    const name = { organization: acme.name, turnId: turn?.id ?? '' };
    expect(
      await clientOf(gateway, 'bridge').client.takeLease({ ...name, owner: 'thief' }),
    ).toMatchObject({ ok: true, value: { fence: '2' } });
  };

  test('that is kept outlives its length', async () => {
    const clock = steppedClock();
    const { ended, seen } = run(
      async (agent) => {
        for (let beats = 1; beats <= 4; beats++) {
          await clock.untilWaiting();
          clock.pass(1000);
        }
        await clock.untilWaiting();
        return quote(agent);
      },
      { leaseSeconds: 3 },
      { clock },
    );
    expect(await ended).toMatchObject({ ok: true });
    expect(countOf(seen, 'POST /v1/turns/{id}/heartbeat')).toBe(4);
    expect(clock.waiting).toBe(0);
  });

  test('that was taken over ends the work at the next heartbeat, and the turn is the other’s', async () => {
    const clock = steppedClock();
    const { ended, seen } = run(
      async ({ signal }) => {
        await steal();
        await clock.untilWaiting();
        const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve));
        clock.pass(10_000);
        await aborted;
        return { payload: 'made by nobody' };
      },
      {},
      { clock },
    );
    expect(await ended).toMatchObject({ ok: false, code: 'fenced', turns: 1 });
    expect(countOf(seen, PROPOSE)).toBe(0);
    expect(countOf(seen, 'POST /v1/turns/{id}/complete')).toBe(0);
    expect(await turns()).toMatchObject([{ state: 'running' }]);
    expect(await deliveries()).toEqual([]);
  });

  test('that was taken over refuses the next call, and no new turn begins', async () => {
    const { ended, seen } = run(async (agent) => {
      await steal();
      return quote(agent);
    });
    expect(await ended).toMatchObject({ ok: false, code: 'fenced', recovery: 'stop', turns: 1 });
    expect(countOf(seen, OPEN)).toBe(1);
    expect(await turns()).toMatchObject([{ state: 'running' }]);
  });

  test('that another worker holds is left to it', async () => {
    request = { ...request, key: 'reply-to-1' };
    const first = run(async (agent) => {
      expect(await run(quote).ended).toMatchObject({ ok: false, code: 'lease_lost' });
      return quote(agent);
    });
    expect(await first.ended).toMatchObject({ ok: true, kind: 'cleared' });
  });
});

describe('a persona', () => {
  test('is told to bridges that are registered for it, and to nobody else', async () => {
    const path = `/v1/organizations/${acme.name}/personas/assistant`;
    const other = await gateway.addCaller({
      id: `other-${acme.name}`,
      scopes: ['bridge'],
      personas: ['other'],
    });
    const told = (token: string) => gateway.send('GET', path, { token });
    expect((await told(gateway.tokens.bridge)).body).toEqual({
      persona: 'assistant',
      custody: 'service',
      status: 'active',
      designated: true,
      approval: 'none',
    });
    expect((await told(other)).code).toBe('not_found');
    expect((await told(gateway.tokens.ingest)).code).toBe('not_permitted');
    const missing = await gateway.send('GET', `${path}-2`, { token: gateway.tokens.bridge });
    expect(missing.body).toEqual((await told(other)).body);
  });
});
