import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { fingerprint } from '../../policy/audience.ts';
import { parseExternalId } from '../../policy/identity.ts';
import { forkIdFor, sessionIdFor } from '../../policy/session-id.ts';
import { openDatabase, type Database, type Sql } from '../../sql/database.ts';
import { migrate } from '../../sql/migrate.ts';
import { createTestDatabase, toDatabase, type TestDatabase } from '../support/database.ts';
import { NASTY_IDS, nastyId } from './nasty-ids.ts';
import { Tally } from './tally.ts';
import {
  externalIdVectors,
  fingerprintInput,
  fingerprintVectors,
  forkIdVectors,
  sessionIdVectors,
  sessionParts,
  type FingerprintVector,
} from './vector.ts';
import { compareWorld, createWorldDatabase, expectNone } from './world-database.ts';
import { worlds } from './world-generator.ts';

const fingerprints = await fingerprintVectors();
const sessionIds = await sessionIdVectors();
const forkIds = await forkIdVectors();
const { accepted, refused } = await externalIdVectors();

describe('in TypeScript', () => {
  test.each(fingerprints)('the fingerprint is the published one: $title', (vector) => {
    expect(fingerprint(fingerprintInput(vector))).toBe(vector.fingerprint);
  });

  test('one audience has one fingerprint, and another one another', () => {
    const byAudience = new Map(
      fingerprints.map((vector) => [audienceKey(vector), vector.fingerprint]),
    );
    expect(byAudience.size).toBeLessThan(fingerprints.length);
    expect(new Set(byAudience.values()).size).toBe(byAudience.size);
    for (const vector of fingerprints)
      expect(byAudience.get(audienceKey(vector))).toBe(vector.fingerprint);
  });

  test.each(sessionIds)('the session id is the published one: $title', (vector) => {
    expect(sessionIdFor(sessionParts(vector))).toBe(vector.sessionId);
  });

  test('a session id differs as soon as one part does', () => {
    expect(new Set(sessionIds.map(({ sessionId }) => sessionId)).size).toBe(sessionIds.length);
  });

  test.each(accepted)('%j is an external id', (id) => {
    expect(parseExternalId(id)).toEqual({ ok: true, id });
  });

  test.each(refused)('$id is no external id: $fault', ({ id, fault }) => {
    expect(parseExternalId(id)).toEqual({ ok: false, fault });
  });
});

