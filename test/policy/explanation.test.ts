import { describe, expect, test } from 'vitest';
import { explainSource, type ReaderFacts, type SourceFacts } from '../../policy/explanation.ts';

const reader = (more: Partial<ReaderFacts> = {}): ReaderFacts => ({
  ...{ kind: 'user', isViewer: false, isGuest: false, isOwner: false, isRequester: false },
  ...{ destinationFloor: 1n, floor: 1n },
  ...more,
});
/** A reader without a route to the source. */
const stranger = ({ floor: _none, ...rest }: ReaderFacts = reader()): ReaderFacts => rest;

/** A thread of three that a source is out of, for the last of them does not read it. */
const facts = (more: Partial<SourceFacts> = {}): SourceFacts => ({
  ...{ turn: { mode: 'thread', extent: 'audience' }, trigger: 'schedule' },
  ...{ aiThread: true, everShared: true, isDestination: false },
  ...{ sourceState: 'live', isOutsideBound: false },
  readers: [reader({ isRequester: true }), reader(), stranger()],
  ...more,
});

const message = (more: Partial<SourceFacts['message']> = {}) => ({
  ...{ seq: 3n, isDeleted: false, mayLeave: true, isDelivered: false, isVisible: false },
  ...more,
});

describe('the change without readers is named', () => {
  const without = (more: Partial<SourceFacts>) =>
    explainSource(facts(more)).changes.find(({ kind }) => kind === 'without')?.readers;

  test('where the rest read the source and their turn would draw on it', () => {
    expect(without({})).toEqual([2]);
  });

  test('not where the requester would have to go, or a class, or everybody', () => {
    const requester = reader({ isRequester: true });
    expect(without({ readers: [stranger(requester), reader(), reader()] })).toBeUndefined();
    const open = stranger(reader({ kind: 'class:organization' }));
    expect(without({ readers: [reader(), reader(), open] })).toBeUndefined();
    expect(without({ readers: [stranger(), stranger()] })).toBeUndefined();
  });

  test('not where another reason stays', () => {
    expect(without({ isOutsideBound: true, turn: BOUND })).toBeUndefined();
    expect(without({ turn: { mode: 'mention', extent: 'destination' } })).toBeUndefined();
    expect(without({ message: message({ mayLeave: false }) })).toBeUndefined();
    expect(without({ message: message({ isDeleted: true }) })).toBeUndefined();
  });

  test('not where one person is left in a thread that was shared, but in that person’s own', () => {
    const owner = reader({ isRequester: true, isOwner: true });
    expect(without({ readers: [owner, stranger()] })).toBeUndefined();
    expect(without({ readers: [owner, stranger()], everShared: false })).toEqual([1]);
  });
});

describe('the change of floors is named', () => {
  const floor = (more: Partial<SourceFacts>) =>
    explainSource(facts(more)).changes.find(({ kind }) => kind === 'floor');

  test('with those who read nothing and those who begin above the message', () => {
    const readers = [reader({ isRequester: true }), reader({ floor: 4n }), stranger()];
    expect(floor({ readers, message: message() })).toEqual({
      ...{ kind: 'floor', readers: [1, 2], atMost: 3n },
    });
    expect(floor({ readers })).toEqual({ kind: 'floor', readers: [2] });
  });

  test('not where the message was made from something else that somebody lacks', () => {
    const readers = [reader({ readsLineage: true }), reader({ readsLineage: false })];
    const delivered = message({ isDelivered: true });
    expect(floor({ readers, message: delivered, sourceFloor: 1n })).toBeUndefined();
  });
});

test('no change is named where no turn stands, whoever lacks the source', () => {
  expect(explainSource(facts({ turn: { code: 'stopped' } }))).toMatchObject({
    ...{ isIn: false, changes: [] },
    reasons: [
      { kind: 'turn_refused', code: 'stopped' },
      { kind: 'not_read', readers: [2] },
    ],
  });
});

test('an explanation that is not that of the scope is not given', () => {
  expect(() => explainSource(facts({ sourceFloor: 1n }))).toThrow();
  expect(() => explainSource(facts({ readers: [reader()] }))).toThrow();
  expect(explainSource(facts({ readers: [reader()], sourceFloor: 1n }))).toEqual({
    ...{ isIn: true, reasons: [], intersection: 1n, changes: [] },
  });
});

const BOUND = {
  mode: 'project',
  extent: 'audience',
  projectBound: 'apollo',
} as SourceFacts['turn'];
