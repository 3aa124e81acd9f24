import { z } from 'zod';
import type { BenchDatabase } from './server.ts';

const Row = z.object({
  name: z.string(),
  kind: z.string(),
  size: z.number(),
  destination: z.string(),
  users: z.array(z.string()),
  /** Who wrote the message that a turn answers. */
  requester: z.string(),
  bound: z.string().nullable(),
  guests: z.boolean(),
  /** Rows by which its people read anything. */
  readable: z.string().transform(Number),
});

/** Readers who ask together, with a thread of their own. */
export type Audience = z.output<typeof Row>;

/** The audiences of one kind and size, which a case takes in turn. `squad5` and the like. */
export interface AudienceGroup {
  readonly name: string;
  readonly kind: string;
  readonly size: number;
  readonly audiences: readonly Audience[];
}

/** Which audiences to take: so many of a group, and none with more readers than that. All unless given. */
export interface AudienceLimits {
  readonly audiencesEach?: number;
  readonly largestAudience?: number;
}

/** Every group that the data is large enough for, in a fixed order. */
export async function findAudiences(
  { superuser }: BenchDatabase,
  { audiencesEach = 4, largestAudience = 1_000_000 }: AudienceLimits = {},
): Promise<AudienceGroup[]> {
  const rows = await superuser.sql`
    select a.name, a.kind, a.size, r.destination, r.users::text[] as users, r.bound, r.guests,
      a.readers[1] as requester,
      (select count(*) from earshot.memberships m where m.org_id = 1 and m.user_id = any (r.users)) as readable
    from bench.audiences a join bench_run.readers r using (name)
    where a.instance <= ${audiencesEach} and a.size <= ${largestAudience}
    order by a.kind, a.size, a.instance`;
  const groups = new Map<string, Audience[]>();
  for (const row of z.array(Row).parse(rows)) {
    const name = `${row.kind}${row.size}`;
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  return [...groups].map(([name, audiences]) => ({
    name,
    kind: audiences[0]?.kind ?? '',
    size: audiences[0]?.size ?? 0,
    audiences,
  }));
}

/** The audience that a case takes at its nth run. */
export function audienceAt({ audiences }: AudienceGroup, turn: number): Audience {
  const audience = audiences[turn % audiences.length];
  if (audience === undefined) throw new Error('A group of audiences is never empty.');
  return audience;
}
