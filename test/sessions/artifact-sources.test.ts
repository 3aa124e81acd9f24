import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { artifactHouse, TEXT, type ArtifactHouse, type Saved } from '../http/artifact-house.ts';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text, type TestLog } from '../support/log.ts';
import type { TestTurn } from '../support/organization.ts';

// What stands in a log may come from an artifact, as from a message.

let gateway: TestGateway;
let house: ArtifactHouse;
let saved: Saved;
/** A turn in a thread whose people read all that the artifact was made from, and one in a room where one does not. */
let allowed: TestTurn;
let denied: TestTurn;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());
beforeEach(async () => {
  house = await artifactHouse(gateway);
  saved = await house.saveNotes();
  [allowed, denied] = [await house.start('second'), await house.start('room')];
});

const source = () => ({ artifact: saved.id });
const told = () => [{ artifact: saved.id, revision: '1' }];

async function ledger(turn: TestTurn): Promise<string[]> {
  const rows = await gateway.owner<{ row: string }[]>`
    select coalesce('artifact ' || a.id, c.external_id || ' ' || l.from_seq) as row
    from earshot.ledger_entries l
    join earshot.conversations c on c.org_id = l.org_id and c.id = l.conversation_id
    left join earshot.artifacts a on a.org_id = l.org_id and a.conversation_id = l.conversation_id and a.seq = l.from_seq
    where l.session_id = ${turn.grant.sessionId}`;
  return rows.map(({ row }) => row).sort();
}

/** The ways in which something comes into a log with a source. */
const WAYS: readonly [string, (log: TestLog) => Promise<Answer>][] = [
  ['an entry', (log) => log.tryAppend([{ ...entry(text('it sang')), sources: [source()] }])],
  [
    'a block of an entry',
    (log) => log.tryAppend([{ ...entry(text('it sang')), sources: [{ ...source(), block: 0 }] }]),
  ],
  [
    'an entry that is edited',
    async (log) => {
      const [id = ''] = await log.append(entry(text('before')));
      const edit = { blocks: [text('it sang')], sources: [source()] };
      return log.call('PATCH', `/entries/${id}`, { revision: '1', edit });
    },
  ],
  [
    'an entry for an agent by name',
    (log) =>
      log.call(
        'POST',
        '/entries?agent=resident',
        { entries: [{ ...entry(text('it sang')), sources: [source()] }] },
        randomUUID(),
      ),
  ],
  [
    'an injection that is stored',
    (log) => log.inject({ source: 'host', parts: [{ text: 'it sang', sources: [source()] }] }),
  ],
  [
    'an injection that is placed',
    (log) =>
      log.compile({
        injections: [
          {
            ...{ source: 'host', placement: 'each_compile' },
            parts: [{ text: 'it sang', sources: [source()] }],
          },
        ],
      }),
  ],
  [
    'a summary',
    async (log) => {
      const [id = ''] = await log.append(entry(text(`it sang ${'on and on '.repeat(50)}`)));
      const { state } = ok(await log.summaryInput(id, id));
      const words = { text: 'a song', sources: [source()] };
      return log.trySummarize({ from: id, to: id, state, ...words });
    },
  ],
];

describe.each(WAYS)('an artifact as the source of %s', (_way, write) => {
  test('is one where all who read there read all that it was made from, and binds the session', async () => {
    ok(await write(logOf(gateway, allowed)));
    ok(await logOf(gateway, allowed).compile());
    expect(await ledger(allowed)).toEqual([`artifact ${saved.id}`, 'second 1'].sort());
    const delivery = ok(await allowed.propose('It sang.', { destination: 'room' }));
    expect(delivery).toMatchObject({ status: 'held', code: 'source_revoked' });
    expect(ok(await allowed.propose('It sang.')).status).toBe('cleared');
  });

  test('is none where one of them does not, nor is one that is deleted or nowhere', async () => {
    const refused = await write(logOf(gateway, denied));
    expect([refused.status, refused.code]).toEqual([404, 'not_found']);
    expect(await ledger(denied)).toEqual(['room 1']);
    ok(await house.remove(saved.id));
    expect((await write(logOf(gateway, allowed))).code).toBe('not_found');
    saved = { ...saved, id: randomUUID() };
    expect((await write(logOf(gateway, allowed))).code).toBe('not_found');
    expect(await ledger(allowed)).toEqual(['second 1']);
  });

  test('ends the session when one of its own sources goes', async () => {
    ok(await write(logOf(gateway, allowed)));
    ok(await logOf(gateway, allowed).compile());
    await house.acme.remove('conversations/notes/members/ben');
    expect((await logOf(gateway, allowed).compile()).code).toBe('source_revoked');
  });
});

