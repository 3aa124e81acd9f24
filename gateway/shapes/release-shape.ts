import { z } from '@hono/zod-openapi';
import { RELEASE_STATUSES } from '../../sql/artifact-releases.ts';
import { Id, Uuid } from './scalar-shape.ts';

export const AskReleaseBody = z.strictObject({ destination: Id }).openapi('AskRelease');

const Status = z.enum(RELEASE_STATUSES);

export const AskedReleaseShape = z
  .object({
    id: z.string(),
    status: Status,
    owners: z.int().openapi({ description: 'How many people were asked.' }),
    expiresAt: z.string(),
  })
  .openapi('AskedRelease');

const PersonalReleaseShape = z
  .object({
    id: z.string(),
    artifact: z.string(),
    kind: z.string(),
    textSha256: z.string(),
    contentType: z.string(),
    destination: z.string(),
    readers: z
      .array(
        z.object({
          kind: z.enum(['user', 'class:organization', 'class:project']),
          id: z.string(),
          guests: z.literal(true).optional(),
        }),
      )
      .openapi({ description: 'For whom: a class stands for itself alone.' }),
    sources: z
      .array(
        z.object({
          type: z.enum(['message', 'conversation', 'artifact']),
          conversation: z.string(),
          seq: z.string().optional(),
          fromSeq: z.string().optional(),
          artifact: z.string().optional(),
        }),
      )
      .openapi({ description: 'What of it is of conversations that this person owns.' }),
    title: z.string().optional(),
    text: z
      .string()
      .optional()
      .openapi({ description: 'Only for a person who reads every one of its sources now.' }),
    status: Status,
    approved: z.boolean().openapi({ description: 'Whether this person approved it.' }),
    expiresAt: z.string(),
  })
  .openapi('PersonalRelease');

export const ReleaseListShape = z
  .object({
    releases: z.array(PersonalReleaseShape),
    cursor: z.string().optional(),
    complete: z.boolean(),
  })
  .openapi('ReleaseList');

export const ReleaseListQuery = z.strictObject({
  organization: Id,
  limit: z
    .string()
    .regex(/^([1-9][0-9]?|100)$/, 'must be 1 to 100')
    .transform(Number)
    .default(20)
    .openapi({ type: 'integer', minimum: 1, maximum: 100 }),
  cursor: Uuid.optional(),
});

export const ApproveReleaseBody = z
  .strictObject({
    organization: Id,
    textSha256: z.string().regex(/^[0-9a-f]{64}$/, 'is not a SHA-256 in hex'),
  })
  .openapi('ApproveRelease');

export const RefuseReleaseBody = z.strictObject({ organization: Id }).openapi('RefuseRelease');

export const AnsweredReleaseShape = z
  .object({ id: z.string(), status: Status })
  .openapi('AnsweredRelease');

export const ReleaseParams = z.object({ release: Uuid });
export const ReleasedArtifactParams = z.object({ artifact: Uuid });
