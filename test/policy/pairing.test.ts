import fc from 'fast-check';
import { expect, test } from 'vitest';
import { pairCalls, type Half } from '../../policy/pairing.ts';
import { plainPairing } from './plain-selection.ts';

const call = (id: string): Half => ({ kind: 'call', id });
const result = (id: string): Half => ({ kind: 'result', id });

/** The pairs as texts: the entry and half of the call, then those of the result. */
function pairsOf(entries: readonly (readonly Half[])[]): string[] {
  return pairCalls(entries).pairs.map(
    (pair) => `${pair.call.entry}.${pair.call.half} ${pair.result.entry}.${pair.result.half}`,
  );
}

test('a result pairs with the call of its id in an earlier entry', () => {
  expect(pairsOf([[call('a'), call('b')], [], [result('b')], [result('a')]])).toEqual([
    '0.1 2.0',
    '0.0 3.0',
  ]);
});

test('a result pairs with a call earlier in its own entry, and with none that is later', () => {
  expect(pairsOf([[call('a'), result('a')]])).toEqual(['0.0 0.1']);
  expect(pairCalls([[result('a'), call('a')]])).toMatchObject({
    pairs: [],
    unpaired: [
      { entry: 0, half: 0 },
      { entry: 0, half: 1 },
    ],
  });
});

test('of several calls of one id, a result pairs with the latest that has none yet', () => {
  expect(pairsOf([[call('a')], [call('a')], [result('a')], [result('a')]])).toEqual([
    '1.0 2.0',
    '0.0 3.0',
  ]);
  expect(pairsOf([[call('a')], [result('a')], [call('a')], [result('a')]])).toEqual([
    '0.0 1.0',
    '2.0 3.0',
  ]);
});

test('a second result of one call is unpaired', () => {
  expect(pairCalls([[call('a')], [result('a'), result('a')]]).unpaired).toEqual([
    { entry: 1, half: 1 },
  ]);
});

test('an id is reused if more than one call has it, whether or not they have results', () => {
  const { reused } = pairCalls([
    [call('once'), call('open'), call('open')],
    [result('once'), result('once')],
    [call('done'), result('done'), call('done'), result('done')],
  ]);
  expect(reused).toEqual(new Set(['open', 'done']));
});

test('ids are compared as they are written', () => {
  const { pairs, reused } = pairCalls([
    [call('a'), call('A'), call('__proto__'), call('constructor')],
    [result('a '), result('__proto__')],
  ]);
  expect(pairs).toEqual([{ call: { entry: 0, half: 2 }, result: { entry: 1, half: 1 } }]);
  expect(reused.size).toBe(0);
});

test('a log without calls has no pairs', () => {
  const none = { pairs: [], unpaired: [], reused: new Set() };
  expect(pairCalls([])).toEqual(none);
  expect(pairCalls([[], []])).toEqual(none);
});

test('every log pairs as the rule says it, each half once', () => {
  const half = fc.record({
    kind: fc.constantFrom('call' as const, 'result' as const),
    id: fc.constantFrom('a', 'b', 'c'),
  });
  fc.assert(
    fc.property(fc.array(fc.array(half, { maxLength: 4 }), { maxLength: 8 }), (entries) => {
      const { pairs, unpaired, reused } = pairCalls(entries);
      expect({ pairs, unpaired, reused: [...reused].sort() }).toEqual({
        ...plainPairing(entries),
        reused: [...plainPairing(entries).reused].sort(),
      });
      expect(pairs.length * 2 + unpaired.length).toBe(entries.flat().length);
    }),
    { numRuns: 1_000 },
  );
});
