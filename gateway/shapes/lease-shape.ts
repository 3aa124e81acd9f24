import { z } from '@hono/zod-openapi';
import { Sequence, Text, Uuid } from './scalar-shape.ts';

/** A worker's hold on a turn, as it was given: every step of the worker carries it. */
export const LeaseShape = z.strictObject({
  leaseId: Uuid,
  owner: Text.min(1).max(200),
  fence: Sequence,
});
