import { z } from 'zod';
import { LogName, StorableText, TextSource } from './entry-shape.ts';

const Written = {
  text: StorableText.min(1),
  /** Messages and artifacts that the text came from beside what is under it. Each has to be in the turn's scope. */
  sources: z.array(TextSource).max(200).optional(),
};

/** Entries, from one to another, both among them. */
export const EntryRange = z.strictObject({ from: z.uuid(), to: z.uuid() });

/** Summaries, to be summarized in their turn. */
export const SummaryRange = z.strictObject({ of: z.array(z.uuid()).min(1).max(1000) });

export const SummarizedRange = z.union([EntryRange, SummaryRange], {
  error: 'is neither entries, by from and to, nor summaries, by of',
});
export type SummarizedRange = z.infer<typeof SummarizedRange>;

/** A summary as a host's model wrote it. */
export const WrittenSummary = z.union(
  [
    /** Of entries: `state` is what their input gave. */
    EntryRange.extend({ state: z.string().regex(/^[0-9a-f]{64}$/), ...Written }),
    SummaryRange.extend(Written),
  ],
  { error: 'is neither of entries, by from, to, state and text, nor of summaries, by of and text' },
);
export type WrittenSummary = z.infer<typeof WrittenSummary>;

/** The name of an agent as it is asked for. One that is not there, or empty, is answered with those that are. */
export const AskedAgent = z.union([z.literal(''), LogName]);
