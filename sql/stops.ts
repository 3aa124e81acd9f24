import { and, eq } from 'drizzle-orm';
import type { ExternalId } from '../policy/identity.ts';
import type { Refusal } from '../policy/refusal.ts';
import type { Database } from './database.ts';
import { inOrganization } from './organization.ts';
import { stops } from './tables/organization-facts.ts';

export const STOP_KINDS = ['organization', 'persona', 'conversation', 'turn'] as const;
export type StopKind = (typeof STOP_KINDS)[number];

/** Sets a stop condition. It ends what runs at the next check, and holds until it is lifted. */
export async function setStop(
  database: Database,
  organization: ExternalId,
  kind: StopKind,
  target: string,
  reason: string | undefined,
): Promise<{ ok: true } | Refusal> {
  return inOrganization(database, organization, async ({ records, key }) => {
    await records
      .insert(stops)
      .values({ orgId: key, kind, target, reason: reason ?? null })
      .onConflictDoNothing();
    return { ok: true };
  });
}

/** Lifts a stop condition; none there is as good as lifted. */
export async function liftStop(
  database: Database,
  organization: ExternalId,
  kind: StopKind,
  target: string,
): Promise<{ ok: true } | Refusal> {
  return inOrganization(database, organization, async ({ records, key }) => {
    await records
      .delete(stops)
      .where(and(eq(stops.orgId, key), eq(stops.kind, kind), eq(stops.target, target)));
    return { ok: true };
  });
}
