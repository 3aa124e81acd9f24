import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase, type Sql } from '../../sql/database.ts';
import { answers, buildPlace, CALLS, hide, type Place } from './oracle-place.ts';
import { POISON } from './poison.ts';

// Whether anything of a hidden row shows in an error, or in what a call costs: a predicate that a caller supplies must
// not run on a row before the scope has let that row in.

describe('an error', () => {
  let place: Place;

  beforeAll(async () => {
    place = await buildPlace();
    await place.gateway.owner.unsafe(POISON);
  });
  afterAll(() => place.gateway.close());

  it('comes of no hidden row, whatever is asked: what would divide by zero on one is never run on it', async () => {
    const { owner } = place.gateway;
    const before = await answers(place);
    expect(before.join()).toContain('lantern in the harbor 11');
    await hide(owner, 40, 'lantern in the harbor hemlock');
    for (const settled of [false, true]) {
      if (settled) await owner.unsafe('analyze');
      expect(await answers(place)).toEqual(before);
    }
    // The poison works on these very rows, as soon as something looks at their text.
    for (const statement of [
      `select from earshot.messages where terms @@ 'lantern'::tsquery`,
      `select ts_rank_cd(terms, 'lantern'::tsquery) from earshot.messages`,
      `select ts_headline('english', body, 'lantern'::tsquery) from earshot.messages`,
    ]) {
      await expect(owner.unsafe(statement)).rejects.toThrow(/division by zero/);
    }
  });

  it('comes of a row that is in scope, which shows that the poison would be noticed', async () => {
    const { acme, turn, gateway } = place;
    const seq = await acme.say('source', 'ben', 'lantern hemlock');
    expect((await turn.tool('search', { query: 'lantern' })).status).not.toBe(200);
    await gateway.owner.unsafe(
      `delete from earshot.messages where body = 'lantern hemlock' and seq = ${seq}`,
    );
    expect((await turn.tool('search', { query: 'lantern' })).status).toBe(200);
  });

  it('comes of a malformed argument before any row is looked at, and is the same whatever is hidden', async () => {
    const { gateway, digest } = place;
    const { sql, close } = openDatabase(gateway.target.gatewayUrl, { max: 1 });
    const counted = () => gateway.owner`select count(*) from earshot.ledger_entries`;
    const before = await counted();
    const errors = async () => {
      const found: unknown[] = [];
      for (const more of [
        { limit: 'ten' },
        { limit: '-5' },
        { since: 'yesterday or so' },
        { until: '2026-13-45T00:00:00Z' },
        { after: { score: 'x', seq: '1', conversation: 'source' } },
        { after: { score: '1', seq: '1/0', conversation: 'source' } },
        { after: { score: 'NaN', seq: '99999999999999999999', conversation: 'source' } },
      ]) {
        const args = JSON.stringify({ query: 'lantern', limit: '10', ...more });
        const error: unknown = await sql`
          select * from earshot.call_tool(${digest}, 'search', ${args}::text::jsonb, ''::bytea)`.then(
          (rows) =>
            rows.map((row) => [row.code as unknown, (row.items as unknown[] | null)?.length]),
          (thrown: unknown) => (thrown as Error).message,
        );
        found.push(error);
      }
      return found;
    };
    const first = await errors();
    await hide(gateway.owner, 10, 'lantern hemlock again');
    expect(await errors()).toEqual(first);
    expect(JSON.stringify(first)).not.toMatch(/division|hemlock/);
    expect(await counted()).toEqual(before);
    await close();
  });
});

