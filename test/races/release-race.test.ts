import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { externalId } from '../../policy/identity.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { removeMember } from '../../sql/facts/conversations.ts';
import { deleteMessage } from '../../sql/facts/messages.ts';
import { inOrganization } from '../../sql/organization.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import {
  memberFact,
  message,
  must,
  ORG,
  prepareAnswer,
  prepareOrganization,
  writeOne,
  type AnswerInWaiting,
} from '../support/answer-in-waiting.ts';

/** Changes after which the prepared answer may not go to the thread any more. */
const CHANGES = {
  'somebody joins the thread': (server: Database, { thread, people }: AnswerInWaiting) =>
    writeOne(server, memberFact(thread, people[2], 'all')),
  'somebody leaves the thread': (server: Database, { thread, people }: AnswerInWaiting) =>
    must(
      inOrganization(server, ORG, (t) =>
        removeMember(t, externalId(thread), externalId(people[1])),
      ),
    ),
  'a floor of the thread moves': (server: Database, { thread, people }: AnswerInWaiting) =>
    writeOne(server, memberFact(thread, people[1], { fromSeq: 2n })),
  'a reader loses the source': (server: Database, { source, people }: AnswerInWaiting) =>
    must(
      inOrganization(server, ORG, (t) =>
        removeMember(t, externalId(source), externalId(people[1])),
      ),
    ),
  'the source is edited': (server: Database, { source, people }: AnswerInWaiting) =>
    writeOne(server, message(source, 'm1', people[1], 'something else')),
  'the source is deleted': (server: Database, { source }: AnswerInWaiting) =>
    must(
      inOrganization(server, ORG, (t) => deleteMessage(t, externalId(source), externalId('m1'))),
    ),
};

