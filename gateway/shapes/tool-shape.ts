import { z } from '@hono/zod-openapi';
import { Id, Sequence, Text, Time, Uuid } from './scalar-shape.ts';

const Limit = z.int().min(1).max(100);
const Cursor = z.string().max(2000).optional();
/** One more reader for this call: it narrows what is in scope, or does nothing. */
const Recipient = Id.optional();

/** What each tool takes. Nothing here names an audience, a scope, a floor or a mode (INVARIANT 8). */
export const SearchArguments = z
  .strictObject({
    query: Text.max(1000),
    limit: Limit.default(10),
    conversation: Id.optional(),
    author: Id.optional(),
    kind: z.enum(['message', 'event', 'artifact']).optional(),
    since: Time.optional(),
    until: Time.optional(),
    recipient: Recipient,
    total: z.boolean().default(false),
    cursor: Cursor,
  })
  .openapi('SearchArguments');

/** Messages of a conversation, or one artifact. */
export const ReadArguments = z
  .strictObject({
    conversation: Id.optional(),
    artifact: Uuid.optional(),
    fromSeq: Sequence.optional(),
    direction: z.enum(['forward', 'backward']).default('forward'),
    limit: Limit.default(20),
    recipient: Recipient,
    cursor: Cursor,
  })
  .refine((read) => (read.conversation === undefined) !== (read.artifact === undefined), {
    path: ['conversation'],
    error: 'is what is read, or else artifact is: one of them, and not both',
  })
  .refine((read) => read.artifact === undefined || (read.fromSeq ?? read.cursor) === undefined, {
    path: ['artifact'],
    error: 'is read whole, without fromSeq and cursor',
  })
  .openapi('ReadArguments');

export const AroundArguments = z
  .strictObject({
    conversation: Id,
    seq: Sequence,
    before: z.int().min(0).max(50).default(5),
    after: z.int().min(0).max(50).default(5),
    recipient: Recipient,
  })
  .openapi('AroundArguments');

export const ThreadArguments = z
  .strictObject({
    conversation: Id,
    seq: Sequence,
    limit: Limit.default(20),
    recipient: Recipient,
    cursor: Cursor,
  })
  .openapi('ThreadArguments');

export const ListArguments = z
  .strictObject({ limit: Limit.default(20), recipient: Recipient, cursor: Cursor })
  .openapi('ListArguments');
