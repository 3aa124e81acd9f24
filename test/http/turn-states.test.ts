import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization } from '../support/organization.ts';

// Every operation in every state: what it answers, what becomes of the turn, and that it is recorded.

interface Lease {
  readonly leaseId: string;
  readonly owner: string;
  readonly fence: string;
}

/** A turn in some state, and what the worker that is looked at holds of it. */
interface Place {
  readonly turn: string;
  readonly key: string;
  readonly lease: Lease;
  readonly token?: string;
  /** What an organization-wide change has to be taken back by. */
  readonly undo?: () => Promise<unknown>;
}

const REQUEST = { destination: 'thread', requester: 'ana', trigger: '1' };

let gateway: TestGateway;
let acme: TestOrganization;

beforeAll(async () => {
  gateway = await openTestGateway();
  acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'which canary');
});

afterAll(() => gateway.close());

const step = (turn: string, path: string, json: object = {}) =>
  gateway.send('POST', `/v1/turns/${turn}/${path}`, {
    token: gateway.tokens.bridge,
    json: { organization: acme.name, ...json },
  });
const take = async (turn: string) => {
  const { leaseId, owner, fence } = ok(
    await step(turn, 'lease', { owner: `worker ${randomUUID()}` }),
  ) as Lease;
  return { leaseId, owner, fence };
};
const touch = (turn: string, what: 'expires_at' | 'lease_expires_at') =>
  gateway.owner.unsafe(`update earshot.turns set ${what} = clock_timestamp() where id = $1`, [
    turn,
  ]);

async function open(): Promise<Place> {
  const key = randomUUID();
  const { turnId } = ok(await acme.openTurn(REQUEST, { key })) as { turnId: string };
  return { turn: turnId, key, lease: { leaseId: randomUUID(), owner: 'nobody', fence: '1' } };
}

async function running(): Promise<Place> {
  const place = await open();
  const lease = await take(place.turn);
  const { token } = ok(await step(place.turn, 'grants', { lease })) as { token: string };
  return { ...place, lease, token };
}

const after = (work: (place: Place) => Promise<unknown>, begin = running) => {
  return async (): Promise<Place> => {
    const place = await begin();
    await work(place);
    return place;
  };
};
const stopOf = ({ turn }: Place) => `stops/turn/${turn}`;

const STATES = {
  open,
  'open, its time over': after(({ turn }) => touch(turn, 'expires_at'), open),
  running,
  'running, lease lapsed': after(({ turn }) => touch(turn, 'lease_expires_at')),
  'running, taken by another': after(async ({ turn }) => {
    await touch(turn, 'lease_expires_at');
    await take(turn);
  }),
  'running, minted by another': after(async ({ turn }) => {
    await touch(turn, 'lease_expires_at');
    ok(await step(turn, 'grants', { lease: await take(turn) }));
  }),
  'running, stop set': after((place) => acme.put(stopOf(place), {})),
  'running, stop lifted': after(async (place) => {
    await acme.put(stopOf(place), {});
    await acme.remove(stopOf(place));
  }),
  'running, guard paused': async () => {
    const place = await running();
    await acme.put('guard', { guard: 'paused' });
    return { ...place, undo: () => acme.put('guard', { guard: 'running' }) };
  },
  'running, its time over': after(({ turn }) => touch(turn, 'expires_at')),
  completed: after(({ turn, lease }) => step(turn, 'complete', { lease })),
  failed: after(({ turn, lease }) => step(turn, 'complete', { lease, outcome: 'failed' })),
  stopped: after(({ turn }) => step(turn, 'stop')),
} satisfies Record<string, () => Promise<Place>>;
type State = keyof typeof STATES;

const OPERATIONS = {
  open: ({ key }: Place) => acme.openTurn(REQUEST, { key }),
  lease: ({ turn }: Place) => step(turn, 'lease', { owner: 'another' }),
  heartbeat: ({ turn, lease }: Place) => step(turn, 'heartbeat', { lease, seconds: 5 }),
  mint: ({ turn, lease }: Place) => step(turn, 'grants', { lease }),
  tool: ({ token }: Place) =>
    gateway.send('POST', '/v1/tools/search', { token, json: { query: 'canary' } }),
  propose: ({ token }: Place) =>
    gateway.send('POST', '/v1/deliveries', {
      ...{ token, key: randomUUID() },
      json: { destination: 'thread', payload: 'It sang.' },
    }),
  complete: ({ turn, lease }: Place) => step(turn, 'complete', { lease }),
  fail: ({ turn, lease }: Place) => step(turn, 'complete', { lease, outcome: 'failed' }),
  stop: ({ turn }: Place) => step(turn, 'stop'),
} satisfies Record<string, (place: Place) => Promise<Answer>>;
type Operation = keyof typeof OPERATIONS;

