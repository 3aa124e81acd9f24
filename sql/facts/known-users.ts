import type { UserFact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import type { OrganizationTransaction } from '../organization.ts';

export interface KnownUser extends Pick<UserFact, 'id' | 'kind' | 'status'> {
  readonly deleted: boolean;
}

/** Question: which of these users does the organization have, deleted ones among them? */
export async function knownUsers(
  { sql, key }: OrganizationTransaction,
  ids: readonly ExternalId[],
): Promise<Map<ExternalId, KnownUser>> {
  const rows = await sql<KnownUser[]>`
    select external_id as id, kind, status, deleted from earshot.users
    where org_id = ${key.toString()} and external_id = any (${sql.array([...ids])}::text[])`;
  return new Map(rows.map((row) => [row.id, row]));
}
