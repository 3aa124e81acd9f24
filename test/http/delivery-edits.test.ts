import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Delivery, TestTurn } from '../support/organization.ts';
import { enterQueueHouse, type QueueHouse } from './queue-house.ts';

// An edit of a sent message is a delivery too; what becomes of the message's lineage, and of where it may be read.

let gateway: TestGateway;
let house: QueueHouse;
let acme: QueueHouse['acme'];
let turn: QueueHouse['turn'];

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  house = await enterQueueHouse(gateway);
  ({ acme, turn } = house);
  // Another source, of which the first answer knows nothing, and a place to read answers from outside.
  await acme.conversation('aviary', ['ana', 'ben']);
  await acme.say('aviary', 'ben', 'budgerigar');
  await acme.conversation('second', ['ana', 'ben'], { aiThread: true });
  await acme.say('second', 'ana', 'and there');
});

let told = 0;
/** The platform says what the message of an answer is now. */
function arrives(body: string, id = 'answer', more: object = {}) {
  const edited = told++ === 0 ? {} : { editedAt: new Date(Date.now() + told * 1000).toISOString() };
  return acme.put(`conversations/thread/messages/${id}`, {
    ...{ author: { persona: 'assistant' }, body, sentAt: '2050-01-01T00:00:00Z' },
    ...edited,
    ...more,
  });
}

beforeEach(() => {
  told = 0;
});

async function send(delivery: Delivery, message?: string): Promise<void> {
  ok(await acme.release(delivery));
  ok(await acme.acknowledge(delivery, 'delivered', message));
}

/** Answers from the canary, as the message `answer`. */
async function answer(payload = 'The canary sang.'): Promise<Delivery> {
  const delivery = ok(await turn.propose(payload));
  await send(delivery, 'answer');
  return delivery;
}

/** A turn apart from the first, which knows the budgerigar and not the canary, proposes an edit. */
async function proposeEdit(edits: string, payload = 'The budgerigar sang.'): Promise<Delivery> {
  const apart = await turnIn('thread', randomUUID());
  await apart.search('budgerigar');
  const edit = ok(await apart.propose(payload, { edits }));
  expect(edit).toMatchObject({ status: 'cleared', edits });
  return edit;
}

function turnIn(destination: string, threadKey?: string): Promise<TestTurn> {
  return acme.turn({
    ...{ destination, requester: 'ana', trigger: '1' },
    ...(threadKey !== undefined && { threadKey }),
  });
}

/** What is found of the answer from its own thread, and from elsewhere. */
async function found() {
  const search = async (place: string) =>
    (await (await turnIn(place, randomUUID())).search('sang')).join();
  return { home: await search('thread'), elsewhere: await search('second') };
}

const forgets = (source: 'shared' | 'aviary') => acme.remove(`conversations/${source}/members/ben`);

