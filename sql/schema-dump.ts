import type postgres from 'postgres';
import { z } from 'zod';

/**
 * Describes everything in the schema `earshot`, and the roles its privileges are given to, as text that is the
 * same on every supported server version, so that a difference is a difference of the schema. Comments and the owner's
 * own privileges are left out.
 */
export async function dumpSchema(sql: postgres.Sql): Promise<string> {
  return sql.begin('isolation level repeatable read, read only', async (transaction) => {
    // Names outside pg_catalog are then printed with their schema, whatever the login's search path is.
    await transaction`set local search_path to ''`;
    const parts: string[] = [];
    for (const query of [ROLES, EXTENSIONS, SCHEMA, TYPES, SEQUENCES, RELATIONS, FUNCTIONS]) {
      parts.push(...Described.parse(await transaction.unsafe(query)).map(describe));
    }
    return `${parts.join('\n\n')}\n`;
  });
}

const Described = z.array(z.object({ heading: z.string(), lines: z.array(z.string()) }));

function describe({ heading, lines }: z.infer<typeof Described>[number]): string {
  return [heading, ...lines.map((line) => `  ${line}`)].join('\n');
}

/** A list of lines out of a subquery with one text column `line`. */
const lines = (subquery: string) =>
  `coalesce((select array_agg(line order by line collate "C") from (${subquery}) l), '{}')`;

/** A line for each role that was given something. Owners hold every privilege, and servers differ in what "every" is. */
const grants = (acl: string, kind: string, owner: string, label = '') =>
  lines(`
    select format('grant %s${label} to %s', string_agg(lower(privilege_type) || case when is_grantable then ' with grant option' else '' end,
      ', ' order by privilege_type collate "C"), coalesce(rolname, 'public')) as line
    from aclexplode(coalesce(${acl}, acldefault('${kind}', ${owner}))) left join pg_roles on oid = grantee
    where grantee <> ${owner} group by rolname`);

const IN_SCHEMA = `'earshot'::regnamespace`;

const ROLES = `
  select 'role ' || rolname as heading, array[concat_ws(' ',
    case when rolcanlogin then 'login' else 'nologin' end, case when rolinherit then 'inherit' else 'noinherit' end,
    case when rolsuper then 'superuser' end, case when rolbypassrls then 'bypassrls' end,
    case when rolcreaterole then 'createrole' end, case when rolcreatedb then 'createdb' end)] as lines
  from pg_roles where rolname in ('earshot_runtime', 'earshot_scoped') order by rolname collate "C"`;

const EXTENSIONS = `
  select 'extension ' || extname as heading, '{}'::text[] as lines
  from pg_extension where extname <> 'plpgsql' order by extname collate "C"`;

const SCHEMA = `
  select format('schema %I owner %I', nspname, nspowner::regrole) as heading,
    ${grants('nspacl', 'n', 'nspowner')} || ${lines(`
      select format('default privileges of %I on %s: %s', defaclrole::regrole, defaclobjtype, defaclacl) as line
      from pg_default_acl where defaclnamespace = n.oid`)} as lines
  from pg_namespace n where oid = ${IN_SCHEMA}`;

const TYPES = `
  select format('%s %s', case typtype when 'd' then 'domain' when 'e' then 'enum' when 'r' then 'range' else 'type' end, t.oid::regtype) as heading,
    case typtype
      when 'd' then array[concat_ws(' ', format_type(typbasetype, typtypmod),
        case when typcollation <> 0 then 'collate ' || typcollation::regcollation end,
        case when typnotnull then 'not null' end, 'default ' || typdefault)]
      when 'e' then array(select enumlabel::text from pg_enum where enumtypid = t.oid order by enumsortorder)
      else array(select format('%I %s', attname, format_type(atttypid, atttypmod)) from pg_attribute
        where attrelid = typrelid and attnum > 0 and not attisdropped order by attnum)
    end || ${lines(`
      select format('constraint %I %s', conname, pg_get_constraintdef(oid)) as line
      from pg_constraint where contypid = t.oid and contype <> 'n'`)}
      || ${grants('typacl', 'T', 'typowner')} as lines
  from pg_type t
  where typnamespace = ${IN_SCHEMA} and typcategory <> 'A'
    and (typtype in ('d', 'e', 'r') or (typtype = 'c' and exists (select from pg_class where oid = typrelid and relkind = 'c')))
  order by t.oid::regtype::text collate "C"`;

