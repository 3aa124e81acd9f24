import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase, type Database, type Sql } from '../../sql/database.ts';
import { buildCanaryHouse, CANARY, type CanaryHouse, type House } from './canary-house.ts';
import { ATTEMPTS, BEYOND_THE_DATABASE, CONTENT_BY_ANOTHER_NAME } from './closed-attempts.ts';
import { COLUMNS, TABLES } from './doors.ts';

/** A role that cannot log in is tried as the superuser becomes it: the same privileges. */
const ROLES = ['gateway', 'runtime', 'stranger'] as const;
type Role = (typeof ROLES)[number];

/** The server's words for a right that is missing, and for what is not even there. */
const REFUSED =
  /permission denied|row-level security|must be|must have|may (create|alter|set)|cannot be|only (superuser|role)|not allowed|does not exist|is not available/i;

/** Every column of a table, those that the server adds among them. */
const SYSTEM_COLUMNS = ['tableoid', 'ctid', 'xmin', 'xmax', 'cmin', 'cmax'];

describe('each role', () => {
  let house: CanaryHouse;
  let logins: Record<Role | 'admin', Database>;
  let superuser: Sql;

  beforeAll(async () => {
    house = await buildCanaryHouse();
    const { gatewayUrl, adminUrl, superuserUrl } = house.gateway.target;
    superuser = house.gateway.owner;
    logins = {
      gateway: openDatabase(gatewayUrl, { max: 1 }),
      runtime: openDatabase(superuserUrl, { max: 1 }),
      stranger: openDatabase(house.strangerUrl, { max: 1 }),
      admin: openDatabase(adminUrl, { max: 1 }),
    };
  });
  afterAll(async () => {
    await Promise.all(Object.values(logins).map((login) => login.close()));
    await house.close();
  });

  /** Runs a statement in a transaction that leaves nothing behind; gives what it answers or why it does not. */
  async function attempt(role: Role | 'admin', statement: string, entered?: House) {
    let answer: unknown = '';
    try {
      await logins[role].sql.begin(async (sql) => {
        if (role === 'runtime') await sql.unsafe('set local role earshot_runtime');
        if (entered !== undefined)
          await sql`select set_config('earshot.organization', ${entered.key}, true)`;
        answer = await sql.unsafe(statement);
        throw new Error('rolled back');
      });
    } catch (error) {
      const { message, code } = error as { message: string; code?: string };
      if (message !== 'rolled back') return { code, message };
    }
    return { answer: JSON.stringify(answer) };
  }

  it.each(['gateway', 'runtime'] as const)(
    'may as the %s read the named columns of its doors, and no other column there is',
    async (role) => {
      const columns = await superuser<{ table: string; column: string }[]>`
        select c.relname as table, a.attname as column from pg_class c
        join pg_attribute a on a.attrelid = c.oid and not a.attisdropped
        where c.relnamespace = 'earshot'::regnamespace and c.relkind in ('r', 'p') order by 1, a.attnum`;
      const wrong: string[] = [];
      for (const { table, column } of columns) {
        const whole = TABLES[table]?.includes('select') ?? false;
        const named =
          !SYSTEM_COLUMNS.includes(column) && (COLUMNS[table]?.includes(column) ?? false);
        for (const entered of [undefined, house.acme]) {
          const { code } = await attempt(role, `select "${column}" from earshot.${table}`, entered);
          const may = code === undefined ? true : code === '42501' ? false : code;
          if (may !== (whole || named)) wrong.push(`${table}.${column}: ${String(may)}`);
        }
      }
      expect(wrong).toEqual([]);
      expect(columns.length).toBeGreaterThan(150);
    },
  );

  it('reads nothing of ours as a stranger', async () => {
    const tables = await superuser<{ name: string }[]>`
      select c.relname as name from pg_class c
      where c.relnamespace = 'earshot'::regnamespace and c.relkind in ('r', 'p', 'S')`;
    for (const { name } of tables) {
      const { code } = await attempt('stranger', `select 1 from earshot.${name}`);
      expect([name, code]).toEqual([name, '42501']);
    }
    const functions = await superuser<{ call: string }[]>`
      select format('earshot.%I(%s)', p.proname, (
        select string_agg(format('null::%s', format_type(t, null)), ', ' order by n)
        from unnest(p.proargtypes) with ordinality x(t, n))) as call
      from pg_proc p where p.pronamespace = 'earshot'::regnamespace and p.prorettype <> 'trigger'::regtype`;
    for (const { call } of functions) {
      const { code } = await attempt('stranger', `select ${call}`);
      expect([call, code]).toEqual([call, '42501']);
    }
  });

  it('finds no content in all that the gateway may read, whichever organization it sets by hand', async () => {
    for (const entered of [undefined, house.acme, house.other]) {
      const seen: string[] = [];
      for (const table of Object.keys({ ...TABLES, ...COLUMNS })) {
        const columns = COLUMNS[table]?.map((column) => `"${column}"`).join(', ') ?? '*';
        const { answer, message } = await attempt(
          'gateway',
          `select ${columns} from earshot.${table}`,
          entered,
        );
        expect([table, message]).toEqual([table, undefined]);
        seen.push(answer ?? '');
      }
      const text = seen.join('\n');
      expect(text).not.toContain(CANARY);
      // Bytes are written as lists of numbers: the same word there.
      expect(text).not.toContain([...Buffer.from(CANARY)].join(','));
      // What it does see then are facts, of that organization alone.
      const names = ['acme', 'other'].filter((name) => text.includes(`"external_id":"${name}"`));
      expect(names).toEqual(entered === undefined ? [] : [entered.name]);
      if (entered === house.acme) expect(text).not.toContain(house.other.turn.id);
    }
    // The detector sees content where it is.
    const all = await superuser.unsafe(`select to_jsonb(m) from earshot.messages m`);
    expect(JSON.stringify(all)).toContain(CANARY);
  });

  it.each(ROLES)('is refused as the %s whatever is no door', async (role) => {
    const open: unknown[] = [];
    for (const statement of ATTEMPTS) {
      for (const entered of [undefined, house.acme]) {
        const { code, message, answer } = await attempt(role, statement, entered);
        if (answer !== undefined || !REFUSED.test(message)) open.push([statement, code, message]);
      }
    }
    expect(open).toEqual([]);
  });

  it.each(['gateway', 'runtime', 'stranger', 'admin'] as const)(
    'reaches as the %s no file, program, library or other database',
    async (role) => {
      const open: unknown[] = [];
      for (const statement of BEYOND_THE_DATABASE) {
        const { code, message, answer } = await attempt(role, statement);
        if (answer !== undefined || !REFUSED.test(message)) open.push([statement, code, message]);
      }
      expect(open).toEqual([]);
    },
  );

  it.each(['gateway', 'runtime', 'stranger', 'admin'] as const)(
    'gets as the %s no content by another name',
    async (role) => {
      for (const entered of role === 'admin' ? [undefined] : [undefined, house.acme]) {
        for (const statement of CONTENT_BY_ANOTHER_NAME) {
          const { answer = '' } = await attempt(role, statement, entered);
          expect([statement, answer.includes(CANARY)]).toEqual([statement, false]);
        }
      }
    },
  );

  it('shows the owner of the tables nothing without an organization, and does not let it switch that off', async () => {
    for (const table of [
      'messages',
      'conversations',
      'users',
      'deliveries',
      'grants',
      'late_messages',
    ]) {
      expect(await attempt('admin', `select * from earshot.${table}`)).toEqual({ answer: '[]' });
      const off = await attempt(
        'admin',
        `set local row_security = off; select * from earshot.${table}`,
      );
      expect(off.message).toMatch(/would be affected by row-level security/);
    }
  });

  it('becomes no other role', async () => {
    for (const role of ['gateway', 'stranger'] as const) {
      for (const other of ['earshot_scoped', 'earshot_admin', 'postgres']) {
        for (const statement of [`set role ${other}`, `set session authorization ${other}`]) {
          const { code } = await attempt(role, statement);
          expect([statement, code]).toEqual([statement, '42501']);
        }
      }
    }
    // Where the server allows it, it changes nothing: the role is what the login has already.
    const inside = await attempt(
      'gateway',
      'set role earshot_runtime; select body from earshot.messages',
    );
    expect(inside.code).toBe('42501');
  });

  describe('with another grant’s digest', () => {
    const call = (digest: Buffer, query = CANARY) =>
      `select * from earshot.call_tool('\\x${digest.toString('hex')}', 'search',
        '{"query": "${query}", "limit": "10"}'::jsonb, ''::bytea)`;

    it('gets the rows of the grant that the digest names, whatever organization is set by hand', async () => {
      for (const [mine, theirs] of [
        [house.acme, house.other],
        [house.other, house.acme],
      ] as const) {
        for (const setting of [
          '',
          `set local earshot.organization = '${theirs.key}';`,
          `set local earshot.organization_name = '${theirs.name}';`,
          `set local earshot.grant_digest = '${theirs.live.toString('hex')}';`,
          `select earshot.enter_organization('${theirs.name}');`,
          `${call(theirs.live)};`,
        ]) {
          const { answer = '' } = await attempt('gateway', `${setting} ${call(mine.live)}`);
          const last = (JSON.parse(answer) as unknown[]).at(-1);
          const text = JSON.stringify(setting === '' ? answer : last);
          expect(text).toContain(`${CANARY} bird of ${mine.name}`);
          expect(text).not.toContain(theirs.name);
          expect(text).not.toContain('secret');
        }
      }
    });

    it('is told nothing by an unknown digest, and by one that has ended that it has', async () => {
      for (const entered of [undefined, house.acme]) {
        const guesses = [
          Buffer.alloc(32),
          Buffer.alloc(0),
          Buffer.alloc(31, 1),
          house.acme.live.subarray(0, 31),
        ];
        for (const digest of guesses) {
          const { answer = '' } = await attempt('gateway', call(digest), entered);
          expect(answer).toMatch(/"code":"unknown_grant"/);
          expect(answer).toMatch(/"items":null/);
        }
        const ended = await attempt('gateway', call(house.acme.ended), entered);
        expect(ended.answer).toMatch(/"code":"grant_expired"/);
        expect(ended.answer).toMatch(/"items":null/);
      }
    });

    it('sees none of the digests', async () => {
      for (const entered of [undefined, house.acme, house.other]) {
        const { code } = await attempt('gateway', 'select digest from earshot.grants', entered);
        expect(code).toBe('42501');
        const guessed = await attempt(
          'gateway',
          `select id from earshot.grants where digest = '\\x${house.acme.live.toString('hex')}'`,
          entered,
        );
        expect(guessed.code).toBe('42501');
      }
    });
  });
});
