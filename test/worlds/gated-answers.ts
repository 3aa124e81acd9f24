import type { Sql } from '../../sql/database.ts';
import { everyTurn } from './differential.ts';
import { callTools, freshTurn, openTurns, type DoorTurn } from './door.ts';
import { plainScope, plainStanding, plainVisible, type TurnCase } from './plain-standing.ts';
import { nextPages, type Call } from './plain-tools.ts';
import { pick, type TestWorld } from './world-generator.ts';
import type { LoadedWorld } from './world-loader.ts';

/** Opens, leases and mints a turn; the digest of its grant, or why there is none. */
export async function openGrant(
  gateway: Sql,
  { world }: Pick<LoadedWorld, 'world'>,
  turn: TurnCase,
): Promise<{ digest: string } | { code: string }> {
  const one = { turn, ...freshTurn() };
  const [opened] = await openTurns(gateway, world, [one]);
  const code = opened?.code ?? opened?.lease_code ?? opened?.mint_code;
  return code === undefined || code === null ? { digest: one.digest } : { code };
}

/** The answers to calls within one grant, and to the pages that follow them, as the server wrote them. */
export async function answersTo(
  gateway: Sql,
  digest: string,
  calls: readonly Call[],
): Promise<string[]> {
  const ask = (some: readonly Call[]) =>
    callTools(
      gateway,
      some.map((call) => ({ digest, call })),
    );
  const answers = await ask(calls);
  const more = await ask(calls.flatMap((call, n) => nextPages(call, pick(answers, n))));
  return [...answers, ...more].map(({ written }) => written);
}

/** {@link answersTo} within a grant of a turn's own, which has to be had. */
export async function answersOf(
  gateway: Sql,
  loaded: Pick<LoadedWorld, 'world'>,
  turn: TurnCase,
  calls: readonly Call[],
): Promise<string[]> {
  const opened = await openGrant(gateway, loaded, turn);
  if ('code' in opened) throw new Error(`the turn is refused: ${opened.code}`);
  return answersTo(gateway, opened.digest, calls);
}

/** The turns that may be opened at the door now. */
export function standingTurns(world: TestWorld): DoorTurn[] {
  const now = BigInt(Date.now()) * 1000n;
  return everyTurn(world).flatMap((turn): DoorTurn[] => {
    const plain = plainStanding(world, turn, now);
    if (turn.trigger === 'disclosure' || plain.code !== null) return [];
    const scope = plainScope(world, turn, plain, now);
    const seen = plainVisible(world, scope, turn.destination.id);
    return [{ world, turn, plain, scope, now, seen }];
  });
}

/** One of them, with something beyond its destination in scope if there is one. */
export function wideTurn(world: TestWorld): DoorTurn | undefined {
  const standing = standingTurns(world);
  const wide = standing.filter(({ scope }) => scope.size > 1);
  const from = wide.length > 0 ? wide : standing;
  return from.length === 0 ? undefined : pick(from, pick(world.picks, 0));
}
