import { z } from '@hono/zod-openapi';
import { parseExternalId, type ExternalId } from '../../policy/identity.ts';
import { parseInstant, type Instant } from '../../policy/instant.ts';
import { parseSequence } from '../../policy/sequence.ts';

/** An id from outside: 1 to 128 characters, NFC, no control characters, no lone surrogates. */
export const Id = z
  .string()
  .transform((text, context): ExternalId => {
    const parsed = parseExternalId(text);
    if (parsed.ok) return parsed.id;
    context.addIssue({ code: 'custom', message: `is not an id: ${parsed.fault}` });
    return z.NEVER;
  })
  .openapi({ type: 'string', minLength: 1, maxLength: 128 });

/** A sequence, floor or revision: canonical decimal, never a JSON number. */
export const Sequence = z
  .string()
  .transform((text, context): bigint => {
    const value = parseSequence(text);
    if (value !== undefined) return value;
    context.addIssue({ code: 'custom', message: 'is not a canonical decimal up to 2^63 - 1' });
    return z.NEVER;
  })
  .openapi({ type: 'string', pattern: '^(0|[1-9][0-9]{0,18})$' });

/** A floor: the first readable sequence, at least 1. */
export const FloorShape = Sequence.refine((value) => value >= 1n, 'must be at least 1').openapi({
  type: 'string',
  pattern: '^[1-9][0-9]{0,18}$',
});

/** RFC 3339 with up to microseconds. */
export const Time = z
  .string()
  .transform((text, context): Instant => {
    const value = parseInstant(text);
    if (value !== undefined) return value;
    context.addIssue({
      code: 'custom',
      message: 'is not an RFC 3339 time with up to microseconds',
    });
    return z.NEVER;
  })
  .openapi({ type: 'string', format: 'date-time' });

export { StorableText as Text } from '../../sessions/entry-shape.ts';

/** A number of seconds in a request. */
export const Seconds = z.int().min(1).max(86_400);

export const Uuid = z
  .string()
  .regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/, 'is not a UUID');

/** An idempotency key: 1 to 200 visible ASCII characters. */
export const IdempotencyKey = z.string().regex(/^[\x21-\x7e]{1,200}$/, 'is not a usable key');
export const IdempotencyHeaders = z.object({ 'idempotency-key': IdempotencyKey });
