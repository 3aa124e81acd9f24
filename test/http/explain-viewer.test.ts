import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { bytesOf, type Explanation, explainingOf, type Explaining } from './explaining.ts';

let gateway: TestGateway;
let acme: Explaining['acme'];
let write: Explaining['write'];
let start: Explaining['start'];
let ask: Explaining['ask'];
let told: Explaining['told'];

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());
beforeEach(async () => {
  ({ acme, write, start, ask, told } = await explainingOf(gateway));
});

describe('to whoever may not know, a source that is there is one that is not', () => {
  test('to a caller without the scope, of another organization, or without a token', async () => {
    await acme.conversation('shared', ['ana', 'ben']);
    const other = await gateway.organization();
    const foreign = await gateway.addCaller({
      id: `operator of ${other.name}`,
      scopes: ['operator'],
      organizations: [other.name],
    });
    for (const [token, code] of [
      [gateway.tokens.bridge, 'not_permitted'],
      [gateway.tokens.deliver, 'not_permitted'],
      [gateway.tokens.ingest, 'not_permitted'],
      [foreign, 'not_permitted'],
      [(await start()).grant.token, 'malformed_token'],
      ['', 'malformed_token'],
    ] as const) {
      const [there, absent] = await Promise.all([
        ask('shared', {}, token),
        ask('never-was', {}, token),
      ]);
      expect(there.code).toBe(code);
      expect(bytesOf(there)).toBe(bytesOf(absent));
    }
    // The same operator, of the organization that it is registered for, finds nothing of this one there.
    const [abroad, nowhere] = await Promise.all(
      ['shared', 'never-was'].map((source) => ask(source, { organization: other.name }, foreign)),
    );
    expect(abroad?.code).toBe('not_found');
    expect(abroad && bytesOf(abroad)).toBe(nowhere && bytesOf(nowhere));
  });

  test('an operator is told the same of an organization, an end and a message that are not there', async () => {
    const answers = await Promise.all([
      ask('thread', { organization: 'no-such-organization' }),
      ask('thread', { destination: 'never-was' }),
      ask('never-was'),
      ask('thread', { seq: '2' }),
    ]);
    expect(answers[0].code).toBe('not_found');
    expect(new Set(answers.map(bytesOf))).toHaveLength(1);
  });

  test('a person is told, without the names of others, of a source that the person reads', async () => {
    await acme.conversation('of-ana', ['ana']);
    await acme.put('conversations/thread/members/cleo', { history: 'all' });
    const seen = await told('of-ana', { viewer: 'ana', requester: undefined });
    expect(seen).toMatchObject({
      verdict: 'out',
      reasons: [{ kind: 'not_read', readers: [1, 2] }],
      changes: [{ kind: 'floor', readers: [1, 2] }],
      grid: {
        readers: [
          { reader: 'user:ana', kind: 'user', viewer: true, destinationFloor: '1', floor: '1' },
          { kind: 'user', destinationFloor: '1', floor: null },
          { kind: 'user', destinationFloor: '1', floor: null },
        ],
      },
    });
    expect(JSON.stringify(seen)).not.toMatch(/ben|cleo/);
  });

  test('a person who reads one end, or not the message, or asks about another’s turn, is told nothing', async () => {
    await acme.conversation('of-ana', ['ana']);
    await acme.conversation('of-ben', ['ben']);
    await acme.conversation('late', [{ user: 'ana', history: { fromSeq: '2' } }, 'ben']);
    for (const id of ['1', '2', '3']) await write('late', id, 'canary');
    await acme.remove('conversations/late/messages/3');
    expect((await told('of-ana', { viewer: 'ana' })).verdict).toBe('out');
    expect((await told('late', { viewer: 'ana', seq: '2' })).verdict).toBe('in');

    const absent = await ask('never-was', { viewer: 'ana' });
    expect(absent.code).toBe('not_found');
    for (const [source, more] of [
      ['of-ben', { viewer: 'ana' }],
      ['of-ana', { viewer: 'ana', destination: 'of-ben' }],
      ['of-ana', { viewer: 'ben', requester: 'ben' }],
      ['of-ana', { viewer: 'ana', requester: 'ben' }],
      ['of-ana', { viewer: 'nobody', requester: 'nobody' }],
      ['late', { viewer: 'ana', seq: '1' }],
      ['late', { viewer: 'ana', seq: '3' }],
      ['late', { viewer: 'ana', seq: '4' }],
    ] as const) {
      expect({ source, more, bytes: bytesOf(await ask(source, more)) }).toEqual({
        ...{ source, more },
        bytes: bytesOf(absent),
      });
    }
    // A person of a suspended organization reads nothing in it; its operator is still told why.
    await acme.put('', { status: 'suspended' });
    expect(bytesOf(await ask('of-ana', { viewer: 'ana' }))).toBe(bytesOf(absent));
    expect((await told('of-ana')).reasons).toEqual([
      { kind: 'turn_refused', code: 'organization_paused' },
    ]);
  });
});

test('each explanation leaves a record without a name, and changes nothing else', async () => {
  await acme.conversation('shared', ['ana', 'ben']);
  const { decision } = ok(await ask('shared', { viewer: 'ana' })) as Explanation;
  await ask('never-was');
  const rows = await gateway.owner<
    { id: string; verdict: string; code: string; detail: unknown }[]
  >`
    select id, verdict, code, detail from earshot.decisions
    where kind = 'explain' and org_id = (select id from earshot.organizations where external_id = ${acme.name})
    order by decided_at`;
  expect([...rows]).toEqual([
    { id: decision, verdict: 'allowed', code: null, detail: { viewer: true, inScope: true } },
    { id: rows[1]?.id, verdict: 'refused', code: 'not_found', detail: { viewer: false } },
  ]);
  const others = await gateway.owner`
    select from earshot.ledger_entries l join earshot.organizations o on o.id = l.org_id
    where o.external_id = ${acme.name}`;
  expect(others).toHaveLength(0);
});
