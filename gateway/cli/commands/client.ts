import { Command, Option } from 'commander';
import {
  addClient,
  CLIENT_SCOPES,
  findClient,
  listClients,
  revokeClient,
  type Client,
  type ClientScope,
  type IssuerSubject,
} from '../../../sql/clients.ts';
import type { Config } from '../../config.ts';
import { keyStoreOf, openKeys } from '../../keys.ts';
import { asAdministrator } from '../administrator.ts';
import { signedToken, type SignedToken } from '../client-token.ts';
import { EXIT, Failure } from '../failure.ts';
import { readSettings, typedId, typedNumber } from '../settings.ts';
import { openTerminal, type Terminal } from '../terminal.ts';

interface AddOptions {
  readonly scope: readonly ClientScope[];
  readonly organization: readonly string[];
  readonly persona: readonly string[];
  readonly issuer?: string;
  readonly subject?: string;
  readonly tokenDays: string;
  readonly newToken: boolean;
  readonly json: boolean;
}

/** Adds `earshot client`: who may call, and what they may ask. Takes the login that owns the database. */
export function addClientCommand(program: Command): void {
  const client = new Command('client').description('the callers that are registered');
  client
    .command('add')
    .description('register a client, and show its token once')
    .argument('<id>')
    .addOption(
      new Option('--scope <scope>', 'what it may do; may be given again')
        .choices(CLIENT_SCOPES)
        .argParser(oneScopeMore)
        .default([], 'none'),
    )
    .option('--organization <name>', "for which; '*' is every one; may be given again", oneMore, [])
    .option('--persona <id>', "as which; '*' is every one; may be given again", oneMore, [])
    .option('--issuer <name>', 'a configured issuer that signs its tokens, with --subject')
    .option('--subject <sub>', 'how that issuer names it')
    .option('--token-days <days>', 'how long its token lasts', '90')
    .option('--new-token', 'sign another token for a client that is there', false)
    .option('--json', 'answer with JSON', false)
    .action((id: string, options: AddOptions) => add(id, options, openTerminal(options.json)));
  client
    .command('list')
    .description('every client, without a secret')
    .option('--json', 'answer with JSON', false)
    .action(({ json }: { json: boolean }) => list(openTerminal(json)));
  client
    .command('revoke')
    .description('end a client for good, from its next request on')
    .argument('<id>')
    .option('--json', 'answer with JSON', false)
    .action((id: string, { json }: { json: boolean }) => revoke(id, openTerminal(json)));
  program.addCommand(client);
}

function oneMore(text: string, before: readonly string[]): readonly string[] {
  return [...before, text];
}

function oneScopeMore(text: string, before: readonly ClientScope[]): readonly ClientScope[] {
  const scope = CLIENT_SCOPES.find((known) => known === text);
  if (scope !== undefined) return [...before, scope];
  throw usage(`--scope: it has to be one of ${CLIENT_SCOPES.join(', ')}.`);
}

async function add(typed: string, options: AddOptions, terminal: Terminal): Promise<void> {
  const id = typedId('<id>', typed);
  const days = typedNumber('--token-days', options.tokenDays, 1, 3650);
  const config = readSettings();
  if (options.newToken) return anotherToken(id, days, options, config, terminal);
  const client = typedClient(id, options);
  const of = typedSubject(options, config);
  const token = await asAdministrator(config, async (database) => {
    // A token that cannot be signed leaves no client behind.
    const keys = of === undefined ? await openKeys(keyStoreOf(config, database)) : undefined;
    if (!(await addClient(database, client, of))) {
      throw new Failure(
        EXIT.refused,
        'exists',
        'The id is in use or was, or the subject is registered.',
        '`earshot client list` shows it. An id is never used again; --new-token signs for a client that is there.',
      );
    }
    return keys === undefined ? undefined : signedToken(keys, config, id, days);
  });
  terminal.answer({ client, ...of, ...token });
  terminal.say(`${terminal.colors.bold(id)} is registered.`);
  if (token !== undefined) tellToken(terminal, id, token);
  else terminal.say(`It proves itself with a token of ${of?.issuer ?? ''}.`);
}

