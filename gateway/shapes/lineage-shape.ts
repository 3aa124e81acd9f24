import { z } from '@hono/zod-openapi';
import { LineageReport } from '../../sql/lineage.ts';
import { FloorShape, Id } from './scalar-shape.ts';

export const LineageQuery = z.strictObject({
  organization: Id,
  conversation: Id,
  seq: FloorShape,
});

/** What a text was made from, what was made from it, and where that went. No text. */
export const LineageShape = z
  .object({ decision: z.string(), at: z.string(), ...LineageReport.shape })
  .openapi('Lineage');
