import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openExport } from '../../gateway/importers/export-source.ts';
import { readSlackExport } from '../../gateway/importers/slack.ts';
import type { Fact } from '../../policy/fact.ts';
import {
  ALL,
  FROM_JOIN,
  conversationOf,
  filesUnder,
  historyOf,
  importPath,
  membersOf,
  messagesOf,
  skipped,
  zipOf,
  type Import,
} from '../support/slack-export.ts';
import { plainSlack } from '../support/slack-plain.ts';

const ROOT = join(import.meta.dirname, '../..');
const HARBOR = join(ROOT, 'fixtures/slack/harbor');
const REAL = join(ROOT, '../shared/data/slack_houstondatavis/export');

const micros = (ts: string) => BigInt(ts.replace('.', ''));

/** Every fact agrees with the plain reading: order, members and where each member begins to read. */
function expectPlainReading(facts: readonly Fact[], path: string): void {
  for (const plain of plainSlack(path)) {
    const messages = messagesOf(facts, plain.id);
    expect(messages.map(({ id }) => id)).toEqual(plain.messages.map(({ ts }) => ts));
    expect(messages.map(({ sentAt }) => sentAt)).toEqual(
      plain.messages.map(({ ts }) => micros(ts)),
    );
    expect(membersOf(facts, plain.id)).toEqual(
      plain.members.map(({ user, joinTs }) => ({
        user,
        history:
          plain.list === 'dms' || plain.list === 'mpims'
            ? 'all'
            : joinTs === undefined
              ? 'none'
              : { fromTime: micros(joinTs) },
      })),
    );
    for (const { user, floor } of plain.members) {
      const history = historyOf(facts, plain.id, user);
      const from =
        typeof history === 'object' && 'fromTime' in history ? history.fromTime : undefined;
      const first =
        from === undefined ? undefined : 1 + messages.filter(({ sentAt }) => sentAt < from).length;
      expect(history === 'all' ? 1 : first).toBe(floor);
    }
  }
}

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'earshot-slack-'));
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

