import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type postgres from 'postgres';
import { parseDatabaseUrl } from './database-url.ts';
import { MigrationError } from './migration-error.ts';

/** What the gateway may do. */
const RUNTIME = 'earshot_runtime';
/** Owns the functions that read content on the gateway's behalf. */
const SCOPED = 'earshot_scoped';

/**
 * Makes the two roles that no one logs in as, and lets the migrating login give functions to `earshot_scoped`.
 * Roles belong to the whole server, so migrations of other databases may be doing the same.
 */
export async function prepareRoles(session: postgres.Sql): Promise<void> {
  await outrunningOthers(async () => {
    for (const role of [RUNTIME, SCOPED]) {
      const found = await findRole(session, role);
      if (found === undefined) {
        await session.unsafe(
          `create role ${role} nologin nosuperuser nobypassrls nocreatedb nocreaterole noinherit`,
        );
      } else if (found.login || found.powerful) {
        throw new MigrationError(
          'roles',
          `The role ${role} must not log in, be a superuser or bypass row security.`,
        );
      }
    }
    const [{ granted } = { granted: false }] = await session<{ granted: boolean }[]>`
      select pg_has_role(${SCOPED}, 'usage') as granted`;
    if (!granted)
      await session.unsafe(
        `grant ${SCOPED} to current_user ${await grantOptions(session, 'inherit true, set true')}`,
      );
  });
}

/**
 * Gives the privileges of `earshot_runtime` to the login named in a URL, making the login with the URL's
 * password if it is not there. A login that could get round row security is refused.
 */
export async function admitGateway(session: postgres.Sql, gatewayUrl: string): Promise<void> {
  const { user, password } = parseDatabaseUrl(gatewayUrl);
  await outrunningOthers(async () => {
    if ((await findRole(session, user)) === undefined) await createLogin(session, user, password);
  });
  await checkGateway(session, user);

  const login = await quoted(session, user);
  const [has] = await session<{ runtime: boolean; connect: boolean; database: string }[]>`
    select pg_has_role(${user}, ${RUNTIME}, 'usage') as runtime,
      has_database_privilege(${user}, current_database(), 'connect') as connect,
      quote_ident(current_database()) as database`;
  await outrunningOthers(async () => {
    if (!has?.runtime)
      await session.unsafe(
        `grant ${RUNTIME} to ${login} ${await grantOptions(session, 'inherit true, set false')}`,
      );
    if (!has?.connect)
      await session.unsafe(`grant connect on database ${has?.database} to ${login}`);
  });
}

async function checkGateway(session: postgres.Sql, user: string): Promise<void> {
  const found = await findRole(session, user);
  const [{ owner } = { owner: true }] = await session<{ owner: boolean }[]>`
    select pg_has_role(${user}, ${SCOPED}, 'member') or pg_has_role(${user}, current_user, 'member') as owner`;
  if (found?.powerful || owner) {
    throw new MigrationError(
      'roles',
      `The gateway's login ${user} must not be a superuser, bypass row security, or belong to the role that migrates or to ${SCOPED}.`,
    );
  }
}

async function findRole(session: postgres.Sql, name: string) {
  const [role] = await session<{ login: boolean; powerful: boolean }[]>`
    select rolcanlogin as login, rolsuper or rolbypassrls as powerful from pg_roles where rolname = ${name}`;
  return role;
}

async function createLogin(session: postgres.Sql, name: string, password: string): Promise<void> {
  const secret = password === '' ? '' : `password '${scramVerifier(password)}'`;
  await session.unsafe(`create role ${await quoted(session, name)} login inherit ${secret}`);
}

async function quoted(session: postgres.Sql, name: string): Promise<string> {
  const [row] = await session<{ name: string }[]>`select quote_ident(${name}) as name`;
  return row?.name ?? '';
}

/** Since 16 a membership says itself what it allows; before, the member's own INHERIT does. */
async function grantOptions(session: postgres.Sql, options: string): Promise<string> {
  const [row] = await session<{ stated: boolean }[]>`
    select current_setting('server_version_num')::int >= 160000 as stated`;
  return row?.stated ? `with ${options}` : '';
}

/** Catalog rows of roles have no lock to wait for: whoever loses a race sees one of these, and looks again. */
async function outrunningOthers(work: () => Promise<void>): Promise<void> {
  const lost = new Set(['23505', '42710', 'XX000']);
  for (let attempt = 1; ; attempt++) {
    try {
      await work();
      return;
    } catch (error) {
      if (attempt === 10 || !lost.has((error as { code?: string }).code ?? '')) throw error;
      await delay(Math.random() * 20);
    }
  }
}

/** What the server stores of a password (RFC 5803), so that the password itself is in no statement and no log. */
function scramVerifier(password: string): string {
  const iterations = 4096;
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password.normalize('NFKC'), salt, iterations, 32, 'sha256');
  const keyed = (label: string) => createHmac('sha256', salted).update(label).digest();
  const stored = createHash('sha256').update(keyed('Client Key')).digest('base64');
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${stored}:${keyed('Server Key').toString('base64')}`;
}