describe.each([
  { collation: 'C', create: createTestDatabase, sorted: 'A Z a z \u00e5' },
  { collation: 'sv-SE of ICU', create: createSwedishDatabase, sorted: 'a A z Z \u00e5' },
])('in SQL on a database with the collation $collation', ({ create, sorted }) => {
  let made: TestDatabase;
  let database: Database;
  let sql: Sql;

  beforeAll(async () => {
    made = await create();
    database = openDatabase(made.superuserUrl, { max: 1 });
    sql = database.sql;
  });
  afterAll(async () => {
    await database.close();
    await made.drop();
  });

  test('text that is not an id sorts as the locale says', async () => {
    const [row] = await sql<{ sorted: string }[]>`
      select string_agg(id, ' ' order by id) as sorted from unnest(${['z', '\u00e5', 'Z', 'a', 'A']}::text[]) id`;
    expect(row?.sorted).toBe(sorted);
  });

  test.each(fingerprints)('the fingerprint is the published one: $title', async (vector) => {
    expect(await sqlFingerprint(sql, vector)).toBe(vector.fingerprint);
  });

  test('an empty audience has no fingerprint', async () => {
    const [row] = await sql<{ hash: Buffer | null }[]>`
      select earshot.fingerprint('acme', 'general', '{}') as hash`;
    expect(row?.hash).toBeNull();
  });

  test('any audience has the fingerprint that TypeScript gives it, in any order', async () => {
    const reader = fc.record({
      kind: fc.constantFrom('user', 'class:project', 'class:organization'),
      id: nastyId,
      floor: fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }).map(String),
    });
    const audience = fc.record({
      organization: nastyId,
      destination: nastyId,
      readers: fc.uniqueArray(
        reader.map((one) => (one.kind === 'class:organization' ? { ...one, id: undefined } : one)),
        { minLength: 1, maxLength: 8, selector: ({ kind, id }) => JSON.stringify([kind, id]) },
      ),
    });
    await fc.assert(
      fc.asyncProperty(audience, fc.nat(), async ({ readers, ...rest }, turn) => {
        const at = turn % readers.length;
        const turned = {
          ...rest,
          readers: [...readers.slice(at), ...readers, ...readers.slice(0, at)],
        };
        const expected = fingerprint(fingerprintInput({ ...NAMELESS, ...rest, readers }));
        expect(fingerprint(fingerprintInput({ ...NAMELESS, ...turned }))).toBe(expected);
        expect(await sqlFingerprint(sql, { ...NAMELESS, ...turned })).toBe(expected);
      }),
      { numRuns: 300 },
    );
  });

  test.each(sessionIds.filter(({ audience }) => audience !== undefined))(
    'the session id is the published one: $title',
    async ({ organization, threadKey, salt, epoch, audience, sessionId }) => {
      const [row] = await sql<{ id: string }[]>`
        select earshot.session_id(${organization}, ${threadKey}, ${salt}, ${epoch}, ${audience?.persona ?? null},
          decode(${audience?.audienceHash ?? null}, 'hex'), ${audience?.mode ?? null},
          ${audience?.projectBound ?? null}, ${audience?.policyRevision ?? null}) as id`;
      expect(row?.id).toBe(sessionId);
    },
  );

  test.each(sessionIds.filter(({ audience }) => audience === undefined))(
    'the session id without a grant is the published one: $title',
    async ({ organization, threadKey, salt, epoch, sessionId }) => {
      const [row] = await sql<{ id: string }[]>`
        select earshot.legacy_session_id(${organization}, ${threadKey}, ${salt}, ${epoch}) as id`;
      expect(row?.id).toBe(sessionId);
    },
  );

  test('a missing fingerprint names no session, and never the one without a grant', async () => {
    const [row] = await sql<{ id: string | null }[]>`
      select earshot.session_id('acme', 'general', 'salt', 1, 'helper', null, 'thread', null, 1) as id`;
    expect(row?.id).toBeNull();
  });

  test.each(forkIds)(
    'the id of a fork is the published one: $title',
    async ({ parent, name, forkId }) => {
      const [row] = await sql<{ id: string }[]>`select earshot.fork_id(${parent}, ${name}) as id`;
      expect([forkIdFor(parent, name), row?.id]).toEqual([forkId, forkId]);
    },
  );

  test.each(accepted)('%j is an external id', async (id) => {
    const [row] = await sql<{ id: string }[]>`select ${id}::text::earshot.external_id as id`;
    expect(row?.id).toBe(id);
  });

  // No lone surrogate comes this far: the driver would replace it, so the boundary has refused it.
  test.each(refused.filter(({ fault }) => fault !== 'lone_surrogate'))(
    '$id is no external id: $fault',
    async ({ id }) => {
      const code = id.includes('\0') ? '22021' : '23514';
      await expect(sql`select ${id}::text::earshot.external_id`).rejects.toMatchObject({ code });
    },
  );

  test('ids are one only if their bytes are, and sort by them', async () => {
    const ids = [...new Set([...NASTY_IDS, ...accepted])];
    const [row] = await sql<{ sorted: string[] }[]>`
      select array_agg(distinct id) as sorted
      from (select id::earshot.external_id as id from unnest(${ids}::text[]) id) ids`;
    expect(row?.sorted).toEqual(ids.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
  });
});

test(
  'a database with another collation gives the same scopes, pages and answers',
  { timeout: 60_000 },
  async () => {
    const database = await createWorldDatabase(await createSwedishDatabase());
    try {
      const property = fc.asyncProperty(worlds, async (world) =>
        expectNone(await compareWorld(database, world, new Tally())),
      );
      await fc.assert(property, { numRuns: 100 });
    } finally {
      await database.drop();
    }
  },
);

const NAMELESS = { title: '', fingerprint: '' };

async function sqlFingerprint(sql: Sql, { organization, destination, readers }: FingerprintVector) {
  const rows = readers.map(({ kind, id = '', floor }) => ({ kind, external_id: id, floor }));
  const [row] = await sql<{ hash: string }[]>`
    select encode(earshot.fingerprint(${organization}, ${destination}, array(
      select r from jsonb_populate_recordset(null::earshot.reader, ${JSON.stringify(rows)}::text::jsonb) r)), 'hex')
      as hash`;
  return row?.hash;
}

/** An audience as a set. */
function audienceKey({ organization, destination, readers }: FingerprintVector): string {
  const names = readers.map(({ kind, id, floor }) => JSON.stringify([kind, id, floor]));
  return JSON.stringify([organization, destination, [...new Set(names)].sort()]);
}

/** Like {@link createTestDatabase}, where text compares by the rules of Swedish. */
async function createSwedishDatabase(): Promise<TestDatabase> {
  const empty = await createTestDatabase({ empty: true });
  const { gatewayUrl } = inject('testServer');
  const name = `${empty.name}_sv`;
  const superuser = openDatabase(empty.superuserUrl, { max: 1 });
  await superuser.sql.unsafe(
    `create database ${name} owner earshot_admin template template0 encoding UTF8 locale 'C'
     locale_provider icu icu_locale 'sv-SE'`,
  );
  await migrate(toDatabase(empty.adminUrl, name), { gatewayUrl: toDatabase(gatewayUrl, name) });
  return {
    name,
    superuserUrl: toDatabase(empty.superuserUrl, name),
    adminUrl: toDatabase(empty.adminUrl, name),
    gatewayUrl: toDatabase(empty.gatewayUrl, name),
    async drop() {
      await superuser.sql.unsafe(`drop database ${name} with (force)`);
      await superuser.close();
      await empty.drop();
    },
  };
}
