import { z } from '@hono/zod-openapi';
import { REFUSALS } from '../../policy/refusal.ts';
import { FloorShape, Id, Sequence } from './scalar-shape.ts';

/** What is to be explained, and for whom. No reader but the requester is named (INVARIANT 8). */
export const ExplainQuery = z
  .strictObject({
    organization: Id,
    destination: Id,
    source: Id,
    seq: FloorShape.optional(),
    requester: Id.optional(),
    persona: Id,
    trigger: z.enum(['thread', 'mention', 'schedule', 'disclosure']).default('schedule'),
    triggerSeq: Sequence.optional(),
    viewer: Id.optional(),
  })
  .refine(
    ({ trigger, triggerSeq }) =>
      (trigger === 'thread' || trigger === 'mention') === (triggerSeq !== undefined),
    { path: ['triggerSeq'], error: 'is needed for a thread and a mention, and for no other' },
  );

const Places = z.array(z.int()).openapi({ description: 'Places in the list of readers, from 0.' });

const Code = z.enum(Object.keys(REFUSALS) as [keyof typeof REFUSALS]);

const Reason = z
  .discriminatedUnion('kind', [
    z.object({ kind: z.literal('turn_refused'), code: Code }),
    z.object({ kind: z.enum(['conversation_deleted', 'conversation_staged']) }),
    z.object({ kind: z.literal('mode'), mode: z.string() }),
    z.object({ kind: z.literal('project_bound'), project: z.string() }),
    z.object({ kind: z.enum(['not_read', 'below_floor', 'lineage']), readers: Places }),
    z.object({ kind: z.enum(['message_deleted', 'unaccounted_answer', 'edited_answer']) }),
  ])
  .openapi('ExplainReason', {
    description: 'Each keeps the source out by itself.',
  });

const Change = z
  .discriminatedUnion('kind', [
    z.object({ kind: z.literal('without'), readers: Places }),
    z.object({ kind: z.literal('floor'), readers: Places, atMost: z.string().optional() }),
  ])
  .openapi('ExplainChange', {
    description:
      'Brings the source in, all of it together: the destination without these readers, or these readers reading the source, from `atMost` or further back.',
  });

export const ExplanationShape = z
  .object({
    decision: z.string(),
    at: z.string(),
    destination: z.string(),
    source: z.string(),
    seq: z.string().optional(),
    verdict: z.enum(['in', 'out']),
    mode: z.string().optional(),
    projectBound: z.string().optional(),
    effectiveFloor: z
      .string()
      .optional()
      .openapi({ description: "The source's floor in the scope; absent where it is out of it." }),
    reasons: z.array(Reason),
    grid: z.object({
      readers: z.array(
        z.object({
          reader: z
            .string()
            .optional()
            .openapi({ description: 'Absent where it may not be named.' }),
          kind: z.enum(['user', 'class:organization', 'class:project']),
          guest: z.literal(true).optional(),
          viewer: z.literal(true).optional(),
          destinationFloor: z.string(),
          floor: z.string().nullable().openapi({ description: 'Null: does not read the source.' }),
        }),
      ),
      floor: z
        .string()
        .nullable()
        .openapi({ description: 'The highest of these; null as soon as one of them is.' }),
    }),
    changes: z.array(Change),
  })
  .openapi('Explanation');
