import type { Audience } from './audiences.ts';
import type { Answer, Shape } from './earshot-scope.ts';
import { isOfPeople, routeArguments, routesOf } from './peers-sql.ts';
import type { BenchDatabase } from './server.ts';

/** The statement that gives one reader's conversations with their floors. */
const oneReader = (audience: Audience) => `
  select r.conversation_id as id, min(r.floor) as floor
  from (${routesOf(audience).replaceAll('any ($1::bigint[])', '$1::bigint')}) r group by 1`;

/** What somebody would write in the application. */
export function fetchingShape({ superuser: { sql } }: BenchDatabase): Shape {
  async function ask(audience: Audience): Promise<Answer> {
    const statement = oneReader(audience);
    const sets = await Promise.all(
      audience.users.map((user) =>
        sql.unsafe(statement, routeArguments(user, audience), { prepare: true }).values(),
      ),
    );
    return intersected(sets as unknown as [string, string][][]);
  }
  return {
    name: 'fetch each set, intersect in the application',
    about:
      'a prepared statement for each reader over a pool of ten connections, sets met in JavaScript; up to 200 readers',
    suits: (group) => isOfPeople(group) && group.size <= 200,
    answer: ask,
    ask,
  };
}

/** The conversations of every set, each at the highest floor. */
function intersected(sets: readonly (readonly (readonly [string, string])[])[]): Answer {
  const [smallest = [], ...others] = sets.toSorted((a, b) => a.length - b.length);
  let kept = new Map(smallest);
  for (const set of others) {
    if (kept.size === 0) break;
    const next = new Map<string, string>();
    for (const [id, floor] of set) {
      const known = kept.get(id);
      if (known !== undefined) next.set(id, BigInt(known) > BigInt(floor) ? known : floor);
    }
    kept = next;
  }
  return kept;
}

/** Tables of its own, because a policy for persons beside the one for tenants would change Earshot. */
export const PERSONAL_POLICY = `
  drop table if exists bench_run.my_conversations, bench_run.my_memberships, bench_run.my_projects;
  do $$ begin create role earshot_bench_reader nologin; exception when duplicate_object or unique_violation then null; end $$;
  grant usage on schema bench_run to earshot_bench_reader;
  create table bench_run.my_memberships as
    select user_id, conversation_id, floor::bigint as floor, expires_at from earshot.memberships where org_id = 1;
  alter table bench_run.my_memberships add primary key (user_id, conversation_id);
  create table bench_run.my_projects as
    select pm.user_id, pm.project_id from earshot.project_members pm
    join earshot.projects p on p.org_id = 1 and p.id = pm.project_id and p.status = 'active'
    join earshot.users u on u.org_id = 1 and u.id = pm.user_id and (u.kind <> 'guest' or p.admits_guests)
    where pm.org_id = 1;
  alter table bench_run.my_projects add primary key (user_id, project_id);
  create table bench_run.my_conversations as
    select id, visibility, project_id, default_floor::bigint as default_floor from earshot.conversations
    where org_id = 1 and not deleted and not staged and visibility <> 'organization';
  alter table bench_run.my_conversations add primary key (id);
  create index on bench_run.my_conversations (project_id) where visibility = 'project';
  grant select on bench_run.my_conversations, bench_run.my_memberships, bench_run.my_projects to earshot_bench_reader;
  alter table bench_run.my_conversations enable row level security;
  create policy mine on bench_run.my_conversations for select using (
    id in (select m.conversation_id from bench_run.my_memberships m
           where m.user_id = (select nullif(current_setting('bench.person', true), '')::bigint)
             and (m.expires_at is null or m.expires_at > now()))
    or (visibility = 'project' and project_id in (
          select p.project_id from bench_run.my_projects p
          where p.user_id = (select nullif(current_setting('bench.person', true), '')::bigint))))`;

/**
 * Row-level security for persons, as its guides have it: the policy looks the person up once and asks
 * for membership in a set. Each reader's view is read under that reader's setting and met with the
 * others; floors are the application's own.
 */
export function rowSecurityShape({ superuser: { sql } }: BenchDatabase): Shape {
  async function ask({ users, bound }: Audience): Promise<Answer> {
    const views = await sql.begin(async (transaction) => {
      await transaction`set local role earshot_bench_reader`;
      const found: [string, string][][] = [];
      for (const user of users) {
        const [, rows] = await Promise.all([
          transaction`select set_config('bench.person', ${user}, true)`,
          transaction`
            select c.id, least(m.floor, case when c.visibility = 'project' and p.user_id is not null
                then c.default_floor end) as floor
            from bench_run.my_conversations c
            left join bench_run.my_memberships m on m.conversation_id = c.id and m.user_id = ${user}
              and (m.expires_at is null or m.expires_at > now())
            left join bench_run.my_projects p on p.project_id = c.project_id and p.user_id = ${user}
            where ${bound}::bigint is null or c.project_id = ${bound}`.values(),
        ]);
        found.push(rows as unknown as [string, string][]);
      }
      return found;
    });
    return intersected(views);
  }
  return {
    name: 'row-level security for each person, intersected',
    about:
      'a policy on the conversations, each reader’s view read in one transaction, views met in JavaScript; without guests, and up to 20 readers',
    suits: (group) => isOfPeople(group) && group.kind !== 'guest' && group.size <= 20,
    answer: ask,
    ask,
  };
}
