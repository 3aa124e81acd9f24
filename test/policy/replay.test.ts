import { describe, expect, test } from 'vitest';
import {
  judgeReplay,
  type DecisionThen,
  type Replay,
  type ReplayFacts,
  type SourceThenAndNow,
  type Standing,
} from '../../policy/replay.ts';

const STANDING = {
  ...{ fingerprint: 'f1', mode: 'thread', policyRevision: 1n },
} as const satisfies Standing;

/** A call of a tool that was allowed, of which nothing has changed. */
const facts = ({
  of,
  ...more
}: Partial<Omit<ReplayFacts, 'of'>> & { of?: Partial<DecisionThen> } = {}): ReplayFacts => ({
  ...{ then: STANDING, bound: STANDING, own: STANDING, there: STANDING, extent: 'audience' },
  ...{ sources: [], readings: new Map() },
  of: { kind: 'tool', tool: 'read', verdict: 'allowed', isDelivery: false, ...of },
  ...more,
});

const source = (more: Partial<SourceThenAndNow> = {}): SourceThenAndNow => ({
  ...{ type: 'message', conversation: 'notes', seq: 3n, state: 'live', isStaged: false },
  ...{ isDestination: false, isOutsideBound: false, mayLeave: true, isShown: true },
  ...more,
});

const judged = (given: ReplayFacts): Extract<Replay, { isJudged: true }> => {
  const replay = judgeReplay(given);
  if (!replay.isJudged) throw new Error(replay.why);
  return replay;
};
const now = (given: ReplayFacts) => judged(given).now.code;

test('nothing has changed where all of it is as it was', () => {
  expect(judged(facts({ sources: [source()] }))).toEqual({
    ...{ isJudged: true, now: { verdict: 'allowed' }, isComparable: true, changes: [] },
    ...{ sources: [{ now: 'shown', reasons: [] }], notRepeated: ['course'] },
  });
});

describe('the verdict of now is that of the first check that fails:', () => {
  const own = (more: Standing) => facts({ own: { ...STANDING, ...more } });

  test('the standing of the turn, then what its grant was bound to, in the order of the live check', () => {
    const all = { mode: 'project', policyRevision: 2n, fingerprint: 'f2' } as const;
    expect(now(own({ ...all, code: 'stopped' }))).toBe('stopped');
    expect(now(own(all))).toBe('mode_changed');
    expect(now(own({ ...all, mode: 'thread', projectBound: 'apollo' }))).toBe('mode_changed');
    expect(now(own({ ...all, mode: 'thread' }))).toBe('policy_changed');
    expect(now(own({ fingerprint: 'f2' }))).toBe('audience_changed');
    expect(now(facts({ toolAllowed: false }))).toBe('tool_not_allowed');
    expect(now(own({}))).toBeUndefined();
  });

  test('where nothing was bound yet, the standing alone', () => {
    const { bound: _bound, ...unbound } = facts({ of: { kind: 'open' } });
    expect(now({ ...unbound, own: { ...STANDING, fingerprint: 'f2' } })).toBeUndefined();
    expect(now({ ...unbound, own: { ...STANDING, code: 'empty_audience' } })).toBe(
      'empty_audience',
    );
  });

  test('of a delivery, what it was made from; of its release, what it was cleared for as well', () => {
    const delivery = (kind: string, there: Standing) =>
      facts({
        ...{ of: { kind, isDelivery: true }, there: { ...STANDING, ...there } },
        delivery: STANDING,
      });
    for (const kind of ['propose', 'release', 'approve']) {
      expect(now(delivery(kind, { code: 'source_revoked' }))).toBe('source_revoked');
      expect(now(delivery(kind, {}))).toBeUndefined();
    }
    const moved: Standing = { fingerprint: 'f3' };
    expect(now(delivery('propose', moved))).toBeUndefined();
    for (const kind of ['release', 'approve']) {
      expect(now(delivery(kind, moved))).toBe('audience_changed');
    }
    // A call of a tool is not asked about lineage.
    expect(now(facts({ there: { ...STANDING, code: 'source_revoked' } }))).toBeUndefined();
  });
});

