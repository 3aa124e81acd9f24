import type { Context } from 'hono';
import { z } from '@hono/zod-openapi';
import type { Refusal } from '../../policy/refusal.ts';
import { problem, problemResponses } from '../problem.ts';

/** The responses of a route: its success, and any refusal. */
export function answers<Shape extends z.ZodType>(description: string, schema: Shape) {
  return {
    200: { description, content: { 'application/json': { schema } } },
    ...problemResponses,
  };
}

/** A JSON body that has to be there. */
export function jsonBody<Shape extends z.ZodType>(schema: Shape) {
  return { required: true, content: { 'application/json': { schema } } } as const;
}

/**
 * A refusal as the answer of a route. Its type is erased: the routes declare their success, and every
 * one may refuse.
 */
export function refused(context: Context, refusal: Refusal): never {
  return problem(context, refusal) as never;
}

/** What became of a fact, as it is answered. */
export const WrittenShape = z
  .object({ outcome: z.string(), seq: z.string().optional() })
  .openapi('Written');

export function writtenBody({ outcome, seq }: { outcome: string; seq?: bigint }) {
  return { outcome, ...(seq !== undefined && { seq: seq.toString() }) };
}
