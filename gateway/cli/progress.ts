import cliProgress from 'cli-progress';

/** How far long work is, on a terminal only. */
export interface Progress {
  at(done: number, total: number): void;
  stop(): void;
}

/** A bar on standard error, so that standard output stays what was asked for. */
export function openProgress(label: string, isShown: boolean): Progress {
  if (!isShown || !process.stderr.isTTY) return { at: () => {}, stop: () => {} };
  const bar = new cliProgress.SingleBar(
    { format: `${label} {bar} {percentage}%  {value}/{total} files`, clearOnComplete: true },
    cliProgress.Presets.shades_classic,
  );
  let isStarted = false;
  return {
    at(done, total) {
      if (!isStarted) bar.start(total, done);
      isStarted = true;
      bar.update(done);
    },
    stop() {
      if (isStarted) bar.stop();
    },
  };
}
