import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DELIVERY_STATUSES, type DeliveryStatus } from '../../sql/deliveries.ts';
import { openDatabase, type Database } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// Which steps a delivery may take is one table, held by a trigger against every writer.

const PAGE = join(import.meta.dirname, '..', '..', 'docs', 'delivery.md');
/** Where each begins, and none stays. */
const BEGINNING = 'proposed';
const ID = '10000000-0000-4000-8000-000000000000';

let target: TestDatabase;
let superuser: Database;
let listed: Set<string>;

beforeAll(async () => {
  target = await createTestDatabase();
  superuser = openDatabase(target.superuserUrl, { max: 2 });
  const rows = await superuser.sql<{ step: string }[]>`
    select from_status || ' ' || to_status as step from earshot.delivery_transitions`;
  listed = new Set(rows.map(({ step }) => step));
  await superuser.sql`select earshot.create_organization('acme')`;
});

afterAll(async () => {
  await superuser.close();
  await target.drop();
});

class Undone extends Error {}

/** Tries a step in a transaction that is undone: whether it was let through, and what it raised otherwise. */
async function tries(was: string, becomes: DeliveryStatus, change = ''): Promise<string> {
  let outcome = '';
  const insert = (status: string) => `
    insert into earshot.deliveries (org_id, id, turn_id, grant_id, destination_id, status, payload_sha256, content_type,
      audience_hash, idempotency_key, request_digest, proposed_at, expires_at, queued, fence, lease_expires_at)
    select id, '${ID}', '${ID}', '${ID}', 1, '${status}', sha256(''), 'text/plain', sha256(''), '', '', now(), now(), true,
      3, now()
    from earshot.organizations`;
  await superuser.sql
    .begin(async (sql) => {
      // What it refers to is not the question here.
      await sql`alter table earshot.deliveries disable trigger all`;
      if (was !== BEGINNING) await sql.unsafe(insert(was));
      await sql`alter table earshot.deliveries enable trigger user`;
      try {
        await sql.savepoint((inner) =>
          inner.unsafe(
            was === BEGINNING
              ? insert(becomes)
              : `update earshot.deliveries set status = '${becomes}' ${change}`,
          ),
        );
        outcome = 'taken';
      } catch (error) {
        outcome = (error as { code?: string }).code ?? String(error);
      }
      throw new Undone();
    })
    .catch((error: unknown) => {
      if (!(error instanceof Undone)) throw error;
    });
  return outcome;
}

describe.each([BEGINNING, ...DELIVERY_STATUSES])('a delivery that is %s', (was) => {
  test.each(DELIVERY_STATUSES)('becomes what the table lists, or nothing: %s', async (becomes) => {
    // To stay what it is takes no step; a change of the fence is one.
    const change = was === becomes ? ', fence = 4' : '';
    const expected = listed.has(`${was} ${becomes}`) ? 'taken' : 'TD001';
    expect(await tries(was, becomes, change)).toBe(expected);
  });
});

test('a fence never goes back', async () => {
  expect(await tries('cleared', 'claimed', ', fence = 3')).toBe('taken');
  expect(await tries('cleared', 'claimed', ', fence = 2')).toBe('TD001');
  expect(await tries('claimed', 'claimed', ', fence = 2')).toBe('TD001');
});

test('the ends are those from which nothing leads on', () => {
  const leads = new Set([...listed].map((step) => step.split(' ')[0]));
  expect(DELIVERY_STATUSES.filter((status) => !leads.has(status))).toEqual([
    ...['delivered', 'failed', 'dead', 'discarded'],
  ]);
});

test('the page lists every step of the table and no other', () => {
  const [, states = ''] = readFileSync(PAGE, 'utf8').split(/^## States$/m);
  const [section = ''] = states.split(/^## /m);
  const rows = section.matchAll(/^\| `(\w+)` \| [^|]+ \| ([^|]*) \|$/gm);
  const told = [...rows].flatMap(([, was = '', next = '']) =>
    [...next.matchAll(/`(\w+)`/g)].map(([, becomes = '']) => `${was} ${becomes}`),
  );
  expect(told.sort()).toEqual([...listed].sort());
});

test('nobody but who migrates may change the table', async () => {
  const [rights] = await superuser.sql<{ rights: string[] }[]>`
    select array(select r.name || ' ' || p.name
      from unnest(array['earshot_scoped', 'earshot_runtime', 'earshot_gateway']) r(name)
      cross join unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'trigger']) p(name)
      where has_table_privilege(r.name, 'earshot.delivery_transitions', p.name)) as rights`;
  expect(rights?.rights).toEqual(['earshot_scoped select']);
});
