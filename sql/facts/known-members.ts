import type { ExternalId } from '../../policy/identity.ts';
import type { OrganizationTransaction } from '../organization.ts';

/**
 * Question: who is named as a member of this conversation, resolved or not, expired or not, and
 * until when (RFC 3339)?
 */
export async function knownMembers(
  { sql, key }: OrganizationTransaction,
  conversation: ExternalId,
): Promise<Map<ExternalId, string | undefined>> {
  const rows = await sql<{ name: ExternalId; until: string | null }[]>`
    select u.external_id as name,
      to_char(m.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as until
    from earshot.conversations c
    join earshot.memberships m on m.org_id = c.org_id and m.conversation_id = c.id
    join earshot.users u on u.org_id = m.org_id and u.id = m.user_id
    where c.org_id = ${key.toString()} and c.external_id = ${conversation}
    union all
    select n.external_id, null
    from earshot.conversations c
    join earshot.unresolved_members n on n.org_id = c.org_id and n.conversation_id = c.id
    where c.org_id = ${key.toString()} and c.external_id = ${conversation}`;
  return new Map(rows.map(({ name, until }) => [name, until ?? undefined]));
}
