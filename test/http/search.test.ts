import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ok, openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { TestTurn } from '../support/organization.ts';
import { pairOf, type Pair } from './pair.ts';

// What a query finds, in which order, and what is marked in it.

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

/** Writes texts in a conversation that is listed, or in one that is open to the organization. */
async function say(conversation: string, ...texts: string[]): Promise<TestTurn> {
  for (const [n, text] of texts.entries()) await write(conversation, `m${n}`, text);
  return start();
}

/** The words of each hit that are marked, as they stand in its text. */
async function marked(turn: TestTurn, query: string): Promise<(string[] | undefined)[]> {
  const { items } = ok(await turn.tool('search', { query }));
  return items.map(({ text, highlights }) =>
    highlights?.map(({ start: from, end }) => text.slice(from, end)),
  );
}

const places = ['shared', 'open'] as const;

describe.each(places)('in a conversation such as %s', (place) => {
  test('any of the words finds, and the more of them the better', async () => {
    const turn = await say(place, 'a lantern', 'a harbor', 'pewter', 'the lantern of the harbor');

    expect(await turn.search('harbor lantern')).toEqual([
      'the lantern of the harbor',
      'a harbor',
      'a lantern',
    ]);
    expect(await turn.search('harbors Lanterns')).toHaveLength(3);
  });

  test('a rare word weighs more than a common one, a repeated one more than one, and a short text more than a long one', async () => {
    const turn = await say(
      place,
      'pewter',
      'lantern one',
      'lantern two',
      'lantern three',
      'lantern lantern four',
      'lantern with very many other words around it which say nothing',
    );

    const found = await turn.search('lantern pewter');
    expect(found[0]).toBe('pewter');
    expect(found[1]).toBe('lantern lantern four');
    expect(found.at(-1)).toMatch(/^lantern with very many/);
    expect(found).toHaveLength(6);
  });

  test('a phrase is required, and one whose words are apart is not it', async () => {
    const turn = await say(
      place,
      'the harbor lantern shines',
      'the lantern in the harbor',
      'a lantern',
    );

    expect(await turn.search('"harbor lantern"')).toEqual(['the harbor lantern shines']);
    expect(await turn.search('"harbor lantern" shine "the lantern"')).toEqual([
      'the harbor lantern shines',
    ]);
    expect(await turn.search('"harbor lantern" "lantern in the harbor"')).toEqual([]);
    expect(await turn.search('"lantern in the harbor"')).toEqual(['the lantern in the harbor']);
    expect(await turn.search('"harbor lantern')).toHaveLength(3);
  });

  test('a word and a phrase with a minus exclude, and find nothing by themselves', async () => {
    const turn = await say(place, 'harbor lantern', 'lantern harbor', 'lantern pewter', 'lantern');

    expect(new Set(await turn.search('lantern -harbors'))).toEqual(
      new Set(['lantern', 'lantern pewter']),
    );
    expect(await turn.search('lantern -harbor -pewter')).toEqual(['lantern']);
    expect(await turn.search('lantern -"harbor lantern" -pewter')).toHaveLength(2);
    expect(await turn.search('-harbor')).toEqual([]);
    expect(await turn.search('-"harbor lantern"')).toEqual([]);
    expect(await turn.search('lantern -lantern')).toEqual([]);
  });

  test('a beginning finds every word that begins so, and no other', async () => {
    const turn = await say(place, 'lantern', 'lanterns', 'landing', 'island', 'Lan 9');

    expect(await turn.search('lan*')).toHaveLength(4);
    expect(await turn.search('LANT*')).toHaveLength(2);
    expect(await turn.search('lanterns*')).toHaveLength(2);
    expect(await turn.search('land* -landing')).toEqual([]);
    expect(await turn.search('zzz*')).toEqual([]);
  });

  test('a beginning is one of the stem, and what a stem leaves off finds nothing', async () => {
    const turn = await say(place, 'running', 'happiness', 'launching');

    expect(await turn.search('ru*')).toEqual(['running']);
    expect(await turn.search('happ*')).toEqual(['happiness']);
    expect(await turn.search('laun*')).toEqual(['launching']);
    expect(await turn.search('launchi*')).toEqual([]);
  });

  test('a beginning counts once in a message, however many of its words it has', async () => {
    const turn = await say(
      place,
      'lantern lantern landing',
      'lantern pewter harbor landing',
      'tin',
    );
    const { items } = ok(await turn.tool('search', { query: 'lant*' }));

    expect(items.map(({ text }) => text)).toEqual([
      'lantern lantern landing',
      'lantern pewter harbor landing',
    ]);
    const beside = ok(await turn.tool('search', { query: 'lan*' })).items;
    expect(beside.map(({ score }) => score)).toEqual(items.map(({ score }) => score));
  });

  test('accents do not count, neither in the text nor in the query', async () => {
    const turn = await say(place, 'the café', 'the cafe', 'the cafe\u0301', 'CAFÉ');

    for (const query of ['cafe', 'café', 'cafe\u0301', 'CAFÉ', 'caf*', 'CAFÉ*', '"the café"']) {
      const found = (await turn.search(query)).length;
      expect({ query, found }).toEqual({ query, found: 4 });
    }
    expect(await turn.search('café -cafe')).toEqual([]);
  });

  test('punctuation is no part of a word, in ASCII or beyond it', async () => {
    const texts = ['“lantern”', 'lantern\u2014harbor', 'lantern…', '\u{1F600}lantern', '«lantern»'];
    const turn = await say(place, ...texts);

    expect(new Set(await turn.search('lantern'))).toEqual(new Set(texts));
  });

  test('upper and lower case are one beyond ASCII as well', async () => {
    const turn = await say(place, 'ПРИВЕТ', 'привет', 'ΑΘΗΝΑ');

    expect(await turn.search('Привет')).toHaveLength(2);
    expect(await turn.search('αθηνα')).toHaveLength(1);
  });
});

