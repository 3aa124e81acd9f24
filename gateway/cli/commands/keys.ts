import { Command } from 'commander';
import { KEY_REFRESH_SECONDS, JWKS_MAX_AGE_SECONDS } from '../../keys.ts';
import { keyFile } from '../../keys/key-file.ts';
import {
  createFirstKey,
  NO_KEYS,
  retireKey,
  rotateKeys,
  type KeyStore,
} from '../../keys/key-store.ts';
import { keyTable } from '../../keys/key-table.ts';
import { KeyError, signingKeyAt, type StoredKey } from '../../keys/signing-key.ts';
import { asAdministrator } from '../administrator.ts';
import { EXIT, Failure } from '../failure.ts';
import { readSettings, typedNumber } from '../settings.ts';
import { openTerminal, type Terminal } from '../terminal.ts';

/** A new key signs after two times as long as anybody may not know it yet. */
const SIGNS_AFTER_SECONDS = 2 * JWKS_MAX_AGE_SECONDS;

interface JsonOption {
  readonly json: boolean;
}

/** Adds `earshot keys`: what signs, where it is kept, and how it is replaced. */
export function addKeys(program: Command): void {
  const keys = new Command('keys').description('the keys that sign, and their rotation');
  keys
    .command('create')
    .description('make the first key')
    .option('--json', 'answer with JSON', false)
    .action(({ json }: JsonOption) => create(openTerminal(json)));
  keys
    .command('list')
    .description('what signs, what is published for later, and what only verifies')
    .option('--json', 'answer with JSON', false)
    .action(({ json }: JsonOption) => list(openTerminal(json)));
  keys
    .command('rotate')
    .description('publish a new key, which signs after a while; those before it go on verifying')
    .option('--after <seconds>', 'when it signs; 0 is at once', SIGNS_AFTER_SECONDS.toString())
    .option('--json', 'answer with JSON', false)
    .action(({ after, json }: JsonOption & { after: string }) =>
      rotate(typedNumber('--after', after, 0, 604_800), openTerminal(json)),
    );
  keys
    .command('retire')
    .description('take a key away, and with it every token that it signed')
    .argument('<kid>')
    .option('--json', 'answer with JSON', false)
    .action((kid: string, { json }: JsonOption) => retire(kid, openTerminal(json)));
  program.addCommand(keys);
}

async function create(terminal: Terminal): Promise<void> {
  const made = await inStore(async (store) => {
    const isNew = await createFirstKey(store);
    return isNew ? described(store, await store.read()) : undefined;
  });
  if (made === undefined) {
    throw new Failure(
      EXIT.refused,
      'exists',
      'There are keys already.',
      'Run `earshot keys rotate`.',
    );
  }
  terminal.answer(made);
  tell(terminal, made);
}

async function list(terminal: Terminal): Promise<void> {
  const found = await inStore(async (store) => described(store, await store.read()));
  if (found.keys.length === 0) throw new KeyError(NO_KEYS);
  terminal.answer(found);
  tell(terminal, found);
}

async function rotate(afterSeconds: number, terminal: Terminal): Promise<void> {
  const { key, ...found } = await inStore(async (store) => {
    const key = await rotateKeys(store, afterSeconds);
    return { key: key.kid, ...described(store, await store.read()) };
  });
  terminal.answer({ key, ...found });
  tell(terminal, found);
  terminal.say();
  terminal.say('Retire an older key once nothing is in use that it signed:');
  terminal.say('  earshot keys retire KID');
}

async function retire(kid: string, terminal: Terminal): Promise<void> {
  const outcome = await inStore((store) => retireKey(store, kid));
  switch (outcome) {
    case 'retired':
      terminal.answer({ retired: kid });
      terminal.say(
        `Retired. What it signed is void within ${KEY_REFRESH_SECONDS.toString()} seconds.`,
      );
      return;
    case 'unknown':
      throw new Failure(
        EXIT.refused,
        'not_found',
        'There is no such key.',
        '`earshot keys list` shows those that there are.',
      );
    case 'signs':
      throw new Failure(
        EXIT.refused,
        'signs',
        'This key signs now.',
        'Run `earshot keys rotate`, and retire it when the new one signs.',
      );
  }
}

/** Works where the keys are: in the file without a database, in the database as its administrator. */
async function inStore<Result>(work: (store: KeyStore) => Promise<Result>): Promise<Result> {
  const config = readSettings();
  const { keySecret } = config;
  return keySecret === undefined
    ? work(keyFile(config.dataDir))
    : asAdministrator(config, (database) => work(keyTable(database, keySecret)));
}

interface Described {
  readonly place: string;
  readonly keys: readonly {
    readonly kid: string;
    readonly state: 'signs' | 'published' | 'verifies';
    readonly createdAt: string;
    readonly signsFrom: string;
  }[];
}

function described({ place }: KeyStore, keys: readonly StoredKey[]): Described {
  const now = Date.now();
  const signing = signingKeyAt(keys, now)?.kid;
  const stateOf = ({ kid, signsFrom }: StoredKey) => {
    if (kid === signing) return 'signs';
    return Date.parse(signsFrom) > now ? 'published' : 'verifies';
  };
  const shown = keys.map((key) => ({
    kid: key.kid,
    state: stateOf(key),
    createdAt: key.createdAt,
    signsFrom: key.signsFrom,
  })) satisfies Described['keys'];
  return { place, keys: shown };
}

function tell(terminal: Terminal, { place, keys }: Described): void {
  const { bold, dim } = terminal.colors;
  terminal.say(dim(`in ${place}`));
  for (const { kid, state, createdAt, signsFrom } of keys) {
    const what = state === 'signs' ? bold(state.padEnd(9)) : state.padEnd(9);
    const when = state === 'published' ? `signs from ${signsFrom}` : `made ${createdAt}`;
    terminal.say(`${kid}  ${what}  ${dim(when)}`);
  }
}