describe('an edit', () => {
  test('names the message that it edits to whoever sends it, and becomes that message', async () => {
    const first = await answer();
    const edit = await proposeEdit(first.id);
    const released = ok(await acme.release(edit));
    expect(released).toMatchObject({
      payload: 'The budgerigar sang.',
      edits: { delivery: first.id, message: 'answer' },
    });
    expect((await acme.acknowledge(edit, 'delivered', 'another')).code).toBe('conflict');
    ok(await acme.acknowledge(edit, 'delivered'));
    ok(await acme.acknowledge(edit, 'delivered', 'answer'));
    expect(await acme.delivery(edit.id)).toMatchObject({
      ...{ status: 'delivered', message: 'answer', edits: first.id },
    });
    expect((await acme.delivery(first.id)).message).toBe('answer');
  });

  test('goes through the queue as well, and a claim says what it edits', async () => {
    const first = await answer();
    ok(await turn.propose('The canary sings.', { edits: first.id, queue: true }));
    const claimed = await house.claimOne();
    expect(claimed.edits).toEqual({ delivery: first.id, message: 'answer' });
    expect(ok(await house.release(claimed)).edits).toEqual(claimed.edits);
  });

  test('that follows an edit edits the same message', async () => {
    const first = await answer();
    const edit = await proposeEdit(first.id);
    await send(edit, 'answer');
    const again = await proposeEdit(edit.id, 'It sang.');
    expect(ok(await acme.release(again)).edits).toEqual({ delivery: edit.id, message: 'answer' });
  });

  test('is of a delivered delivery of the same place and persona, whose message is known', async () => {
    const unsent = ok(await turn.propose('unsent'));
    const released = ok(await turn.propose('released'));
    ok(await acme.release(released));
    const nameless = ok(await turn.propose('nameless'));
    await send(nameless);
    const elsewhere = ok(await turn.propose('elsewhere', { destination: 'room' }));
    await send(elsewhere, 'r1');
    await acme.put('personas/other', { custody: 'service', designated: true });
    const others = await acme.turn({
      ...{ destination: 'thread', requester: 'ana', trigger: '1', persona: 'other' },
    });
    await others.search('canary');
    const ofAnother = ok(await others.propose('of another'));
    await send(ofAnother, 'o1');
    const abroad = await enterQueueHouse(gateway);
    const foreign = ok(await abroad.turn.propose('abroad'));
    ok(await abroad.acme.release(foreign));
    ok(await abroad.acme.acknowledge(foreign, 'delivered', 'answer'));

    const before = await gateway.owner`select from earshot.deliveries`;
    for (const { id } of [
      ...[unsent, released, nameless, elsewhere, ofAnother, foreign],
      { id: randomUUID() },
    ]) {
      expect((await turn.propose('It sang.', { edits: id })).code).toBe('not_found');
    }
    expect(await gateway.owner`select from earshot.deliveries`).toHaveLength(before.length);
    ok(await acme.acknowledge(released, 'delivered', 'known'));
    expect(ok(await turn.propose('It sang.', { edits: released.id })).status).toBe('cleared');
  });

  test('is judged like any delivery: by its own sources, and its own readers', async () => {
    const first = await answer();
    const edit = await proposeEdit(first.id);
    await forgets('aviary');
    expect((await acme.release(edit)).code).toBe('source_revoked');
    expect(await house.rowOf(edit.id)).toMatchObject({ status: 'held', payload: null });
  });
});

