import { describe, expect, test } from 'vitest';
import { isStale, sensitivityOf } from '../../policy/artifact.ts';
import { artifactInScope, type Scope } from '../../policy/scope.ts';
import type { WorldSource } from '../../policy/world.ts';
import { id, smallWorld, type SmallWorld } from './small-world.ts';

const conversations = {
  x: { visibility: 'members' },
  y: { visibility: 'project', project: id('p') },
  z: { visibility: 'organization' },
} as const;
const artifact = { id: 'a', home: id('x') };
const message = (conversation: string, seq: bigint, more: object = {}): WorldSource => ({
  ...{ conversation: id(conversation), fromSeq: seq, toSeq: seq },
  ...more,
});
const stretch = (conversation: string, fromSeq: bigint): WorldSource => ({
  conversation: id(conversation),
  fromSeq,
});

function world(sources: readonly WorldSource[], more: Partial<SmallWorld> = {}) {
  return smallWorld({
    conversations,
    messages: [{ at: ['x', 1] }, { at: ['y', 3] }, { at: ['y', 4], deleted: true }],
    ...more,
    artifacts: [artifact, ...(more.artifacts ?? [])],
    lineages: { a: sources, ...more.lineages },
  });
}

describe('an artifact is in scope', () => {
  const scope = (floors: Record<string, bigint>): Scope =>
    new Map(Object.entries(floors).map(([name, floor]) => [id(name), floor]));
  const reads = (floors: Record<string, bigint>, sources: readonly WorldSource[], more = {}) => {
    const made = world(sources, more);
    const [first] = made.artifacts;
    return first !== undefined && artifactInScope(made, scope(floors), id('x'), first);
  };

  test('where its home is, and every source of it', () => {
    const both = [message('x', 1n), message('y', 3n)];
    expect(reads({ x: 1n, y: 3n }, both)).toBe(true);
    expect(reads({ x: 1n }, both)).toBe(false);
    expect(reads({ y: 3n }, [message('y', 3n)])).toBe(false);
    expect(reads({ x: 1n, y: 4n }, both)).toBe(false);
    expect(reads({ x: 9n, y: 3n }, [message('y', 3n)])).toBe(true);
  });

  test('unless it has no source, one of them is gone, or it is itself', () => {
    expect(reads({ x: 1n, y: 1n }, [])).toBe(false);
    expect(reads({ x: 1n, y: 1n }, [message('y', 4n)])).toBe(false);
    expect(reads({ x: 1n, y: 1n }, [message('y', 9n)])).toBe(false);
    expect(reads({ x: 1n }, [message('x', 1n)])).toBe(true);
    const gone = { ...artifact, body: '', deleted: true };
    const made = world([message('x', 1n)]);
    expect(artifactInScope(made, scope({ x: 1n }), id('x'), gone)).toBe(false);
  });

  test('if the artifacts that it was made from are there, and their homes in scope', () => {
    const made = [{ artifact: 'b' }, message('x', 1n)];
    const there = { artifacts: [{ id: 'b', home: id('y') }] };
    expect(reads({ x: 1n, y: 9n }, made, there)).toBe(true);
    expect(reads({ x: 1n }, made, there)).toBe(false);
    expect(reads({ x: 1n, y: 9n }, made)).toBe(false);
    const gone = { artifacts: [{ id: 'b', home: id('y'), deleted: true }] };
    expect(reads({ x: 1n, y: 9n }, made, gone)).toBe(false);
  });
});

test.each([
  [[stretch('z', 1n)], 'organization'],
  [[stretch('z', 1n), message('y', 3n)], 'project'],
  [[stretch('z', 1n), message('y', 3n), message('x', 1n)], 'members'],
  [[{ artifact: 'a' }], 'members'],
] as const)(
  'an artifact is as sensitive as the most sensitive of its sources: %#',
  (sources, is) => {
    expect(sensitivityOf(world(sources), 'a')).toBe(is);
  },
);

describe('an artifact is stale', () => {
  test('where a source was edited since it was read, or deleted', () => {
    expect(isStale(world([message('x', 1n), stretch('y', 1n)]), 'a')).toBe(false);
    expect(isStale(world([message('x', 1n, { editedSince: true })]), 'a')).toBe(true);
    expect(isStale(world([message('x', 1n, { editedSince: false })]), 'a')).toBe(false);
    expect(isStale(world([message('y', 4n)]), 'a')).toBe(true);
    expect(isStale(world([message('y', 9n)]), 'a')).toBe(true);
    const closed = { ...conversations, y: { ...conversations.y, deleted: true } };
    expect(isStale(world([stretch('y', 1n)], { conversations: closed }), 'a')).toBe(true);
  });

  test('where an artifact that it was made from is stale or gone, at any remove', () => {
    const chain = (deepest: WorldSource, deleted = false) =>
      isStale(
        world([{ artifact: 'b' }], {
          artifacts: [
            { id: 'b', home: id('x') },
            { id: 'c', home: id('x'), deleted },
          ],
          lineages: { b: [{ artifact: 'c' }], c: [deepest] },
        }),
        'a',
      );
    expect(chain(message('x', 1n))).toBe(false);
    expect(chain(message('x', 1n, { editedSince: true }))).toBe(true);
    expect(chain(message('x', 1n), true)).toBe(true);
    expect(isStale(world([{ artifact: 'nowhere' }]), 'a')).toBe(true);
  });
});
