import fc from 'fast-check';
import type { Question } from './plain-log.ts';
import type { Role } from './plain-view.ts';

/** Everything by position, so that a log shrinks by dropping steps. */
export const index = fc.nat({ max: 11 });
const rarely = fc.constantFrom(...[false, false, false, false, true]);
const audience = fc.oneof(
  { weight: 4, arbitrary: fc.constant(undefined) },
  {
    weight: 7,
    arbitrary: fc.constantFrom(
      ...[
        ['ana'],
        ['ben'],
        ['ana', 'ben'],
        ['ana', 'ben', 'agent:scout'],
        ['agent:scout'],
        ['eve'],
        ['ana', 'eve'],
        [],
      ],
    ),
  },
);
const source = fc.record({ seq: fc.constantFrom('1', '2', '3'), block: fc.option(index) });
const extras = {
  /** Whether the blocks share a form of their provider, and whether there is one of the whole. */
  replay: rarely,
  raw: fc.constantFrom(...([null, null, null, null, 'first', 'last'] as const)),
  sources: fc.array(source, { maxLength: 2 }),
};
/** A step of a play; what it names is looked up where the play has come to. */
export const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      step: fc.constant('append' as const),
      ...{ log: index, turn: index },
      participant: fc.constantFrom<string>('ben', 'somebody'),
      role: fc.constantFrom<Role>('user', 'user', 'user', 'agent', 'agent', 'agent', 'system'),
      audiences: fc.array(audience, { minLength: 1, maxLength: 3 }),
      ...extras,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      step: fc.constant('edit' as const),
      ...{ log: index, turn: index, place: index, entry: index, stale: rarely },
      /** For each block that is shown: it stays, goes, or is for others. */
      changes: fc.array(fc.oneof(fc.constantFrom('stay', 'go'), fc.record({ audience })), {
        maxLength: 3,
      }),
      added: fc.array(audience, { maxLength: 1 }),
      ...extras,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      step: fc.constant('open' as const),
      ...{ log: index, turn: index },
      name: fc.constantFrom<string>('', 'desk', 'nook', 'ana'),
      agent: fc.option(fc.constantFrom('agent:scout', 'ben', 'resident'), { freq: 2 }),
      reader: fc.option(fc.constantFrom<string>('ana', 'ben', 'agent:scout', 'eve'), { freq: 3 }),
      from: fc.option(index, { freq: 2 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      step: fc.constant('fork' as const),
      ...{ log: index, turn: index, place: index },
      name: fc.constantFrom('side', 'agent:scout'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      step: fc.constant('pin' as const),
      ...{ log: index, turn: index, place: index, entry: index },
      pinned: fc.nat({ max: 3 }).map((n) => n > 0),
    }),
  },
  {
    weight: 7,
    arbitrary: fc.record({
      step: fc.constant('read' as const),
      ...{ log: index, turn: index, place: index, entry: index, other: index },
      what: fc.constantFrom<Question['what']>(
        ...([
          'compile',
          'preview',
          'entries',
          'entries',
          'search',
          'summary input',
          'pins',
          'session',
        ] as const),
      ),
      limit: fc.integer({ min: 1, max: 3 }),
      query: fc.constantFrom('FOR ALL', 'for ana', 'ben', 't1', 'nobody'),
      foreign: rarely,
    }),
  },
);
export type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;
export type StepOf<Name extends Step['step']> = Extract<Step, { step: Name }>;
