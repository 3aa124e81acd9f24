import type { CrashSite } from './crash-site.ts';

/** Stops statements that write deliveries, by organization: they have judged, and are about to write. */
export interface LifeGates {
  close(organization: string): Promise<void>;
  open(organization: string): Promise<void>;
  /** Opens all, and waits until nothing is under way any more. After the database was killed they are open by themselves. */
  openAll(): Promise<void>;
  /** The organizations in which a statement has come to a closed gate. */
  reached(): Promise<ReadonlySet<string>>;
}

/** The first half of the keys of the advisory locks; the second is the organization's. */
const GATE = 8611;

/** Prepares a database. The trigger waits for nobody while every gate is open. */
export async function openLifeGates({ owner }: CrashSite): Promise<LifeGates> {
  await owner.unsafe(`
    create function faults.gate() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock_shared(${GATE}, new.org_id::integer); return new; end $$;
    create trigger aa_gate before insert or update on earshot.deliveries
      for each row execute function faults.gate()`);
  let keeper: ReturnType<typeof owner.reserve> | undefined;
  /** One statement of the keeper comes after the other, so that whoever waits for one waits for those before. */
  let keeping: Promise<unknown> = Promise.resolve();
  const keep = (statement: string, ...values: string[]) =>
    (keeping = keeping.then(async () =>
      (await (keeper ??= owner.reserve())).unsafe(statement, values),
    ));
  const keyOf = '(select id::integer from earshot.organizations where external_id = $1)';
  return {
    async close(organization) {
      await keep(`select pg_advisory_lock(${GATE}, ${keyOf})`, organization);
    },
    async open(organization) {
      await keep(`select pg_advisory_unlock(${GATE}, ${keyOf})`, organization);
    },
    async openAll() {
      const was = await keeper;
      keeper = undefined;
      was?.release();
      for (;;) {
        const rows = await owner`
          select from pg_stat_activity
          where datname = current_database() and usename = 'earshot_gateway' and state <> 'idle'`;
        if (rows.length === 0) return;
      }
    },
    async reached() {
      const rows = await owner<{ name: string }[]>`
        select o.external_id as name from pg_locks l join earshot.organizations o on o.id = l.objid::bigint
        where l.locktype = 'advisory' and l.classid = ${GATE} and not l.granted`;
      return new Set(rows.map(({ name }) => name));
    },
  };
}
