import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openInstance } from '../../gateway/instance.ts';
import { keyFile } from '../../gateway/keys/key-file.ts';
import { retireKey, rotateKeys } from '../../gateway/keys/key-store.ts';
import { holdOpen, whenBlocked, type HeldOpen } from '../http/blocked.ts';
import {
  gatewayOf,
  ok,
  openTestGateway,
  type Answer,
  type TestGateway,
} from '../support/gateway.ts';
import type { Messages, TestOrganization, TestTurn } from '../support/organization.ts';

// A grant in use while what it stands on changes. The outcomes are those of the table in docs/grants.md. Each
// interleaving that matters is made by hand; the rounds look for one that was not thought of. RACE_ROUNDS says how many.

const ROUNDS = Number(process.env.RACE_ROUNDS ?? 6);
const CANARY = 'canary of the pair';

let gateway: TestGateway;
let acme: TestOrganization;

beforeAll(async () => {
  gateway = await openTestGateway();
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.conversation('of-ana', ['ana']);
  await acme.conversation('of-ben', ['ben']);
  await acme.say('thread', 'ben', 'hello');
  await acme.say('shared', 'ben', CANARY);
  await acme.say('of-ana', 'ana', 'canary of ana');
  await acme.say('of-ben', 'ben', 'canary of ben');
});

afterAll(() => gateway.close());

/** A turn with a trigger of its own. */
async function start(): Promise<TestTurn> {
  const trigger = await acme.say('thread', 'ana', 'go on');
  return acme.turn({ destination: 'thread', requester: 'ana', trigger });
}

const use = (token: string) =>
  gateway.send('POST', '/v1/tools/search', {
    token,
    json: { query: 'canary' },
  }) as Promise<Answer<Messages>>;
const textsOf = ({ body }: Answer<Messages>) => body.items.map(({ text }) => text);
const member = (user: string, history: unknown = 'all') =>
  acme.put(`conversations/thread/members/${user}`, { history });
const post = (path: string, json: object = {}) =>
  gateway.send('POST', path, {
    token: gateway.tokens.bridge,
    json: { organization: acme.name, ...json },
  });
const lapse = ({ id }: TestTurn) =>
  gateway.owner`update earshot.turns set lease_expires_at = clock_timestamp() where id = ${id}`;
const take = async ({ id }: TestTurn, owner = 'newer') => {
  const { expiresAt: _at, ...lease } = ok(await post(`/v1/turns/${id}/lease`, { owner })) as {
    leaseId: string;
    owner: string;
    fence: string;
    expiresAt: string;
  };
  return lease;
};

interface Change {
  readonly change: (turn: TestTurn) => Promise<unknown>;
  readonly undo?: (turn: TestTurn) => Promise<unknown>;
  /** What a call gets that comes after it, the first time. */
  readonly code: string;
  /** What it gets when the change has been taken back; absent: it goes on. */
  readonly after?: string;
}

