import { and, eq } from 'drizzle-orm';
import type { PersonaApproval } from '../policy/fact.ts';
import type { ExternalId } from '../policy/identity.ts';
import { refuse, type Refusal } from '../policy/refusal.ts';
import type { Database } from './database.ts';
import { inOrganization } from './organization.ts';
import { personas } from './tables/organization-facts.ts';
import type { TurnCaller } from './turns.ts';

export interface PersonaRow {
  readonly custody: 'service' | 'user';
  readonly status: 'active' | 'deactivated';
  readonly designated: boolean;
  readonly approval: PersonaApproval;
}

/** A persona as it stands. One that the caller is not registered for is not found. */
export async function findPersona(
  database: Database,
  organization: ExternalId,
  caller: Pick<TurnCaller, 'personas'>,
  persona: ExternalId,
): Promise<{ ok: true; persona: PersonaRow } | Refusal> {
  const serves = caller.personas.includes('*') || caller.personas.includes(persona);
  return inOrganization(database, organization, async ({ records, key }) => {
    const [row] = await records
      .select({
        custody: personas.custody,
        status: personas.status,
        designated: personas.designated,
        approval: personas.approval,
      })
      .from(personas)
      .where(and(eq(personas.orgId, key), eq(personas.externalId, persona)));
    return row === undefined || !serves ? refuse('not_found') : { ok: true, persona: row };
  });
}
