import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { holdOpen, whenBlocked, type HeldOpen } from '../http/blocked.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Delivery, TestOrganization } from '../support/organization.ts';

// Sources that come while a verdict waits for its locks: what they depend on has to be locked as well (INVARIANT 5).

let gateway: TestGateway;
let acme: TestOrganization;
/** Made from `secret`, released into `thread`, and there as a message that nothing accounts for yet. */
let reported: Delivery;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('other', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('secret', ['ana', 'ben', 'cleo']);
  await acme.say('secret', 'ben', 'the canary sang');
  await acme.say('thread', 'ana', 'what sang');
  await acme.say('other', 'ana', 'what was said');
  const first = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  await first.search('canary');
  reported = ok(await first.propose('It was the canary.'));
  ok(await acme.release(reported));
  // The platform names a person as the author, and the endpoint has not reported yet.
  await acme.put('conversations/thread/messages/answer', {
    author: { user: 'ben' },
    body: 'It was the canary.',
    sentAt: '2050-01-01T00:00:00Z',
  });
});

const acknowledging = () =>
  holdOpen(
    gateway,
    (sql) =>
      sql`select earshot.acknowledge_delivery(${acme.name}, ${reported.id}, 'delivered', 'answer')`,
  );

/** Lets no delivery that is written with this status commit until the end of it. */
async function heldAt(event: 'insert' | 'update', status: string): Promise<HeldOpen> {
  await gateway.owner.unsafe(`
    create function hold_open() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(7); return null; end $$;
    create trigger zz_hold after ${event} on earshot.deliveries for each row
      when (new.status = '${status}') execute function hold_open()`);
  const held = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
  let isHeld = true;
  return {
    async commit() {
      if (isHeld) await held.commit();
      isHeld = false;
    },
  };
}

/** Whether a change of who reads a conversation would have to wait. */
const isLocked = (conversation: string) =>
  gateway.owner`
    select from earshot.conversation_revisions r
    join earshot.conversations c on c.org_id = r.org_id and c.id = r.conversation_id
    join earshot.organizations o on o.id = c.org_id
    where o.external_id = ${acme.name} and c.external_id = ${conversation} for no key update of r nowait`.then(
    () => false,
    (error: unknown) => {
      if ((error as { code?: string }).code === '55P03') return true;
      throw error;
    },
  );

const sourcesOf = async ({ id }: Delivery) =>
  (
    await gateway.owner<{ name: string }[]>`
      select distinct c.external_id as name from earshot.lineage s
      join earshot.conversations c on c.org_id = s.org_id and c.id = s.conversation_id
      where s.derived_id = ${id} order by 1`
  ).map(({ name }) => name);

const untilHeld = async () => {
  for (;;) {
    const rows = await gateway.owner`
      select from pg_stat_activity where datname = current_database() and usename = 'earshot_gateway'
        and wait_event_type = 'Lock' and wait_event = 'advisory'`;
    if (rows.length > 0) return;
  }
};

test('a release holds fast what a report added to its sources while it waited', async () => {
  const second = await acme.turn({ destination: 'other', requester: 'ana', trigger: '1' });
  ok(await second.tool('read', { conversation: 'thread' }));
  const answer = ok(await second.propose('The canary, it was said.'));
  expect(await sourcesOf(answer)).toEqual(['other', 'thread']);

  const held = await heldAt('update', 'released');
  const report = await acknowledging();
  try {
    const release = acme.release(answer);
    await whenBlocked(gateway);
    await report.commit();
    await untilHeld();
    expect(await sourcesOf(answer)).toEqual(['other', 'secret', 'thread']);
    expect(await isLocked('secret')).toBe(true);
    await held.commit();
    ok(await release);
  } finally {
    await held.commit();
    await gateway.owner.unsafe('drop function hold_open() cascade');
  }
});

test('a proposal holds fast what its turn was shown while it waited, and so keeps what that was made from', async () => {
  const second = await acme.turn({ destination: 'other', requester: 'ana', trigger: '1' });
  const barrier = await holdOpen(
    gateway,
    (sql) => sql`
      select from earshot.conversation_revisions r
      join earshot.conversations c on c.org_id = r.org_id and c.id = r.conversation_id
      join earshot.organizations o on o.id = c.org_id
      where o.external_id = ${acme.name} and c.external_id = 'other' for update of r`,
  );
  const held = await heldAt('insert', 'cleared');
  try {
    const proposal = second.propose('The canary, it was said.');
    await whenBlocked(gateway);
    ok(await second.tool('read', { conversation: 'thread' }));
    await barrier.commit();
    await untilHeld();
    // The report has to wait for the proposal, or it would add nothing to what it cannot see.
    const acknowledgement = acme.acknowledge(reported, 'delivered', 'answer');
    expect(await isLocked('thread')).toBe(true);
    await held.commit();
    const answer = ok(await proposal);
    ok(await acknowledgement);
    expect(await sourcesOf(answer)).toEqual(['other', 'secret', 'thread']);
  } finally {
    await held.commit();
    await gateway.owner.unsafe('drop function hold_open() cascade');
  }
});

test('two reports at once hand on what each of them adds, as one after the other does', async () => {
  await acme.conversation('third', ['ana', 'ben'], { aiThread: true });
  await acme.say('third', 'ana', 'and then');
  const second = await acme.turn({ destination: 'other', requester: 'ana', trigger: '1' });
  ok(await second.tool('read', { conversation: 'thread' }));
  const between = ok(await second.propose('The canary, it was said.'));
  ok(await acme.release(between));
  await acme.put('conversations/other/messages/between', {
    author: { user: 'ben' },
    body: 'The canary, it was said.',
    sentAt: '2050-01-01T00:00:00Z',
  });
  const third = await acme.turn({ destination: 'third', requester: 'ana', trigger: '1' });
  ok(await third.tool('read', { conversation: 'other' }));
  const last = ok(await third.propose('Somebody said that it was the canary.'));
  expect(await sourcesOf(last)).toEqual(['other', 'third']);

  const report = await acknowledging();
  const following = acme.acknowledge(between, 'delivered', 'between');
  await Promise.race([following, whenBlocked(gateway)]);
  await report.commit();
  ok(await following);
  expect(await sourcesOf(last)).toEqual(['other', 'secret', 'third', 'thread']);
});
