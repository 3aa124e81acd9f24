import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import type { Delivery } from '../support/organization.ts';
import { openPeople, type People } from '../support/people.ts';
import {
  enterReleaseHouse,
  isCleared,
  isHeld,
  post,
  TEXT,
  type Draft,
  type ReleaseHouse,
} from './release-house.ts';

// A text goes to people who do not read what it was made from, because the owners of that said so: what that covers, for whom,
// and until when.

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

const lineageOf = (id: string) => gateway.owner`
  select c.external_id as conversation, case when s.from_seq < 0 then 'artifact' else s.from_seq::text end as seq, s.to_seq is null as stretch
  from earshot.lineage s join earshot.conversations c on c.id = s.conversation_id
  where s.derived_id = ${id} order by 1, 3 desc, 2 desc`;

describe('a private draft that its owner releases', () => {
  test('goes to the shared room, and is not retrieved into sessions there', async () => {
    const { turn, draft } = await house.draft(TEXT, 'notes');
    await isHeld(post(turn));
    const asked = await house.ask(turn, draft);
    expect(asked).toMatchObject({ status: 'asked', owners: 1 });

    const [listed] = await house.list('ana');
    expect(listed).toEqual({
      ...{ id: asked.id, artifact: draft.id, kind: 'draft', textSha256: draft.textSha256 },
      ...{ contentType: 'text/plain', destination: 'room', status: 'asked', approved: false },
      readers: ['ana', 'ben', 'cleo'].map((id) => ({ kind: 'user', id })),
      sources: [
        { type: 'conversation', conversation: 'desk', fromSeq: '1' },
        { type: 'artifact', conversation: 'desk', artifact: draft.id },
        { type: 'message', conversation: 'notes', seq: '1' },
      ],
      ...{ title: 'A title', text: TEXT, expiresAt: asked.expiresAt },
    });
    await isHeld(post(turn));
    ok(await house.approve('ana', asked.id, draft));
    expect(await house.list('ana')).toMatchObject([{ status: 'approved', approved: true }]);

    const delivery = await isCleared(post(turn));
    expect(await lineageOf(delivery.id)).toEqual([
      { conversation: 'desk', seq: '1', stretch: true },
      { conversation: 'desk', seq: 'artifact', stretch: false },
      { conversation: 'notes', seq: '1', stretch: false },
    ]);
    expect(ok(await acme.release(delivery)).payload).toBe(TEXT);
    ok(await acme.acknowledge(delivery, 'delivered', 'posted'));
    await acme.put('conversations/room/messages/posted', {
      ...{ author: { persona: 'assistant' }, body: TEXT, sentAt: '2050-01-01T00:00:00Z' },
    });

    const there = await house.inRoom();
    expect(await there.search('canary')).toEqual([]);
    const { items } = ok(await there.tool('read', { conversation: 'room' }));
    expect(items.map(({ text }) => text)).toEqual(['what is it']);
    // Where all of it is read, it is read as any message is.
    const hers = ok(await (await house.start()).tool('read', { conversation: 'room' }));
    expect(hers.items.map(({ text }) => text)).toEqual(['what is it', TEXT]);
  });

  test('goes by any turn toward it, with the sources of the draft and not of that turn', async () => {
    const { draft } = await house.approved();
    const there = await house.inRoom();
    const delivery = await isCleared(there.propose(TEXT));
    expect(
      (await lineageOf(delivery.id)).map(({ conversation }) => conversation as string),
    ).toEqual(['desk', 'desk', 'notes']);
    const [row] = await gateway.owner<{ artifact: string }[]>`
      select artifact_id as artifact from earshot.deliveries where id = ${delivery.id}`;
    expect(row?.artifact).toBe(draft.id);
    expect(ok(await acme.release(delivery)).payload).toBe(TEXT);
  });

  test('goes by a turn that its home does not concern only while the owner of its home says so', async () => {
    await house.approved();
    const there = await house.inRoom();
    const delivery = await isCleared(there.propose(TEXT));
    await house.own('desk', 'ben');
    expect((await acme.release(delivery)).code).toBe('source_revoked');
  });

  test('goes through the queue and an approval of its delivery, judged anew at each step', async () => {
    const { turn, release } = await house.approved();
    const approve = ({ id, payloadSha256 }: Delivery) =>
      gateway.send('POST', `/v1/deliveries/${id}/approve`, {
        ...{ token: gateway.tokens.operator, json: { organization: acme.name, payloadSha256 } },
      }) as Promise<Answer<Delivery>>;
    const wait = async () => ok(await turn.propose(TEXT, { destination: 'room', approval: true }));
    const [first, second, third] = [await wait(), await wait(), await wait()];
    expect(ok(await approve(first))).toMatchObject({ status: 'cleared' });
    expect(ok(await approve(second))).toMatchObject({ status: 'cleared' });
    const [claimed, other] = await acme.claim({ limit: 2 });
    if (claimed === undefined || other === undefined) throw new Error('they are due');
    expect(ok(await acme.release(claimed, { fence: claimed.fence })).payload).toBe(TEXT);
    ok(await house.refuse('ana', release));
    expect(ok(await approve(third))).toMatchObject({ status: 'held', code: 'source_revoked' });
    expect((await acme.release(other, { fence: other.fence })).code).toBe('source_revoked');
  });

  test('is asked of the owners of the first again where something new was made of it', async () => {
    const { turn } = await house.approved();
    const delivery = await isCleared(post(turn));
    ok(await acme.release(delivery));
    ok(await acme.acknowledge(delivery, 'delivered', 'posted'));
    await acme.put('conversations/room/messages/posted', {
      ...{ author: { persona: 'assistant' }, body: TEXT, sentAt: '2050-01-01T00:00:00Z' },
    });
    const again = 'It was told, so it may be told again.';
    const second = await house.draft(again, 'room');
    await isHeld(post(second.turn, again));
    // The room has no owner, and it is not in its own way.
    const asked = await house.ask(second.turn, second.draft);
    expect(asked.owners).toBe(1);
    ok(await house.approve('ana', asked.id, second.draft));
    await isCleared(post(second.turn, again));
    await house.own('notes', 'ben');
    await isHeld(post(second.turn, again));
  });

  test('that a host asserts is asked of the owners of the sources it names, and goes with those', async () => {
    const asserted = await gateway.send('POST', `/v1/organizations/${acme.name}/artifacts`, {
      ...{ token: gateway.tokens.ingest, key: 'asserted' },
      json: { kind: 'note', text: TEXT, sources: [{ conversation: 'plans', seq: '1' }] },
    });
    const draft = ok(asserted) as Draft;
    const turn = await house.start();
    const { id, owners } = await house.ask(turn, draft);
    expect(owners).toBe(1);
    expect(await house.list('ana')).toEqual([]);
    expect((await house.list('ben'))[0]?.text).toBe(TEXT);
    ok(await house.approve('ben', id, draft));
    const delivery = await isCleared(post(turn));
    expect(
      (await lineageOf(delivery.id)).map(({ conversation }) => conversation as string),
    ).toEqual(['plans', 'plans']);
    await acme.remove('conversations/plans');
    expect((await acme.release(delivery)).code).toBe('source_revoked');
  });

  test('goes with the bytes that were approved and no others', async () => {
    const { turn } = await house.approved();
    for (const text of [
      `${TEXT} `,
      TEXT.slice(1),
      TEXT.replace('canary', 'Canary'),
      `\ufeff${TEXT}`,
    ])
      await isHeld(post(turn, text));
    await isCleared(post(turn));
  });

  test('goes to nobody who is not on the list, when it is proposed and when it is released', async () => {
    const { turn } = await house.approved();
    const delivery = await isCleared(post(turn));
    await acme.put('conversations/room/members/dan', { history: 'none' });
    expect((await acme.release(delivery)).code).toBe('source_revoked');
    expect(await acme.delivery(delivery.id)).toMatchObject({ status: 'held' });
    await isHeld(post(turn));
    await acme.remove('conversations/room/members/dan');
    await isCleared(post(turn));
    await acme.remove('conversations/room/members/ben');
    await isCleared(post(turn));
  });

  test('goes to another place whose readers are among those on the list, and to no other', async () => {
    const { turn } = await house.approved();
    await acme.conversation('pair', ['ana', 'cleo']);
    await acme.conversation('others', ['ana', 'dan']);
    await acme.conversation('alone', ['ana']);
    const delivery = await isCleared(post(turn, TEXT, 'pair'));
    expect(ok(await acme.release(delivery)).destination).toBe('pair');
    await isCleared(post(turn, TEXT, 'alone'));
    await isHeld(post(turn, TEXT, 'others'));
    await acme.conversation('strangers', ['ben', 'cleo']);
    expect((await post(turn, TEXT, 'strangers')).code).toBe('not_found');
  });

  test('goes to a class where the class is on the list, and not for those who are in it', async () => {
    await acme.facts({ fact: 'project', id: 'p', members: ['ana', 'ben'] });
    const open = { visibility: 'organization', kind: 'channel' };
    const bound = { visibility: 'project', project: 'p' };
    await acme.conversation('all', [], open);
    await acme.conversation('team', [], bound);
    const { turn, draft } = await house.draft(TEXT, 'notes');
    const { id } = await house.ask(turn, draft, 'all');
    ok(await house.approve('ana', id, draft));
    expect((await house.list('ana'))[0]?.readers).toEqual([{ kind: 'class:organization', id: '' }]);
    await isCleared(post(turn, TEXT, 'all'));
    await isHeld(post(turn));
    await isHeld(post(turn, TEXT, 'team'));
    await house.refuse('ana', id);

    const { id: other } = await house.ask(turn, draft, 'team');
    ok(await house.approve('ana', other, draft));
    await isCleared(post(turn, TEXT, 'team'));
    await acme.conversation('second', [], bound);
    await isCleared(post(turn, TEXT, 'second'));
    await isHeld(post(turn, TEXT, 'all'));
    // The project is another class once guests may be in it.
    await acme.put('projects/p', { members: ['ana', 'ben'], admitsGuests: true });
    await isHeld(post(turn, TEXT, 'second'));
  });
});

