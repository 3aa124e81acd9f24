import { and, eq } from 'drizzle-orm';
import type { PersonaFact, UserFact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import type { OrganizationTransaction } from '../organization.ts';
import { personas, users } from '../tables/organization-facts.ts';
import type { Written } from './written.ts';

/** Puts a user. The id of a deleted user is never used again. */
export async function putUser(
  { records, key }: OrganizationTransaction,
  fact: UserFact,
): Promise<Written | Refusal> {
  const values = { kind: fact.kind, status: fact.status, name: fact.name ?? null };
  const [created] = await records
    .insert(users)
    .values({ orgId: key, externalId: fact.id, ...values })
    .onConflictDoNothing()
    .returning({ id: users.id });
  if (created !== undefined) return { ok: true, outcome: 'created' };

  const where = and(eq(users.orgId, key), eq(users.externalId, fact.id));
  const [known] = await records.select().from(users).where(where).for('update');
  if (known === undefined || known.deleted) return refuse('conflict');
  if (known.kind === values.kind && known.status === values.status && known.name === values.name) {
    return { ok: true, outcome: 'unchanged' };
  }
  await records.update(users).set(values).where(where);
  return { ok: true, outcome: 'updated' };
}

/** Deletes a user: reads nothing from now on, and the name goes. */
export async function deleteUser(
  { records, key }: OrganizationTransaction,
  id: ExternalId,
): Promise<Written | Refusal> {
  const [gone] = await records
    .update(users)
    .set({ status: 'deactivated', deleted: true, name: null })
    .where(and(eq(users.orgId, key), eq(users.externalId, id), eq(users.deleted, false)))
    .returning({ id: users.id });
  return gone === undefined ? refuse('not_found') : { ok: true, outcome: 'deleted' };
}

/** Puts a persona: an agent's service identity, and whether it may serve this organization. */
export async function putPersona(
  { records, key }: OrganizationTransaction,
  fact: PersonaFact,
): Promise<Written> {
  const values = { custody: fact.custody, status: fact.status, designated: fact.designated };
  const [created] = await records
    .insert(personas)
    .values({ orgId: key, externalId: fact.id, ...values })
    .onConflictDoNothing()
    .returning({ id: personas.id });
  if (created !== undefined) return { ok: true, outcome: 'created' };
  const where = and(eq(personas.orgId, key), eq(personas.externalId, fact.id));
  const [known] = await records.select().from(personas).where(where).for('update');
  if (
    known?.custody === values.custody &&
    known.status === values.status &&
    known.designated === values.designated
  ) {
    return { ok: true, outcome: 'unchanged' };
  }
  await records.update(personas).set(values).where(where);
  return { ok: true, outcome: 'updated' };
}
