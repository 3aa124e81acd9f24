import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sha256Hex } from '../../policy/canonical.ts';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { logOf, text } from '../support/log.ts';
import type { Artifacts, Messages, TestTurn } from '../support/organization.ts';
import { artifactHouse, TEXT, type ArtifactHouse } from './artifact-house.ts';

// Texts that are kept with what they were made from.

let gateway: TestGateway;
let house: ArtifactHouse;

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());
beforeEach(async () => {
  house = await artifactHouse(gateway);
});

const inOrganization = () =>
  gateway.owner`(select id from earshot.organizations where external_id = ${house.acme.name})`;

function stored() {
  return gateway.owner`
    select id, state, title, body, terms::text from earshot.artifacts where org_id = ${inOrganization()}`;
}

/** The lineage of an artifact as it is kept, in short. */
async function kept(id: string): Promise<string[]> {
  const rows = await gateway.owner<{ row: string }[]>`
    select c.external_id || ' ' || case when l.to_seq is null then l.from_seq || ' up'
      when l.from_seq < 0 then 'artifact' else l.from_seq::text end
      || coalesce(' at ' || l.revision, case when l.to_seq is null then '' else ' inherited' end) as row
    from earshot.lineage l join earshot.conversations c on c.org_id = l.org_id and c.id = l.conversation_id
    where l.derived_id = ${id}`;
  return rows.map(({ row }) => row).sort();
}

function decisions(kind = 'artifact') {
  return gateway.owner<
    { verdict: string; code: string | null; subject: string; items: number; turn_id: string }[]
  >`
    select verdict, code, encode(subject_sha256, 'hex') as subject, items, turn_id, detail from earshot.decisions
    where org_id = ${inOrganization()} and kind = ${kind} order by decided_at`;
}

/** Ids of the artifacts that a search finds. */
async function find(turn: TestTurn, query = 'canary', more: object = {}): Promise<string[]> {
  const { items } = ok(
    await turn.tool<Artifacts>('search', { query, kind: 'artifact', limit: 100, ...more }),
  );
  return items.map(({ source }) => source.id);
}