describe('what a release was given for has to hold when the text goes:', () => {
  const CHANGES: Readonly<
    Record<string, { change: (release: string, draft: Draft) => Promise<unknown>; code?: string }>
  > = {
    'a source was deleted': { change: () => acme.remove('conversations/notes/messages/n1') },
    'a source was edited': {
      change: () => note('robin'),
      code: 'source_changed',
    },
    'a conversation was deleted': { change: () => acme.remove('conversations/notes') },
    'a source has another owner': { change: () => house.own('notes', 'ben') },
    'the thread has another owner': {
      change: () => house.own('desk', 'ben'),
      code: 'mode_changed',
    },
    'a source has no owner': { change: () => house.own('notes') },
    'it was withdrawn': { change: async (release) => ok(await house.refuse('ana', release)) },
    'its time is over': {
      change: (release) =>
        gateway.owner`update earshot.artifact_releases set expires_at = now() where id = ${release}`,
    },
    'the draft was deleted': {
      change: (_release, draft) => house.erase(draft),
    },
    'the guard is paused': {
      change: () => acme.put('guard', { guard: 'paused' }),
      code: 'organization_paused',
    },
    'a stop is set': {
      change: () => acme.put('stops/persona/assistant', {}),
      code: 'stopped',
    },
    'somebody unknown reads the room': {
      change: () => acme.put('conversations/room/members/nobody', { history: 'all' }),
      code: 'unlistable_audience',
    },
  };
  const note = (body: string) =>
    acme.put('conversations/notes/messages/n1', {
      ...{ author: { user: 'ana' }, body, sentAt: '2050-01-01T00:00:00Z' },
    });

  test.each(Object.entries(CHANGES))('%s', async (_name, { change, code = 'source_revoked' }) => {
    await note('a canary more');
    const { turn, draft, release } = await house.approved();
    const delivery = await isCleared(post(turn));
    await change(release, draft);
    const answer = await acme.release(delivery);
    expect(answer.code).toBe(code);
    expect(await acme.delivery(delivery.id)).toMatchObject({ status: 'held' });
    const [row] = await gateway.owner`
      select payload from earshot.deliveries where id = ${delivery.id}`;
    expect(row).toEqual({ payload: null });
  });

  test('and is asked again when it is proposed', async () => {
    await note('a canary more');
    const { turn, release } = await house.approved();
    await isCleared(post(turn));
    await house.own('notes', 'ben');
    await isHeld(post(turn));
    await house.own('notes', 'ana');
    await isCleared(post(turn));
    await acme.put('users/ana', { kind: 'member', status: 'deactivated' });
    await acme.put('users/ana', { kind: 'member' });
    ok(await house.refuse('ana', release));
    await isHeld(post(await house.start()));
  });
});

test('a release makes nothing readable: the draft stays where it was, and other texts from its sources are held', async () => {
  const { turn, draft } = await house.approved();
  const there = await house.inRoom();
  expect(await there.search('canary')).toEqual([]);
  expect((await there.tool('read', { conversation: 'notes' })).code).toBe('not_found');
  expect((await house.tryAsk(there, draft)).code).toBe('not_found');
  await isHeld(post(turn, 'Another text.'));
});

test('a text that goes by the ledger goes as ever, though a release of the same bytes does not cover the place', async () => {
  await house.approved();
  await acme.conversation('wide', ['ana', 'dan'], { aiThread: true });
  await acme.say('wide', 'ana', 'go on');
  const elsewhere = await acme.turn({ destination: 'wide', requester: 'ana', trigger: '1' });
  const delivery = await isCleared(elsewhere.propose(TEXT));
  const [row] = await gateway.owner<{ artifact: string | null }[]>`
    select artifact_id as artifact from earshot.deliveries where id = ${delivery.id}`;
  expect(row?.artifact).toBeNull();
});
