import { afterAll, beforeAll, expect, it } from 'vitest';
import { externalId } from '../../policy/identity.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { admitLate, deleteMessage } from '../../sql/facts/messages.ts';
import { inOrganization } from '../../sql/organization.ts';
import {
  conversation,
  memberFact,
  message,
  ORG,
  prepareOrganization,
  writeOne,
} from '../support/answer-in-waiting.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let place: TestDatabase;
let one: Database;
let watcher: Database;

beforeAll(async () => {
  place = await createTestDatabase();
  one = openDatabase(place.gatewayUrl, { max: 4 });
  watcher = openDatabase(place.superuserUrl, { max: 2 });
  await prepareOrganization(one);
  await writeOne(one, { fact: 'user', id: externalId('ann'), kind: 'member', status: 'active' });
  for (const fact of conversation('place', false)) await writeOne(one, fact);
  await writeOne(one, message('place', 'm1', 'ann', 'first'));
  await writeOne(one, memberFact('place', 'ann', 'from_join'));
  await writeOne(one, message('place', 'late', 'ann', 'taken back'));
});
afterAll(async () => {
  await Promise.all([one.close(), watcher.close()]);
  await place.drop();
});

it('a late message that is deleted first cannot be admitted by a request that was under way', async () => {
  const late = externalId('late');
  const holder = await watcher.sql.reserve();
  await holder`begin`;
  await holder`select from earshot.conversations where external_id = 'place' for update`;
  const deleted = inOrganization(one, ORG, (t) => deleteMessage(t, externalId('place'), late));
  await untilBlocked(1);
  const admitted = inOrganization(one, ORG, (t) => admitLate(t, externalId('place'), late));
  await untilBlocked(2);
  await holder`commit`;
  holder.release();

  expect(await deleted).toMatchObject({ ok: true, outcome: 'deleted' });
  expect(await admitted).toMatchObject({ ok: false, code: 'not_found' });
  expect(await watcher.sql`select from earshot.messages where body = 'taken back'`).toHaveLength(0);
});

async function untilBlocked(count: number): Promise<void> {
  for (;;) {
    const [row] = await watcher.sql<{ n: number }[]>`
      select count(*)::integer as n from pg_stat_activity a
      where a.usename = 'earshot_gateway' and a.datname = current_database() and a.wait_event_type = 'Lock'`;
    if ((row?.n ?? 0) >= count) return;
  }
}
