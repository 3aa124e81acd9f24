import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Tally } from './tally.ts';
import { compareWorld, createWorldDatabase, type WorldDatabase } from './world-database.ts';
import { worlds } from './world-generator.ts';

/** A change of one function of the migrations that lets something through, or loses something. */
interface Mutant {
  readonly title: string;
  readonly routine: string;
  readonly from: string;
  readonly to: string;
}

const MUTANTS: readonly Mutant[] = [
  mutant('the lowest floor of the readers counts', 'narrow', 'max(f.floor)', 'min(f.floor)'),
  mutant(
    'a later batch of readers lowers a floor',
    'narrow',
    'greatest(s.floor, max(f.floor))',
    'max(f.floor)',
  ),
  mutant(
    'one reader may lack a route',
    'narrow',
    '= cardinality(p_readers)',
    '>= cardinality(p_readers) - 1',
  ),
  mutant(
    'an expired membership counts',
    'narrow',
    'and (m.expires_at is null or m.expires_at > p_now)',
    '',
  ),
  mutant(
    'a membership counts at the moment it expires',
    'narrow',
    'm.expires_at > p_now',
    'm.expires_at >= p_now',
  ),
  mutant(
    'the project bound is dropped',
    'narrow',
    'and (p_project_bound is null or c.project_id = p_project_bound)',
    '',
  ),
  mutant('deleted conversations are read', 'narrow', 'not c.deleted and', ''),
  mutant('staged conversations are read', 'narrow', 'and not c.staged', ''),
  mutant('an inactive project gives a route', 'narrow', "and q.status = 'active'", ''),
  mutant(
    'a guest reads what is open to the organization',
    'route_floor',
    "'organization' and not p_guest",
    "'organization'",
  ),
  mutant(
    'a project that admits no guests lets them read',
    'route_floor',
    '(not p_guest or p_admits_guests)',
    'true',
  ),
  mutant(
    'a missing route counts as the first message',
    'route_floor',
    'select least(',
    'select coalesce(p_membership, 1) + 0 * least(',
  ),
  mutant(
    'what is open stands in for guests too',
    'intersection',
    'not exists (select from unnest(p_readers) r where r.guest)',
    'true',
  ),
  mutant(
    'the search starts from the reader with the most',
    'intersection',
    'r.guest desc, ',
    'r.guest, ',
  ),
  mutant('what is open is listed twice', 'in_scope', 'and c.id <> all ((p_scope).ids)', ''),
  mutant(
    'what is open ignores the project bound',
    'in_scope',
    'and ((p_scope).project_bound is null or c.project_id = (p_scope).project_bound)',
    '',
  ),
  mutant('what is open is read while it is staged', 'in_scope', 'and not c.staged', ''),
  mutant('the first message of a floor is lost', 'visible_messages', '>= s.floor', '> s.floor'),
  mutant('the message below a floor is seen', 'visible_messages', '>= s.floor', '>= s.floor - 1'),
  mutant('deleted messages are seen', 'visible_messages', "m.state <> 'deleted'", 'true'),
  mutant(
    'a lineage is not asked for',
    'visible_messages',
    'earshot.lineage_readable(p_org, m.delivery_id, p_scope)',
    'true',
  ),
  mutant(
    'an assistant is read anywhere',
    'visible_messages',
    'earshot.may_leave(m) or m.conversation_id = (p_scope).destination_id',
    'true',
  ),
  mutant('an edited answer goes anywhere', 'may_leave', "(p_message).state <> 'edited'", 'true'),
  mutant(
    'a source that stays in its conversation is readable anywhere',
    'lineage_readable',
    'and (earshot.may_leave(m) or m.conversation_id = (p_scope).destination_id)',
    '',
  ),
  mutant(
    'an empty lineage is readable',
    'lineage_readable',
    'select exists (select from earshot.delivery_sources d where d.org_id = p_org and d.delivery_id = p_delivery)\n    and',
    'select',
  ),
  mutant(
    'a source below the floor is readable',
    'lineage_readable',
    'and d.from_seq >= s.floor',
    '',
  ),
  mutant('a bot is a reader', 'audience', "and u.kind <> 'bot'", ''),
  mutant('a deactivated person is a reader', 'audience', "u.status = 'active' and", ''),
  mutant(
    'an unknown member does not matter',
    'audience',
    'n.conversation_id = p_destination',
    'false',
  ),
  mutant('an unknown recipient changes nothing', 'turn_scope', 'return nothing;', "also := '{}';"),
  mutant(
    'a recipient who does not read the destination gets it',
    'turn_scope',
    'array[p_destination], array[p_floor], also,',
    'array[p_destination], array[p_floor], also[2:],',
  ),
  mutant('a thread that was shared is private', 'judge_turn', 'and not d.ever_shared', ''),
  mutant(
    'a thread is private to whoever reads it alone',
    'judge_turn',
    'and d.owner_id = p_requester',
    '',
  ),
  mutant(
    'one person alone brings a whole world',
    'judge_turn',
    "when sole is null then 'audience' else 'destination'",
    "when true then 'audience'",
  ),
  mutant('a trigger below the floor starts a turn', 'judge_turn', 'and m.seq >= result.floor', ''),
  mutant('anybody asks', 'judge_turn', 'not reads(', 'false and not reads('),
  mutant(
    'a page is cut before it is ranked',
    'search_messages',
    '(until is null or v.sent_at < until)',
    '(until is null or v.sent_at < until) limit page + 1',
  ),
  mutant(
    'a reply names a parent that is hidden',
    'message_item',
    'from earshot.visible_messages(p_org, p_scope) parent\n',
    'from earshot.messages parent\n',
  ),
  mutant(
    'an embed names a message that is hidden',
    'message_item',
    'join earshot.visible_messages(p_org, p_scope) target',
    'join earshot.messages target',
  ),
  mutant(
    'hidden messages are counted',
    'list_conversations',
    'from visible_messages(p_org, p_scope) v where',
    'from messages v where v.org_id = p_org and',
  ),
  mutant(
    'a hidden conversation answers with nothing',
    'read_messages',
    "return row('not_found', null, false)",
    'return row(null, null, false)',
  ),
];