describe('an artifact that is saved', () => {
  test('has all that the turn was shown as its lineage, whatever its text is about', async () => {
    const turn = await house.start();
    ok(await turn.tool('read', { conversation: 'notes', limit: 1 }));
    ok(await turn.tool('read', { conversation: 'board' }));
    const saved = await house.save(turn, { text: 'Nothing of all that.' });

    expect(await kept(saved.id)).toEqual(['board 1 at 1', 'notes 1 at 1', 'thread 1 up']);
    await turn.tool('read', { conversation: 'notes' });
    expect(await kept(saved.id)).toHaveLength(3);
    const later = await house.save(turn);
    expect(await kept(later.id)).toContain('notes 2 at 1');
  });

  test('has what earlier turns of its session and the forks it worked in were shown as well', async () => {
    const first = await house.start();
    ok(await first.tool('read', { conversation: 'board' }));
    const turn = await house.start();
    expect(turn.grant.sessionId).toBe(first.grant.sessionId);
    const fork = await logOf(gateway, turn).fork('aside');
    await fork.append({
      ...{ role: 'agent', participant: 'assistant', blocks: [text('it sang')] },
      sources: [{ conversation: 'notes', seq: '1' }],
    });
    const { id } = await house.save(turn);
    expect(await kept(id)).toEqual(['board 1 at 1', 'notes 1 at 1', 'thread 1 up']);
  });

  test('is answered with its id, kind, digest and decision, which is on record with the digest and without the text', async () => {
    const turn = await house.start();
    const saved = await house.save(turn, { kind: 'draft', text: TEXT });
    expect(saved).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      kind: 'draft',
      textSha256: sha256Hex(TEXT),
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      decision: expect.any(String) as string,
    });
    expect(await decisions()).toEqual([
      {
        ...{ verdict: 'allowed', code: null, subject: sha256Hex(TEXT), items: 1 },
        ...{ turn_id: turn.id, detail: { artifact: saved.id } },
      },
    ]);
    const [row] = await gateway.owner<{ id: string; whole: string }[]>`
      select d.id, d::text as whole from earshot.decisions d where d.org_id = ${inOrganization()} and kind = 'artifact'`;
    expect(row?.id).toBe(saved.decision);
    expect(row?.whole).not.toContain('canary');
  });

  test('is a packet of one item, with its kind, its sources’ sensitivity and its persona', async () => {
    const { id } = await house.saveNotes({ kind: 'summary', title: 'A song' });
    const answer = ok(await house.read(await house.start('second'), id));
    const decision = {
      ...{ id: answer.decision, policyRevision: '1', at: expect.any(String) as string },
    };
    expect(answer).toEqual({
      decision: answer.decision,
      complete: true,
      items: [
        {
          text: TEXT,
          source: { type: 'artifact', id, revision: '1' },
          kind: 'artifact',
          artifact: { kind: 'summary', title: 'A song' },
          envelope: {
            origin: 'memory',
            sensitivity: 'members',
            history: { conversation: 'thread', fromSeq: '1' },
            decision,
          },
          author: { persona: 'assistant' },
          sentAt: expect.any(String) as string,
        },
      ],
    });
  });

  test('takes no sources, no readers and no home from the agent', async () => {
    const turn = await house.start();
    for (const more of [
      { sources: [{ conversation: 'board', seq: '1' }] },
      { sources: [] },
      { audience: ['cleo'] },
      { conversation: 'room' },
      { asserted: true },
    ]) {
      expect((await house.trySave(turn, more)).code).toBe('invalid_input');
    }
    for (const body of [{ text: '' }, { kind: 'secret' }, { title: '' }, { contentType: 'x' }]) {
      expect((await house.trySave(turn, body)).code).toBe('invalid_input');
    }
    expect(await stored()).toHaveLength(0);
  });
});

describe('an idempotency key', () => {
  test('gives the same answer for the same request, and is a conflict for another', async () => {
    const turn = await house.start();
    const first = ok(await house.trySave(turn, {}, 'k'));
    ok(await turn.tool('read', { conversation: 'notes' }));
    expect(ok(await house.trySave(turn, {}, 'k'))).toEqual(first);
    expect(await kept(first.id)).toEqual(['thread 1 up']);
    for (const other of [
      { text: 'another' },
      { kind: 'note' },
      { title: 'A title' },
      { contentType: 'text/html' },
    ]) {
      expect((await house.trySave(turn, other, 'k')).code).toBe('conflict');
    }
    expect(await stored()).toHaveLength(1);
  });

  test('of another turn is another artifact', async () => {
    const one = ok(await house.trySave(await house.start(), {}, 'k'));
    const two = ok(await house.trySave(await house.start(), {}, 'k'));
    expect(two.id).not.toBe(one.id);
  });

  test('sent many times at once is one artifact', async () => {
    const turn = await house.start();
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => house.trySave(turn, {}, 'k')),
    );
    expect(new Set(answers.map((answer) => ok(answer).id)).size).toBe(1);
    expect(await stored()).toHaveLength(1);
  });

  test('gives nothing back once the grant is no more', async () => {
    const turn = await house.start();
    ok(await house.trySave(turn, {}, 'k'));
    await house.acme.put('conversations/thread/members/cleo', { history: 'all' });
    const again = await house.trySave(turn, {}, 'k');
    expect(again.code).toBe('audience_changed');
    expect(again.body).toMatchObject({ changes: { added: 1 } });
    expect(JSON.stringify(again.body)).not.toContain(sha256Hex(TEXT));
  });
});

