import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase, type Database } from '../../sql/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// A statement that fails when some of its rows have been sent already: a cancellation, a timeout, an expression that
// fails on a later row, a constraint that is checked at the end.

describe.each([true, false])(
  'after a statement that failed among its rows, prepared: %s',
  (prepare) => {
    let place: TestDatabase;
    let database: Database;

    beforeAll(async () => {
      place = await createTestDatabase();
      database = openDatabase(place.superuserUrl, { max: 1, prepare });
    });
    afterAll(async () => {
      await database.close();
      await place.drop();
    });

    const failAmongRows = (rows: number) =>
      expect(
        database.sql`select 1 / (${rows}::int + 1 - n) as quotient from generate_series(1, ${rows + 2}::int) n`,
      ).rejects.toThrow(/division by zero/);

    it.each([1, 2, 50])(
      'the next answer on that connection holds its own rows and no gap: %i rows',
      async (rows) => {
        await failAmongRows(rows);
        const answer = await database.sql<{ word: string }[]>`
      select word from unnest(${['one', 'two']}::text[]) word`;
        expect(Array.from(answer)).toEqual([{ word: 'one' }, { word: 'two' }]);
      },
    );

    it('so does one in a transaction, and one after a transaction that failed like that', async () => {
      await failAmongRows(3);
      await database.sql.begin(async (sql) => {
        expect(Array.from(await sql`select 'one' as word`)).toEqual([{ word: 'one' }]);
      });
      await expect(
        database.sql.begin((sql) => sql`select 1 / (3 - n) from generate_series(1, 4) n`),
      ).rejects.toThrow(/division by zero/);
      expect(Array.from(await database.sql`select 'one' as word`)).toEqual([{ word: 'one' }]);
    });
  },
);
