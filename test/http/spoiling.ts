export const LONE = 'a\ud800b';
export const NUL = 'a\0b';
export const NO_IDS = ['', 'e\u0301', 'a\nb', 'a\u0085', 'x'.repeat(129)];
/** Fields that hold text, which may be more than an id. */
export const TEXTS = new Set([
  'query',
  'payload',
  'reason',
  'name',
  'title',
  'body',
  'owner',
  'text',
]);
export const OPTIONAL = new Set([
  'limit',
  'conversation',
  'author',
  'kind',
  'since',
  'until',
  'recipient',
  'fromSeq',
  'direction',
  'before',
  'after',
  'contentType',
  'shownReaders',
  'queue',
  'sendAt',
  'approval',
  'destinations',
  'leaseSeconds',
  'message',
  'tools',
  'threadKey',
  'seconds',
  'outcome',
  'status',
  'guard',
  'policyRevision',
  'reason',
  'name',
  'admitsGuests',
  'members',
  'project',
  'owner',
  'aiThread',
  'externalReaders',
  'archived',
  'title',
  'defaultFloor',
  'staged',
  'expiresAt',
  'user',
  'editedAt',
  'deleted',
  'replyTo',
  'embeds',
  'maxAgeSeconds',
  'requester',
  'sources',
  'block',
  'audience',
  'agent',
  'reader',
  'budget',
  'headTokens',
  'recentTokens',
  'maxEntryTokens',
  'pruneToolResults',
  'estimator',
  'model',
  'self',
  'position',
  'placement',
  'format',
  'store',
  'source',
]);

export type Path = readonly (string | number)[];
export interface Leaf {
  readonly path: Path;
  readonly value: unknown;
  readonly parent: boolean;
}

/** The leaves of a JSON value, each with its path. */
export function leavesOf(value: unknown, path: Path = []): Leaf[] {
  if (Array.isArray(value)) return value.flatMap((item, index) => leavesOf(item, [...path, index]));
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([name, item]) => leavesOf(item, [...path, name]));
  }
  return [{ path, value, parent: typeof path.at(-1) === 'string' }];
}

/** The value with another one at a path; undefined takes it away. */
export function replaced(value: unknown, [first, ...rest]: Path, other: unknown): unknown {
  if (first === undefined) return other;
  const copy = structuredClone(value) as Record<string | number, unknown>;
  copy[first] = replaced(copy[first], rest, other);
  return copy;
}