/** What a call can meet. `undo` is only there where it can be taken back. */
const CHANGES: Readonly<Record<string, Change>> = {
  'a member joins': {
    change: () => member('cleo'),
    undo: () => acme.remove('conversations/thread/members/cleo'),
    ...{ code: 'audience_changed', after: 'grant_revoked' },
  },
  'a member leaves': {
    change: () => acme.remove('conversations/thread/members/ben'),
    undo: () => member('ben'),
    ...{ code: 'audience_changed', after: 'grant_revoked' },
  },
  'a floor moves': {
    change: () => member('ben', { fromSeq: '2' }),
    undo: () => member('ben', { fromSeq: '1' }),
    ...{ code: 'audience_changed', after: 'grant_revoked' },
  },
  'a floor moves above the trigger': {
    change: () => member('ben', { fromSeq: '100000' }),
    undo: () => member('ben', { fromSeq: '1' }),
    ...{ code: 'trigger_out_of_scope', after: 'grant_revoked' },
  },
  'a member is deactivated': {
    change: () => acme.put('users/ben', { kind: 'member', status: 'deactivated' }),
    undo: () => acme.put('users/ben', { kind: 'member' }),
    ...{ code: 'audience_changed', after: 'grant_revoked' },
  },
  'a member becomes a guest': {
    change: () => acme.put('users/ben', { kind: 'guest' }),
    undo: () => acme.put('users/ben', { kind: 'member' }),
    ...{ code: 'mode_changed', after: 'grant_revoked' },
  },
  'the requester leaves': {
    change: () => acme.remove('conversations/thread/members/ana'),
    undo: () => member('ana'),
    ...{ code: 'requester_left', after: 'grant_revoked' },
  },
  'the grant is revoked': {
    change: ({ grant }) => post(`/v1/grants/${grant.grantId}/revoke`).then(ok),
    ...{ code: 'grant_revoked', after: 'grant_revoked' },
  },
  'the grant is replaced': {
    change: (turn) => turn.mint().then(ok),
    ...{ code: 'grant_expired', after: 'grant_expired' },
  },
  'the lease is stolen': {
    change: async (turn) => {
      await lapse(turn);
      await take(turn);
    },
    ...{ code: 'fenced', after: 'fenced' },
  },
  'the turn is stopped': {
    change: (turn) => turn.end('stop').then(ok),
    ...{ code: 'turn_not_running', after: 'turn_not_running' },
  },
  'the turn is completed': {
    change: (turn) => turn.end('complete').then(ok),
    ...{ code: 'turn_not_running', after: 'turn_not_running' },
  },
  'a stop is set': {
    change: () => acme.put('stops/conversation/thread', {}),
    undo: () => acme.remove('stops/conversation/thread'),
    code: 'stopped',
  },
  'the guard is paused': {
    change: () => acme.put('guard', { guard: 'paused' }),
    undo: () => acme.put('guard', { guard: 'running' }),
    code: 'organization_paused',
  },
};

/** The codes that a call may also get: a second one meets the revocation, and a lease lapses before it is taken. */
function codesOf({ code, after }: Change): string[] {
  return [code, after ?? code, ...(code === 'fenced' ? ['lease_lost'] : [])];
}

describe('a call that was under way answers as before the change, and none after it does:', () => {
  // The call has its snapshot and waits inside of it; the change commits; then the call goes on.
  test.each(Object.entries(CHANGES).filter(([name]) => name !== 'the grant is replaced'))(
    '%s',
    async (_name, { change, undo, code, after }) => {
      const turn = await start();
      const barrier = await holdOpen(
        gateway,
        (sql) => sql`lock table earshot.messages in access exclusive mode`,
      );
      const call = use(turn.grant.token);
      await whenBlocked(gateway);
      await changing(barrier, change(turn));
      const answer = await call;
      ok(answer);
      expect(textsOf(answer)).toEqual([CANARY]);
      expect((await use(turn.grant.token)).code).toBe(code);
      await undo?.(turn);
      expect((await use(turn.grant.token)).code).toBe(after);
    },
  );

  /** Ends the barrier when the change is done, or when it waits for the barrier too. */
  async function changing(barrier: HeldOpen, change: Promise<unknown>): Promise<void> {
    const waiting = async (): Promise<void> => {
      while ((await blockedNow()) === 1);
    };
    await Promise.race([change, waiting()]);
    await barrier.commit();
    await change;
  }
  async function blockedNow(): Promise<number> {
    const [row] = await gateway.owner<{ n: number }[]>`
      select count(*)::integer as n from pg_stat_activity
      where datname = current_database() and usename = 'earshot_gateway' and wait_event_type = 'Lock'`;
    return row?.n ?? 0;
  }
});

/** A call or a change, by when it was sent and answered. */
interface Event {
  readonly sent: number;
  readonly answered: number;
  readonly texts?: readonly string[];
  readonly code?: string | undefined;
}

async function timed(work: () => Promise<Answer<Messages>>): Promise<Event> {
  const sent = performance.now();
  const answer = await work();
  const answered = performance.now();
  return answer.code === undefined
    ? { sent, answered, texts: textsOf(answer) }
    : { sent, answered, code: answer.code };
}

