import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Hono } from 'hono';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  addClient,
  revokeClient,
  type Client,
  type ClientScope,
  type IssuerSubject,
} from '../../sql/clients.ts';
import { provePerson } from '../../gateway/callers.ts';
import { signCaller } from '../../gateway/tokens/caller-token.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { bytesOf, explainingOf, type Explaining } from './explaining.ts';
import { openIssuerHouse, type HouseKey, type IssuerHouse } from './issuer-house.ts';

/** An issuer whose keys nobody serves. */
const GONE = 'https://gone.example';
const AUDIENCE = 'https://earshot.example';

let gateway: TestGateway;
let folder: string;
let machines: IssuerHouse;
let people: IssuerHouse;
let machine: HouseKey;
let person: HouseKey;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'earshot-callers-'));
  machines = await openIssuerHouse('https://machines.example', AUDIENCE);
  people = await openIssuerHouse('https://people.example', AUDIENCE);
  machine = await machines.addKey('key', 'EdDSA');
  person = await people.addKey('key', 'ES256');
  const config = join(folder, 'earshot.yaml');
  const common = { audience: AUDIENCE, algorithms: ['EdDSA', 'ES256'] };
  const issuers = [
    { ...common, issuer: machines.name, url: `${machines.origin}/keys` },
    { ...common, issuer: GONE, url: 'http://127.0.0.1:1/keys' },
    {
      ...common,
      issuer: people.name,
      url: `${people.origin}/keys`,
      people: { organizations: ['acme', 'other'], claim: 'employee' },
    },
  ];
  await writeFile(config, JSON.stringify({ issuers }));
  gateway = await openTestGateway({ CONFIG: config });
});
afterAll(async () => {
  await gateway.close();
  await Promise.all([machines.stop(), people.stop()]);
  await rm(folder, { recursive: true });
});

const register = (id: string, more: Partial<Client> = {}, of?: IssuerSubject) =>
  addClient(
    { sql: gateway.owner },
    { id, scopes: ['operator', 'ingest'], organizations: ['*'], personas: ['*'], ...more },
    of,
  );

/** Puts an organization, which takes the scope `operator` or `ingest`. */
const call = async (token: string, organization = 'acme') => {
  const path = `/v1/organizations/${organization}`;
  const { status, code } = await gateway.send('PUT', path, { token, json: {} });
  return code ?? status;
};

test('a token of the local issuer may leave scopes of its client out, and adds none', async () => {
  const { keys, config } = gateway.gateway;
  await register('both');
  await register('less', { scopes: ['bridge'] });
  const asked = async (id: string, scopes?: readonly ClientScope[]) =>
    call(await signCaller(keys, config.issuer, id, 60, scopes));
  expect(await asked('both')).toBe(200);
  expect(await asked('both', ['operator'])).toBe(200);
  expect(await asked('both', ['bridge'])).toBe('not_permitted');
  expect(await asked('both', [])).toBe('not_permitted');
  expect(await asked('less', ['operator', 'ingest'])).toBe('not_permitted');
});

