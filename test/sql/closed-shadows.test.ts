import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase, type Sql } from '../../sql/database.ts';
import { buildCanaryHouse, CANARY, type CanaryHouse } from './canary-house.ts';
import { FUNCTIONS } from './doors.ts';

/** Search paths that put the caller's own things before everything else. */
const PATHS = [
  'pg_temp, shadow, pg_catalog, earshot',
  'shadow, pg_temp, earshot',
  'shadow, pg_catalog, earshot, pg_temp',
  'shadow',
];

/** Functions of the server that the doors call, to be shadowed by the names and arguments they have. */
const BORROWED = [
  ...[
    'set_config(text, text, boolean)',
    'current_setting(text, boolean)',
    'clock_timestamp()',
    'now()',
  ],
  ...[
    'gen_random_uuid()',
    'encode(bytea, text)',
    'decode(text, text)',
    'sha256(bytea)',
    'nextval(regclass)',
  ],
  ...[
    'pg_get_serial_sequence(text, text)',
    'websearch_to_tsquery(regconfig, text)',
    'cardinality(anyarray)',
  ],
  ...[
    'to_tsvector(regconfig, text)',
    'ts_rank_cd(tsvector, tsquery)',
    'unnest(anyarray)',
    'length(text)',
  ],
  ...[
    'ts_headline(regconfig, text, tsquery, text)',
    'numnode(tsquery)',
    'jsonb_strip_nulls(jsonb)',
  ],
  ...[
    'to_char(timestamp, text)',
    'jsonb_array_elements(jsonb)',
    'jsonb_array_elements_text(jsonb)',
  ],
];

const OPERATORS = [
  ...['=', '<>', '<', '<=', '>', '>='].flatMap((operator) =>
    ['bigint', 'text', 'uuid', 'bytea', 'timestamptz', 'integer'].map((type) => [
      operator,
      type,
      type,
    ]),
  ),
  ...[
    ['->>', 'jsonb', 'text'],
    ['->', 'jsonb', 'text'],
    ['#>>', 'jsonb', 'text[]'],
    ['?', 'jsonb', 'text'],
  ],
  ...[
    ['@@', 'tsvector', 'tsquery'],
    ['||', 'text', 'text'],
    ['-', 'timestamptz', 'timestamptz'],
  ],
  ['+', 'timestamptz', 'interval'],
] as [string, string, string][];

describe('a caller with a schema and a temporary schema of its own', () => {
  let house: CanaryHouse;
  let doors: Door[];
  let shadows: string;

  beforeAll(async () => {
    house = await buildCanaryHouse();
    const { owner, target } = house.gateway;
    await owner.unsafe(`grant temporary on database ${target.name} to earshot_gateway`);
    await owner.unsafe('create schema shadow authorization earshot_gateway');
    doors = await doorsOf(owner, house);
    shadows = await shadowsOf(owner);
    // Definers that are not pinned as ours are, to show that the shadows would be seen.
    await owner.unsafe(`
      create function earshot.pinned_badly() returns text language plpgsql security definer set search_path = earshot
        as $$ begin return (select count(*) from messages); end $$;
      create function earshot.not_pinned() returns text language plpgsql security definer
        as $$ begin return enter_organization('acme'); end $$;
      alter function earshot.pinned_badly() owner to earshot_scoped;
      alter function earshot.not_pinned() owner to earshot_scoped;
      grant execute on function earshot.pinned_badly(), earshot.not_pinned() to earshot_runtime`);
  });
  afterAll(() => house.close());

  /** What a statement answers, or why it does not, with nothing kept; ids and times that are made anew are cut out. */
  async function outcome(sql: Sql, statement: string): Promise<string> {
    await sql.unsafe('begin');
    try {
      return anonymous(JSON.stringify(await sql.unsafe(statement)));
    } catch (error) {
      return anonymous(`error: ${(error as Error).message}`);
    } finally {
      await sql.unsafe('rollback');
    }
  }

  async function asGateway<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const { sql, close } = openDatabase(house.gateway.target.gatewayUrl, { max: 1 });
    try {
      return await work(sql);
    } finally {
      await close();
    }
  }

  it('knows every door there is', () => {
    expect(doors.map(({ name }) => name)).toEqual([...FUNCTIONS]);
  });

  it.each(PATHS)(
    'gets from every door what anybody gets, with the search path %s',
    async (path) => {
      const plain = await asGateway((sql) => outcomes(sql));
      const shadowed = await asGateway(async (sql) => {
        await sql.unsafe(shadows);
        await sql.unsafe(`set search_path = ${path}`);
        expect(await outcome(sql, 'select earshot.not_pinned()')).toContain('shadowed');
        if (path.includes('pg_temp'))
          expect(await outcome(sql, 'select earshot.pinned_badly()')).toContain('shadowed');
        return outcomes(sql);
      });
      expect(shadowed).toEqual(plain);
      // The doors were gone through, not only knocked at.
      const passed = Object.values(plain).filter((text) => !/^error|"code":"[a-z_]+"/.test(text));
      expect(passed.length).toBeGreaterThanOrEqual(18);
      expect(plain['call_tool(bytea, text, jsonb, bytea)']).toContain(`${CANARY} bird of acme`);

      async function outcomes(sql: Sql): Promise<Record<string, string>> {
        const found: Record<string, string> = {};
        for (const { name, call, definer } of doors)
          if (definer) found[name] = await outcome(sql, call);
        return found;
      }
    },
  );
});

