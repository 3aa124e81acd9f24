import { debuglog } from 'node:util';
import { EmbeddedError } from '../../sql/embedded/embedded-error.ts';
import { faultOf } from '../../sql/faults.ts';
import { MigrationError } from '../../sql/migration-error.ts';
import { ConfigError } from '../config.ts';
import { ExportFault } from '../importers/export-source.ts';
import { KeyError } from '../keys/signing-key.ts';

/** How a command ends. The numbers are part of the interface. */
export const EXIT = {
  ok: 0,
  /** Refused, or something could not be done. */
  refused: 1,
  /** The command line or the configuration is not right. */
  usage: 2,
  /** What the command needs does not answer now. */
  unavailable: 3,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Why a command ends early. Its message says what happened, its mend what to do. */
export class Failure extends Error {
  readonly exitCode: ExitCode;
  readonly code: string;
  readonly mend: string | undefined;

  constructor(exitCode: ExitCode, code: string, message: string, mend?: string) {
    super(message);
    this.name = 'Failure';
    this.exitCode = exitCode;
    this.code = code;
    this.mend = mend;
  }
}

const debug = debuglog('earshot');

/**
 * Whatever was thrown, told to a person: no stack trace, and no message of unknown origin, which may
 * quote content. `NODE_DEBUG=earshot` prints where it came from.
 */
export function failureOf(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown;
  debug('%s', thrown instanceof Error ? thrown.stack : typeof thrown);
  if (thrown instanceof ConfigError) {
    const mend = 'Correct the setting. The settings are the keys of EARSHOT_CONFIG, or variables.';
    return new Failure(EXIT.usage, 'config', thrown.message, mend);
  }
  if (thrown instanceof KeyError) return new Failure(EXIT.usage, 'keys', thrown.message);
  if (thrown instanceof EmbeddedError) {
    return new Failure(EXIT.unavailable, thrown.code, thrown.message);
  }
  if (thrown instanceof MigrationError) {
    return new Failure(EXIT.refused, 'migration', thrown.message);
  }
  if (thrown instanceof ExportFault) return failureOfExport(thrown);
  return failureOfFault(thrown);
}

function failureOfExport({ code, message }: ExportFault): Failure {
  const sentence = `The export cannot be read: ${message}.`;
  if (code === 'unknown_relay_bot') {
    return new Failure(
      EXIT.usage,
      code,
      sentence,
      'Check --relay-bot: the id of a bot or of its user.',
    );
  }
  const named = code === 'not_found' || code === 'not_an_export';
  return named
    ? new Failure(EXIT.usage, code, sentence, 'Name the folder or the zip of an export.')
    : new Failure(EXIT.refused, code, sentence);
}

function failureOfFault(thrown: unknown): Failure {
  const { kind, code } = faultOf(thrown);
  if (kind === 'unavailable' || kind === 'timeout' || kind === 'retryable') {
    return new Failure(
      EXIT.unavailable,
      'unavailable',
      `The database does not answer now (${code}).`,
      'Check that it runs and that DATABASE_URL names it; `earshot doctor` says more.',
    );
  }
  const known = DATABASE_STATES[code ?? ''];
  if (known !== undefined) return new Failure(...known);
  const system = systemFailure(thrown);
  if (system !== undefined) return system;
  return new Failure(
    EXIT.refused,
    'fault',
    'Earshot failed and stopped.',
    'Run it again with NODE_DEBUG=earshot to see where, and report that.',
  );
}

const NOT_MIGRATED = [
  EXIT.refused,
  'not_migrated',
  'The database is not one of this release.',
  'Run `earshot init`; or `earshot migrate`, with DATABASE_ADMIN_URL where there is a DATABASE_URL.',
] as const;

const DATABASE_STATES: Readonly<
  Record<string, readonly [ExitCode, string, string, string] | undefined>
> = {
  // invalid_schema_name, undefined_table, undefined_function, undefined_column
  '3F000': NOT_MIGRATED,
  '42P01': NOT_MIGRATED,
  '42883': NOT_MIGRATED,
  '42703': NOT_MIGRATED,
  // insufficient_privilege
  '42501': [
    EXIT.refused,
    'not_permitted',
    'The login of DATABASE_URL lacks privileges.',
    'Run `earshot migrate` with DATABASE_ADMIN_URL and DATABASE_URL: it gives them.',
  ],
  // invalid_password, invalid_authorization_specification, invalid_catalog_name
  '28P01': [EXIT.usage, 'login', 'The database refuses the login.', 'Correct DATABASE_URL.'],
  '28000': [EXIT.usage, 'login', 'The database refuses the login.', 'Correct DATABASE_URL.'],
  '3D000': [
    EXIT.usage,
    'no_database',
    'There is no database of this name.',
    'Create it, or correct DATABASE_URL.',
  ],
};

/** What the system refused: by its own code and path, which the caller named. */
function systemFailure(thrown: unknown): Failure | undefined {
  if (!(thrown instanceof Error) || !('syscall' in thrown)) return undefined;
  const { code, path } = thrown as NodeJS.ErrnoException;
  const where = path === undefined ? '' : `: ${path}`;
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return new Failure(EXIT.refused, 'no_access', `The system refuses access${where}.`);
    case 'ENOSPC':
      return new Failure(EXIT.unavailable, 'disk_full', `The disk is full${where}.`);
    case 'EADDRINUSE':
      return new Failure(
        EXIT.unavailable,
        'address_in_use',
        'Another process listens at this address.',
        'End it, or choose another port with --port or EARSHOT_PORT.',
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new Failure(
        EXIT.usage,
        'address',
        'This machine has no such address.',
        'Correct --host or EARSHOT_HOST.',
      );
    case undefined:
    default:
      return undefined;
  }
}