describe('a client of a configured issuer', () => {
  let subject: string;
  let count = 0;
  beforeEach(async () => {
    subject = `robot-${count++}`;
    await register(`client of ${subject}`, {}, { issuer: machines.name, subject });
  });

  test('is who is registered with the issuer and the subject of its token', async () => {
    expect(await call(await machine.sign({ sub: subject }))).toBe(200);
    expect(await call(await machine.sign({ sub: 'nobody' }))).toBe('malformed_token');
    // The id that it has here is no subject there.
    expect(await call(await machine.sign({ sub: `client of ${subject}` }))).toBe('malformed_token');
  });

  test('is not who has this name at another issuer, at the local one, or here', async () => {
    expect(await call(await person.sign({ sub: subject }))).toBe('malformed_token');
    const { keys, config } = gateway.gateway;

    for (const name of [subject, `client of ${subject}`]) {
      expect(await call(await signCaller(keys, config.issuer, name, 60))).toBe('malformed_token');
    }
    await gateway.addCaller({ id: subject, scopes: ['operator'] });
    expect(await call(await person.sign({ sub: subject }))).toBe('malformed_token');
  });

  test('is not proven by the key of another issuer, whatever the token says of itself', async () => {
    const forged = await person.sign({ sub: subject, iss: machines.name });
    expect(await call(forged)).toBe('malformed_token');
    const local = await machine.sign({ sub: 'operator', iss: 'earshot', aud: 'earshot/callers' });
    expect(await call(local)).toBe('malformed_token');
    const typed = { typ: 'earshot-caller+jwt' };
    expect(await call(await machine.sign({ sub: 'operator', iss: 'earshot' }, typed))).toBe(
      'malformed_token',
    );
    for (const iss of ['https://unknown.example', '', undefined, ['earshot'], '__proto__']) {
      expect(await call(await machine.sign({ sub: subject, iss }))).toBe('malformed_token');
    }
  });

  test('has the scopes of its registration, less those that its token leaves out', async () => {
    const scoped = (scope: unknown) => machine.sign({ sub: subject, scope });
    for (const scope of [undefined, 'operator', 'openid operator', 'bridge operator deliver']) {
      expect({ scope, code: await call(await scoped(scope)) }).toEqual({ scope, code: 200 });
    }
    for (const scope of ['', 'bridge', 'ingest', 'openid profile', 'OPERATOR', 'operators']) {
      expect({ scope, code: await call(await scoped(scope)) }).toEqual({
        scope,
        code: 'not_permitted',
      });
    }
    for (const scope of [['operator'], 7, null, { operator: true }]) {
      expect({ scope, code: await call(await scoped(scope)) }).toEqual({
        scope,
        code: 'malformed_token',
      });
    }
  });

  test('gets no scope and no organization from its token', async () => {
    const of = { issuer: machines.name, subject: `${subject} of less` };
    await register(`less ${subject}`, { scopes: ['bridge'], organizations: ['acme'] }, of);
    const token = await machine.sign({
      ...{ sub: of.subject, scope: 'operator ingest bridge' },
      ...{ organizations: ['*'], personas: ['*'], org: 'acme', scopes: ['operator'] },
    });
    expect(await call(token)).toBe('not_permitted');
  });

  test('serves the organizations of its registration', async () => {
    const of = { issuer: machines.name, subject: `${subject} of acme` };
    await register(`acme ${subject}`, { organizations: ['acme'] }, of);
    const token = await machine.sign({ sub: of.subject });
    expect(await call(token)).toBe(200);
    expect(await call(token, 'other')).toBe('not_permitted');
  });

  test('is refused from the request after it was revoked, and may be registered anew under another id', async () => {
    const token = await machine.sign({ sub: subject });
    expect(await call(token)).toBe(200);
    await revokeClient({ sql: gateway.owner }, `client of ${subject}`);
    expect(await call(token)).toBe('malformed_token');
    const of = { issuer: machines.name, subject };
    expect(await register(`client of ${subject}`, {}, of)).toBe(false);
    expect(await register(`again ${subject}`, {}, of)).toBe(true);
    expect(await register(`twice ${subject}`, {}, of)).toBe(false);
    expect(await call(token)).toBe(200);
  });

  test('is unavailable, and never let in, while the keys of its issuer cannot be had', async () => {
    await register(`gone ${subject}`, {}, { issuer: GONE, subject });
    expect(await call(await machine.sign({ sub: subject, iss: GONE }))).toBe('unavailable');
  });

  test('is no agent: its token is no grant', async () => {
    const token = await machine.sign({ sub: subject }, { typ: 'earshot-grant+jwt' });
    const answer = await gateway.send('POST', '/v1/tools/search', { token, json: { query: 'x' } });
    expect(answer.code).toBe('malformed_token');
  });
});

test('the login of the gateway registers nobody, revokes nobody and gives nobody more', async () => {
  const { database } = gateway.gateway;
  for (const statement of [
    `insert into earshot.clients (id, scopes, organizations, personas) values ('x', '{operator}', '{*}', '{*}')`,
    `update earshot.clients set scopes = '{operator}'`,
    `update earshot.clients set revoked_at = null`,
    `delete from earshot.clients`,
  ]) {
    await expect(database.sql.unsafe(statement)).rejects.toThrow(/permission denied/);
  }
});

