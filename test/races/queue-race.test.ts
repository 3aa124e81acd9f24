import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sha256Hex } from '../../policy/canonical.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import {
  acknowledgeDelivery,
  approveDelivery,
  proposeDelivery,
  releaseDelivery,
} from '../../sql/deliveries.ts';
import { claimDeliveries, type ClaimedDelivery } from '../../sql/delivery-claims.ts';
import {
  memberFact,
  must,
  ORG,
  prepareAnswer,
  prepareOrganization,
  writeOne,
  type AnswerInWaiting,
} from '../support/answer-in-waiting.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// Two workers at one queue: leases that lapse, reports that come too late, and a row that hangs.

const ANYONE = { personas: ['*'] };
const ATTEMPTS = 5;

let place: TestDatabase;
let one: Database;
let two: Database;
let watcher: Database;
let answer: AnswerInWaiting;

beforeAll(async () => {
  place = await createTestDatabase();
  one = openDatabase(place.gatewayUrl, { max: 4 });
  two = openDatabase(place.gatewayUrl, { max: 4 });
  watcher = openDatabase(place.superuserUrl, { max: 2 });
  await prepareOrganization(one);
});
afterAll(async () => {
  await Promise.all([one.close(), two.close(), watcher.close()]);
  await place.drop();
});
beforeEach(async () => {
  answer = await prepareAnswer(one);
});

const textOf = (n: number) => `Answer ${n.toString()}.`;

/** Proposes so many answers to the queue, and gives their ids. */
async function fill(count: number, approval = false): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const proposal = {
      id: randomUUID(),
      destination: answer.thread,
      payload: Buffer.from(textOf(n)),
      contentType: 'text/plain',
      key: `queued-${n.toString()}`,
      requestDigest: Buffer.from(`queued-${n.toString()}`),
      maxAgeSeconds: 600,
      wishes: { queue: true, approval },
    };
    ids.push((await must(proposeDelivery(one, answer.digest, proposal))).id);
  }
  return ids;
}

/** Claims toward this test's thread. */
function claim(server: Database, worker: string, limit = 10): Promise<ClaimedDelivery[]> {
  const wanted = { worker, limit, leaseSeconds: 600, attempts: ATTEMPTS };
  return claimDeliveries(server, ORG, ANYONE, { ...wanted, destinations: [answer.thread] });
}

function release(server: Database, { id, fence, ...claimed }: ClaimedDelivery) {
  return releaseDelivery(server, ORG, id, claimed, undefined, 60, BigInt(fence));
}

function report(server: Database, { id, fence }: ClaimedDelivery, outcome: 'delivered' | 'failed') {
  const said = { fence: BigInt(fence), attempts: ATTEMPTS };
  return acknowledgeDelivery(server, ORG, id, outcome, undefined, said);
}

/** The leases on these run out, or the time of their next try comes. */
async function lapse(ids: readonly string[]): Promise<void> {
  await watcher.sql`
    update earshot.deliveries
    set lease_expires_at = clock_timestamp(), not_before = case when not_before is not null then clock_timestamp() end
    where id = any (${[...ids]}::uuid[])`;
}

async function statusesOf(ids: readonly string[]): Promise<Record<string, number>> {
  const rows = await watcher.sql<{ status: string; n: string }[]>`
    select status, count(*) as n from earshot.deliveries where id = any (${[...ids]}::uuid[]) group by status`;
  return Object.fromEntries(rows.map(({ status, n }) => [status, Number(n)]));
}

