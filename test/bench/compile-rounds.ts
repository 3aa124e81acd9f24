import type { Effort } from './measurement.ts';

/** What one run of a subject took, in milliseconds, by what it is the time of. */
export type Times = Readonly<Record<string, number>>;

/** What is measured once in each round. */
export interface Subject {
  readonly run: (round: number) => Promise<Times>;
}

/** Milliseconds by name; those of one place belong to one round. */
export type Rounds = ReadonlyMap<string, readonly number[]>;

const MAX_ROUNDS = 100;

/**
 * Measures subjects in rounds, each once in each round and in the opposite order in the next one, so that what is compared was
 * measured at nearly the same time. Two rounds go before that are not counted, unless `warmUpRuns` says otherwise.
 */
export async function measureRounds(
  subjects: readonly Subject[],
  { budgetMs, minSamples = 5, warmUpRuns = 2 }: Effort,
): Promise<Rounds> {
  const rounds = new Map<string, number[]>();
  let spent = 0;
  for (let round = 0; round < MAX_ROUNDS + warmUpRuns; round++) {
    const counted = round - warmUpRuns;
    if (counted >= minSamples && spent >= budgetMs * subjects.length) break;
    const began = performance.now();
    for (const { run } of round % 2 === 0 ? subjects : subjects.toReversed()) {
      for (const [name, took] of Object.entries(await run(round))) {
        if (counted >= 0) rounds.set(name, [...(rounds.get(name) ?? []), took]);
      }
    }
    if (counted >= 0) spent += performance.now() - began;
  }
  return rounds;
}

/** How many milliseconds something takes, with what it gives. */
export async function timed<Value>(
  run: () => Value | Promise<Value>,
): Promise<{ readonly value: Value; readonly took: number }> {
  const began = performance.now();
  const value = await run();
  return { value, took: performance.now() - began };
}

/** What something took in the middle of the rounds. */
export function medianOf(rounds: Rounds, name: string): number {
  return median(timesOf(rounds, name));
}

/** How many times as long one took as the other, in the middle of what it was in each round. */
export function medianRatio(rounds: Rounds, name: string, other: string): number {
  const others = timesOf(rounds, other);
  return median(timesOf(rounds, name).map((took, round) => took / (others[round] ?? NaN)));
}

export function roundsOf(rounds: Rounds): number {
  return Math.min(...[...rounds.values()].map((times) => times.length));
}

function timesOf(rounds: Rounds, name: string): readonly number[] {
  const times = rounds.get(name);
  if (times === undefined) throw new Error(`${name} was not measured.`);
  return times;
}

/** The mean of the two in the middle where there are two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? NaN) + (sorted[Math.ceil(middle)] ?? NaN)) / 2;
}
