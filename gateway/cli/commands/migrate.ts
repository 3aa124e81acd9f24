import type { Command } from 'commander';
import { migrate } from '../../../sql/migrate.ts';
import { placeOf } from '../../instance.ts';
import { EXIT, Failure } from '../failure.ts';
import { readSettings } from '../settings.ts';
import { counted, openTerminal, type Terminal } from '../terminal.ts';

/** Adds `earshot migrate`: needs the login that owns the database, or no database settings at all. */
export function addMigrate(program: Command): void {
  program
    .command('migrate')
    .description('bring the database up to this release')
    .option('--json', 'answer with JSON', false)
    .action(async ({ json }: { json: boolean }) => runMigrate(openTerminal(json)));
}

async function runMigrate(terminal: Terminal): Promise<void> {
  const config = readSettings();
  if (config.databaseUrl !== undefined && config.databaseAdminUrl === undefined) {
    throw new Failure(
      EXIT.usage,
      'config',
      'DATABASE_ADMIN_URL: it is missing.',
      'Name a login that owns the database and may make roles. The one of DATABASE_URL gets its rights from it.',
    );
  }
  const place = await placeOf(config);
  try {
    const applied = await migrate(place.adminUrl ?? '', { gatewayUrl: place.gatewayUrl });
    terminal.answer({ applied });
    for (const name of applied) terminal.say(name.replace(/\.sql$/, ''));
    terminal.say(
      applied.length === 0
        ? 'The database is up to date.'
        : `${counted(applied.length, 'migration')} applied.`,
    );
  } finally {
    await place.stop();
  }
}