const SEQUENCES = `
  select format('sequence %s owner %I', c.oid::regclass, relowner::regrole) as heading,
    array[format('%s start %s increment %s from %s to %s cache %s%s', seqtypid::regtype, seqstart, seqincrement, seqmin, seqmax,
      seqcache, case when seqcycle then ' cycle' end)] || ${grants('relacl', 's', 'relowner')} as lines
  from pg_class c join pg_sequence on seqrelid = c.oid
  where relnamespace = ${IN_SCHEMA} order by relname collate "C"`;

/** In the order of the table, for a column's place is part of the schema. */
const COLUMNS = `array(
  select concat_ws(' ', 'column', quote_ident(attname), format_type(atttypid, atttypmod),
    case when attcollation not in (0, typcollation) then 'collate ' || attcollation::regcollation end,
    case when attnotnull then 'not null' end,
    case attidentity when 'a' then 'generated always as identity' when 'd' then 'generated by default as identity' end,
    case attgenerated when 's' then 'stored' when 'v' then 'virtual' end, 'default ' || pg_get_expr(adbin, adrelid))
  from pg_attribute join pg_type t on t.oid = atttypid left join pg_attrdef on adrelid = attrelid and adnum = attnum
  where attrelid = c.oid and attnum > 0 and not attisdropped order by attnum)`;

const COLUMN_GRANTS = `coalesce((
  select array_agg(line order by attnum, line collate "C")
  from pg_attribute, unnest(${grants('attacl', 'c', 'relowner', " (' || quote_ident(attname) || ')")}) line
  where attrelid = c.oid and attacl is not null), '{}')`;

const RELATIONS = `
  select concat_ws(' ', case relkind when 'r' then 'table' when 'p' then 'partitioned table' when 'v' then 'view'
      when 'm' then 'materialized view' else 'relation' end, c.oid::regclass, 'owner', quote_ident(relowner::regrole::text),
      case when relrowsecurity then 'row security' end, case when relforcerowsecurity then 'forced' end,
      case relpersistence when 'u' then 'unlogged' end, 'with ' || nullif(reloptions::text, '')) as heading,
    ${COLUMNS}
    || ${lines(`select format('constraint %I %s', conname, pg_get_constraintdef(oid)) as line
      from pg_constraint where conrelid = c.oid and contype <> 'n' and contype <> 't'`)}
    || ${lines(`select concat_ws(' ', pg_get_indexdef(indexrelid), case when not indisvalid then 'invalid' end) as line
      from pg_index where indrelid = c.oid`)}
    || ${lines(`select concat_ws(' ', 'policy', quote_ident(polname), case when polpermissive then 'permissive' else 'restrictive' end,
        case polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
        'to', (select string_agg(case role when 0 then 'public' else role::regrole::text end, ', ' order by role::regrole::text collate "C")
          from unnest(polroles) role),
        'using ' || pg_get_expr(polqual, polrelid), 'check ' || pg_get_expr(polwithcheck, polrelid)) as line
      from pg_policy where polrelid = c.oid`)}
    || ${lines(`select concat_ws(' ', pg_get_triggerdef(oid), case when tgenabled <> 'O' then 'enabled ' || tgenabled::text end) as line
      from pg_trigger where tgrelid = c.oid and not tgisinternal`)}
    || case when relkind in ('v', 'm') then array[pg_get_viewdef(c.oid)] else '{}' end
    || ${grants('relacl', 'r', 'relowner')}
    || ${COLUMN_GRANTS} as lines
  from pg_class c
  where relnamespace = ${IN_SCHEMA} and relkind in ('r', 'p', 'v', 'm', 'f') order by relname collate "C"`;

const FUNCTIONS = `
  select format('%s %s(%s)%s owner %I', case prokind when 'p' then 'procedure' when 'a' then 'aggregate' else 'function' end,
      format('%I.%I', 'earshot', proname), pg_get_function_arguments(p.oid), ' returns ' || pg_get_function_result(p.oid), proowner::regrole) as heading,
    array[concat_ws(' ', lanname, case provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
      case when proisstrict then 'strict' end, case when prosecdef then 'security definer' end, case when proleakproof then 'leakproof' end,
      'parallel ' || case proparallel when 's' then 'safe' when 'r' then 'restricted' else 'unsafe' end,
      'cost ' || procost, 'rows ' || nullif(prorows, 0), 'set ' || array_to_string(proconfig, ' set '))]
    || ${grants('proacl', 'f', 'proowner')}
    || array(select '| ' || line from string_to_table(trim(E'\\n' from coalesce(pg_get_function_sqlbody(p.oid), prosrc)), E'\\n') line) as lines
  from pg_proc p join pg_language l on l.oid = prolang
  where pronamespace = ${IN_SCHEMA} order by proname collate "C", pg_get_function_identity_arguments(p.oid) collate "C"`;
