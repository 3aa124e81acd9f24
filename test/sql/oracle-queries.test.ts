import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase } from '../../sql/database.ts';
import { buildPlace, hide, type Place } from './oracle-place.ts';

// What somebody may write into the field of a search: an answer, or a clear no; never a failure, and never a row that
// was not asked for.

const HIDDEN = 'pewter hemlock';

/** Operators of every syntax that a query could be mistaken for. */
const OPERATORS = [
  ...[
    '!',
    '&',
    '|',
    '<->',
    '<2>',
    '<0>',
    '<99999>',
    '<-1>',
    ':',
    ':*',
    ':A',
    ':ABCD',
    '*',
    '(',
    ')',
    '()',
    '!!',
    '&&',
    '||',
  ],
  ...[
    '"',
    '""',
    "'",
    "''",
    '\\',
    '\\\\',
    '\\"',
    "\\'",
    '-',
    '--',
    '- ',
    '-"',
    '-"-',
    '$$',
    '$1',
    '%',
    '%s',
    '%1$s',
    ';',
    '/*',
  ],
  ...[
    '{',
    '}',
    '[',
    ']',
    '^',
    '~',
    '@@',
    '#',
    '?',
    '+',
    '=',
    ',',
    '.',
    '...',
    '`',
    '<',
    '>',
    '<>',
    'OR',
    'AND',
    'NOT',
    'or',
    'or or',
  ],
] as const;

const QUERIES = [
  ...OPERATORS,
  OPERATORS.join(' '),
  OPERATORS.join(''),
  ...[...OPERATORS].map((operator) => `lantern ${operator}`),
  ...[...OPERATORS].map((operator) => `${operator}lantern`),
  ...[...OPERATORS].map((operator) => `lantern${operator}harbor`),
  // Of white space, and of what looks like it.
  ...[' ', '\t\r\n', '\u00a0', '\u2028', '\ufeff', '\u200b', '\u202e', '\u0001\u0002', '\u007f'],
  // Stop words alone.
  ...['the', 'the a of', '"the of"', '-the', 'the or a', 'the*', 'a'],
  // Long: one word, one letter, many of each, of many bytes.
  ...[
    'x'.repeat(1000),
    'lantern'.repeat(140),
    'a '.repeat(500),
    'ab '.repeat(333),
    '漢'.repeat(1000),
    '\u{1f600}'.repeat(500),
  ],
  ...[
    '('.repeat(1000),
    ')'.repeat(1000),
    '!'.repeat(1000),
    '-'.repeat(1000),
    '"'.repeat(1000),
    '"'.repeat(999),
    '\\'.repeat(1000),
  ],
  ...[
    '* '.repeat(500),
    'a* '.repeat(333),
    'b*'.repeat(500),
    '-a '.repeat(333),
    '"a" '.repeat(250),
    'a or '.repeat(200),
    'e\u0301'.repeat(500),
  ],
  ...[
    '\u0301'.repeat(1000),
    'a\u0301\u0302\u0303'.repeat(250),
    "' or 1=1 --",
    "'); drop table earshot.messages; --",
  ],
  ...[
    '\ud7ff',
    '\ue000',
    '\uffff',
    '\u{10ffff}',
    '\u{10fffe}*',
    'İ',
    'ß',
    'ﬁ',
    'Ａ',
    'http://a.b/c?d=e&f',
    'a@b.c',
    '1e400',
    '-1',
    '0x0',
  ],
  ...[
    'lantern:*',
    'lant*',
    '*lantern',
    'l*',
    '**',
    '-lantern',
    '-"lantern in"',
    '"lantern',
    'lantern"',
    '"lantern in the harbor"',
  ],
] as const;

/** Refused, not tried. */
const REFUSED = [
  ...['\0', 'lantern\0harbor', '\ud800', 'a\udfff', 'x'.repeat(1001), 'term '.repeat(10_000), ''],
];