describe('two workers at one queue', () => {
  it('send each delivery once, however they race for them', async () => {
    const ids = await fill(30);
    const sent: string[] = [];
    const work = async (server: Database, worker: string) => {
      for (;;) {
        const claimed = await claim(server, worker, 3);
        if (claimed.length === 0) return;
        for (const delivery of claimed) {
          const released = await must(release(server, delivery));
          sent.push(`${delivery.id} ${Buffer.from(released.payload).toString()}`);
          await must(report(server, delivery, 'delivered'));
        }
      }
    };
    await Promise.all([
      ...[work(one, 'one'), work(two, 'two')],
      ...[work(one, 'three'), work(two, 'four')],
    ]);
    expect(sent.sort()).toEqual(ids.map((id, n) => `${id} ${textOf(n)}`).sort());
    expect(await statusesOf(ids)).toEqual({ delivered: 30 });
  });

  it('send ten as ten where a lease lapses in the middle: what comes too late is fenced', async () => {
    const ids = await fill(10);
    const sent: string[] = [];
    const send = async (server: Database, delivery: ClaimedDelivery) => {
      const released = await release(server, delivery);
      if (released.ok) sent.push(delivery.id);
      return released;
    };
    const slow = await claim(one, 'slow');
    expect(slow).toHaveLength(10);
    for (const delivery of slow.slice(0, 3)) {
      await must(send(one, delivery));
      await must(report(one, delivery, 'delivered'));
    }
    // It has released the fourth, and sends it, when its lease runs out.
    const [fourth, ...rest] = slow.slice(3);
    if (fourth === undefined) throw new Error('nothing is left');
    await must(send(one, fourth));
    await lapse(ids);
    const quick = await claim(two, 'quick');
    expect(quick.map(({ id }) => id)).toEqual(rest.map(({ id }) => id));
    expect(quick.every(({ fence }) => fence === '2')).toBe(true);

    const [late, swift] = await Promise.all([
      Promise.all(rest.map((delivery) => send(one, delivery))),
      Promise.all(quick.map((delivery) => send(two, delivery))),
    ]);
    expect(late.map((answer) => (answer.ok ? 'sent' : answer.code))).toEqual(
      Array(6).fill('fenced'),
    );
    expect(swift.every(({ ok }) => ok)).toBe(true);
    for (const outcome of ['delivered', 'failed'] as const) {
      for (const delivery of rest) {
        expect(await report(one, delivery, outcome)).toMatchObject({ ok: false, code: 'fenced' });
      }
    }
    expect(await statusesOf(ids)).toEqual({ delivered: 3, released: 7 });
    await must(report(one, fourth, 'delivered'));
    for (const delivery of quick) await must(report(two, delivery, 'delivered'));
    expect(await statusesOf(ids)).toEqual({ delivered: 10 });
    expect(sent).toHaveLength(10);
    expect(new Set(sent)).toEqual(new Set(ids));
  });

  it('leave a delivery over whose send they hang to its reason, and hand its bytes out to nobody', async () => {
    const [hanging = '', ...others] = await fill(3);
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const [server, worker] = attempt % 2 === 0 ? [two, 'two'] : ([one, 'one'] as const);
      const claimed = await claim(server, worker);
      for (const delivery of claimed) {
        if (delivery.id === hanging) continue;
        await must(release(server, delivery));
        await must(report(server, delivery, 'delivered'));
      }
      expect(claimed.find(({ id }) => id === hanging)).toMatchObject({ attempt });
      await lapse([hanging]);
    }
    const last = { id: hanging, fence: ATTEMPTS.toString() } as ClaimedDelivery;
    expect(await claim(two, 'two')).toEqual([]);
    expect(await statusesOf([hanging])).toEqual({ dead: 1 });
    expect(await statusesOf(others)).toEqual({ delivered: 2 });
    expect(await report(one, last, 'delivered')).toMatchObject({ ok: false, code: 'fenced' });
    const [row] = await watcher.sql<{ reason: string; payload: unknown }[]>`
      select reason, payload from earshot.deliveries where id = ${hanging}`;
    expect(row).toEqual({ reason: 'lease_expired', payload: null });
  });

  it('hand out bytes a second time only after the first try was reported to have failed', async () => {
    const [id = ''] = await fill(1);
    const [first] = await claim(one, 'one');
    if (first === undefined) throw new Error('nothing is due');
    await must(release(one, first));
    // Neither a lease that lapses nor a deadline that passes brings it back.
    await lapse([id]);
    expect(await claim(two, 'two')).toEqual([]);
    await watcher.sql`update earshot.deliveries set acknowledge_by = clock_timestamp() where id = ${id}`;
    expect(await claim(two, 'two')).toEqual([]);
    expect(await statusesOf([id])).toEqual({ reconciling: 1 });
    await must(report(one, first, 'failed'));
    await lapse([id]);
    const [second] = await claim(two, 'two');
    if (second === undefined) throw new Error('nothing is due');
    expect(second).toMatchObject({ id, fence: '2' });
    expect(
      (await Promise.all([release(one, first), release(two, second)])).map(({ ok }) => ok),
    ).toEqual([false, true]);
  });
});