describe('a real export', () => {
  it('gives its 71 users, 16 channels and 1,382 messages, and the plain reading’s floors', async (test) => {
    test.skip(!existsSync(REAL), 'the real export is not beside this checkout');
    const { facts, report } = await importPath(REAL, FROM_JOIN);
    expect(facts.filter((fact) => fact.fact === 'user')).toHaveLength(71);
    expect(facts.filter((fact) => fact.fact === 'conversation')).toHaveLength(16);
    expect(messagesOf(facts)).toHaveLength(1382);
    expect(report.counts.users).toEqual({ member: 71, guest: 0, bot: 0 });
    expect(report.counts.deactivatedUsers).toBe(1);
    expect(report.counts.messages).toEqual({ live: 994, edited: 37, deleted: 0, event: 351 });
    expect(report.withoutJoin).toEqual([]);
    expect(report.unresolvedMembers).toEqual([]);
    expect(report.withoutMembers).toHaveLength(9);
    expect(report.skipped.map(({ what }) => what)).toEqual(['file']);
    expectPlainReading(facts, REAL);
  });

  it('leaves no export token, no markup and no quoted word of another message in a body', async (test) => {
    test.skip(!existsSync(REAL), 'the real export is not beside this checkout');
    const { facts } = await importPath(REAL, ALL);
    const bodies = messagesOf(facts).map(({ body }) => body);
    expect(bodies.filter((body) => /xox[a-z]-|<@|<#|<http|&amp;|&lt;/.test(body))).toEqual([]);
    const pin = messagesOf(facts).find(({ id }) => id === '1444755463.000006');
    expect(pin?.embeds).toEqual([{ conversation: 'C061A0WJG', message: '1444755381.000003' }]);
    expect(pin?.body).toMatch(/pinned a message to this channel\.\n\[message\]$/);
  });

  it('gives the same facts from a folder, from the folder around it, and from a zip', async (test) => {
    test.skip(!existsSync(REAL), 'the real export is not beside this checkout');
    const zip = await zipOf(scratch, await filesUnder(REAL), 'real.zip');
    const folder = await importPath(REAL, FROM_JOIN);
    expect(await importPath(zip, FROM_JOIN)).toEqual(folder);
    expect(await importPath(join(REAL, '..'), FROM_JOIN)).toEqual(folder);
  });
});

describe('the fixture', () => {
  let fromJoin: Import;
  let all: Import;
  beforeAll(async () => {
    fromJoin = await importPath(HARBOR, FROM_JOIN);
    all = await importPath(HARBOR, ALL);
  });
  const general = (ts: string) =>
    messagesOf(fromJoin.facts, 'C0GENERAL1').find(({ id }) => id.endsWith(ts));

  it('comes as users, then each conversation staged, with messages, members and its opening', () => {
    const kinds = fromJoin.facts.map(({ fact }) => fact).join(' ');
    expect(kinds).toMatch(/^(user )+(conversation (message )*members open ?)+$/);
    for (const fact of fromJoin.facts) {
      if (fact.fact === 'conversation') expect(fact.staged).toBe(true);
    }
  });

  it('agrees with the plain reading on order, members and floors', () => {
    expectPlainReading(fromJoin.facts, HARBOR);
  });

  it('gives the same facts from a zip, also one with a folder around the export', async () => {
    const files = await filesUnder(HARBOR);
    expect(await importPath(await zipOf(scratch, files, 'harbor.zip'), FROM_JOIN)).toEqual(
      fromJoin,
    );
    const wrapped = Object.fromEntries(
      Object.entries(files).map(([name, bytes]) => [`Harbor export/${name}`, bytes]),
    );
    wrapped['__MACOSX/Harbor export/._users.json'] = Buffer.from('resource fork');
    expect(await importPath(await zipOf(scratch, wrapped, 'wrapped.zip'), FROM_JOIN)).toEqual(
      fromJoin,
    );
  });

  it('tells members, guests, bots and the deactivated apart', () => {
    const users = fromJoin.facts.filter((fact) => fact.fact === 'user');
    expect(users.map(({ id, kind, status }) => [id, kind, status])).toEqual([
      ['U0ALMA0001', 'member', 'active'],
      ['U0BRUNO001', 'member', 'active'],
      ['U0CHIYO001', 'guest', 'active'],
      ['U0DAVID001', 'guest', 'active'],
      ['U0ELIF0001', 'member', 'deactivated'],
      ['U0FENJA001', 'member', 'active'],
      ['U0GUSTAV01', 'member', 'active'],
      ['U0CIBOT001', 'bot', 'active'],
      ['U0BRIDGE01', 'bot', 'active'],
      ['B0HOOK0001', 'bot', 'active'],
    ]);
    expect(fromJoin.report.counts.users).toEqual({ member: 5, guest: 2, bot: 3 });
    expect(skipped(fromJoin.report, 'user', 'belongs to another workspace')?.examples).toEqual([
      'U0OUTSIDE1',
    ]);
  });

  it('tells public channels, private channels, and direct messages of two or more apart', () => {
    const shape = (id: string) => {
      const fact = conversationOf(fromJoin.facts, id);
      return [fact?.kind, fact?.visibility, fact?.owner, fact?.title, fact?.archived];
    };
    expect(shape('C0GENERAL1')).toEqual(['channel', 'members', undefined, 'general', false]);
    expect(shape('C0MEETUP02')).toEqual(['channel', 'members', undefined, 'meetup-', false]);
    expect(shape('C0OLDNEWS1')).toEqual(['channel', 'members', undefined, 'old-news', true]);
    expect(shape('G0LAUNCH01')).toEqual(['group', 'members', 'U0ALMA0001', 'launch-plan', false]);
    expect(shape('G0MPIM0001').slice(0, 3)).toEqual(['group', 'members', 'U0ALMA0001']);
    expect(shape('D0ALMABRU1')).toEqual(['direct', 'members', undefined, undefined, false]);
    expect(fromJoin.report.counts.conversations).toEqual({
      private: 0,
      group: 2,
      channel: 8,
      direct: 3,
    });
  });

  it('opens public channels to the organization only when asked to, and nothing else', async () => {
    const { facts } = await importPath(HARBOR, { history: 'all', openChannels: true });
    const open = facts.filter((f) => f.fact === 'conversation' && f.visibility !== 'members');
    expect(open).toHaveLength(8);
    expect(open.every((f) => f.fact === 'conversation' && f.kind === 'channel')).toBe(true);
  });

  it('marks what people outside can read: shared, with an outsider, or ungated by a named relay', async () => {
    const external = ({ facts }: Import) =>
      facts.flatMap((f) => (f.fact === 'conversation' && f.externalReaders ? [f.id] : []));
    expect(external(fromJoin)).toEqual(['C0PARTNER1', 'C0OUTSIDE1']);
    for (const name of ['U0BRIDGE01', 'B0BRIDGE01']) {
      const told = await importPath(HARBOR, { ...FROM_JOIN, relayBots: [name] });
      expect(external(told)).toEqual(['C0PARTNER1', 'C0OUTSIDE1', 'C0BRIDGED1']);
      expect(told.report.externalReaders.at(-1)?.because).toEqual(['relay_bot']);
    }
    const hook = await importPath(HARBOR, { ...FROM_JOIN, relayBots: ['B0HOOK0001'] });
    expect(external(hook)).toEqual(['C0GENERAL1', 'C0PARTNER1', 'C0OUTSIDE1']);
  });

  it('reads nothing at all when a relay is named that is not in it', async () => {
    const source = await openExport(HARBOR);
    const facts = readSlackExport(source, { ...FROM_JOIN, relayBots: ['B0HOOK0001', 'B0TYPO'] });
    await expect(facts.next()).rejects.toMatchObject({ code: 'unknown_relay_bot' });
    await source.close();
  });

  it('keeps a member whom no list of users knows, and says so', () => {
    expect(membersOf(fromJoin.facts, 'C0GHOSTED1').map(({ user }) => user)).toContain('U0GHOST001');
    expect(fromJoin.report.unresolvedMembers).toEqual([
      { conversation: 'C0PARTNER1', user: 'U0OUTSIDE1' },
      { conversation: 'C0OUTSIDE1', user: 'U0OUTSIDE1' },
      { conversation: 'C0GHOSTED1', user: 'U0GHOST001' },
    ]);
  });

  it('takes absent and empty member lists as empty, and says so', () => {
    expect(membersOf(fromJoin.facts, 'C0MEETUP02')).toEqual([]);
    expect(membersOf(fromJoin.facts, 'C0OLDNEWS1')).toEqual([]);
    expect(fromJoin.report.withoutMembers).toEqual([
      { conversation: 'C0MEETUP02', archived: false },
      { conversation: 'C0OLDNEWS1', archived: true },
    ]);
  });

  it('begins a rejoined member at the latest join, and a member without a join at nothing', () => {
    const { facts, report } = fromJoin;
    expect(historyOf(facts, 'C0GENERAL1', 'U0BRUNO001')).toEqual({ fromTime: 1614676560002800n });
    expect(historyOf(facts, 'G0LAUNCH01', 'U0BRUNO001')).toEqual({ fromTime: 1614686400000700n });
    expect(historyOf(facts, 'G0LAUNCH01', 'U0DAVID001')).toEqual({ fromTime: 1614600180000500n });
    expect(historyOf(facts, 'C0GENERAL1', 'U0GUSTAV01')).toBe('none');
    expect(report.withoutJoin).toContainEqual({ conversation: 'C0GENERAL1', user: 'U0GUSTAV01' });
    // Bots read nothing, so the missing join of one is no news.
    expect(report.withoutJoin.map(({ user }) => user)).not.toContain('U0CIBOT001');
  });

  it('gives members of direct messages everything in both modes, and everybody everything with `all`', () => {
    for (const id of ['D0ALMABRU1', 'D0ALMASELF', 'G0MPIM0001']) {
      expect(membersOf(fromJoin.facts, id).every(({ history }) => history === 'all')).toBe(true);
    }
    const histories = all.facts.flatMap((f) => (f.fact === 'members' ? f.members : []));
    expect(histories.every(({ history }) => history === 'all')).toBe(true);
    expect(all.report.withoutJoin).toEqual([]);
  });

  it('lists the one person of a direct message with oneself once, and Slackbot never', () => {
    for (const id of ['D0ALMASELF', 'D0ALMASLBT']) {
      expect(membersOf(fromJoin.facts, id)).toEqual([{ user: 'U0ALMA0001', history: 'all' }]);
    }
  });

  it('orders by the two integers of a ts, where numbers and text would not', () => {
    expect(messagesOf(fromJoin.facts, 'C0MEETUP01').map(({ id }) => id)).toEqual([
      '999999999.000900',
      '1614762000.000100',
      '34359738368.000001',
      '34359738368.000002',
      '34359738368.000003',
    ]);
  });

  it('never lets a word of a quoted message into another conversation', () => {
    const carriers = fromJoin.facts.filter((fact) =>
      JSON.stringify(fact, (_, value: unknown) => (typeof value === 'bigint' ? 0 : value)).includes(
        'PERIWINKLE',
      ),
    );
    expect(carriers.map((f) => f.fact === 'message' && f.conversation)).toEqual([
      'G0LAUNCH01',
      'G0LAUNCH01',
    ]);
  });

  it('turns a shared message into an embed', () => {
    expect(general('.001200')?.body).toBe('Look what they decide over there\n[message]');
    expect(general('.001200')?.embeds).toEqual([
      { conversation: 'G0LAUNCH01', message: '1614600060.000300' },
    ]);
  });

  it('turns permalinks in a text into embeds, labels and all, also to places outside the export', () => {
    expect(general('.001300')?.body).toBe('see [message] and [message].');
    expect(general('.001300')?.embeds).toEqual([
      { conversation: 'G0LAUNCH01', message: '1614600120.000400' },
      { conversation: 'C0ELSEWHER', message: '1614600000.000100' },
    ]);
  });

  it('writes links, mentions and escapes out as plain text', () => {
    expect(general('.000300')?.body).toBe(
      'Morning! Timetable draft: spring plan (https://ferry.example/plan?a=1&b=2), mail desk@ferry.example',
    );
    expect(general('.000500')?.body).toBe(
      '@here tides < 2 m & wind > 6: ask @Chiyo (guest) or @nobody in #meetup, not #G0LAUNCH01',
    );
  });

  it('keeps edits, tombstones and threads', () => {
    expect(general('.000600')).toMatchObject({ editedAt: 1614589500000000n });
    expect(general('.000700')).toMatchObject({ deleted: true, body: '' });
    expect(general('.000700')?.author).toBeUndefined();
    expect(general('.000800')).toMatchObject({ replyTo: '1614589560.000700' });
    expect(general('.000900')).toMatchObject({
      replyTo: '1614589560.000700',
      body: 'and telling everybody',
    });
    expect(fromJoin.report.counts.messages).toEqual({ live: 37, edited: 1, deleted: 1, event: 20 });
  });

  it('removes U+0000 and replaces lone surrogates in bodies, and counts both', () => {
    expect(general('.001400')?.body).toBe('nulin and \uFFFD alone');
    expect(fromJoin.report.counts.repairedTexts).toEqual({ nul: 1, loneSurrogates: 1 });
  });

  it('keeps the first of two entries with one ts, and says whether they differed', () => {
    expect(general('.001500')?.body).toBe('the first with this ts');
    const differs = skipped(fromJoin.report, 'message', 'has the ts of an earlier one');
    expect(differs).toMatchObject({ count: 1, examples: ['C0GENERAL1/1614675780.001500'] });
    expect(skipped(fromJoin.report, 'message', 'is in the export twice')?.count).toBe(1);
  });

  it('knows the bot behind a post, with and without its user, and reads what only a card or a block says', () => {
    expect(general('.001700')).toMatchObject({
      author: { user: 'B0HOOK0001' },
      body: 'Build #7 (https://ci.example/7) passed\nBuild 7\n42 checks & no failure\nBranch: main',
    });
    expect(general('.001800')).toMatchObject({
      author: { user: 'U0CIBOT001' },
      body: 'Deploy by @Bruno Tarr done',
    });
    expect(general('.001900')).toMatchObject({ author: { user: 'U0CIBOT001' } });
  });

  it('imports a message of an unknown author without one, and counts it', () => {
    expect(general('.002000')).toMatchObject({ body: 'I am a helpful robot' });
    expect(general('.002000')?.author).toBeUndefined();
    expect(fromJoin.report.counts.messagesWithoutAuthor).toBe(6);
  });

  it('names files, shows the beginning of snippets, and keeps no token', () => {
    expect(general('.002100')?.body).toBe('Tide notes\nhigh water 07:12\nlow water 13:20');
    expect(general('.002200')?.body).toBe(
      'raw link the notes (https://files.slack.com/files-pri/T0HARBOR1-F0NOTES001/notes.txt?v=2)',
    );
    expect(general('.002300')?.body).toBe(
      '@Alma uploaded a file: map.png (https://harbor.slack.com/files/U0ALMA0001/F0MAP00001/map.png)',
    );
    expect(messagesOf(fromJoin.facts).some(({ body }) => body.includes('xoxe'))).toBe(false);
  });

  it('gives a comment on a file to who wrote it, as an answer to the message that shared the file', () => {
    expect(general('.002400')).toMatchObject({
      author: { user: 'U0BRUNO001' },
      body: 'the pier is missing',
      replyTo: '1614676260.002300',
    });
  });

  it('tells events from messages', () => {
    for (const ts of ['.000100', '.000200', '.002500', '.002600']) {
      expect(general(ts)?.kind).toBe('event');
    }
    for (const ts of ['.000300', '.000900', '.001700', '.002300', '.002400']) {
      expect(general(ts)?.kind).toBe('message');
    }
  });

  it('reports its progress up to the end', async () => {
    const steps: { done: number; total: number }[] = [];
    await importPath(HARBOR, { ...FROM_JOIN, onProgress: (step) => steps.push(step) });
    expect(steps.map(({ done }) => done)).toEqual(steps.map((_, index) => index + 1));
    expect(steps.at(-1)?.total).toBe(steps.length);
  });
});