interface Door {
  readonly name: string;
  readonly call: string;
  readonly definer: boolean;
}

/** What a type is called where the grammar's own words cannot stand behind a schema. */
const PLAIN_TYPES: Readonly<Record<string, string>> = {
  'timestamp with time zone': 'timestamptz',
  bigint: 'int8',
  integer: 'int4',
  boolean: 'bool',
};

/** A call of each door that goes as far as it can: the turn, the lease and the delivery are there. */
async function doorsOf(owner: Sql, { acme }: CanaryHouse): Promise<Door[]> {
  const rows = await owner<
    { name: string; call: string; definer: boolean; names: string[]; types: string[] }[]
  >`
    select format('%s(%s)', p.proname, oidvectortypes(p.proargtypes)) as name, p.proname as call,
      p.prosecdef as definer, coalesce(p.proargnames[1:p.pronargs], '{}') as names,
      array(select format_type(t, null) from unnest(p.proargtypes) with ordinality x(t, n) order by n) as types
    from pg_proc p where p.pronamespace = 'earshot'::regnamespace
      and has_function_privilege('earshot_gateway', p.oid, 'execute')
    order by p.proname collate "C"`;
  const hex = (bytes: Buffer) => `\\x${bytes.toString('hex')}`;
  const { turn, delivery } = acme;
  const clearance = await owner<{ hash: string }[]>`
    select encode(audience_hash, 'hex') as hash from earshot.deliveries where id = ${delivery.id}`;
  const known: Readonly<Record<string, string>> = {
    p_organization: 'acme',
    p_name: 'acme',
    p_conversation: 'source',
    p_user: 'ben',
    p_message: 'm',
    p_personas: '{*}',
    p_turn: turn.id,
    p_lease: turn.lease.leaseId,
    p_owner: turn.lease.owner,
    p_fence: turn.lease.fence,
    p_digest: hex(acme.live),
    p_tool: 'search',
    p_arguments: JSON.stringify({ query: CANARY, limit: '10' }),
    p_delivery: delivery.id,
    p_destination: 'thread',
    p_payload: hex(Buffer.from('answer')),
    p_content_type: 'text/plain',
    p_request: JSON.stringify({
      ...{ persona: 'assistant', destination: 'thread', requester: 'ana' },
      ...{ trigger: 'thread', triggerSeq: '1', tools: ['search'] },
    }),
    p_audience_hash: `\\x${clearance[0]?.hash ?? ''}`,
    p_payload_sha256: `\\x${delivery.payloadSha256}`,
    p_outcome: 'failed',
    p_state: 'completed',
    p_kind: 'organization',
    p_fact: JSON.stringify({
      ...{ id: 'made', kind: 'group', visibility: 'members', aiThread: false },
      ...{ externalReaders: false, archived: false },
    }),
    p_members: JSON.stringify([{ user: 'ana', history: 'all' }]),
    p_messages: JSON.stringify([
      { id: 'n', kind: 'message', authorUser: 'ana', body: CANARY, sentAt: '2090-01-01T00:00:00Z' },
    ]),
  };
  const fresh: Readonly<Record<string, string>> = {
    p_digest: hex(randomBytes(32)),
    p_turn: randomUUID(),
    p_delivery: randomUUID(),
  };
  const byType: Readonly<Record<string, string>> = {
    text: 'x',
    bigint: '1',
    integer: '1',
    boolean: 'false',
    uuid: randomUUID(),
    jsonb: '{}',
    bytea: '\\x01',
    interval: '1 minute',
    'timestamp with time zone': '2026-01-01T00:00:00Z',
  };
  // What makes a thing is given a name that nothing has.
  const makes: Readonly<Record<string, string>> = {
    mint_grant: 'p_digest',
    open_turn: 'p_turn',
    propose_delivery: 'p_delivery',
  };
  return rows.map(({ name, call, definer, names, types }) => {
    const values = names.map((argument, i) => {
      const type = types[i] ?? '';
      const value =
        (makes[call] === argument ? fresh[argument] : known[argument]) ??
        byType[type] ??
        (type.endsWith('[]') ? '{}' : undefined);
      if (value === undefined) throw new Error(`no value for ${argument} ${type} of ${name}`);
      const plainType = PLAIN_TYPES[type] ?? type;
      return `'${value.replaceAll("'", "''")}'::pg_catalog.${plainType}`;
    });
    return { name, call: `select x::text from earshot.${call}(${values.join(', ')}) x`, definer };
  });
}

