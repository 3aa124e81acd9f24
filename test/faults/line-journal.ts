import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import type { Journal, JournalEntry } from '../../delivery/journal.ts';

/** A journal in a file, a line for each step: what was written is there when the process is not any more. */
export function openLineJournal(path: string): Journal {
  const entries = new Map<string, JournalEntry>();
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
  for (const line of lines) {
    const { removed, ...entry } = JSON.parse(line) as JournalEntry & { removed?: true };
    if (removed) entries.delete(entry.deliveryId);
    else entries.set(entry.deliveryId, entry);
  }
  const append = (line: object) => {
    appendFileSync(path, `${JSON.stringify(line)}\n`);
  };
  return {
    read: (deliveryId) => Promise.resolve(entries.get(deliveryId)),
    write(entry) {
      append(entry);
      entries.set(entry.deliveryId, entry);
      return Promise.resolve();
    },
    remove(deliveryId) {
      append({ deliveryId, removed: true });
      entries.delete(deliveryId);
      return Promise.resolve();
    },
    all: () => Promise.resolve([...entries.values()]),
  };
}
