import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { artifactHouse, type ArtifactHouse } from '../http/artifact-house.ts';
import { holdOpen, whenBlocked } from '../http/blocked.ts';
import type { Sql } from '../../sql/database.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Delivery, TestTurn } from '../support/organization.ts';

// What is saved while its sources change: whichever commits first, the later one sees it.

let gateway: TestGateway;
let house: ArtifactHouse;
let turn: TestTurn;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());
beforeEach(async () => {
  house = await artifactHouse(gateway);
  turn = await house.start();
  ok(await turn.tool('read', { conversation: 'notes' }));
});

const org = (sql: Sql) =>
  sql`(select id from earshot.organizations where external_id = ${house.acme.name})`;
const place = (sql: Sql, name: string) =>
  sql`(select id from earshot.conversations where org_id = ${org(sql)} and external_id = ${name})`;

async function sourcesOf(id: string): Promise<string[]> {
  const rows = await gateway.owner<{ row: string }[]>`
    select c.external_id || ' ' || l.from_seq as row from earshot.lineage l
    join earshot.conversations c on c.org_id = l.org_id and c.id = l.conversation_id where l.derived_id = ${id}`;
  return rows.map(({ row }) => row).sort();
}

describe('a change that is under way is waited for and seen', () => {
  test.each<[string, (sql: Sql) => Promise<unknown>]>([
    [
      'a reader of a source leaves',
      (sql) => sql`
        delete from earshot.memberships m using earshot.users u
        where m.org_id = ${org(sql)} and m.conversation_id = ${place(sql, 'notes')}
          and u.org_id = m.org_id and u.id = m.user_id and u.external_id = 'ben'`,
    ],
    [
      'a source is deleted',
      (sql) => sql`
        update earshot.messages set state = 'deleted'
        where org_id = ${org(sql)} and conversation_id = ${place(sql, 'notes')} and seq = 1`,
    ],
    [
      'the conversation of a source is deleted',
      (sql) => sql`
        update earshot.conversations set deleted = true
        where org_id = ${org(sql)} and external_id = 'notes'`,
    ],
  ])('%s', async (_what, change) => {
    const writer = await holdOpen(gateway, change);
    const saving = house.trySave(turn);
    await whenBlocked(gateway);
    await writer.commit();
    expect((await saving).code).toBe('source_revoked');
    expect(
      await gateway.owner`select from earshot.artifacts where org_id = ${org(gateway.owner)}`,
    ).toHaveLength(0);
  });

  test('somebody comes to the turn’s own destination', async () => {
    const writer = await holdOpen(
      gateway,
      (sql) => sql`
        insert into earshot.memberships (org_id, user_id, conversation_id, floor)
        select u.org_id, u.id, ${place(sql, 'thread')}, 1 from earshot.users u
        where u.org_id = ${org(sql)} and u.external_id = 'cleo'`,
    );
    const saving = house.trySave(turn);
    await whenBlocked(gateway);
    await writer.commit();
    expect((await saving).code).toBe('audience_changed');
  });

  test('an artifact that a caller names is deleted', async () => {
    const { id } = await house.assert([{ conversation: 'notes', seq: '1' }]);
    const writer = await holdOpen(
      gateway,
      (sql) => sql`update earshot.artifacts set state = 'deleted' where id = ${id}`,
    );
    const asserting = house.tryAssert([{ artifact: id }]);
    await whenBlocked(gateway);
    await writer.commit();
    expect((await asserting).code).toBe('not_found');
  });
});

describe('an answer whose report is under way', () => {
  let answer: Delivery;
  let reader: TestTurn;

  /** The answer is there as a message, and nobody knows yet which delivery it was. */
  beforeEach(async () => {
    answer = ok(await turn.propose('The canary sang.'));
    ok(await house.acme.release(answer));
    await house.write('thread', 'a1', 'The canary sang.', { author: { persona: 'assistant' } });
    reader = await house.start('thread', { threadKey: 'apart' });
    ok(await reader.tool('read', { conversation: 'thread' }));
  });

  test('hands its sources on to what is saved from it meanwhile', async () => {
    const report = await holdOpen(
      gateway,
      (sql) =>
        sql`select earshot.acknowledge_delivery(${house.acme.name}, ${answer.id}, 'delivered', 'a1')`,
    );
    const saving = house.trySave(reader);
    await whenBlocked(gateway);
    await report.commit();
    const { id } = ok(await saving);
    expect(await sourcesOf(id)).toEqual(expect.arrayContaining(['notes 1', 'notes 2', 'thread 2']));
  });

  test('hands its sources on to what is being saved from it when the report comes', async () => {
    await gateway.owner.unsafe(`
      create function earshot.hold_open() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(7); return null; end $$;
      create trigger zz_hold after insert on earshot.artifacts for each row execute function earshot.hold_open();`);
    const holder = await holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(7)`);
    const saving = house.trySave(reader);
    await whenBlocked(gateway);
    const reporting = house.acme.acknowledge(answer, 'delivered', 'a1');
    await whenBlocked(gateway, 2);
    await holder.commit();
    const { id } = ok(await saving);
    ok(await reporting);
    await gateway.owner.unsafe('drop function earshot.hold_open() cascade');
    expect(await sourcesOf(id)).toEqual(expect.arrayContaining(['notes 1', 'notes 2', 'thread 2']));
  });
});

describe('a deletion of an artifact and the release of what was made from it', () => {
  let id: string;
  let delivery: Delivery;

  beforeEach(async () => {
    ({ id } = await house.save(turn));
    const second = await house.start('second');
    ok(await house.read(second, id));
    delivery = ok(await second.propose('It sang.'));
  });

  test('the deletion first: the release waits, and hands out nothing', async () => {
    const writer = await holdOpen(
      gateway,
      (sql) => sql`select earshot.delete_artifact(${house.acme.name}, ${id})`,
    );
    const releasing = house.acme.release(delivery);
    await whenBlocked(gateway);
    await writer.commit();
    expect((await releasing).code).toBe('source_revoked');
  });

  test('the release first: the deletion waits, and comes after', async () => {
    const release = await holdOpen(
      gateway,
      (sql) => sql`
        select from earshot.conversation_revisions r
        where r.org_id = ${org(sql)} and r.conversation_id = ${place(sql, 'thread')} for share`,
    );
    const deleting = house.remove(id);
    await whenBlocked(gateway);
    expect((await house.acme.release(delivery)).status).toBe(200);
    await release.commit();
    ok(await deleting);
  });
});