describe('what is refused', () => {
  /** Something that has happened by the time the turn saves, and the code that it answers. */
  const REFUSALS: readonly [string, (turn: TestTurn) => Promise<unknown>][] = [
    [
      'audience_changed',
      () => house.acme.put('conversations/thread/members/cleo', { history: 'all' }),
    ],
    ['turn_not_running', (turn) => turn.end('complete')],
    ['stopped', () => house.acme.put('stops/persona/assistant', {})],
    ['organization_paused', () => house.acme.put('guard', { guard: 'paused' })],
    ['policy_changed', () => house.acme.put('', { policyRevision: '2' })],
    ['requester_left', () => house.acme.remove('conversations/thread/members/ana')],
    ['source_revoked', () => house.acme.remove('conversations/notes/members/ben')],
    ['source_revoked', () => house.acme.remove('conversations/notes/messages/n1')],
    ['source_revoked', () => house.acme.remove('conversations/notes')],
    ['source_changed', () => house.write('notes', 'n1', 'it did not sing')],
    [
      'grant_expired',
      () =>
        gateway.owner`update earshot.grants set expires_at = now() where org_id = ${inOrganization()}`,
    ],
    [
      'unknown_grant',
      () =>
        gateway.owner`update earshot.grants set digest = sha256(digest) where org_id = ${inOrganization()}`,
    ],
  ];

  test.each(REFUSALS)('is %s, and nothing is stored', async (code, happens) => {
    const turn = await house.start();
    ok(await turn.tool('read', { conversation: 'notes' }));
    const control = await house.trySave(turn, { text: 'before' });
    expect(control.status).toBe(200);
    await happens(turn);

    const refused = await house.trySave(turn);
    expect(refused.code).toBe(code);
    expect((await stored()).filter(({ body }) => body === TEXT)).toEqual([]);
    const recorded = (await decisions()).filter(({ verdict }) => verdict === 'refused');
    expect(recorded.map((one) => [one.code, one.subject])).toEqual(
      code === 'unknown_grant' ? [] : [[code, sha256Hex(TEXT)]],
    );
  });

  test('for a source that is gone or changed takes the session with it', async () => {
    const turn = await house.start();
    ok(await turn.tool('read', { conversation: 'notes' }));
    await house.acme.remove('conversations/notes/members/ben');
    expect((await house.trySave(turn)).code).toBe('source_revoked');
    expect((await turn.tool('read', { conversation: 'thread' })).code).toBe('session_quarantined');
  });

  test('is what a turn makes that was shown what is for some readers only, also where they alone read', async () => {
    const turn = await house.start();
    const log = logOf(gateway, turn);
    await log.append({
      ...{ role: 'user', participant: 'ben', blocks: [text('of both', 'ana', 'ben')] },
    });
    const reader = await house.start();
    expect((await house.trySave(reader, { text: 'before' })).status).toBe(200);
    ok(await log.by(reader).compile());
    expect((await house.trySave(reader)).code).toBe('narrowing_refused');
    expect((await stored()).map(({ body }) => body as string)).toEqual(['before']);
    expect((await house.trySave(await house.start())).status).toBe(200);
  });

  test('is a token that is no grant’s', async () => {
    for (const token of [undefined, 'x', gateway.tokens.ingest, gateway.tokens.operator]) {
      const refused = await gateway.send('POST', '/v1/artifacts', {
        ...{ token, key: 'k', json: { kind: 'memory', text: TEXT } },
      });
      expect(refused.code).toBe('malformed_token');
    }
  });
});