/**
 * What each operation answers, in the order of the operations: a refusal; `yes`, the turn stays as it is called; `→` and
 * what it is called then; `—` where nobody can hold what the operation needs.
 */
const TABLE: Record<State, string> = {
  open: 'yes | → running | turn_not_running | turn_not_running | — | — | turn_not_running | turn_not_running | → stopped',
  'open, its time over':
    'yes | turn_not_running | turn_not_running | turn_not_running | — | — | turn_not_running | turn_not_running | → stopped',
  running: 'yes | lease_lost | yes | yes | yes | yes | → completed | → failed | → stopped',
  'running, lease lapsed':
    'yes | yes | lease_lost | lease_lost | lease_lost | lease_lost | lease_lost | lease_lost | → stopped',
  'running, taken by another':
    'yes | lease_lost | fenced | fenced | fenced | fenced | fenced | fenced | → stopped',
  'running, minted by another':
    'yes | lease_lost | fenced | fenced | grant_expired | grant_expired | fenced | fenced | → stopped',
  'running, stop set':
    'stopped | lease_lost | yes | stopped | stopped | held: stopped | → completed | → failed | → stopped',
  'running, stop lifted':
    'yes | lease_lost | yes | yes | yes | yes | → completed | → failed | → stopped',
  'running, guard paused':
    'organization_paused | lease_lost | yes | organization_paused | organization_paused | held: organization_paused | → completed | → failed | → stopped',
  'running, its time over':
    'yes | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | → stopped',
  completed:
    'yes | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | → stopped',
  failed:
    'yes | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running',
  stopped:
    'yes | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | turn_not_running | yes',
};

/** What a turn is called, by its own route. */
async function stateOf({ turn }: Place): Promise<string> {
  const path = `/v1/turns/${turn}?organization=${acme.name}`;
  return (
    ok(await gateway.send('GET', path, { token: gateway.tokens.operator })) as { state: string }
  ).state;
}

/** The turn and its grants as they are stored, and the kinds of decision about it. */
async function storedOf({ turn }: Place) {
  const [row] = await gateway.owner<{ turn: string; grants: string; fence: string }[]>`
    select t::text as turn, t.lease_fence as fence,
      (select coalesce(string_agg(g::text, '|' order by g.id), '') from earshot.grants g where g.turn_id = t.id) as grants
    from earshot.turns t where t.id = ${turn}`;
  const decisions = await gateway.owner<{ kind: string; verdict: string; code: string | null }[]>`
    select kind, verdict, code from earshot.decisions where turn_id = ${turn} order by decided_at`;
  if (row === undefined) throw new Error('There is no such turn.');
  return { ...row, decisions };
}

/** The kind of decision that an operation leaves. A refused opening says of no turn that it is this one. */
const outcomeOf = ({ status, code, body }: Answer): string => {
  if (status !== 200) return code ?? `${status}`;
  const verdict = body as { status?: string; code?: string };
  return verdict.status === 'held' ? `held: ${verdict.code ?? ''}` : 'yes';
};

const CELLS = (Object.keys(STATES) as State[]).flatMap((state) => {
  const outcomes = TABLE[state].split(' | ');
  return (Object.keys(OPERATIONS) as Operation[]).map((operation, index) => ({
    state,
    operation,
    expected: outcomes[index] ?? '',
  }));
});

