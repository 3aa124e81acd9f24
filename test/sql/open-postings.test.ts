import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openDatabase, type Database } from '../../sql/database.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { insertInto, messagesOf, openHouse, type OpenHouse } from './open-house.ts';

// What is kept of messages that are open to the organization is what would be made of them from nothing.

let gateway: TestGateway;
/** The login that owns the tables, which row security holds for as well. */
let admin: Database;
let { acme, org, write, conversation, termsOf, expectWhole } = {} as OpenHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
  admin = openDatabase(gateway.target.adminUrl, { max: 2 });
});

afterAll(async () => {
  await admin.close();
  await gateway.close();
});

beforeEach(async () => {
  ({ acme, org, write, conversation, termsOf, expectWhole } = await openHouse(gateway));
  await acme.conversation('open', ['ana'], { visibility: 'organization' });
  await acme.conversation('closed', ['ana', 'ben']);
  await write('open', 'm1', 'the lantern of the harbor, a lantern');
  await write('open', 'm2', 'pewter');
  await write('open', 'm3', 'the of');
  await write('closed', 'c1', 'hidden lantern');
  await write('closed', 'c2', 'hidden pewter');
  expect(await termsOf('open')).toEqual(['harbor', 'lantern', 'pewter']);
});

/** Runs one statement as the owner of the tables, in the organization. */
async function byOwner(statement: string): Promise<void> {
  await admin.sql.begin(async (sql) => {
    await sql`select set_config('earshot.organization', ${org}, true)`;
    const { count } = await sql.unsafe(statement);
    expect(count).toBeGreaterThan(0);
  });
}

const updateConversation = (name: string, change: string) =>
  `update earshot.conversations set ${change} where org_id = earshot.current_organization() and external_id = '${name}'`;

