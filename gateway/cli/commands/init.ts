import { mkdir, stat } from 'node:fs/promises';
import type { Command } from 'commander';
import { addClient, CLIENT_SCOPES, findClient } from '../../../sql/clients.ts';
import { migrate } from '../../../sql/migrate.ts';
import { keyStoreOf, openKeys } from '../../keys.ts';
import { createFirstKey } from '../../keys/key-store.ts';
import { asAdministrator } from '../administrator.ts';
import { signedToken } from '../client-token.ts';
import { EXIT, Failure } from '../failure.ts';
import { readSettings, typedNumber } from '../settings.ts';
import { openTerminal, type Terminal } from '../terminal.ts';

/** The client that `init` registers, for the commands of this machine and for a first bridge. */
export const FIRST_CLIENT = 'operator';

interface InitOptions {
  readonly tokenDays: string;
  readonly newToken: boolean;
  readonly json: boolean;
}

export function addInit(program: Command): void {
  program
    .command('init')
    .description('make the keys, the data folder, the database and a first client')
    .option('--token-days <days>', 'how long the token of the first client lasts', '90')
    .option('--new-token', 'sign another token for the first client', false)
    .option('--json', 'answer with JSON', false)
    .action(async (options: InitOptions) => init(options, openTerminal(options.json)));
}

/** Makes what is missing and says of each thing whether it was there. The token is shown once. */
async function init(options: InitOptions, terminal: Terminal): Promise<void> {
  const days = typedNumber('--token-days', options.tokenDays, 1, 3650);
  const config = readSettings();
  const madeFolder = await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
  await asAdministrator(config, async (database, { adminUrl, gatewayUrl }) => {
    await migrate(adminUrl, { gatewayUrl });
    const store = keyStoreOf(config, database);
    const madeKeys = await createFirstKey(store);
    const keys = await openKeys(store);
    const madeClient = await addClient(database, {
      id: FIRST_CLIENT,
      scopes: [...CLIENT_SCOPES],
      organizations: ['*'],
      personas: ['*'],
    });
    if (!madeClient && (await findClient(database, FIRST_CLIENT)) === undefined) {
      throw new Failure(
        EXIT.refused,
        'revoked',
        `The client ${FIRST_CLIENT} was revoked, and does not come back; all else is there.`,
        'Register another with `earshot client add`. `earshot ask`, `compile` and `explain` work as this one alone.',
      );
    }
    const shown = madeClient || madeKeys || options.newToken;
    const result = {
      dataFolder: { path: config.dataDir, created: madeFolder !== undefined },
      keys: { place: store.place, created: madeKeys },
      database: { place: config.databaseUrl === undefined ? 'embedded' : 'server' } as const,
      client: { id: FIRST_CLIENT, created: madeClient },
      ...(shown && (await signedToken(keys, config, FIRST_CLIENT, days))),
    };
    terminal.answer(result);
    tell(terminal, result, await openToOthers(config.dataDir));
  });
}

async function openToOthers(folder: string): Promise<boolean> {
  return ((await stat(folder)).mode & 0o077) !== 0;
}

interface InitResult {
  readonly dataFolder: { readonly path: string; readonly created: boolean };
  readonly keys: { readonly place: string; readonly created: boolean };
  readonly database: { readonly place: 'server' | 'embedded' };
  readonly client: { readonly id: string; readonly created: boolean };
  readonly token?: string;
  readonly tokenExpiresAt?: string;
}

function tell(terminal: Terminal, result: InitResult, isOpen: boolean): void {
  const { bold, dim, yellow } = terminal.colors;
  const state = (created: boolean) => dim(created ? 'made' : 'was there');
  const place = result.database.place === 'embedded' ? 'embedded PostgreSQL' : 'DATABASE_URL';
  terminal.say(`data folder  ${result.dataFolder.path}  ${state(result.dataFolder.created)}`);
  if (isOpen) {
    terminal.say(yellow(`             others may enter it: chmod 700 ${result.dataFolder.path}`));
  }
  terminal.say(`keys         ${state(result.keys.created)}`);
  terminal.say(`database     ${place}  ${dim('ready')}`);
  terminal.say(`client       ${result.client.id}  ${state(result.client.created)}`);
  terminal.say();
  if (result.token === undefined) {
    terminal.say('Its token was shown when it was made; `earshot init --new-token` signs another.');
  } else {
    terminal.say(
      `The token of ${result.client.id}, valid until ${result.tokenExpiresAt ?? ''} and not shown again:`,
    );
    terminal.say();
    terminal.say(bold(result.token));
  }
  terminal.say();
  terminal.say('Next:');
  terminal.say('  earshot import slack PATH --organization NAME');
  terminal.say('  earshot serve');
  terminal.say('  earshot doctor');
}
