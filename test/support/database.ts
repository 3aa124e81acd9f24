import { randomBytes } from 'node:crypto';
import { inject } from 'vitest';
import { openDatabase } from '../../sql/database.ts';

/** A database of a test's own, on the server of the test run. */
export interface TestDatabase {
  readonly name: string;
  readonly superuserUrl: string;
  readonly adminUrl: string;
  readonly gatewayUrl: string;
  /** Removes it, cutting off whoever is connected. */
  readonly drop: () => Promise<void>;
}

/** Makes a migrated database, or an empty one, that the administrator owns and the gateway may connect to. */
export async function createTestDatabase({ empty = false } = {}): Promise<TestDatabase> {
  const server = inject('testServer');
  const name = `${server.template}_${randomBytes(6).toString('hex')}`;
  const template = empty ? `template0 encoding UTF8 locale 'C'` : server.template;

  await asSuperuser([
    `create database ${name} owner earshot_admin template ${template}`,
    `revoke connect, temporary on database ${name} from public`,
    `grant connect on database ${name} to earshot_gateway`,
  ]);
  return {
    name,
    superuserUrl: toDatabase(server.superuserUrl, name),
    adminUrl: toDatabase(server.adminUrl, name),
    gatewayUrl: toDatabase(server.gatewayUrl, name),
    drop: () => asSuperuser([`drop database if exists ${name} with (force)`]),
  };
}

/** The same server and login, another database. */
export function toDatabase(url: string, name: string): string {
  return url.replace(/^(\w+:\/\/[^/?#]*)(\/[^?#]*)?/, `$1/${name}`);
}

async function asSuperuser(statements: readonly string[]): Promise<void> {
  const { sql, close } = openDatabase(inject('testServer').superuserUrl, { max: 1 });
  try {
    for (const statement of statements) await sql.unsafe(statement);
  } finally {
    await close();
  }
}