/** Statements that shadow, in both schemas of the caller, everything that the doors could mean. */
async function shadowsOf(owner: Sql): Promise<string> {
  const [found] = await owner<{ relations: string[]; types: string[]; functions: string[] }[]>`
    select
      array(select relname::text from pg_class where relnamespace = 'earshot'::regnamespace
            and relkind in ('r', 'p')) as relations,
      array(select typname::text from pg_type t where typnamespace = 'earshot'::regnamespace and typcategory <> 'A'
            and not exists (select from pg_class c where c.oid = t.typrelid and c.relkind <> 'c')) as types,
      array(select distinct format('%I(%s)', proname, oidvectortypes(proargtypes)) from pg_proc
            where pronamespace = 'earshot'::regnamespace and prorettype <> 'trigger'::regtype) as functions`;
  const { relations = [], types = [], functions = [] } = found ?? {};
  const raising = (schema: string, signature: string) =>
    `create or replace function ${schema}.${signature} returns text language plpgsql as $$ begin raise exception 'shadowed'; end $$;`;
  return [
    'set search_path = pg_catalog, earshot;',
    ...['shadow', 'pg_temp'].flatMap((schema) => [
      ...relations.map(
        (name) => `create table if not exists ${schema}.${name} (shadowed integer);`,
      ),
      // A table's name is a type's name too.
      ...types.map((name) => `create table if not exists ${schema}.${name} (shadowed integer);`),
      ...[...functions, ...BORROWED].map((signature) => raising(schema, signature)),
      raising(schema, 'shadowing(anyelement, anyelement)'),
    ]),
    ...OPERATORS.flatMap(([operator, left, right], n) => [
      `create or replace function shadow.operator_${n}(${left}, ${right}) returns boolean language plpgsql
         as $$ begin raise exception 'shadowed'; end $$;`,
      `do $$ begin
         create operator shadow.${operator} (function = shadow.operator_${n}, leftarg = ${left}, rightarg = ${right});
       exception when duplicate_function then null; end $$;`,
    ]),
    // What the badly pinned one is seen to read.
    'drop table pg_temp.messages; create view pg_temp.messages as select shadow.shadowing(1, 1) as body;',
    'grant select on pg_temp.messages to public; grant usage on schema shadow to public;',
  ].join('\n');
}

function anonymous(text: string): string {
  return text
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'ID')
    .replace(/[0-9a-f]{32}/g, 'SALT')
    .replace(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00)?/g, 'TIME')
    .replace(/\b\d{10}\b/g, 'SECONDS');
}
