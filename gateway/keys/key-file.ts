import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { KeyStore } from './key-store.ts';
import { KeyError, StoredKey } from './signing-key.ts';

const KeyFile = z.strictObject({ keys: z.array(StoredKey).min(1) });

/** Keys in a file of the data folder, which its owner alone may read. */
export function keyFile(dataDir: string): KeyStore {
  const file = join(dataDir, 'keys.json');
  return {
    place: file,
    read: () => readKeys(file),
    async change(work) {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      // The draft is the lock as well: whoever made it is the only one who changes the file now.
      const draft = `${file}.draft`;
      const handle = await open(draft, 'wx', 0o600).catch((error: unknown) => {
        if (codeOf(error) !== 'EEXIST') throw error;
        throw new KeyError(
          `Another command is changing the keys. If none is, one was cut off: remove ${draft}.`,
        );
      });
      let isRenamed = false;
      try {
        const keys = await work(await readKeys(file));
        await handle.writeFile(JSON.stringify({ keys }));
        await handle.sync();
        // Renamed when it is whole: a reader sees all of it or nothing.
        await rename(draft, file);
        isRenamed = true;
      } finally {
        await handle.close();
        // After it was renamed, a draft that is there is the lock of somebody else.
        if (!isRenamed) await rm(draft, { force: true });
      }
    },
  };
}

async function readKeys(file: string): Promise<readonly StoredKey[]> {
  const found = await stat(file).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (found === undefined) return [];
  if ((found.mode & 0o077) !== 0) {
    throw new KeyError(`Others may read the key file. Run \`chmod 600 ${file}\`.`);
  }
  const parsed = KeyFile.safeParse(parseJson(await readFile(file, 'utf8')));
  if (!parsed.success) throw new KeyError('The key file is not one that `earshot init` made.');
  return parsed.data.keys;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
