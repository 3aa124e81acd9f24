import { randomUUID } from 'node:crypto';
import { decodeJwt } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { digestOf } from '../../gateway/tokens/grant-token.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

// Attempts by the gateway’s own login on what stores, sends and addresses, past its routes.

let gateway: TestGateway;
let acme: TestOrganization;
let turn: TestTurn;
let log: TestLog;

beforeAll(async () => {
  gateway = await openTestGateway({ MAX_BODY_BYTES: '20000000' });
});
afterAll(() => gateway.close());

beforeEach(async () => {
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.conversation('private', ['ana']);
  await acme.say('thread', 'ana', 'a question');
  await acme.put('conversations/notes/messages/m1', message('the canary sang'));
  await acme.say('private', 'ana', 'a secret');
  turn = await start();
  log = logOf(gateway, turn);
});

const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
const message = (body: string, more: object = {}) => ({
  ...{ author: { user: 'ben' }, body, sentAt: '2026-01-01T00:00:00Z' },
  ...more,
});
const place = async (of: TestLog, reader: string, name = `of ${reader}`) =>
  of.through((await of.open({ name, reader })).handle);
const unit = (source: string, ...texts: string[]) => ({
  source,
  parts: texts.map((text) => ({ text })),
});

describe('past the routes, by the gateway’s own login', () => {
  let db: Database;
  beforeEach(() => {
    db = openDatabase(gateway.target.gatewayUrl, { max: 1 });
  });
  afterEach(() => db.close());

  const proof = () => ({
    digest: Buffer.from(digestOf(decodeJwt(turn.grant.token).jti ?? '')),
    hash: Buffer.from(turn.grant.audienceHash, 'hex'),
  });
  /** What a door answers as JSON, or nothing where it fails. */
  async function door(call: string, args: readonly unknown[]): Promise<Record<string, unknown>> {
    const rows = await db.sql
      .unsafe<{ row: Record<string, unknown> }[]>(
        `select to_jsonb(r) as row from earshot.${call} r`,
        args as never[],
      )
      .catch(() => []);
    return rows[0]?.row ?? {};
  }
  const DOORS: [call: string, rest: unknown[]][] = [
    ['find_agent($1, $2, $3, $4)', ['helper']],
    [
      'append_log($1, $2, $3, $4, $1, $5::text::jsonb, $6)',
      ['key', JSON.stringify([entry(text('x'))]), 'helper'],
    ],
    ['store_injections($1, $2, $3, null, $4::text::jsonb, $5)', ['[]', 1000]],
    ['send_log($1, $2, $3, null, $4, $5::uuid[], $1, 1, null)', [1, '{}']],
    ['write_summary($1, $2, $3, null, $4, $1, $5::text::jsonb)', ['key', '{"text":"x"}']],
    ['read_log($1, $2, $3, null, $4, $5::text::jsonb, 0)', ['summaries', '{}']],
  ];

  test.each(DOORS)(
    'who proves nothing, or holds nothing, is told nothing by %s',
    async (call, rest) => {
      await log.append(entry(text('CANARY'), text('CANARY of ana', 'ana')));
      await log.open({ name: 'desk', agent: 'helper' });
      const { digest, hash } = proof();
      const other = randomUUID();
      for (const [by, session, audience] of [
        [null, log.session, hash],
        [Buffer.alloc(32), log.session, hash],
        [digest, null, hash],
        [digest, other, hash],
        [digest, log.session, null],
        [digest, log.session, Buffer.alloc(0)],
        [digest, log.session, Buffer.alloc(32)],
      ]) {
        const { code, changes, decision_id, ...told } = await door(call, [
          by,
          session,
          audience,
          ...rest,
        ]);
        expect(code).toMatch(/^(unknown_grant|session_not_yours)$/);
        expect([changes, ...Object.values(told)].filter((one) => one !== null)).toEqual([]);
        expect(decision_id === null).toBe(code === 'unknown_grant');
      }
    },
  );

  test('marks that stand in what is written are not taken for those of the gateway', async () => {
    const { digest, hash } = proof();
    const marks = {
      ...{
        passes: true,
        addressee: 'helper',
        injection: 'recall',
        owner: 'default',
        agent: 'helper',
      },
      ...{ id: randomUUID(), position: 9, content_hash: 'x', envelopes: [{}] },
    };
    const forged = JSON.stringify([{ ...entry(text('plain')), ...marks }]);
    const append = 'append_log($1, $2, $3, $4, $1, $5::text::jsonb, null)';
    const { code } = await door(append, [digest, log.session, hash, 'key', forged]);
    expect(code).toBeNull();
    const [row] = await gateway.owner`
      select passes, addressee, injection, owner, content_hash, envelopes, position::text, id = ${marks.id} as named
      from earshot.log_entries where session_id = ${log.session}`;
    expect(row).toEqual({
      ...{ passes: false, addressee: null, injection: null, owner: null, content_hash: null },
      ...{ envelopes: null, position: '1', named: false },
    });
    for (const agent of ['ghost', ''])
      expect(
        (
          await door('append_log($1, $2, $3, $4, $1, $5::text::jsonb, $6)', [
            ...[digest, log.session, hash, agent === '' ? 'k1' : 'k2', forged, agent],
          ])
        ).code,
      ).toBe('not_found');
  });

  test('an audience in what is injected hides it, and a source that is not readable lets nothing be placed', async () => {
    const { digest, hash } = proof();
    const blocks = [{ type: 'text', text: 'CANARY', audience: ['ana'] }];
    const units = JSON.stringify([{ source: 's', hash: '00'.repeat(16), blocks, sources: [] }]);
    const stored = await door('store_injections($1, $2, $3, null, $4::text::jsonb, 1000)', [
      ...[digest, log.session, hash, units],
    ]);
    expect(stored.verdicts).toEqual(['store']);
    for (const at of [log, await place(log, 'ana')])
      expect(JSON.stringify(ok(await at.compile()))).not.toContain('CANARY');
    const read = 'read_log($1, $2, $3, null, $4, $5::text::jsonb, 0)';
    for (const what of ['compile', 'preview'])
      for (const conversation of ['private', 'ghost']) {
        const args = JSON.stringify({ sources: [{ conversation, seq: '1' }] });
        const { code, result } = await door(read, [digest, log.session, hash, what, args]);
        expect([code, result]).toEqual(['not_found', null]);
      }
  });

  test('what is put on record as sent holds no injection of another place, and reaches no further than was read', async () => {
    const { digest, hash } = proof();
    const ana = await place(log, 'ana');
    ok(await ana.inject(unit('recall', 'CANARY')));
    const [row] = await gateway.owner<{ id: string }[]>`
      select id from earshot.log_entries where session_id = ${log.session}`;
    const send = 'send_log($1, $2, $3, null, $4, $5::uuid[], $6, 1, null)';
    const sent = (mark: unknown) =>
      door(send, [digest, log.session, hash, mark, `{${row?.id ?? ''}}`, Buffer.alloc(0)]);
    for (const mark of [1, null, '9223372036854775807'])
      expect((await sent(mark)).code).toBe('conflict');
    ok(await log.entries());
    expect((await sent(1)).code).toBeNull();
    const [kept] =
      await gateway.owner`select held from earshot.log_sends where session_id = ${log.session}`;
    expect(kept?.held).toEqual([]);
  });
});
