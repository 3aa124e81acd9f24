import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ExportSource } from '../../gateway/importers/export-source.ts';
import { openExport } from '../../gateway/importers/export-source.ts';
import { importFacts } from '../../gateway/importers/import-engine.ts';
import type { ImportReport } from '../../gateway/importers/import-report.ts';
import { readSlackExport, type SlackOptions } from '../../gateway/importers/slack.ts';
import type { Fact } from '../../policy/fact.ts';
import { externalId } from '../../policy/identity.ts';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { LONG, LONG_MESSAGES, longConversation } from '../support/long-conversation.ts';
import type { TestOrganization } from '../support/organization.ts';
import {
  ALL,
  ANN,
  BEN,
  exportOf,
  FROM_JOIN,
  joined,
  said,
  smallExport,
} from '../support/slack-export.ts';

const HARBOR = fileURLToPath(new URL('../../fixtures/slack/harbor', import.meta.url));
const CHANNEL = 'C0ONE00001';
const CARA = { id: 'U0CARA0001', team_id: 'T0HOME0001', name: 'cara' };

let host: TestGateway;
let company: TestOrganization;
let names = 0;

beforeAll(async () => {
  host = await openTestGateway({ LEASE_SECONDS: '600' });
});
afterAll(() => host.close());
beforeEach(async () => {
  company = await host.organization(`company-${(names++).toString()}`);
});

/** Imports facts into the organization of this test. */
async function take(facts: AsyncGenerator<Fact, unknown>): Promise<ImportReport> {
  const { database } = host.gateway;
  const organization = externalId(company.name);
  const source = externalId('slack');
  const { report } = await importFacts(
    { database, organization, source, editsAreDated: true },
    facts,
  );
  return report;
}

const takeExport = (source: ExportSource, options: SlackOptions = FROM_JOIN) =>
  take(readSlackExport(source, options));

async function* stream(facts: Iterable<Fact>): AsyncGenerator<Fact, undefined> {
  await Promise.resolve();
  yield* facts;
  return undefined;
}

/** Every row that an import may write, as text. */
async function everything(): Promise<string[]> {
  const tables = [
    ...[
      'users',
      'conversations',
      'memberships',
      'unresolved_members',
      'messages',
      'message_embeds',
    ],
    ...['late_messages', 'import_items', 'organization_revisions', 'conversation_revisions'],
  ];
  const rows: string[] = [];
  for (const table of tables) {
    const found = await host.owner.unsafe<{ row: string }[]>(
      `select '${table} ' || t::text as row from earshot.${table} t join earshot.organizations o on o.id = t.org_id
       where o.external_id = $1`,
      [company.name],
    );
    rows.push(...found.map(({ row }) => row));
  }
  return rows.sort();
}

/** What a person reads of a conversation now, in a private thread of their own. */
async function readsOf(user: string, conversation = CHANNEL): Promise<string[] | string> {
  const destination = `notes-${user}-${(names++).toString()}`;
  await company.conversation(destination, [user], { kind: 'private', aiThread: true, owner: user });
  const turn = await company.turn({
    destination,
    requester: user,
    trigger: { kind: 'schedule' },
  });
  const answer = await turn.tool('read', { conversation, limit: 100 });
  return answer.code ?? ok(answer).items.map(({ text }) => text);
}

const at = (second: number) => `1614600${second.toString().padStart(3, '0')}.000000`;
const channel = (members: readonly string[], more: object = {}) => ({
  'channels.json': [{ id: CHANNEL, name: 'one', members, ...more }],
});
const conversation = `conversations/${CHANNEL}`;

