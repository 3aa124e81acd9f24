import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { openPeople, type People } from '../support/people.ts';
import { bytesOf } from './explaining.ts';
import {
  enterReleaseHouse,
  isCleared,
  isHeld,
  post,
  TEXT,
  type ReleaseHouse,
} from './release-house.ts';

// Who is asked for a release, what they are shown, and what their answers are; and who is asked for nothing and told nothing.

let gateway: TestGateway;
let people: People;
let house: ReleaseHouse;
let acme: ReleaseHouse['acme'];

beforeAll(async () => {
  gateway = await openTestGateway();
  people = await openPeople(gateway);
});
afterAll(() => gateway.close());
beforeEach(async () => {
  house = await enterReleaseHouse(gateway, people);
  ({ acme } = house);
});

describe('owners', () => {
  test('all have to approve: the yes of one is none', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes', 'plans');
    const { id, owners } = await house.ask(turn, draft);
    expect(owners).toBe(2);
    expect(ok(await house.approve('ana', id, draft))).toMatchObject({ status: 'asked' });
    expect(await house.list('ana')).toMatchObject([{ status: 'asked', approved: true }]);
    expect(await house.list('ben')).toMatchObject([{ status: 'asked', approved: false }]);
    await isHeld(post(turn));
    expect(ok(await house.approve('ben', id, draft))).toMatchObject({ status: 'approved' });
    const delivery = await isCleared(post(turn));
    expect(ok(await house.refuse('ben', id))).toMatchObject({ status: 'refused' });
    expect((await acme.release(delivery)).code).toBe('source_revoked');
    expect(await house.list('ana')).toMatchObject([{ status: 'refused', approved: true }]);
    // A no is for good.
    expect((await house.approve('ben', id, draft)).code).toBe('conflict');
    expect((await house.approve('ana', id, draft)).code).toBe('conflict');
    expect(ok(await house.refuse('ana', id))).toMatchObject({ status: 'refused' });
  });

  test('see the text only where they read every source now, and of the sources only their own', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes', 'plans');
    await house.ask(turn, draft);
    const [own] = await house.list('ben');
    expect(own?.sources).toEqual([{ type: 'message', conversation: 'plans', seq: '1' }]);
    expect(JSON.stringify(own)).not.toMatch(/sang|title|notes|desk/);
    expect(own?.textSha256).toBe(draft.textSha256);
    const [hers] = await house.list('ana');
    expect(hers?.text).toBe(TEXT);
    expect(hers?.sources.map(({ conversation }) => conversation)).toEqual([
      'desk',
      'desk',
      'notes',
    ]);
    await acme.put('conversations/plans/members/ana', { history: { fromSeq: '2' } });
    expect((await house.list('ana'))[0]).not.toHaveProperty('text');
    expect((await house.list('ana'))[0]).not.toHaveProperty('title');
    for (const place of ['desk', 'notes'])
      await acme.put(`conversations/${place}/members/ben`, { history: 'all' });
    expect((await house.list('ben'))[0]?.text).toBe(TEXT);
  });

  test('say to which bytes they say yes', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes');
    const { id } = await house.ask(turn, draft);
    const other = { textSha256: '0'.repeat(64) };
    expect((await house.approve('ana', id, other)).code).toBe('payload_mismatch');
    await isHeld(post(turn));
    ok(await house.approve('ana', id, draft));
    expect(ok(await house.approve('ana', id, draft))).toMatchObject({ status: 'approved' });
    await isCleared(post(turn));
  });

  test('are asked about what they own now, and about nothing that is gone', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes', 'plans');
    const { id } = await house.ask(turn, draft);
    await house.own('plans', 'cleo');
    for (const person of ['ben', 'cleo']) {
      expect(await house.list(person)).toEqual([]);
      expect((await house.approve(person, id, draft)).code).toBe('not_found');
      expect((await house.refuse(person, id)).code).toBe('not_found');
    }
    await house.own('plans', 'ben');
    ok(await house.approve('ben', id, draft));
    await gateway.owner`
      update earshot.artifact_releases set expires_at = now() where id = ${id}`;
    expect(await house.list('ana')).toMatchObject([{ status: 'expired' }]);
    expect((await house.approve('ana', id, draft)).code).toBe('conflict');
    await house.erase(draft);
    expect(await house.list('ana')).toEqual([]);
    expect((await house.refuse('ana', id)).code).toBe('not_found');
  });

  test('who are not there, or not active, are asked for nothing', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes', 'plans');
    const { id } = await house.ask(turn, draft);
    await acme.put('users/ben', { kind: 'member', status: 'deactivated' });
    expect(await house.list('ben')).toEqual([]);
    expect((await house.approve('ben', id, draft)).code).toBe('not_found');
    await acme.put('', { status: 'suspended' });
    expect(await house.list('ana')).toEqual([]);
    expect((await house.approve('ana', id, draft)).code).toBe('not_found');
  });
});