describe('what is not as it was is told:', () => {
  test('a verdict, if that of then was about facts', () => {
    const refused = (code: DecisionThen['code']) =>
      judged(facts({ of: { verdict: 'refused', ...(code !== undefined && { code }) } }));
    expect(refused('organization_paused')).toMatchObject({
      isComparable: true,
      changes: [
        {
          kind: 'verdict',
          then: { verdict: 'refused', code: 'organization_paused' },
          now: { verdict: 'allowed' },
        },
      ],
    });
    for (const code of ['grant_expired', 'turn_not_running', 'fenced', 'conflict'] as const) {
      expect(refused(code)).toMatchObject({ isComparable: false, changes: [] });
    }
  });

  test('readers by kind, with ids only where all of them have one', () => {
    const audience = (...readers: NonNullable<ReplayFacts['readers']>) =>
      judged(facts({ own: { ...STANDING, fingerprint: 'f2' }, readers })).changes[1];
    expect(
      audience(
        { kind: 'user', now: 1n },
        { kind: 'user', id: 'ben', now: 1n },
        { kind: 'class:project', id: 'apollo', then: 1n },
        { kind: 'user', id: 'ana', then: 1n, now: 4n },
        { kind: 'user', id: 'cleo', then: 1n, now: 1n },
      ),
    ).toEqual({
      kind: 'audience',
      came: [{ kind: 'user', count: 2 }],
      gone: [{ kind: 'class:project', count: 1, ids: ['apollo'] }],
      floorsMoved: [{ kind: 'user', count: 1, ids: ['ana'] }],
    });
    const unknown = judged(facts({ own: { ...STANDING, fingerprint: 'f2' } }));
    expect(unknown.changes[1]).toEqual({ kind: 'audience' });
  });

  test('mode, bound and policy, and no mode where no turn stands', () => {
    const other = { mode: 'project', projectBound: 'apollo', policyRevision: 2n } as const;
    const kinds = (own: Standing) =>
      judged(facts({ own: { ...STANDING, ...own } })).changes.map(({ kind }) => kind);
    expect(kinds(other)).toEqual(['verdict', 'mode', 'project_bound', 'policy_revision']);
    const { mode: _mode, ...fallen } = STANDING;
    expect(
      judged(facts({ own: { ...fallen, code: 'stopped' } })).changes.map(({ kind }) => kind),
    ).toEqual(['verdict']);
  });

  test('how many sources are out or edited, of what was shown', () => {
    const sources = [
      source(),
      source({ state: 'edited' }),
      source({ state: 'deleted', isShown: false }),
    ];
    expect(judged(facts({ sources })).changes).toEqual([{ kind: 'sources', edited: 1, out: 1 }]);
    const of = { verdict: 'refused', code: 'source_revoked' } as const;
    const there = { ...STANDING, code: 'source_revoked' } as const;
    expect(
      judged(facts({ sources, there, of: { ...of, kind: 'propose', isDelivery: true } })).changes,
    ).toEqual([]);
  });
});

describe('a source that is out is out for', () => {
  const reasons = (more: Partial<SourceThenAndNow>, given: Partial<ReplayFacts> = {}) => {
    const { of: _of, ...rest } = given;
    const [verdict] = judged(
      facts({ ...rest, sources: [source({ isShown: false, ...more })] }),
    ).sources;
    return verdict?.reasons;
  };
  const readings = new Map([
    [
      'notes',
      [
        { kind: 'user' as const, floor: 1n },
        { kind: 'user' as const, floor: 5n },
        { kind: 'user' as const },
      ],
    ],
  ]);
  const one = [{ kind: 'user', count: 1 }];

  test('its readers: who does not read it, and whose floor is above it', () => {
    expect(reasons({}, { readings })).toEqual([
      { kind: 'not_read', readers: one },
      { kind: 'below_floor', readers: one },
    ]);
    expect(reasons({ seq: 5n }, { readings })).toEqual([{ kind: 'not_read', readers: one }]);
  });

  test('its deletion, before all else', () => {
    expect(reasons({ state: 'deleted' }, { readings })).toEqual([{ kind: 'deleted' }]);
  });

  test('the turn: that none stands, its mode, its bound', () => {
    const { mode: _mode, ...fallen } = STANDING;
    const own = { ...fallen, code: 'stopped' } as const;
    expect(reasons({}, { own, there: own })).toEqual([{ kind: 'turn_refused', code: 'stopped' }]);
    const mention = { ...STANDING, mode: 'mention' } as const;
    expect(
      reasons({ isStaged: true }, { own: mention, there: mention, extent: 'destination' }),
    ).toEqual([{ kind: 'staged' }, { kind: 'mode', mode: 'mention' }]);
    const bound = { ...STANDING, mode: 'project', projectBound: 'apollo' } as const;
    expect(reasons({ isOutsideBound: true }, { own: bound, there: bound })).toEqual([
      { kind: 'project_bound', project: 'apollo' },
    ]);
  });

  test('itself: an answer that nobody accounts for, or something that it was made from', () => {
    expect(reasons({ mayLeave: false })).toEqual([{ kind: 'unaccounted_answer' }]);
    expect(reasons({})).toEqual([{ kind: 'lineage' }]);
    expect(reasons({ type: 'artifact' }, { readings })).toEqual([{ kind: 'lineage' }]);
  });
});

test.each([
  ['lease', 'course'],
  ['discard', 'course'],
  ['explain', 'request_not_kept'],
  ['replay', 'request_not_kept'],
  ['stop set', 'act'],
  ['erase', 'act'],
  ['anything else', 'act'],
])('a decision of the kind `%s` is not judged again: %s', (kind, why) => {
  expect(judgeReplay(facts({ of: { kind } }))).toEqual({ isJudged: false, why, sources: [] });
});

test('what is of no turn is not judged again: a request that opened none, and what a caller registered', () => {
  const { own: _own, there: _there, ...without } = facts({ sources: [source({ isShown: false })] });
  const of = (kind: string) => judgeReplay({ ...without, of: { ...without.of, kind } });
  expect(of('open')).toMatchObject({ isJudged: false, why: 'request_not_kept' });
  expect(of('artifact')).toEqual({
    ...{ isJudged: false, why: 'assertion', sources: [{ now: 'kept', reasons: [] }] },
  });
});

test('what cannot be run again is said: a search by words, the course of a turn, whom a platform showed', () => {
  const notRepeated = (of: Partial<DecisionThen>) => judged(facts({ of })).notRepeated;
  for (const tool of ['search', 'retrieve'])
    expect(notRepeated({ tool })).toEqual(['query', 'course']);
  expect(notRepeated({ kind: 'session', tool: 'search' })).toEqual(['query', 'course']);
  expect(notRepeated({ kind: 'release', isDelivery: true })).toEqual(['course', 'shown_readers']);
  expect(notRepeated({ kind: 'open' })).toEqual([]);
});