async function anotherToken(
  id: string,
  days: number,
  { scope, organization, persona, issuer, subject }: AddOptions,
  config: Config,
  terminal: Terminal,
): Promise<void> {
  const given = [...scope, ...organization, ...persona, issuer, subject];
  if (given.some((one) => one !== undefined)) {
    throw usage(
      '--new-token: it changes nothing about the client and goes with --token-days alone.',
    );
  }
  const token = await asAdministrator(config, async (database) => {
    // One of another issuer gets its tokens there, and one that was revoked gets none.
    if ((await findClient(database, id)) === undefined) throw absent();
    return signedToken(await openKeys(keyStoreOf(config, database)), config, id, days);
  });
  terminal.answer({ client: { id }, ...token });
  tellToken(terminal, id, token);
}

async function list(terminal: Terminal): Promise<void> {
  const clients = await asAdministrator(readSettings(), listClients);
  terminal.answer({
    clients: clients.map(({ issuer, subject, revokedAt, ...client }) => ({
      ...client,
      ...(issuer !== null && { issuer, subject }),
      ...(revokedAt !== null && { revokedAt }),
    })),
  });
  const { bold, dim } = terminal.colors;
  for (const { id, scopes, organizations, personas, issuer, subject, revokedAt } of clients) {
    const state = revokedAt === null ? '' : dim(`  revoked ${revokedAt}`);
    terminal.say(`${bold(id)}  ${scopes.join(', ')}${state}`);
    const of = issuer === null ? '' : `, ${subject ?? ''} of ${issuer}`;
    const named = (names: readonly string[]) => (names.length === 0 ? 'none' : names.join(', '));
    terminal.say(dim(`  organizations ${named(organizations)}; personas ${named(personas)}${of}`));
  }
}

async function revoke(typed: string, terminal: Terminal): Promise<void> {
  const id = typedId('<id>', typed);
  const revoked = await asAdministrator(readSettings(), (database) => revokeClient(database, id));
  if (!revoked) throw absent();
  terminal.answer({ revoked: id });
  terminal.say('Revoked: it is refused from its next request on.');
}

/** What was typed about a client. What it may do is said and never guessed. */
function typedClient(id: string, { scope, organization, persona }: AddOptions): Client {
  if (scope.length === 0) throw usage('--scope: it is missing.');
  if (organization.length === 0) throw usage("--organization: it is missing; '*' is every one.");
  if (persona.length === 0 && scope.some((one) => one !== 'ingest')) {
    throw usage("--persona: it is missing; '*' is every one.");
  }
  return {
    id,
    scopes: [...new Set(scope)],
    organizations: organization.map((name) => typedId('--organization', name)),
    personas: persona.map((name) => typedId('--persona', name)),
  };
}

function typedSubject({ issuer, subject }: AddOptions, config: Config): IssuerSubject | undefined {
  if (issuer === undefined && subject === undefined) return undefined;
  if (issuer === undefined || subject === undefined || subject === '') {
    throw usage('--issuer and --subject: they belong together.');
  }
  const isConfigured = config.issuers?.some((one) => one.issuer === issuer) ?? false;
  if (isConfigured) return { issuer, subject };
  throw usage('--issuer: there is none of this name under issuers in the configuration.');
}

function tellToken(terminal: Terminal, id: string, { token, tokenExpiresAt }: SignedToken): void {
  terminal.say(`The token of ${id}, valid until ${tokenExpiresAt} and not shown again:`);
  terminal.say();
  terminal.say(terminal.colors.bold(token));
}

const usage = (message: string) => new Failure(EXIT.usage, 'usage', message);
const absent = () =>
  new Failure(
    EXIT.refused,
    'not_found',
    'There is no such client.',
    '`earshot client list` shows those that there are.',
  );
