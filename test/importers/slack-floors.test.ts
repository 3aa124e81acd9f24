import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openExport } from '../../gateway/importers/export-source.ts';
import { importFacts } from '../../gateway/importers/import-engine.ts';
import { readSlackExport } from '../../gateway/importers/slack.ts';
import { externalId } from '../../policy/identity.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import {
  type Conversations,
  type Messages,
  type TestOrganization,
  type TestTurn,
} from '../support/organization.ts';
import { FROM_JOIN } from '../support/slack-export.ts';
import { plainSlack, type PlainConversation } from '../support/slack-plain.ts';

const EXPORT = fileURLToPath(
  new URL('../../../shared/data/slack_houstondatavis/export', import.meta.url),
);
const isThere = existsSync(EXPORT);
if (!isThere) console.log('Left out: the real Slack export is not at ../shared/data.');

type Item = Messages['items'][number];

/** A member of a channel, with the floor that the plain re-reading of the export gives. */
interface Pair {
  readonly channel: PlainConversation;
  readonly user: string;
  readonly floor: number;
}

const TITLE = 'a real Slack export, imported with history from the join';

describe.runIf(isThere)(TITLE, { timeout: 120_000 }, () => {
  const channels = isThere ? plainSlack(EXPORT) : [];
  const everyPair: Pair[] = channels.flatMap((channel) =>
    channel.members.map(({ user, floor = Number.POSITIVE_INFINITY }) => ({ channel, user, floor })),
  );
  const gone = isThere ? deactivated() : new Set<string>();
  const pairs = everyPair.filter(({ user }) => !gone.has(user));
  const people = [...new Set(pairs.map(({ user }) => user))].sort();
  const late = pairs.filter(({ floor }) => floor > 1);
  let host: TestGateway;
  let company: TestOrganization;
  /** For each person a turn in a private AI thread of their own: its scope is what that person reads. */
  const turns = new Map<string, TestTurn>();
  const bodies = new Map<string, string>();

  beforeAll(async () => {
    host = await openTestGateway({ LEASE_SECONDS: '600' });
    company = await host.organization('houston');
    const { database } = host.gateway;
    const target = { database, organization: externalId('houston'), source: externalId('slack') };
    const files = await openExport(EXPORT);
    const facts = readSlackExport(files, FROM_JOIN);
    const { report } = await importFacts({ ...target, editsAreDated: true }, facts);
    await files.close();
    expect(report.failed).toEqual([]);
    for (const user of people) {
      const destination = notesOf(user);
      const thread = { kind: 'private', aiThread: true, owner: user };
      await company.conversation(destination, [user], thread);
      turns.set(
        user,
        await company.turn({ destination, requester: user, trigger: { kind: 'schedule' } }),
      );
    }
    const rows = await host.owner<{ place: string; seq: string; body: string }[]>`
      select c.external_id as place, m.seq, m.body from earshot.messages m
      join earshot.conversations c on c.org_id = m.org_id and c.id = m.conversation_id`;
    for (const { place, seq, body } of rows) bodies.set(`${place}/${seq}`, body);
  });
  afterAll(() => host.close());

  const notesOf = (user: string) => `notes-${user}`;
  const turnOf = (user: string): TestTurn => {
    const turn = turns.get(user);
    if (turn === undefined) throw new Error('no turn for this person');
    return turn;
  };

  /** All pages of a tool, in order. */
  async function all(user: string, tool: string, args: object): Promise<Item[]> {
    const items: Item[] = [];
    let cursor: string | undefined;
    do {
      const page = ok(
        await turnOf(user).tool(tool, { limit: 100, ...args, ...(cursor && { cursor }) }),
      );
      items.push(...page.items);
      cursor = page.cursor;
    } while (cursor !== undefined);
    return items;
  }

  test('the whole export is there: 71 people, 16 channels, 1,382 messages, and most joins are late', async () => {
    const [counts] = await host.owner`
      select (select count(*) from earshot.users) as users, (select count(*) from earshot.messages) as messages,
        (select count(*) from earshot.conversations where kind = 'channel' and not staged) as channels`;
    expect(counts).toEqual({ users: '71', messages: '1382', channels: '16' });
    expect(everyPair.length).toBe(201);
    expect(late.length).toBeGreaterThan(180);
  });

  test('somebody who was deactivated reads nothing, member or not', async () => {
    const members = everyPair.filter(({ user }) => gone.has(user));
    expect(members.length).toBeGreaterThan(0);
    for (const { user } of members) {
      const destination = notesOf(user);
      await company.conversation(destination, [user], {
        kind: 'private',
        aiThread: true,
        owner: user,
      });
      const request = { destination, requester: user, trigger: { kind: 'schedule' } };
      expect((await company.openTurn(request)).code).toBe('not_found');
    }
  });

  test('every member lists exactly the channels joined, from the join on, and counts no earlier message', async () => {
    for (const user of people) {
      const { items } = ok(
        await turnOf(user).tool<Conversations>('list_conversations', { limit: 100 }),
      );
      const listed = items
        .filter(({ conversation }) => conversation !== notesOf(user))
        .map(({ conversation, messages, latestAt, envelope }) => ({
          conversation,
          messages: Number(messages),
          latest: latestAt === undefined ? undefined : Date.parse(latestAt) / 1000,
          fromSeq: Number(envelope.history.fromSeq),
        }));
      const joined = pairs
        .filter((pair) => pair.user === user)
        .map(({ channel, floor }) => {
          const visible = channel.messages.slice(floor - 1);
          const latest = visible.at(-1)?.ts;
          return {
            conversation: channel.id,
            messages: visible.length,
            latest: latest === undefined ? undefined : Math.floor(Number(latest) * 1000) / 1000,
            fromSeq: floor,
          };
        })
        .sort((a, b) => (a.conversation < b.conversation ? -1 : 1));
      expect(listed).toEqual(joined);
    }
  });

  test('every member pages through exactly the messages from the join on', async () => {
    for (const { channel, user, floor } of pairs) {
      const read = await all(user, 'read', { conversation: channel.id });
      const visible = channel.messages.slice(floor - 1);
      expect(read.map(({ source }) => [source.id, Number(source.seq)])).toEqual(
        visible.map(({ ts, seq }) => [ts, seq]),
      );
      for (const item of read) {
        expect(item.text).toBe(bodies.get(`${channel.id}/${item.source.seq}`));
        if (item.replyTo) expect(Number(item.replyTo.seq)).toBeGreaterThanOrEqual(floor);
      }
    }
  });

  test('reading backward or around never goes below the floor, and what is below is not found', async () => {
    for (const { channel, user, floor } of late) {
      const turn = turnOf(user);
      const place = { conversation: channel.id };
      const below = {
        ...place,
        fromSeq: (floor - 1).toString(),
        direction: 'backward',
        limit: 100,
      };
      expect(ok(await turn.tool('read', below)).items).toEqual([]);
      const hidden = { ...place, seq: (floor - 1).toString(), before: 50, after: 50 };
      expect((await turn.tool('around', hidden)).code).toBe('not_found');
      expect((await turn.tool('thread', { ...place, seq: hidden.seq })).code).toBe('not_found');
      if (floor > channel.messages.length) continue;
      const first = { ...place, seq: floor.toString(), before: 50, after: 50 };
      const around = ok(await turn.tool('around', first)).items;
      expect(around.map(({ source }) => Number(source.seq))).toEqual(
        channel.messages.slice(floor - 1, floor + 50).map(({ seq }) => seq),
      );
    }
  });

  test('a channel that somebody has not joined is not found', async () => {
    for (const user of people) {
      for (const { id, members } of channels) {
        if (members.some((member) => member.user === user)) continue;
        const answer = await turnOf(user).tool('read', { conversation: id, limit: 1 });
        expect(answer.code).toBe('not_found');
      }
    }
  });

  test('searching for words from before the join finds the later messages alone', async () => {
    let hidden = 0;
    for (const { channel, user, floor } of late) {
      for (const word of wordsBefore(channel, floor)) {
        const matching = await host.owner<{ seq: string }[]>`
          select m.seq from earshot.messages m
          join earshot.conversations c on c.org_id = m.org_id and c.id = m.conversation_id
          where c.external_id = ${channel.id} and m.terms @@ websearch_to_tsquery('english', ${word})
          order by m.seq`;
        const seqs = matching.map(({ seq }) => Number(seq));
        hidden += seqs.filter((seq) => seq < floor).length;
        const found = await all(user, 'search', { query: word, conversation: channel.id });
        expect(found.map(({ source }) => Number(source.seq)).sort((a, b) => a - b)).toEqual(
          seqs.filter((seq) => seq >= floor),
        );
        for (const { text, source, highlights = [] } of found) {
          expect(text).toBe(bodies.get(`${channel.id}/${source.seq}`));
          for (const { start, end } of highlights) {
            expect(text.slice(start, end).toLowerCase()).toContain(word.slice(0, 3));
          }
        }
      }
    }
    // The words are in what is hidden: a search without the floor would have found it.
    expect(hidden).toBeGreaterThan(late.length);
  });

  test('a search over everything that a person reads finds nothing below any of the floors', async () => {
    const floors = new Map(
      pairs.map(({ channel, user, floor }) => [`${channel.id} ${user}`, floor]),
    );
    for (const user of people) {
      const found = await all(user, 'search', { query: 'data or houston or meetup or channel' });
      for (const { source } of found) {
        const floor = floors.get(`${source.conversation} ${user}`);
        expect(floor).toBeDefined();
        expect(Number(source.seq)).toBeGreaterThanOrEqual(floor ?? Number.POSITIVE_INFINITY);
      }
    }
  });
});

function deactivated(): Set<string> {
  const users = JSON.parse(readFileSync(join(EXPORT, 'users.json'), 'utf8')) as {
    id: string;
    deleted?: boolean;
  }[];
  return new Set(users.filter((user) => user.deleted === true).map((user) => user.id));
}

/** The most frequent long word before a floor, and the last one. */
function wordsBefore({ messages }: PlainConversation, floor: number): string[] {
  const counts = new Map<string, number>();
  for (const { text } of messages.slice(0, floor - 1)) {
    for (const word of text.toLowerCase().match(/(?<=^|\s)[a-z]{5,}(?=\s|$)/g) ?? []) {
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
  }
  const [frequent] = [...counts].sort(([, a], [, b]) => b - a)[0] ?? [];
  const last = [...counts.keys()].at(-1);
  return [...new Set([frequent, last])].filter((word) => word !== undefined);
}