describe('an artifact is read', () => {
  test('by an audience that reads every source of it, and by no other', async () => {
    const { id } = await house.saveNotes();
    const [allowed, denied] = [await house.start('second'), await house.start('room')];

    expect(ok(await house.read(allowed, id)).items).toHaveLength(1);
    expect(ok(await allowed.tool('read', { artifact: id })).items).toHaveLength(1);
    expect(await find(allowed)).toEqual([id]);
    for (const answer of [
      await house.read(denied, id),
      await denied.tool('read', { artifact: id }),
    ]) {
      expect([answer.status, answer.code]).toEqual([404, 'not_found']);
    }
    expect(await find(denied)).toEqual([]);
  });

  test('as long as each of its sources is readable, and again once it is', async () => {
    const { id } = await house.saveNotes();
    const read = async () => (await house.read(await house.start('second'), id)).status;
    expect(await read()).toBe(200);
    await house.acme.remove('conversations/notes/members/ben');
    expect(await read()).toBe(404);
    await house.acme.put('conversations/notes/members/ben', { history: { fromSeq: '2' } });
    expect(await read()).toBe(404);
    await house.acme.put('conversations/notes/members/ben', { history: { fromSeq: '1' } });
    expect(await read()).toBe(200);
    await house.acme.remove('conversations/thread/members/ben');
    expect(await read()).toBe(404);
    await house.acme.put('conversations/thread/members/ben', { history: { fromSeq: '1' } });
    expect(await read()).toBe(200);
    await house.acme.remove('conversations/notes/messages/n2');
    expect(await read()).toBe(404);
  });

  test('not by one more reader who lacks a source', async () => {
    const { id } = await house.saveNotes();
    const turn = await house.start('second');
    expect(await find(turn, 'canary', { recipient: 'ben' })).toEqual([id]);
    expect(await find(turn, 'canary', { recipient: 'cleo' })).toEqual([]);
    const read = (recipient: string) => turn.tool('read', { artifact: id, recipient });
    expect((await read('ben')).status).toBe(200);
    expect((await read('cleo')).code).toBe('not_found');
  });

  test('not where the tool is not allowed', async () => {
    const { id } = await house.saveNotes();
    const turn = await house.start('second', { tools: ['search'] });
    expect(await find(turn)).toEqual([id]);
    expect((await house.read(turn, id)).code).toBe('tool_not_allowed');
  });

  test('without a trace of those that are hidden, deleted, of another organization or nowhere', async () => {
    const hidden = await house.saveNotes();
    const deleted = await house.save(await house.start('room'));
    ok(await house.remove(deleted.id));
    const elsewhere = await artifactHouse(gateway);
    const foreign = await elsewhere.save(await elsewhere.start());
    const turn = await house.start('room');
    const nothing = await house.read(turn, randomUUID());
    const said = ({ body }: Answer) => ({ ...(body as object), decision: undefined });
    for (const { id } of [hidden, deleted, foreign]) {
      const answer = await house.read(turn, id);
      expect(answer.status).toBe(404);
      expect(said(answer)).toEqual(said(nothing));
    }
  });

  test('whole: with a conversation, a sequence or a cursor beside its id it is not', async () => {
    const { id } = await house.saveNotes();
    const turn = await house.start('second');
    for (const more of [
      { conversation: 'thread' },
      { fromSeq: '1' },
      { cursor: 'a.b.c' },
      { artifact: 'x' },
      { artifact: undefined },
    ]) {
      const { code } = await turn.tool('read', { artifact: id, ...more });
      expect(code).toBe('invalid_input');
    }
  });

  test('in pages with messages, each once, by cursors that tell of nothing but what was shown', async () => {
    const saved = [await house.saveNotes(), await house.saveNotes(), await house.saveNotes()];
    const turn = await house.start('second');
    const args = { query: 'canary', total: true };
    const whole = ok(await turn.tool('search', { ...args, limit: 100 }));
    expect(whole.total).toEqual({ messages: '5', complete: true });
    const paged: string[] = [];
    let cursor: string | undefined;
    do {
      const page: Messages = ok(
        await turn.tool('search', { ...args, limit: 1, ...(cursor && { cursor }) }),
      );
      paged.push(...page.items.map(({ source }) => source.id));
      cursor = page.cursor;
    } while (cursor !== undefined);
    expect(paged).toEqual(whole.items.map(({ source }) => source.id));
    expect(paged).toEqual(expect.arrayContaining(saved.map(({ id }) => id)));
    // An artifact's number says nothing of how many others there are.
    const numbers = await gateway.owner<{ seq: string; id: string }[]>`
      select seq, id from earshot.artifacts where org_id = ${inOrganization()}`;
    for (const { seq, id } of numbers) {
      const bits = id.replaceAll('-', '');
      expect(BigInt(seq)).toBe(-1n - BigInt(`0x${bits.slice(0, 12)}${bits.slice(13, 16)}`));
    }
  });

  test('by the filter of its kind alone, or beside messages without one', async () => {
    const { id } = await house.saveNotes({ text: 'The canary sang twice.' });
    const turn = await house.start('second');
    const of = async (more: object) => {
      const { items } = ok(await turn.tool('search', { query: 'sang', ...more }));
      return items.map(({ source }) => source.id).sort();
    };
    expect(await of({})).toEqual([id, 'n1'].sort());
    expect(await of({ kind: 'artifact' })).toEqual([id]);
    expect(await of({ kind: 'message' })).toEqual(['n1']);
    expect(await of({ conversation: 'thread' })).toEqual([id]);
    expect(await of({ author: 'ben' })).toEqual(['n1']);
    const { items } = ok(
      await turn.tool<Artifacts>('search', { query: 'twice', kind: 'artifact' }),
    );
    expect(items[0]).toMatchObject({
      score: expect.any(Number) as number,
      highlights: [{ start: 16, end: 21 }],
    });
  });

  test('where it is open to the organization, from its index, at any size of the scope', async () => {
    await house.acme.conversation('forum', [], {
      ...{ kind: 'channel', visibility: 'organization', aiThread: true },
    });
    await house.acme.say('forum', 'cleo', 'what sings');
    const turn = await house.acme.turn({ destination: 'forum', requester: 'cleo', trigger: '1' });
    ok(await turn.tool('read', { conversation: 'board' }));
    const { id } = await house.save(turn);
    expect(await find(await house.start('room'))).toEqual([id]);
    await house.acme.remove('conversations/board/messages/b1');
    expect(await find(await house.start('room'))).toEqual([]);
  });
});

