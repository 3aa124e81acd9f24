import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase, type Database } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { grantedTo, strayObjects, type Granted } from './catalog.ts';
import { BEHIND_THE_DOORS, COLUMNS, FUNCTIONS, TABLES } from './doors.ts';

const asGranted = (kind: string, things: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(things).map(([name, what]) => [`${kind} ${name}`, what]));

const only = (granted: Granted, kind: string) =>
  Object.fromEntries(Object.entries(granted).filter(([thing]) => thing.startsWith(`${kind} `)));

describe('the catalogs of a migrated database', () => {
  let place: TestDatabase;
  let superuser: Database;

  beforeAll(async () => {
    place = await createTestDatabase();
    superuser = openDatabase(place.superuserUrl, { max: 1 });
  });
  afterAll(async () => {
    await superuser.close();
    await place.drop();
  });

  it('give the gateway the doors that are named here, and nothing else', async () => {
    const functions = Object.fromEntries(FUNCTIONS.map((name) => [name, 'execute']));
    const columns = Object.entries(COLUMNS).flatMap(([table, names]) =>
      names.map((name) => [`${table}.${name}`, 'select'] as const),
    );
    expect(await grantedTo(superuser.sql, 'earshot_runtime')).toEqual({
      'schema earshot': 'usage',
      ...asGranted('function', functions),
      ...asGranted('table', TABLES),
      ...asGranted('column', Object.fromEntries(columns)),
    });
  });

  it('give its login the right to connect, and one role', async () => {
    expect(await grantedTo(superuser.sql, 'earshot_gateway')).toEqual({
      'the database': 'connect',
    });
    const roles = await superuser.sql<{ role: string }[]>`
      with recursive all_roles(role) as (
        select 'earshot_gateway'::regrole::oid
        union select m.roleid from pg_auth_members m join all_roles r on m.member = r.role)
      select role::regrole::text as role from all_roles order by 1`;
    expect(roles.map(({ role }) => role)).toEqual(['earshot_gateway', 'earshot_runtime']);
  });

  it('give everybody nothing of ours', async () => {
    const granted = Object.entries(await grantedTo(superuser.sql, 'public'));
    // A type is usable by everybody as the server makes it, and named by nobody who may not use its schema.
    const others = granted.filter(
      ([thing, privileges]) => !(thing.startsWith('type ') && privileges === 'usage'),
    );
    expect(others).toEqual([['schema public', 'usage']]);
  });

  it('let the owner of the doors add to the records and never change them', async () => {
    const granted = await grantedTo(superuser.sql, 'earshot_scoped');
    expect(only(granted, 'table')).toEqual(asGranted('table', BEHIND_THE_DOORS));
    expect(only(granted, 'column')).toEqual({});
    expect(only(granted, 'schema')).toEqual({ 'schema earshot': 'usage' });
    expect(only(granted, 'sequence')).toEqual({ 'sequence organizations_id_seq': 'usage' });
    expect(BEHIND_THE_DOORS).toMatchObject({
      decisions: 'insert select',
      ledger_entries: 'insert select',
    });
  });

  it('name nobody else', async () => {
    const [row] = await superuser.sql<{ grantees: string[] }[]>`
      select array(
        select distinct coalesce(g.rolname, 'public')::text from (
          select a.grantee from pg_class c cross join lateral aclexplode(c.relacl) a
          where c.relnamespace = 'earshot'::regnamespace and a.grantee <> c.relowner
          union
          select a.grantee from pg_proc p cross join lateral aclexplode(p.proacl) a
          where p.pronamespace = 'earshot'::regnamespace and a.grantee <> p.proowner
          union
          select a.grantee from pg_namespace n cross join lateral aclexplode(n.nspacl) a
          where n.nspname = 'earshot' and a.grantee <> n.nspowner
        ) x left join pg_roles g on g.oid = x.grantee order by 1) as grantees`;
    expect(row?.grantees).toEqual(['earshot_runtime', 'earshot_scoped']);
  });

  it('hold no default that would open what is made later', async () => {
    const defaults =
      await superuser.sql`select defaclrole::regrole::text, defaclacl::text from pg_default_acl`;
    expect(defaults).toEqual([]);
  });

  it('hold nothing outside of the schema, and nothing in it that lends its owner’s rights to a select', async () => {
    expect(await strayObjects(superuser.sql)).toEqual([]);
  });

  it('pin the search path of every function with other rights, with the temporary schema last', async () => {
    const rows = await superuser.sql<{ name: string; owner: string; path: string | null }[]>`
      select p.oid::regprocedure::text as name, p.proowner::regrole::text as owner,
        (select substr(c, 13) from unnest(p.proconfig) c where c like 'search_path=%') as path
      from pg_proc p where p.prosecdef and p.oid >= 16384 order by 1`;
    expect(rows.length).toBeGreaterThan(0);
    // Named last, because a schema that is not named is searched first: for tables and types, before all others.
    expect(rows.filter(({ path }) => path !== 'earshot, pg_temp')).toEqual([]);
    expect(rows.filter(({ owner }) => owner !== 'earshot_scoped')).toEqual([]);
  });

  it('let nobody create in a schema that a pinned search path goes through', async () => {
    const rows = await superuser.sql<{ role: string }[]>`
      select rolname as role from pg_roles
      where rolname in ('earshot_runtime', 'earshot_scoped', 'earshot_gateway')
        and (has_schema_privilege(oid, 'earshot', 'create') or has_schema_privilege(oid, 'pg_catalog', 'create')
          or has_schema_privilege(oid, 'public', 'create')
          or has_database_privilege(oid, current_database(), 'create'))`;
    expect(rows).toEqual([]);
  });

  it('give every function with other rights to the gateway on purpose, and keep all others from it', async () => {
    const rows = await superuser.sql<{ name: string; definer: boolean }[]>`
      select format('%s(%s)', p.proname, oidvectortypes(p.proargtypes)) as name, p.prosecdef as definer
      from pg_proc p where p.pronamespace = 'earshot'::regnamespace
        and has_function_privilege('earshot_gateway', p.oid, 'execute') order by p.proname collate "C"`;
    // Those without other rights read no table: a setting, a format, and what the triggers of simple facts call.
    expect(rows.filter(({ definer }) => !definer).map(({ name }) => name)).toEqual([
      'current_organization()',
      'move_revision(text, bigint, bigint)',
      'rfc3339(timestamp with time zone)',
    ]);
  });

  it('notices a door that nobody named', async () => {
    const before = await grantedTo(superuser.sql, 'public');
    await superuser.sql.unsafe(
      'create function earshot.unnamed() returns int language sql as $$ select 1 $$',
    );
    await superuser.sql.unsafe('create view earshot.window as select body from earshot.messages');
    await superuser.sql.unsafe(
      'alter default privileges in schema earshot grant select on tables to public',
    );
    await superuser.sql.unsafe('grant execute on function pg_read_file(text) to public');
    const after = await grantedTo(superuser.sql, 'public');
    expect(
      Object.keys(after)
        .filter((thing) => !(thing in before))
        .sort(),
    ).toEqual([
      expect.stringMatching(/^defaults for r of /),
      'function unnamed()',
      "the server's own pg_read_file(text)",
    ]);
    expect(await strayObjects(superuser.sql)).toEqual(
      expect.arrayContaining(['relation of kind v: window']),
    );
  });
});
