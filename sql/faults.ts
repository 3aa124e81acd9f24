import { setTimeout as delay } from 'node:timers/promises';

/**
 * What went wrong at the database, told without the message, which may quote values.
 *
 * - unavailable: no answer can be had now; nothing is known about a statement that was under way
 * - retryable: the transaction lost to another one and may be run again from its start
 * - timeout: a statement or a lock took longer than it may
 * - conflict: a row like this exists already
 * - invalid: a value is refused by a type or a constraint
 * - fault: anything else, a mistake in the code first of all
 */
export type Fault =
  | { readonly kind: 'unavailable' | 'retryable' | 'timeout'; readonly code: string }
  | {
      readonly kind: 'conflict' | 'invalid';
      readonly code: string;
      readonly constraint: string | undefined;
      readonly table: string | undefined;
      readonly column: string | undefined;
    }
  | { readonly kind: 'fault'; readonly code: string | undefined };

/** Classifies what a statement threw. Whatever is not recognized is a fault. */
export function faultOf(thrown: unknown): Fault {
  if (!(thrown instanceof Error)) return { kind: 'fault', code: undefined };
  const error = driverErrorIn(thrown);
  const { code } = error;
  if (code === undefined) return { kind: 'fault', code };

  const kind = kindOf(code, error.syscall);
  switch (kind) {
    case 'unavailable':
    case 'retryable':
    case 'timeout':
    case 'fault':
      return { kind, code };
    case 'conflict':
    case 'invalid':
      return {
        kind,
        code,
        constraint: error.constraint_name,
        table: error.table_name,
        column: error.column_name,
      };
  }
}

/**
 * Runs `work` again while it throws a retryable fault, up to `attempts` times in all, after a short random pause that
 * doubles. The work must be a whole transaction with no effect outside of it. The last error is thrown.
 */
export async function retrying<T>(work: () => Promise<T>, { attempts = 5 } = {}): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt >= attempts || faultOf(error).kind !== 'retryable') throw error;
      await delay(Math.random() * 5 * 2 ** attempt);
    }
  }
}

/** The driver's own error, where another one that has no code was put around it. */
function driverErrorIn(error: DriverError): DriverError {
  return error.code === undefined && error.cause instanceof Error
    ? driverErrorIn(error.cause)
    : error;
}

/** What the driver and Node.js put on their errors. */
interface DriverError extends Error {
  readonly code?: string;
  readonly syscall?: string;
  readonly constraint_name?: string;
  readonly table_name?: string;
  readonly column_name?: string;
}

const UNREACHABLE = new Set([
  ...[
    'ECONNREFUSED',
    'ECONNRESET',
    'ECONNABORTED',
    'EPIPE',
    'ETIMEDOUT',
    'EHOSTUNREACH',
    'ENETUNREACH',
  ],
  ...[
    'ENOTFOUND',
    'EAI_AGAIN',
    'CONNECT_TIMEOUT',
    'CONNECTION_CLOSED',
    'CONNECTION_ENDED',
    'CONNECTION_DESTROYED',
  ],
]);

function kindOf(code: string, syscall: string | undefined): Fault['kind'] {
  if (UNREACHABLE.has(code)) return 'unavailable';
  if (code === 'ENOENT') return syscall === 'connect' ? 'unavailable' : 'fault';
  switch (code) {
    case '57P01': // admin_shutdown
    case '57P02': // crash_shutdown
    case '57P03': // cannot_connect_now
    case '40003': // statement_completion_unknown
    case '25006': // read_only_sql_transaction, after a failover
      return 'unavailable';
    case '40001': // serialization_failure
    case '40P01': // deadlock_detected
      return 'retryable';
    case '57014': // query_canceled
    case '55P03': // lock_not_available
    case '25P03': // idle_in_transaction_session_timeout
    case '25P04': // transaction_timeout
      return 'timeout';
    case '23505': // unique_violation
    case '23P01': // exclusion_violation
      return 'conflict';
    case '23502': // not_null_violation
    case '23503': // foreign_key_violation
    case '23514': // check_violation
      return 'invalid';
    default:
      return kindOfClass(code.slice(0, 2));
  }
}

function kindOfClass(sqlstateClass: string): Fault['kind'] {
  switch (sqlstateClass) {
    case '08': // connection exception
    case '53': // insufficient resources
      return 'unavailable';
    case '22': // data exception
      return 'invalid';
    default:
      return 'fault';
  }
}
