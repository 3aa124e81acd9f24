import type { Sql } from '../../sql/database.ts';

/** What somebody was given: on which thing, and which privileges. */
export type Granted = Readonly<Record<string, string>>;

/**
 * Everything in the database that a grantee was given by name, or as `public`, in every schema; what the server gives
 * by itself is left out, unless somebody has changed it. What comes by belonging to a role is that role's.
 */
export async function grantedTo(sql: Sql, grantee: string): Promise<Granted> {
  const rows = await sql.unsafe<{ thing: string; privileges: string }[]>(
    `select thing, string_agg(distinct lower(privilege), ' ' order by lower(privilege)) as privileges
     from (${GRANTS}) g(grantee, thing, privilege)
     where coalesce((select rolname from pg_roles where oid = grantee), 'public') = $1
     group by thing order by thing collate "C"`,
    [grantee],
  );
  return Object.fromEntries(rows.map(({ thing, privileges }) => [thing, privileges]));
}

/**
 * What stands in the database beside the schema `earshot` and the server's own, and what stands in that schema and would
 * run with its owner's rights for whoever selects from it.
 */
export async function strayObjects(sql: Sql): Promise<string[]> {
  const rows = await sql.unsafe<{ line: string }[]>(STRAYS);
  return rows.map(({ line }) => line);
}

/** What a server makes has an object id below this one. */
const OURS = 16_384;

/** One kind of thing that can be granted; without an access list of its own, it has the server's default. */
const kind = (thing: string, from: string, acl: string, letter: string, owner: string) => `
select a.grantee, ${thing}, a.privilege_type from ${from}
cross join lateral aclexplode(coalesce(${acl}, acldefault('${letter}', ${owner}))) a
where a.grantee <> ${owner}`;

const inSchema = (catalog: string, namespace: string) =>
  `${catalog} x join pg_namespace n on n.oid = ${namespace}`;

const RELATION_KIND = `case x.relkind when 'S' then 'sequence' when 'r' then 'table' else 'relation' end`;

const GRANTS = [
  `${kind(
    `format('function %s(%s)', x.proname, oidvectortypes(x.proargtypes))`,
    inSchema('pg_proc', 'x.pronamespace'),
    ...(['x.proacl', 'f', 'x.proowner'] as const),
  )} and x.oid >= ${OURS}`,
  `${kind(
    `format('%s %s', ${RELATION_KIND}, x.relname)`,
    inSchema('pg_class', 'x.relnamespace'),
    ...(['x.relacl', 'r', 'x.relowner'] as const),
  )} and x.oid >= ${OURS} and x.relkind in ('r', 'p', 'v', 'm', 'f', 'S', 't')`,
  `select a.grantee, format('column %s.%s', x.relname, t.attname), a.privilege_type
   from pg_class x join pg_attribute t on t.attrelid = x.oid cross join lateral aclexplode(t.attacl) a
   where x.oid >= ${OURS} and a.grantee <> x.relowner`,
  `${kind(
    `format('type %s', x.typname)`,
    inSchema('pg_type', 'x.typnamespace'),
    ...(['x.typacl', 'T', 'x.typowner'] as const),
  )} and x.oid >= ${OURS} and x.typcategory <> 'A'
   and (x.typrelid = 0 or exists (select from pg_class c where c.oid = x.typrelid and c.relkind = 'c'))`,
  `${kind(
    `format('schema %s', x.nspname)`,
    'pg_namespace x',
    ...(['x.nspacl', 'n', 'x.nspowner'] as const),
  )} and x.nspname not in ('pg_catalog', 'information_schema')`,
  `${kind(
    `'the database'`,
    'pg_database x',
    ...(['x.datacl', 'd', 'x.datdba'] as const),
  )} and x.datname = current_database()`,
  `select a.grantee, format('defaults for %s of %s', x.defaclobjtype, x.defaclrole::regrole), a.privilege_type
   from pg_default_acl x cross join lateral aclexplode(x.defaclacl) a`,
  kind(
    `'a large object'`,
    'pg_largeobject_metadata x',
    ...(['x.lomacl', 'L', 'x.lomowner'] as const),
  ),
  `select a.grantee, format('the server''s own %s', x.oid::regprocedure), a.privilege_type
   from pg_proc x left join pg_init_privs i on i.classoid = 'pg_proc'::regclass and i.objoid = x.oid
   cross join lateral aclexplode(x.proacl) a
   where x.oid < ${OURS} and x.proacl is distinct from i.initprivs`,
  `select a.grantee, format('the server''s own %s', x.oid::regclass), a.privilege_type
   from pg_class x left join pg_init_privs i on i.classoid = 'pg_class'::regclass and i.objoid = x.oid and i.objsubid = 0
   cross join lateral aclexplode(x.relacl) a
   where x.relnamespace = 'pg_catalog'::regnamespace and x.relacl is distinct from i.initprivs`,
].join('\nunion all\n');

const stray = (what: string, catalog: string, name: string, namespace = '0::regnamespace') => `
select format('${what} %s', ${name}) as line from ${catalog} x
where x.oid >= ${OURS} and ${namespace} not in ('earshot'::regnamespace, 'pg_toast'::regnamespace)`;

const STRAYS = [
  stray('relation', 'pg_class', 'x.relname', 'x.relnamespace'),
  stray('function', 'pg_proc', 'x.proname', 'x.pronamespace'),
  stray('type', 'pg_type', 'x.typname', 'x.typnamespace'),
  stray('schema', `(select * from pg_namespace where nspname <> 'earshot')`, 'x.nspname'),
  stray('operator', 'pg_operator', 'x.oprname'),
  stray('operator class', 'pg_opclass', 'x.opcname'),
  stray('cast', 'pg_cast', 'x.castsource::regtype'),
  stray('conversion', 'pg_conversion', 'x.conname'),
  stray('event trigger', 'pg_event_trigger', 'x.evtname'),
  stray('language', 'pg_language', 'x.lanname'),
  stray('extension', 'pg_extension', 'x.extname'),
  stray('foreign data wrapper', 'pg_foreign_data_wrapper', 'x.fdwname'),
  stray('foreign server', 'pg_foreign_server', 'x.srvname'),
  stray('publication', 'pg_publication', 'x.pubname'),
  stray('large object', 'pg_largeobject_metadata', 'x.oid'),
  stray('rule', 'pg_rewrite', 'x.rulename'),
  `select format('relation of kind %s: %s', x.relkind, x.relname) from pg_class x
   where x.relnamespace = 'earshot'::regnamespace and x.relkind not in ('r', 'p', 'i', 'I', 'S', 'c')`,
].join('\nunion all\n');
