/**
 * One thing to measure. `run` is given a number that grows, to take another audience each time. Where it
 * gives a number, that many milliseconds count in place of those that it took.
 */
export interface Case {
  readonly name: string;
  run(turn: number): Promise<unknown>;
  /** What each run needs first; it is not measured. */
  readonly prepare?: (turn: number) => Promise<unknown>;
}

/** Milliseconds. */
export interface Measurement {
  readonly name: string;
  readonly samples: number;
  readonly p50: number;
  readonly p95: number;
}

/** How much is spent on measuring. */
export interface Effort {
  /** Milliseconds for each case, beside its warm-up. */
  readonly budgetMs: number;
  /** At least so many samples, whatever they take. 5 unless given. */
  readonly minSamples?: number;
  /** Runs before the first sample, 8 unless given: a prepared statement has its lasting plan after five. */
  readonly warmUpRuns?: number;
}

const WARM_UP_MS = 1_500;
const MAX_SAMPLES = 2_000;
/** One case is measured this long before the next has its turn, so that caches are warm in each turn. */
const TURN_MS = 25;

/**
 * Measures cases one at a time, in turns: whatever the machine does meanwhile is shared by all of
 * them. A case that fails ends the measurement.
 */
export async function measure(
  cases: readonly Case[],
  { budgetMs, minSamples = 5, warmUpRuns = 8 }: Effort,
): Promise<Measurement[]> {
  const running = cases.map((subject) => ({
    subject,
    turn: 0,
    spent: 0,
    samples: [] as number[],
  }));
  for (const entry of running) {
    const began = performance.now();
    for (let i = 0; i < warmUpRuns && performance.now() - began < WARM_UP_MS; i++) {
      await once(entry);
    }
  }
  const isDone = (entry: (typeof running)[number]) =>
    entry.samples.length >= MAX_SAMPLES ||
    (entry.spent >= budgetMs && entry.samples.length >= minSamples);
  for (let left = running; left.length > 0; left = left.filter((entry) => !isDone(entry))) {
    for (const entry of left) {
      const end = performance.now() + TURN_MS;
      // The first run of a turn fills the caches again; beside a slow case that does not show.
      if ((entry.samples.at(-1) ?? 0) < TURN_MS / 5) await once(entry);
      do {
        const took = await once(entry);
        entry.spent += took;
        entry.samples.push(took);
      } while (performance.now() < end && !isDone(entry));
    }
  }
  return running.map(({ subject, samples }) => ({
    name: subject.name,
    samples: samples.length,
    p50: quantile(samples, 0.5),
    p95: quantile(samples, 0.95),
  }));
}

/** Runs a case once and says how many milliseconds it took. */
async function once(entry: { readonly subject: Case; turn: number }): Promise<number> {
  const turn = entry.turn++;
  await entry.subject.prepare?.(turn);
  const began = performance.now();
  const counted = await entry.subject.run(turn);
  return typeof counted === 'number' ? counted : performance.now() - began;
}

/** The nearest rank. */
function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? NaN;
}

/** Measurements by name. One that is not there is an error. */
export function byName(measurements: readonly Measurement[]): (name: string) => Measurement {
  const found = new Map(measurements.map((measurement) => [measurement.name, measurement]));
  return (name) => {
    const measurement = found.get(name);
    if (measurement === undefined) throw new Error(`${name} was not measured.`);
    return measurement;
  };
}
