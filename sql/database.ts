import postgres from 'postgres';
import { loadArrayTypes } from './array-types.ts';
import { openConnection, type Connection, type Statement } from './connection.ts';
import { parseDatabaseUrl, socketPath } from './database-url.ts';
import { openPool, type Pool } from './pool.ts';

/** What a function that asks one question needs: a database or a transaction on it. */
export type Sql = postgres.ISql;

export interface Database {
  /**
   * The driver's tag, over connections that survive the loss of the server: statements, `begin`, `savepoint`, `unsafe`,
   * `reserve`, `json`, `array` and fragments. A reserved connection is closed when it is released.
   * Not offered: `listen`, `subscribe`, `notify`, `file`, large objects; a cursor needs a callback.
   */
  readonly sql: postgres.Sql;
  /** Lets running statements and transactions finish for up to five seconds, then disconnects. */
  readonly close: () => Promise<void>;
}

export interface DatabaseOptions {
  /** Connections at most. 10 unless given. */
  readonly max?: number;
  /** The server ends a statement that runs longer. No limit unless given. */
  readonly statementTimeoutMs?: number;
  /** Whether statements are prepared and named; a pooler in transaction mode may need false. */
  readonly prepare?: boolean;
  readonly applicationName?: string;
  /** How long connecting may take, and how long a statement may wait for a connection. 10 unless given. */
  readonly connectTimeoutSeconds?: number;
}

/**
 * Opens a pool over a database. Nothing is connected until the first statement, so a wrong URL is
 * found here but an unreachable server is found there.
 *
 * `int8` and `numeric` arrive as strings, dates and times as the server's ISO text in UTC with all their
 * microseconds, both ways. Notices are dropped.
 */
export function openDatabase(url: string, options: DatabaseOptions = {}): Database {
  const { max = 10, connectTimeoutSeconds = 10 } = options;
  // Never connects: it builds statements, and its settings are those of each connection.
  const builder = postgres(driverOptions(url, options, connectTimeoutSeconds));
  const pool = openPool((onLost) => openConnection(builder.options, onLost), {
    max,
    waitMs: connectTimeoutSeconds * 1000,
  });
  return {
    sql: pooledSql(builder, pool),
    close: () => pool.close(5_000),
  };
}

type Work = (sql: postgres.TransactionSql) => unknown;

function pooledSql(builder: postgres.Sql, pool: Pool): postgres.Sql {
  let typesAreKnown = false;
  async function lease() {
    const connection = await pool.lease();
    if (typesAreKnown) return connection;
    try {
      const alone = routed(builder, (statement) => void connection.run(statement), {});
      await loadArrayTypes(alone as postgres.Sql);
      typesAreKnown = true;
      return connection;
    } catch (error) {
      pool.release(connection);
      throw error;
    }
  }

  async function run(statement: Statement) {
    const isSettled = watch(statement);
    try {
      const connection = await lease();
      // It may have been cancelled while it waited.
      if (!isSettled()) await connection.run(statement);
      pool.release(connection);
    } catch (error) {
      statement.reject(error as Error);
    }
  }

  async function begin(...args: [Work] | [string, Work]) {
    const connection = await lease();
    try {
      return await transact(builder, connection, args);
    } finally {
      pool.release(connection);
    }
  }

  async function reserve() {
    const connection = await lease();
    return routed(builder, (statement) => void connection.run(statement), {
      begin: (...args: [Work] | [string, Work]) => transact(builder, connection, args),
      release: () => void connection.close(),
    });
  }

  return routed(builder, (statement) => void run(statement), { begin, reserve }) as postgres.Sql;
}

/**
 * Begins, works and commits on one connection; rolls back when the work throws. A transaction that the server rolled
 * back because a statement failed unseen is an error too. If the connection is lost during the commit,
 * its outcome is unknown to the caller, as ever.
 */
