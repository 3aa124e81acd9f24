import { afterAll, beforeAll, expect, test } from 'vitest';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';

// An agent calls several tools at once, and what they show is partly the same.

let gateway: TestGateway;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

test('two calls of one session that show the same in another order are both answered', async () => {
  const acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('source', ['ana', 'ben']);
  for (let n = 0; n < 5; n++) await acme.say('source', 'ben', `canary ${n.toString()}`);
  await acme.say('thread', 'ana', 'what sang');
  const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  // The first call has put down its first message and waits.
  await gateway.owner.unsafe(`
    create function hold_open() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(7); return new; end $$;
    create trigger zz_hold before insert on earshot.ledger_entries for each row
      when (new.from_seq = 2) execute function hold_open()`);
  const held = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
  const read = (direction: string) => turn.tool('read', { conversation: 'source', direction });

  const forward = read('forward');
  await whenBlocked(gateway);
  const backward = read('backward');
  await whenBlocked(gateway, 2);
  await held.commit();
  const seqs = async (answer: ReturnType<typeof read>) =>
    ok(await answer).items.map(({ source }) => 'seq' in source && source.seq);
  expect(await seqs(forward)).toEqual(['1', '2', '3', '4', '5']);
  expect(await seqs(backward)).toEqual(['5', '4', '3', '2', '1']);
  const [{ n } = { n: 0 }] = await gateway.owner<{ n: number }[]>`
    select count(*)::integer as n from earshot.ledger_entries
    where session_id = ${turn.grant.sessionId} and to_seq is not null`;
  expect(n).toBe(5);
});