describe('the index of what is open is kept whole when, through the writers,', () => {
  test.each<[string, () => Promise<unknown>, string[]]>([
    ['a message is appended', () => write('open', 'm4', 'a tin lantern'), ['tin']],
    ['a message without terms is appended', () => write('open', 'm4', 'the and of'), []],
    ['an event is appended', () => write('open', 'm4', 'tin', { kind: 'event' }), ['tin']],
    [
      'an assistant says what no delivery accounts for',
      () => write('open', 'm4', 'tin', { author: { persona: 'assistant' } }),
      [],
    ],
    ['a message of many words is appended', () => write('open', 'm4', 'tin '.repeat(300)), ['tin']],
    ['a message is appended elsewhere', () => write('closed', 'c3', 'tin'), []],
    [
      'default floors say that nobody begins',
      () => conversation('open', 'organization', { defaultFloor: '9223372036854775807' }),
      ['-harbor', '-lantern', '-pewter'],
    ],
    [
      'a floor moves up',
      () => conversation('open', 'organization', { defaultFloor: '2' }),
      ['-harbor', '-lantern'],
    ],
    [
      'a conversation is closed',
      () => conversation('open', 'members'),
      ['-harbor', '-lantern', '-pewter'],
    ],
    [
      'a conversation is archived',
      () => conversation('open', 'organization', { archived: true }),
      [],
    ],
    [
      'a conversation is deleted',
      () => acme.remove('conversations/open'),
      ['-harbor', '-lantern', '-pewter'],
    ],
    ['a message is edited', () => write('open', 'm1', 'a tin lantern'), ['-harbor', 'tin']],
    ['a message is edited to no terms', () => write('open', 'm2', 'the'), ['-pewter']],
    ['a message is edited to what it was', () => write('open', 'm2', 'pewter'), []],
    ['a message is deleted', () => acme.remove('conversations/open/messages/m2'), ['-pewter']],
    [
      'another configuration reads it anew',
      () => acme.put('', { textSearch: 'simple' }),
      ['of', 'the', 'a'],
    ],
  ])('%s', async (_title, change, changes) => {
    const before = await termsOf('open');
    await change();
    const gone = changes.filter((term) => term.startsWith('-')).map((term) => term.slice(1));
    const come = changes.filter((term) => !term.startsWith('-'));

    expect(await termsOf('open')).toEqual(
      [...before.filter((term) => !gone.includes(term)), ...come].sort(),
    );
    await expectWhole();
  });

  test('an artifact is saved there or elsewhere, its home is closed and opened, and it is deleted', async () => {
    const before = await termsOf('open');
    const make = async (conversation: string, text: string) => {
      const { ingest: token } = gateway.tokens;
      const json = { kind: 'note', title: 'gold', text, sources: [{ conversation, seq: '1' }] };
      const path = `/v1/organizations/${acme.name}/artifacts`;
      return (
        ok(await gateway.send('POST', path, { token, key: conversation, json })) as { id: string }
      ).id;
    };
    const id = await make('open', 'a tin lantern');
    await make('closed', 'a brass lantern');
    expect(await termsOf('open')).toEqual([...before, 'tin'].sort());
    expect(await termsOf('closed')).toEqual([]);
    await expectWhole();

    await conversation('open', 'organization', { defaultFloor: '9223372036854775807' });
    // No floor is asked of an artifact.
    expect(await termsOf('open')).toEqual(['lantern', 'tin']);
    await expectWhole();
    await conversation('open', 'members');
    expect(await termsOf('open')).toEqual([]);
    await conversation('closed', 'organization', { defaultFloor: '1' });
    expect(await termsOf('closed')).toContain('brass');
    await expectWhole();
    await conversation('open', 'organization', { defaultFloor: '1' });
    await acme.put('', { textSearch: 'simple' });
    expect(await termsOf('open')).toEqual(expect.arrayContaining(['a', 'tin']));
    await expectWhole();

    const { operator: token } = gateway.tokens;
    ok(await gateway.send('DELETE', `/v1/artifacts/${id}?organization=${acme.name}`, { token }));
    expect(await termsOf('open')).not.toContain('tin');
    await expectWhole();
  });

  test('a conversation is opened, from its head or from its beginning, and a floor moves down', async () => {
    await conversation('closed', 'organization');
    expect(await termsOf('closed')).toEqual([]);
    await expectWhole();
    await write('closed', 'c3', 'tin');
    expect(await termsOf('closed')).toEqual(['tin']);
    await expectWhole();
    await conversation('closed', 'organization', { defaultFloor: '2' });
    expect(await termsOf('closed')).toEqual(['hidden', 'pewter', 'tin']);
    await expectWhole();
  });

  test('an import is under way, and ends', async () => {
    await conversation('new', 'organization', { staged: true });
    await write('new', 'n1', 'tin');
    await write('new', 'n2', 'copper');
    expect(await termsOf('new')).toEqual([]);
    await expectWhole();
    const place = `/v1/organizations/${acme.name}/conversations/new/open`;
    ok(await gateway.send('POST', place, { token: gateway.tokens.ingest }));
    expect(await termsOf('new')).toEqual(['copper', 'tin']);
    await expectWhole();
  });

  test('a message arrives late, and is admitted', async () => {
    await acme.put('conversations/open/members/cleo', { history: 'from_join' });
    const sentAt = '2020-01-01T00:00:00Z';
    expect(await write('open', 'late', 'tin', { sentAt })).toMatchObject({ outcome: 'late' });
    expect(await termsOf('open')).not.toContain('tin');
    const place = `/v1/organizations/${acme.name}/conversations/open/late/late/admit`;
    ok(await gateway.send('POST', place, { token: gateway.tokens.ingest }));
    expect(await termsOf('open')).toContain('tin');
    await expectWhole();
  });

  test.each([
    ['before', 'answer'],
    ['after', 'answer'],
  ])(
    'an answer is reported %s its message arrives, then edited, then deleted',
    async (when, id) => {
      await acme.conversation('lab', ['ana'], { visibility: 'organization', aiThread: true });
      await acme.say('lab', 'ana', 'go');
      const turn = await acme.turn({ destination: 'lab', requester: 'ana', trigger: '1' });
      await turn.search('lantern');
      const delivery = ok(await turn.propose('tin'));
      ok(await acme.release(delivery));
      const arrive = (body: string) => write('lab', id, body, { author: { persona: 'assistant' } });
      const report = async () => ok(await acme.acknowledge(delivery, 'delivered', id));
      await (when === 'before' ? report() : arrive('tin'));
      await expectWhole();
      await (when === 'before' ? arrive('tin') : report());

      expect(await termsOf('lab')).toEqual(['go', 'tin']);
      await expectWhole();
      await arrive('tin and copper');
      expect(await termsOf('lab')).toEqual(['go']);
      await expectWhole();
      await acme.remove(`conversations/lab/messages/${id}`);
      await expectWhole();
    },
  );

  test("a person's message turns out to be an answer", async () => {
    await acme.conversation('lab', ['ana'], { visibility: 'organization', aiThread: true });
    await acme.say('lab', 'ana', 'go');
    const turn = await acme.turn({ destination: 'lab', requester: 'ana', trigger: '1' });
    await turn.search('lantern');
    const delivery = ok(await turn.propose('tin'));
    ok(await acme.release(delivery));
    await write('lab', 'answer', 'tin');
    ok(await acme.acknowledge(delivery, 'delivered', 'answer'));

    expect(await termsOf('lab')).toEqual(['go', 'tin']);
    await expectWhole();
  });
});

