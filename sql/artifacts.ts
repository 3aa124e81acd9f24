import { z } from 'zod';
import type { ExternalId } from '../policy/identity.ts';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { decisionOf, refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import { writtenFrom } from './facts/conversations.ts';
import type { Written } from './facts/written.ts';
import { retrying } from './faults.ts';
import { changesOf } from './grants.ts';
import { inOrganization } from './organization.ts';
import type { ToolRefusal } from './tools.ts';

/** A text that is to be kept with what it was made from. */
export interface ArtifactRequest {
  /** A random UUID (version 4): the artifact's number comes from it. */
  readonly id: string;
  readonly content: Readonly<Record<string, unknown>>;
  readonly key: string;
  readonly requestDigest: Uint8Array;
}

const SavedArtifact = z.object({
  id: z.string(),
  kind: z.enum(['memory', 'summary', 'draft', 'note']),
  textSha256: z.string(),
  createdAt: z.string(),
  /** Under which it was saved at first. */
  decision: z.string(),
});
export type SavedArtifact = z.infer<typeof SavedArtifact> & { readonly ok: true };

const SavedRow = z.object({
  code: z.string().nullable(),
  changes: z.unknown(),
  decision_id: z.string().nullable(),
  artifact: SavedArtifact.nullable(),
});

/**
 * Saves a text under a grant. Its lineage is all that the turn was shown, whatever the text is about. Live check, verdict,
 * lineage, row and record are one transaction under the locks of a delivery.
 *
 * The same key and digest in one turn again save nothing and give the same answer, as long as the grant is live; another digest
 * is a `conflict`. `narrowing_refused` where the turn was shown what is for some readers only. `content` has been validated: kind,
 * title, text, contentType.
 */
export async function saveArtifact(
  { sql }: Database,
  digest: Uint8Array,
  { id, content, key, requestDigest }: ArtifactRequest,
): Promise<SavedArtifact | ToolRefusal> {
  const [raw] = await retrying(
    () => sql`
      select * from earshot.save_artifact(${Buffer.from(digest)}, ${id}, ${JSON.stringify(content)}::text::jsonb, ${key},
        ${Buffer.from(requestDigest)})`,
  );
  return saved(raw);
}

/**
 * Registers a text with the sources that a caller outside of any turn names, and what those were made from in their turn.
 *
 * The lineage is asserted: that it is the whole of what the text was made from is the caller's word. `not_found` where a source
 * is not there, or the organization. Whether the caller may write there is not checked here.
 */
export async function assertArtifact(
  { sql }: Database,
  organization: ExternalId,
  client: string,
  { id, content, key, requestDigest }: ArtifactRequest,
): Promise<SavedArtifact | ToolRefusal> {
  const [raw] = await retrying(
    () => sql`
      select *, null as changes from earshot.assert_artifact(${organization}, ${id}, ${client},
        ${JSON.stringify(content)}::text::jsonb, ${key}, ${Buffer.from(requestDigest)})`,
  );
  return saved(raw);
}

function saved(raw: unknown): SavedArtifact | ToolRefusal {
  const row = SavedRow.parse(raw);
  if (row.code !== null) {
    return { ...refusalOf(row.code, decisionOf(row.decision_id)), ...changesOf(row.changes) };
  }
  return row.artifact === null ? refuse('fault') : { ok: true, ...row.artifact };
}

/**
 * Deletes an artifact: its text goes, its lineage stays. From then on nobody reads it, nor what was made from it, and a
 * delivery made from it leaves no more.
 */
export function deleteArtifact(
  database: Database,
  organization: ExternalId,
  artifact: string,
): Promise<Written | Refusal> {
  return inOrganization(database, organization, async ({ sql }) => {
    const [row] = await sql<{ outcome: string }[]>`
      select earshot.delete_artifact(${organization}, ${artifact}) as outcome`;
    return writtenFrom(row?.outcome);
  });
}
