import net from 'node:net';
import postgres from 'postgres';

/** A statement as the driver builds it: it runs once a connection is handed it. */
export interface Statement extends Promise<unknown> {
  handler: (statement: Statement) => void;
  readonly reject: (reason: Error) => void;
}

/** One connection to the server. It connects when it runs its first statement. */
export interface Connection {
  /** Runs a statement after those it was given before; resolves once that statement has settled. */
  run(statement: Statement): Promise<void>;
  /** False from the moment the connection failed or was closed; it never becomes true again. */
  isUsable(): boolean;
  /** Closes at once; statements still running are rejected and the server rolls them back. */
  close(): Promise<void>;
}

/**
 * Opens a connection that is never opened twice.
 *
 * The driver reconnects under the same connection object. What it had not sent yet then goes astray: a write
 * left over from the lost connection blocks the new one for good, the rest of a lost transaction runs outside of it,
 * and its own rollback brings the process down. So each connection is a client of its own, whose socket can be
 * made only once, and whatever is left when that socket closes is rejected here.
 *
 * @param settings the parsed options of a driver client
 * @param onLost called once, when the connection can no longer be used
 */
export function openConnection(settings: postgres.Sql['options'], onLost: () => void): Connection {
  const running = new Set<Statement>();
  let state: 'new' | 'open' | 'lost' = 'new';

  function lose() {
    if (state === 'lost') return;
    state = 'lost';
    onLost();
  }

  const once = {
    max: 1,
    socket() {
      if (state !== 'new') throw connectionFailure('CONNECTION_CLOSED');
      state = 'open';
      return connectSocket(settings).once('error', lose).once('end', lose);
    },
    onclose() {
      lose();
      for (const statement of running) statement.reject(connectionFailure('CONNECTION_CLOSED'));
    },
  };
  const client = postgres({ ...settings, ...once } as object);
  const { handler } = client`` as unknown as Statement;

  return {
    async run(statement) {
      if (state === 'lost') {
        statement.reject(connectionFailure('CONNECTION_CLOSED'));
        return;
      }
      running.add(statement);
      handler(statement);
      try {
        await statement;
      } catch (error) {
        if (!leavesConnectionUsable(error)) {
          lose();
          void client.end({ timeout: 0 });
        } else {
          // The driver goes on counting rows where a statement failed among its own, and the next answer would begin
          // with gaps; a command that completes sets the count back. In a transaction the rollback does.
          await client.unsafe('select where false').catch(() => {});
        }
      } finally {
        running.delete(statement);
      }
    },
    isUsable: () => state !== 'lost',
    async close() {
      lose();
      await client.end({ timeout: 0 });
    },
  };
}

/** An error as the driver raises it for a connection, with a code that `faultOf` knows. */
export function connectionFailure(
  code: 'CONNECTION_CLOSED' | 'CONNECTION_ENDED' | 'CONNECT_TIMEOUT',
): Error & { readonly code: string } {
  return Object.assign(new Error(`The connection to the database failed: ${code}.`), { code });
}

/** The server ends the connection after FATAL and PANIC; a failure of any other kind leaves its state unknown. */
function leavesConnectionUsable(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.severity === 'ERROR';
}

function connectSocket({ path, host, port }: postgres.Sql['options']): net.Socket {
  if (path) return net.connect(path);
  const [name = 'localhost'] = host;
  // The driver takes the name that a certificate must carry from here.
  return Object.assign(net.connect(port[0] ?? 5432, name), { host: name });
}
