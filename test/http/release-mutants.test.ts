import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestTurn } from '../support/organization.ts';
import { openPeople, type People } from '../support/people.ts';
import { withMutant } from '../worlds/mutant.ts';
import {
  enterReleaseHouse,
  isCleared,
  isHeld,
  post,
  TEXT,
  type Draft,
  type ReleaseHouse,
} from './release-house.ts';

// What holds about releases, each with the changes of a function after which it does not: a rule that nothing would miss is none.

let gateway: TestGateway;
let people: People;

beforeAll(async () => {
  gateway = await openTestGateway();
  people = await openPeople(gateway);
});
afterAll(() => gateway.close());

interface Rule {
  readonly rule: string;
  readonly holds: (house: ReleaseHouse) => Promise<void>;
  readonly mutants: readonly (readonly [routine: string, from: string, to: string])[];
}

/** A draft of these conversations, with the yes of whoever is named. */
async function drafted(
  house: ReleaseHouse,
  read: readonly string[],
  destination: string,
  ...owners: string[]
): Promise<{ turn: TestTurn; draft: Draft; id: string }> {
  const { turn, draft } = await house.draft(TEXT, ...read);
  const { id } = await house.ask(turn, draft, destination);
  for (const owner of owners) ok(await house.approve(owner, id, draft));
  return { turn, draft, id };
}

/** A project with a channel of its own. */
async function team({ acme }: ReleaseHouse, project: string): Promise<void> {
  await acme.facts({ fact: 'project', id: project, members: ['ana'] });
  await acme.conversation(`team ${project}`, [], { visibility: 'project', project });
}