describe('an artifact is as sensitive as the most sensitive of its sources', () => {
  async function sensitivity(id: string): Promise<string | undefined> {
    const turn = await house.acme.turn({
      ...{ destination: 'forum', requester: 'ana', trigger: '1' },
    });
    const answer = await house.read(turn, id);
    return answer.status === 200 ? answer.body.items[0]?.envelope.sensitivity : answer.code;
  }

  test('as those are now', async () => {
    const forum = { kind: 'channel', aiThread: true };
    await house.acme.put('projects/p', { members: ['ana', 'ben'] });
    await house.acme.conversation('forum', ['ana', 'ben'], forum);
    await house.acme.conversation('plans', ['ana', 'ben'], { visibility: 'project', project: 'p' });
    await house.acme.say('forum', 'ana', 'a question');
    await house.acme.say('plans', 'ana', 'a plan');
    const at = (conversation: string) => ({ conversation, seq: '1' });
    const open = await house.assert([at('board')]);
    const project = await house.assert([at('board'), at('plans')]);
    const members = await house.assert([at('board'), at('plans'), at('notes')]);
    const derived = await house.assert([{ artifact: members.id }]);

    expect(await sensitivity(open.id)).toBe('organization');
    expect(await sensitivity(project.id)).toBe('project');
    expect(await sensitivity(members.id)).toBe('members');
    expect(await sensitivity(derived.id)).toBe('members');
    await house.acme.put('conversations/notes', { kind: 'group', visibility: 'organization' });
    expect(await sensitivity(members.id)).toBe('project');
  });
});