test('a message scores the same, listed or open to the organization, whatever the query', async () => {
  const texts = ['lantern lantern landing', 'harbor lantern', 'a land of lanterns', 'pewter'];
  const turn = await say('shared', ...texts);
  await say('open', ...texts);

  for (const query of ['lantern', 'lan*', 'lant* harbor', '"harbor lantern"', 'lantern -pewter']) {
    const { items } = ok(await turn.tool('search', { query, limit: 100 }));
    const scored = (place: string) =>
      items
        .filter(({ source }) => source.conversation === place)
        .map(({ text, score }) => [text, score]);
    expect(scored('open')).toEqual(scored('shared'));
    expect(scored('open').length).toBeGreaterThan(0);
  }
});

test('what is hidden changes no byte of the items and scores', async () => {
  await acme.conversation('of-ana', ['ana']);
  await acme.conversation('later', ['ana', { user: 'ben', history: { fromSeq: '3' } }]);
  await acme.conversation('open-later', [], { visibility: 'organization', defaultFloor: '3' });
  for (const place of ['shared', 'open']) await say(place, 'lantern harbor', 'lantern', 'pewter');
  const turn = await start();
  const asked = ['lantern', 'lant* harbor', '"lantern harbor"', 'lantern -harbor', 'pewter tin'];
  const ask = () =>
    Promise.all(
      asked.map(async (query) => {
        const packet = ok(await turn.tool('search', { query, limit: 2, total: true }));
        return JSON.stringify({
          total: packet.total,
          complete: packet.complete,
          items: packet.items.map(({ envelope: { decision: _, ...envelope }, ...item }) => ({
            ...item,
            envelope,
          })),
        });
      }),
    );
  const before = await ask();
  const hidden = ['lantern', 'lantern harbor', 'pewter tin', 'harbor lantern lantern'];
  for (const place of ['of-ana']) await say(place, ...hidden);
  for (const place of ['later', 'open-later']) await say(place, ...hidden.slice(0, 2));
  await write('shared', 'gone', 'lantern tin');
  await write('open', 'gone', 'lantern tin');
  await acme.remove('conversations/shared/messages/gone');
  await acme.remove('conversations/open/messages/gone');
  await write('open', 'unaccounted', 'lantern', { author: { persona: 'assistant' } });

  expect(await ask()).toEqual(before);
  await write('open', 'seen', 'lantern harbor');
  expect(await ask()).not.toEqual(before);
});

describe('what is marked', () => {
  test.each([
    ['café', 'cafe', ['café']],
    ['a cafe', 'café', ['cafe']],
    ['\u{1F600} \u{1F468}\u200d\u{1F469} \u{20BB7} café — naïve café', 'cafe', ['café', 'café']],
    ['한글 \u{1D11E} Ångström and lanterns', 'angstrom lantern', ['Ångström', 'lanterns']],
    ['\u1112\u1161\u11ab lantern', 'lantern', ['lantern']],
    ['the cafe\u0301 by the lantern', 'lantern', ['lantern']],
    ['cafe\u0301 lantern \u0958', 'lantern', ['lantern']],
    ['\u{1D15E} lantern', 'lantern', ['lantern']],
    [
      'lantern <b>lanterns</b> http://lantern.example/x & lantern-lit',
      'lantern',
      ['lantern', 'lanterns', 'lantern'],
    ],
    ['the harbor lantern -lit', '"harbor lantern" -pewter', ['harbor', 'lantern']],
    ['lantern landing', 'lan*', ['lantern', 'landing']],
  ])('stands in the text as it was written: %j by %j', async (text, query, words) => {
    const turn = await say('shared', text);
    expect(await marked(turn, query)).toEqual([words]);
  });

  test('is a word as it is spelled, where taking the accents off would move a character', async () => {
    const turn = await say('shared', 'the cafe\u0301 and the cafe');
    expect(await marked(turn, 'cafe')).toEqual([['cafe']]);
  });
});
