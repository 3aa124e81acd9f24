import type { Half } from '../../policy/pairing.ts';
import type { WeighedEntry } from '../../policy/selection.ts';
import { arrange, type Message } from './arrangement.ts';
import type { MaterialEntry } from './compile-material.ts';
import type { CompileOptions } from './compile-shape.ts';
import { cutMessage } from './cut-text.ts';
import type { Block } from '../entry-shape.ts';
import { replayOf, weighMessage } from './message-tokens.ts';
import { pruneResults } from './pruned-results.ts';
import type { TokenEstimator } from './token-estimator.ts';

/** An entry as it is stored and as it would be sent raw. */
export interface Weighed extends WeighedEntry {
  readonly blocks: readonly Block[];
  /** Of these blocks in one message: `tokens` is of the messages that they go in. */
  readonly together: number;
  readonly cut: boolean;
  readonly pruned: boolean;
}

export type WeighOptions = Pick<CompileOptions, 'maxEntryTokens' | 'pruneToolResults'> & {
  readonly pins: ReadonlySet<number>;
  /** Whether `tokens` is of the messages that an entry goes in where all go raw, or of one message. */
  readonly parted: boolean;
};

/**
 * Weighs the entries of a log. Counting tokens is what takes longest in a compile, and most entries of a long log are under
 * summaries: so each is weighed when something of it is first asked for, and not if nothing is.
 */
export function weighLog(
  log: readonly MaterialEntry[],
  { pins, maxEntryTokens, pruneToolResults, parted }: WeighOptions,
  estimator: TokenEstimator,
): Weighed[] {
  const left =
    pruneToolResults === undefined
      ? undefined
      : pruneResults(
          log.map(({ blocks }) => blocks),
          pruneToolResults,
        );
  const entries: Weighed[] = [];
  const tokensOf = parted
    ? tokensWhereRaw(log, entries, estimator)
    : (index: number) => entries[index]?.together ?? 0;
  const weighing: Weighing = { estimator, maxEntryTokens, left, tokensOf };
  for (const [index, entry] of log.entries())
    entries.push(new WeighedWhenAsked(entry, index, pins.has(index), weighing));
  return entries;
}

/** What is the same for all entries of a log. */
interface Weighing {
  readonly estimator: TokenEstimator;
  readonly maxEntryTokens: number | undefined;
  /** What pruning left of each. */
  readonly left: readonly (readonly Block[])[] | undefined;
  readonly tokensOf: (index: number) => number;
}

class WeighedWhenAsked implements Weighed {
  readonly pinned: boolean;
  readonly halves: readonly Half[];
  readonly #entry: MaterialEntry;
  readonly #index: number;
  readonly #weighing: Weighing;
  #stored: number | undefined;
  #together: number | undefined;
  #sent: Pick<Weighed, 'blocks' | 'cut' | 'pruned'> | undefined;

  constructor(entry: MaterialEntry, index: number, pinned: boolean, weighing: Weighing) {
    this.pinned = pinned;
    this.halves = entry.blocks.flatMap((block): Half[] => {
      if (block.type === 'tool_call') return [{ kind: 'call', id: block.id }];
      return block.type === 'tool_result' ? [{ kind: 'result', id: block.call }] : [];
    });
    this.#entry = entry;
    this.#index = index;
    this.#weighing = weighing;
  }

