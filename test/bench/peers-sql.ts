import type { Audience } from './audiences.ts';
import { answerOf, type Shape } from './earshot-scope.ts';
import type { BenchDatabase } from './server.ts';

/** What of the routes comes into question for an audience. */
type Routes = Pick<Audience, 'guests' | 'bound'>;

/**
 * The rows by which each of these readers reads something, once for each route. `$1` the readers, `$2`
 * the project bound where there is one. Where a guest is among the readers, the conversations open to
 * the organization count too; otherwise only where a membership begins below the default floor. A class
 * is no reader here.
 */
export function routesOf({ guests, bound }: Routes): string {
  const usable = `not c.deleted and not c.staged${bound === null ? '' : ' and c.project_id = $2::bigint'}`;
  const byMembership = `
    select m.user_id, m.conversation_id, m.floor::bigint as floor
    from earshot.memberships m
    join earshot.conversations c on c.org_id = 1 and c.id = m.conversation_id
    where m.org_id = 1 and m.user_id = any ($1::bigint[]) and (m.expires_at is null or m.expires_at > now())
      and ${usable}${guests ? '' : ` and (c.visibility <> 'organization' or m.floor < c.default_floor)`}`;
  const byProject = `
    select pm.user_id, c.id, c.default_floor::bigint
    from earshot.project_members pm
    join earshot.projects p on p.org_id = 1 and p.id = pm.project_id and p.status = 'active'
    join earshot.users u on u.org_id = 1 and u.id = pm.user_id and (u.kind <> 'guest' or p.admits_guests)
    join earshot.conversations c on c.org_id = 1 and c.project_id = pm.project_id and c.visibility = 'project'
    where pm.org_id = 1 and pm.user_id = any ($1::bigint[]) and ${usable}`;
  const byOrganization = `
    select u.id, c.id, c.default_floor::bigint
    from earshot.users u
    join earshot.conversations c on c.org_id = 1 and c.visibility = 'organization'
    where u.org_id = 1 and u.id = any ($1::bigint[]) and u.kind <> 'guest' and ${usable}`;
  return [byMembership, byProject, ...(guests ? [byOrganization] : [])].join(' union all ');
}

/** What {@link routesOf} is bound to. */
export function routeArguments(
  readers: readonly string[] | string,
  { bound }: Routes,
): (string | string[])[] {
  const first = typeof readers === 'string' ? readers : [...readers];
  return bound === null ? [first] : [first, bound];
}

const counted = (routes: string) => `
  select conversation_id as id, max(floor) as floor
  from (select user_id, conversation_id, min(floor) as floor from (${routes}) r group by 1, 2) s
  group by 1 having count(*) = cardinality($1::bigint[])`;

/** The relation that a maintained `readable` would be: routes with their expiry, without what is open to all. */
export const READABLE = `
  drop table if exists bench_run.readable;
  create table bench_run.readable (
    user_id bigint not null, conversation_id bigint not null, route smallint not null, floor bigint not null,
    project_id bigint, expires_at timestamptz, primary key (user_id, conversation_id, route)
  );
  insert into bench_run.readable
  select m.user_id, m.conversation_id, 1, m.floor, c.project_id, m.expires_at
  from earshot.memberships m join earshot.conversations c on c.org_id = 1 and c.id = m.conversation_id
  where m.org_id = 1 and not c.deleted and not c.staged
    and (c.visibility <> 'organization' or m.floor < c.default_floor)
  union all
  select pm.user_id, c.id, 2, c.default_floor, c.project_id, null
  from earshot.project_members pm
  join earshot.projects p on p.org_id = 1 and p.id = pm.project_id and p.status = 'active'
  join earshot.users u on u.org_id = 1 and u.id = pm.user_id and (u.kind <> 'guest' or p.admits_guests)
  join earshot.conversations c on c.org_id = 1 and c.project_id = pm.project_id and c.visibility = 'project'
  where pm.org_id = 1 and not c.deleted and not c.staged
  order by 1, 2, 3;
  create index on bench_run.readable (conversation_id, user_id) include (route, floor, expires_at)`;