describe('running an import again', () => {
  test('over the same export changes no row, no revision and no digest', async () => {
    const first = await takeExport(await openExport(HARBOR));
    expect(first.failed).toEqual([]);
    expect(first.counts.message.appended).toBe(59);
    const before = await everything();
    const second = await takeExport(await openExport(HARBOR));
    expect(await everything()).toEqual(before);
    expect(second.counts.message).toEqual({ unchanged: 59 });
    expect(second.counts.user).toEqual({ unchanged: first.counts.user.created });
    expect(second.kept).toEqual([]);
  });

  test('brings back no member, message, user or conversation that was removed in between', async () => {
    const messages = [
      said(at(1), 'first canary', { user: BEN.id }),
      said(at(2), 'second canary', { user: BEN.id }),
    ];
    const two = (list: readonly object[]) =>
      exportOf({
        'users.json': list,
        'channels.json': [
          { id: CHANNEL, name: 'one', members: [ANN.id, BEN.id] },
          { id: 'C0TWO00001', name: 'two', members: [ANN.id] },
        ],
        'one/2021-03-01.json': messages,
        'two/2021-03-01.json': messages,
      });
    await takeExport(two([ANN, BEN, CARA]), ALL);
    expect(await readsOf(ANN.id)).toEqual(['first canary', 'second canary']);
    await company.remove(`${conversation}/members/${BEN.id}`);
    await company.remove(`${conversation}/messages/${at(1)}`);
    await company.remove('conversations/C0TWO00001');
    await company.put(`users/${BEN.id}`, { kind: 'guest', status: 'deactivated', name: 'ben' });
    await company.remove(`users/${CARA.id}`);
    const before = await everything();

    const again = await takeExport(two([ANN, BEN, CARA]), ALL);
    expect(await everything()).toEqual(before);
    expect(again.kept).toContainEqual({
      what: 'member',
      why: 'was removed here',
      count: 1,
      examples: [BEN.id],
    });

    // A change elsewhere in the same entry, or another history, is no word about what was removed.
    await takeExport(two([ANN, { ...BEN, real_name: 'Benjamin' }, CARA]), ALL);
    await takeExport(two([ANN, BEN, CARA]), FROM_JOIN);
    const [ben] = await host.owner`
      select u.kind, u.status, u.deleted, count(m.*) as memberships from earshot.users u
      join earshot.organizations o on o.id = u.org_id
      left join earshot.memberships m on m.org_id = u.org_id and m.user_id = u.id
      where u.external_id = ${BEN.id} and o.external_id = ${company.name} group by 1, 2, 3`;
    expect(ben).toEqual({ kind: 'guest', status: 'deactivated', deleted: false, memberships: '0' });
    expect(await readsOf(ANN.id, 'C0TWO00001')).toBe('not_found');
    expect(JSON.stringify(await everything())).not.toContain('first canary');
  });

  test('keeps what an operator decided of a conversation when the export changes something else of it', async () => {
    await takeExport(smallExport([said(at(1), 'hello')]), ALL);
    const decided = {
      kind: 'channel',
      visibility: 'members',
      externalReaders: true,
      archived: true,
    };
    await company.put(conversation, { ...decided, title: 'one' });
    await takeExport(
      smallExport([said(at(1), 'hello')], {
        'channels.json': [
          { id: CHANNEL, name: 'one', creator: ANN.id, members: [ANN.id, BEN.id] },
          { id: 'C0NEW00001', name: 'new', members: [] },
        ],
      }),
      { ...ALL, openChannels: true },
    );
    const [row] = await host.owner`
      select c.visibility, c.external_readers, c.archived from earshot.conversations c
      join earshot.organizations o on o.id = c.org_id
      where o.external_id = ${company.name} and c.external_id = ${CHANNEL}`;
    // The export opened the channel; that it has readers outside was said here.
    expect(row).toEqual({ visibility: 'organization', external_readers: true, archived: true });
  });

  test('takes over new messages, edits, deletions, people who joined and people who left', async () => {
    const first = [
      joined(at(1), ANN.id),
      joined(at(2), BEN.id),
      said(at(3), 'kept'),
      said(at(4), 'to be edited'),
      said(at(5), 'to be deleted'),
    ];
    await takeExport(smallExport(first, { 'users.json': [ANN, BEN, CARA] }));
    const later = [
      ...first.slice(0, 3),
      said(at(4), 'edited', { edited: { user: ANN.id, ts: at(8) } }),
      said(at(5), '', { subtype: 'tombstone' }),
      said(at(6), 'new'),
      joined(at(7), CARA.id),
      said(at(9), 'newest'),
    ];
    const more = { 'users.json': [ANN, BEN, CARA], ...channel([ANN.id, CARA.id]) };
    const report = await takeExport(smallExport(later, more));
    expect(report.counts.message).toEqual({ unchanged: 3, edited: 1, deleted: 1, appended: 3 });
    expect(report.counts.member).toEqual({ unchanged: 1, joined: 1, left: 1 });
    expect(await readsOf(BEN.id)).toBe('not_found');
    expect(await readsOf(CARA.id)).toEqual([`@cara has joined`, 'newest']);
    const all = await readsOf(ANN.id);
    expect(all).toContain('edited');
    expect(JSON.stringify(await everything())).not.toContain('to be');
  });

  test('gives a member who left and came back the floor of the second join, not of the first', async () => {
    const first = [joined(at(1), ANN.id), joined(at(2), BEN.id), said(at(3), 'before the gap')];
    await takeExport(smallExport(first));
    const gap = [
      ...first,
      joined(at(4), BEN.id, 'channel_leave'),
      said(at(5), 'in the gap'),
      joined(at(6), BEN.id),
      said(at(7), 'after the gap'),
    ];
    const report = await takeExport(smallExport(gap));
    expect(report.counts.member).toEqual({ unchanged: 1, changed: 1 });
    const reads = await readsOf(BEN.id);
    expect(reads).toContain('after the gap');
    expect(reads).not.toContain('in the gap');
    expect(reads).not.toContain('before the gap');
  });

  test('leaves members alone whom somebody else added, and ends of membership that were set here', async () => {
    await takeExport(smallExport([said(at(1), 'hello')], { 'users.json': [ANN, BEN, CARA] }), ALL);
    await company.put(`${conversation}/members/${CARA.id}`, { history: 'all' });
    const expiresAt = '2100-01-01T00:00:00.000000Z';
    await company.put(`${conversation}/members/${BEN.id}`, { history: 'all', expiresAt });
    const members = () => host.owner`
      select u.external_id as user, m.floor, m.expires_at is not null as ends from earshot.memberships m
      join earshot.users u on u.org_id = m.org_id and u.id = m.user_id
      join earshot.organizations o on o.id = m.org_id
      where o.external_id = ${company.name} order by 1`;
    const before = [...(await members())];
    await takeExport(smallExport([said(at(1), 'hello')], { 'users.json': [ANN, BEN, CARA] }), ALL);
    expect([...(await members())]).toEqual(before);
    // Another history was asked for by name: floors move, the end stays.
    await takeExport(smallExport([said(at(1), 'hello')], { 'users.json': [ANN, BEN, CARA] }));
    const none = '9223372036854775807';
    expect([...(await members())]).toEqual([
      { user: ANN.id, floor: none, ends: false },
      { user: BEN.id, floor: none, ends: true },
      { user: CARA.id, floor: '1', ends: false },
    ]);
  });
});