describe('the index of what is open is kept whole when the owner of the tables', () => {
  test.each<[string, string, string[]]>([
    ['appends', insertInto('open', 4, 'a tin lantern'), ['tin']],
    [
      'edits',
      `update earshot.messages set body = 'tin', state = 'edited' where ${messagesOf('open')} and seq = 1`,
      ['-harbor', '-lantern', 'tin'],
    ],
    [
      'writes terms of its own',
      `update earshot.messages set terms = 'copper:1' where ${messagesOf('open')} and seq = 1`,
      [],
    ],
    [
      'deletes',
      `update earshot.messages set body = '', state = 'deleted' where ${messagesOf('open')}`,
      ['-harbor', '-lantern', '-pewter'],
    ],
    [
      'removes a row',
      `delete from earshot.messages where ${messagesOf('open')} and seq = 2`,
      ['-pewter'],
    ],
    [
      'says that an assistant wrote it',
      `update earshot.messages m set author_user_id = null, author_persona_id = (select id from earshot.personas a where a.org_id = m.org_id)
       where ${messagesOf('open')} and seq = 2`,
      ['-pewter'],
    ],
    [
      'closes',
      updateConversation('open', "visibility = 'members'"),
      ['-harbor', '-lantern', '-pewter'],
    ],
    ['moves a floor', updateConversation('open', 'default_floor = 2'), ['-harbor', '-lantern']],
    ['stages', updateConversation('open', 'staged = true'), ['-harbor', '-lantern', '-pewter']],
    [
      'deletes the conversation',
      updateConversation('open', 'deleted = true'),
      ['-harbor', '-lantern', '-pewter'],
    ],
    [
      'changes the configuration',
      `update earshot.organizations set text_search = 'pg_catalog.simple' where id = earshot.current_organization()`,
      ['a', 'of', 'the'],
    ],
  ])('%s', async (_title, statement, changes) => {
    const before = await termsOf('open');
    await byOwner(statement);
    const gone = changes.filter((term) => term.startsWith('-')).map((term) => term.slice(1));
    const come = changes.filter((term) => !term.startsWith('-'));

    expect(await termsOf('open')).toEqual(
      [...before.filter((term) => !gone.includes(term)), ...come].sort(),
    );
    await expectWhole();
  });

  test('opens, and unstages', async () => {
    await byOwner(updateConversation('closed', "visibility = 'organization', staged = true"));
    await expectWhole();
    await byOwner(updateConversation('closed', 'staged = false'));
    expect(await termsOf('closed')).toEqual(['hidden', 'lantern', 'pewter']);
    await expectWhole();
  });
});

test('deleting erases the terms of a message, and of a conversation, from it', async () => {
  await write('open', 'secret', 'zanzibar');
  expect(await termsOf('open')).toContain('zanzibar');
  await acme.remove('conversations/open/messages/secret');
  const rows = () => gateway.owner`
    select 1 from earshot.open_postings where org_id = ${org} and term = 'zanzibar'
    union all select 1 from earshot.messages where org_id = ${org} and terms @@ 'zanzibar'`;
  expect(await rows()).toEqual([]);

  await write('open', 'secret2', 'zanzibar');
  await acme.remove('conversations/open');
  expect(await rows()).toEqual([]);
  expect(await gateway.owner`select from earshot.open_postings where org_id = ${org}`).toHaveLength(
    0,
  );
});
