/**
 * What an endpoint has begun and not settled. Its own record is all that can tell, after a crash,
 * whether a released answer went out.
 *
 * - `releasing`: the release was asked for, and nothing sent
 * - `sending`: the platform was called; whether it took the message is not known
 * - `sent`: the platform took the message; the gateway has not been told
 */
export interface JournalEntry {
  readonly deliveryId: string;
  readonly destination: string;
  readonly state: 'releasing' | 'sending' | 'sent';
  /** Of the claim under which it goes, where it is queued: its report has to name it. */
  readonly fence?: string;
  /** The id of the message that it edits, where it does. */
  readonly edits?: string;
  /** The id of the message at the platform, once it is `sent`. */
  readonly message?: string;
}

/**
 * Where the record is kept. It belongs to one endpoint, and one delivery goes to one endpoint; what
 * was written, each field of it, is there after a crash. One that throws ends the delivery where it stands.
 */
export interface Journal {
  read(deliveryId: string): Promise<JournalEntry | undefined>;
  /** Writes an entry over the one of the same delivery. */
  write(entry: JournalEntry): Promise<void>;
  remove(deliveryId: string): Promise<void>;
  all(): Promise<readonly JournalEntry[]>;
}

/** A record that ends with the process: a crash leaves what was released to a person. */
export function memoryJournal(): Journal {
  const entries = new Map<string, JournalEntry>();
  return {
    read: (deliveryId) => Promise.resolve(entries.get(deliveryId)),
    write: (entry) => {
      entries.set(entry.deliveryId, entry);
      return Promise.resolve();
    },
    remove: (deliveryId) => {
      entries.delete(deliveryId);
      return Promise.resolve();
    },
    all: () => Promise.resolve([...entries.values()]),
  };
}
