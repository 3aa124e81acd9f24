import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('../../gateway/cli/earshot.ts', import.meta.url));
const LOADER = import.meta.resolve('tsx');

interface CommandOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly errors: string;
}

/** Starts `earshot` as a process of its own, with nothing of the surroundings that configures it. */
export function startCommand(args: readonly string[], { cwd, env = {} }: CommandOptions) {
  const foreign = /^(EARSHOT_|DATABASE_|npm_|INIT_CWD$|NODE_DEBUG$|NODE_OPTIONS$|VITEST)/;
  const own = Object.entries(process.env).filter(([name]) => !foreign.test(name));
  return spawn(process.execPath, ['--import', LOADER, SCRIPT, ...args], {
    cwd,
    env: { ...Object.fromEntries(own), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs `earshot` to its end. */
export async function command(args: readonly string[], options: CommandOptions): Promise<Ended> {
  const child = startCommand(args, options);
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const [code, out, errors] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { code, out, errors };
}