describe('a person', () => {
  let world: Explaining;
  const token = (employee: unknown, more: object = {}) =>
    person.sign({ sub: 'f81d4fae', employee, ...more });
  const own = { viewer: undefined, requester: undefined };

  beforeAll(async () => {
    world = await explainingOf(gateway);
    const { name } = world.acme;
    const settings = gateway.gateway.issuers.get(people.name)?.people;
    // The world has a name of its own, which the configuration could not know.
    settings?.organizations.push(name);
    await world.acme.conversation('of-ana', ['ana']);
    await world.acme.conversation('of-ben', ['ben']);
  });

  test('is told what an operator would be told for that person, byte for byte', async () => {
    const { told } = world;
    const asked = await told('of-ana', own, await token('ana'));
    expect(asked).toEqual(await told('of-ana', { viewer: 'ana', requester: undefined }));
    expect(asked).toEqual(await told('of-ana', { viewer: 'ana' }, await token('ana')));
    expect(JSON.stringify(asked)).not.toContain('ben');
  });

  test('is told nothing of what others read, of their turns, or as another', async () => {
    const { ask } = world;
    const anas = await token('ana');
    const absent = bytesOf(await ask('never-was', own, anas));
    expect(absent).toContain('not_found');
    expect(bytesOf(await ask('of-ben', own, anas))).toBe(absent);
    expect(bytesOf(await ask('of-ana', { requester: 'ben' }, anas))).toBe(absent);
    expect(bytesOf(await ask('of-ana', own, await token('nobody-here')))).toBe(absent);
    expect((await ask('of-ana', { ...own, viewer: 'ben' }, anas)).code).toBe('not_permitted');
  });

  test('is of the organizations that the issuer proves, and of no other', async () => {
    const foreign = await gateway.organization();
    const answer = await world.ask(
      'of-ana',
      { ...own, organization: foreign.name },
      await token('ana'),
    );
    expect(answer.code).toBe('not_permitted');
  });

  test('is named by the claim of the configuration, which has to be an id', async () => {
    for (const employee of [undefined, '', 7, null, ['ana'], 'a\u0007', 'x'.repeat(129)]) {
      const { code } = await world.ask('of-ana', own, await token(employee));
      expect({ employee, code }).toEqual({ employee, code: 'malformed_token' });
    }
    const bySubject = await person.sign({ sub: 'ana' });
    expect((await world.ask('of-ana', own, bySubject)).code).toBe('malformed_token');
  });

  test('is proven by no issuer that proves nobody, and not by a local token', async () => {
    const claims = { sub: 'ana', employee: 'ana' };
    expect((await world.ask('of-ana', own, await machine.sign(claims))).code).toBe(
      'malformed_token',
    );
    const forged = await machine.sign({ ...claims, iss: people.name });
    expect((await world.ask('of-ana', own, forged)).code).toBe('malformed_token');
  });

  test('is no client: nothing but what is for persons is answered', async () => {
    expect(await call(await token('ana'))).toBe('malformed_token');
    const turn = await gateway.send('POST', '/v1/turns', {
      token: await token('ana'),
      key: 'k',
      json: {
        ...{ organization: world.acme.name, persona: 'assistant', destination: 'thread' },
        ...{ requester: 'ana', trigger: { kind: 'schedule' } },
      },
    });
    expect(turn.code).toBe('malformed_token');
  });

  test('is proven to a route by the token alone, for an organization that the route names', async () => {
    const app = new Hono().get('/:organization', async (context) => {
      const { organization } = context.req.param();
      return context.json(await provePerson(context, gateway.gateway, organization));
    });
    const proven = async (organization: string, bearer: string) => {
      const headers = { authorization: `Bearer ${bearer}` };
      return (await app.request(`/${organization}`, { headers })).json();
    };
    const anas = await token('ana');
    expect(await proven('acme', anas)).toEqual({ ok: true, person: 'ana', organization: 'acme' });
    expect(await proven('third', anas)).toMatchObject({ ok: false, code: 'not_permitted' });
    for (const bearer of [gateway.tokens.operator, await machine.sign({ sub: 'ana' }), 'x', '']) {
      expect(await proven('acme', bearer)).toMatchObject({ ok: false, code: 'malformed_token' });
    }
  });

  test('who is registered as a client is that client, and no person any more', async () => {
    const subject = 'f81d4fb0';
    const scopes: ClientScope[] = ['bridge'];
    await register('a bridge of people', { scopes }, { issuer: people.name, subject });
    const registered = await token('ana', { sub: subject });
    expect((await world.ask('of-ana', own, registered)).code).toBe('not_permitted');
  });

  test('an operator has to say for whom', async () => {
    expect((await world.ask('of-ana', own)).code).toBe('invalid_input');
    expect(ok(await world.ask('of-ana'))).toBeDefined();
  });
});
