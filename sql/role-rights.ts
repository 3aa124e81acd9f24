import type { Database } from './database.ts';

/** What the login of a connection can do beyond what the gateway's may. */
export interface RoleRights {
  readonly login: string;
  readonly superuser: boolean;
  readonly bypassesRowSecurity: boolean;
  /** Belongs to the role that owns the functions over content, or to the owner of a table. */
  readonly ownsContent: boolean;
  /** Has what the gateway needs. */
  readonly runtime: boolean;
  /** What of the content it could read by itself: tables, or columns of them. */
  readonly readableContent: readonly string[];
  /** Of the two roles behind the functions, those that log in or get round row security. */
  readonly unsafeRoles: readonly string[];
}

/** Question: could this login reach content without the functions that decide? Reads the catalog alone. */
export async function roleRights({ sql }: Database): Promise<RoleRights> {
  const [row] = await sql<RoleRights[]>`
    select r.rolname as login, r.rolsuper as superuser, r.rolbypassrls as "bypassesRowSecurity",
      exists (select from pg_roles s where s.rolname = 'earshot_scoped' and pg_has_role(r.oid, s.oid, 'member'))
        or exists (select from pg_class c where c.relnamespace = to_regnamespace('earshot') and c.relkind = 'r'
                   and pg_has_role(r.oid, c.relowner, 'member')) as "ownsContent",
      exists (select from pg_roles s where s.rolname = 'earshot_runtime' and pg_has_role(r.oid, s.oid, 'usage')) as runtime,
      array(
        select c.relname || '.' || a.attname from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace = to_regnamespace('earshot') and c.relkind = 'r'
          and (c.relname, a.attname) in (('messages', 'body'), ('messages', 'terms'), ('late_messages', 'message'),
            ('conversations', 'title'), ('deliveries', 'payload'), ('grants', 'digest'))
          and has_column_privilege(r.oid, c.oid, a.attnum, 'select')
        order by 1) as "readableContent",
      array(
        select s.rolname from pg_roles s where s.rolname in ('earshot_runtime', 'earshot_scoped')
          and (s.rolcanlogin or s.rolsuper or s.rolbypassrls) order by 1) as "unsafeRoles"
    from pg_roles r where r.rolname = current_user`;
  if (row === undefined) throw new Error('the server does not know the login');
  return row;
}
