import type { Sql } from '../../sql/database.ts';
import type { DoorTurn } from './door.ts';
import { WORDS } from './world-generator.ts';
import { keyOf, type LoadedWorld } from './world-loader.ts';

/** A kind of row that a turn may not see, written into a world that is loaded already, triggers and all. */
export interface Hiding {
  readonly what: string;
  readonly hide: (sql: Sql, loaded: LoadedWorld, turn: DoorTurn) => Promise<unknown>;
}

/** All of the words that are searched for, often enough to come first, and with markup of its own. */
const TEXT = `${WORDS.join(' ').repeat(3)} hidden <b>${WORDS.join('</b> <b>')}</b> "\u0001\u0002"`;

/** Appends a message where it says; in a sequence of its own, far above what the generated world has. */
const APPEND = `
insert into earshot.messages (org_id, conversation_id, seq, external_id, kind, author_user_id, author_persona_id,
  body, state, sent_at, delivery_id, terms)
select $1::bigint, c.id, c.head + 100 + n, format('hidden %s %s', $2::text, n), 'message', null, $3::bigint, $4::text,
  $5::text, '2999-01-01T00:00:00Z', $6::uuid, to_tsvector('pg_catalog.english', $4::text)
from earshot.conversations c cross join generate_series(1, 3) n
where c.org_id = $1::bigint and c.id = any ($7::bigint[])`;

interface Appended {
  readonly conversations: readonly number[];
  readonly what: string;
  readonly persona?: number;
  readonly state?: string;
  readonly delivery?: string;
}

function append(sql: Sql, { org }: LoadedWorld, { conversations, what, ...more }: Appended) {
  const { persona = null, state = 'live', delivery = null } = more;
  return sql.unsafe(APPEND, [org, what, persona, TEXT, state, delivery, conversations as number[]]);
}

const keysIn = ({ keys, world }: LoadedWorld, wanted: (id: string) => boolean): number[] =>
  [...world.conversations.keys()].filter(wanted).map((id) => keyOf(keys, 'conversations', id));