/** Changes of how the work is done, not of what comes out of it: small worlds would not get there by themselves. */
const NEUTRAL: readonly Mutant[] = [
  mutant('readers are taken one at a time', 'intersection', 'integer := 512', 'integer := 1'),
  mutant(
    'the reader with the most comes first',
    'intersection',
    'reach.reach)',
    'reach.reach desc)',
  ),
];

describe('each mutant of the SQL is told from the plain rules when', () => {
  const seen = fc.sample(worlds, { numRuns: 400, seed: 4 });
  let database: WorldDatabase;

  beforeAll(async () => {
    database = await createWorldDatabase();
  });
  afterAll(() => database.drop());

  test.each(MUTANTS)('$title ($routine)', async (change) => {
    await withMutant(database, change, async () => {
      expect(await worldsUntilCaught(database, seen)).toBeLessThan(seen.length);
    });
  });

  test('nothing has been mutated', async () => {
    expect(await worldsUntilCaught(database, seen.slice(0, 50))).toBe(50);
  });

  test.each(NEUTRAL)('but not when $title ($routine)', async (change) => {
    await withMutant(database, change, async () => {
      expect(await worldsUntilCaught(database, seen.slice(0, 100))).toBe(100);
    });
  });
});

async function withMutant(
  { superuser }: WorldDatabase,
  { routine, from, to }: Mutant,
  work: () => Promise<void>,
): Promise<void> {
  const [row] = await superuser<{ text: string }[]>`
    select pg_get_functiondef(oid) as text from pg_proc
    where pronamespace = 'earshot'::regnamespace and proname = ${routine}`;
  const original = row?.text ?? '';
  expect(original.split(from), 'what is to be mutated').toHaveLength(2);
  await superuser.unsafe(original.replace(from, () => to));
  try {
    await work();
  } finally {
    await superuser.unsafe(original);
  }
}

/** How many worlds agreed before one that did not. */
async function worldsUntilCaught(
  database: WorldDatabase,
  all: typeof worlds extends fc.Arbitrary<infer W> ? readonly W[] : never,
) {
  for (const [i, world] of all.entries()) {
    if ((await compareWorld(database, world, new Tally())).length > 0) {
      return i;
    }
  }
  return all.length;
}

function mutant(title: string, routine: string, from: string, to: string): Mutant {
  return { title, routine, from, to };
}