describe('an artifact of which a source was edited', () => {
  test('is still read, and says that it is stale; so does what was made from it', async () => {
    const first = await house.saveNotes({ title: 'first' });
    const turn = await house.start('second');
    ok(await house.read(turn, first.id));
    const second = await house.save(turn);
    const read = async (id: string) =>
      ok(await house.read(await house.start('thread', { threadKey: randomUUID() }), id)).items[0]
        ?.artifact;
    expect(await read(first.id)).toEqual({ kind: 'memory', title: 'first' });
    expect(await read(second.id)).toEqual({ kind: 'memory' });

    await house.write('notes', 'n1', 'the canary was silent');
    expect(await read(first.id)).toEqual({ kind: 'memory', title: 'first', stale: true });
    expect(await read(second.id)).toEqual({ kind: 'memory', stale: true });
    const fresh = await house.start('thread', { threadKey: randomUUID() });
    ok(await fresh.tool('read', { conversation: 'notes' }));
    expect(await read((await house.save(fresh)).id)).toEqual({ kind: 'memory' });
  });
});

describe('what was read is a source', () => {
  test('of what is delivered: with the artifact, and with all that it was made from', async () => {
    const { id } = await house.saveNotes();
    const turn = await house.start('second');
    ok(await house.read(turn, id));
    const delivery = ok(await turn.propose('It sang.'));
    expect(delivery.status).toBe('cleared');
    expect(await kept(delivery.id)).toEqual([
      'notes 1 inherited',
      'notes 2 inherited',
      'second 1 up',
      'thread 1 up',
      'thread artifact at 1',
    ]);
    const elsewhere = ok(await turn.propose('It sang.', { destination: 'room' }));
    expect(elsewhere).toMatchObject({ status: 'held', code: 'source_revoked' });
    ok(await house.acme.release(delivery));
  });

  test('of the session, which is quarantined when it is deleted', async () => {
    const { id } = await house.saveNotes();
    const turn = await house.start('second');
    ok(await house.read(turn, id));
    ok(await logOf(gateway, turn).compile());
    ok(await house.remove(id));
    expect((await logOf(gateway, turn).compile()).code).toBe('source_revoked');
  });
});

