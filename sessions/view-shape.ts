import { z } from 'zod';

/** A message or an artifact that something came from. */
export const ViewedSource = z.union([
  z.object({
    conversation: z.string(),
    id: z.string(),
    seq: z.string(),
    revision: z.string(),
  }),
  z.object({ artifact: z.string(), revision: z.string() }),
]);

/** A block in a view: as it was stored, without the field that says for whom. */
export const ViewedBlock = z.looseObject({ type: z.string() });

/** An entry in a view. One of which nothing is the reader's is not there. */
const ViewedEntry = z.object({
  id: z.string(),
  revision: z.string(),
  role: z.enum(['user', 'agent', 'system']),
  participant: z.string(),
  writtenAt: z.string(),
  blocks: z.array(ViewedBlock),
  sources: z.array(ViewedSource).optional(),
  /** The source that gave it, of an injection that is stored. */
  injection: z.string().optional(),
});

/** Entries in the order of the log. */
export const LogRange = z.object({ entries: z.array(ViewedEntry) });
export type LogRange = z.infer<typeof LogRange>;

/** Entries in the order in which they changed. */
export const LogPage = LogRange.extend({ more: z.boolean() });
export type LogPage = z.infer<typeof LogPage>;

/** The entries that a search found, and how many it found in all. */
export const SearchedLog = LogRange.extend({ total: z.string() });
export type SearchedLog = z.infer<typeof SearchedLog>;

/** A summary in a view, with the join of what is under it came from. */
const ViewedSummary = z.object({
  id: z.string(),
  level: z.int(),
  /** The first and the last entry under it, and how many there are. */
  from: z.string(),
  to: z.string(),
  entries: z.int(),
  text: z.string(),
  sources: z.array(ViewedSource).optional(),
});

/** The summaries of a namespace that stand, in the order in which they were written. */
export const SummaryList = z.object({ summaries: z.array(ViewedSummary) });
export type SummaryList = z.infer<typeof SummaryList>;

/** What a host's model summarizes: entries, or summaries of them. */
export const SummaryInput = LogRange.extend({
  summaries: z.array(ViewedSummary).optional(),
  /** Of entries: to be given back with their summary, so that it is taken for what was seen. */
  state: z.string().optional(),
});
export type SummaryInput = z.infer<typeof SummaryInput>;

/** A session that is open, who is in its log, and how much a view of it holds. */
export const SessionDescription = z.object({
  id: z.string(),
  epoch: z.string(),
  policyRevision: z.string(),
  /** Of a fork. */
  parent: z.string().optional(),
  fork: z.string().optional(),
  agents: z.array(
    z.object({
      name: z.string(),
      kind: z.enum(['resident', 'fork', 'sub_agent']),
      primary: z.boolean(),
    }),
  ),
  namespaces: z.array(z.object({ name: z.string(), agent: z.string(), handle: z.string() })),
  reader: z.string().optional(),
  entries: z.string(),
  blocks: z.string(),
});
export type SessionDescription = z.infer<typeof SessionDescription>;
