import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NO_HISTORY } from '../../policy/floor.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { callTools } from './door.ts';
import { answersOf, answersTo, openGrant, standingTurns, wideTurn } from './gated-answers.ts';
import { HIDINGS, SHOWING } from './hiding.ts';
import { plainStanding, type TurnCase } from './plain-standing.ts';
import { firstCalls, type Call } from './plain-tools.ts';
import { withReader, withUsersRenamed } from './world-changes.ts';
import { createWorldDatabase, runSettings, type WorldDatabase } from './world-database.ts';
import { pick, WORDS, worlds, type TestWorld } from './world-generator.ts';
import { freshlyNamed, loadWorld, type LoadedWorld } from './world-loader.ts';

// The same properties as of the scopes, of what a turn is answered through the door.

describe('what a turn is answered, over generated worlds', () => {
  const settings = runSettings(90);
  const timeout = settings.numRuns * 1_500;
  /** A short run may miss what is rare. */
  const atLeast = (share: number) => (settings.numRuns < 50 ? -1 : settings.numRuns * share);
  let place: TestDatabase;
  let database: WorldDatabase;
  /** Writes as everybody does: its triggers run. */
  let writer: Database;

  beforeAll(async () => {
    place = await createTestDatabase();
    database = await createWorldDatabase(place);
    writer = openDatabase(place.superuserUrl, { max: 1 });
  });
  afterAll(async () => {
    await writer.close();
    await database.drop();
  });

  const load = (world: TestWorld) => loadWorld(database.superuser, freshlyNamed(world));

  test.each(HIDINGS.map(({ what, hide }) => [what, hide] as const))(
    'does not change by a byte for %s, within one grant',
    { timeout },
    async (_what, hide) => {
      let compared = 0;
      await fc.assert(
        fc.asyncProperty(worlds, async (world) => {
          const turn = wideTurn(world);
          if (turn === undefined) return;
          const loaded = await load(world);
          const opened = await openGrant(database.gateway, loaded, turn.turn);
          if ('code' in opened) throw new Error(opened.code);
          const calls = [...firstCalls(turn), ...wholeCalls(world)];
          const before = await answersTo(database.gateway, opened.digest, calls);
          await hide(writer.sql, loaded, turn);
          expect(await answersTo(database.gateway, opened.digest, calls)).toEqual(before);
          compared += before.filter((answer) => answer.includes('"text"')).length;
        }),
        { ...settings, numRuns: Math.ceil(settings.numRuns / 3) },
      );
      expect(compared).toBeGreaterThan(atLeast(1 / 3));
    },
  );

  test(
    'changes for a row in scope, which shows that one would be noticed',
    { timeout },
    async () => {
      let changed = 0;
      await fc.assert(
        fc.asyncProperty(worlds, async (world) => {
          const turn = wideTurn(world);
          if (turn === undefined) return;
          const loaded = await load(world);
          const opened = await openGrant(database.gateway, loaded, turn.turn);
          if ('code' in opened) throw new Error(opened.code);
          const before = await answersTo(database.gateway, opened.digest, wholeCalls(world));
          await SHOWING.hide(writer.sql, loaded, turn);
          const after = await answersTo(database.gateway, opened.digest, wholeCalls(world));
          // A floor that is above every sequence shows nothing, even at the destination.
          const floor = turn.scope.get(turn.turn.destination.id);
          if (floor === NO_HISTORY) {
            expect(after).toEqual(before);
          } else {
            expect(after).not.toEqual(before);
            changed += 1;
          }
        }),
        { ...settings, numRuns: 10 },
      );
      expect(changed).toBeGreaterThan(0);
    },
  );

  test(
    'does not change by a byte for another organization of the same names',
    { timeout },
    async () => {
      await fc.assert(
        fc.asyncProperty(worlds, async (world) => {
          const turn = wideTurn(world);
          if (turn === undefined) return;
          const loaded = await load(world);
          const opened = await openGrant(database.gateway, loaded, turn.turn);
          if ('code' in opened) throw new Error(opened.code);
          const calls = [...firstCalls(turn), ...wholeCalls(world)];
          const before = await answersTo(database.gateway, opened.digest, calls);
          await load(wideOpen(world));
          expect(await answersTo(database.gateway, opened.digest, calls)).toEqual(before);
        }),
        settings,
      );
    },
  );

  test('only narrows when one more person reads the destination', { timeout }, async () => {
    let [narrowed, compared] = [0, 0];
    await fc.assert(
      fc.asyncProperty(worlds, fc.nat({ max: 7 }), fc.boolean(), async (world, at, all) => {
        const turns = standingTurns(world).filter(({ turn }) => turn.trigger === 'schedule');
        if (turns.length === 0) return;
        const { turn, plain } = pick(turns, at);
        const changed = pick([...withReader(world, turn.destination, all), world], at);
        const now = plainStanding(changed, turn, BigInt(Date.now()) * 1000n);
        // A thread with one reader who is not its plain owner has the narrowest scope there is, and a
        // second reader makes it a shared one.
        const widens =
          now.code === null &&
          plain.mode.extent === 'destination' &&
          now.mode.extent === 'audience';
        if (now.code !== null || widens) return;
        const before = await everythingOf(await load(world), turn);
        const after = await everythingOf(await load(changed), turn);
        compared += 1;
        if (after.texts.size < before.texts.size) narrowed += 1;
        for (const text of after.texts) expect(before.texts).toContain(text);
        for (const [conversation, floor] of after.floors) {
          const allowed = before.floors.get(conversation);
          expect(allowed, `${conversation} is new`).toBeDefined();
          expect(floor >= (allowed ?? 0n), `the floor in ${conversation} is lower`).toBe(true);
        }
      }),
      { ...settings, numRuns: settings.numRuns * 2 },
    );
    expect(compared).toBeGreaterThan(atLeast(1 / 3));
    expect(narrowed).toBeGreaterThan(atLeast(1 / 50));
  });

  test('is the same when people have other names, but for the names', { timeout }, async () => {
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(worlds, fc.nat({ max: 50 }), async (world, shift) => {
        const { world: renamed, names } = withUsersRenamed(world, shift);
        const turn = wideTurn(world);
        if (turn === undefined) return;
        const named = (value: unknown) => names.get(value as ExternalId) ?? value;
        const calls = [...firstCalls(turn), ...wholeCalls(world)];
        const requester = named(turn.turn.requester) as ExternalId;
        const before = await answersOf(database.gateway, await load(world), turn.turn, calls);
        const after = await answersOf(
          database.gateway,
          await load(renamed),
          { ...turn.turn, requester },
          calls.map((call) => ({ ...call, arguments: withNames(call.arguments, named) })),
        );
        expect(after.map((text) => JSON.parse(text) as unknown)).toEqual(
          before.map((text) => withNames(JSON.parse(text) as object, named)),
        );
        compared += before.filter((text) => text.includes('"authorUser"')).length;
      }),
      settings,
    );
    expect(compared).toBeGreaterThan(atLeast(1));
  });

  /** All that a turn can get at: the texts that any tool shows, and the floors of its conversations. */
  async function everythingOf(loaded: LoadedWorld, turn: TurnCase) {
    const opened = await openGrant(database.gateway, loaded, turn);
    if ('code' in opened) throw new Error(opened.code);
    const answers = await callTools(
      database.gateway,
      wholeCalls(loaded.world).map((call) => ({ digest: opened.digest, call })),
    );
    const items = answers.flatMap((answer) => answer.items ?? []);
    return {
      texts: new Set(items.flatMap(({ text }) => (typeof text === 'string' ? [text] : []))),
      floors: new Map(
        items.map(({ conversation, fromSeq }) => [String(conversation), BigInt(String(fromSeq))]),
      ),
    };
  }
});