export const HIDINGS: readonly Hiding[] = [
  {
    what: 'messages in conversations out of scope',
    hide: (sql, loaded, { scope }) =>
      append(sql, loaded, {
        conversations: keysIn(loaded, (id) => !scope.has(id as never)),
        what: 'outside',
      }),
  },
  {
    what: 'messages below the floor: other texts there, and more of them',
    async hide(sql, loaded, { scope }) {
      const floors = [...scope].map(([id, floor]) => [
        keyOf(loaded.keys, 'conversations', id),
        String(floor),
      ]);
      await sql.unsafe(
        `with floors as (select (f ->> 0)::bigint as id, (f ->> 1)::bigint as floor from jsonb_array_elements($2::text::jsonb) f),
         changed as (
           update earshot.messages m set body = $3, state = 'edited', sent_at = '2999-01-01T00:00:00Z'
           from floors f where m.org_id = $1::bigint and m.conversation_id = f.id and m.seq < f.floor and m.state <> 'deleted')
         insert into earshot.messages (org_id, conversation_id, seq, external_id, kind, body, sent_at, terms)
         select $1::bigint, f.id, n, format('hidden below %s', n), 'message', $3, '2999-01-01T00:00:00Z',
           to_tsvector('pg_catalog.english', $3)
         from floors f cross join generate_series(1, 9) n
         where n < f.floor and not exists (select from earshot.messages m
           where m.org_id = $1::bigint and m.conversation_id = f.id and m.seq = n)`,
        [loaded.org, JSON.stringify(floors), TEXT],
      );
    },
  },
  {
    what: 'deleted messages in every conversation',
    hide: (sql, loaded) =>
      append(sql, loaded, {
        conversations: keysIn(loaded, () => true),
        what: 'deleted',
        state: 'deleted',
      }),
  },
  {
    what: 'an assistant’s messages that nothing accounts for, elsewhere than in the destination',
    hide: (sql, loaded, { turn }) =>
      append(sql, loaded, {
        conversations: keysIn(loaded, (id) => id !== turn.destination.id),
        what: 'unaccounted',
        persona: keyOf(loaded.keys, 'personas', loaded.world.personas[0] as never),
      }),
  },
  {
    what: 'answers whose sources nobody knows',
    async hide(sql, loaded) {
      for (const [n, key] of keysIn(loaded, () => true).entries()) {
        const delivery = `20000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
        await sql.unsafe(
          `insert into earshot.deliveries (org_id, id, turn_id, grant_id, destination_id, status, payload_sha256,
             content_type, audience_hash, idempotency_key, request_digest, proposed_at, expires_at)
           select $1::bigint, $2::uuid, g.turn_id, g.id, $3::bigint, 'cleared', sha256(''), 'text/plain', sha256(''),
             $2, '', now(), now()
           from earshot.grants g where g.org_id = $1::bigint limit 1`,
          [loaded.org, delivery, key],
        );
        for (const status of ['released', 'delivered']) {
          await sql.unsafe(
            `update earshot.deliveries set status = $3 where org_id = $1::bigint and id = $2::uuid`,
            [loaded.org, delivery, status],
          );
        }
        await append(sql, loaded, { conversations: [key], what: `derived ${String(n)}`, delivery });
      }
    },
  },
  {
    what: 'artifacts that were made from nothing, from what is out of scope or nowhere, or deleted',
    hide: (sql, loaded, { scope }) =>
      sql.unsafe(
        `with artifacts as (
           insert into earshot.artifacts (org_id, conversation_id, seq, id, kind, title, body, body_sha256, content_type, state,
             asserted, created_at, client_id, idempotency_key, request_digest, terms)
           select c.org_id, c.id, -100 - n, gen_random_uuid(), 'memory', $2, $2, sha256(''), 'text/plain',
             case when n = 4 then 'deleted' else 'live' end, true, '2999-01-01T00:00:00Z', 'hidden', format('%s %s', c.id, n),
             '', to_tsvector('pg_catalog.english', $2)
           from earshot.conversations c cross join generate_series(1, 4) n where c.org_id = $1::bigint
           returning org_id, conversation_id, id, -100 - seq as n
         )
         insert into earshot.lineage (org_id, derived_id, conversation_id, from_seq, to_seq, revision)
         select a.org_id, a.id, s.conversation_id, s.from_seq, s.to_seq, s.to_seq from artifacts a
         cross join lateral (
           select o.id, 1, null::bigint from unnest($3::bigint[]) o(id) where a.n = 2
           union all
           select a.conversation_id, 1000000, 1000000 where a.n = 3
           union all
           select a.conversation_id, 1000000, null where a.n = 4
         ) s(conversation_id, from_seq, to_seq)`,
        [loaded.org, TEXT, [0, ...keysIn(loaded, (id) => !scope.has(id as never))]],
      ),
  },
  {
    what: 'messages that wait for their admission',
    hide: (sql, loaded) =>
      sql.unsafe(
        `insert into earshot.late_messages (org_id, conversation_id, external_id, message, sent_at)
         select c.org_id, c.id, 'hidden late', jsonb_build_object('body', $2::text), now()
         from earshot.conversations c where c.org_id = $1::bigint`,
        [loaded.org, TEXT],
      ),
  },
  {
    what: 'other people and their conversations',
    async hide(sql, loaded) {
      await sql.unsafe(
        `with people as (
           insert into earshot.users (org_id, external_id, kind, status)
           select $1::bigint, format('hidden person %s %s', kind, n), kind, 'active'
           from generate_series(1, 2) n cross join unnest(array['guest', 'bot']) kind
           on conflict do nothing returning id
         ), project as (
           insert into earshot.projects (org_id, external_id, status, admits_guests)
           values ($1::bigint, 'hidden project', 'active', true) returning id
         ), places as (
           insert into earshot.conversations (org_id, external_id, kind, visibility, project_id, ai_thread, external_readers,
             head, title)
           select $1::bigint, format('hidden place %s', visibility), 'group', visibility, project.id, true, false, 3, $2
           from unnest(array['members', 'project']) visibility cross join project returning id
         ), members as (
           insert into earshot.memberships (org_id, user_id, conversation_id, floor)
           select $1::bigint, people.id, places.id, 1 from people cross join places
         )
         insert into earshot.messages (org_id, conversation_id, seq, external_id, kind, body, sent_at, terms)
         select $1::bigint, places.id, n, format('hidden %s', n), 'message', $2, now(), to_tsvector('pg_catalog.english', $2)
         from places cross join generate_series(1, 3) n`,
        [loaded.org, TEXT],
      );
    },
  },
];

/** The contrary: messages that the turn sees. */
export const SHOWING: Hiding = {
  what: 'messages in the destination',
  hide: (sql, loaded, { turn }) =>
    append(sql, loaded, {
      conversations: keysIn(loaded, (id) => id === turn.destination.id),
      what: 'shown',
    }),
};
