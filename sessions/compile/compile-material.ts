import { z } from 'zod';
import { Verdicts } from '../../sql/log-compile.ts';
import type { Block } from '../entry-shape.ts';
import { ViewedSource } from '../view-shape.ts';

/** A block as it was stored. The shape was checked then, and the view changed nothing but what it left out. */
const StoredBlock = z.custom<Block>((value) => typeof value === 'object' && value !== null);

const MaterialEntry = z.object({
  /** Where it stands in the log: a number that nobody outside is told. */
  at: z.int(),
  entry: z.string(),
  revision: z.string(),
  role: z.enum(['user', 'agent', 'system']),
  participant: z.string(),
  blocks: z.array(StoredBlock),
  sources: z.array(ViewedSource).optional(),
  /** The source that gave it, of a stored injection. */
  injection: z.string().optional(),
  envelopes: z.array(z.unknown()).optional(),
});
export type MaterialEntry = z.infer<typeof MaterialEntry>;

const MaterialSummary = z.object({
  id: z.string(),
  level: z.int(),
  text: z.string(),
  /** The places of the entries under it. */
  covers: z.array(z.int()),
  sources: z.array(ViewedSource).optional(),
});
export type MaterialSummary = z.infer<typeof MaterialSummary>;

/** All that a compile chooses from, as one statement read it: a reader's view of a log, in its order. */
export const CompileMaterial = z.object({
  mark: z.string(),
  entries: z.array(MaterialEntry),
  summaries: z.array(MaterialSummary),
  pins: z.array(z.int()),
  /** One for each unit that could be stored. */
  verdicts: Verdicts,
  /** The chain of what was sent last through the namespace, in hex. */
  last: z.string().nullable(),
});
export type CompileMaterial = z.infer<typeof CompileMaterial>;
