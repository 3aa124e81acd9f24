/** Time as this package takes it, so that a program can be run through it by hand. */
export interface Clock {
  /** Milliseconds that only grow; not a time of day. */
  now(): number;
  /** Resolves after the time, or as soon as the signal is aborted; leaves no timer behind. */
  wait(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  wait: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) {
        resolve();
        return;
      }
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal?.addEventListener('abort', end);
    }),
};
