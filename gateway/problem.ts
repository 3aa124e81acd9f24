import type { Context } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { z } from '@hono/zod-openapi';
import { recoveryBody, REFUSALS, type Refusal } from '../policy/refusal.ts';
import { OverBudget } from '../sessions/compile/compile-shape.ts';
import { AudienceChanges } from '../sql/grants.ts';

/** Problem details (RFC 9457), with the code of the closed set and what to do next. */
export const Problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.enum(Object.keys(REFUSALS) as [keyof typeof REFUSALS]),
    recovery: z.string().optional(),
    recoveryOwner: z.string().optional().openapi({ description: 'Who acts.' }),
    next: z.string().optional().openapi({ description: 'The state that the recovery leads to.' }),
    decision: z.string().optional(),
    over: OverBudget.optional().openapi({
      description: 'How far a compile is over its budget, and what would make it smaller.',
    }),
    changes: AudienceChanges.optional().openapi({
      description: 'How the audience moved: counts, and names for a client with the scope `names`.',
    }),
  })
  .openapi('Problem');

/** Answers with a refusal. */
export function problem(
  context: Context,
  refusal: Refusal & { readonly changes?: AudienceChanges; readonly over?: OverBudget },
): Response {
  const { status, sentence, page } = REFUSALS[refusal.code];
  // For telemetry, which knows nothing else of the answer.
  context.set('refusal', refusal.code);
  const body = {
    type: `urn:earshot:refusal:${page}:${refusal.code}`,
    title: sentence,
    status,
    detail: refusal.detail ?? sentence,
    code: refusal.code,
    ...recoveryBody(refusal.recovery),
    ...(refusal.decision !== undefined && { decision: refusal.decision }),
    ...(refusal.over !== undefined && { over: refusal.over }),
    ...(refusal.changes !== undefined && { changes: refusal.changes }),
  };
  const headers: Record<string, string> = { 'content-type': 'application/problem+json' };
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (refusal.recovery === 'retry') headers['retry-after'] = '1';
  return context.body(JSON.stringify(body), status as ContentfulStatusCode, headers);
}

/** What every route may answer beside its own success. */
export const problemResponses = {
  default: {
    description: 'A refusal, as problem details.',
    content: { 'application/problem+json': { schema: Problem } },
  },
};
