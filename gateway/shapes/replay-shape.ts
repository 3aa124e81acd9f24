import { z } from '@hono/zod-openapi';
import { REFUSALS } from '../../policy/refusal.ts';

const Code = z.enum(Object.keys(REFUSALS) as [keyof typeof REFUSALS]);
const ReaderKind = z.enum(['user', 'class:organization', 'class:project']);

const Verdict = z.object({ verdict: z.enum(['allowed', 'refused']), code: Code.optional() });

const ReaderCounts = z
  .array(
    z.object({
      kind: ReaderKind,
      count: z.int(),
      ids: z
        .array(z.string())
        .optional()
        .openapi({ description: 'Of people, only for a caller with the scope `names`.' }),
    }),
  )
  .openapi('ReaderCounts');

const Standing = z.object({
  fingerprint: z.string().optional(),
  mode: z.string().optional(),
  projectBound: z.string().optional(),
  policyRevision: z.string().optional(),
});

const Moved = z.object({ then: z.string().optional(), now: z.string().optional() });

const Change = z
  .discriminatedUnion('kind', [
    z.object({ kind: z.literal('verdict'), then: Verdict, now: Verdict }),
    z.object({
      kind: z.literal('audience'),
      came: ReaderCounts.optional(),
      gone: ReaderCounts.optional(),
      floorsMoved: ReaderCounts.optional(),
    }),
    Moved.extend({ kind: z.enum(['mode', 'project_bound', 'policy_revision']) }),
    z.object({ kind: z.literal('sources'), edited: z.int(), out: z.int() }),
  ])
  .openapi('ReplayChange', { description: 'What is not as it was.' });

const Reason = z
  .discriminatedUnion('kind', [
    z.object({ kind: z.enum(['deleted', 'staged', 'unaccounted_answer', 'lineage']) }),
    z.object({ kind: z.literal('turn_refused'), code: Code }),
    z.object({ kind: z.literal('mode'), mode: z.string() }),
    z.object({ kind: z.literal('project_bound'), project: z.string() }),
    z.object({ kind: z.enum(['not_read', 'below_floor']), readers: ReaderCounts }),
  ])
  .openapi('ReplayReason', { description: 'Each keeps the source out by itself.' });

const Source = z.object({
  type: z.enum(['message', 'artifact', 'stretch']),
  conversation: z.string(),
  seq: z.string().optional(),
  fromSeq: z.string().optional(),
  artifact: z.string().optional(),
  inherited: z.literal(true).optional(),
  revision: z.string().optional(),
  revisionNow: z.string().optional(),
  now: z.enum(['shown', 'edited', 'out', 'kept']),
  reasons: z.array(Reason),
});

/** A decision beside what it comes to on the facts of now. */
export const ReplayShape = z
  .object({
    decision: z.string().openapi({ description: 'The record of this replay.' }),
    at: z.string(),
    of: z.object({
      decision: z.string(),
      at: z.string(),
      kind: z.string(),
      tool: z.string().optional(),
      items: z.int().optional(),
      turn: z.string().optional(),
      grant: z.string().optional(),
      session: z.string().optional(),
      delivery: z.string().optional(),
      artifact: z.string().optional(),
      destination: z.string().optional(),
    }),
    outcome: z.enum(['same', 'changed', 'not_judged']),
    why: z
      .enum(['course', 'request_not_kept', 'act', 'assertion'])
      .optional()
      .openapi({ description: 'Why it is not judged again.' }),
    then: Verdict.extend(Standing.shape),
    now: Verdict.extend(Standing.shape).optional(),
    comparable: z.boolean().optional().openapi({
      description: 'False: the refusal of then was about the course of a turn, which is over.',
    }),
    changes: z.array(Change),
    sources: z.array(Source),
    complete: z.boolean(),
    notRepeated: z.array(z.enum(['query', 'course', 'shown_readers'])),
  })
  .openapi('Replay');
