import { afterAll, beforeAll, expect, it } from 'vitest';
import { externalId } from '../../policy/identity.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { acknowledgeDelivery } from '../../sql/deliveries.ts';
import {
  ORG,
  must,
  prepareAnswer,
  prepareOrganization,
  writeOne,
} from '../support/answer-in-waiting.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// A platform's message event and the endpoint's report arrive together.

let place: TestDatabase;
let one: Database;
let two: Database;
let watcher: Database;

beforeAll(async () => {
  place = await createTestDatabase();
  one = openDatabase(place.gatewayUrl, { max: 2 });
  two = openDatabase(place.gatewayUrl, { max: 2 });
  watcher = openDatabase(place.superuserUrl, { max: 2 });
  await prepareOrganization(one);
});
afterAll(async () => {
  await Promise.all([one.close(), two.close(), watcher.close()]);
  await place.drop();
});

it.each(['the message', 'the report'])(
  'a delivered message is linked to its delivery when %s is still under way as the other comes',
  async (first) => {
    const answer = await prepareAnswer(one);
    await must(answer.release(one));
    const table = first === 'the message' ? 'messages' : 'deliveries';
    const event = first === 'the message' ? 'insert' : 'update';
    await watcher.sql.unsafe(`
      create function hold_open() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(7); return null; end $$;
      create trigger zz_hold after ${event} on earshot.${table} for each row execute function hold_open();`);
    const holder = await watcher.sql.reserve();
    await holder`select pg_advisory_lock(7)`;

    const work = [
      () =>
        writeOne(one, {
          fact: 'message',
          conversation: externalId(answer.thread),
          id: externalId('answer'),
          kind: 'message',
          author: { persona: externalId('helper') },
          body: 'It is so.',
          sentAt: 0n,
        }),
      () => must(acknowledgeDelivery(two, ORG, answer.delivery, 'delivered', externalId('answer'))),
    ];
    if (first === 'the report') work.reverse();
    const started = work[0]?.();
    await untilBlocked('advisory');
    const following = work[1]?.();
    await untilBlocked('transactionid');
    await holder`select pg_advisory_unlock(7)`;
    holder.release();
    await Promise.all([started, following]);
    await watcher.sql.unsafe(`drop function hold_open() cascade`);

    const [row] = await watcher.sql<{ delivery: string | null }[]>`
      select m.delivery_id as delivery from earshot.messages m
      join earshot.conversations c on c.id = m.conversation_id
      where c.external_id = ${answer.thread} and m.external_id = 'answer'`;
    expect(row?.delivery).toBe(answer.delivery);
  },
);

async function untilBlocked(kind: string): Promise<void> {
  for (;;) {
    const [row] = await watcher.sql<{ n: string }[]>`
      select count(*) as n from pg_stat_activity a
      where a.usename = 'earshot_gateway' and a.datname = current_database()
        and a.wait_event_type = 'Lock' and a.wait_event = ${kind}`;
    if (row?.n !== '0') return;
  }
}
