import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ALL,
  ANN,
  BEN,
  FROM_JOIN,
  conversationOf,
  exportOf,
  historyOf,
  importFrom,
  messagesOf,
  said,
  skipped,
  smallExport,
} from '../support/slack-export.ts';

describe('lists', () => {
  const lists = (channels: unknown[], more: Readonly<Record<string, unknown>> = {}) =>
    importFrom(exportOf({ 'users.json': [ANN, BEN], 'channels.json': channels, ...more }), {
      history: 'from_join',
      openChannels: true,
    });

  it('a private conversation in the list of channels stays private', async () => {
    const { facts } = await lists([
      { id: 'C0PRIV0001', name: 'priv', is_private: true, creator: ANN.id, members: [ANN.id] },
      { id: 'C0MPIM0001', name: 'mpdm', is_private: true, is_mpim: true, members: [ANN.id] },
      { id: 'D0DM000001', is_im: true, members: [ANN.id] },
    ]);
    const shape = (id: string) => {
      const { kind, visibility, owner } = conversationOf(facts, id) ?? {};
      return [kind, visibility, owner];
    };
    expect(shape('C0PRIV0001')).toEqual(['group', 'members', ANN.id]);
    expect(shape('C0MPIM0001')).toEqual(['group', 'members', undefined]);
    expect(shape('D0DM000001')).toEqual(['direct', 'members', undefined]);
  });

  it('one id in two lists counts as the stricter of the two', async () => {
    const { facts, report } = await lists([{ id: 'C0TWICE001', name: 'x', members: [ANN.id] }], {
      'groups.json': [{ id: 'C0TWICE001', name: 'x', members: [ANN.id] }],
      'mpims.json': [{ id: 'C0TWICE001', name: 'x', members: [ANN.id] }],
    });
    expect(facts.filter(({ fact }) => fact === 'conversation')).toHaveLength(1);
    expect(conversationOf(facts, 'C0TWICE001')).toMatchObject({
      kind: 'group',
      visibility: 'members',
    });
    expect(historyOf(facts, 'C0TWICE001', ANN.id)).toBe('none');
    expect(
      skipped(report, 'conversation', 'is listed twice; the stricter entry counts')?.count,
    ).toBe(2);
  });

  it('a folder that two conversations claim belongs to neither', async () => {
    const { facts, report } = await lists([{ id: 'C0A0000001', name: 'same', members: [BEN.id] }], {
      'groups.json': [{ id: 'G0B0000001', name: 'same', members: [ANN.id] }],
      'same/2021-03-01.json': [said('1.000000', 'whose?')],
    });
    expect(facts.filter(({ fact }) => fact !== 'user')).toEqual([]);
    expect(skipped(report, 'conversation', 'another one claims the same folder')?.count).toBe(2);
  });

  it('a folder of no listed conversation is reported, by its name only if that is an id', async () => {
    const { report } = await lists([], {
      'C0ORPHAN01/2021-03-01.json': [],
      'mpdm-ann--ben-1/2021-03-01.json': [],
    });
    expect(skipped(report, 'folder', 'belongs to no listed conversation')).toMatchObject({
      count: 2,
      examples: ['C0ORPHAN01'],
    });
  });

  it('a user of unclear flags is unknown, so that conversations with that user name nobody', async () => {
    const { facts, report } = await lists(
      [{ id: 'C0ONE00001', name: 'one', members: ['U0ODD00001'] }],
      {
        'users.json': [ANN, { id: 'U0ODD00001', deleted: 'false' }, { id: 'U0A\u0007' }, null],
      },
    );
    expect(facts.filter(({ fact }) => fact === 'user')).toHaveLength(1);
    expect(report.unresolvedMembers).toEqual([{ conversation: 'C0ONE00001', user: 'U0ODD00001' }]);
    expect(skipped(report, 'user', 'has fields of unknown form')?.examples).toEqual([
      'users.json#2',
      'users.json#4',
    ]);
    expect(skipped(report, 'user', 'id is control_character')?.examples).toEqual(['users.json#3']);
  });

  it('a conversation of unclear flags or id is left out, and a member of no id makes external readers', async () => {
    const { facts, report } = await lists([
      { id: 'C0ONE00001', name: 'one', is_ext_shared: 'yes' },
      { id: '', name: 'two' },
      { id: 'C0THREE001', name: 'three', members: [ANN.id, 7] },
    ]);
    const conversations = facts.filter((fact) => fact.fact === 'conversation');
    expect(conversations).toHaveLength(1);
    expect(conversations[0]).toMatchObject({ id: 'C0THREE001', externalReaders: true });
    expect(skipped(report, 'conversation', 'has fields of unknown form')?.count).toBe(1);
    expect(skipped(report, 'conversation', 'id is empty')?.count).toBe(1);
  });

  it('either guest flag makes a guest', async () => {
    for (const flag of ['is_restricted', 'is_ultra_restricted']) {
      const { facts } = await lists([], { 'users.json': [{ ...ANN, [flag]: true }] });
      expect(facts[0]).toMatchObject({ id: ANN.id, kind: 'guest' });
    }
  });

  it('what an archiver adds to an export is no part of it', async () => {
    const { report } = await lists([], {
      '.DS_Store': 'x',
      'general/.DS_Store': 'x',
      '__MACOSX/._users.json': 'x',
      '__MACOSX/users.json': 'x',
    });
    expect(report.skipped).toEqual([]);
  });

  it('an app’s user is a bot only with an app: `is_app_user` alone is a person', async () => {
    const { facts } = await lists([], {
      'users.json': [
        { ...ANN, is_app_user: true },
        { ...BEN, is_app_user: true, profile: { bot_id: 'B0APP00001' } },
        { id: 'USLACKBOT', team_id: 'T0HOME0001', name: 'slackbot', is_bot: false },
      ],
    });
    expect(facts.map((fact) => fact.fact === 'user' && fact.kind)).toEqual([
      'member',
      'bot',
      'bot',
    ]);
  });

  it('home is the primary owner’s workspace, else the most common; a colleague’s other workspace is no other one', async () => {
    const away = (n: number, more: object = {}) => ({
      id: `U0AWAY000${n}`,
      team_id: 'T0AWAY0001',
      ...more,
    });
    const kept = async (users: unknown[]) =>
      (await lists([], { 'users.json': users })).facts.map((f) => f.fact === 'user' && f.id);
    expect(await kept([{ ...ANN, is_primary_owner: true }, away(1), away(2)])).toEqual([ANN.id]);
    expect(await kept([ANN, BEN, away(1)])).toEqual([ANN.id, BEN.id]);
    // Strangers don't vote, and one is a stranger whatever team is written beside it.
    const strangers = [1, 2, 3].map((n) => away(n, { is_stranger: true }));
    expect(await kept([ANN, ...strangers])).toEqual([ANN.id]);
    expect(await kept([ANN, { ...BEN, is_stranger: true }])).toEqual([ANN.id]);
    const grid = away(1, { enterprise_user: { teams: ['T0HOME0001', 'T0AWAY0001'] } });
    expect(await kept([ANN, BEN, grid])).toEqual([ANN.id, BEN.id, 'U0AWAY0001']);
  });
});

