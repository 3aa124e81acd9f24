import { z } from 'zod';
import type { ExternalId } from '../policy/identity.ts';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { refusalOf } from './answer.ts';
import type { Database } from './database.ts';
import { retrying } from './faults.ts';

export const RELEASE_STATUSES = ['asked', 'approved', 'refused', 'expired'] as const;
export type ReleaseStatus = (typeof RELEASE_STATUSES)[number];

/** What is asked for under a grant: that an artifact may go where not everybody reads what it was made from. */
export interface ReleaseRequest {
  readonly id: string;
  readonly artifact: string;
  readonly destination: string;
  readonly key: string;
  readonly requestDigest: Uint8Array;
  readonly lifetimeSeconds: number;
}

export interface AskedRelease {
  readonly ok: true;
  readonly id: string;
  readonly status: ReleaseStatus;
  /** How many people were asked. */
  readonly owners: number;
  readonly expiresAt: string;
}

/**
 * Asks everybody who owns what stands in the way of an artifact toward a destination, for those who read it now.
 *
 * `not_found` for an artifact that this grant does not read and a destination that the requester does not, and for neither
 * more than for what does not exist. `conflict` where nothing is in the way, and for a key of another request. `source_revoked`
 * with the recovery `stop` where something has no owner who could be asked.
 */
export async function askRelease(
  { sql }: Database,
  digest: Uint8Array,
  request: ReleaseRequest,
): Promise<AskedRelease | Refusal> {
  const [row] = await retrying(
    () => sql<
      {
        code: string | null;
        release_id: string;
        status: ReleaseStatus;
        owners: number;
        expires_at: string;
      }[]
    >`
      select * from earshot.ask_release(${Buffer.from(digest)}, ${request.id}, ${request.artifact}, ${request.destination},
        ${request.key}, ${Buffer.from(request.requestDigest)}, make_interval(secs => ${request.lifetimeSeconds}))`,
  );
  if (row === undefined) return refuse('fault');
  if (row.code === 'source_revoked') {
    return refuse('source_revoked', { recovery: 'stop', detail: NO_OWNER });
  }
  if (row.code !== null) return refusalOf(row.code);
  const { release_id: id, status, owners, expires_at: expiresAt } = row;
  return { ok: true, id, status, owners, expiresAt };
}

const NO_OWNER = 'Something that this text was made from has no owner who could release it.';

const PersonalRelease = z.object({
  id: z.string(),
  artifact: z.string(),
  kind: z.string(),
  textSha256: z.string(),
  contentType: z.string(),
  destination: z.string(),
  readers: z.array(
    z.object({
      kind: z.enum(['user', 'class:organization', 'class:project']),
      id: z.string(),
      guests: z.literal(true).optional(),
    }),
  ),
  sources: z.array(
    z.object({
      type: z.enum(['message', 'conversation', 'artifact']),
      conversation: z.string(),
      seq: z.string().optional(),
      fromSeq: z.string().optional(),
      artifact: z.string().optional(),
    }),
  ),
  title: z.string().optional(),
  text: z.string().optional(),
  status: z.enum(RELEASE_STATUSES),
  approved: z.boolean(),
  expiresAt: z.string(),
});

/** A release as one of those who are asked sees it: with the sources of that person, and the text for who may read it all. */
export type PersonalRelease = z.infer<typeof PersonalRelease>;

/**
 * What a person is asked for, as the present owner: the newest first, those after a release where one is named. Whoever is
 * asked for nothing, or does not exist, gets an empty list. Whether the caller is that person is not checked here.
 */
export async function listReleases(
  { sql }: Database,
  organization: ExternalId,
  person: ExternalId,
  { limit, after }: { readonly limit: number; readonly after?: string | undefined },
): Promise<{ releases: PersonalRelease[]; more: boolean }> {
  const [row] = await sql<{ releases: unknown; more: boolean }[]>`
    select * from earshot.list_releases(${organization}, ${person}, ${limit}, ${after ?? null})`;
  return { releases: z.array(PersonalRelease).parse(row?.releases), more: row?.more === true };
}

/** Yes, to the text with this SHA-256 in hex; or no, which takes a yes back too and is for good. */
export type ReleaseAnswer =
  { readonly approves: true; readonly textSha256: string } | { readonly approves: false };

/**
 * Takes a person's answer, for whatever of the release that person owns now. A release for which the person is not asked
 * is `not_found`; another text than the artifact's `payload_mismatch`; a yes to what is refused or over a `conflict`. The
 * same answer again changes nothing. Whether the caller is that person is not checked here.
 */
export async function answerRelease(
  { sql }: Database,
  organization: ExternalId,
  person: ExternalId,
  release: string,
  answer: ReleaseAnswer,
): Promise<{ ok: true; status: ReleaseStatus } | Refusal> {
  const sha256 = answer.approves ? Buffer.from(answer.textSha256, 'hex') : null;
  const [row] = await retrying(
    () => sql<{ code: string | null; status: ReleaseStatus }[]>`
      select * from earshot.answer_release(${organization}, ${person}, ${release}, ${answer.approves}, ${sha256})`,
  );
  if (row === undefined) return refuse('fault');
  return row.code === null ? { ok: true, status: row.status } : refusalOf(row.code);
}
