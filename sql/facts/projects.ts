import { and, eq, inArray } from 'drizzle-orm';
import type { ProjectFact } from '../../policy/fact.ts';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import type { OrganizationTransaction } from '../organization.ts';
import { projectMembers, projects, users } from '../tables/organization-facts.ts';
import type { Written } from './written.ts';

/**
 * Puts a project and, where they are given, its members as a whole. A member nobody knows refuses
 * the whole fact: a project's members give routes to conversations, and none may be guessed.
 */
export async function putProject(
  { records, key }: OrganizationTransaction,
  fact: ProjectFact,
): Promise<Written | Refusal> {
  const values = { status: fact.status, admitsGuests: fact.admitsGuests };
  const where = and(eq(projects.orgId, key), eq(projects.externalId, fact.id));
  const [created] = await records
    .insert(projects)
    .values({ orgId: key, externalId: fact.id, ...values })
    .onConflictDoNothing()
    .returning({ id: projects.id });
  // The row's lock orders writers of one project's members.
  const [known] = await records.select().from(projects).where(where).for('update');
  if (known === undefined) return refuse('conflict');
  const differs = known.status !== values.status || known.admitsGuests !== values.admitsGuests;
  if (differs) await records.update(projects).set(values).where(where);
  const outcome = created ? 'created' : differs ? 'updated' : 'unchanged';
  if (fact.members === undefined) return { ok: true, outcome };

  const wanted = new Set(fact.members);
  const people = await records
    .select({ id: users.id, name: users.externalId })
    .from(users)
    .where(
      and(
        eq(users.orgId, key),
        eq(users.deleted, false),
        inArray(users.externalId, [...wanted, '']),
      ),
    );
  if (people.length !== wanted.size) {
    return refuse('invalid_input', { detail: 'A member of the project is unknown.' });
  }
  const inProject = and(eq(projectMembers.orgId, key), eq(projectMembers.projectId, known.id));
  const present = await records
    .select({ id: projectMembers.userId })
    .from(projectMembers)
    .where(inProject);
  const keep = new Set(people.map((person) => person.id));
  const had = new Set(present.map((row) => row.id));
  // Only what differs is written: each written row moves the project's revision.
  const gone = [...had].filter((id) => !keep.has(id));
  const added = [...keep].filter((id) => !had.has(id));
  if (gone.length > 0) {
    await records
      .delete(projectMembers)
      .where(and(inProject, inArray(projectMembers.userId, gone)));
  }
  if (added.length > 0) {
    await records
      .insert(projectMembers)
      .values(added.map((userId) => ({ orgId: key, projectId: known.id, userId })))
      .onConflictDoNothing();
  }
  const moved = gone.length > 0 || added.length > 0;
  return { ok: true, outcome: outcome === 'unchanged' && moved ? 'updated' : outcome };
}
