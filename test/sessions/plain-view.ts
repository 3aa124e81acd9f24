/** Whether a block is for all of these readers. */
export function isFor({ audience }: PlainBlock, readers: readonly string[]): boolean {
  if (audience === undefined) return true;
  return readers.length > 0 && readers.every((reader) => audience.includes(reader));
}

export type Role = 'user' | 'agent' | 'system';

/** A text, or the provider's own form of a whole entry. */
export interface PlainBlock {
  readonly type: 'text' | 'raw';
  readonly text?: string;
  readonly audience?: readonly string[];
  /** A form that blocks with one id share. */
  readonly replay?: { readonly id: string; readonly provider: string; readonly value: unknown };
  readonly provider?: string;
  readonly value?: unknown;
}

/** What is written: each source of the whole entry, or of one block. */
export interface Written {
  readonly blocks: readonly PlainBlock[];
  readonly sources?: readonly (Source & { readonly block?: number })[];
}
export interface WrittenEntry extends Written {
  readonly role: Role;
  readonly participant: string;
}

interface Source {
  readonly conversation: string;
  readonly seq: string;
}
interface StoredBlock {
  readonly block: PlainBlock;
  readonly sources: readonly Source[];
}
interface Revision {
  readonly number: number;
  readonly change: number;
  readonly blocks: readonly StoredBlock[];
  /** Of the whole entry. */
  readonly sources: readonly Source[];
}
export interface PlainEntry {
  readonly id: string;
  readonly role: Role;
  readonly participant: string;
  /** The change that made it. */
  readonly began: number;
  readonly revisions: Revision[];
}
export interface Viewed {
  readonly entry: PlainEntry;
  readonly blocks: readonly StoredBlock[];
}

export function lastOf({ revisions }: PlainEntry): Revision {
  const last = revisions.at(-1);
  if (last === undefined) throw new Error('an entry has a revision');
  return last;
}

export function cursorOf(entry: PlainEntry): string {
  return `${entry.id}.${lastOf(entry).number}`;
}

export function misplaced({ role, blocks }: Written & { readonly role: Role }): boolean {
  return role === 'system' && blocks.some(({ audience }) => audience !== undefined);
}

export function stored({ blocks, sources = [] }: Written): Pick<Revision, 'blocks' | 'sources'> {
  return {
    blocks: blocks.map((block, n) => ({
      block,
      sources: sources.filter((source) => source.block === n),
    })),
    sources: sources.filter((source) => source.block === undefined),
  };
}

/**
 * The blocks that are for these readers. The provider's form of the whole entry needs all of it to be for them, a
 * form that several blocks share needs all of those.
 */
export function blocksFor(
  blocks: readonly StoredBlock[],
  readers: readonly string[],
): StoredBlock[] {
  const hidden = blocks.filter(({ block }) => !isFor(block, readers));
  const torn = new Set(hidden.map(({ block }) => block.replay?.id));
  return blocks
    .filter((of) => !hidden.includes(of) && (of.block.type !== 'raw' || hidden.length === 0))
    .map((of) => (torn.has(of.block.replay?.id) ? withoutReplay(of) : of));
}

function withoutReplay({
  block: { replay: _replay, ...block },
  sources,
}: StoredBlock): StoredBlock {
  return { block, sources };
}

/**
 * An edit of what these readers see, with what they do not see in its place. The provider's forms of the entry as it
 * was are gone: they may cover what was edited.
 */
export function merged(
  before: readonly StoredBlock[],
  edited: readonly StoredBlock[],
  readers: readonly string[],
): StoredBlock[] {
  const result = [...edited];
  const places = before.filter(({ block }) => block.type !== 'raw');
  for (const [place, kept] of places.entries())
    if (!isFor(kept.block, readers)) result.splice(place, 0, withoutReplay(kept));
  return result;
}

/** Whether a block that was for these readers no longer is. Blocks are compared by position. */
export function narrows(
  before: readonly StoredBlock[],
  after: readonly PlainBlock[],
  readers: readonly string[],
): boolean {
  return before.some(({ block }, place) => {
    const now = after[place];
    return now !== undefined && isFor(block, readers) && !isFor(now, readers);
  });
}

/** A block as a view gives it. */
function withoutAudience({ block: { audience: _audience, ...block } }: StoredBlock): object {
  return block;
}

/** The sources of the whole entry and of the blocks that are shown, each once. */
function sourcesOf({ entry, blocks }: Viewed): { sources?: object[] } {
  const all = [...lastOf(entry).sources, ...blocks.flatMap((block) => block.sources)];
  const known = new Map(all.map((source) => [source.seq, source]));
  const sources = [...known]
    .sort(([a], [b]) => Number(a) - Number(b))
    .map(([seq, { conversation }]) => ({ conversation, id: `m${seq}`, seq, revision: '1' }));
  return sources.length > 0 ? { sources } : {};
}

export function entryOf(viewed: Viewed): object {
  const { entry, blocks } = viewed;
  const { id, role, participant } = entry;
  const revision = lastOf(entry).number.toString();
  return {
    id,
    revision,
    role,
    participant,
    blocks: blocks.map(withoutAudience),
    ...sourcesOf(viewed),
  };
}

export function compiled(view: readonly Viewed[]): object {
  return {
    messages: view.map(({ entry: { role, participant }, blocks }) => ({
      role,
      participant,
      content: blocks.map(withoutAudience),
    })),
    provenance: view.map((viewed) => ({
      entry: viewed.entry.id,
      revision: lastOf(viewed.entry).number.toString(),
      ...sourcesOf(viewed),
    })),
    stats: {
      entries: view.length,
      blocks: view.reduce((sum, { blocks }) => sum + blocks.length, 0),
    },
  };
}