  get stored(): number {
    return (this.#stored ??= weighMessage(
      this.#weighing.estimator,
      this.#messageOf(this.#entry.blocks),
    ));
  }

  get together(): number {
    return (this.#together ??= this.#weigh(this.blocks));
  }

  get tokens(): number {
    return this.#weighing.tokensOf(this.#index);
  }

  get blocks(): readonly Block[] {
    return this.#asSent().blocks;
  }

  get cut(): boolean {
    return this.#asSent().cut;
  }

  get pruned(): boolean {
    return this.#asSent().pruned;
  }

  #messageOf(content: readonly Block[]) {
    const { role, participant } = this.#entry;
    return { role, participant, content };
  }

  #weigh(content: readonly Block[]): number {
    if (content === this.#entry.blocks) return this.stored;
    return weighMessage(this.#weighing.estimator, this.#messageOf(content));
  }

  #asSent() {
    return (this.#sent ??= this.#formSent());
  }

  #formSent() {
    const { left, maxEntryTokens, estimator } = this.#weighing;
    const { blocks } = this.#entry;
    const kept = left?.[this.#index] ?? blocks;
    // A mark can be longer than what it stands for.
    const pruned = kept !== blocks && this.#weigh(kept) < this.stored;
    const content: readonly Block[] = pruned ? kept : blocks;
    if (maxEntryTokens === undefined || this.#weigh(content) <= maxEntryTokens)
      return { blocks: content, cut: false, pruned };
    const { message, cut } = cutMessage(estimator, this.#messageOf(content), maxEntryTokens);
    return { blocks: cut ? message.content : content, cut, pruned };
  }
}

/** What a message weighs that is all of an entry, or a part of it. */
export function weighPart(
  message: Message<unknown>,
  entry: Weighed | undefined,
  estimator: TokenEstimator,
): number {
  const { content } = message;
  const isWhole =
    entry?.blocks.length === content.length &&
    content.every((block, place) => block === entry.blocks[place]);
  return isWhole ? entry.together : weighMessage(estimator, message);
}

/**
 * What an entry is sent as where all go raw: one that is parted is several messages, and a call without a result is another
 * text. A summary that is replaced has no half of a pair, so its entries weigh that much then.
 *
 * How an entry is parted depends on those alone that it is bound to, so they are arranged without the rest.
 */
function tokensWhereRaw(
  log: readonly MaterialEntry[],
  entries: readonly Weighed[],
  estimator: TokenEstimator,
): (index: number) => number {
  const tokens = new Map<number, number>();
  let groupOf: ReturnType<typeof boundTogether> | undefined;
  return (index) => {
    if (!tokens.has(index)) {
      groupOf ??= boundTogether(log);
      const group = groupOf(index);
      const pieces = group.flatMap((origin) => {
        const [entry, weighed] = [log[origin], entries[origin]];
        return entry && weighed ? [{ ...entry, blocks: weighed.blocks, origin }] : [];
      });
      for (const member of group) tokens.set(member, 0);
      for (const message of arrange(pieces)) {
        const { origin } = message;
        const more = weighPart(message, entries[origin], estimator);
        tokens.set(origin, (tokens.get(origin) ?? 0) + more);
      }
    }
    return tokens.get(index) ?? 0;
  };
}

/**
 * The entries, in log order, that one is bound to, itself among them: by an id of a call or of a replay form that they share, or
 * by way of others.
 */
function boundTogether(log: readonly MaterialEntry[]): (index: number) => readonly number[] {
  const groups = log.map((_, index) => [index]);
  const calls = new Map<string, number>();
  const forms = new Map<string, number>();
  const bind = (index: number, firsts: Map<string, number>, id: string | undefined) => {
    if (id === undefined) return;
    const first = firsts.get(id);
    if (first === undefined) firsts.set(id, index);
    else join(groups, first, index);
  };
  for (const [index, { blocks }] of log.entries()) {
    for (const block of blocks) {
      if (block.type === 'tool_call') bind(index, calls, block.id);
      if (block.type === 'tool_result') bind(index, calls, block.call);
      bind(index, forms, replayOf(block)?.id);
    }
  }
  const ordered = new Set<number[]>();
  return (index) => {
    const group = groups[index] ?? [];
    if (!ordered.has(group)) ordered.add(group.sort((a, b) => a - b));
    return group;
  };
}

/** Makes one group of two, the smaller one's members added to the larger: each moves as often as its group doubles. */
function join(groups: number[][], one: number, other: number): void {
  const [a = [], b = []] = [groups[one], groups[other]];
  if (a === b) return;
  const [larger, smaller] = a.length < b.length ? [b, a] : [a, b];
  for (const member of smaller) {
    larger.push(member);
    groups[member] = larger;
  }
}
