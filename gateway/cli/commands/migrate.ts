import type { Command } from 'commander';
import { migrate } from '../../../sql/migrate.ts';
import { asAdministrator } from '../administrator.ts';
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
  const applied = await asAdministrator(readSettings(), (_, { adminUrl, gatewayUrl }) =>
    migrate(adminUrl, { gatewayUrl }),
  );
  terminal.answer({ applied });
  for (const name of applied) terminal.say(name.replace(/\.sql$/, ''));
  terminal.say(
    applied.length === 0
      ? 'The database is up to date.'
      : `${counted(applied.length, 'migration')} applied.`,
  );
}