describe('a change of readers that races a release', () => {
  let place: TestDatabase;
  let one: Database;
  let two: Database;
  let watcher: Database;

  beforeAll(async () => {
    place = await createTestDatabase();
    one = openDatabase(place.gatewayUrl, { max: 4 });
    two = openDatabase(place.gatewayUrl, { max: 4 });
    watcher = openDatabase(place.superuserUrl, { max: 2 });
    await prepareOrganization(one);
    // Numbers what happens inside the critical sections. A change moves its revision while it holds
    // that row, a release changes its row while it holds the revisions: so the numbers are the order
    // in which the two took effect.
    await watcher.sql.unsafe(`
      create sequence happened;
      create table happenings (place bigint, delivery uuid, kind text, at bigint default nextval('happened'));
      grant usage on sequence happened to public;
      grant insert on happenings to public;
      create function note_change() returns trigger language plpgsql as $$
        begin insert into public.happenings (place, kind) values (new.conversation_id, 'change'); return null; end $$;
      create function note_release() returns trigger language plpgsql as $$
        begin insert into public.happenings (delivery, kind) values (new.id, new.status); return null; end $$;
      create trigger note after update on earshot.conversation_revisions
        for each row execute function note_change();
      create trigger note after update on earshot.deliveries for each row execute function note_release();`);
  });
  afterAll(async () => {
    await Promise.all([one.close(), two.close(), watcher.close()]);
    await place.drop();
  });

  /** Whether the release took effect before the change, by the numbers. */
  async function releasedFirst({ delivery, thread, source }: AnswerInWaiting): Promise<boolean> {
    const [row] = await watcher.sql<{ first: boolean }[]>`
      select r.at < max(c.at) as first
      from happenings r
      join happenings c on c.kind = 'change'
      join earshot.conversations x on x.id = c.place and x.external_id in (${thread}, ${source})
      where r.delivery = ${delivery} and r.kind in ('released', 'held') group by r.at`;
    if (row === undefined) throw new Error('nothing happened');
    return row.first;
  }

  async function statusOf({ delivery }: AnswerInWaiting): Promise<string> {
    const [row] = await watcher.sql<{ status: string }[]>`
      select status from earshot.deliveries where id = ${delivery}`;
    return row?.status ?? '';
  }

  // INVARIANT 5, 12 and 14; 500 interleavings over two servers.
  it('releases before the change or holds after it, and never anything else', async () => {
    const kinds = Object.values(CHANGES);
    const seen = { released: 0, held: 0 };
    for (let round = 0; round < 500; round++) {
      const answer = await prepareAnswer(round % 2 === 0 ? one : two);
      const change = kinds[round % kinds.length];
      if (change === undefined) throw new Error('no change');
      const [changing, releasing] = round % 4 < 2 ? [one, two] : [two, one];
      // The release sets out some statements later than the change; who gets there first is the
      // machine's choice.
      const release = async (server: Database, statements: number) => {
        for (let sent = 0; sent < statements; sent++) await server.sql`select 1`;
        return answer.release(server);
      };
      const work = [
        () => change(changing, answer).then(() => undefined),
        () => release(releasing, round % 13),
        () => release(changing, (round * 7) % 13),
      ];
      if (round % 3 === 0) work.reverse();
      const results = (await Promise.all(work.map((start) => start()))).filter(
        (r) => r !== undefined,
      );
      const handedOut = results.filter((result) => result.ok);
      const first = await releasedFirst(answer);
      const status = await statusOf(answer);
      expect({ round, handedOut: handedOut.length, status }).toEqual({
        round,
        handedOut: first ? 1 : 0,
        status: first ? 'released' : 'held',
      });
      seen[first ? 'released' : 'held'] += 1;
    }
    // Both orders occurred, or the race was none.
    expect(Math.min(seen.released, seen.held)).toBeGreaterThan(20);
  }, 180_000);

  it.each(Object.entries(CHANGES))(
    'waits for a change under way and then holds: %s',
    async (_name, change) => {
      const answer = await prepareAnswer(one);
      // The change is held open after it moved its revision, before it commits.
      await watcher.sql.unsafe(`
        create function hold_open() returns trigger language plpgsql as $$
          begin perform pg_advisory_xact_lock(7); return null; end $$;
        create trigger zz_hold after update on earshot.conversation_revisions
          for each row execute function hold_open();`);
      const holder = await watcher.sql.reserve();
      await holder`select pg_advisory_lock(7)`;
      const changed = change(one, answer);
      await untilBlocked('advisory');
      const released = answer.release(two);
      await untilBlocked('transactionid');
      await holder`select pg_advisory_unlock(7)`;
      holder.release();
      await changed;
      expect((await released).ok).toBe(false);
      expect(await statusOf(answer)).toBe('held');
      await watcher.sql.unsafe(`drop function hold_open() cascade`);
    },
  );

  it('makes a change wait that comes while a release is under way', async () => {
    const answer = await prepareAnswer(one);
    await watcher.sql.unsafe(`
      create function hold_open() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(7); return null; end $$;
      create trigger zz_hold after update on earshot.deliveries for each row execute function hold_open();`);
    const holder = await watcher.sql.reserve();
    await holder`select pg_advisory_lock(7)`;
    const released = answer.release(two);
    await untilBlocked('advisory');
    const changed = CHANGES['somebody joins the thread'](one, answer);
    await untilBlocked('transactionid');
    await holder`select pg_advisory_unlock(7)`;
    holder.release();
    expect((await released).ok).toBe(true);
    await changed;
    expect(await releasedFirst(answer)).toBe(true);
    await watcher.sql.unsafe(`drop function hold_open() cascade`);
  });

  it('would be caught without the locks: the detector sees a release after the change', async () => {
    const [kept] = await watcher.sql<{ text: string }[]>`
      select pg_get_functiondef('earshot.lock_readability'::regproc) as text`;
    await watcher.sql.unsafe(`
      create or replace function earshot.lock_readability(p_org bigint, p_conversations bigint[])
        returns void language plpgsql as $$ begin end $$;
      create function hold_open() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(7); return new; end $$;
      create trigger aa_hold before update on earshot.deliveries for each row execute function hold_open();`);
    const answer = await prepareAnswer(one);
    const holder = await watcher.sql.reserve();
    await holder`select pg_advisory_lock(7)`;
    const released = answer.release(two);
    await untilBlocked('advisory');
    await CHANGES['somebody joins the thread'](one, answer);
    await holder`select pg_advisory_unlock(7)`;
    holder.release();
    expect((await released).ok).toBe(true);
    expect(await releasedFirst(answer)).toBe(false);
    await watcher.sql.unsafe(`drop function hold_open() cascade; ${kept?.text ?? ''}`);
  });

  it('hands out a released answer once, however many ask at once', async () => {
    for (let round = 0; round < 20; round++) {
      const answer = await prepareAnswer(one);
      const asked = Array.from({ length: 6 }, (_, index) =>
        answer.release(index % 2 === 0 ? one : two),
      );
      const results = await Promise.all(asked);
      expect(results.filter((result) => result.ok)).toHaveLength(1);
      const refused = results.flatMap((result) => (result.ok ? [] : [result.code]));
      expect(refused).toEqual(Array(5).fill('already_released'));
    }
  });

  /** Waits until a backend of the gateway waits for a lock of this kind. Polls; never longer than the test. */
  async function untilBlocked(kind: string): Promise<void> {
    for (;;) {
      const [row] = await watcher.sql<{ n: string }[]>`
        select count(*) as n from pg_stat_activity a
        where a.usename = 'earshot_gateway' and a.datname = current_database()
          and a.wait_event_type = 'Lock' and a.wait_event = ${kind}`;
      if (row?.n !== '0') return;
    }
  }
});
