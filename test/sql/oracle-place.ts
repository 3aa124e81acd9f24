import { decodeJwt } from 'jose';
import { digestOf } from '../../gateway/tokens/grant-token.ts';
import type { Sql } from '../../sql/database.ts';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

/** Above every message that the readers of the thread may not read in `late`. */
const FLOOR = 5_001;

export interface Place {
  readonly gateway: TestGateway;
  readonly acme: TestOrganization;
  readonly turn: TestTurn;
  readonly digest: Buffer;
}

/** Two readers with a thread, a source, an open channel, and a conversation that they read from a floor up. */
export async function buildPlace(): Promise<Place> {
  const gateway = await openTestGateway();
  const acme = await gateway.organization('acme');
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('source', ['ana', 'ben']);
  await acme.conversation('secret', ['cleo', 'ben']);
  await acme.conversation('late', ['cleo']);
  await acme.conversation('open', [], { kind: 'channel', visibility: 'organization' });
  for (let i = 0; i < 12; i++) {
    await acme.say('source', i % 3 === 0 ? 'ana' : 'ben', `lantern in the harbor ${String(i)}`);
    await acme.say('open', 'cleo', `open lantern ${String(i)}`);
  }
  // A floor far above what there is, so that rows can be put below it later.
  await gateway.owner.unsafe(`
    update earshot.conversations set head = ${String(FLOOR - 1)} where external_id = 'late';
    insert into earshot.memberships (org_id, user_id, conversation_id, floor)
    select c.org_id, u.id, c.id, ${String(FLOOR)} from earshot.conversations c
    join earshot.users u on u.org_id = c.org_id and u.external_id in ('ana', 'ben') where c.external_id = 'late';
    alter table earshot.messages set (autovacuum_enabled = false);
    alter table earshot.conversations set (autovacuum_enabled = false)`);
  for (let i = 0; i < 5; i++) await acme.say('late', 'cleo', `late lantern ${String(i)}`);
  await acme.say('thread', 'ana', 'which lantern');
  const other = await gateway.organization('other');
  await other.users('ana');
  await other.conversation('source', ['ana']);
  await other.say('source', 'ana', 'foreign lantern');
  const turn = await acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  const digest = Buffer.from(digestOf(decodeJwt(turn.grant.token).jti ?? ''));
  return { gateway, acme, turn, digest };
}

/** What a hidden row is: a member's conversation that not all read, below the floor, another organization's. */
const HIDDEN = `(c.external_id = 'secret' or c.external_id = 'late' or o.external_id = 'other')`;

/** Puts so many rows where the turn does not read, each with this text as its body and its terms. */
export async function hide(owner: Sql, count: number, body: string): Promise<void> {
  await owner.unsafe(
    `insert into earshot.messages (org_id, conversation_id, seq, external_id, kind, author_user_id, body, sent_at, terms)
     select c.org_id, c.id, c.taken + n, format('hidden %s %s', c.taken, n), 'message',
       (select min(u.id) from earshot.users u where u.org_id = c.org_id), $1, now(), to_tsvector('english', $1)
     from generate_series(1, $2::int) n cross join (
       select c.org_id, c.id, (select coalesce(max(m.seq), 0) from earshot.messages m
         where m.org_id = c.org_id and m.conversation_id = c.id and (c.external_id <> 'late' or m.seq < ${String(FLOOR)})) as taken
       from earshot.conversations c join earshot.organizations o on o.id = c.org_id where ${HIDDEN}) c`,
    [body, count],
  );
}

/** Every way to ask, with filters that hidden rows would meet as well. */
const SEARCHES: readonly Readonly<Record<string, unknown>>[] = [
  { query: 'lantern', limit: 100 },
  { query: 'lantern', limit: 3 },
  { query: '"lantern in the harbor"' },
  { query: 'lantern -harbor' },
  { query: '-nothing' },
  { query: 'lantern or harbor or pewter' },
  { query: 'lantern', conversation: 'source' },
  { query: 'lantern', conversation: 'secret' },
  { query: 'lantern', conversation: 'late' },
  { query: 'lantern', author: 'cleo' },
  { query: 'lantern', kind: 'message' },
  { query: 'lantern', since: '1970-01-01T00:00:00Z', until: '2999-01-01T00:00:00Z' },
  { query: 'lantern', recipient: 'cleo' },
];
const OTHER_CALLS: readonly (readonly [string, Readonly<Record<string, unknown>>])[] = [
  ['read', { conversation: 'source' }],
  ['read', { conversation: 'late', direction: 'backward' }],
  ['read', { conversation: 'late', fromSeq: '1' }],
  ['read', { conversation: 'secret' }],
  ['around', { conversation: 'late', seq: String(FLOOR) }],
  ['around', { conversation: 'late', seq: '1' }],
  ['thread', { conversation: 'late', seq: String(FLOOR) }],
  ['list_conversations', { limit: 100 }],
];
export const CALLS = [...SEARCHES.map((args) => ['search', args] as const), ...OTHER_CALLS];

/** The answers to every call, page by page, without the ids and times of the calls themselves. */
export async function answers({ turn }: Place): Promise<string[]> {
  const found: string[] = [];
  for (const [tool, args] of CALLS) {
    let cursor: string | undefined;
    for (let page = 0; page < 4; page++) {
      const answer = await turn.tool(tool, {
        ...args,
        ...(cursor !== undefined && { cursor }),
      });
      if (![200, 404].includes(answer.status)) {
        throw new Error(
          `${tool} ${JSON.stringify(args)}: ${String(answer.status)} ${answer.code ?? ''}`,
        );
      }
      found.push(
        JSON.stringify(answer.body)
          .replace(/"decision":("[^"]*"|\{[^}]*\})/g, '')
          .replace(/"instance":"[^"]*"/g, ''),
      );
      ({ cursor } = answer.body);
      if (cursor === undefined) break;
    }
  }
  return found;
}
