import { resolve } from 'node:path';
import { parseExternalId, type ExternalId } from '../../policy/identity.ts';
import { parseDatabaseUrl } from '../../sql/database-url.ts';
import { readConfig, type Config } from '../config.ts';
import { EXIT, Failure } from './failure.ts';

/** The configuration of this process, with its database URLs read once so that a bad one is named here. */
export function readSettings(): Config {
  const config = readConfig(process.env);
  for (const [name, url] of [
    ['DATABASE_URL', config.databaseUrl],
    ['DATABASE_ADMIN_URL', config.databaseAdminUrl],
  ] as const) {
    if (url === undefined) continue;
    try {
      parseDatabaseUrl(url);
    } catch (error) {
      const why = error instanceof Error ? error.message : '';
      throw new Failure(EXIT.usage, 'config', `${name}: ${why}`, `Correct ${name}.`);
    }
  }
  if (config.databaseAdminUrl !== undefined && config.databaseUrl === undefined) {
    throw new Failure(
      EXIT.usage,
      'config',
      'DATABASE_URL: it is missing, while DATABASE_ADMIN_URL is there.',
      'Name the login that the gateway works with in DATABASE_URL, or take DATABASE_ADMIN_URL away.',
    );
  }
  return config;
}

/** An id that somebody typed. */
export function typedId(option: string, text: string): ExternalId {
  const parsed = parseExternalId(text);
  if (parsed.ok) return parsed.id;
  throw new Failure(
    EXIT.usage,
    'usage',
    `${option}: it is not an id (${parsed.fault}).`,
    'An id has 1 to 128 characters in Normalization Form C and no control characters.',
  );
}

/** A path that somebody typed. npm runs its scripts elsewhere and says where the person was. */
export function typedPath(path: string): string {
  const { npm_lifecycle_event: script, INIT_CWD: origin } = process.env;
  const isScript = script === 'demo' || script === 'start';
  return resolve(isScript && origin !== undefined ? origin : process.cwd(), path);
}

/** A whole number that somebody typed. */
export function typedNumber(option: string, text: string, min: number, max: number): number {
  const value = /^(0|[1-9][0-9]*)$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new Failure(
    EXIT.usage,
    'usage',
    `${option}: it has to be a whole number from ${min} to ${max}.`,
  );
}
