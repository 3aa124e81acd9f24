import type { Block } from '../entry-shape.ts';
import {
  replayOf,
  totalOf,
  weightsOf,
  type MessageWeights,
  type SentMessage,
} from './message-tokens.ts';
import type { TokenEstimator } from './token-estimator.ts';

/** What stands where a text was cut. */
export const CUT_MARK = '…[cut]';

/**
 * Cuts a message that has more than `maxTokens`, by `weighMessage`, until it has no more than that. One that has no more is given
 * back as it is.
 *
 * What goes first goes whole, the last first: raw forms, where there is anything else, then thinking, which a provider
 * verifies. Then texts are cut, the last one first, those of tool results among them: each to what fits, or to the mark
 * alone. A cut text ends with the mark. A text that is no longer than the mark stays.
 *
 * Guaranteed: a text is cut between grapheme clusters, so no surrogate pair, combining mark or joined emoji is parted; well-formed
 * text stays well formed. Arguments, ids, values, images and the order of blocks stay as they are, so a message with much
 * of these can stay above `maxTokens`. A block that loses anything loses its replay form, as do all that share it; a text can
 * lose that alone, if that is enough. Some block is always left. The same message gives the same bytes.
 */
export function cutMessage(
  estimator: TokenEstimator,
  message: SentMessage,
  maxTokens: number,
): { readonly message: SentMessage; readonly cut: boolean } {
  const { content } = message;
  const weights = weightsOf(estimator, content);
  const overBy = () => totalOf(content, weights) - maxTokens;
  let over = overBy();
  if (over <= 0) return { message, cut: false };

  const left: (Block | undefined)[] = [...content];
  const spoilt = new Set<string>();
  const spoil = (block: Block) => {
    const replay = replayOf(block);
    if (replay === undefined) return;
    spoilt.add(replay.id);
    weights.forms.delete(replay.id);
  };
  const drop = (index: number, block: Block) => {
    spoil(block);
    left[index] = undefined;
    weights.own[index] = 0;
    over = overBy();
  };

  const lastFirst = [...content.entries()].reverse();
  if (content.some(({ type }) => type !== 'raw'))
    for (const [index, block] of lastFirst) if (block.type === 'raw') drop(index, block);
  for (const [index, block] of lastFirst)
    if (block.type === 'thinking' && over > 0) drop(index, block);

  const mark = estimator.count(CUT_MARK);
  for (const [index, block] of lastFirst) {
    left[index] &&= withTexts(block, (text) => {
      if (over <= 0) return text;
      const tokens = estimator.count(text);
      if (tokens <= mark && !outweighs(block, content, weights)) return text;
      spoil(block);
      over = overBy();
      if (tokens <= mark || over <= 0) return text;
      const cut = cutText(estimator, text, tokens - over);
      weights.own[index] = (weights.own[index] ?? 0) - tokens + estimator.count(cut);
      over = overBy();
      return cut;
    });
  }

  const cut = left.flatMap((block) => (block === undefined ? [] : [withoutForm(block, spoilt)]));
  if (cut.length === content.length && cut.every((block, index) => block === content[index]))
    return { message, cut: false };
  const nothing: Block = { type: 'text', text: CUT_MARK };
  return { message: { ...message, content: cut.length > 0 ? cut : [nothing] }, cut: true };
}

/** Whether the replay form of a block has more tokens than the blocks that share it. */
function outweighs(block: Block, content: readonly Block[], weights: MessageWeights): boolean {
  const forms = new Map(weights.forms);
  return (
    forms.delete(replayOf(block)?.id ?? '') &&
    totalOf(content, { ...weights, forms }) < totalOf(content, weights)
  );
}

/** A block with each of its texts changed, the last first. One in which none is changed is the block itself. */
function withTexts(block: Block, change: (text: string) => string): Block {
  switch (block.type) {
    case 'text': {
      const text = change(block.text);
      return text === block.text ? block : { ...block, text };
    }
    case 'tool_result': {
      if (block.content === undefined) return block;
      const content = block.content.toReversed().map((part) => {
        if (part.type !== 'text') return part;
        const text = change(part.text);
        return text === part.text ? part : { ...part, text };
      });
      content.reverse();
      return content.every((part, index) => part === block.content?.[index])
        ? block
        : { ...block, content };
    }
    case 'image':
    case 'tool_call':
    case 'thinking':
    case 'raw':
      return block;
  }
}

function withoutForm(block: Block, spoilt: ReadonlySet<string>): Block {
  if (block.type === 'raw' || block.replay === undefined || !spoilt.has(block.replay.id))
    return block;
  const { replay: _, ...rest } = block;
  return rest;
}

const CLUSTERS = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** A beginning of a text with the mark after it, of at most `room` tokens; the mark alone where there is no room for it. */
function cutText(estimator: TokenEstimator, text: string, room: number): string {
  const count = (some: string) => estimator.count(some);
  let most = room - count(CUT_MARK);
  while (most > 0) {
    const cut = text.slice(0, prefixEnd(count, text, most)) + CUT_MARK;
    const over = count(cut) - room;
    if (over <= 0) return cut;
    most -= over;
  }
  return CUT_MARK;
}

const STRIDE = 4096;

/**
 * The end of a prefix of about `most` tokens, between grapheme clusters. Its tokens are summed over parts, so that of a long
 * text each part is counted once, and the last one a dozen times.
 *
 * Clusters are looked up where they are asked for, never listed: each that is listed comes with a copy of the whole text,
 * and for 100,000 characters that took half a minute.
 */
function prefixEnd(count: (some: string) => number, text: string, most: number): number {
  const clusters = CLUSTERS.segment(text);
  let start = 0;
  let room = most;
  while (start < text.length) {
    const end = boundaryFrom(clusters, start + STRIDE) ?? text.length;
    const part = text.slice(start, end);
    const tokens = count(part);
    if (tokens > room)
      return start + fittingEnd(part, (length) => count(part.slice(0, length)) <= room);
    room -= tokens;
    start = end;
  }
  return start;
}

/** The longest prefix of a text that fits, where those that fit are shorter than those that don't, as the whole text. */
function fittingEnd(text: string, fits: (length: number) => boolean): number {
  const clusters = CLUSTERS.segment(text);
  let fitting = 0;
  let failing = text.length;
  while (failing - fitting > 1) {
    const middle = Math.floor((fitting + failing) / 2);
    const before = clusters.containing(middle)?.index ?? 0;
    const end = before > fitting ? before : (boundaryFrom(clusters, middle) ?? failing);
    if (end >= failing) break;
    if (fits(end)) fitting = end;
    else failing = end;
  }
  return fitting;
}

/** The first boundary between clusters at a place or after it; none after the end. */
function boundaryFrom(clusters: Intl.Segments, place: number): number | undefined {
  const cluster = clusters.containing(place);
  if (cluster === undefined || cluster.index === place) return cluster?.index;
  return cluster.index + cluster.segment.length;
}
