import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { enterReleaseHouse, type Draft, type ReleaseHouse } from '../http/release-house.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Delivery, TestTurn } from '../support/organization.ts';
import { openPeople, type People } from '../support/people.ts';
import { openRaceHolds, type RaceHolds } from './race-holds.ts';

// What an owner says while a text that stands on it goes out. Each interleaving that matters is made by hand; the rounds look for
// one that was not thought of. RACE_ROUNDS says how many.

const ROUNDS = Number(process.env.RACE_ROUNDS ?? 24);

let gateway: TestGateway;
let people: People;
let holds: RaceHolds;
let house: ReleaseHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
  people = await openPeople(gateway);
  holds = await openRaceHolds(gateway);
  // An owner's answer holds the release that it changes: it is a change among the numbers.
  await gateway.owner.unsafe(`
    create function race.answered() returns trigger language plpgsql as $$
      begin insert into race.happenings (kind) values ('change'); return null; end $$;
    create trigger zz_race after update on earshot.artifact_releases
      for each row execute function race.answered();`);
});
afterAll(() => gateway.close());
beforeEach(async () => {
  house = await enterReleaseHouse(gateway, people);
});

interface Consented {
  readonly turn: TestTurn;
  readonly draft: Draft;
  readonly release: string;
  readonly text: string;
}

let texts = 0;
async function askedFor(): Promise<Consented> {
  const text = `The canary sang ${(texts++).toString()} times.`;
  const { turn, draft } = await house.draft(text, 'notes');
  const { id: release } = await house.ask(turn, draft);
  return { turn, draft, release, text };
}
async function consented(): Promise<Consented> {
  const asked = await askedFor();
  ok(await house.approve('ana', asked.release, asked.draft));
  return asked;
}
const post = ({ turn, text }: Consented) => turn.propose(text, { destination: 'room' });
async function cleared(of: Consented): Promise<Delivery> {
  const delivery = ok(await post(of));
  expect(delivery.status).toBe('cleared');
  return delivery;
}

/** Takes an owner's answer in a transaction that stays open. */
const answering = (release: string, approves: boolean, { textSha256 }: Draft) =>
  holdOpen(
    gateway,
    (sql) => sql`
      select earshot.answer_release(${house.acme.name}, 'ana', ${release}, ${approves}, decode(${textSha256}, 'hex'))`,
  );

describe('a withdrawal that is under way', () => {
  test('is waited for by the release of the text, which then does not go', async () => {
    const of = await consented();
    const delivery = await cleared(of);
    const withdrawal = await answering(of.release, false, of.draft);
    const released = house.acme.release(delivery);
    await whenBlocked(gateway);
    await withdrawal.commit();
    expect((await released).code).toBe('source_revoked');
    expect(await house.acme.delivery(delivery.id)).toMatchObject({ status: 'held' });
  });

  test('is waited for by a proposal, which is then held', async () => {
    const of = await consented();
    const withdrawal = await answering(of.release, false, of.draft);
    const proposed = post(of);
    await whenBlocked(gateway);
    await withdrawal.commit();
    expect(ok(await proposed)).toMatchObject({ status: 'held', code: 'source_revoked' });
  });
});

describe('a withdrawal that comes while the text goes waits, and comes after:', () => {
  test('its release', async () => {
    const of = await consented();
    const delivery = await cleared(of);
    const judged = await holds.afterJudging();
    const released = house.acme.release(delivery);
    const backend = await holds.whenHeld();
    const withdrawn = house.refuse('ana', of.release);
    expect(await holds.waitsFor(withdrawn, backend)).toBe(true);
    await judged.commit();
    expect(ok(await released).payload).toBe(of.text);
    expect(ok(await withdrawn)).toMatchObject({ status: 'refused' });
    expect(ok(await post(of))).toMatchObject({ status: 'held' });
  });

  test('its proposal, whose clearance then releases nothing', async () => {
    const of = await consented();
    const judged = await holds.afterJudging();
    const proposed = post(of);
    const backend = await holds.whenHeld();
    const withdrawn = house.refuse('ana', of.release);
    expect(await holds.waitsFor(withdrawn, backend)).toBe(true);
    await judged.commit();
    const delivery = ok(await proposed);
    expect(delivery.status).toBe('cleared');
    ok(await withdrawn);
    expect((await house.acme.release(delivery)).code).toBe('source_revoked');
  });
});

test('an approval that is under way is waited for by a proposal, which then goes by it', async () => {
  const of = await askedFor();
  const approval = await answering(of.release, true, of.draft);
  const proposed = post(of);
  await whenBlocked(gateway);
  await approval.commit();
  expect(ok(await proposed).status).toBe('cleared');
});

test('an approval that comes while the text is judged waits, and does not help it', async () => {
  const of = await askedFor();
  const judged = await holds.afterJudging();
  const proposed = post(of);
  const backend = await holds.whenHeld();
  const approved = house.approve('ana', of.release, of.draft);
  expect(await holds.waitsFor(approved, backend)).toBe(true);
  await judged.commit();
  expect(ok(await proposed)).toMatchObject({ status: 'held', code: 'source_revoked' });
  expect(ok(await approved)).toMatchObject({ status: 'approved' });
  expect(ok(await post(of)).status).toBe('cleared');
});