describe('somebody who is no owner', () => {
  test('sees nothing and answers for nothing, byte for byte as of what does not exist', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes');
    const { id } = await house.ask(turn, draft);
    const absent = 'b6a8bd43-2d0a-4c1b-9d4c-000000000000';
    for (const person of ['ben', 'cleo', 'dan', 'nobody']) {
      expect(await house.list(person)).toEqual([]);
      for (const answer of [
        (release: string) => house.approve(person, release, draft),
        (release: string) => house.refuse(person, release),
      ]) {
        const [there, none] = [await answer(id), await answer(absent)];
        expect(there.code).toBe('not_found');
        expect(bytesOf(there)).toBe(bytesOf(none));
      }
    }
    const other = await enterReleaseHouse(gateway, people);
    expect(await other.list('ana')).toEqual([]);
    expect((await other.approve('ana', id, draft)).code).toBe('not_found');
    expect(await house.list('ana')).toMatchObject([{ status: 'asked' }]);
  });

  test('is no caller, and no person of an organization that the issuer does not prove', async () => {
    const path = `/v1/releases?organization=${acme.name}`;
    for (const token of [...Object.values(gateway.tokens), (await house.start()).grant.token])
      expect((await gateway.send('GET', path, { token })).code).toBe('malformed_token');
    const { name } = await gateway.organization();
    const abroad = await gateway.send('GET', `/v1/releases?organization=${name}`, {
      token: await people.tokenOf('ana'),
    });
    expect(abroad.code).toBe('not_permitted');
  });
});

