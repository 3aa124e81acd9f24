import type { ExternalId } from '../../policy/identity.ts';
import { formatInstant } from '../../policy/instant.ts';
import type { Sql } from '../../sql/database.ts';
import type { TurnCase } from './plain-standing.ts';
import { NOW, pick } from './world-generator.ts';
import { keyOf, type LoadedWorld } from './world-loader.ts';

/** What the SQL says of one turn: nothing but a code when it is refused. */
export interface SqlScope {
  readonly code: string | null;
  readonly extent: string | null;
  /** The fingerprint as it would be in an organization of one fixed name. */
  readonly hash: string | null;
  readonly scope: ReadonlyMap<ExternalId, bigint>;
  /** The canaries of the messages that may be seen. */
  readonly seen: ReadonlySet<string>;
}

/** Asks the SQL for the scopes of turns, in one round trip and by external ids. */
export async function sqlScopes(
  sql: Sql,
  { world, org, keys }: LoadedWorld,
  turns: readonly (TurnCase & { recipient?: ExternalId })[],
): Promise<SqlScope[]> {
  const rows = turns.map(({ destination, requester, trigger, triggerSeq, recipient }, n) => ({
    n,
    persona: keyOf(keys, 'personas', pick(world.personas, 0)),
    destination: keyOf(keys, 'conversations', destination.id),
    requester: keyOf(keys, 'users', requester),
    trigger,
    seq: triggerSeq === undefined ? null : String(triggerSeq),
    recipient: recipient ?? null,
  }));
  const answers = await sql.unsafe<Row[]>(ASK, [JSON.stringify(rows), org, formatInstant(NOW)], {
    prepare: true,
  });
  return Array.from(answers, ({ code, extent, hash, scope, seen }) => ({
    code,
    extent,
    hash,
    scope: new Map((scope ?? []).map(([id, floor]) => [id, BigInt(floor)])),
    seen: new Set(seen ?? []),
  }));
}

interface Row {
  readonly code: string | null;
  readonly extent: string | null;
  readonly hash: string | null;
  readonly scope: [ExternalId, string][] | null;
  readonly seen: string[] | null;
}

const ASK = `
select s.code, s.extent,
  encode(earshot.fingerprint('organization', c.external_id, s.readers), 'hex') as hash,
  (select jsonb_agg(jsonb_build_array(ic.external_id, i.floor::text))
   from earshot.in_scope($2::bigint, sc.scope) i
   join earshot.conversations ic on ic.org_id = $2::bigint and ic.id = i.conversation_id) as scope,
  (select jsonb_agg(split_part(v.body, ' ', 1)) from earshot.visible_messages($2::bigint, sc.scope) v) as seen
from jsonb_to_recordset($1::text::jsonb) as x(n integer, persona bigint, destination bigint, requester bigint,
  trigger text, seq bigint, recipient text)
join earshot.conversations c on c.org_id = $2::bigint and c.id = x.destination
cross join lateral earshot.judge_turn($2::bigint, x.persona, x.destination, x.requester, x.trigger, x.seq, null,
  $3::timestamptz) s
left join lateral (select earshot.turn_scope($2::bigint, x.destination, s.readers, s.floor, s.extent, x.requester,
  s.project_bound, x.recipient, $3::timestamptz) as scope where s.code is null offset 0) sc on true
order by x.n`;