const kept = ({ bound }: Routes) => `
  select user_id, conversation_id, floor from bench_run.readable
  where user_id = any ($1::bigint[]) and (expires_at is null or expires_at > now())
    ${bound === null ? '' : 'and project_id = $2::bigint'}`;

/** The reader with the fewest rows first, and of those whatever no other reader lacks. */
function rarestFirst(routes: Routes): string {
  const candidates = routesOf(routes).replaceAll('any ($1::bigint[])', '(select id from rarest)');
  const one = routeOf(routes, 'reader.id', 'k.id');
  return `
    with rarest as materialized (
      select reader.id from unnest($1::bigint[]) reader(id)
      cross join lateral (
        select count(*) as reach from (
          select from earshot.memberships m where m.org_id = 1 and m.user_id = reader.id limit 1000) s) n
      order by n.reach limit 1
    ), candidates as materialized (
      select distinct conversation_id as id from (${candidates}) r
    ), kept as materialized (
      select k.id from candidates k
      where not exists (
        select from unnest($1::bigint[]) reader(id)
        where not exists (${one} limit 1))
    )
    select k.id, max(f.floor) as floor
    from kept k cross join unnest($1::bigint[]) reader(id)
    cross join lateral (select min(r.floor) as floor from (${one}) r) f
    group by k.id`;
}

/** The routes of one reader to one conversation. */
function routeOf(routes: Routes, user: string, conversation: string): string {
  return routesOf(routes)
    .replaceAll('any ($1::bigint[])', user)
    .replaceAll('where m.org_id = 1', `where m.conversation_id = ${conversation} and m.org_id = 1`)
    .replaceAll('where pm.org_id = 1', `where c.id = ${conversation} and pm.org_id = 1`)
    .replaceAll('where u.org_id = 1', `where c.id = ${conversation} and u.org_id = 1`);
}

function intersectChain(audience: Audience): string {
  const routes = routesOf(audience);
  const sets = audience.users
    .map((_, index) => routes.replaceAll('any ($1::bigint[])', `($1::bigint[])[${index + 1}]`))
    .map((one) => `(select conversation_id from (${one}) r)`);
  return `
    with kept as materialized (${sets.join(' intersect ')})
    select s.conversation_id as id, max(s.floor) as floor
    from (select r.user_id, r.conversation_id, min(r.floor) as floor
          from (${routes}) r join kept k on k.conversation_id = r.conversation_id group by 1, 2) s
    group by 1`;
}

/** What somebody would write in SQL, by a login that no row security holds. */
export function sqlShapes({ superuser: { sql } }: BenchDatabase): Shape[] {
  const shape = (
    name: string,
    about: string,
    suits: Shape['suits'],
    text: (audience: Audience) => string,
  ): Shape => {
    const send = (query: string, audience: Audience) =>
      sql.unsafe(query, routeArguments(audience.users, audience), { prepare: true });
    return {
      ...{ name, about },
      suits: (group) => isOfPeople(group) && suits(group),
      answer: async (audience) => answerOf(await send(text(audience), audience)),
      ask: (audience) =>
        send(`select count(*), max(floor) from (${text(audience)}) answer`, audience),
    };
  };
  const always = () => true;
  return [
    shape('GROUP BY … HAVING', 'one statement over the base tables', always, (audience) =>
      counted(routesOf(audience)),
    ),
    shape(
      'GROUP BY over a kept relation',
      'the same over a `readable` relation with a row for each route; what keeping it costs is not in the figure; without guests',
      ({ kind }) => kind !== 'guest',
      (audience) => counted(kept(audience)),
    ),
    shape(
      'INTERSECT chain',
      'one statement over the base tables with a term for each reader; up to 100 readers',
      ({ size }) => size <= 100,
      intersectChain,
    ),
    shape(
      'rarest first, NOT EXISTS',
      'one statement over the base tables that starts from the reader with the fewest rows',
      always,
      rarestFirst,
    ),
  ];
}

/** An open class stands for people whom no list names: what reads by list cannot answer for it. */
export function isOfPeople({ kind }: { readonly kind: string }): boolean {
  return kind !== 'open' && kind !== 'openproject';
}
