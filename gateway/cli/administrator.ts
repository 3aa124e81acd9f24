import { openDatabase, type Database } from '../../sql/database.ts';
import type { Config } from '../config.ts';
import { placeOf, type Place } from '../instance.ts';
import { EXIT, Failure } from './failure.ts';

/** A database with the login that owns it. */
interface Administered extends Place {
  readonly adminUrl: string;
}

/**
 * Works with the login that owns the database: the one of DATABASE_ADMIN_URL, or that of the embedded server. What
 * registers callers and keys goes through it, for the gateway's own login may not.
 */
export async function asAdministrator<Result>(
  config: Config,
  work: (database: Database, place: Administered) => Promise<Result>,
): Promise<Result> {
  if (config.databaseUrl !== undefined && config.databaseAdminUrl === undefined) {
    throw new Failure(
      EXIT.usage,
      'config',
      'DATABASE_ADMIN_URL: it is missing.',
      'Name a login that owns the database and may make roles. The one of DATABASE_URL gets its rights from it.',
    );
  }
  const place = await placeOf(config);
  const adminUrl = place.adminUrl ?? '';
  const database = openDatabase(adminUrl, { max: 1, applicationName: 'earshot administrator' });
  try {
    return await work(database, { ...place, adminUrl });
  } finally {
    await database.close();
    await place.stop();
  }
}
