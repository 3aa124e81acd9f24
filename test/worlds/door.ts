import { createHash, randomUUID } from 'node:crypto';
import type { Instant } from '../../policy/instant.ts';
import type { RefusalCode } from '../../policy/refusal.ts';
import type { Scope } from '../../policy/scope.ts';
import { sessionIdFor } from '../../policy/session-id.ts';
import type { Sql } from '../../sql/database.ts';
import { describeTurn, everyTurn, type Difference, type Standing } from './differential.ts';
import {
  plainReads,
  plainScope,
  plainStanding,
  plainVisible,
  type PlainStanding,
  type TurnCase,
} from './plain-standing.ts';
import { firstCalls, nextPages, type Call, type Expectation } from './plain-tools.ts';
import type { Tally } from './tally.ts';
import { pick, type TestText, type TestWorld } from './world-generator.ts';
import type { LoadedWorld } from './world-loader.ts';

/** A turn as the plain rules see it at the door. */
export interface DoorTurn {
  readonly world: TestWorld;
  readonly turn: TurnCase;
  readonly plain: Standing;
  readonly scope: Scope;
  readonly seen: readonly TestText[];
  readonly now: Instant;
}

/**
 * Opens, leases and mints a sample of turns as the gateway's login does, and reads through each grant by every
 * tool. The answers must be the plain filter's, item by item and page by page, and must hold no word of a
 * message or title that is out of scope.
 */
export async function compareDoor(
  gateway: Sql,
  { world }: LoadedWorld,
  tally: Tally,
): Promise<Difference[]> {
  const now = BigInt(Date.now()) * 1000n;
  const found: Difference[] = [];
  const sample = sampleTurns(world, now).map((one) => ({ ...one, ...freshTurn() }));
  if (sample.length === 0) return [];

  const opened = await openTurns(gateway, world, sample);
  const standing: { digest: string; door: DoorTurn }[] = [];
  sample.forEach(({ turn, plain, digest }, n) => {
    const answer = pick(opened, n);
    const code = plainOpening(world, turn, plain, now);
    tally.count(`opening ${code ?? 'allowed'}`);
    if (answer.code !== code) {
      found.push({ about: `opening ${describeTurn(turn)}`, sql: answer.code, plain: code });
    } else if (plain.code === null && code === null) {
      const scope = plainScope(world, turn, plain, now);
      const door = {
        world,
        turn,
        plain,
        scope,
        seen: plainVisible(world, scope, turn.destination.id),
        now,
      };
      standing.push({ digest, door });
      found.push(...packetDifferences(answer, door));
    }
  });

  const calls = standing.flatMap(({ digest, door }) =>
    firstCalls(door).map((call) => ({ digest, door, call })),
  );
  const answers = await callTools(gateway, calls);
  const pages = calls.flatMap(({ digest, door, call }, n) =>
    nextPages(call, pick(answers, n)).map((page) => ({ digest, door, call: page })),
  );
  const pageAnswers = await callTools(gateway, pages);
  for (const [n, { door, call }] of [...calls, ...pages].entries()) {
    found.push(...answerDifferences(door, call, pick([...answers, ...pageAnswers], n), tally));
  }
  return found;
}

/** A turn that stands, with more than its own destination in scope if there is one, and a turn that does not. */
function sampleTurns(world: TestWorld, now: Instant) {
  const turns = everyTurn(world)
    .filter(({ trigger }) => trigger !== 'disclosure')
    .map((turn) => ({ turn, plain: plainStanding(world, turn, now) }));
  const allowed = turns.flatMap(({ turn, plain }) =>
    plain.code === null ? [{ turn, plain }] : [],
  );
  const wide = allowed.filter(({ turn, plain }) => plainScope(world, turn, plain, now).size > 1);
  const refused = turns.filter(({ plain }) => plain.code !== null);
  return [wide.length > 0 ? wide : allowed, refused].flatMap<(typeof turns)[number]>((list, i) =>
    list.length === 0 ? [] : [pick(list, pick(world.picks, i))],
  );
}

/** What the bridge is told at once. Absent and forbidden look alike, whatever state a destination is in. */
function plainOpening(
  world: TestWorld,
  { destination, requester }: TurnCase,
  { code }: PlainStanding,
  now: Instant,
): RefusalCode | null {
  if (!plainReads(world, requester, destination, now)) return 'not_found';
  return code === 'mode_changed' ? 'invalid_input' : code;
}

/** Names for what one turn makes. */
export function freshTurn() {
  const digest = createHash('sha256').update(randomUUID()).digest('hex');
  return { turnId: randomUUID(), grantId: randomUUID(), digest };
}

interface Opened {
  readonly code: string | null;
  readonly lease_code: string | null;
  readonly mint_code: string | null;
  readonly packet: Record<string, unknown> | null;
}

/** Opens, leases and mints, in one round trip. */
export function openTurns(
  gateway: Sql,
  world: TestWorld,
  sample: readonly (ReturnType<typeof freshTurn> & { turn: TurnCase })[],
): Promise<readonly Opened[]> {
  const rows = sample.map(({ turn, turnId, grantId, digest }, n) => ({
    n,
    turn: turnId,
    grant_id: grantId,
    digest,
    request: {
      persona: pick(world.personas, 0),
      destination: turn.destination.id,
      requester: turn.requester,
      trigger: turn.trigger,
      ...(turn.triggerSeq === undefined ? {} : { triggerSeq: String(turn.triggerSeq) }),
      tools: TOOLS,
    },
  }));
  return gateway.unsafe<Opened[]>(OPEN, [JSON.stringify(rows), world.organization.id], {
    prepare: true,
  });
}