describe('asking', () => {
  test('finds no artifact that the grant does not read and no place that the requester does not', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes');
    const absent = { id: 'b6a8bd43-2d0a-4c1b-9d4c-000000000000' };
    await acme.conversation('strangers', ['ben', 'cleo']);
    await acme.conversation('gone', ['ana', 'ben']);
    await acme.remove('conversations/gone');
    const there = await house.inRoom();
    const answers = [
      await house.tryAsk(turn, absent),
      await house.tryAsk(turn, draft, 'nowhere'),
      await house.tryAsk(turn, draft, 'strangers'),
      await house.tryAsk(turn, draft, 'gone'),
      // The room does not read the draft.
      await house.tryAsk(there, draft, 'room'),
      await house.tryAsk(there, absent, 'room'),
    ];
    expect(answers.map(({ code }) => code)).toEqual(Array(6).fill('not_found'));
    expect(new Set(answers.map(bytesOf))).toHaveLength(1);
    await house.erase(draft);
    expect((await house.tryAsk(turn, draft)).code).toBe('not_found');
    expect(await house.list('ana')).toEqual([]);
  });

  test('is a conflict where nothing is in the way', async () => {
    const { turn, draft } = await house.draft(TEXT);
    expect((await house.tryAsk(turn, draft, 'desk')).code).toBe('conflict');
    await acme.conversation('alone', ['ana']);
    expect((await house.tryAsk(turn, draft, 'alone')).code).toBeUndefined();
  });

  test('ends where somebody who could be asked is missing', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes');
    for (const spoil of [
      () => house.own('notes'),
      () => house.own('notes', 'robot'),
      () => house.own('notes', 'gone'),
    ]) {
      await acme.put('users/robot', { kind: 'bot' });
      await acme.put('users/gone', { kind: 'member', status: 'deactivated' });
      await spoil();
      const answer = await house.tryAsk(turn, draft);
      expect(answer.code).toBe('source_revoked');
      expect(answer.body).toMatchObject({ recovery: 'stop' });
    }
    await house.own('notes', 'ana');
    expect((await house.ask(turn, draft)).owners).toBe(1);
  });

  test('names what moved of the sources before anybody is asked', async () => {
    await acme.put('conversations/notes/messages/n1', {
      ...{ author: { user: 'ana' }, body: 'a canary more', sentAt: '2050-01-01T00:00:00Z' },
    });
    const { turn, draft } = await house.draft(TEXT, 'notes');
    await acme.put('conversations/notes/messages/n1', {
      ...{ author: { user: 'ana' }, body: 'a robin', sentAt: '2050-01-01T00:00:00Z' },
    });
    expect((await house.tryAsk(turn, draft)).code).toBe('source_changed');
  });

  test('again with the same key answers how it stands, and another request is a conflict', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes');
    await acme.conversation('pair', ['ana', 'ben']);
    const first = ok(await house.tryAsk(turn, draft, 'room', 'k'));
    ok(await house.approve('ana', first.id, draft));
    expect(ok(await house.tryAsk(turn, draft, 'room', 'k'))).toEqual({
      ...first,
      status: 'approved',
    });
    expect((await house.tryAsk(turn, draft, 'pair', 'k')).code).toBe('conflict');
    const once = await Promise.all(
      Array.from({ length: 6 }, () => house.tryAsk(turn, draft, 'room', 'l')),
    );
    expect(new Set(once.map((answer) => ok(answer).id))).toHaveLength(1);
    expect(await house.list('ana')).toHaveLength(2);
    ok(await turn.end('complete'));
    expect((await house.tryAsk(turn, draft, 'room', 'k')).code).toBe('turn_not_running');
  });

  test('ends with the grant, whose check comes first', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes');
    await acme.put('conversations/desk/members/ben', { history: 'all' });
    expect((await house.tryAsk(turn, draft)).code).toBe('mode_changed');
    expect((await house.tryAsk(turn, draft)).code).toBe('grant_revoked');
    expect((await house.tryAsk(turn, { id: 'b6a8bd43-2d0a-4c1b-9d4c-000000000000' })).code).toBe(
      'grant_revoked',
    );
  });
});

test('a person who is asked for much is told of it in pages, the newest first, each once', async () => {
  const { turn, draft } = await house.draft(TEXT, 'notes');
  const asked: string[] = [];
  for (let n = 0; n < 5; n++) asked.unshift((await house.ask(turn, draft)).id);
  const pages: string[][] = [];
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const page = await house.page('ana', `limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`);
    pages.push(page.releases.map(({ id }) => id));
    expect(page.complete).toBe(page.cursor === undefined);
    cursor = page.cursor;
  }
  expect(pages.map((page) => page.length)).toEqual([2, 2, 1]);
  expect(pages.flat()).toEqual(asked);
  // A release that this person is not asked for leads nowhere.
  expect((await house.page('dan', `cursor=${asked[0] ?? ''}`)).releases).toEqual([]);
  const other = await enterReleaseHouse(gateway, people);
  expect((await other.page('ana', `cursor=${asked[0] ?? ''}`)).releases).toEqual([]);
});

test('everything about a release is on record, without a text or a name', async () => {
  const { turn, draft, release } = await house.approved();
  await house.list('ana');
  await house.approve('dan', release, draft);
  await house.refuse('ana', release);
  await house.tryAsk(turn, draft, 'nowhere');
  const rows = await gateway.owner<{ kind: string; code: string | null; detail: unknown }[]>`
    select kind, code, detail from earshot.decisions
    where org_id = (select id from earshot.organizations where external_id = ${acme.name}) and kind like '%release%'
    order by decided_at`;
  expect(rows.map(({ kind, code }) => [kind, code])).toEqual([
    ['ask release', null],
    ['approve release', null],
    ['list releases', null],
    ['approve release', 'not_found'],
    ['refuse release', null],
    ['ask release', 'not_found'],
  ]);
  expect(JSON.stringify(rows)).not.toMatch(/ana|dan|canary|room|notes/);
});
