import { z } from '@hono/zod-openapi';
import { Id, Sequence, Text, Uuid } from './scalar-shape.ts';

export const ARTIFACT_KINDS = ['memory', 'summary', 'draft', 'note'] as const;

/** A text to be saved. Its sources are nobody's to name: they are what the turn was shown. */
export const ArtifactBody = z
  .strictObject({
    kind: z.enum(ARTIFACT_KINDS),
    title: Text.min(1).max(200).optional(),
    text: Text.min(1),
    contentType: z
      .string()
      .max(100)
      .regex(/^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+(; ?charset=utf-8)?$/i, 'is not a media type')
      .default('text/plain'),
  })
  .openapi('Artifact');

const AtLeastOne = Sequence.refine((value) => value >= 1n, 'must be at least 1').openapi({
  type: 'string',
  pattern: '^[1-9][0-9]{0,18}$',
});

/** A message, a conversation from a sequence up, or another artifact, whose sources come with it. */
const AssertedSource = z.union(
  [
    z.strictObject({ conversation: Id, seq: AtLeastOne }),
    z.strictObject({ conversation: Id, fromSeq: AtLeastOne }),
    z.strictObject({ artifact: Uuid }),
  ],
  {
    error:
      'is neither a message, by conversation and seq, nor a stretch, by conversation and fromSeq, nor an artifact',
  },
);

export const AssertedArtifactBody = ArtifactBody.extend({
  sources: z.array(AssertedSource).min(1).max(1000),
}).openapi('AssertedArtifact');

export const SavedArtifactShape = z
  .object({
    id: z.string(),
    kind: z.enum(ARTIFACT_KINDS),
    textSha256: z.string(),
    createdAt: z.string(),
    decision: z.string(),
  })
  .openapi('SavedArtifact');

export const ArtifactParams = z.object({ artifact: Uuid });
export const AssertedArtifactParams = z.object({ org: Id });
export const OfOrganization = z.strictObject({ organization: Id });