describe('whatever is searched for', () => {
  let place: Place;
  let visible: Set<string>;

  beforeAll(async () => {
    place = await buildPlace();
    await hide(place.gateway.owner, 10, HIDDEN);
    const texts = await place.gateway.owner<{ body: string }[]>`
      select body from earshot.messages where body not like '%hemlock%' and body not like 'foreign%'`;
    visible = new Set(texts.map(({ body }) => body));
  });
  afterAll(() => place.gateway.close());

  async function search(query: string, more: object = {}) {
    const answer = await place.turn.tool('search', { query, limit: 100, ...more });
    const { status, body, code } = answer;
    return { status, code, texts: status === 200 ? body.items.map(({ text }) => text) : [] };
  }

  it('the answer is rows of the scope or a clear no, for every operator and every nasty query', async () => {
    const wrong: unknown[] = [];
    for (const query of QUERIES) {
      const { status, code, texts } = await search(query);
      const foreign = texts.filter((text) => !visible.has(text));
      const clear = status === 200 || (status === 400 && code === 'invalid_input');
      if (!clear || foreign.length > 0) wrong.push([query.slice(0, 60), status, code, ...foreign]);
    }
    expect(wrong).toEqual([]);
    expect((await search('lantern')).texts.length).toBeGreaterThan(10);
  });

  it('what holds no word finds nothing: never the newest rows', async () => {
    const wordless = QUERIES.filter((query) => !/[\p{L}\p{N}]/u.test(query));
    const stopped = ['the', 'the a of', '"the of"', '-the', 'the or a', 'a'];
    const found: unknown[] = [];
    for (const query of [...wordless, ...stopped]) {
      const { texts } = await search(query);
      if (texts.length > 0) found.push([query.slice(0, 60), texts.length]);
    }
    expect(wordless.length).toBeGreaterThan(50);
    expect(found).toEqual([]);
  });

  it('what cannot be a query is refused as that, and nothing is recorded as shown', async () => {
    for (const query of REFUSED) {
      const { status, code, texts } = await search(query);
      expect([query.slice(0, 20), status, texts]).toEqual([
        query.slice(0, 20),
        query === '' ? expect.anything() : 400,
        [],
      ]);
      if (query !== '') expect(code).toBe('invalid_input');
    }
  });

  it('a filter that names what is hidden finds what a filter that names nothing finds', async () => {
    for (const [hidden, nobody] of [
      [{ conversation: 'secret' }, { conversation: 'nowhere' }],
      [
        { author: 'cleo', conversation: 'secret' },
        { author: 'nobody', conversation: 'nowhere' },
      ],
    ] as const) {
      expect(await search('pewter', hidden)).toEqual(await search('pewter', nobody));
      expect(await search('-lantern pewter', hidden)).toEqual(
        await search('-lantern pewter', nobody),
      );
    }
  });

  it('any mixture of words and operators is answered, with rows of the scope only', async () => {
    const piece = fc.oneof(
      fc.constantFrom<string>(...OPERATORS),
      fc.constantFrom('lantern', 'harbor', 'pewter', 'hemlock', 'the', 'lant', 'é', ' ', ' ', ' '),
      fc.string({ unit: 'binary', maxLength: 4 }).filter((text) => !/[\0\p{Cs}]/u.test(text)),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 12 }), async (pieces) => {
        const query = pieces.join('').slice(0, 900);
        if (/\p{Cs}/u.test(query)) return;
        const { status, code, texts } = await search(query);
        expect(status === 200 || code === 'invalid_input').toBe(true);
        expect(texts.filter((text) => !visible.has(text))).toEqual([]);
      }),
      { numRuns: 400 },
    );
  });

  it('behind the door, whatever got past the gateway is answered or refused, and shows nothing', async () => {
    const { sql, close } = openDatabase(place.gateway.target.gatewayUrl, {
      max: 1,
      statementTimeoutMs: 20_000,
    });
    const many = [
      Array.from({ length: 10_000 }, (_, n) => `t${String(n)}`).join(' '),
      Array.from({ length: 2_000 }, (_, n) => `"t${String(n)} u"`).join(' or '),
      Array.from({ length: 2_000 }, (_, n) => `-t${String(n)}`).join(' '),
      Array.from({ length: 200 }, (_, n) => `t${String(n)}*`).join(' '),
      'x'.repeat(1_000_000),
      '\u{1f600}'.repeat(100_000),
      '"'.repeat(100_000),
      '('.repeat(100_000),
    ];
    try {
      for (const query of many) {
        const args = JSON.stringify({ query, limit: '10' });
        const outcome: unknown = await sql`
          select code, items from earshot.call_tool(${place.digest}, 'search', ${args}::text::jsonb, ''::bytea)`.then(
          (rows) => JSON.stringify(rows),
          (thrown: unknown) => (thrown as { code?: string }).code,
        );
        // A limit of the server (54000 and the like) is one; a fault of the statement or a lost session is none.
        expect([query.slice(0, 20), outcome]).toEqual([
          query.slice(0, 20),
          expect.toSatisfy(
            (text: string | undefined) =>
              text !== undefined &&
              (/^(54|22)...$/.test(text) || (text.startsWith('[') && !text.includes('hemlock'))),
          ),
        ]);
      }
      // The session goes on.
      expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    } finally {
      await close();
    }
  });
});
