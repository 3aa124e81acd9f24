import { holdOpen, type HeldOpen } from '../http/blocked.ts';
import type { TestGateway } from '../support/gateway.ts';

/**
 * Where one side of a race can be stopped, and in which order both took effect.
 *
 * A change holds the revision that it moved, a step the revisions that it judged by: each is numbered while it holds them, so
 * the numbers are the order in which the two took effect.
 */
export interface RaceHolds {
  /** Stops whoever moves the revision of this place, once it is moved. */
  afterMoving(place: Place): Promise<HeldOpen>;
  /** Stops a step once it has judged, before it writes what becomes of the delivery. */
  afterJudging(): Promise<HeldOpen>;
  /** Stops whoever appends to this place, once it is appended. */
  afterAppending(place: Place): Promise<HeldOpen>;
  /** Stops a step at the last of its locks: all the others are held. */
  atLastLock(row: LastLock): Promise<HeldOpen>;
  /** Waits until somebody waits for what is held here; gives the backend. */
  whenHeld(): Promise<number>;
  /** Whether the work comes to wait for this backend, or is done without waiting for it. */
  waitsFor(work: Promise<unknown>, backend: number): Promise<boolean>;
  /** Begins a round: what happened earlier no longer counts. */
  begin(): Promise<void>;
  /** Whether the delivery came to one of these statuses before the change moved its revision, in this round. */
  wasFirst(delivery: string, statuses: readonly string[]): Promise<boolean>;
  /** How often the delivery came to each status, in all rounds. */
  comingsTo(delivery: string): Promise<Readonly<Record<string, number>>>;
}

/** A conversation by its key in the database; 0 is the organization. */
export type Place = number;

export type LastLock = { readonly grant: string } | { readonly delivery: string };

/** The advisory locks of the test: the first half of their keys. */
const MOVED = 8501;
const JUDGED = 8502;
const APPENDED = 8503;

/** Prepares a database for races. The triggers wait for nobody while nothing is held. */
export async function openRaceHolds(gateway: TestGateway): Promise<RaceHolds> {
  const { owner } = gateway;
  await owner.unsafe(`
    create schema race;
    create table race.happenings (
      at bigint generated always as identity primary key, kind text not null, delivery uuid, status text);
    grant usage on schema race to public;
    grant insert on race.happenings to public;
    create function race.moved() returns trigger language plpgsql as $$
      begin
        insert into race.happenings (kind) values ('change');
        perform pg_advisory_xact_lock_shared(${MOVED}, coalesce(to_jsonb(new) ->> 'conversation_id', '0')::integer);
        return null;
      end $$;
    create function race.judged() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock_shared(${JUDGED}, 0); return new; end $$;
    create function race.written() returns trigger language plpgsql as $$
      begin
        if tg_op = 'INSERT' or new.status <> old.status then
          insert into race.happenings (kind, delivery, status) values ('delivery', new.id, new.status);
        end if;
        return null;
      end $$;
    create function race.appended() returns trigger language plpgsql as $$
      begin
        perform pg_advisory_xact_lock_shared(${APPENDED}, new.conversation_id::integer);
        return null;
      end $$;
    create trigger zz_race after insert on earshot.messages for each row execute function race.appended();
    create trigger zz_race after update on earshot.conversation_revisions
      for each row execute function race.moved();
    create trigger zz_race after update on earshot.organization_revisions
      for each row execute function race.moved();
    create trigger aa_race before insert or update on earshot.deliveries
      for each row execute function race.judged();
    create trigger zz_race after insert or update on earshot.deliveries
      for each row execute function race.written();`);
  let since = '0';
  return {
    afterMoving: (place) =>
      holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(${MOVED}, ${place})`),
    afterJudging: () => holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(${JUDGED}, 0)`),
    afterAppending: (place) =>
      holdOpen(gateway, (sql) => sql`select pg_advisory_xact_lock(${APPENDED}, ${place})`),
    atLastLock: (row) =>
      holdOpen(gateway, (sql) =>
        'grant' in row
          ? sql`select from earshot.grants where id = ${row.grant} for update`
          : sql`select from earshot.deliveries where id = ${row.delivery} for update`,
      ),
    async whenHeld() {
      for (;;) {
        const [first] = await waiting(gateway);
        if (first !== undefined) return first.pid;
      }
    },
    async waitsFor(work, backend) {
      const state = { isDone: false };
      const end = () => (state.isDone = true);
      work.then(end, end);
      while (!state.isDone) {
        const rows = await waiting(gateway);
        if (rows.some(({ blockers }) => blockers.includes(backend))) return true;
      }
      return false;
    },
    async begin() {
      const [row] = await owner<{ at: string }[]>`
        select coalesce(max(at), 0)::text as at from race.happenings`;
      since = row?.at ?? '0';
    },
    async wasFirst(delivery, statuses) {
      const [row] = await owner<{ first: boolean | null }[]>`
        select (select min(at) from race.happenings
                where at > ${since} and delivery = ${delivery} and status = any (${[...statuses]}))
             < (select min(at) from race.happenings where at > ${since} and kind = 'change') as first`;
      if (row?.first == null) throw new Error('The step or the change never came about.');
      return row.first;
    },
    async comingsTo(delivery) {
      const rows = await owner<{ status: string; n: number }[]>`
        select status, count(*)::integer as n from race.happenings where delivery = ${delivery} group by status`;
      return Object.fromEntries(rows.map(({ status, n }) => [status, n]));
    },
  };
}

/** The gateway's backends that wait for a lock, and for whom. */
async function waiting({ owner }: TestGateway) {
  return owner<{ pid: number; blockers: number[] }[]>`
    select pid, pg_blocking_pids(pid) as blockers from pg_stat_activity
    where datname = current_database() and application_name = 'earshot' and usename = 'earshot_gateway'
      and wait_event_type = 'Lock'`;
}