describe('where something came from', () => {
  test('is told with the artifact and its revision, beside messages', async () => {
    const log = logOf(gateway, allowed);
    const [id = ''] = await log.append({
      ...entry(text('it sang'), text('twice')),
      sources: [source(), { conversation: 'board', seq: '1', block: 1 }],
    });
    const both = [{ conversation: 'board', id: 'b1', seq: '1', revision: '1' }, ...told()];
    expect(ok(await log.entries()).entries[0]?.sources).toEqual(both);
    expect(ok(await log.search('sang')).entries[0]?.sources).toEqual(both);
    expect(ok(await log.compile()).provenance[0]?.sources).toEqual(both);
    ok(await log.pin(id));
    expect(ok(await log.pins()).entries[0]?.sources).toEqual(both);
  });

  test('is told of a summary of it', async () => {
    const log = logOf(gateway, allowed);
    const [id = ''] = await log.append({
      ...entry(text(`it sang ${'on and on '.repeat(50)}`)),
      sources: [source()],
    });
    expect(ok(await log.summaryInput(id, id)).entries[0]?.sources).toEqual(told());
    await log.summarize({ from: id, to: id }, 'a song');
    expect(ok(await log.summaries()).summaries[0]?.sources).toEqual(told());
    const [first] = ok(await log.compile()).provenance;
    expect([first?.kind, first?.sources]).toEqual(['summary', told()]);
  });

  test('is not told of a block that a view hides', async () => {
    const log = logOf(gateway, allowed);
    await log.append({
      ...entry(text('of ana', 'ana'), text('of both')),
      sources: [{ ...source(), block: 0 }],
    });
    const ana = log.through((await log.open({ name: 'ana', reader: 'ana' })).handle);
    expect(ok(await log.entries()).entries[0]).not.toHaveProperty('sources');
    expect(ok(await ana.entries()).entries[0]?.sources).toEqual(told());
  });

  test('is a message or an artifact, and neither both nor twice the same', async () => {
    const log = logOf(gateway, allowed);
    for (const sources of [
      [{ ...source(), conversation: 'notes', seq: '1' }],
      [{ ...source(), seq: '1' }],
      [{ artifact: 'x' }],
      [{ conversation: 'thread', seq: '-1' }],
      [source(), source()],
      [{ ...source(), block: 1 }],
      [{ ...source(), revision: '1' }],
    ]) {
      const refused = await log.tryAppend([{ ...entry(text('it sang')), sources }]);
      expect([sources, refused.code]).toEqual([sources, 'invalid_input']);
    }
  });

  test('may be an answer, whose own sources stand elsewhere', async () => {
    ok(await allowed.tool('read', { conversation: 'notes' }));
    const answer = ok(await allowed.propose('The canary sang.'));
    ok(await house.acme.release(answer));
    ok(await house.acme.acknowledge(answer, 'delivered', 'a1'));
    await house.write('second', 'a1', 'The canary sang.', { author: { persona: 'assistant' } });
    const turn = await house.start('thread', { threadKey: 'another' });
    const log = logOf(gateway, turn);
    const sources = [{ conversation: 'second', seq: '2' }];
    expect((await log.tryAppend([{ ...entry(text('it sang')), sources }])).status).toBe(200);
    await house.acme.remove('conversations/notes/members/ben');
    const after = logOf(gateway, await house.start('thread', { threadKey: 'after' }));
    expect((await after.tryAppend([{ ...entry(text('it sang')), sources }])).code).toBe(
      'not_found',
    );
  });
});

describe('an artifact that is retrieved', () => {
  const retrieve = (turn: TestTurn, calls: readonly object[]) =>
    gateway.send(
      'POST',
      `/v1/retrieve?session=${turn.grant.sessionId}&audience=${turn.grant.audienceHash}`,
      { token: turn.grant.token, json: { calls, store: true } },
    ) as Promise<Answer<{ outcome?: string; results: { items: object[]; code?: string }[] }>>;
  const search = { tool: 'search', arguments: { query: 'told' } };
  const read = () => ({ tool: 'read', arguments: { artifact: saved.id } });

  test('is stored once with its envelope, as what it is', async () => {
    const packet = ok(await retrieve(allowed, [search, read()]));
    expect(packet.outcome).toBe('stored');
    expect(packet.results.map(({ items }) => items.length)).toEqual([1, 1]);
    const { messages, provenance } = ok(await logOf(gateway, allowed).compile());
    expect(provenance[0]).toMatchObject({ kind: 'injection', sources: told() });
    expect(provenance[0]?.envelopes).toMatchObject([{ origin: 'memory', sensitivity: 'members' }]);
    const [row] = await gateway.owner<{ at: string }[]>`
      select earshot.rfc3339(created_at) as at from earshot.artifacts where id = ${saved.id}`;
    expect(messages[0]?.content).toEqual([
      { type: 'text', text: `[memory ${saved.id}, assistant, ${row?.at ?? ''}]\n${TEXT}` },
    ]);
    expect(ok(await retrieve(allowed, [search])).outcome).toBe('unchanged');
  });

  test('is not there for an audience that lacks a source, in any call', async () => {
    const packet = ok(await retrieve(denied, [search, read()]));
    expect(packet).not.toHaveProperty('outcome');
    expect(packet.results).toMatchObject([
      { items: [], complete: true },
      { items: [], code: 'not_found' },
    ]);
    expect(await ledger(denied)).toEqual(['room 1']);
  });

  test('holds the session to it', async () => {
    ok(await retrieve(allowed, [search]));
    ok(await house.remove(saved.id));
    expect((await logOf(gateway, allowed).compile()).code).toBe('source_revoked');
  });
});