/** The whole of what each tool can show of a world, whatever the scope. */
function wholeCalls(world: TestWorld): Call[] {
  const expected = { code: null, items: [], more: false };
  return [
    { tool: 'list_conversations', arguments: { limit: 100 }, expected },
    { tool: 'search', arguments: { query: WORDS.join(' or '), limit: 100 }, expected },
    ...WORDS.map((query): Call => ({ tool: 'search', arguments: { query, limit: 100 }, expected })),
    ...[...world.conversations.keys()].map((conversation): Call => ({
      tool: 'read',
      arguments: { conversation, limit: 100, direction: 'forward' },
      expected,
    })),
  ];
}

/** The same things under the same names, where everybody reads everything. */
function wideOpen(world: TestWorld): TestWorld {
  const conversations = [...world.conversations.values()].map((conversation) => ({
    ...conversation,
    visibility: 'organization' as const,
    ...{ deleted: false, staged: false, archived: false, externalReaders: false, defaultFloor: 1n },
  }));
  return {
    ...world,
    conversations: new Map(conversations.map((conversation) => [conversation.id, conversation])),
    memberships: conversations.flatMap(({ id }) =>
      [...world.users.keys()].map((user) => ({ conversation: id, user, floor: 1n })),
    ),
    messages: world.messages.map((message) => ({
      ...message,
      deleted: false,
      body: `${message.canary}twin ${WORDS.join(' ')}`,
    })),
  };
}

/** Where people stand in an answer or a request. */
const PEOPLE = new Set(['authorUser', 'owner', 'author', 'recipient']);

function withNames<Value extends object>(value: Value, named: (id: unknown) => unknown): Value {
  return JSON.parse(
    JSON.stringify(value, (key, inner: unknown) => (PEOPLE.has(key) ? named(inner) : inner)),
  ) as Value;
}