describe('a claim', () => {
  it('takes what another claim that is under way does not, and waits for nothing', async () => {
    const ids = await fill(4);
    const proceed = await holdUpdates('deliveries', `new.claimed_by = 'one'`);
    const first = claim(one, 'one', 3);
    await untilBlocked();
    const second = await claim(two, 'two', 3);
    await proceed();
    expect(second.map(({ id }) => id)).toEqual(ids.slice(3));
    expect((await first).map(({ id }) => id)).toEqual(ids.slice(0, 3));
  });

  it('passes by a delivery that is being released, though its lease has run out since', async () => {
    const [id = ''] = await fill(1);
    const [claimed] = await claim(one, 'one');
    if (claimed === undefined) throw new Error('nothing is due');
    const proceed = await holdUpdates('deliveries');
    const released = release(one, claimed);
    await untilBlocked();
    expect(await claim(two, 'two')).toEqual([]);
    await proceed();
    expect((await released).ok).toBe(true);
    await lapse([id]);
    expect(await claim(two, 'two')).toEqual([]);
    expect(await statusesOf([id])).toEqual({ released: 1 });
  });

  it('that runs out while a release waits for a change leaves that release fenced', async () => {
    const [id = ''] = await fill(1);
    const [claimed] = await claim(one, 'one');
    if (claimed === undefined) throw new Error('nothing is due');
    const proceed = await holdUpdates('conversation_revisions');
    const changed = writeOne(one, memberFact(answer.source, answer.people[2], { fromSeq: 2n }));
    await untilBlocked();
    const released = release(one, claimed);
    await untilBlocked('transactionid');
    await lapse([id]);
    await proceed();
    await changed;
    expect(await released).toMatchObject({ ok: false, code: 'fenced' });
    expect(await claim(two, 'two')).toMatchObject([{ id, fence: '2' }]);
  });
});

describe('an approval', () => {
  const approve = (id: string) =>
    approveDelivery(
      two,
      ORG,
      { operator: { client: 'operator', personas: ['*'] } },
      id,
      sha256Hex(textOf(0)),
    );

  it('waits for a change of readers that is under way, and then holds', async () => {
    const [id = ''] = await fill(1, true);
    const proceed = await holdUpdates('conversation_revisions');
    const changed = writeOne(one, memberFact(answer.thread, answer.people[2], 'all'));
    await untilBlocked();
    const approved = approve(id);
    await untilBlocked('transactionid');
    await proceed();
    await changed;
    expect(await approved).toMatchObject({
      delivery: { status: 'held', refusal: { code: 'audience_changed' } },
    });
  });

  it('makes a change wait that comes while it is under way, and which the release then sees', async () => {
    const [id = ''] = await fill(1, true);
    const proceed = await holdUpdates('deliveries');
    const approved = approve(id);
    await untilBlocked();
    const changed = writeOne(one, memberFact(answer.thread, answer.people[2], 'all'));
    await untilBlocked('transactionid');
    await proceed();
    expect(await approved).toMatchObject({ delivery: { status: 'cleared' } });
    await changed;
    const [claimed] = await claim(one, 'one');
    if (claimed === undefined) throw new Error('nothing is due');
    expect(await release(one, claimed)).toMatchObject({ ok: false, code: 'audience_changed' });
  });

  it('of one delivery by many at once is one approval', async () => {
    const [id = ''] = await fill(1, true);
    const answers = await Promise.all(Array.from({ length: 8 }, () => must(approve(id))));
    expect(new Set(answers.map(({ delivery }) => delivery.approval?.at)).size).toBe(1);
    const rows = await watcher.sql`
      select from earshot.decisions where delivery_id = ${id} and kind = 'approve'`;
    expect(rows).toHaveLength(1);
  });
});

/** Keeps whoever changes such rows from going on, until the function that it gives is called. */
async function holdUpdates(table: string, which = 'true'): Promise<() => Promise<void>> {
  await watcher.sql.unsafe(`
    create function hold_open() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(7); return null; end $$;
    create trigger zz_hold after update on earshot.${table} for each row
      when (${which}) execute function hold_open();`);
  const holder = await watcher.sql.reserve();
  await holder`select pg_advisory_lock(7)`;
  return async () => {
    await holder`select pg_advisory_unlock(7)`;
    holder.release();
    await watcher.sql.unsafe('drop function hold_open() cascade');
  };
}

/** Waits until a backend of the gateway waits for a lock of this kind. Polls; never longer than the test. */
async function untilBlocked(kind = 'advisory'): Promise<void> {
  for (;;) {
    const [row] = await watcher.sql<{ n: string }[]>`
      select count(*) as n from pg_stat_activity a
      where a.usename = 'earshot_gateway' and a.datname = current_database()
        and a.wait_event_type = 'Lock' and a.wait_event = ${kind}`;
    if (row?.n !== '0') return;
  }
}