describe('messages that come late', () => {
  const start = [joined(at(1), ANN.id), said(at(2), 'early'), joined(at(5), BEN.id)];

  test('are kept unreadable and reported, in their newest version, and gone if the source deletes them', async () => {
    await takeExport(smallExport(start));
    const late = said(at(3), 'late canary');
    const first = await takeExport(smallExport([...start, late]));
    expect(first.counts.message).toEqual({ unchanged: 3, late: 1 });
    expect(await readsOf(ANN.id)).not.toContain('late canary');

    const edited = said(at(3), 'late and edited', { edited: { user: ANN.id, ts: at(8) } });
    const second = await takeExport(smallExport([...start, edited]));
    expect(second.counts.message).toEqual({ unchanged: 3, late: 1 });
    const kept = JSON.stringify(await everything());
    expect(kept).toContain('late and edited');
    expect(kept).not.toContain('late canary');

    await takeExport(smallExport([...start, said(at(3), '', { subtype: 'tombstone' })]));
    expect(JSON.stringify(await everything())).not.toContain('late and edited');
  });

  test('do not come back after an operator deleted them', async () => {
    await takeExport(smallExport(start));
    await takeExport(smallExport([...start, said(at(3), 'late canary')]));
    await company.remove(`${conversation}/messages/${at(3)}`);
    const edited = said(at(3), 'late canary, edited', { edited: { user: ANN.id, ts: at(8) } });
    const report = await takeExport(smallExport([...start, edited]));
    expect(report.kept).toContainEqual({
      what: 'message',
      why: 'was deleted here',
      count: 1,
      examples: [at(3)],
    });
    expect(JSON.stringify(await everything())).not.toContain('canary');
  });
});

