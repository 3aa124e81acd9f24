import { z } from '@hono/zod-openapi';
import type { Context, TypedResponse } from 'hono';
import type { JSONParsed } from 'hono/utils/types';
import { contextLog, type ContextLog, type Place } from '../../sessions/context-log.ts';
import type { CompileRefusal } from '../../sessions/session-compile.ts';
import { proveGrant } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { Uuid } from '../shapes/scalar-shape.ts';
import { digestOf } from '../tokens/grant-token.ts';
import { refused } from './answer.ts';

export const SessionParams = z.object({ session: Uuid });

/** For which audience the caller holds the session. Another one's, or none, opens nothing (INVARIANT 12). */
export const Held = z.strictObject({
  audience: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'is not a fingerprint')
    .openapi({ description: 'The fingerprint in the packet of the grant.' }),
});

/** And where in its log: the handle that opening a namespace gave; without one, the default namespace. */
export const Placed = Held.extend({ namespace: Uuid.optional() });

type Called<Value> = Promise<
  ({ readonly ok: true; readonly decision: string } & Value) | CompileRefusal
>;

/** Proves the grant, makes the call on the log that the request names, and answers with what it gave. */
export async function answerFromLog<Value, Body>(
  gateway: Gateway,
  context: Context,
  { session }: { session: string },
  { audience, namespace }: { audience: string; namespace?: string | undefined },
  call: (log: ContextLog, place: Place) => Called<Value>,
  body: (value: Value) => Body,
): Promise<TypedResponse<JSONParsed<{ decision: string } & Body>, 200, 'json'>> {
  const grant = await proveGrant(context, gateway);
  if (!grant.ok) return refused(context, grant);
  const caller = { digest: digestOf(grant.jti), session, audienceHash: audience };
  const log = contextLog(gateway.database, caller, gateway.compiling);
  const value = await call(log, { namespace });
  if (!value.ok) return refused(context, value);
  const answer: { decision: string } & Body = { decision: value.decision, ...body(value) };
  return context.json(answer, 200) as never;
}
