import { decodeJwt } from 'jose';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { digestOf } from '../../gateway/tokens/grant-token.ts';
import { openDatabase } from '../../sql/database.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// Attempts by the gateway’s own login, past its routes.

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;
let log: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'a question');
  turn = await start();
  log = logOf(gateway, turn);
});

const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
const place = async (of: TestLog, reader: string) =>
  of.through((await of.open({ name: `of ${reader}`, reader })).handle);

test('an audience in any place where none may stand is read closed', async () => {
  const misplaced = [
    { type: 'tool_call', id: 'c', name: 'n', arguments: 'CANARY', audience: ['ben'] },
    { type: 'image', mediaType: 'image/png', data: 'CANARY', audience: 'ana' },
    { type: 'text', text: 'CANARY', audience: null },
    { type: 'text', text: 'CANARY', audience: {} },
    { type: 'text', text: 'CANARY', audience: { ana: 1, ben: 1 } },
    { type: 'text', text: 'CANARY', audience: ['ana', 'ben', null] },
    { type: 'text', text: 'CANARY', audience: [['ana', 'ben']] },
    { type: 'tool_result', call: 'c', content: [{ text: 'CANARY', audience: ['ana', 'ben'] }] },
    { type: 'tool_result', call: 'c', content: { deep: [[{ audience: [], text: 'CANARY' }]] } },
  ];
  for (const [n, block] of misplaced.entries())
    expect(await appendDirectly([entry(block), entry(text('plain'), block)], `k${n}`)).toBeNull();
  const later = log.by(await start());
  for (const at of [log, await place(later, 'ana'), await log.fork('side')]) {
    const shown = [ok(await at.compile()), ok(await at.entries()), ok(await at.search('canary'))];
    expect(JSON.stringify(shown)).not.toContain('CANARY');
    expect(ok(await at.describe()).blocks).toBe(misplaced.length.toString());
  }
});

test('a door that is given nothing where something belongs tells nothing', async () => {
  await log.append(entry(text('CANARY'), text('CANARY of ana', 'ana')));
  const db = openDatabase(gateway.target.gatewayUrl, { max: 1 });
  const digest = Buffer.from(digestOf(decodeJwt(turn.grant.token).jti ?? ''));
  const hash = Buffer.from(turn.grant.audienceHash, 'hex');
  const given = [
    [null, log.session, hash, 'compile', 1],
    [digest, null, hash, 'compile', 1],
    [digest, log.session, null, 'compile', 1],
    [digest, log.session, Buffer.alloc(0), 'compile', 1],
    [digest, log.session, Buffer.alloc(32), 'compile', 1],
    [digest, log.session, hash, null, 1],
    [digest, log.session, hash, 'everything', 0],
    [digest, log.session, hash, 'compile', null],
    [digest, log.session, hash, 'compile', '9223372036854775807'],
    [Buffer.alloc(32), log.session, hash, 'compile', 1],
  ] as const;
  for (const [by, session, audience, what, mark] of given) {
    const [row] = await db.sql`
      select code, result from earshot.read_log(${by}, ${session}, ${audience}, null, ${what}, null, ${mark})`;
    expect(row?.code).toBeTypeOf('string');
    expect(row?.result).toBeNull();
  }
  // Unannounced: it gives what was announced before, which is nothing.
  for (const mark of [0, -1]) {
    const [row] = await db.sql`
      select result from earshot.read_log(${digest}, ${log.session}, ${hash}, null, 'compile', null, ${mark})`;
    expect(JSON.stringify(row?.result)).not.toContain('CANARY');
  }
  await db.close();
});

test.each([
  ...['agents', 'namespaces', 'log_heads', 'log_entries', 'log_sources', 'log_appends'],
  'log_pins',
])('the table %s is neither read nor written', async (table) => {
  const db = openDatabase(gateway.target.gatewayUrl, { max: 1 });
  for (const statement of [
    `select count(*) from earshot.${table}`,
    `delete from earshot.${table}`,
    `update earshot.${table} set org_id = org_id`,
    `insert into earshot.${table} default values`,
    `copy earshot.${table} to stdout`,
  ])
    await expect(db.sql.unsafe(statement)).rejects.toMatchObject({ code: '42501' });
  await db.close();
});

/** Appends by the door, past what the routes look at. */
async function appendDirectly(entries: readonly object[], key: string): Promise<unknown> {
  const db = openDatabase(gateway.target.gatewayUrl, { max: 1 });
  const digest = Buffer.from(digestOf(decodeJwt(turn.grant.token).jti ?? ''));
  const [row] = await db.sql`
    select code from earshot.append_log(${digest}, ${log.session}, decode(${turn.grant.audienceHash}, 'hex'), ${key},
      ${digest}, ${JSON.stringify(entries)}::text::jsonb, null)`;
  await db.close();
  return row?.code;
}