function packetDifferences(answer: Opened, { world, turn, plain, scope }: DoorTurn): Difference[] {
  const { packet } = answer;
  const about = `grant of ${describeTurn(turn)}`;
  if (packet === null)
    return [{ about, sql: [answer.lease_code, answer.mint_code], plain: 'a grant' }];
  const { mode, projectBound } = plain.mode;
  const bound = projectBound === undefined ? {} : { projectBound };
  const people = plain.audience.readers.filter(({ reader }) => reader.kind === 'user').length;
  const expected = {
    destination: turn.destination.id,
    requester: turn.requester,
    audienceHash: plain.audienceHash,
    mode,
    conversations: scope.size,
    readers: { people, classes: plain.audience.readers.length - people },
    ...bound,
    sessionId: sessionIdFor({
      organization: world.organization.id,
      threadKey: turn.destination.id,
      salt: String(packet.salt),
      epoch: 1n,
      audience: {
        persona: pick(world.personas, 0),
        audienceHash: plain.audienceHash,
        mode,
        ...bound,
        policyRevision: 1n,
      },
    }),
  };
  const given = Object.fromEntries(
    [...Object.keys(expected), 'projectBound'].flatMap((name) =>
      name in packet ? [[name, packet[name]]] : [],
    ),
  );
  return canonical(given) === canonical(expected) ? [] : [{ about, sql: given, plain: expected }];
}

export interface Answer {
  readonly code: string | null;
  readonly more: boolean | null;
  readonly total: NonNullable<Expectation['total']> | null;
  readonly items: readonly Record<string, unknown>[] | null;
  readonly row: string;
  /** What goes to the agent, as the server wrote it. */
  readonly written: string;
}

/** Calls tools as the gateway does, in one round trip. */
export async function callTools(
  gateway: Sql,
  calls: readonly { digest: string; call: Call }[],
): Promise<readonly Answer[]> {
  if (calls.length === 0) return [];
  const rows = calls.map(({ digest, call }, n) => ({
    n,
    digest,
    tool: call.tool,
    arguments: call.arguments,
  }));
  return gateway.unsafe<Answer[]>(CALL, [JSON.stringify(rows)], { prepare: true });
}

function answerDifferences(
  { turn, scope, seen, world }: DoorTurn,
  call: Call,
  answer: Answer,
  tally: Tally,
): Difference[] {
  const about = `${call.tool} ${JSON.stringify(call.arguments)} in ${describeTurn(turn)}`;
  const found: Difference[] = [];
  const { expected } = call;
  const given = givenOf(answer);
  tally.count(`${call.tool} ${expected.code ?? (expected.items.length > 0 ? 'some' : 'none')}`);
  if (canonical(given) !== canonical(expected)) found.push({ about, sql: given, plain: expected });

  const known = new Set(seen.map(({ canary }) => canary));
  for (const [id, title] of world.titles)
    if (scope.has(id)) known.add(title.slice('title '.length));
  const leaked = answer.row.match(/(c\d+m|t)\d+q/g)?.filter((canary) => !known.has(canary)) ?? [];
  if (leaked.length > 0) found.push({ about: `leak by ${about}`, sql: leaked, plain: [] });
  for (const { score, marked, text } of answer.items ?? []) {
    if (score === undefined) continue;
    const unmarked = String(marked).replace(/[\u0001\u0002]/g, '');
    if (!(Number(score) > 0) || unmarked !== text || unmarked === marked) {
      found.push({ about: `marks of ${about}`, sql: marked, plain: text });
    }
  }
  return found;
}

/** The answer in the words of the expectation: without what the plain rules do not say, the marks. */
function givenOf({ code, more, total, items }: Answer): Given {
  const shown = (items ?? []).map((item) =>
    Object.fromEntries(Object.entries(item).filter(([name]) => name !== 'marked')),
  );
  return { code, items: shown, more: more ?? false, ...(total !== null && { total }) };
}

type Given = Omit<Expectation, 'code'> & { readonly code: string | null };

/** JSON with the keys in order, whatever order they were made in. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

const TOOLS = ['search', 'read', 'around', 'thread', 'list_conversations'];

const OPEN = `
select o.code, l.code as lease_code, m.code as mint_code, m.packet
from jsonb_to_recordset($1::text::jsonb) as t(n integer, turn uuid, grant_id uuid, digest text, request jsonb)
cross join lateral earshot.open_turn($2, t.turn, 'worlds', '{*}', t.turn::text, sha256(convert_to(t.request::text, 'UTF8')),
  t.request, interval '1 hour') o
cross join lateral earshot.take_lease($2, '{*}', coalesce(o.turn_id, t.turn), 'worker', interval '30 minutes') l
cross join lateral earshot.mint_grant($2, '{*}', t.turn, l.lease_id, 'worker', l.fence, t.grant_id,
  decode(t.digest, 'hex'), interval '30 minutes', false) m
order by t.n`;

const CALL = `
select c.code, c.more, c.total, c.items, c::text as row,
  jsonb_build_array(c.code, c.more, c.total, c.items, c.changes)::text as written
from jsonb_to_recordset($1::text::jsonb) as t(n integer, digest text, tool text, arguments jsonb)
cross join lateral earshot.call_tool(decode(t.digest, 'hex'), t.tool, t.arguments, null) c
order by t.n`;
