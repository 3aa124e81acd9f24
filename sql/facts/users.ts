import { and, eq } from 'drizzle-orm';
import type { PersonaFact, UserFact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import type { OrganizationTransaction } from '../organization.ts';
import { personas, users } from '../tables/organization-facts.ts';
import { writtenFrom } from './conversations.ts';
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

/** Deletes a user: reads nothing from now on, and the name goes, with all that the user said. See `sql/erasure.ts`. */
export async function deleteUser(
  { sql, name }: OrganizationTransaction,
  id: ExternalId,
): Promise<Written | Refusal> {
  const [row] = await sql<{ outcome: string }[]>`
    select earshot.delete_user(${name}, ${id}) as outcome`;
  return writtenFrom(row?.outcome);
}

/** Puts a persona: an agent's service identity, and whether it may serve this organization. */
export async function putPersona(
  { records, key }: OrganizationTransaction,
  fact: PersonaFact,
): Promise<Written> {
  const { custody, status, designated, approval } = fact;
  const values = { custody, status, designated, ...(approval !== undefined && { approval }) };
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
    known.designated === values.designated &&
    known.approval === (approval ?? known.approval)
  ) {
    return { ok: true, outcome: 'unchanged' };
  }
  await records.update(personas).set(values).where(where);
  return { ok: true, outcome: 'updated' };
}