/** Two workers that call one after the other, and a change that begins some statements later. */
async function race(
  turn: TestTurn,
  change: Change['change'],
  round: number,
): Promise<{ calls: Event[]; moved: Event }> {
  const worker = async () => {
    const calls: Event[] = [];
    for (let call = 0; call < 4; call++) calls.push(await timed(() => use(turn.grant.token)));
    return calls;
  };
  const moving = async (): Promise<Event> => {
    for (let sent = 0; sent < (round * 5) % 23; sent++) await gateway.owner`select 1`;
    const sent = performance.now();
    await change(turn);
    return { sent, answered: performance.now() };
  };
  const [first, second, moved] = await Promise.all([worker(), worker(), moving()]);
  return { calls: [...first, ...second], moved };
}

describe('whichever comes first, a call gets what was before or the refusal of what is after:', () => {
  const seen = { allowed: 0, refused: 0 };

  test.each(Object.entries(CHANGES))('%s', { timeout: 600_000 }, async (_name, each) => {
    const { change, undo, after } = each;
    for (let round = 0; round < ROUNDS; round++) {
      const turn = await start();
      const { calls, moved } = await race(turn, change, round);
      const refusals = calls.filter(({ code }) => code !== undefined);
      const firstRefused = Math.min(...refusals.map(({ answered }) => answered));
      for (const { sent, answered, texts, code } of calls) {
        // An answer holds what everybody before could read, whole: never what only those after can.
        seen[code === undefined ? 'allowed' : 'refused'] += 1;
        if (code === undefined) expect({ round, texts }).toEqual({ round, texts: [CANARY] });
        else expect(codesOf(each)).toContain(code);
        // Nothing is allowed that was asked after the change was done, or after another was refused; nothing is refused
        // before the change began.
        if (sent > moved.answered || sent > firstRefused)
          expect({ round, code }).not.toEqual({ round, code: undefined });
        if (answered < moved.sent) expect({ round, code }).toEqual({ round, code: undefined });
      }
      expect(codesOf(each)).toContain((await use(turn.grant.token)).code);
      await undo?.(turn);
      expect((await use(turn.grant.token)).code).toBe(after);
      const records = await gateway.owner`
        select from earshot.decisions where turn_id = ${turn.id} and kind = 'tool'`;
      expect(records).toHaveLength(calls.length + 2);
    }
  });

  test('both orders came about, or there was no race', () => {
    expect(Math.min(seen.allowed, seen.refused)).toBeGreaterThan(10 * ROUNDS);
  });

  test(
    'a reader loses a source: the answer has it or has it not, and later ones have it not',
    { timeout: 600_000 },
    async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const turn = await start();
        const { calls, moved } = await race(
          turn,
          () => acme.remove('conversations/shared/members/ben'),
          round,
        );
        for (const { sent, answered, texts } of calls) {
          expect([[CANARY], []]).toContainEqual(texts);
          if (sent > moved.answered) expect(texts).toEqual([]);
          if (answered < moved.sent) expect(texts).toEqual([CANARY]);
        }
        await acme.put('conversations/shared/members/ben', { history: 'all' });
        expect(textsOf(await use(turn.grant.token))).toEqual([CANARY]);
      }
    },
  );
});

