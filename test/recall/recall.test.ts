import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestGateway, type TestGateway } from '../support/gateway.ts';
import { isThere, sampled, shortened } from './corpus.ts';
import { LOCOMO } from './locomo.ts';
import { QMSUM } from './qmsum.ts';
import { measureRecall, type RecallFigures } from './recall.ts';

/** A part of each corpus is enough to see a difference; RECALL=all takes all of it. */
const ALL = process.env.RECALL === 'all';
const [GROUPS, QUESTIONS] = ALL ? [Infinity, Infinity] : [14, 80];
const LIMIT_MS = ALL ? 3_600_000 : 120_000;

for (const source of [LOCOMO, QMSUM]) {
  if (!isThere(source)) console.log(`Left out: ${source.name} is not at ../shared/data.`);

  describe.runIf(isThere(source))(
    `search over ${source.name}, of which an audience reads a part`,
    () => {
      let host: TestGateway;
      let figures: RecallFigures;

      beforeAll(async () => {
        host = await openTestGateway({ LEASE_SECONDS: '600' });
        const corpus = shortened(source.read(), GROUPS);
        figures = await measureRecall(host, corpus, sampled(corpus.questions, QUESTIONS));
        console.log(summary(figures));
      }, LIMIT_MS);
      afterAll(() => host.close());

      test('every question gets the ten results that it gets where nothing else is, with text and score', () => {
        expect(figures.questions).toBeGreaterThan(50);
        expect(figures.differing).toBe(0);
        expect(figures.gated).toEqual(figures.ungated);
      });

      test('no result is from outside the scope or from below a floor, where copies of the answers are', () => {
        expect(figures.visible.messages).toBeLessThan(figures.all.messages);
        expect(figures.foreign).toBe(0);
        // Somebody who reads everything gets such results for most questions.
        expect(figures.foreignToWitness).toBeGreaterThan(figures.questions / 2);
      });

      test('natural questions find something', () => {
        expect(figures.gated.empty).toBeLessThan(0.05);
      });
    },
  );
}

/** What the bench reports of all of a corpus. */
function summary({ corpus, questions, visible, all, gated, ungated }: RecallFigures): string {
  return (
    `${corpus}: ${questions} questions over ${visible.messages} of ${all.messages} messages, ` +
    `recall@10 ${gated.recall10.toFixed(3)}, without a scope ${ungated.recall10.toFixed(3)}`
  );
}
