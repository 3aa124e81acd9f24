import { openDatabase, type Sql } from '../../sql/database.ts';

/**
 * Where a statement about a delivery is stopped: as it waits for its locks; once the row is written and the decision is not; once
 * all is written and nothing committed.
 */
export type Stop = 'locks' | 'row' | 'commit';

/** What has to be locked to stop a statement at its locks. */
export type LockedRow = 'turn' | 'destination';

export interface Held {
  readonly organization: string;
  readonly turn: string;
  readonly destination: string;
}

/** Locks that stop statements inside. Each stops the statements about the delivery of one turn. */
export interface Holds {
  take(held: Held, stop: Stop, row: LockedRow): Promise<void>;
  /** Waits until as many statements wait as are to be stopped; with `times`, and others behind each of them. */
  untilStopped(times?: number): Promise<void>;
  /** Lets go of all, and waits until no statement that was stopped is left. */
  letGo(): Promise<void>;
}

/** The first halves of the advisory locks; the second is of the turn. */
const KEYS = { row: 8601, commit: 8602 };

/** Prepares a database. Its triggers wait for nobody while nothing is held. */
export async function openHolds(owner: Sql, superuserUrl: string): Promise<Holds> {
  await owner.unsafe(`
    create schema faults;
    grant usage on schema faults to public;
    create function faults.written() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock_shared(${KEYS.row}, hashtext(new.turn_id::text)); return null; end $$;
    create function faults.ending() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock_shared(${KEYS.commit}, hashtext(new.turn_id::text)); return null; end $$;
    create trigger zz_written after insert or update on earshot.deliveries
      for each row execute function faults.written();
    create constraint trigger zz_ending after insert or update on earshot.deliveries
      deferrable initially deferred for each row execute function faults.ending();`);
  let holder: ReturnType<typeof openHolder> | undefined;
  let stopped = 0;
  let waiting: readonly number[] = [];
  const atLocks = async () =>
    (
      await owner<{ pid: number }[]>`
        select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    ).map(({ pid }) => pid);
  return {
    async take({ organization, turn, destination }, stop, row) {
      const { sql } = await (holder ??= openHolder(superuserUrl));
      if (stop !== 'locks') {
        await sql`select pg_advisory_xact_lock(${KEYS[stop]}, hashtext(${turn}))`;
      } else if (row === 'turn') {
        await sql`select from earshot.turns where id = ${turn} for no key update`;
      } else {
        await sql`
          select from earshot.conversations c
          where c.external_id = ${destination}
            and c.org_id = (select o.id from earshot.organizations o where o.external_id = ${organization})
          for no key update`;
      }
      stopped++;
    },
    async untilStopped(times = 1) {
      do waiting = await atLocks();
      while (waiting.length < stopped * times);
    },
    async letGo() {
      const [was, pids] = [holder, waiting];
      [holder, stopped, waiting] = [undefined, 0, []];
      await (await was)?.end();
      const left = () => owner`
        select from pg_stat_activity
        where pid = any (${owner.array([...pids])}::integer[]) and pid <> pg_backend_pid() and state = 'active'`;
      while (pids.length > 0 && (await left()).length > 0);
    },
  };
}

async function openHolder(url: string) {
  const { sql, close } = openDatabase(url, { max: 1 });
  const held = await sql.reserve();
  await held`begin`;
  return {
    sql: held,
    async end() {
      // Where the server was killed, the locks went with it.
      await held`commit`.catch(() => undefined);
      held.release();
      await close();
    },
  };
}
