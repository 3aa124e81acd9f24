import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase, type Database } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const DENIED = /permission denied/;

describe('the database is closed by itself', () => {
  let place: TestDatabase;
  let gateway: Database;
  let owner: Database;
  let superuser: Database;

  beforeAll(async () => {
    place = await createTestDatabase();
    gateway = openDatabase(place.gatewayUrl, { max: 2 });
    owner = openDatabase(place.adminUrl, { max: 2 });
    superuser = openDatabase(place.superuserUrl, { max: 2 });
    for (const org of ['acme', 'other']) {
      await gateway.sql`select earshot.create_organization(${org})`;
      await gateway.sql.begin(async (sql) => {
        const [row] = await sql<
          { key: string }[]
        >`select earshot.enter_organization(${org}) as key`;
        await sql`insert into earshot.users (org_id, external_id, kind, status)
          values (${row?.key ?? ''}, 'ann', 'member', 'active')`;
      });
      await gateway.sql`select earshot.put_conversation(${org}, ${JSON.stringify({
        id: 'C',
        kind: 'group',
        visibility: 'members',
        aiThread: false,
        externalReaders: false,
        archived: false,
        title: 'canary title',
      })}::text::jsonb)`;
      await gateway.sql`select earshot.put_messages(${org}, 'C', ${JSON.stringify([
        {
          id: 'm',
          kind: 'message',
          authorUser: 'ann',
          body: 'canary text',
          sentAt: '2026-01-01T00:00:00Z',
        },
      ])}::text::jsonb, false)`;
    }
  });
  afterAll(async () => {
    await Promise.all([gateway.close(), owner.close(), superuser.close()]);
    await place.drop();
  });

  it('pins the search path of every function that runs with other rights, and of every trigger', async () => {
    const rows = await superuser.sql<{ name: string }[]>`
      select p.proname as name from pg_proc p
      where p.pronamespace = 'earshot'::regnamespace and (p.prosecdef or p.prorettype = 'trigger'::regtype)
        and not coalesce('search_path=earshot, pg_temp' = any (p.proconfig), false)`;
    expect(rows).toEqual([]);
    const owners = await superuser.sql<{ owner: string }[]>`
      select distinct p.proowner::regrole::text as owner from pg_proc p
      where p.pronamespace = 'earshot'::regnamespace and p.prosecdef`;
    expect(owners.map((row) => row.owner)).toEqual(['earshot_scoped']);
  });

  it('forces row security by organization on every table that has one', async () => {
    const rows = await superuser.sql<{ name: string }[]>`
      select c.relname as name from pg_class c
      where c.relnamespace = 'earshot'::regnamespace and c.relkind in ('r', 'p')
        and (c.relname = 'organizations' or exists (
          select from pg_attribute a where a.attrelid = c.oid and a.attname = 'org_id'))
        and not (c.relrowsecurity and c.relforcerowsecurity)`;
    expect(rows).toEqual([]);
    const without = await superuser.sql<{ name: string }[]>`
      select c.relname as name from pg_class c
      where c.relnamespace = 'earshot'::regnamespace and c.relkind in ('r', 'p') and not c.relrowsecurity
      order by 1`;
    expect(without.map((row) => row.name)).toEqual([
      'clients',
      'delivery_transitions',
      'migrations',
      'signing_keys',
    ]);
  });

  it('has no role that could go around row security', async () => {
    const roles = await superuser.sql<{ name: string }[]>`
      select rolname as name from pg_roles
      where rolname in ('earshot_runtime', 'earshot_scoped', 'earshot_gateway', 'earshot_admin')
        and (rolsuper or rolbypassrls)`;
    expect(roles).toEqual([]);
    const logins = await superuser.sql<{ name: string }[]>`
      select rolname as name from pg_roles where rolname in ('earshot_runtime', 'earshot_scoped') and rolcanlogin`;
    expect(logins).toEqual([]);
  });

  it.each([
    'select body from earshot.messages',
    'select 1 from earshot.messages',
    'select terms from earshot.messages',
    'select count(*) from earshot.messages',
    'select * from earshot.message_embeds',
    'select message from earshot.late_messages',
    'select title from earshot.conversations',
    'select * from earshot.conversations',
    'select payload from earshot.deliveries',
    'select digest from earshot.grants',
    'select readers from earshot.grants',
    "update earshot.messages set body = 'x'",
    'delete from earshot.decisions',
    "update earshot.decisions set verdict = 'allowed'",
    'update earshot.grants set revoked_at = null',
    'update earshot.turns set lease_fence = 0',
    "update earshot.deliveries set status = 'cleared'",
    'insert into earshot.ledger_entries select * from earshot.ledger_entries',
    'insert into earshot.memberships values (1, 1, 1, 1, null)',
    'set role earshot_scoped',
    'create table earshot.mine (id int)',
    'create temporary table messages (body text)',
    'select earshot.visible_messages(1, null::earshot.scope)',
    'select * from earshot.audience(1, 1, now())',
    "select earshot.live_check('x', null, now())",
    "select earshot.enter_grant('x')",
  ])('refuses the gateway: %s', async (statement) => {
    await expect(
      gateway.sql.begin(async (sql) => {
        await sql`select earshot.enter_organization('acme')`;
        await sql.unsafe(statement);
      }),
    ).rejects.toThrow(DENIED);
  });

  it.each(['', 'acme'])('shows the gateway no other organization from inside %j', async (name) => {
    await gateway.sql.begin(async (sql) => {
      if (name !== '') await sql`select earshot.enter_organization(${name})`;
      const conversations = await sql<
        { org_id: string }[]
      >`select org_id, id from earshot.conversations`;
      expect(conversations).toHaveLength(name === '' ? 0 : 1);
      expect(await sql`select from earshot.users`).toHaveLength(name === '' ? 0 : 1);
      expect(await sql`select from earshot.organizations`).toHaveLength(name === '' ? 0 : 1);
    });
  });

  it('refuses a write into another organization than the one that was entered', async () => {
    const [other] = await superuser.sql<{ id: string }[]>`
      select id from earshot.organizations where external_id = 'other'`;
    await expect(
      gateway.sql.begin(async (sql) => {
        await sql`select earshot.enter_organization('acme')`;
        await sql`insert into earshot.users (org_id, external_id, kind, status)
          values (${other?.id ?? ''}, 'mallory', 'member', 'active')`;
      }),
    ).rejects.toThrow(/row-level security/);
  });

  it('shows the owner of the tables nothing without an organization', async () => {
    expect(await owner.sql`select from earshot.messages`).toHaveLength(0);
    expect(await owner.sql`select from earshot.users`).toHaveLength(0);
    expect(await superuser.sql`select from earshot.messages`).toHaveLength(2);
  });

  it('forgets the organization when the statement that entered it ends', async () => {
    const one = openDatabase(place.gatewayUrl, { max: 1 });
    await one.sql`select earshot.put_conversation('acme', '{"id":"D","kind":"group","visibility":"members",
      "aiThread":false,"externalReaders":false,"archived":false}')`;
    expect(await one.sql`select from earshot.conversations`).toHaveLength(0);
    await one.close();
  });

  it('runs its functions whatever the caller makes of the search path', async () => {
    const [row] = await gateway.sql.begin(async (sql) => {
      await sql`set local search_path = pg_temp, public`;
      return sql<{ code: string }[]>`
        select code from earshot.call_tool(sha256('guessed'), 'search', '{"query":"canary","limit":"10"}', '\\x00')`;
    });
    expect(row?.code).toBe('unknown_grant');
  });
});