describe('the cost of a call', () => {
  let place: Place;

  beforeAll(async () => {
    place = await buildPlace();
    await place.gateway.owner.unsafe(
      `alter database ${place.gateway.target.name} set track_functions = 'all'`,
    );
  });
  afterAll(() => place.gateway.close());

  interface Cost {
    readonly call: string;
    /** Of each table, index, toast table and function: scans or calls, rows that they returned, rows fetched. */
    readonly counts: Readonly<Record<string, readonly number[]>>;
  }

  /** What each call does: the server's own counts for its transaction. Timings are left out. */
  async function costs(sql: Sql): Promise<Cost[]> {
    const found: Cost[] = [];
    for (const [tool, args] of CALLS) {
      const stated = Object.fromEntries(
        Object.entries({ limit: 10, direction: 'forward', before: 5, after: 5, ...args })
          .filter(([name]) => USED[tool]?.includes(name) ?? false)
          .map(([name, value]) => [name, String(value)]),
      );
      const call = () =>
        sql.unsafe<{ code: string | null; n: string | null }[]>(
          `select code, jsonb_array_length(items)::text as n
           from earshot.call_tool($1, $2, $3::text::jsonb, ''::bytea)`,
          [place.digest, tool, JSON.stringify(stated)],
        );
      // Settled: a new plan reads statistics, and the first few are made for their values.
      for (let round = 0; round < 7; round++) await call();
      await sql.unsafe('begin');
      const before = await counts(sql);
      const [row] = await call();
      const after = await counts(sql);
      await sql.unsafe('rollback');
      const spent = [...after].flatMap(([name, now]) => {
        const then = before.get(name) ?? [];
        const difference = now.map((count, n) => count - (then[n] ?? 0));
        return difference.some((count) => count > 0) ? [[name, difference] as const] : [];
      });
      found.push({
        call: `${tool} ${JSON.stringify(args)}: ${row?.code ?? 'ok'} ${row?.n ?? ''}`,
        counts: Object.fromEntries(spent),
      });
    }
    return found;
  }

  /** How many rows with what was said each call has looked at, by whatever plan: in the table, or out of line. */
  function looked(found: readonly Cost[]) {
    return found.map(({ call, counts }) => {
      const rows = (name: string) => {
        const [, returned = 0, fetched = 0] = counts[name] ?? [];
        // A scan of the table returns rows, an index has them fetched.
        return name.includes(' ') ? fetched : returned + fetched;
      };
      const of = (table: string) =>
        Object.keys(counts)
          .filter((name) => name === table || name.startsWith(`${table} `))
          .reduce((sum, name) => sum + rows(name), 0);
      return [call, of('messages'), of('toast of messages'), of('late_messages')];
    });
  }

  const session = async <T>(work: (sql: Sql) => Promise<T>): Promise<T> => {
    const { sql, close } = openDatabase(place.gateway.target.gatewayUrl, { max: 1 });
    try {
      return await work(sql);
    } finally {
      await close();
    }
  };

  it('is the same in rows of every table and index, with and without hidden rows, many and huge', async () => {
    const { owner } = place.gateway;
    await owner.unsafe('analyze');
    const { sql, close } = openDatabase(place.gateway.target.gatewayUrl, { max: 1 });
    const before = await costs(sql);
    // The counter counts: what is in scope was fetched.
    expect(before[0]?.call).toMatch(/: ok [1-9]/);
    expect(looked(before)[0]?.[1]).toBeGreaterThan(10);

    const words = Array.from({ length: 9_000 }, (_, n) => `w${n.toString(36)}x`).join(' ');
    await hide(owner, 1, `lantern in the harbor ${words} lantern lantern ${'a!'.repeat(20_000)}`);
    await hide(owner, 1_500, 'lantern in the harbor, lantern by lantern');
    expect(await costs(sql)).toEqual(before);
    await close();
    // Also where no plan is left from before.
    expect(await session(costs)).toEqual(before);
  });

  it('does not grow with hidden rows when the server has learnt of them and plans anew', async () => {
    const { owner } = place.gateway;
    const wanted = looked(await session(costs));
    await hide(owner, 3_000, 'lantern lantern harbor');
    await owner.unsafe('analyze');
    // Another plan may take another way among the rows in scope, and there are fewer of those than this.
    const inScope = 50;
    const found = looked(await session(costs));
    expect(found.map(([call]) => call)).toEqual(wanted.map(([call]) => call));
    const grown = found.filter(([, ...rows], n) =>
      rows.some((count, kind) => Number(count) > Number(wanted[n]?.[kind + 1]) + inScope),
    );
    expect(grown).toEqual([]);
  });

  it('asks of an embed that names nothing what it asks of one whose conversation is hidden', async () => {
    const { acme } = place;
    // A page takes one message more than it shows.
    const said = async (...embeds: object[]) => {
      const seq = await acme.say('source', 'ben', 'see there', { embeds });
      await acme.say('source', 'ben', 'plain');
      return seq;
    };
    const plain = await said();
    const hidden = await said({ conversation: 'secret', message: 'm1' });
    const nothing = await said({ conversation: 'nowhere', message: 'm1' });
    const { sql, close } = openDatabase(place.gateway.target.gatewayUrl, { max: 1 });
    const asked = async (fromSeq: string) => {
      const read = () => sql`
        select code from earshot.call_tool(${place.digest}, 'read',
          ${JSON.stringify({ conversation: 'source', fromSeq, limit: '1' })}::text::jsonb, ''::bytea)`;
      for (let round = 0; round < 7; round++) await read();
      await sql.unsafe('begin');
      const before = await counts(sql);
      await read();
      const after = await counts(sql);
      await sql.unsafe('rollback');
      return [...after]
        .filter(([name]) => name.endsWith('()'))
        .map(([name, [calls = 0]]) => [name, calls - (before.get(name)?.[0] ?? 0)]);
    };
    const expected = await asked(hidden);
    expect(await asked(nothing)).toEqual(expected);
    // The counter counts.
    expect(await asked(plain)).not.toEqual(expected);
    await close();
  });

  it('is another one with one more row in scope, which shows that the counter would notice', async () => {
    const before = await session(costs);
    await place.acme.say('source', 'ben', 'one more lantern');
    const after = await session(costs);
    expect(after).not.toEqual(before);
    expect(looked(after)).not.toEqual(looked(before));
  });
});

const USED: Readonly<Record<string, readonly string[]>> = {
  search: ['query', 'limit', 'conversation', 'author', 'kind', 'since', 'until', 'recipient'],
  read: ['conversation', 'fromSeq', 'direction', 'limit'],
  around: ['conversation', 'seq', 'before', 'after'],
  thread: ['conversation', 'seq', 'limit'],
  list_conversations: ['limit'],
};

async function counts(sql: Sql): Promise<ReadonlyMap<string, readonly number[]>> {
  const rows = await sql.unsafe<{ name: string; counts: number[] }[]>(`
    select case c.relkind when 'r' then c.relname when 'i' then concat_ws(' ', u.relname, c.relname)
        else concat_ws(' ', 'toast of', t.relname) end as name,
      array[pg_stat_get_xact_numscans(c.oid), pg_stat_get_xact_tuples_returned(c.oid),
        pg_stat_get_xact_tuples_fetched(c.oid)]::float8[] as counts
    from pg_class c
    left join pg_index i on i.indexrelid = c.oid left join pg_class u on u.oid = i.indrelid
    left join pg_class t on t.reltoastrelid = c.oid
    where c.oid >= 16384 and c.relkind in ('r', 'i', 't')
    union all
    select funcname || '()', array[calls, 0, 0]::float8[] from pg_stat_xact_user_functions where schemaname = 'earshot'
    order by 1`);
  return new Map(rows.map(({ name, counts }) => [name, counts]));
}
