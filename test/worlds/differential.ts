import { isStale, sensitivityOf } from '../../policy/artifact.ts';
import { audienceOf, fingerprint } from '../../policy/audience.ts';
import { externalId, type ExternalId } from '../../policy/identity.ts';
import { formatInstant } from '../../policy/instant.ts';
import type { Sql } from '../../sql/database.ts';
import {
  plainReads,
  plainScope,
  plainStanding,
  plainVisible,
  type PlainStanding,
  type TurnCase,
} from './plain-standing.ts';
import type { Tally } from './tally.ts';
import { NOW, pick, type TestWorld } from './world-generator.ts';
import { keyOf, type LoadedWorld } from './world-loader.ts';

/** Where the SQL and the plain rules say different things; none when they agree. */
export interface Difference {
  readonly about: string;
  readonly sql: unknown;
  readonly plain: unknown;
}

export const NOBODY = externalId('nobody');

/**
 * Asks both implementations everything about a world: the audience and fingerprint of each
 * conversation, how each possible turn stands, the scope and the visible messages and artifacts of each that stands,
 * for every recipient, and what is said of each artifact. Needs a session with `earshot` in its search path.
 */
export async function compareRules(
  sql: Sql,
  loaded: LoadedWorld,
  tally: Tally,
): Promise<Difference[]> {
  const { world } = loaded;
  const turns = everyTurn(world)
    .map((turn) => ({ turn, plain: plainStanding(world, turn, NOW) }))
    .filter(({ plain }, n) => !SETTLED_EARLY.has(plain.code) || n % 4 === Math.floor(n / 4) % 4);
  const scopes = everyScope(world, turns);

  const question = {
    conversations: [...loaded.keys.conversations].map(([id, key]) => ({ name: id, key })),
    turns: turns.map(({ turn }, n) => ({ n, ...turnRow(loaded, turn) })),
    scopes: scopes.map(({ turn, recipient }, n) => ({
      n,
      ...turnRow(loaded, turn),
      recipient: recipient ?? null,
    })),
  };
  const [answer] = await sql.unsafe<Answer[]>(
    COMPARE,
    [JSON.stringify(question), loaded.org, world.organization.id, formatInstant(NOW)],
    { prepare: true },
  );
  if (answer === undefined) throw new Error('no answer');

  const found: Difference[] = [];
  const compare = (about: string, fromSql: unknown, fromPlain: unknown) => {
    if (JSON.stringify(fromSql) !== JSON.stringify(fromPlain))
      found.push({ about, sql: fromSql, plain: fromPlain });
  };
  const ids = idsOf(loaded);
  // Whether the organization is active is asked before the audience is; a turn's standing has it.
  for (const [name, readers, hash] of world.organization.active ? answer.audiences : []) {
    compare(
      `audience of ${name}`,
      [(readers ?? []).map((reader) => JSON.stringify(reader)).sort(), hash],
      plainAudience(world, name, tally),
    );
  }
  for (const [name, readers] of answer.reads) {
    const conversation = world.conversations.get(name);
    const expected = [...world.users.keys()].filter(
      (user) => conversation !== undefined && plainReads(world, user, conversation, NOW),
    );
    compare(`who reads ${name}`, readers.sort(), expected.sort());
  }
  for (const [artifact, stale, sensitivity] of answer.artifacts ?? []) {
    const hasSources = (world.lineages.get(artifact) ?? []).length > 0;
    compare(
      `what is said of ${artifact}`,
      // Of what, without a source, nobody reads.
      hasSources && [stale, sensitivity],
      hasSources && [isStale(world, artifact), sensitivityOf(world, artifact)],
    );
  }
  answer.standings.forEach((standing, n) => {
    const { turn, plain } = pick(turns, n);
    compare(`standing of ${describeTurn(turn)}`, standing, plainStandingRow(loaded, plain));
    tally.count(`standing ${plain.code ?? plain.mode.mode}`);
    if (plain.code === null) tally.count(`extent ${plain.mode.extent}`);
  });
  answer.scopes.forEach(([scope, visible], n) => {
    const { turn, plain, recipient } = pick(scopes, n);
    const about = `${describeTurn(turn)}${recipient === undefined ? '' : ` for ${recipient}`}`;
    const expected = plainScope(world, turn, plain, NOW, recipient);
    const seen = plainVisible(world, expected, turn.destination.id);
    compare(
      `scope of ${about}`,
      rowNames(ids, scope),
      [...expected].map(([id, floor]) => `${id} ${floor}`).sort(),
    );
    compare(
      `messages of ${about}`,
      rowNames(ids, visible),
      seen.map((m) => `${m.conversation} ${m.seq}`).sort(),
    );
    tally.scope(world, turn, plain, expected, seen, recipient);
  });
  return found;
}

