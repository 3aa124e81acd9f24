import type { Clock } from '../../client/clock.ts';

/** A clock that a test moves by hand. */
export interface SteppedClock extends Clock {
  /** How long each wait was asked to be, in order. */
  readonly waits: readonly number[];
  /** How many wait now. */
  readonly waiting: number;
  /** Resolves as soon as somebody waits. */
  untilWaiting(): Promise<void>;
  /** Lets time pass, and ends the waits that are due. */
  pass(ms: number): void;
}

export function steppedClock(): SteppedClock {
  let time = 0;
  const waits: number[] = [];
  const pending = new Set<{ at: number; end: () => void }>();
  let watchers: (() => void)[] = [];
  return {
    waits,
    get waiting() {
      return pending.size;
    },
    now: () => time,
    wait: (ms, signal) =>
      new Promise((resolve) => {
        waits.push(ms);
        const entry = {
          at: time + ms,
          end: () => {
            pending.delete(entry);
            resolve();
          },
        };
        if (ms <= 0 || signal?.aborted) {
          resolve();
          return;
        }
        pending.add(entry);
        signal?.addEventListener('abort', entry.end);
        for (const watcher of watchers) watcher();
        watchers = [];
      }),
    untilWaiting: () =>
      pending.size > 0
        ? Promise.resolve()
        : new Promise((resolve) => {
            watchers.push(resolve);
          }),
    pass(ms) {
      time += ms;
      for (const entry of [...pending]) if (entry.at <= time) entry.end();
    },
  };
}