describe('external readers', () => {
  const OLGA = { id: 'U0OLGA0001', team_id: 'T0AWAY0001', name: 'olga' };
  const RELAY = {
    id: 'U0RELAY001',
    team_id: 'T0HOME0001',
    is_bot: true,
    profile: { bot_id: 'B0RELAY001' },
  };
  /** Why one channel with these fields and this message has external readers. */
  const because = async (channel: object, message: object, relayBots: string[] = []) => {
    const source = smallExport([said('1.000000', 'hi', message)], {
      'users.json': [ANN, BEN, OLGA, RELAY],
      'channels.json': [{ id: 'C0ONE00001', name: 'one', members: [ANN.id], ...channel }],
    });
    const { facts, report } = await importFrom(source, { ...ALL, relayBots });
    const reasons = report.externalReaders[0]?.because ?? [];
    expect(conversationOf(facts, 'C0ONE00001')?.externalReaders).toBe(reasons.length > 0);
    return reasons;
  };

  it('are none where all members and authors are home and nothing is shared', async () => {
    expect(await because({}, {})).toEqual([]);
    expect(await because({ members: [ANN.id, RELAY.id] }, { user: RELAY.id })).toEqual([]);
    expect(await because({}, { user: 'U0GONE0001', user_team: 'T0HOME0001' })).toEqual([]);
    expect(await because({}, { user: 'USLACKBOT', user_team: 'T0SLACK001' })).toEqual([]);
  });

  it('come with each way of sharing a channel', async () => {
    for (const flag of ['is_shared', 'is_ext_shared', 'is_pending_ext_shared', 'is_org_shared']) {
      expect(await because({ [flag]: true }, {})).toEqual(['shared']);
      expect(await because({ [flag]: false }, {})).toEqual([]);
    }
  });

  it('come with a member of another workspace, and with an author of one', async () => {
    expect(await because({ members: [ANN.id, OLGA.id] }, {})).toEqual(['outsider_member']);
    expect(await because({}, { user: OLGA.id })).toEqual(['outsider_author']);
    for (const field of ['user_team', 'source_team']) {
      const message = { user: 'U0AWAY0001', [field]: 'T0AWAY0001' };
      expect(await because({}, message)).toEqual(['outsider_author']);
    }
  });

  it('come with an author whose entry is not kept, or is kept inside a change', async () => {
    const source = smallExport([
      said('1.000000', 'hi'),
      said('1.000000', 'same ts', { user: 'U0AWAY0001', user_team: 'T0AWAY0001' }),
    ]);
    const inside = smallExport([
      said('2.000000', '', {
        subtype: 'message_changed',
        message: said('1.000000', 'hi', { user: 'U0AWAY0001', user_team: 'T0AWAY0001' }),
      }),
    ]);
    for (const one of [source, inside]) {
      const { report } = await importFrom(one, ALL);
      expect(report.externalReaders[0]?.because).toEqual(['outsider_author']);
    }
  });

  it('come with a relay as member or author, by whichever of its two ids it is named', async () => {
    for (const name of [RELAY.id, 'B0RELAY001']) {
      expect(await because({ members: [ANN.id, RELAY.id] }, {}, [name])).toEqual(['relay_bot']);
      expect(await because({}, { user: RELAY.id }, [name])).toEqual(['relay_bot']);
      const post = { user: undefined, subtype: 'bot_message', bot_id: 'B0RELAY001' };
      expect(await because({}, post, [name])).toEqual(['relay_bot']);
    }
  });
});