describe('a turn that is', () => {
  test.each(CELLS.filter(({ expected }) => expected !== '—'))(
    '$state: $operation is answered with $expected',
    async ({ state, operation, expected }) => {
      const place = await STATES[state]();
      const called = await stateOf(place);
      const before = await storedOf(place);
      const answer = await OPERATIONS[operation](place);
      const stored = await storedOf(place);
      await place.undo?.();

      const moved = await stateOf(place);
      const outcome = outcomeOf(answer);
      expect(outcome === 'yes' && moved !== called ? `→ ${moved}` : outcome).toBe(expected);
      // A refusal changes neither the turn nor a grant; only a lease that is taken moves the fence, by one.
      if (outcome !== 'yes') {
        expect({ turn: stored.turn, grants: stored.grants }).toEqual({
          turn: before.turn,
          grants: before.grants,
        });
      }
      const taken = operation === 'lease' && outcome === 'yes' ? 1n : 0n;
      expect(BigInt(stored.fence)).toBe(BigInt(before.fence) + taken);
      // INVARIANT 17. An opening that is refused opened none, so its record names none.
      const code = outcome === 'yes' ? null : outcome.replace('held: ', '');
      expect(stored.decisions.slice(before.decisions.length)).toEqual(
        operation === 'open' && code !== null
          ? []
          : [{ kind: operation, verdict: code === null ? 'allowed' : 'refused', code }],
      );
    },
  );

  test('opened again is the same turn, whatever became of it', async () => {
    for (const begin of [STATES.completed, STATES.stopped, STATES['open, its time over']]) {
      const place = await begin();
      expect(ok(await OPERATIONS.open(place))).toEqual({ turnId: place.turn });
    }
  });
});

test('the page of turns has this table', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/turns.md'), 'utf8');
  const kinds = Object.keys(OPERATIONS);
  const cell = (text: string) =>
    text === 'yes' ? 'yes' : text.replace(/([a-z]+_[a-z_]+|(?<=: |^|→ )[a-z]+)$/, '`$1`');
  const rows = CELLS.filter(({ operation }) => operation === 'open').map(
    ({ state }) => `| ${state} | ${TABLE[state].split(' | ').map(cell).join(' | ')} |`,
  );
  expect(page).toContain(
    [`| | ${kinds.join(' | ')} |`, `|---|${kinds.map(() => '---|').join('')}`, ...rows].join('\n'),
  );
});

test('a worker whose fence is older changes nothing, however many came after it', async () => {
  const place = await running();
  const leases = [place.lease];
  for (let taken = 0; taken < 3; taken++) {
    await touch(place.turn, 'lease_expires_at');
    leases.push(await take(place.turn));
  }
  expect(leases.map(({ fence }) => fence)).toEqual(['1', '2', '3', '4']);
  const before = await storedOf(place);

  for (const older of leases.slice(0, -1)) {
    const mine = { ...place, lease: older };
    for (const operation of ['heartbeat', 'mint', 'complete', 'fail'] as const) {
      expect((await OPERATIONS[operation](mine)).code).toBe('fenced');
    }
    // Somebody else's lease under the newest fence, or a fence to come, is none.
    for (const fence of ['4', '5']) {
      const stolen = { ...place, lease: { ...older, fence } };
      expect((await OPERATIONS.mint(stolen)).code).toBe('lease_lost');
    }
  }
  const stored = await storedOf(place);
  expect([stored.turn, stored.grants]).toEqual([before.turn, before.grants]);
  expect((await OPERATIONS.heartbeat({ ...place, lease: leases[3] ?? place.lease })).status).toBe(
    200,
  );
});

test('many workers that reach for one turn at once: one has it, and the fence grew by one', async () => {
  const { turn } = await open();
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => step(turn, 'lease', { owner: randomUUID() })),
  );
  expect(answers.map(({ code }) => code ?? 'yes').sort()).toEqual([
    ...Array<string>(7).fill('lease_lost'),
    'yes',
  ]);
  const rows = await gateway.owner`select lease_fence from earshot.turns where id = ${turn}`;
  expect(rows).toEqual([{ lease_fence: '1' }]);
});

test('what is not there leaves a record that names no turn', async () => {
  const ghost = { ...(await running()), turn: randomUUID() };
  for (const operation of ['lease', 'heartbeat', 'mint', 'complete', 'fail', 'stop'] as const) {
    const { code, body } = await OPERATIONS[operation](ghost);
    expect(code).toBe('not_found');
    const { decision = '' } = body as { decision?: string };
    const rows = await gateway.owner`
      select kind, verdict, code, turn_id from earshot.decisions where id::text = ${decision}`;
    expect(rows).toEqual([
      { kind: operation, verdict: 'refused', code: 'not_found', turn_id: null },
    ]);
  }
});
