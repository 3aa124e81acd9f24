import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sha256Hex } from '../../policy/canonical.ts';
import { ok, openTestGateway, type Answer, type TestGateway } from '../support/gateway.ts';
import { entry, logOf, text } from '../support/log.ts';
import type {
  Conversations,
  Delivery,
  TestOrganization,
  TestTurn,
} from '../support/organization.ts';

// One chain from a source to whoever might have it: found, summarized, saved, found again, answered, disclosed, erased. Every
// way out is asked as an audience that has the source, which shows that the question would tell, and as one that lacks it.

/** A word that occurs in nothing but the source and what is made from it. */
const CANARY = 'xanthopsia';
const SUMMARY = `In short: ${CANARY}, and soon.`;
const ANSWER = `They say ${CANARY}.`;

let gateway: TestGateway;
let acme: TestOrganization;
let summary: { id: string; textSha256: string; decision: string };
let answered: Delivery;

/** A turn of a session of its own. */
const start = (destination: string, trigger: string | object = '1') =>
  acme.turn({ destination, requester: 'ana', trigger, threadKey: randomUUID() });

beforeAll(async () => {
  gateway = await openTestGateway();
  acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('notes', ['ana', 'ben']);
  for (const place of ['team', 'side']) {
    await acme.conversation(place, ['ana', 'ben'], { aiThread: true });
    await acme.say(place, 'ana', 'what is it?');
  }
  await acme.conversation('room', ['ana', 'ben', 'cleo'], { aiThread: true });
  await acme.say('room', 'ana', 'what is it?');
  await acme.put('conversations/notes/messages/n1', {
    author: { user: 'ben' },
    body: `It will be ${CANARY}.`,
    sentAt: '2026-01-01T00:00:00Z',
  });
});
afterAll(() => gateway.close());

/** Each way in which something reaches an agent: all that the agent is given. */
const WAYS: Readonly<Record<string, (turn: TestTurn) => Promise<Answer>>> = {
  search: (turn) => turn.tool('search', { query: CANARY }),
  'a search for artifacts': (turn) =>
    turn.tool('search', { query: CANARY, kind: 'artifact', total: true }),
  'a search in its home': (turn) =>
    turn.tool('search', { query: CANARY, conversation: 'team', kind: 'artifact' }),
  'a search by a word’s beginning': (turn) =>
    turn.tool('search', { query: `${CANARY.slice(0, 5)}*` }),
  'its address': ({ grant }) =>
    gateway.send('GET', `/v1/artifacts/${summary.id}`, { token: grant.token }),
  'a read of it': (turn) => turn.tool('read', { artifact: summary.id }),
  'a read of its home': (turn) => turn.tool('read', { conversation: 'team' }),
  'a read of its home, backward': (turn) =>
    turn.tool('read', { conversation: 'team', direction: 'backward' }),
  'what stands around the question': (turn) =>
    turn.tool('around', { conversation: 'team', seq: '1' }),
  'the replies to the question': (turn) => turn.tool('thread', { conversation: 'team', seq: '1' }),
  'several calls at once': ({ grant }) =>
    gateway.send('POST', '/v1/retrieve', {
      token: grant.token,
      json: {
        calls: [
          { tool: 'search', arguments: { query: CANARY } },
          { tool: 'read', arguments: { artifact: summary.id } },
        ],
      },
    }),
  'a compile of what was retrieved and stored': async (turn) => {
    const { sessionId, audienceHash, token } = turn.grant;
    const calls = [{ tool: 'search', arguments: { query: CANARY } }];
    const path = `/v1/retrieve?session=${sessionId}&audience=${audienceHash}`;
    ok(await gateway.send('POST', path, { token, json: { calls, store: true } }));
    return logOf(gateway, turn).compile();
  },
};

/** Each way in which the artifact is taken for a source, which is refused where it is not there. */
const NAMINGS: Readonly<Record<string, (turn: TestTurn) => Promise<Answer>>> = {
  'an entry of a log': (turn) =>
    logOf(gateway, turn).tryAppend([
      { ...entry(text('in short')), sources: [{ artifact: summary.id }] },
    ]),
  'an injection of a host': (turn) =>
    logOf(gateway, turn).inject({
      source: 'host',
      parts: [{ text: 'in short', sources: [{ artifact: summary.id }] }],
    }),
  'a compile with an injection of a host': (turn) =>
    logOf(gateway, turn).compile({
      injections: [
        {
          ...{ source: 'host', placement: 'each_compile' as const },
          parts: [{ text: 'in short', sources: [{ artifact: summary.id }] }],
        },
      ],
    }),
};

