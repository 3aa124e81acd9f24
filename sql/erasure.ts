import type { ExternalId } from '../policy/identity.ts';
import type { Refusal } from '../policy/refusal.ts';
import type { Database } from './database.ts';
import { writtenFrom } from './facts/conversations.ts';
import type { Written } from './facts/written.ts';
import { retrying } from './faults.ts';
import { inOrganization } from './organization.ts';

/** What is about to be deleted, whole. */
export type Deletion =
  | { readonly kind: 'user' | 'conversation'; readonly id: ExternalId }
  | { readonly kind: 'organization' };

/** How many messages, and how many entries of logs, are erased in one transaction. */
const AT_ONCE = 500;

/**
 * Erases ahead of a deletion what it would erase: a bounded part in each transaction, so that none takes long and nobody waits
 * long for its locks. Whatever is not there has nothing to erase. The deletion itself erases the rest, in its own transaction, and
 * has to follow: broken off in between, part of the text is gone and nothing else is. It may be asked for again.
 */
export async function eraseAhead(
  { sql }: Database,
  organization: ExternalId,
  deletion: Deletion,
): Promise<void> {
  const target = 'id' in deletion ? deletion.id : null;
  for (let erased = Infinity; erased > 0;) {
    const [row] = await retrying(
      () => sql<{ erased: number }[]>`
        select earshot.erase_ahead(${organization}, ${deletion.kind}, ${target}, ${AT_ONCE}) as erased`,
    );
    erased = row?.erased ?? 0;
  }
}

/**
 * Deletes an organization: from the first moment no turn runs in it and nothing is delivered, then everything of it that is
 * content goes, and at the end its ids are taken for good. What is deleted already is `not_found`. Broken off in between, it is
 * suspended, and may be deleted again.
 */
export async function deleteOrganization(
  database: Database,
  name: ExternalId,
): Promise<Written | Refusal> {
  const suspended = await inOrganization(database, name, async ({ sql, key }) => {
    const rows = await sql`
      update earshot.organizations set status = 'suspended'
      where id = ${key.toString()} and not deleted returning id`;
    return rows.length > 0 ? { ok: true } : writtenFrom('not_found');
  });
  if (!suspended.ok) return suspended;
  await eraseAhead(database, name, { kind: 'organization' });
  return inOrganization(database, name, async ({ sql }) => {
    const [row] = await sql<{ outcome: string }[]>`
      select earshot.delete_organization(${name}) as outcome`;
    return writtenFrom(row?.outcome);
  });
}
