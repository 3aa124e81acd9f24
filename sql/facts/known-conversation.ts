import type { ConversationFact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import type { OrganizationTransaction } from '../organization.ts';

/** A conversation as it stands, without its title, which is content. */
export interface KnownConversation extends Omit<ConversationFact, 'fact' | 'id' | 'title'> {
  readonly staged: boolean;
  readonly deleted: boolean;
}

/** Question: how does this conversation stand, a deleted or staged one included? */
export async function knownConversation(
  { sql, key }: OrganizationTransaction,
  id: ExternalId,
): Promise<KnownConversation | undefined> {
  const [row] = await sql<
    (Omit<KnownConversation, 'project' | 'owner'> & {
      project: ExternalId | null;
      owner: ExternalId | null;
    })[]
  >`
    select c.kind, c.visibility, c.ai_thread as "aiThread", c.external_readers as "externalReaders",
      c.archived, c.staged, c.deleted, p.external_id as project, u.external_id as owner
    from earshot.conversations c
    left join earshot.projects p on p.org_id = c.org_id and p.id = c.project_id
    left join earshot.users u on u.org_id = c.org_id and u.id = c.owner_id
    where c.org_id = ${key.toString()} and c.external_id = ${id}`;
  if (row === undefined) return undefined;
  const { project, owner, ...rest } = row;
  return { ...rest, ...(project !== null && { project }), ...(owner !== null && { owner }) };
}
