import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text } from '../support/log.ts';
import { withMutant } from '../worlds/mutant.ts';
import { artifactHouse, type ArtifactHouse } from './artifact-house.ts';

// What holds about artifacts, each with the changes of a function after which it does not: a rule that nothing would miss is none.

let gateway: TestGateway;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

interface Rule {
  readonly rule: string;
  readonly holds: (house: ArtifactHouse) => Promise<void>;
  readonly mutants: readonly (readonly [routine: string, from: string, to: string])[];
}

const at = (conversation: string, seq = '1') => ({ conversation, seq });

/** What an artifact was made from, as `lineage` tells it. */
async function sourcesOf(house: ArtifactHouse, id: string): Promise<string[]> {
  const { sources } = await house.lineage(id);
  return sources.map(
    ({ type, conversation, seq = '', state, inherited }) =>
      `${type} ${conversation} ${seq} ${state}${inherited ? ' inherited' : ''}`,
  );
}

async function artifactsOf({ acme }: ArtifactHouse): Promise<number> {
  const [row] = await gateway.owner<{ n: number }[]>`
    select count(*)::integer as n from earshot.artifacts
    where org_id = (select id from earshot.organizations where external_id = ${acme.name})`;
  return row?.n ?? 0;
}

const RULES: readonly Rule[] = [
  {
    rule: 'the lineage is what the turn was shown',
    async holds(house) {
      const { id } = await house.saveNotes();
      expect(await sourcesOf(house, id)).toEqual([
        'message notes 1 live',
        'message notes 2 live',
        'stretch thread  live',
      ]);
    },
    mutants: [
      [
        'write_artifact',
        'from unnest(p_sources) s',
        'from unnest(p_sources) s where s.to_seq is null',
      ],
      ['save_artifact', 'decision_id, sources, t);', "decision_id, '{}', t);"],
    ],
  },
  {
    rule: 'the grant is live',
    async holds(house) {
      const turn = await house.start();
      await turn.end('complete');
      expect((await house.trySave(turn)).code).toBe('turn_not_running');
      expect(await artifactsOf(house)).toBe(0);
    },
    mutants: [['save_artifact', 'code := live.code;', 'code := null;']],
  },
  {
    rule: 'a repetition is one only after the live check',
    async holds(house) {
      const turn = await house.start();
      ok(await house.trySave(turn, {}, 'k'));
      await house.acme.put('conversations/thread/members/cleo', { history: 'all' });
      expect((await house.trySave(turn, {}, 'k')).code).toBe('audience_changed');
    },
    mutants: [['save_artifact', 'code := live.code;', 'code := null;']],
  },
  {
    rule: 'a key is of one request and of one turn',
    async holds(house) {
      const turn = await house.start();
      const first = ok(await house.trySave(turn, {}, 'k'));
      expect((await house.trySave(turn, { text: 'another' }, 'k')).code).toBe('conflict');
      expect(ok(await house.trySave(await house.start(), {}, 'k')).id).not.toBe(first.id);
    },
    mutants: [
      ['save_artifact', 'known.request_digest <> p_request_digest', 'false'],
      [
        'save_artifact',
        "where a.org_id = org and a.client_id = 'turn:' || turn.id and",
        'where a.org_id = org and',
      ],
    ],
  },
  {
    rule: 'every source is readable where it is saved, and unchanged',
    async holds(house) {
      for (const change of [
        () => house.write('notes', 'n1', 'it did not sing'),
        () => house.acme.remove('conversations/notes/members/ben'),
      ]) {
        const turn = await house.start('thread', { threadKey: randomUUID() });
        ok(await turn.tool('read', { conversation: 'notes' }));
        await change();
        expect((await house.trySave(turn)).code).toMatch(/^source_(changed|revoked)$/);
        expect((await turn.tool('read', { conversation: 'thread' })).code).toBe(
          'session_quarantined',
        );
      }
    },
    mutants: [
      ['save_artifact', 'coalesce(v.code,', 'coalesce(null,'],
      ['save_artifact', "set state = 'quarantined'", "set state = 'open'"],
    ],
  },
  {
    rule: 'what was for some readers only is not saved',
    async holds(house) {
      const log = logOf(gateway, await house.start());
      await log.append({
        ...entry(text('of both', 'ana', 'ben')),
        role: 'user',
        participant: 'ben',
      });
      const turn = await house.start();
      ok(await log.by(turn).compile());
      expect((await house.trySave(turn)).code).toBe('narrowing_refused');
    },
    mutants: [['save_artifact', 'when turn.only_for is not null then', 'when false then']],
  },
  {
    rule: 'what is asserted is made from what is there',
    async holds(house) {
      const { id } = await house.assert([at('notes')]);
      ok(await house.remove(id));
      for (const missing of [
        at('notes', '9'),
        { conversation: 'notes', fromSeq: '9' },
        { artifact: id },
        { artifact: randomUUID() },
      ]) {
        const refused = await house.tryAssert([at('notes'), missing]);
        expect([missing, refused.code]).toEqual([missing, 'not_found']);
      }
      await house.acme.remove('conversations/notes/messages/n1');
      expect((await house.tryAssert([at('notes')])).code).toBe('not_found');
    },
    mutants: [
      ['asserted_sources', 'cardinality(named) < jsonb_array_length(p_sources)', 'false'],
      ['asserted_sources', 'between 1 and c.head', 'is not null'],
      ['asserted_sources', "s.to_seq, s.revision) <> 'live')", 's.to_seq, s.revision) is null)'],
      ['source_state', "when m.state = 'deleted' then 'deleted'", ''],
      [
        'source_state',
        'coalesce((select a.state from artifacts a',
        "coalesce((select 'live' from artifacts a",
      ],
    ],
  },
  {
    rule: 'what is asserted has the lineage of what it was made from',
    async holds(house) {
      const first = await house.assert([at('notes'), { conversation: 'board', fromSeq: '1' }]);
      const { id } = await house.assert([{ artifact: first.id }]);
      expect(await sourcesOf(house, id)).toEqual([
        'stretch board  live',
        'artifact notes  live',
        'message notes 1 live inherited',
      ]);
      expect(await house.lineage(id)).toMatchObject({ artifact: { asserted: true } });
      await house.acme.remove('conversations/notes/members/ben');
      expect((await house.read(await house.start(), id)).code).toBe('not_found');
    },
    mutants: [
      [
        'asserted_sources',
        'from inherited_sources(p_org, named) i)',
        'from inherited_sources(p_org, named) i where false)',
      ],
      [
        'assert_artifact',
        'p_artifact, p_request, true, nobody',
        'p_artifact, p_request, false, nobody',
      ],
    ],
  },
  {
    rule: 'an asserted key is of one caller and of one request',
    async holds(house) {
      const first = ok(await house.tryAssert([at('notes')], {}, { key: 'k' }));
      expect((await house.tryAssert([at('board')], {}, { key: 'k' })).code).toBe('conflict');
      const token = await gateway.addCaller({ id: randomUUID(), scopes: ['ingest'] });
      expect(ok(await house.tryAssert([at('notes')], {}, { key: 'k', token })).id).not.toBe(
        first.id,
      );
    },
    mutants: [
      ['assert_artifact', 'known.request_digest <> p_request_digest', 'false'],
      ['assert_artifact', "'client:' || p_client", "'client:'"],
    ],
  },
  {
    rule: 'a lineage is told of one’s own personas, and of what has the source',
    async holds(house) {
      const { id } = await house.saveNotes();
      const turn = await house.start('second');
      ok(await house.read(turn, id));
      ok(await turn.propose('It sang.'));
      const token = await gateway.addCaller({
        ...{ id: randomUUID(), scopes: ['operator'], personas: ['another'] },
      });
      const path = `/v1/lineage?organization=${house.acme.name}&conversation=notes&seq=1`;
      const told = ok(await gateway.send('GET', path, { token }));
      expect(told).toMatchObject({ derived: [], deliveries: [] });
      const whole = await house.lineageOf('notes', '1');
      expect([whole.derived.length, whole.deliveries.length]).toEqual([1, 1]);
      const other = await house.lineageOf('board', '1');
      expect([other.derived.length, other.deliveries.length]).toEqual([0, 0]);
      const of = `/v1/artifacts/${id}/lineage?organization=${house.acme.name}`;
      expect((await gateway.send('GET', of, { token })).code).toBe('not_found');
    },
    mutants: [
      ['lineage_report', 'where serves_artifact(p_org, a.turn_id, p_personas)', ''],
      ['lineage_report', 'where serves_turn(p_org, d.turn_id, p_personas)', ''],
      ['lineage_of', 'and serves_artifact(org, a.turn_id, p_personas)', ''],
      ['derived_from', 'and l.conversation_id = p_conversation', ''],
    ],
  },
  {
    rule: 'a text is gone with its artifact, and nothing of it is written anew',
    async holds(house) {
      const { id } = await house.saveNotes();
      ok(await house.remove(id));
      const rows = await gateway.owner`select state, body from earshot.artifacts where id = ${id}`;
      expect(rows).toEqual([{ state: 'deleted', body: '' }]);
      const revive = gateway.owner`update earshot.artifacts set state = 'live' where id = ${id}`;
      await expect(revive).rejects.toThrow();
    },
    mutants: [['keep_artifact', "(old.state = 'deleted' and new.state <> 'deleted')", 'false']],
  },
];

describe('of an artifact it holds, and without its line of the function it does not:', () => {
  test.each(RULES)('$rule', { timeout: 60_000 }, async ({ holds, mutants }) => {
    await holds(await artifactHouse(gateway));
    for (const [routine, from, to] of mutants) {
      const title = `${routine}: ${from}`;
      await withMutant(gateway.owner, { title, routine, from, to }, async () => {
        const house = await artifactHouse(gateway);
        await expect(holds(house), `${title} → ${to}`).rejects.toThrow();
      });
    }
  });
});
