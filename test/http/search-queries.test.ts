import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { pairOf, type Pair } from './pair.ts';

let gateway: TestGateway;
let acme: Pair['acme'];
let start: Pair['start'];
let write: Pair['write'];

beforeAll(async () => {
  gateway = await openTestGateway();
});

afterAll(() => gateway.close());

beforeEach(async () => {
  ({ acme, start, write } = await pairOf(gateway));
  await acme.conversation('shared', ['ana', 'ben']);
  await acme.conversation('open', [], { visibility: 'organization' });
});

describe('a query is no syntax', () => {
  test.each([
    "'",
    "''",
    '"',
    '\\',
    "\\'",
    ':*',
    '<->',
    '<2>',
    '!',
    '& | ! ( )',
    '* ** ***',
    '- -- -"',
    '"" -""',
    'the and of it',
    '"the of"',
  ])('%j is no fault and finds no recent rows', (query) => findsNothing(query));

  test.each([
    ['emoji', '\u{1F600}'.repeat(400)],
    ['one word', '語'.repeat(1000)],
    ['one beginning', `${'語'.repeat(999)}*`],
    ['one beginning with accents', `${'é'.repeat(999)}*`],
    ['one phrase', `"${'語'.repeat(998)}"`],
    ['one exclusion', `-${'語'.repeat(999)}`],
    ['one word in ASCII', 'x'.repeat(1000)],
    ['one beginning in ASCII', `${'x'.repeat(999)}*`],
    ['quotation marks', `${'"'.repeat(999)}x`],
    ['words', 'x '.repeat(500)],
    ['beginnings', 'xy* '.repeat(250)],
    ['exclusions', '-x '.repeat(333)],
    ['exclusions of phrases', '-"x y" '.repeat(142)],
  ])('a thousand characters of %s are no fault and find no recent rows', (_what, query) =>
    findsNothing(query),
  );

  async function findsNothing(query: string): Promise<void> {
    await write('shared', 'm', 'canary in plain words');
    await write('open', 'm', 'canary in plain words');
    const turn = await start();

    expect(ok(await turn.tool('search', { query, total: true }))).toMatchObject({
      items: [],
      complete: true,
      total: { messages: '0', complete: true },
    });
  }

  test.each([
    "canary'",
    "'canary",
    'canary\\',
    'canary:*',
    'canary:ABCD',
    'canary <-> words',
    '!canary',
    'canary & | (',
    'canary"',
    "canary'; drop table earshot.messages; --",
    `canary ${'x '.repeat(490)}`,
  ])('%j finds what its word does', async (query) => {
    await write('shared', 'm1', 'canary bird');
    await write('shared', 'm2', 'no bird');
    const turn = await start();
    expect(await turn.search(query)).toEqual(['canary bird']);
  });

  test('one of 1,001 characters is refused', async () => {
    const turn = await start();
    expect((await turn.tool('search', { query: 'x'.repeat(1001) })).code).toBe('invalid_input');
  });
});
