import { expect, test } from 'vitest';
import { countAhead } from '../../../sessions/compile/counted-ahead.ts';
import { estimatorNamed, remembered } from '../../../sessions/compile/token-estimator.ts';

const family = '👩‍👩‍👧';
const log = (entries: number, text: string) => ({
  entries: Array.from({ length: entries }, (_, at) => ({
    at,
    blocks: [{ type: 'text' as const, text: `${at.toString()} ${text}` }],
  })),
  summaries: [] as { text: string; covers: number[] }[],
});

const tokenizer = await estimatorNamed('o200k_base');

/** An estimator that remembers counts, and how many it has made. */
function counting() {
  const made = { counts: 0 };
  const count = (text: string) => {
    made.counts++;
    return tokenizer.count(text);
  };
  return { made, estimator: remembered({ name: 'counting', count }, 1000) };
}

test('others are answered while a long log is counted, and its counts are remembered', async () => {
  const { made, estimator } = counting();
  const long = log(300, family.repeat(300));
  let answered = 0;
  let done = false;
  const other = () => {
    answered++;
    if (!done) setImmediate(other);
  };
  setImmediate(other);
  await countAhead(estimator, long);
  done = true;
  expect(answered).toBeGreaterThan(1);
  expect(made.counts).toBe(300);
  for (const { blocks } of long.entries) estimator.count(blocks[0]?.text ?? '');
  expect(made.counts).toBe(300);
});

test('what is under a summary is not counted ahead, and the summary is', async () => {
  const { made, estimator } = counting();
  const { entries } = log(400, family.repeat(300));
  const covers = entries.map(({ at }) => at).slice(0, 200);
  await countAhead(estimator, { entries, summaries: [{ text: 'in short', covers }] });
  expect(made.counts).toBe(201);
});

test('a short log is not counted ahead', async () => {
  await countAhead(
    { name: 'none', count: () => expect.fail('it was counted') },
    log(3, 'a few words'),
  );
});
