import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import type { Corpus } from './corpus.ts';
import { floorOf, gateCorpus } from './gated-places.ts';
import { measureRecall } from './recall.ts';

const WORDS = ['orchard', 'harbour', 'violin', 'glacier', 'bakery', 'lantern', 'compass', 'meadow'];

/** Eight talks about one thing each, of ten turns, with a question about the seventh. */
const INVENTED: Corpus = {
  name: 'invented',
  talks: WORDS.map((word, talk) => ({
    id: `talk-${talk}`,
    group: `talk-${talk}`,
    speakers: [`ann-${talk}`, `ben-${talk}`],
    turns: Array.from({ length: 10 }, (_, turn) => ({
      id: `talk-${talk}/${turn}`,
      speaker: turn % 2 === 0 ? `ann-${talk}` : `ben-${talk}`,
      text: turn === 6 ? `the ${word} opens on tuesday` : `turn ${turn} mentions tuesday`,
    })),
  })),
  questions: WORDS.map((word, talk) => ({
    id: `q${talk}`,
    text: `when does the ${word} open?`,
    gold: new Set([`talk-${talk}/6`]),
  })),
};

describe('a gated corpus', () => {
  const { places, askings } = gateCorpus(INVENTED, INVENTED.questions);

  test('has two audiences that ask about one half each', () => {
    expect(askings.map(({ questions }) => questions.map(({ id }) => id))).toEqual([
      ['q0', 'q1', 'q2', 'q3'],
      ['q4', 'q5', 'q6', 'q7'],
    ]);
  });

  test('has every gold turn in the scope of who asks for it, and its copies outside or below', () => {
    for (const { readers, questions } of askings) {
      const visible = places.flatMap((place) => {
        const floor = floorOf(place, readers);
        return floor === undefined ? [] : place.messages.slice(floor - 1);
      });
      const ids = new Set(visible.map(({ id }) => id));
      expect(questions.flatMap(({ gold }) => [...gold]).filter((id) => !ids.has(id))).toEqual([]);
      expect([...ids].filter((id) => id.startsWith('bait/'))).toEqual([]);
    }
    const copies = places.flatMap(({ messages }) =>
      messages.filter(({ id }) => id.startsWith('bait/')),
    );
    expect(copies).toHaveLength(16);
  });

  test('has conversations that some readers read and not all', () => {
    for (const { readers } of askings) {
      const some = places.filter(
        (place) =>
          readers.some((reader) => floorOf(place, [reader]) !== undefined) &&
          floorOf(place, readers) === undefined,
      );
      expect(some.length).toBeGreaterThan(1);
    }
  });
});

describe('search over it', () => {
  let host: TestGateway;
  beforeAll(async () => {
    host = await openTestGateway();
  });
  afterAll(() => host.close());

  test('finds every answer first, the same as without a scope, and nothing that only a reader of everything gets', async () => {
    const figures = await measureRecall(host, INVENTED, INVENTED.questions);
    expect(figures).toMatchObject({
      questions: 8,
      gold: 8,
      differing: 0,
      foreign: 0,
      gated: { recall10: 1, hit10: 1, mrr10: 1, empty: 0 },
    });
    expect(figures.ungated).toEqual(figures.gated);
    expect(figures.foreignToWitness).toBeGreaterThan(8);
  });
});
