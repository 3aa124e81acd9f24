import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Sql } from '../../sql/database.ts';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestOrganization } from '../support/organization.ts';
import { insertInto, messagesOf, openHouse } from './open-house.ts';

// Explicit interleavings of what changes the index of what is open to the organization.

let gateway: TestGateway;
let acme: TestOrganization;

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

describe('two transactions leave it whole, whichever comes first:', () => {
  const fact = (visibility: string, defaultFloor?: string) =>
    JSON.stringify({
      ...{ id: 'closed', kind: 'group', visibility, aiThread: false },
      ...{ externalReaders: false, archived: false },
      ...(defaultFloor !== undefined && { defaultFloor }),
    });
  const put = (visibility: string, floor?: string) => (sql: Sql) =>
    sql`select earshot.put_conversation(${acme.name}, ${fact(visibility, floor)}::text::jsonb)`;
  const message = (more: object) => (sql: Sql) =>
    sql`select earshot.put_messages(${acme.name}, 'closed', ${JSON.stringify([
      {
        ...{ id: 'race', kind: 'message', authorUser: 'ana', body: 'tin' },
        ...{ sentAt: '2050-01-01T00:00:00Z', ...more },
      },
    ])}::text::jsonb, false)`;
  const raw = (statement: string) => (sql: Sql) => sql.unsafe(statement);
  const enter = (sql: Sql) => sql`select earshot.enter_organization(${acme.name})`;
  const configure = (sql: Sql) => sql`
    update earshot.organizations set text_search = 'pg_catalog.german' where external_id = ${acme.name}`;

  const steps = {
    opens: put('organization', '1'),
    closes: put('members'),
    'moves the floor': put('organization', '2'),
    appends: message({}),
    edits: message({ id: 'c1', body: 'hidden lanterns and houses' }),
    deletes: message({ id: 'c1', deleted: true }),
    'appends by hand': (sql: Sql) => raw(insertInto('closed', 9, 'houses'))(sql),
    'deletes by hand': (sql: Sql) =>
      raw(`update earshot.messages set body = '', state = 'deleted' where ${messagesOf('closed')}`)(
        sql,
      ),
    'changes the configuration': configure,
  } as const;
  type Step = keyof typeof steps;

  test.each<[Step, Step, 'closed' | 'open']>([
    ['opens', 'appends', 'closed'],
    ['opens', 'edits', 'closed'],
    ['opens', 'deletes', 'closed'],
    ['opens', 'appends by hand', 'closed'],
    ['opens', 'deletes by hand', 'closed'],
    ['opens', 'changes the configuration', 'closed'],
    ['closes', 'appends', 'open'],
    ['closes', 'edits', 'open'],
    ['closes', 'deletes', 'open'],
    ['closes', 'appends by hand', 'open'],
    ['closes', 'changes the configuration', 'open'],
    ['moves the floor', 'appends', 'open'],
    ['moves the floor', 'deletes', 'open'],
    ['moves the floor', 'appends by hand', 'open'],
    ['moves the floor', 'changes the configuration', 'open'],
    ['appends', 'appends', 'open'],
    ['appends', 'appends by hand', 'open'],
    ['appends', 'changes the configuration', 'open'],
    ['edits', 'changes the configuration', 'open'],
    ['deletes', 'changes the configuration', 'open'],
    ['appends', 'changes the configuration', 'closed'],
  ])('one %s, the other %s, in a conversation that is %s', async (one, other, state) => {
    for (const [first, second] of [
      [one, other],
      [other, one],
    ] as const) {
      const house = await openHouse(gateway);
      acme = house.acme;
      await house.conversation('closed', 'members');
      await house.write('closed', 'c1', 'hidden lantern houses');
      await house.write('closed', 'c2', 'hidden pewter');
      if (state === 'open') {
        await house.conversation('closed', 'organization', { defaultFloor: '1' });
      }
      await interleave(steps[first], steps[second]);
      await house.expectWhole();
    }
  });

  test.each([
    ['opens', 'changes the configuration'],
    ['changes the configuration', 'opens'],
  ] as const)(
    'what is deleted after one %s and the other %s leaves no term',
    async (first, second) => {
      const house = await openHouse(gateway);
      acme = house.acme;
      await house.conversation('closed', 'members');
      await house.write('closed', 'c1', 'lantern');
      await interleave(steps[first], steps[second]);
      expect(await house.termsOf('closed')).toHaveLength(1);
      await acme.remove('conversations/closed/messages/c1');

      expect(await house.termsOf('closed')).toEqual([]);
    },
  );

  /** The first works, then the second until it ends or waits for the first, which then commits. */
  async function interleave(
    first: (sql: Sql) => Promise<unknown>,
    second: (sql: Sql) => Promise<unknown>,
  ): Promise<void> {
    const a = await gateway.owner.reserve();
    const b = await gateway.owner.reserve();
    try {
      await a`begin`;
      await b`begin`;
      await enter(a);
      await enter(b);
      const [backend] = await b<{ pid: number }[]>`select pg_backend_pid() as pid`;
      await first(a);
      const progress = { ended: false };
      const going = second(b).finally(() => (progress.ended = true));
      while (!progress.ended && !(await isBlocked(backend?.pid ?? 0)));
      await a`commit`;
      await going;
      await b`commit`;
    } finally {
      a.release();
      b.release();
    }
  }

  async function isBlocked(pid: number): Promise<boolean> {
    const [row] = await gateway.owner<{ blocked: boolean }[]>`
      select cardinality(pg_blocking_pids(${pid})) > 0 as blocked`;
    return row?.blocked === true;
  }
});