/** What is found out before the trigger is looked at. One kind of trigger, a different one each time, is enough. */
const SETTLED_EARLY: ReadonlySet<string | null> = new Set([
  'organization_paused',
  'destination_closed',
  'unlistable_audience',
  'empty_audience',
  'requester_left',
]);

/** Every destination, requester and kind of trigger; the trigger's message is one that may stand, and sometimes not. */
export function everyTurn(world: TestWorld): TurnCase[] {
  return [...world.conversations.values()].flatMap((destination, i) =>
    [...world.users.keys()].flatMap((requester, j): TurnCase[] => {
      const written = world.messages.filter(
        ({ conversation, author }) =>
          conversation === destination.id &&
          author !== undefined &&
          'user' in author &&
          author.user === requester,
      );
      const triggerSeq = written.length === 0 ? 1n : pick(written, pick(world.picks, i + j)).seq;
      return [
        { destination, requester, trigger: 'thread', triggerSeq },
        { destination, requester, trigger: 'mention', triggerSeq },
        { destination, requester, trigger: 'schedule' },
        { destination, requester, trigger: 'disclosure' },
      ];
    }),
  );
}

export type Standing = PlainStanding & { readonly code: null };

interface ScopeCase {
  readonly turn: TurnCase;
  readonly plain: Standing;
  readonly recipient?: ExternalId;
}

/** The turns that stand, one for each that has another scope, without a recipient and with each. */
function everyScope(
  world: TestWorld,
  turns: readonly { turn: TurnCase; plain: PlainStanding }[],
): ScopeCase[] {
  const distinct = new Map<string, { turn: TurnCase; plain: Standing }>();
  for (const { turn, plain } of turns) {
    if (plain.code !== null) continue;
    const { mode, extent } = plain.mode;
    distinct.set(JSON.stringify([turn.destination.id, mode, extent]), { turn, plain });
  }
  const recipients = [undefined, ...world.users.keys(), NOBODY];
  return [...distinct.values()].flatMap(({ turn, plain }) =>
    recipients.map((recipient) => ({
      turn,
      plain,
      ...(recipient === undefined ? {} : { recipient }),
    })),
  );
}

function turnRow(
  { world, keys }: LoadedWorld,
  { destination, requester, trigger, triggerSeq }: TurnCase,
) {
  return {
    persona: keyOf(keys, 'personas', pick(world.personas, 0)),
    destination: keyOf(keys, 'conversations', destination.id),
    requester: keyOf(keys, 'users', requester),
    trigger,
    seq: triggerSeq === undefined ? null : String(triggerSeq),
  };
}

function plainAudience(world: TestWorld, name: string, tally: Tally) {
  const destination = world.conversations.get(name as ExternalId);
  if (destination === undefined) throw new Error('no such conversation');
  const audience = audienceOf(world, destination, NOW);
  tally.count(audience.ok ? 'audience' : `audience ${audience.code}`);
  if (!audience.ok) return [[], null];
  const rows = audience.readers.map(({ reader, floor, guest }) => {
    const id =
      reader.kind === 'user' ? reader.user : reader.kind === 'class:project' ? reader.project : '';
    // Whether a class may hold guests is its own business; a person is one or not.
    return JSON.stringify([reader.kind, id, String(floor), reader.kind === 'user' && guest]);
  });
  return [rows.sort(), fingerprint(audience)];
}

