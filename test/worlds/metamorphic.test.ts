import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ExternalId } from '../../policy/identity.ts';
import { everyTurn } from './differential.ts';
import { answersOf, wideTurn } from './gated-answers.ts';
import type { TurnCase } from './plain-standing.ts';
import { firstCalls } from './plain-tools.ts';
import { sqlScopes, type SqlScope } from './sql-scopes.ts';
import { createWorldDatabase, runSettings, type WorldDatabase } from './world-database.ts';
import { pick, worlds, type TestWorld } from './world-generator.ts';
import { freshlyNamed, loadWorld, type LoadedWorld } from './world-loader.ts';
import { withHiddenRows, withOtherOrder, withReader, withUsersRenamed } from './world-changes.ts';

describe('over generated worlds', () => {
  const settings = runSettings(200);
  const timeout = settings.numRuns * 500;
  let database: WorldDatabase;

  beforeAll(async () => {
    database = await createWorldDatabase();
  });
  afterAll(() => database.drop());

  const load = (world: TestWorld) => loadWorld(database.superuser, freshlyNamed(world));
  const ask = (loaded: LoadedWorld, turns: readonly TurnCase[]) =>
    sqlScopes(database.superuser, loaded, turns);

  test('one more reader of the destination never widens a scope', { timeout }, async () => {
    let narrowed = 0;
    await fc.assert(
      fc.asyncProperty(worlds, fc.nat({ max: 7 }), fc.boolean(), async (world, at, all) => {
        const destination = pick([...world.conversations.values()], at);
        const turns = withoutMessage(world).filter((turn) => turn.destination === destination);
        const before = await ask(await load(world), turns);
        for (const changed of withReader(world, destination, all)) {
          const after = await ask(await load(changed), turns);
          after.forEach((now, n) => {
            const then = pick(before, n);
            if (now.code !== null || then.code !== null) return;
            // A thread with one reader who is not its plain owner has the narrowest scope there is, and a
            // second reader makes it a shared one.
            if (then.extent === 'destination' && now.extent === 'audience') return;
            expectWithin(now, then);
            if (now.scope.size < then.scope.size || now.seen.size < then.seen.size) narrowed += 1;
          });
        }
      }),
      settings,
    );
    expect(narrowed).toBeGreaterThan(settings.numRuns / 20);
  });

  test('a recipient never widens a scope', { timeout }, async () => {
    let narrowed = 0;
    await fc.assert(
      fc.asyncProperty(worlds, async (world) => {
        const turns = everyTurn(world).filter(({ trigger }) => trigger === 'schedule');
        const users = [...world.users.keys()];
        const loaded = await load(world);
        const without = await ask(loaded, turns);
        const narrower = await sqlScopes(
          database.superuser,
          loaded,
          turns.map((turn, n) => ({ ...turn, recipient: pick(users, n + pick(world.picks, 0)) })),
        );
        narrower.forEach((scope, n) => {
          expectWithin(scope, pick(without, n));
          if (scope.scope.size < pick(without, n).scope.size) narrowed += 1;
        });
      }),
      settings,
    );
    expect(narrowed).toBeGreaterThan(settings.numRuns / 20);
  });

  test('rows out of scope change no byte of any answer', { timeout }, async () => {
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(worlds, async (world) => {
        const turn = wideTurn(world);
        if (turn === undefined) return;
        const calls = firstCalls(turn);
        const answers = await answersOf(database.gateway, await load(world), turn.turn, calls);
        const others = await answersOf(
          database.gateway,
          await load(withHiddenRows(turn)),
          turn.turn,
          calls,
        );
        expect(others).toEqual(answers);
        compared += answers.filter((answer) => answer.includes('"text"')).length;
      }),
      settings,
    );
    expect(compared).toBeGreaterThan(settings.numRuns);
  });

  test('giving people other names changes no scope', { timeout }, async () => {
    let shared = 0;
    await fc.assert(
      fc.asyncProperty(worlds, fc.nat({ max: 50 }), async (world, shift) => {
        const { world: renamed, names } = withUsersRenamed(world, shift);
        const turns = withoutMessage(world);
        const before = await ask(await load(world), turns);
        const after = await ask(
          await load(renamed),
          turns.map((turn) => ({
            ...turn,
            requester: names.get(turn.requester) ?? turn.requester,
          })),
        );
        expect(after.map(withoutHash)).toEqual(before.map(withoutHash));
        shared += before.filter(({ scope }) => scope.size > 1).length;
      }),
      settings,
    );
    expect(shared).toBeGreaterThan(settings.numRuns);
  });

  test(
    'the order of facts changes neither scope, fingerprint nor answer',
    { timeout },
    async () => {
      let shared = 0;
      await fc.assert(
        fc.asyncProperty(worlds, fc.nat(), async (world, seed) => {
          const turns = withoutMessage(world);
          const first = await load(world);
          const second = await load(withOtherOrder(world, seed));
          const before = await ask(first, turns);
          expect((await ask(second, turns)).map(sorted)).toEqual(before.map(sorted));
          shared += before.filter(({ scope }) => scope.size > 1).length;
          const turn = wideTurn(world);
          if (turn === undefined) return;
          const calls = firstCalls(turn);
          expect(await answersOf(database.gateway, second, turn.turn, calls)).toEqual(
            await answersOf(database.gateway, first, turn.turn, calls),
          );
        }),
        settings,
      );
      expect(shared).toBeGreaterThan(settings.numRuns);
    },
  );
});

/** Turns that no message caused: those that one did have the same scopes. */
function withoutMessage(world: TestWorld): TurnCase[] {
  return everyTurn(world).filter(({ triggerSeq }) => triggerSeq === undefined);
}

function expectWithin(inner: SqlScope, outer: SqlScope): void {
  for (const [conversation, floor] of inner.scope) {
    const allowed = outer.scope.get(conversation);
    expect(allowed, `${conversation} is new`).toBeDefined();
    expect(floor >= (allowed ?? 0n), `the floor in ${conversation} is lower`).toBe(true);
  }
  for (const canary of inner.seen) expect(outer.seen).toContain(canary);
}

function withoutHash(scope: SqlScope) {
  return sorted({ ...scope, hash: null });
}

function sorted({ scope, seen, ...rest }: SqlScope) {
  const byId = ([a]: [ExternalId, bigint], [b]: [ExternalId, bigint]) => (a < b ? -1 : 1);
  return { ...rest, scope: [...scope].sort(byId), seen: [...seen].sort() };
}
