import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { EmbeddedError } from './embedded-error.ts';

/** The account that runs the server and owns its data; undefined means our own. */
export type Account = { readonly uid: number; readonly gid: number } | undefined;

const run = promisify(execFile);

/** PostgreSQL refuses to run as root, so root lends the server an account that exists and can do little. */
export async function serverAccount(): Promise<Account> {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ['postgres', 'nobody']) {
    const found = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]).catch(
      () => undefined,
    );
    if (found) return { uid: Number(found[0].stdout), gid: Number(found[1].stdout) };
  }
  throw new EmbeddedError(
    'no-account',
    'PostgreSQL does not run as root, and there is no account postgres or nobody to run it. Start Earshot as another user.',
  );
}
