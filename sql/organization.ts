import { eq } from 'drizzle-orm';
import type { ExternalId } from '../policy/identity.ts';
import { refuse, type Refusal } from '../policy/refusal.ts';
import type { Database, Sql } from './database.ts';
import { retrying } from './faults.ts';
import { recordsOf, type Records } from './records.ts';
import { organizations } from './tables/organization-facts.ts';

/** A transaction inside one organization: row security shows that one's rows and no others. */
export interface OrganizationTransaction {
  readonly sql: Sql;
  readonly records: Records;
  readonly key: bigint;
  readonly name: ExternalId;
}

/**
 * Runs work in a transaction inside an organization, again if it loses to another one. An unknown
 * organization is `not_found`, and a refusal that the work returns rolls everything back.
 */
export async function inOrganization<T extends { ok: true }>(
  database: Database,
  name: ExternalId,
  work: (transaction: OrganizationTransaction) => Promise<T | Refusal>,
): Promise<T | Refusal> {
  try {
    return await retrying(
      () =>
        database.sql.begin(async (sql): Promise<T> => {
          const [row] = await sql<{ key: string | null }[]>`
          select earshot.enter_organization(${name}) as key`;
          if (row?.key == null) throw new RolledBack(refuse('not_found'));
          const result = await work({ sql, records: recordsOf(sql), key: BigInt(row.key), name });
          if (!result.ok) throw new RolledBack(result);
          return result;
        }) as Promise<T>,
    );
  } catch (error) {
    if (error instanceof RolledBack) return error.refusal;
    throw error;
  }
}

/** Carries a refusal out of a transaction, so that leaving it rolls back. */
class RolledBack extends Error {
  readonly refusal: Refusal;
  constructor(refusal: Refusal) {
    super(refusal.code);
    this.refusal = refusal;
  }
}

/** Creates an organization if it is new, active and running, and says so. One that is there stays as it is. */
export async function createOrganization({ sql }: Database, name: ExternalId): Promise<boolean> {
  const [row] = await sql<{ known: boolean }[]>`
    select earshot.enter_organization(${name}) is not null as known`;
  if (row?.known !== true) await sql`select earshot.create_organization(${name})`;
  return row?.known !== true;
}

export interface OrganizationFact {
  readonly status?: 'active' | 'suspended' | undefined;
  readonly guard?: 'running' | 'paused' | undefined;
  readonly policyRevision?: bigint | undefined;
  /** The text search configuration: a name in the server's own catalog, such as `german`. */
  readonly textSearch?: string | undefined;
}

/**
 * Creates an organization or changes what is named of its status, execution guard, policy revision
 * and text search configuration. The policy revision never goes back: a lower one is a conflict. Another
 * configuration reads every message of the organization anew, in this transaction: it takes time in
 * proportion to them, and writers of messages wait for it. One that the server does not have is
 * `invalid_input`.
 */
export async function putOrganization(
  database: Database,
  name: ExternalId,
  fact: OrganizationFact,
): Promise<{ ok: true } | Refusal> {
  await database.sql`select earshot.create_organization(${name})`;
  return inOrganization(database, name, async ({ sql, records, key }) => {
    const [row] = await records
      .select({ revision: organizations.policyRevision })
      .from(organizations)
      .where(eq(organizations.id, key))
      .for('update');
    if (row === undefined) return refuse('not_found');
    if (fact.policyRevision !== undefined && fact.policyRevision < row.revision) {
      return refuse('conflict', { detail: 'The policy revision never goes back.' });
    }
    await records
      .update(organizations)
      .set({
        ...(fact.status !== undefined && { status: fact.status }),
        ...(fact.guard !== undefined && { guard: fact.guard }),
        policyRevision: fact.policyRevision ?? row.revision,
      })
      .where(eq(organizations.id, key));
    if (fact.textSearch !== undefined) {
      const known = await sql`
        update earshot.organizations o set text_search = c.oid
        from pg_catalog.pg_ts_config c
        where o.id = ${String(key)} and c.cfgname = ${fact.textSearch}
          and c.cfgnamespace = 'pg_catalog'::regnamespace
        returning o.id`;
      if (known.length === 0) {
        return refuse('invalid_input', { detail: 'There is no such text search configuration.' });
      }
    }
    return { ok: true };
  });
}

/** Sets the execution guard of an organization. Paused: no turn opens, mints, reads or delivers. */
export async function setGuard(
  database: Database,
  name: ExternalId,
  guard: 'running' | 'paused',
): Promise<{ ok: true } | Refusal> {
  return inOrganization(database, name, async ({ records, key }) => {
    await records.update(organizations).set({ guard }).where(eq(organizations.id, key));
    return { ok: true };
  });
}
