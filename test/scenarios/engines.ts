import { audienceOf, fingerprint } from '../../policy/audience.ts';
import { externalId } from '../../policy/identity.ts';
import type { Instant } from '../../policy/instant.ts';
import { modeOf } from '../../policy/mode.ts';
import { messageInScope, scopeOf } from '../../policy/scope.ts';
import type { World } from '../../policy/world.ts';
import type { Database } from '../../sql/database.ts';
import { ok } from '../support/gateway.ts';
import type { Conversations, Messages, TestTurn } from '../support/organization.ts';
import type { ScenarioTurn } from './scenario.ts';

/** What one engine says of a turn. All of them have to say the same. */
export interface Standing {
  readonly audienceHash: string;
  readonly mode: string;
  /** Conversations with their floors. */
  readonly scope: Readonly<Record<string, string>>;
  /** Messages in scope, as `conversation seq`, sorted. */
  readonly selected: readonly string[];
}

/** The plain rules, over facts in memory. */
export function standingByPolicy(world: World, turn: ScenarioTurn): Standing | { refused: string } {
  const now: Instant = BigInt(Date.now()) * 1000n;
  const destination = world.conversations.get(externalId(turn.destination));
  if (destination === undefined) return { refused: 'not_found' };
  const requester = externalId(turn.requester);
  const audience = audienceOf(world, destination, now);
  if (!audience.ok) return { refused: audience.code };
  const mode = modeOf(destination, audience, requester, turn.trigger.kind);
  if (!mode.ok) return { refused: mode.code };
  const scope = scopeOf(world, destination, audience, mode, requester, now);
  return {
    audienceHash: fingerprint(audience),
    mode: mode.mode,
    scope: Object.fromEntries([...scope].map(([id, floor]) => [id, floor.toString()])),
    selected: world.messages
      .filter((message) => messageInScope(world, scope, destination.id, message))
      .map(({ conversation, seq }) => `${conversation} ${seq.toString()}`)
      .sort(),
  };
}

/** The functions in SQL that every door composes, called as the owner of the database. */
export async function standingBySql(
  owner: Database['sql'],
  organization: string,
  { destination, requester, trigger }: ScenarioTurn,
): Promise<Standing | { refused: string }> {
  const seq = typeof trigger.seq === 'string' ? trigger.seq : null;
  const [row] = await owner.begin(async (sql) => {
    // As the doors have it; the functions behind them name their tables without a schema.
    await sql`set local search_path = earshot, pg_temp`;
    return sql<(Standing & { code: string | null })[]>`
    with turn as materialized (
      select o.id as org, c.id as destination, u.id as requester, a.id as persona
      from earshot.organizations o
      join earshot.personas a on a.org_id = o.id
      join earshot.conversations c on c.org_id = o.id and c.external_id = ${destination}
      join earshot.users u on u.org_id = o.id and u.external_id = ${requester}
      where o.external_id = ${organization} and a.external_id = 'assistant'
    ), judged as materialized (
      select t.*, s.* from turn t cross join lateral earshot.judge_turn(t.org, t.persona, t.destination,
        t.requester, ${trigger.kind}, ${seq}, gen_random_uuid(), clock_timestamp()) s
    ), extended as materialized (
      select j.*, earshot.turn_scope(j.org, j.destination, j.readers, j.floor, j.extent, j.requester,
        j.project_bound, null, clock_timestamp()) as scope
      from judged j
    )
    select code, encode(audience_hash, 'hex') as "audienceHash", mode,
      (select jsonb_object_agg(c.external_id, s.floor::text) from earshot.in_scope(org, scope) s
       join earshot.conversations c on c.org_id = org and c.id = s.conversation_id) as scope,
      array(select c.external_id || ' ' || v.seq as place from earshot.visible_messages(org, scope) v
        join earshot.conversations c on c.org_id = org and c.id = v.conversation_id
        order by (c.external_id || ' ' || v.seq) collate "C") as selected
    from extended`;
  });
  if (row === undefined) return { refused: 'not_found' };
  const { code, ...standing } = row;
  return code === null ? standing : { refused: code };
}

/** The gateway over HTTP: what the tools of a running turn let through. */
export async function standingByHttp(turn: TestTurn): Promise<Standing> {
  const listed = ok(await turn.tool<Conversations>('list_conversations', { limit: 100 }));
  return {
    audienceHash: turn.grant.audienceHash,
    mode: turn.grant.mode,
    scope: Object.fromEntries(
      listed.items.map(({ conversation, envelope }) => [conversation, envelope.history.fromSeq]),
    ),
    selected: placesOf(ok(await turn.tool('search', { query: 'canary', limit: 100 }))),
  };
}

/** The messages of a packet, as scenarios name them. */
export function placesOf({ items }: Pick<Messages, 'items'>): string[] {
  return items.map(({ source }) => `${source.conversation} ${source.seq}`).sort();
}