describe('hostile and broken exports', () => {
  it('malformed entries are left out with a reason, and the rest is imported', async () => {
    const { facts, report } = await importFrom(
      smallExport([
        null,
        'text',
        { ts: 1614589200.0001, text: 'a number' },
        { ts: '1614589200.1234567', text: 'seven digits' },
        { ts: '99999999999999.000000', text: 'after the year 9999' },
        { type: 'other', ts: '1.000000' },
        said('2.000000', 'fine', { thread_ts: 'nonsense', edited: 'yes', attachments: 'no' }),
      ]),
      ALL,
    );
    expect(messagesOf(facts)).toHaveLength(1);
    expect(messagesOf(facts)[0]).toMatchObject({ id: '2.000000', body: 'fine' });
    expect(messagesOf(facts)[0]?.replyTo).toBeUndefined();
    expect(skipped(report, 'message', 'has fields of unknown form')).toMatchObject({
      count: 4,
      examples: [1, 2, 3, 6].map((n) => `C0ONE00001/2021-03-01.json#${n}`),
    });
    expect(skipped(report, 'message', 'ts is not seconds.microseconds')?.count).toBe(2);
    expect(skipped(report, 'reply', 'names no message')?.count).toBe(1);
  });

  it('a day file that is no list is left out with a reason', async () => {
    const { report } = await importFrom(smallExport({ not: 'a list' }), ALL);
    expect(skipped(report, 'file', 'the file is not a list')?.count).toBe(1);
  });

  it('a folder that is no export says what it lacks', async () => {
    const lacking = (files: Record<string, unknown>) =>
      expect(importFrom(exportOf(files), ALL)).rejects;
    await lacking({ 'a.json': [] }).toThrow(
      'not a Slack export: it lacks users.json and channels.json (or groups.json, mpims.json, dms.json)',
    );
    await lacking({ 'users.json': [] }).toThrow(/lacks channels\.json/);
    await lacking({ 'channels.json': [] }).toThrow('not a Slack export: it lacks users.json');
    await lacking({ 'users.json': '{', 'dms.json': [] }).toThrow(/^users\.json cannot be read/);
    await lacking({ 'users.json': [], 'dms.json': {} }).toThrow('dms.json is not a list');
    await lacking({ 'a/users.json': [], 'b/users.json': [] }).toThrow(/several Slack exports/);
  });

  it('any JSON in any place gives storable facts in order, and no crash', async () => {
    const word = fc.oneof(
      fc.constantFrom('C0ONE00001', 'a', '\0', '\ud800', '<@U', '<http://|'),
      fc.string(),
    );
    const value = fc.oneof(word, fc.jsonValue({ maxDepth: 3 }));
    const ts = fc.oneof(
      fc.tuple(fc.nat(3), fc.nat(3)).map(([s, m]) => `${s}.${String(m).padStart(6, '0')}`),
      word,
    );
    const subtype = fc.constantFrom(
      'channel_join',
      'message_changed',
      'message_deleted',
      'file_comment',
      'bot_message',
    );
    const message = fc.record(
      {
        ts,
        subtype: fc.oneof(subtype, value),
        text: value,
        user: fc.oneof(fc.constantFrom(ANN.id, BEN.id), value),
        thread_ts: value,
        bot_id: value,
        message: fc.record({ ts, text: word }),
        deleted_ts: ts,
        comment: value,
        file: fc.record({ id: value, title: word, mode: word, preview: word }),
        files: value,
        blocks: fc.array(fc.record({ type: word, text: value, elements: value })),
        attachments: fc.array(
          fc.record({ text: value, channel_id: value, ts: value, from_url: word }),
        ),
      },
      { requiredKeys: ['ts'] },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(message, value)), async (entries) => {
        const { facts } = await importFrom(smallExport(entries), FROM_JOIN);
        const messages = messagesOf(facts);
        const times = messages.map(({ sentAt }) => sentAt);
        expect(times).toEqual([...times].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
        expect(new Set(messages.map(({ id }) => id)).size).toBe(messages.length);
        for (const { body } of messages) expect(body).not.toMatch(/\0|\p{Cs}/u);
      }),
      { numRuns: 300 },
    );
  });
});