async function transact(
  builder: postgres.Sql,
  connection: Connection,
  args: [Work] | [string, Work],
) {
  const [mode, work] = args.length === 1 ? ['', args[0]] : args;
  if (!/^[a-z ,]*$/i.test(mode)) throw new Error('A transaction mode is made of words.');
  let ended = false;
  let failure: Error | undefined;

  function run(statement: Statement) {
    if (ended) {
      statement.reject(new Error('The transaction of this statement has ended.'));
      return;
    }
    statement.catch((error: unknown) => (failure ??= error as Error));
    void connection.run(statement);
  }

  let savepoints = 0;
  async function savepoint(...inner: [Work] | [string, Work]) {
    const name = `s${savepoints++}`;
    await sql.unsafe(`savepoint ${name}`);
    try {
      const result = await settle((inner.at(-1) as Work)(sql));
      await sql.unsafe(`release savepoint ${name}`);
      return result;
    } catch (error) {
      await sql.unsafe(`rollback to savepoint ${name}`);
      throw error;
    }
  }

  const sql = routed(builder, run, { savepoint }) as postgres.TransactionSql;
  try {
    await sql.unsafe(`begin ${mode}`);
    const result = await settle(work(sql));
    const { command } = await sql.unsafe('commit');
    if (command === 'ROLLBACK')
      throw failure ?? new Error('The server rolled the transaction back.');
    return result;
  } catch (error) {
    if (connection.isUsable()) await sql.unsafe('rollback').catch(() => connection.close());
    throw error;
  } finally {
    ended = true;
  }
}

const PASSED_THROUGH = new Set<PropertyKey>([
  ...['json', 'array', 'typed', 'types', 'options', 'PostgresError'],
]);

/**
 * The driver's tag with each statement sent to `run`, and with `methods` in place of those of the driver that
 * would connect by themselves.
 */
function routed(
  builder: postgres.Sql,
  run: (statement: Statement) => void,
  methods: Record<PropertyKey, unknown>,
): unknown {
  const route = (built: unknown) => {
    if (built instanceof Promise) (built as Statement).handler = run;
    return built;
  };
  const offered: Record<PropertyKey, unknown> = {
    unsafe: (...args: Parameters<Sql['unsafe']>) => route(builder.unsafe(...args)),
    ...methods,
  };
  return new Proxy(builder, {
    apply: (target, _this, args) => route(Reflect.apply(target, undefined, args)),
    get: (target, name): unknown =>
      PASSED_THROUGH.has(name) ? Reflect.get(target, name) : offered[name],
  });
}

function watch(statement: Statement): () => boolean {
  let settled = false;
  const done = () => (settled = true);
  statement.then(done, done);
  return () => settled;
}

/** The driver lets the work of a transaction return a list of statements. */
function settle(result: unknown): unknown {
  return Array.isArray(result) ? Promise.all(result) : result;
}

function driverOptions(
  url: string,
  { prepare = true, statementTimeoutMs, applicationName = 'earshot' }: DatabaseOptions,
  connectTimeoutSeconds: number,
) {
  const address = parseDatabaseUrl(url);
  const asText = (value: unknown) => (value instanceof Date ? value.toISOString() : String(value));
  return {
    host: address.host,
    port: address.port,
    path: socketPath(address),
    user: address.user,
    pass: address.password,
    database: address.database,
    ssl: address.tls,
    max: 1,
    prepare,
    connect_timeout: connectTimeoutSeconds,
    max_lifetime: null,
    fetch_types: false,
    onnotice: () => {},
    connection: {
      application_name: applicationName,
      TimeZone: 'UTC',
      DateStyle: 'ISO',
      ...(statementTimeoutMs === undefined ? {} : { statement_timeout: statementTimeoutMs }),
    },
    types: {
      // A JavaScript date would drop the microseconds.
      instant: {
        to: 1184,
        from: [1082, 1114, 1184],
        serialize: asText,
        parse: (text: string) => text,
      },
    },
  };
}