describe('an ingest caller', () => {
  const at = (conversation: string, seq = '1') => ({ conversation, seq });

  test('names messages, stretches and artifacts, and what those were made from comes along', async () => {
    const first = await house.assert([at('notes'), { conversation: 'board', fromSeq: '1' }]);
    const second = await house.assert([{ artifact: first.id }, at('thread')]);

    expect(await kept(first.id)).toEqual(['board 1 up', 'notes 1 at 1']);
    expect(await kept(second.id)).toEqual([
      'board 1 up',
      'notes 1 inherited',
      'notes artifact at 1',
      'thread 1 at 1',
    ]);
    const [item] = ok(await house.read(await house.start('second'), second.id)).items;
    expect(item).toMatchObject({
      artifact: { kind: 'memory', asserted: true },
      envelope: { history: { conversation: 'notes', fromSeq: '1' } },
    });
    expect(item).not.toHaveProperty('author');
    expect((await house.read(await house.start('room'), second.id)).code).toBe('not_found');
  });

  test('inherits the lineage of an answer that it names', async () => {
    const turn = await house.start();
    ok(await turn.tool('read', { conversation: 'notes' }));
    const answer = ok(await turn.propose('The canary sang.'));
    ok(await house.acme.release(answer));
    ok(await house.acme.acknowledge(answer, 'delivered', 'a1'));
    await house.write('thread', 'a1', 'The canary sang.', { author: { persona: 'assistant' } });
    const { id } = await house.assert([at('thread', '2')]);
    expect(await kept(id)).toEqual([
      'notes 1 inherited',
      'notes 2 inherited',
      'thread 1 up',
      'thread 2 at 1',
    ]);
  });

  test('names nothing that is not there, and one thing at least', async () => {
    const gone = await house.assert([at('notes')]);
    ok(await house.remove(gone.id));
    const derived = await house.assert([at('notes', '2')]);
    const other = await artifactHouse(gateway);
    const foreign = await other.assert([at('notes')]);
    await house.write('notes', 'n3', 'not for long');
    await house.acme.remove('conversations/notes/messages/n3');
    await house.acme.conversation('closed', ['ana']);
    await house.acme.say('closed', 'ana', 'a word');
    await house.acme.remove('conversations/closed');
    await house.acme.conversation('empty', ['ana']);
    const before = (await stored()).length;
    for (const missing of [
      at('nowhere'),
      at('notes', '3'),
      at('notes', '4'),
      at('closed'),
      { conversation: 'closed', fromSeq: '1' },
      { conversation: 'nowhere', fromSeq: '1' },
      { conversation: 'notes', fromSeq: '4' },
      { conversation: 'empty', fromSeq: '1' },
      { artifact: gone.id },
      { artifact: foreign.id },
      { artifact: randomUUID() },
    ]) {
      for (const sources of [
        [missing],
        [at('notes'), missing],
        [missing, { artifact: derived.id }],
      ]) {
        const refused = await house.tryAssert(sources);
        expect([missing, refused.code]).toEqual([missing, 'not_found']);
      }
    }
    for (const sources of [
      [],
      [{}],
      [{ conversation: 'notes' }],
      [{ conversation: 'notes', seq: '0' }],
      [{ conversation: 'notes', seq: '-1' }],
      [{ conversation: 'notes', seq: '1', fromSeq: '1' }],
      [{ artifact: derived.id, conversation: 'notes' }],
      Array.from({ length: 1001 }, () => at('notes')),
    ]) {
      expect((await house.tryAssert(sources)).code).toBe('invalid_input');
    }
    expect(await stored()).toHaveLength(before);
  });

  test('is recorded as who asserts, by its key once', async () => {
    const first = ok(await house.tryAssert([at('notes')], {}, { key: 'k' }));
    expect(ok(await house.tryAssert([at('notes')], {}, { key: 'k' }))).toEqual(first);
    for (const other of [
      house.tryAssert([at('notes', '2')], {}, { key: 'k' }),
      house.tryAssert([at('notes')], { text: 'another' }, { key: 'k' }),
      house.tryAssert([at('notes'), at('board')], {}, { key: 'k' }),
    ]) {
      expect((await other).code).toBe('conflict');
    }
    const token = await gateway.addCaller({ id: `i-${house.acme.name}`, scopes: ['ingest'] });
    const another = ok(await house.tryAssert([at('notes')], {}, { key: 'k', token }));
    expect(another.id).not.toBe(first.id);
    const [recorded] = await decisions();
    expect(recorded).toMatchObject({
      ...{ verdict: 'allowed', subject: sha256Hex(TEXT), items: 1, turn_id: null },
      detail: { artifact: first.id, asserted: true },
    });
  });

  test('sends a key many times at once, and registers one', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => house.tryAssert([at('notes')], {}, { key: 'k' })),
    );
    expect(new Set(answers.map((answer) => ok(answer).id)).size).toBe(1);
  });

  test('is nobody else', async () => {
    const { bridge, deliver, operator } = gateway.tokens;
    const { grant } = await house.start();
    for (const [token, code] of [
      [bridge, 'not_permitted'],
      [deliver, 'not_permitted'],
      [operator, 'not_permitted'],
      [grant.token, 'malformed_token'],
      [
        await gateway.addCaller({
          id: `x-${house.acme.name}`,
          scopes: ['ingest'],
          organizations: ['y'],
        }),
        'not_permitted',
      ],
    ] as const) {
      expect((await house.tryAssert([at('notes')], {}, { token })).code).toBe(code);
    }
    expect(await stored()).toHaveLength(0);
  });
});

