import { z } from 'zod';
import { LogName } from '../entry-shape.ts';
import { InjectionUnits } from '../injections.ts';
import { ESTIMATORS } from './token-estimator.ts';
import { ViewedBlock, ViewedSource } from '../view-shape.ts';

/** Of an entry that is cut, at least this is left. */
export const LEAST_ENTRY_TOKENS = 16;

const Tokens = z.int().min(0).max(100_000_000);

/** How a log is compiled. Nothing of it changes who reads what. */
export const CompileOptions = z.strictObject({
  /** How many tokens the request may have. Without one it has as many as it takes. */
  budget: Tokens.optional(),
  /** The first entries go raw, as many as keep to this. */
  headTokens: Tokens.optional(),
  /** The newest entries go raw, as many as keep to this. */
  recentTokens: Tokens.optional(),
  /** An entry with more is cut, with a mark. */
  maxEntryTokens: Tokens.min(LEAST_ENTRY_TOKENS).optional(),
  /** How many of the newest tool results keep their content; that of the others is left out, with a mark. */
  pruneToolResults: z.int().min(0).max(1_000_000).optional(),
  /** Entries that go raw, beside those that the namespace has pinned. */
  pins: z.array(z.uuid()).max(1000).optional(),
  /** How tokens are counted. */
  estimator: z.enum(ESTIMATORS).optional(),
  /** The model that is asked: its calibration is applied. */
  model: LogName.optional(),
  /** The participant as whom this agent writes. Without it, whatever has the role `agent` is its own. */
  self: LogName.optional(),
  /** What the sources of injected context gave at this start. */
  injections: InjectionUnits.optional(),
  /** Whose message shape the request is given in too. */
  format: z.enum(['anthropic', 'openai']).optional(),
});
export type CompileOptions = z.input<typeof CompileOptions>;

const Count = z.int().min(0);

/** Where a message comes from, and what it costs. */
export const Provenance = z.object({
  kind: z.enum(['entry', 'summary', 'injection', 'placed', 'marker']),
  /** Of an entry, or of an injection that is stored. */
  entry: z.string().optional(),
  revision: z.string().optional(),
  summary: z.string().optional(),
  level: Count.optional(),
  /** Of a summary: the first and the last entry under it, and how many. */
  from: z.string().optional(),
  to: z.string().optional(),
  entries: Count.optional(),
  /** Of an injection: who gave it. */
  source: z.string().optional(),
  sources: z.array(ViewedSource).optional(),
  /** The envelopes of an injection's parts, where the gateway itself retrieved them. */
  envelopes: z.array(z.unknown()).optional(),
  pinned: z.boolean().optional(),
  cut: z.boolean().optional(),
  pruned: z.boolean().optional(),
  tokens: Count,
});
export type Provenance = z.infer<typeof Provenance>;

/** What a model is sent, in a neutral form, and where each message of it came from. */
export const CompiledLog = z.object({
  messages: z.array(
    z.object({
      role: z.enum(['user', 'agent', 'system']),
      participant: z.string(),
      content: z.array(ViewedBlock),
    }),
  ),
  /** One for each message. */
  provenance: z.array(Provenance),
  stats: z.object({
    /** Entries that went raw, stored injections apart, and their blocks. */
    entries: Count,
    blocks: Count,
    summaries: Count,
    /** Summaries that cost more than what is under them, which went raw. */
    dearerReplaced: Count,
    injections: Count,
    placed: Count,
    tokens: z.object({
      total: Count,
      entries: Count,
      summaries: Count,
      injections: Count,
      placed: Count,
      marker: Count,
      estimator: z.string(),
    }),
    /** How much of it, from its beginning, is what was sent last through the namespace: whole messages, and their bytes. */
    shared: z.object({ messages: Count, bytes: Count, ofBytes: Count }),
  }),
  /** In the shape that was asked for. */
  request: z.unknown().optional(),
});
export type CompiledLog = z.infer<typeof CompiledLog>;

/** Why a compile does not fit, and what would make it smaller: each step frees something. */
export const OverBudget = z.object({
  budget: Count,
  tokens: Count,
  steps: z.array(
    z.object({
      step: z.enum([
        'summarize',
        'recentTokens',
        'headTokens',
        'pins',
        'pruneToolResults',
        'maxEntryTokens',
        'injections',
      ]),
      /** How many tokens at most. */
      frees: Count,
      /** To summarize: from this entry to that one. */
      from: z.string().optional(),
      to: z.string().optional(),
      /** Or these summaries. */
      of: z.array(z.string()).optional(),
      /** Together with these, which are to keep nothing raw. */
      needs: z.array(z.enum(['recentTokens', 'headTokens', 'pins'])).optional(),
      /** Whether this step can be enough by itself. */
      clears: z.boolean(),
    }),
  ),
});
export type OverBudget = z.infer<typeof OverBudget>;
