import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfig } from '../../gateway/config.ts';
import { openInstance, type Instance } from '../../gateway/instance.ts';
import { createKeys } from '../../gateway/keys.ts';
import { signCaller } from '../../gateway/tokens/caller-token.ts';
import { addClient, CLIENT_SCOPES, type Client } from '../../sql/clients.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { testOrganization, type TestOrganization } from './organization.ts';

/** A gateway over a database of its own, with its callers, for one test file. */
export interface TestGateway {
  readonly app: Instance['app'];
  readonly gateway: Instance['gateway'];
  readonly target: TestDatabase;
  /** A superuser of the database: sees every row of every organization. */
  readonly owner: Database['sql'];
  /** Tokens of callers that may act for every organization and persona, one for each scope. */
  readonly tokens: Readonly<Record<Client['scopes'][number], string>>;
  /** Registers one more caller and signs its token. */
  addCaller(
    client: Pick<Client, 'id' | 'scopes'> & Partial<Client>,
    lifetimeSeconds?: number,
  ): Promise<string>;
  /** Sends a request as it is and reads the answer. */
  readonly send: (method: string, path: string, options?: SendOptions) => Promise<Answer>;
  /** Typed steps inside one organization, which is made. */
  organization(name?: string): Promise<TestOrganization>;
  close(): Promise<void>;
}

export interface SendOptions {
  readonly token?: string | undefined;
  readonly key?: string;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is, as JSON unless the headers say otherwise. */
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface Answer<Body = unknown> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
  /** The code of the problem, if the answer is one. */
  readonly code: string | undefined;
}

/**
 * Opens a gateway on a database of its own. `settings` are environment variables without their
 * `EARSHOT_`. The limit on requests per second is out of the way unless it is set.
 */
export async function openTestGateway(
  settings: Readonly<Record<string, string>> = {},
): Promise<TestGateway> {
  const target = await createTestDatabase();
  const dataDir = await mkdtemp(join(tmpdir(), 'earshot-keys-'));
  await createKeys(dataDir);
  const given = Object.entries({ REQUESTS_PER_SECOND: '1000000', ...settings });
  const instance = await openInstance(
    readConfig({
      DATABASE_URL: target.gatewayUrl,
      EARSHOT_DATA_DIR: dataDir,
      ...Object.fromEntries(given.map(([name, value]) => [`EARSHOT_${name}`, value])),
    }),
  );
  const superuser = openDatabase(target.superuserUrl, { max: 3 });
  const opened = await gatewayOf(instance, superuser.sql);
  return {
    ...opened,
    target,
    async close() {
      await instance.close();
      await superuser.close();
      await target.drop();
      await rm(dataDir, { recursive: true });
    },
  };
}

/** What a test does with an instance, whoever opened it. */
export async function gatewayOf(
  instance: Instance,
  owner: Database['sql'],
): Promise<Omit<TestGateway, 'target'>> {
  const { app, gateway } = instance;
  const { keys, config } = gateway;

  async function addCaller(
    client: Pick<Client, 'id' | 'scopes'> & Partial<Client>,
    lifetimeSeconds = 3600,
  ): Promise<string> {
    await addClient({ sql: owner }, { organizations: ['*'], personas: ['*'], ...client });
    return signCaller(keys, config.issuer, client.id, lifetimeSeconds);
  }

  async function send(method: string, path: string, options: SendOptions = {}): Promise<Answer> {
    const { token, key, json, headers, signal } = options;
    const body = json === undefined ? options.body : JSON.stringify(json);
    return read(
      await app.request(path, {
        method,
        headers: {
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...(key !== undefined && { 'idempotency-key': key }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body }),
        ...(signal !== undefined && { signal }),
      }),
    );
  }

  const signed = CLIENT_SCOPES.map(
    async (scope) => [scope, await addCaller({ id: scope, scopes: [scope] })] as const,
  );
  const tokens = Object.fromEntries(await Promise.all(signed)) as TestGateway['tokens'];
  const opened = { app, gateway, owner, tokens, addCaller, send };
  return {
    ...opened,
    organization: (name = `org-${randomUUID()}`) => testOrganization(opened, name),
    close: () => instance.close(),
  };
}

/** Reads an answer whole. */
export async function read(response: Response): Promise<Answer> {
  const text = await response.text();
  const type = response.headers.get('content-type') ?? '';
  const body: unknown = type.includes('json') ? JSON.parse(text) : text;
  const code = type.startsWith('application/problem+json')
    ? (body as { code: string }).code
    : undefined;
  return { status: response.status, headers: response.headers, body, code };
}

/** The body of an answer that has to be a success. */
export function ok<Body>({ status, body }: Answer<Body>): Body {
  if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`);
  return body;
}
