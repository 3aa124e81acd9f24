import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseDatabaseUrl, socketPath } from '../../sql/database-url.ts';
import { openDatabase, type Database, type Sql } from '../../sql/database.ts';
import { ok } from '../support/gateway.ts';
import { buildCanaryHouse, CANARY, type CanaryHouse } from './canary-house.ts';

// What a session shows to whoever has the gateway's login, beside the answers: what another transaction left, what the
// server keeps of other sessions and of the rows, and what it says while it works.

const TOOLS = [
  ['search', { query: CANARY, limit: '10' }],
  ['search', { query: `"${CANARY} bird" -${CANARY}`, limit: '10' }],
  ['read', { conversation: 'source', limit: '10' }],
  ['list_conversations', { limit: '10' }],
] as const;

describe('a session of the gateway’s login', () => {
  let house: CanaryHouse;
  let owner: Sql;

  beforeAll(async () => {
    house = await buildCanaryHouse();
    owner = house.gateway.owner;
  });
  afterAll(() => house.close());

  async function session<T>(
    work: (sql: Database['sql']) => Promise<T>,
    url = house.gateway.target.gatewayUrl,
  ): Promise<T> {
    const { sql, close } = openDatabase(url, { max: 1 });
    try {
      return await work(sql);
    } finally {
      await close();
    }
  }

  const call = (digest: Buffer, tool: string, args: object) =>
    `select * from earshot.call_tool('\\x${digest.toString('hex')}', '${tool}',
      '${JSON.stringify(args).replaceAll("'", "''")}'::text::jsonb, ''::bytea)`;

  const settings = (sql: Sql) => sql<
    { organization: string | null; name: string | null; digest: string | null }[]
  >`
    select nullif(current_setting('earshot.organization', true), '') as organization,
      nullif(current_setting('earshot.organization_name', true), '') as name,
      nullif(current_setting('earshot.grant_digest', true), '') as digest`;
  const NOTHING = [{ organization: null, name: null, digest: null }];

  it('keeps nothing of a call, whether it was answered, refused, failed or rolled back', async () => {
    await session(async (sql) => {
      const { acme } = house;
      const endings = [
        () => sql.unsafe(call(acme.live, 'search', { query: CANARY, limit: '10' })),
        () => sql.unsafe(call(acme.ended, 'search', { query: CANARY, limit: '10' })),
        () => sql.unsafe(call(Buffer.alloc(32), 'search', { query: CANARY, limit: '10' })),
        () =>
          sql.unsafe(call(acme.live, 'search', { query: CANARY, limit: 'ten' })).catch(() => []),
        () =>
          sql.unsafe(`begin; ${call(acme.live, 'list_conversations', { limit: '10' })}; rollback`),
        () =>
          sql.unsafe(`begin; savepoint s; ${call(acme.live, 'read', { conversation: 'source', limit: '1' })};
          rollback to savepoint s; commit`),
        () => sql.unsafe(`select earshot.enter_organization('acme')`),
      ];
      for (const end of endings) {
        await end();
        expect(await settings(sql)).toEqual(NOTHING);
        expect(await sql`select from earshot.users`).toHaveLength(0);
      }
    });
  });

  it('gives a statement that another transaction prepared the rows of its own organization', async () => {
    await session(async (sql) => {
      await sql.unsafe(`begin; select earshot.enter_organization('acme');
        prepare left_over as select distinct org_id from earshot.conversations; execute left_over; commit`);
      for (const plan of ['force_custom_plan', 'force_generic_plan']) {
        await sql.unsafe(`set plan_cache_mode = ${plan}`);
        expect(await sql.unsafe('execute left_over')).toHaveLength(0);
        const inside = await sql.begin(async (other) => {
          await other`select earshot.enter_organization('other')`;
          return other.unsafe('execute left_over');
        });
        expect(inside).toEqual([{ org_id: house.other.key }]);
      }
    });
  });

  it('ends a cursor with its transaction, and lets a held one through no door', async () => {
    await session(async (sql) => {
      await sql.unsafe(`begin; select earshot.enter_organization('acme');
        declare left_over cursor for select external_id from earshot.users; commit`);
      await expect(sql.unsafe('fetch all left_over')).rejects.toThrow(/does not exist/);
      await expect(
        sql.unsafe(`declare held cursor with hold for select body from earshot.messages`),
      ).rejects.toThrow(/permission denied/);
      // Rows that a cursor has still to fetch are judged by the organization that is set then.
      const fetched = await sql.begin(async (inside) => {
        await inside`select earshot.enter_organization('acme')`;
        await inside.unsafe('declare open cursor for select org_id from earshot.users');
        await inside`select earshot.enter_organization('nobody')`;
        return inside.unsafe('fetch all open');
      });
      expect(fetched).toEqual([]);
      // The one that asks has a portal of its own, without a name.
      expect(await sql`select from pg_cursors where name <> ''`).toHaveLength(0);
    });
  });

  it('lets no setting of the caller change what a door lets through', async () => {
    const wanted = await session((sql) => seen(sql));
    expect(wanted).toContain(`${CANARY} bird of acme`);
    expect(wanted).not.toMatch(/secret|other/);
    const refused: string[] = [];
    for (const setting of [
      `row_security = off`,
      `transform_null_equals = on`,
      `standard_conforming_strings = off`,
      `plan_cache_mode = force_custom_plan`,
      `enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off`,
      `enable_nestloop = off; set enable_material = off; set enable_memoize = off`,
      `enable_seqscan = off; set enable_sort = off`,
      `default_text_search_config = 'simple'`,
      `DateStyle = 'German, DMY'; set TimeZone = 'Asia/Kathmandu'; set IntervalStyle = 'sql_standard'`,
      `extra_float_digits = -15`,
      `bytea_output = 'escape'`,
      `default_transaction_isolation = 'serializable'`,
      `earshot.organization = '${house.other.key}'`,
      `earshot.organization_name = 'other'`,
      `earshot.grant_digest = '${house.other.live.toString('hex')}'`,
      `earshot.organization = 'x'`,
    ]) {
      const got = await session(async (sql) => {
        await sql.unsafe(`set ${setting}`);
        return seen(sql).catch((error: unknown) => `refused: ${(error as Error).message}`);
      });
      // Some settings break the statements behind the door, and an error lets nothing through either.
      if (got.startsWith('refused: ')) refused.push(setting);
      else expect([setting, got]).toEqual([setting, wanted]);
    }
    expect(refused).toContain('row_security = off');
    expect(refused.length).toBeLessThan(5);

    async function seen(sql: Sql): Promise<string> {
      const [row] = await sql<{ items: { text: string }[] }[]>`
        select items from earshot.call_tool(${house.acme.live}, 'search',
          ${JSON.stringify({ query: CANARY, limit: '100' })}::text::jsonb, ''::bytea)`;
      return JSON.stringify(row?.items.map(({ text }) => text));
    }
  });

  it('sees in the statistics of the planner nothing of what was said', async () => {
    const views = ['pg_stats', 'pg_stats_ext', 'pg_stats_ext_exprs'];
    const [known] = await owner<{ rows: string }[]>`
      select jsonb_agg(to_jsonb(s))::text as rows from pg_stats s where schemaname = 'earshot'`;
    // The server may keep what was said in its statistics, titles at least: who reads those views is the question.
    expect(known?.rows).toMatch(/"tablename": ?"conversations"/);
    const { gatewayUrl, adminUrl } = house.gateway.target;
    for (const url of [gatewayUrl, adminUrl, house.strangerUrl]) {
      for (const entered of ['', 'acme']) {
        const rows = await session(async (sql) => {
          if (entered !== '')
            await sql`select set_config('earshot.organization', ${house.acme.key}, false)`;
          return Promise.all(
            views.map((view) =>
              sql.unsafe(
                `select to_jsonb(s)::text as row from ${view} s where schemaname = 'earshot'`,
              ),
            ),
          );
        }, url);
        const text = JSON.stringify(rows);
        expect(text).not.toContain(CANARY);
        for (const table of [
          'messages',
          'conversations',
          'deliveries',
          'grants',
          'late_messages',
          'users',
        ])
          expect(text).not.toContain(`tablename\\": \\"${table}\\"`);
      }
    }
  });

  it('sees no word of a query, a message or a payload in what the server shows of other sessions', async () => {
    const word = `${CANARY}query`;
    const { acme } = house;
    const { token } = ok(await acme.turn.mint()) as { token: string };
    const { send } = house.gateway;
    await send('POST', '/v1/tools/search', { token, json: { query: word } });
    const [queries] = await owner<{ text: string; sessions: string }[]>`
      select string_agg(query, '|') as text, count(*) as sessions from pg_stat_activity
      where usename = 'earshot_gateway' and datname = current_database()`;
    expect(Number(queries?.sessions)).toBeGreaterThan(0);
    expect(queries?.text).toContain('earshot.call_tool');
    expect(queries?.text).not.toContain(CANARY);
    const stranger = await session(
      (sql) => sql<{ text: string | null }[]>`
        select string_agg(query, '|') as text from pg_stat_activity where usename is distinct from current_user`,
      house.strangerUrl,
    );
    expect(stranger[0]?.text ?? '').not.toMatch(/earshot\./);
  });

  it('is told nothing by the server while a door does its work, whatever it asks to be told', async () => {
    const { user, password, database, ...address } = parseDatabaseUrl(
      house.gateway.target.gatewayUrl,
    );
    const oids = await owner<{ oid: string }[]>`
      select oid::text from pg_class where relnamespace = 'earshot'::regnamespace and relkind = 'r'`;
    const tables = new RegExp(`:relid (${oids.map(({ oid }) => oid).join('|')})\\b`);
    const told: string[] = [];
    const path = socketPath({ user, password, database, ...address });
    const loud = await owner<{ name: string }[]>`
      select p.oid::regprocedure::text as name from pg_proc p
      where p.prosecdef and p.pronamespace = 'earshot'::regnamespace
        and not exists (select from unnest(p.proconfig) c where c ~ '^client_min_messages=(warning|error)$')`;
    expect(loud).toEqual([]);
    const talkative = postgres({
      ...{ host: address.host, port: address.port, user, pass: password, database, max: 1 },
      ...(path === undefined ? {} : { path }),
      onnotice: ({ message, detail }) => void told.push(`${message ?? ''} ${detail ?? ''}`),
    });
    try {
      await talkative.unsafe(`set client_min_messages = debug5; set debug_print_parse = on;
        set debug_print_rewritten = on; set debug_print_plan = on; set trace_sort = on;
        set plan_cache_mode = force_custom_plan`);
      for (const [tool, args] of TOOLS) {
        told.length = 0;
        await talkative.unsafe(call(house.acme.live, tool, args));
        // The caller's own statement may be shown to the caller: it names the door and no table.
        expect(told.length).toBeGreaterThan(0);
        const inner = told.filter((text) => text.includes('RANGETBLENTRY') && tables.test(text));
        expect([tool, inner.length]).toEqual([tool, 0]);
      }
    } finally {
      await talkative.end();
    }
  });

  it('sees of the doors’ plans no more than that they are called', async () => {
    await session(async (sql) => {
      for (const options of ['', '(verbose, costs)', '(analyze, verbose, buffers)']) {
        for (const [tool, args] of TOOLS) {
          const rows = await sql.unsafe<{ 'QUERY PLAN': string }[]>(
            `explain ${options} ${call(house.acme.live, tool, args)}`,
          );
          const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
          expect(plan).toMatch(/^Function Scan on earshot.call_tool|^Function Scan on call_tool/);
          expect(plan).not.toMatch(/Index|Seq Scan|earshot\.messages/);
        }
      }
    });
  });

  it('reads no sequence, no toast table and no other file of the rows', async () => {
    const relations = await owner<{ name: string; kind: string }[]>`
      select format('%I.%I', n.nspname, c.relname) as name, c.relkind as kind
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.oid >= 16384 and c.relkind in ('S', 't')`;
    expect(new Set(relations.map(({ kind }) => kind))).toEqual(new Set(['S', 't']));
    for (const url of [house.gateway.target.gatewayUrl, house.strangerUrl]) {
      await session(async (sql) => {
        for (const { name, kind } of relations) {
          await expect(sql.unsafe(`select * from ${name}`)).rejects.toThrow(/permission denied/);
          if (kind !== 'S') continue;
          const last = await sql
            .unsafe<{ last: string | null }[]>(`select pg_sequence_last_value('${name}') as last`)
            .catch(() => [{ last: null }]);
          expect([name, ...last]).toEqual([name, { last: null }]);
        }
        const shown = await sql`select last_value from pg_sequences where last_value is not null`;
        expect(shown).toEqual([]);
      }, url);
    }
  });

  it('keeps large objects of its own from nobody, and none of ours is one', async () => {
    await session(async (sql) => {
      await expect(sql.unsafe('select * from pg_largeobject')).rejects.toThrow(/permission denied/);
      expect(await sql`select from pg_largeobject_metadata`).toHaveLength(0);
    });
  });

  it('can read an answer in a transaction that it then rolls back, without a record: the login is trusted with that', async () => {
    // Named in the threat model: a statement cannot outlive the transaction of its caller. The gateway runs each call in
    // a transaction of its own, and hands nothing out before it has committed.
    const count = async () =>
      (await owner<{ n: string }[]>`select count(*) as n from earshot.decisions`)[0]?.n;
    const before = await count();
    await session((sql) =>
      sql.unsafe(
        `begin; ${call(house.acme.live, 'search', { query: CANARY, limit: '10' })}; rollback`,
      ),
    );
    expect(await count()).toBe(before);
  });
});