describe('a source that gets another owner', () => {
  const keyOf = async (conversation: string) => {
    const [row] = await gateway.owner<{ id: number }[]>`
      select c.id::integer as id from earshot.conversations c
      join earshot.organizations o on o.id = c.org_id
      where o.external_id = ${house.acme.name} and c.external_id = ${conversation}`;
    return row?.id ?? 0;
  };

  test('before its text is released: the release waits, and the text does not go', async () => {
    const of = await consented();
    const delivery = await cleared(of);
    const moved = await holds.afterMoving(await keyOf('notes'));
    const changed = house.own('notes', 'ben');
    const backend = await holds.whenHeld();
    const released = house.acme.release(delivery);
    expect(await holds.waitsFor(released, backend)).toBe(true);
    await moved.commit();
    await changed;
    expect((await released).code).toBe('source_revoked');
  });

  test('while its text is released: that is waited for', async () => {
    const of = await consented();
    const delivery = await cleared(of);
    const judged = await holds.afterJudging();
    const released = house.acme.release(delivery);
    const backend = await holds.whenHeld();
    const changed = house.own('notes', 'ben');
    expect(await holds.waitsFor(changed, backend)).toBe(true);
    await judged.commit();
    expect(ok(await released).payload).toBe(of.text);
    await changed;
  });

  test('while the former one says yes: the yes is for nothing', async () => {
    const of = await askedFor();
    const moved = await holds.afterMoving(await keyOf('notes'));
    const changed = house.own('notes', 'ben');
    const backend = await holds.whenHeld();
    const approved = house.approve('ana', of.release, of.draft);
    expect(await holds.waitsFor(approved, backend)).toBe(true);
    await moved.commit();
    await changed;
    // Her own thread is hers still; the notes are not.
    expect(ok(await approved)).toMatchObject({ status: 'asked' });
    expect(ok(await post(of))).toMatchObject({ status: 'held', code: 'source_revoked' });
  });
});

test('the test notices a release that nobody locks: the text goes after its owner took the yes back', async () => {
  const [kept] = await gateway.owner<{ text: string }[]>`
    select pg_get_functiondef('earshot.lock_releases'::regproc) as text`;
  const text = kept?.text ?? '';
  expect(text.split(' for share')).toHaveLength(2);
  await gateway.owner.unsafe(text.replace(' for share', ''));
  try {
    const of = await consented();
    const delivery = await cleared(of);
    await holds.begin();
    const judged = await holds.afterJudging();
    const released = house.acme.release(delivery);
    await holds.whenHeld();
    ok(await house.refuse('ana', of.release));
    await judged.commit();
    expect(ok(await released).payload).toBe(of.text);
    expect(await holds.wasFirst(delivery.id, ['released'])).toBe(false);
  } finally {
    await gateway.owner.unsafe(text);
  }
});

test(
  'whichever comes first, the text goes before the withdrawal or not at all',
  { timeout: 600_000 },
  async () => {
    const seen = { gone: 0, held: 0 };
    for (let round = 0; round < ROUNDS; round++) {
      const of = await consented();
      const delivery = await cleared(of);
      await holds.begin();
      const after = async <T>(statements: number, work: () => Promise<T>): Promise<T> => {
        for (let sent = 0; sent < statements; sent++) await gateway.owner`select 1`;
        return work();
      };
      const [released, withdrawn] = await Promise.all([
        after((round * 3) % 8, () => house.acme.release(delivery)),
        after((round * 5) % 8, () => house.refuse('ana', of.release)),
      ]);
      expect(ok(withdrawn)).toMatchObject({ status: 'refused' });
      const first = await holds.wasFirst(delivery.id, ['released', 'held']);
      expect({ round, code: released.code }).toEqual({
        round,
        code: first ? undefined : 'source_revoked',
      });
      seen[first ? 'gone' : 'held'] += 1;
    }
    expect(Math.min(seen.gone, seen.held)).toBeGreaterThan(0);
  },
);

test('owners who say yes at once are all counted, and a no among them counts most', async () => {
  for (let round = 0; round < 4; round++) {
    const text = `Both sang ${(texts++).toString()} times.`;
    const { turn, draft } = await house.draft(text, 'notes', 'plans');
    const { id } = await house.ask(turn, draft);
    const answers = await Promise.all([
      house.approve('ana', id, draft),
      house.approve('ben', id, draft),
      ...(round % 2 === 0 ? [] : [house.refuse('ben', id)]),
    ]);
    for (const { code } of answers) expect([undefined, 'conflict']).toContain(code);
    const expected = round % 2 === 0 ? 'approved' : 'refused';
    expect((await house.list('ana')).find((one) => one.id === id)).toMatchObject({
      status: expected,
    });
    const { status } = ok(await turn.propose(text, { destination: 'room' }));
    expect(status).toBe(round % 2 === 0 ? 'cleared' : 'held');
  }
});
