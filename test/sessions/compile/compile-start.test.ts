import { expect, test } from 'vitest';
import type { CompileMaterial } from '../../../sessions/compile/compile-material.ts';
import type { StartUnit } from '../../../sessions/injections.ts';
import { estimatorNamed } from '../../../sessions/compile/token-estimator.ts';
import { compiledOf } from './plain-compile.ts';

// Which units of a start are before the agent already, and which are placed, where summaries and windows decide.

const characters = await estimatorNamed('characters');

const unit = (source: string): StartUnit => ({
  ...{ source, parts: [{ text: textOf(source) }], position: 'after_user', placement: 'stored' },
});
/** A text whose message has 50 tokens. */
const textOf = (word: string) => word.padEnd(4 * 46, '.');

/** A log in which each name is an entry of 50 tokens, or a copy of the unit of that name, and summaries of some. */
function sentOf(names: readonly string[], summaries: readonly number[][], recentTokens: number) {
  const units = ['wiki', 'mail'].map(unit);
  const material: CompileMaterial = {
    ...{ mark: '1', pins: [], verdicts: ['unchanged', 'unchanged'], last: null },
    entries: names.map((name, at) => ({
      ...{ at, entry: name, revision: '1', role: 'user', participant: 'ana' },
      blocks: [{ type: 'text', text: textOf(name) }],
      ...(units.some(({ source }) => source === name) && { injection: name }),
    })),
    summaries: summaries.map((covers, index) => ({
      ...{ id: index.toString(), level: 1, text: 'short', covers },
    })),
  };
  const { provenance } = compiledOf({ material, units, options: { recentTokens } }, characters);
  return provenance.map(({ kind, entry, source }) =>
    kind === 'entry' ? (entry ?? '') : `${kind} ${source ?? ''}`.trim(),
  );
}

test('a copy in the log that goes raw is all that is sent of a unit', () => {
  expect(sentOf(['wiki', 'said', 'mail'], [], 0)).toEqual([
    ...['injection wiki', 'said', 'injection mail'],
  ]);
});

test('a copy under a summary is not before the agent: the unit is placed', () => {
  expect(sentOf(['wiki', 'said', 'mail'], [[0, 1]], 0)).toEqual([
    ...['summary', 'injection mail', 'placed wiki'],
  ]);
});

test('an earlier copy that goes raw does not count', () => {
  expect(sentOf(['wiki', 'mail', 'wiki', 'said'], [[2, 3]], 0)).toEqual([
    ...['injection wiki', 'injection mail', 'summary', 'placed wiki'],
  ]);
});

test('what is placed takes room in the newest window, and a copy that goes under a summary for that is placed too', () => {
  const names = ['wiki', 'said', 'mail'];
  // Without what is placed the window would hold the copy of the mail.
  expect(sentOf(names, [[2]], 50)).toEqual(['injection wiki', 'said', 'injection mail']);
  expect(sentOf(names, [[0, 1], [2]], 50)).toEqual([
    ...['summary', 'summary', 'placed wiki', 'placed mail'],
  ]);
});
