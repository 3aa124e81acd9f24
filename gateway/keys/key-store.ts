import { KeyError, newStoredKey, signingKeyAt, type StoredKey } from './signing-key.ts';

/** Where keys are kept. */
export interface KeyStore {
  /** For people: the path of the file, or the database. */
  readonly place: string;
  /** What is kept; nothing if keys were never made. Throws a {@link KeyError} if it cannot be understood. */
  read(): Promise<readonly StoredKey[]>;
  /** Replaces what is kept by what `work` makes of it, after every other change and before the next. */
  change(work: (keys: readonly StoredKey[]) => Promise<readonly StoredKey[]>): Promise<void>;
}

/** Makes the first key. Leaves what is there alone, and says so by false. */
export async function createFirstKey(store: KeyStore): Promise<boolean> {
  if ((await store.read()).length > 0) return false;
  let made = false;
  await store.change(async (keys) => {
    if (keys.length > 0) return keys;
    made = true;
    return [await newStoredKey(0)];
  });
  return made;
}

/** Adds a key that is published now and signs after so many seconds. Those before it go on verifying. */
export async function rotateKeys(store: KeyStore, signsAfterSeconds: number): Promise<StoredKey> {
  const key = await newStoredKey(signsAfterSeconds);
  await store.change((keys) => {
    if (keys.length === 0) throw new KeyError(NO_KEYS);
    return Promise.resolve([...keys, key]);
  });
  return key;
}

/**
 * Takes a key away for good, and with it every token that it signed. Says why it does not, if it is
 * not there or is the one that signs now.
 */
export async function retireKey(
  store: KeyStore,
  kid: string,
): Promise<'retired' | 'unknown' | 'signs'> {
  let outcome: 'retired' | 'unknown' | 'signs' = 'retired';
  await store.change((keys) => {
    if (!keys.some((key) => key.kid === kid)) outcome = 'unknown';
    else if (signingKeyAt(keys, Date.now())?.kid === kid) outcome = 'signs';
    return Promise.resolve(outcome === 'retired' ? keys.filter((key) => key.kid !== kid) : keys);
  });
  return outcome;
}

export const NO_KEYS =
  'There are no keys. Run `earshot init`, or set EARSHOT_KEY_SECRET if they are in the database.';
