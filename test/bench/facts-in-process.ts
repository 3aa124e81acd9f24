import { z } from 'zod';
import type { BenchDatabase } from './server.ts';

/** The facts of a bench's data as an engine inside the process needs them, without expired rows. */
export interface FactsInProcess {
  /** Conversations of each user, with the floor of the membership. */
  readonly memberships: ReadonlyMap<string, ReadonlyMap<string, bigint>>;
  readonly conversations: ReadonlyMap<string, ConversationFact>;
  /** The active projects of each user. */
  readonly projects: ReadonlyMap<string, readonly string[]>;
}

export interface ConversationFact {
  readonly members: readonly string[];
  /** The project that opens it, if one does. */
  readonly openTo: string | undefined;
  readonly project: string | undefined;
  readonly defaultFloor: bigint;
}

const integer = z.string().transform(BigInt);
const Conversation = z.object({
  id: z.string(),
  visibility: z.string(),
  project_id: z.string().nullable(),
  default_floor: integer,
  members: z.array(z.string()),
  floors: z.array(integer),
});
const Projects = z.object({ user_id: z.string(), projects: z.array(z.string()) });

/** Reads the facts once: what the organization reads by itself is left out, as in every answer here. */
export async function readFacts({ superuser: { sql } }: BenchDatabase): Promise<FactsInProcess> {
  const conversations = z.array(Conversation).parse(
    await sql`
    select c.id, c.visibility, c.project_id, c.default_floor,
      coalesce(array_agg(m.user_id::text) filter (where m.user_id is not null), '{}') as members,
      coalesce(array_agg(m.floor::text) filter (where m.user_id is not null), '{}') as floors
    from earshot.conversations c
    left join earshot.memberships m on m.org_id = 1 and m.conversation_id = c.id
      and (m.expires_at is null or m.expires_at > now())
      and (c.visibility <> 'organization' or m.floor < c.default_floor)
    where c.org_id = 1 and not c.deleted and not c.staged
    group by c.org_id, c.id`,
  );
  const projects = z.array(Projects).parse(
    await sql`
    select pm.user_id, array_agg(pm.project_id::text) as projects
    from earshot.project_members pm
    join earshot.projects p on p.org_id = 1 and p.id = pm.project_id and p.status = 'active'
    join earshot.users u on u.org_id = 1 and u.id = pm.user_id and (u.kind <> 'guest' or p.admits_guests)
    where pm.org_id = 1 group by 1`,
  );
  const memberships = new Map<string, Map<string, bigint>>();
  for (const { id, members, floors } of conversations) {
    for (const [index, member] of members.entries()) {
      const known = memberships.get(member) ?? new Map<string, bigint>();
      memberships.set(member, known.set(id, floors[index] ?? 1n));
    }
  }
  return {
    memberships,
    conversations: new Map(
      conversations.map(({ id, members, visibility, project_id, default_floor }) => [
        id,
        {
          members,
          project: project_id ?? undefined,
          openTo: visibility === 'project' ? (project_id ?? undefined) : undefined,
          defaultFloor: default_floor,
        },
      ]),
    ),
    projects: new Map(projects.map((row) => [row.user_id, row.projects])),
  };
}

/** What one reader may read at most: what the other readers are then asked about. */
export function candidatesOf(facts: FactsInProcess, user: string): string[] {
  const projects = new Set(facts.projects.get(user));
  const open = [...openByProject(facts)].flatMap(([project, ids]) =>
    projects.has(project) ? ids : [],
  );
  return [...new Set([...(facts.memberships.get(user)?.keys() ?? []), ...open])];
}

/** The floor at which a reader who may read it does. No engine of decisions knows floors. */
export function floorOf(facts: FactsInProcess, user: string, conversation: string): bigint {
  const { openTo, defaultFloor } = facts.conversations.get(conversation) ?? {};
  const routes = [
    facts.memberships.get(user)?.get(conversation),
    openTo !== undefined && facts.projects.get(user)?.includes(openTo) ? defaultFloor : undefined,
  ].filter((floor) => floor !== undefined);
  return routes.reduce((a, b) => (a < b ? a : b), 9_223_372_036_854_775_807n);
}

const opened = new WeakMap<FactsInProcess, Map<string, string[]>>();

/** The conversations that each project opens. */
function openByProject(facts: FactsInProcess): ReadonlyMap<string, string[]> {
  const known = opened.get(facts);
  if (known !== undefined) return known;
  const found = new Map<string, string[]>();
  for (const [id, { openTo }] of facts.conversations) {
    if (openTo !== undefined) found.set(openTo, [...(found.get(openTo) ?? []), id]);
  }
  opened.set(facts, found);
  return found;
}