describe('two workers at one turn', () => {
  /** Each token that was handed out, by what a call with it gets now. */
  const liveOf = async (answers: readonly Answer[]) => {
    const codes = await Promise.all(
      answers
        .filter(({ status }) => status === 200)
        .map(({ body }) => use((body as { token: string }).token)),
    );
    return codes.filter(({ status }) => status === 200).length;
  };
  const unended = async ({ id }: TestTurn) =>
    (await gateway.owner`select from earshot.grants where turn_id = ${id} and ended_at is null`)
      .length;

  test('who mint with one lease leave one grant alive', { timeout: 600_000 }, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const turn = await start();
      const minted = await Promise.all(Array.from({ length: 5 }, () => turn.mint()));
      expect(minted.map(({ status }) => status)).toEqual(Array(5).fill(200));
      expect([await liveOf(minted), await unended(turn)]).toEqual([1, 1]);
    }
  });

  test(
    'of whom one takes the lease over: the older mints before it or not at all',
    { timeout: 600_000 },
    async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const turn = await start();
        const older = async () => {
          const answers: Answer[] = [];
          for (let i = 0; i < 4; i++) answers.push(await turn.mint());
          return answers;
        };
        const newer = async () => {
          for (let sent = 0; sent < round % 7; sent++) await gateway.owner`select 1`;
          await lapse(turn);
          const lease = await take(turn);
          return post(`/v1/turns/${turn.id}/grants`, { lease });
        };
        const [olds, taken] = await Promise.all([older(), newer()]);
        const codes = olds.map(({ code }) => code ?? 'minted');
        expect(taken.status).toBe(200);
        expect(codes.join()).toMatch(/^(minted,?)*(lease_lost,?)*(fenced,?)*$/);
        expect([
          await liveOf([...olds, taken]),
          await liveOf([taken]),
          await unended(turn),
        ]).toEqual([1, 1, 1]);
        expect((await turn.mint()).code).toBe('fenced');
      }
    },
  );

  test(
    'whose mint meets somebody who joins: it is refused, or what it gave is',
    { timeout: 600_000 },
    async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const turn = await start();
        const [minted] = await Promise.all([
          Promise.all([turn.mint(), turn.mint(), turn.mint()]),
          member('cleo'),
        ]);
        for (const { code } of minted) expect([undefined, 'audience_changed']).toContain(code);
        expect(await liveOf(minted)).toBe(0);
        await acme.remove('conversations/thread/members/cleo');
        expect(await liveOf(minted)).toBe(0);
        expect((await turn.mint()).code).toBe('audience_changed');
      }
    },
  );
});

test('a mint that waits for a change under way sees it', async () => {
  const turn = await start();
  const change = await holdOpen(
    gateway,
    (sql) => sql`select from earshot.turns where id = ${turn.id} for update`,
  );
  const mint = turn.mint();
  await whenBlocked(gateway);
  await member('cleo');
  await change.commit();
  expect((await mint).code).toBe('audience_changed');
  await acme.remove('conversations/thread/members/cleo');
  expect((await use(turn.grant.token)).code).toBe('grant_revoked');
});

test('a key that is rotated under load refuses no token, and one that is retired all of its own', async () => {
  const { config } = gateway.gateway;
  const store = keyFile(config.dataDir);
  const [first] = await store.read();
  const turn = await start();
  const load = async () => {
    const answers: Answer[] = [];
    for (let call = 0; call < 12; call++) answers.push(await use(turn.grant.token));
    return answers;
  };
  // A gateway that starts now signs with the new key; the one under load has not heard of it.
  const rotating = async () => {
    await rotateKeys(store, 0);
    const other = await openInstance(config);
    const { send, tokens } = await gatewayOf(other, gateway.owner);
    const { id, lease } = await start();
    const json = { organization: acme.name, lease };
    const minted = await send('POST', `/v1/turns/${id}/grants`, { token: tokens.bridge, json });
    return { other, send, token: (ok(minted) as { token: string }).token };
  };
  const [answers, rotated] = await Promise.all([load(), rotating()]);
  expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(200));
  const asked = { json: { query: 'canary' } };
  const old = { token: turn.grant.token, ...asked };
  const newest = { token: rotated.token, ...asked };
  expect((await use(rotated.token)).status).toBe(200);
  expect((await rotated.send('POST', '/v1/tools/search', old)).status).toBe(200);

  expect(await retireKey(store, first?.kid ?? '')).toBe('retired');
  const last = await openInstance(config);
  const there = await gatewayOf(last, gateway.owner);
  expect((await there.send('POST', '/v1/tools/search', old)).code).toBe('malformed_token');
  expect((await there.send('POST', '/v1/tools/search', newest)).status).toBe(200);
  await last.close();
  await rotated.other.close();
});