function plainStandingRow({ keys }: LoadedWorld, plain: PlainStanding) {
  if (plain.code !== null) return [plain.code];
  const { mode, extent, projectBound } = plain.mode;
  const bound = projectBound === undefined ? null : String(keyOf(keys, 'projects', projectBound));
  return [null, mode, extent, bound, String(plain.audience.floor), plain.audienceHash];
}

function idsOf({ keys }: LoadedWorld): ReadonlyMap<string, ExternalId> {
  return new Map(Array.from(keys.conversations, ([id, key]) => [String(key), id]));
}

function rowNames(
  ids: ReadonlyMap<string, ExternalId>,
  rows: readonly [string, string][] | null,
): string[] {
  return (rows ?? []).map(([key, number]) => `${ids.get(key) ?? '?'} ${number}`).sort();
}

export function describeTurn({ destination, requester, trigger, triggerSeq }: TurnCase): string {
  return `${trigger} ${triggerSeq ?? ''} of ${requester} in ${destination.id}`;
}

interface Answer {
  readonly artifacts: [id: string, stale: boolean, sensitivity: string][] | null;
  readonly audiences: [name: string, readers: unknown[] | null, hash: string | null][];
  readonly reads: [name: ExternalId, readers: string[]][];
  readonly standings: unknown[];
  readonly scopes: [scope: [string, string][] | null, visible: [string, string][] | null][];
}

const TURN = `n integer, persona bigint, destination bigint, requester bigint, trigger text, seq bigint`;
const JUDGED = `earshot.judge_turn($2::bigint, x.persona, x.destination, x.requester, x.trigger, x.seq, null,
  $4::timestamptz)`;

const COMPARE = `
with q as materialized (select $1::text::jsonb as q)
select
  (select jsonb_agg(jsonb_build_array(x.name,
     (select jsonb_agg(jsonb_build_array(r.kind, r.external_id, r.floor::text, r.kind = 'user' and r.guest))
      from unnest(a.readers) r),
     encode(earshot.fingerprint($3, x.name, a.readers), 'hex')))
   from q, jsonb_to_recordset(q -> 'conversations') as x(name text, key bigint)
   cross join lateral (select array(select r from earshot.audience($2::bigint, x.key, $4::timestamptz) r) as readers) a
  ) as audiences,
  (select jsonb_agg(jsonb_build_array(a.id, earshot.is_stale(a.org_id, a.id), earshot.derived_sensitivity(a.org_id, a.id)))
   from earshot.artifacts a where a.org_id = $2::bigint
  ) as artifacts,
  (select jsonb_agg(jsonb_build_array(x.name, array(
     select u.external_id from earshot.users u
     where u.org_id = $2::bigint and earshot.reads(u.org_id, u.id, x.key, $4::timestamptz))))
   from q, jsonb_to_recordset(q -> 'conversations') as x(name text, key bigint)
  ) as reads,
  (select coalesce(jsonb_agg(case when s.code is not null then jsonb_build_array(s.code)
     else jsonb_build_array(null, s.mode, s.extent, s.project_bound::text, s.floor::text, encode(s.audience_hash, 'hex'))
     end order by x.n), '[]')
   from q, jsonb_to_recordset(q -> 'turns') as x(${TURN})
   cross join lateral ${JUDGED} s
  ) as standings,
  (select coalesce(jsonb_agg(jsonb_build_array(
     (select jsonb_agg(jsonb_build_array(i.conversation_id::text, i.floor::text)) from earshot.in_scope($2::bigint, sc.scope) i),
     (select jsonb_agg(jsonb_build_array(v.conversation_id::text, v.seq::text))
      from earshot.visible_messages($2::bigint, sc.scope) v)) order by x.n), '[]')
   from q, jsonb_to_recordset(q -> 'scopes') as x(${TURN}, recipient text)
   cross join lateral ${JUDGED} s
   cross join lateral (select earshot.turn_scope($2::bigint, x.destination, s.readers, s.floor, s.extent, x.requester,
     s.project_bound, x.recipient, $4::timestamptz) as scope offset 0) sc
  ) as scopes`;