describe('an import that is killed', { timeout: 60_000 }, () => {
  test.each([1, 700, 1200])(
    'before message %i leaves nothing readable, and running it again completes it',
    async (last) => {
      const script = fileURLToPath(new URL('../support/import-victim.ts', import.meta.url));
      const args = [host.target.gatewayUrl, company.name, (last - 1).toString()];
      const child = spawn(process.execPath, ['--import', 'tsx', script, ...args], {
        stdio: 'inherit',
      });
      expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
      const [half] = await host.owner`
        select c.staged, c.head from earshot.conversations c join earshot.organizations o on o.id = c.org_id
        where o.external_id = ${company.name} and c.external_id = ${LONG}`;
      expect(half).toEqual({ staged: true, head: (Math.floor((last - 1) / 500) * 500).toString() });
      expect(await readsOf('ann', LONG)).toBe('not_found');

      const report = await take(stream(longConversation()));
      expect(report.counts.conversation).toMatchObject({ opened: 1 });
      const rows = await host.owner<{ seq: string; id: string }[]>`
        select m.seq, m.external_id as id from earshot.messages m join earshot.organizations o on o.id = m.org_id
        where o.external_id = ${company.name} order by m.seq`;
      expect(rows.map(({ seq, id }) => `m${seq}` === id)).toEqual(
        new Array<boolean>(LONG_MESSAGES).fill(true),
      );
      expect((await readsOf('ann', LONG)).slice(0, 1)).toEqual(['canary 1']);
      expect((await readsOf('ben', LONG)).slice(0, 1)).toEqual(['canary 1000']);
    },
  );

  test('two imports of one source at once leave what one of them does', async () => {
    await Promise.all([take(stream(longConversation())), take(stream(longConversation()))]);
    const together = await everything();
    await take(stream(longConversation()));
    expect(await everything()).toEqual(together);
    const messages = together.filter((row) => row.startsWith('messages '));
    expect(messages.length).toBe(LONG_MESSAGES);
    expect(together.filter((row) => row.startsWith('late_messages '))).toEqual([]);
  });
});

describe('what cannot be imported', () => {
  test('keeps its conversation unreadable and is reported, while the others open', async () => {
    const facts = longConversation();
    const [ann] = facts;
    const broken = facts.map((fact): Fact => {
      if (fact.fact !== 'message' || fact.id !== 'm3') return fact;
      return { ...fact, author: { user: externalId('nobody') } };
    });
    const other = externalId('other');
    const report = await take(
      stream([
        ...broken,
        { ...(facts[2] as Extract<Fact, { fact: 'conversation' }>), id: other },
        {
          fact: 'members',
          conversation: other,
          members: [{ user: externalId('ann'), history: 'all' }],
        },
        { fact: 'open', conversation: other },
      ]),
    );
    expect(ann?.fact).toBe('user');
    expect(report.failed).toEqual([
      {
        what: 'message',
        why: 'The author of a message is unknown.',
        count: 1,
        examples: ['long/m3'],
      },
    ]);
    expect(report.unopened).toEqual([LONG]);
    expect(await readsOf('ann', LONG)).toBe('not_found');
    expect(await readsOf('ann', other)).toEqual([]);
  });

  test('a conversation that another source is still importing is left to it', async () => {
    await expect(take(stream(longConversation().slice(0, 50)))).resolves.toBeDefined();
    const { database } = host.gateway;
    const target = {
      database,
      organization: externalId(company.name),
      source: externalId('another'),
      editsAreDated: true,
    };
    const { report } = await importFacts(target, stream(longConversation()));
    expect(report.kept).toContainEqual({
      what: 'message',
      why: 'its conversation is being imported from another source',
      count: LONG_MESSAGES,
      examples: [LONG],
    });
    expect(await readsOf('ann', LONG)).toBe('not_found');
  });

  test('an organization that is paused stays so', async () => {
    await company.put('guard', { guard: 'paused' });
    await takeExport(smallExport([said(at(1), 'hello')]), ALL);
    const [row] = await host.owner`
      select guard from earshot.organizations where external_id = ${company.name}`;
    expect(row).toEqual({ guard: 'paused' });
  });
});