const RULES: readonly Rule[] = [
  {
    rule: 'every reader is on the list, by id',
    async holds(house) {
      const { turn } = await drafted(house, ['notes'], 'room', 'ana');
      await house.acme.put('conversations/room/members/dan', { history: 'none' });
      await isHeld(post(turn));
    },
    mutants: [
      ['release_covers', 'and lists_readers(r.readers, p_readers)', ''],
      ['lists_readers', 'and l.id = r.external_id', ''],
      ['lists_readers', 'bool_and(', 'bool_or('],
    ],
  },
  {
    rule: 'every reader is on the list, by kind: a project with the id of a person is another reader',
    async holds(house) {
      await team(house, 'cleo');
      const { turn } = await drafted(house, ['notes'], 'room', 'ana');
      await isHeld(post(turn, TEXT, 'team cleo'));
    },
    mutants: [['lists_readers', 'l.kind = r.kind and', '']],
  },
  {
    rule: 'a project that admits guests is another reader than before',
    async holds(house) {
      await team(house, 'p');
      const { turn, draft } = await drafted(house, ['notes'], 'team p', 'ana');
      await isCleared(post(turn, TEXT, 'team p'));
      await house.acme.put('projects/p', { members: ['ana'], admitsGuests: true });
      await isHeld(post(turn, TEXT, 'team p'));
      const { id } = await house.ask(turn, draft, 'team p');
      ok(await house.approve('ana', id, draft));
      await isCleared(post(turn, TEXT, 'team p'));
    },
    mutants: [
      ['lists_readers', 'or not r.guest or l.guests', 'or true'],
      ['lists_readers', 'or not r.guest or l.guests', 'or not r.guest'],
    ],
  },
  {
    rule: 'the yes is that of the present owner, who is active',
    async holds(house) {
      const { turn, draft } = await drafted(house, ['notes', 'plans'], 'room', 'ana', 'ben');
      await isCleared(post(turn));
      await house.own('plans', 'cleo');
      await isHeld(post(turn));
      await house.own('plans', 'ben');
      await isCleared(post(turn));
      await house.acme.put('users/ben', { kind: 'member', status: 'deactivated' });
      await isHeld(post(turn));
      expect((await house.tryAsk(turn, draft)).code).toBe('source_revoked');
    },
    mutants: [
      ['release_covers', 'and o.owner_id = answering_owner(p_org, o.conversation_id)', ''],
      ['answering_owner', '(person_reader(p_org, c.owner_id)).key', 'c.owner_id'],
    ],
  },
  {
    rule: 'an owner says yes for what that one owns, and a text goes when all have',
    async holds(house) {
      const { turn, draft, id } = await drafted(house, ['notes', 'plans'], 'room');
      expect(ok(await house.approve('ana', id, draft))).toMatchObject({ status: 'asked' });
      await isHeld(post(turn));
      expect(ok(await house.approve('ben', id, draft))).toMatchObject({ status: 'approved' });
      await isCleared(post(turn));
    },
    mutants: [
      [
        'answer_release',
        'and o.release_id = p_release and o.conversation_id = any (own)',
        'and o.release_id = p_release',
      ],
      ['answer_release', 'and o.approved_at is null)', 'and false)'],
      ['release_covers', 'o.conversation_id = s.conversation_id', 'false'],
    ],
  },
  {
    rule: 'a yes is to the bytes that its owner names',
    async holds(house) {
      const { draft, id } = await drafted(house, ['notes'], 'room');
      const other = { textSha256: draft.textSha256.replace(/^./, (c) => (c === '0' ? '1' : '0')) };
      expect((await house.approve('ana', id, other)).code).toBe('payload_mismatch');
    },
    mutants: [
      ['answer_release', 'when p_text_sha256 is distinct from answered.body_sha256', 'when false'],
    ],
  },
  {
    rule: 'a no takes the yes back, and is for good',
    async holds(house) {
      const { turn, draft, id } = await drafted(house, ['notes'], 'room', 'ana');
      ok(await house.refuse('ana', id));
      expect((await house.approve('ana', id, draft)).code).toBe('conflict');
      await isHeld(post(turn));
    },
    mutants: [
      ['answer_release', "when not p_approves then 'refused'", 'when not p_approves then r.status'],
      ['answer_release', "not in ('asked', 'approved')", "not in ('asked', 'approved', 'refused')"],
    ],
  },
  {
    rule: 'what was edited since is not told as it was',
    async holds(house) {
      const write = (body: string) =>
        house.acme.put('conversations/notes/messages/n', {
          ...{ author: { user: 'ana' }, body, sentAt: '2050-01-01T00:00:00Z' },
        });
      await write('a canary');
      const { turn } = await drafted(house, ['notes'], 'room', 'ana');
      const delivery = ok(await post(turn));
      await write('a robin');
      expect((await house.acme.release(delivery)).code).toBe('source_changed');
    },
    mutants: [
      ['judge_released', 's where s.changed', 's where false'],
      ['sources_toward', 'kept.revision is distinct from s.revision', 'false'],
    ],
  },
  {
    rule: 'what a derived source was made from is asked about, wherever it is written',
    async holds(house) {
      const first = await drafted(house, ['notes'], 'room', 'ana');
      const delivery = ok(await post(first.turn));
      ok(await house.acme.release(delivery));
      ok(await house.acme.acknowledge(delivery, 'delivered', 'posted'));
      await house.acme.put('conversations/room/messages/posted', {
        ...{ author: { persona: 'assistant' }, body: TEXT, sentAt: '2050-01-01T00:00:00Z' },
      });
      ok(await house.refuse('ana', first.id));
      const second = await drafted(house, ['room'], 'room', 'ana');
      await isCleared(post(second.turn));
      await gateway.owner`
        delete from earshot.lineage l using earshot.conversations c
        where l.derived_id = ${second.draft.id} and c.id = l.conversation_id and c.external_id = 'notes'`;
      await house.own('notes', 'ben');
      await isHeld(post(second.turn));
    },
    mutants: [
      [
        'sources_toward',
        'earshot.inherited_sources(p_org, p_sources) f',
        'earshot.inherited_sources(p_org, null) f',
      ],
    ],
  },
  {
    rule: 'an owner is shown the text only where that one reads all of it',
    async holds(house) {
      await drafted(house, ['notes', 'plans'], 'room');
      // Ben reads where the draft is at home, and not the notes.
      await house.acme.put('conversations/desk/members/ben', { history: 'all' });
      const [own] = await house.list('ben');
      expect(own?.sources).toHaveLength(1);
      expect(JSON.stringify(own)).not.toMatch(/sang|title|notes|desk/);
    },
    mutants: [
      ['list_releases', "'text', case when s.readable then s.body end", "'text', s.body"],
      ['list_releases', "'title', case when s.readable then s.title end", "'title', s.title"],
      ['person_reads_artifact', 'and m.seq = p_artifact.seq', ''],
      ['sources_within', 'where x.conversation_id = any (p_conversations)', ''],
    ],
  },
  {
    rule: 'nobody is asked who is not the owner now',
    async holds(house) {
      const { draft, id } = await drafted(house, ['notes', 'plans'], 'room');
      await house.own('plans', 'cleo');
      expect(await house.list('ben')).toEqual([]);
      expect((await house.approve('ben', id, draft)).code).toBe('not_found');
      expect((await house.approve('dan', id, draft)).code).toBe('not_found');
    },
    mutants: [
      ['asked_of', 'and c.owner_id = o.owner_id', ''],
      ['asked_of', 'and o.owner_id = p_person', ''],
    ],
  },
  {
    rule: 'an artifact is asked for where it is read',
    async holds(house) {
      const { draft } = await drafted(house, ['notes'], 'room', 'ana');
      const there = await house.acme.turn({
        ...{ destination: 'room', requester: 'ana', trigger: '1' },
      });
      expect((await house.tryAsk(there, draft)).code).toBe('not_found');
    },
    mutants: [['ask_release', 'or not exists (', 'or false and not exists (']],
  },
  {
    rule: 'what goes by a release has the sources of its artifact, and falls with it',
    async holds(house) {
      await drafted(house, ['notes'], 'room', 'ana');
      const there = await house.acme.turn({
        ...{ destination: 'room', requester: 'ana', trigger: '1' },
      });
      const delivery = ok(await there.propose(TEXT));
      await house.own('desk', 'ben');
      expect((await house.acme.release(delivery)).code).toBe('source_revoked');
    },
    mutants: [
      ['propose_delivery', 'sources := released.sources;', ''],
      ['propose_delivery', 'if released.artifact_id is not null then', 'if false then'],
    ],
  },
];

describe('of a release it holds, and without its line of the function it does not:', () => {
  test.each(RULES)('$rule', async ({ holds, mutants }) => {
    await holds(await enterReleaseHouse(gateway, people));
    for (const [routine, from, to] of mutants) {
      const title = `${routine}: ${from}`;
      await withMutant(gateway.owner, { title, routine, from, to }, async () => {
        const house = await enterReleaseHouse(gateway, people);
        await expect(holds(house), `${title} → ${to}`).rejects.toThrow();
      });
    }
  });
});