const tells = ({ body }: Answer) => {
  const told = JSON.stringify(body).replaceAll('\\u0001', '').replaceAll('\\u0002', '');
  return told.includes(CANARY) || told.includes(summary.id);
};

/** The ways that tell of it to this turn; a fault counts as one. */
async function telling(turn: TestTurn): Promise<string[]> {
  const told: string[] = [];
  for (const [way, ask] of Object.entries(WAYS)) {
    const answer = await ask(turn);
    if (answer.status >= 500 || tells(answer)) told.push(way);
  }
  for (const [way, ask] of Object.entries(NAMINGS)) {
    const { status, code } = await ask(turn);
    if (status !== 404 || code !== 'not_found') told.push(way);
  }
  return told;
}

/** How many messages of its home are listed, and how many hits a search counts. */
async function counts(turn: TestTurn) {
  const { items } = ok(await turn.tool<Conversations>('list_conversations', {}));
  const { total } = ok(await turn.tool('search', { query: CANARY, total: true }));
  const home = items.find(({ conversation }) => conversation === 'team');
  return { listed: home?.messages, hits: total?.messages };
}

/** The tables in which the word stands. */
async function keeping(): Promise<string[]> {
  const tables = await gateway.owner<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'earshot'::regnamespace and relkind = 'r' order by 1`;
  const found: string[] = [];
  for (const { name } of tables) {
    const [row] = await gateway.owner.unsafe<{ found: boolean }[]>(
      `select exists (select from earshot.${name} t where t::text ilike '%${CANARY}%'
         or t::text ilike '%${Buffer.from(CANARY).toString('hex')}%') as found`,
    );
    if (row?.found) found.push(name);
  }
  return found;
}

const EVERY_WAY = [...Object.keys(WAYS), ...Object.keys(NAMINGS)];

describe('a source is found, summarized and answered from', () => {
  test('the summary is saved with what the turn was shown', async () => {
    const turn = await start('team');
    expect(await turn.search(CANARY)).toEqual([`It will be ${CANARY}.`]);
    summary = ok(
      await gateway.send('POST', '/v1/artifacts', {
        ...{ token: turn.grant.token, key: 'summary' },
        json: { kind: 'summary', title: 'What it will be', text: SUMMARY },
      }),
    ) as typeof summary;
    answered = ok(await turn.propose(ANSWER));
    ok(await acme.release(answered));
    await acme.put('conversations/team/messages/a1', {
      ...{ author: { persona: 'assistant' }, body: ANSWER, sentAt: '2026-01-02T00:00:00Z' },
      replyTo: await idOf('team', '1'),
    });
    ok(await acme.acknowledge(answered, 'delivered', 'a1'));
    const [decision] = await decisions('artifact');
    expect(decision).toMatchObject({
      ...{ id: summary.decision, verdict: 'allowed', code: null, subject: sha256Hex(SUMMARY) },
    });
  });

  test.each(['team', 'side'])('the same audience has it every way: in %s', async (place) => {
    expect(await telling(await start(place))).toEqual(EVERY_WAY);
    expect(await counts(await start(place))).toEqual({ listed: '2', hits: '3' });
  });
});

describe('an audience that lacks the source', () => {
  test('has it no way: elsewhere', async () => {
    expect(await telling(await start('room'))).toEqual([]);
    expect(await counts(await start('room'))).toEqual({ listed: undefined, hits: '0' });
  });

  test('has it no way: where it was made, once one more person reads there, however far back', async () => {
    await acme.put('conversations/team/members/cleo', { history: { fromSeq: '1' } });
    for (const place of ['team', 'room']) {
      const turn = await start(place);
      expect([place, await telling(turn)]).toEqual([place, []]);
      // The question is there, and the answer is not.
      expect([place, await counts(turn)]).toEqual([place, { listed: '1', hits: '0' }]);
    }
    await acme.put('conversations/notes/members/cleo', { history: { fromSeq: '2' } });
    expect(await telling(await start('room'))).toEqual([]);
  });

  test('has it every way as soon as it has the source', async () => {
    await acme.put('conversations/notes/members/cleo', { history: { fromSeq: '1' } });
    for (const place of ['team', 'room']) {
      expect([place, await telling(await start(place))]).toEqual([place, EVERY_WAY]);
    }
    await acme.remove('conversations/notes/members/cleo');
    expect(await telling(await start('room'))).toEqual([]);
  });
});

describe('a disclosure of the summary', () => {
  let turn: TestTurn;

  test('to where one reader lacks the source is held, and the decision says so without the text', async () => {
    await acme.remove('conversations/team/members/cleo');
    turn = await start('side');
    ok(await turn.tool('read', { artifact: summary.id }));
    const held = ok(await turn.propose(SUMMARY, { destination: 'room' }));
    expect(held).toMatchObject({
      ...{ status: 'held', code: 'source_revoked', recovery: 'ask_owner', destination: 'room' },
    });
    expect(held).not.toHaveProperty('clearance');
    const released = await acme.release({ id: held.id, clearance: answered.clearance ?? '' });
    expect(released.status).not.toBe(200);
    expect(tells(released)).toBe(false);

    const decision = (await decisions('propose')).find(({ delivery }) => delivery === held.id);
    expect(decision).toMatchObject({
      ...{ verdict: 'refused', code: 'source_revoked', turn: turn.id },
      subject: sha256Hex(SUMMARY),
    });
    expect(JSON.stringify(decision)).not.toContain(CANARY);
  });

  test('to where all readers have it is cleared, and so is another text to the same room', async () => {
    const cleared = ok(await turn.propose(SUMMARY, { destination: 'team' }));
    expect(cleared.status).toBe('cleared');
    expect(ok(await acme.release(cleared)).payload).toBe(SUMMARY);
    const other = ok(await (await start('room')).propose('Nothing of it.'));
    expect(other.status).toBe('cleared');
  });
});

describe('once the source is deleted', () => {
  test('it reaches nobody, and is kept nowhere', async () => {
    const before = await start('side');
    expect(await telling(before)).toEqual(EVERY_WAY);
    const waiting = ok(await before.propose(SUMMARY));
    expect(waiting.status).toBe('cleared');
    const kept = await keeping();
    expect(kept).toEqual(
      expect.arrayContaining(['artifacts', 'deliveries', 'log_entries', 'messages']),
    );

    await acme.remove('conversations/notes/messages/n1');

    for (const place of ['team', 'side', 'room']) {
      expect([place, await telling(await start(place))]).toEqual([place, []]);
    }
    expect((await acme.release(waiting)).code).toBe('source_revoked');
    // The session that had it goes no further.
    expect((await logOf(gateway, before).compile()).code).toBe('source_revoked');
    expect(await keeping()).toEqual([]);
  });

  test('its lineage says what was made from it and where that went', async () => {
    const path = `/v1/lineage?organization=${acme.name}&conversation=notes&seq=1`;
    const told = ok(await gateway.send('GET', path, { token: gateway.tokens.operator }));
    expect(told).toMatchObject({
      message: { state: 'deleted' },
      derived: [{ artifact: summary.id, how: 'direct', state: 'deleted', stale: true }],
    });
    expect((told as { deliveries: object[] }).deliveries).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ id: answered.id, status: 'delivered', message: 'a1' }) as object,
      ]),
    );
    expect(JSON.stringify(told)).not.toContain(CANARY);
  });
});

async function idOf(conversation: string, seq: string): Promise<string> {
  const { items } = ok(await (await start(conversation)).tool('read', { conversation }));
  return items.find(({ source }) => source.seq === seq)?.source.id ?? '';
}

function decisions(kind: string) {
  return gateway.owner<
    { id: string; verdict: string; code: string; subject: string; delivery: string; turn: string }[]
  >`
    select id, verdict, code, encode(subject_sha256, 'hex') as subject, delivery_id as delivery, turn_id as turn, detail
    from earshot.decisions d
    where kind = ${kind} and org_id = (select id from earshot.organizations where external_id = ${acme.name})
    order by decided_at`;
}