describe('the message that was edited', () => {
  test.each(['the report first', 'the platform’s edit first'])(
    'goes on with the edit’s lineage, and may be read elsewhere again: %s',
    async (order) => {
      const first = await answer();
      await arrives('The canary sang.');
      const edit = await proposeEdit(first.id);
      ok(await acme.release(edit));
      if (order === 'the report first') {
        ok(await acme.acknowledge(edit, 'delivered'));
        await arrives('The budgerigar sang.');
      } else {
        await arrives('The budgerigar sang.');
        // Until it is reported, nothing accounts for that text.
        expect(await found()).toEqual({ home: 'The budgerigar sang.', elsewhere: '' });
        ok(await acme.acknowledge(edit, 'delivered'));
      }
      expect(await found()).toEqual({
        ...{ home: 'The budgerigar sang.', elsewhere: 'The budgerigar sang.' },
      });

      // Nothing of the first answer is in it any more.
      await forgets('shared');
      expect(await found()).toEqual({
        ...{ home: 'The budgerigar sang.', elsewhere: 'The budgerigar sang.' },
      });
      await forgets('aviary');
      expect(await found()).toEqual({ home: '', elsewhere: '' });
    },
  );

  test('may come last of all, with the text of its edit', async () => {
    const first = await answer();
    const edit = await proposeEdit(first.id);
    await send(edit);
    told = 1;
    await arrives('The budgerigar sang.');
    await forgets('shared');
    expect(await found()).toEqual({
      ...{ home: 'The budgerigar sang.', elsewhere: 'The budgerigar sang.' },
    });
    await forgets('aviary');
    expect(await found()).toEqual({ home: '', elsewhere: '' });
  });

  test.each(['the report first', 'the platform’s edit first', 'the message last of all'])(
    'stays at home with both lineages where its text is another than the edit’s: %s',
    async (order) => {
      const first = await answer();
      if (order !== 'the message last of all') await arrives('The canary sang.');
      const edit = await proposeEdit(first.id);
      ok(await acme.release(edit));
      if (order === 'the platform’s edit first') await arrives('A budgerigar sang!');
      ok(await acme.acknowledge(edit, 'delivered'));
      told = Math.max(told, 1);
      if (order !== 'the platform’s edit first') await arrives('A budgerigar sang!');

      expect(await found()).toEqual({ home: 'A budgerigar sang!', elsewhere: '' });
      await forgets(order === 'the report first' ? 'shared' : 'aviary');
      expect(await found()).toEqual({ home: '', elsewhere: '' });
    },
  );

  test('stays at home again once a person’s edit followed, with the lineage that it had', async () => {
    const first = await answer();
    await arrives('The canary sang.');
    await send(await proposeEdit(first.id));
    await arrives('The budgerigar sang.');
    await arrives('Nobody sang.');
    expect(await found()).toEqual({ home: 'Nobody sang.', elsewhere: '' });
    await forgets('aviary');
    expect(await found()).toEqual({ home: '', elsewhere: '' });
  });

  test('is what the last of several edits made it', async () => {
    const first = await answer();
    await arrives('The canary sang.');
    const edit = await proposeEdit(first.id);
    await send(edit);
    await arrives('The budgerigar sang.');
    // The third text is of the canary again, which the thread of the first turn knows.
    const third = ok(await turn.propose('The canary sang after all.', { edits: edit.id }));
    await send(third);
    expect(await found()).toEqual({
      ...{ home: 'The budgerigar sang.', elsewhere: 'The budgerigar sang.' },
    });
    await arrives('The canary sang after all.');
    await forgets('aviary');
    expect(await found()).toEqual({
      ...{ home: 'The canary sang after all.', elsewhere: 'The canary sang after all.' },
    });
    await forgets('shared');
    expect(await found()).toEqual({ home: '', elsewhere: '' });
  });

  test('is found from an open place too, from the moment that the edit is known to be a delivery’s', async () => {
    await acme.put('conversations/thread', {
      ...{ kind: 'group', visibility: 'organization', aiThread: true, defaultFloor: '1' },
    });
    for (const source of ['shared', 'aviary']) {
      await acme.put(`conversations/${source}`, {
        ...{ kind: 'group', visibility: 'organization', defaultFloor: '1' },
      });
    }
    const open = await turnIn('thread');
    await open.search('canary');
    const first = ok(await open.propose('The canary sang.'));
    await send(first, 'answer');
    await arrives('The canary sang.');
    const edit = await proposeEdit(first.id);
    ok(await acme.release(edit));
    await arrives('The budgerigar sang.');
    expect((await found()).elsewhere).toBe('');
    ok(await acme.acknowledge(edit, 'delivered'));
    expect((await found()).elsewhere).toBe('The budgerigar sang.');
    await arrives('The budgerigar sang!');
    expect((await found()).elsewhere).toBe('');
  });
});

describe('what was made from a message', () => {
  const copied = async (maker: TestTurn) => {
    const copy = ok(await maker.propose('A copy.'));
    await send(copy, 'copy');
    await acme.put('conversations/thread/messages/copy', {
      ...{ author: { persona: 'assistant' }, body: 'A copy.', sentAt: '2050-01-01T00:00:00Z' },
    });
    return async () => (await (await turnIn('thread', randomUUID())).search('copy')).length;
  };

  test('after its edit came and before that was reported gets the edit’s sources', async () => {
    const first = await answer();
    await arrives('The canary sang.');
    const edit = await proposeEdit(first.id);
    ok(await acme.release(edit));
    await arrives('The budgerigar sang.');
    const reader = await turnIn('thread', 'apart');
    expect(await reader.search('sang')).toEqual(['The budgerigar sang.']);
    const copies = await copied(reader);
    ok(await acme.acknowledge(edit, 'delivered'));

    expect(await copies()).toBe(1);
    await forgets('aviary');
    expect(await copies()).toBe(0);
  });

  test('before its edit came keeps to the sources that it had', async () => {
    const first = await answer();
    await arrives('The canary sang.');
    const reader = await turnIn('thread', 'apart');
    expect(await reader.search('sang')).toEqual(['The canary sang.']);
    const copies = await copied(reader);
    await send(await proposeEdit(first.id));
    await arrives('The budgerigar sang.');

    await forgets('aviary');
    // The message itself is among its sources, and is read by nobody now.
    expect(await copies()).toBe(1);
    await forgets('shared');
    expect(await copies()).toBe(0);
  });
});