describe('an artifact that is deleted', () => {
  test('takes its text, title and terms along, and is read by nobody', async () => {
    const { id } = await house.saveNotes({ title: 'A song' });
    const open = await house.assert([{ conversation: 'board', seq: '1' }]);
    const turn = await house.start('second');
    expect((await find(turn)).sort()).toEqual([id, open.id].sort());
    ok(await house.remove(id));
    ok(await house.remove(open.id, gateway.tokens.operator));

    expect(await stored()).toEqual(
      expect.arrayContaining([
        { id, state: 'deleted', title: null, body: '', terms: '' },
        { id: open.id, state: 'deleted', title: null, body: '', terms: '' },
      ]),
    );
    expect(
      await gateway.owner`select from earshot.open_postings where org_id = ${inOrganization()} and seq < 0`,
    ).toHaveLength(0);
    const after = await house.start('second', { threadKey: 'after' });
    expect(await find(after)).toEqual([]);
    expect((await house.read(after, id)).code).toBe('not_found');
    expect(await kept(id)).toEqual(['notes 1 at 1', 'notes 2 at 1', 'thread 1 up']);
  });

  test('takes what was made from it out of reach', async () => {
    const first = await house.saveNotes();
    const turn = await house.start('second');
    ok(await house.read(turn, first.id));
    const second = await house.save(turn, { text: 'Of the canary.' });
    const delivery = ok(await turn.propose('It sang.'));
    const released = ok(await turn.propose('It sang!'));
    ok(await house.acme.release(released));
    ok(await house.remove(first.id));

    const after = await house.start('second', { threadKey: 'after' });
    expect((await house.read(after, second.id)).code).toBe('not_found');
    expect((await house.acme.release(delivery)).code).toBe('source_revoked');
  });

  test('moves the revision of its home, and nothing else does', async () => {
    const revision = async () => {
      const [row] = await gateway.owner<{ revision: string }[]>`
        select r.revision from earshot.conversation_revisions r
        join earshot.conversations c on c.org_id = r.org_id and c.id = r.conversation_id
        where c.org_id = ${inOrganization()} and c.external_id = 'thread'`;
      return BigInt(row?.revision ?? 0);
    };
    const before = await revision();
    const { id } = await house.saveNotes();
    expect(await revision()).toBe(before);
    ok(await house.remove(id));
    expect(await revision()).toBeGreaterThan(before);
  });

  test('stays so, and is deleted once, in its own organization, by who may', async () => {
    const { id } = await house.saveNotes();
    const other = await gateway.organization();
    const foreign = await gateway.send('DELETE', `/v1/artifacts/${id}?organization=${other.name}`, {
      token: gateway.tokens.ingest,
    });
    expect(foreign.code).toBe('not_found');
    for (const token of [gateway.tokens.bridge, gateway.tokens.deliver]) {
      expect((await house.remove(id, token)).code).toBe('not_permitted');
    }
    expect((await house.read(await house.start('second'), id)).status).toBe(200);
    expect(ok(await house.remove(id))).toEqual({ outcome: 'deleted' });
    expect((await house.remove(id)).code).toBe('not_found');
    await expect(
      gateway.owner`update earshot.artifacts set state = 'live' where id = ${id}`,
    ).rejects.toThrow('an artifact does not change');
  });

  test('is all that changes of one, whoever writes', async () => {
    const { id } = await house.saveNotes({ title: 'A song' });
    for (const change of [
      gateway.owner`update earshot.artifacts set body = 'another' where id = ${id}`,
      gateway.owner`update earshot.artifacts set title = 'another' where id = ${id}`,
      gateway.owner`update earshot.artifacts set seq = -1 where id = ${id}`,
      gateway.owner`update earshot.artifacts set kind = 'note' where id = ${id}`,
    ]) {
      await expect(change).rejects.toThrow('an artifact does not change');
    }
    await house.acme.put('', { textSearch: 'simple' });
    expect(await find(await house.start('second'), 'canary')).toEqual([id]);
  });
});
