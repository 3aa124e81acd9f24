import { expect, test } from 'vitest';
import { countAhead } from '../../../sessions/compile/counted-ahead.ts';
import { estimatorNamed, remembered } from '../../../sessions/compile/token-estimator.ts';

const family = '👩‍👩‍👧';
const log = (entries: number, text: string) =>
  Array.from({ length: entries }, (_, n) => ({
    blocks: [{ type: 'text' as const, text: `${n.toString()} ${text}` }],
  }));

test('others are answered while a long log is counted, and its counts are remembered', async () => {
  let counted = 0;
  const tokenizer = estimatorNamed('o200k_base');
  const estimator = remembered(
    { name: 'counting', count: (text) => (counted++, tokenizer.count(text)) },
    1000,
  );
  const entries = log(300, family.repeat(300));
  let answered = 0;
  let done = false;
  const other = () => {
    answered++;
    if (!done) setImmediate(other);
  };
  setImmediate(other);
  await countAhead(estimator, entries);
  done = true;
  expect(answered).toBeGreaterThan(1);
  expect(counted).toBe(300);
  for (const { blocks } of entries) estimator.count(blocks[0]?.text ?? '');
  expect(counted).toBe(300);
});

test('a short log is not counted ahead', async () => {
  await countAhead(
    { name: 'none', count: () => expect.fail('it was counted') },
    log(3, 'a few words'),
  );
});
