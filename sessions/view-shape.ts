import { z } from 'zod';

/** A message that something came from. */
const ViewedSource = z.object({
  conversation: z.string(),
  id: z.string(),
  seq: z.string(),
  revision: z.string(),
});

/** A block in a view: as it was stored, without the field that says for whom. */
const ViewedBlock = z.looseObject({ type: z.string() });

/** An entry in a view. One of which nothing is the reader's is not there. */
const ViewedEntry = z.object({
  id: z.string(),
  revision: z.string(),
  role: z.enum(['user', 'agent', 'system']),
  participant: z.string(),
  writtenAt: z.string(),
  blocks: z.array(ViewedBlock),
  sources: z.array(ViewedSource).optional(),
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

/** What a model is sent, in a neutral form, and where each message of it came from. */
export const CompiledLog = z.object({
  messages: z.array(
    z.object({
      role: z.enum(['user', 'agent', 'system']),
      participant: z.string(),
      content: z.array(ViewedBlock),
    }),
  ),
  provenance: z.array(
    z.object({
      entry: z.string(),
      revision: z.string(),
      sources: z.array(ViewedSource).optional(),
    }),
  ),
  stats: z.object({ entries: z.int(), blocks: z.int() }),
});
export type CompiledLog = z.infer<typeof CompiledLog>;

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
