import type { Message } from './arrangement.ts';
import type { Block } from '../entry-shape.ts';
import type { TokenEstimator } from './token-estimator.ts';

/** A message as a model is sent it, in the neutral form. */
export type SentMessage = Omit<Message<unknown>, 'origin'>;

/** What a provider adds to each message: who speaks, where it begins and ends. */
export const MESSAGE_TOKENS = 4;

/** What a provider adds to a tool call, and to a result: its id and its frame. */
export const CALL_TOKENS = 4;

/** What an image is charged, whatever its size: about what providers charge for the largest that they don't scale down. */
export const IMAGE_TOKENS = 1600;

/**
 * How many tokens a message has as it is sent: the larger of what its blocks have and what their replay forms have, plus what
 * its raw forms have. A form that several blocks share is counted once. Data is counted as JSON, each string once.
 *
 * Not counted: what one provider's shape adds beyond that, as the tags around a later system message.
 */
export function weighMessage(estimator: TokenEstimator, { content }: SentMessage): number {
  return totalOf(content, weightsOf(estimator, content));
}

/** The parts that the weight of a message is made of. */
export interface MessageWeights {
  /** Of each block by itself, without its replay form. */
  readonly own: number[];
  /** Of each replay form, by its id. */
  readonly forms: Map<string, number>;
}

export function weightsOf(estimator: TokenEstimator, content: readonly Block[]): MessageWeights {
  const own: number[] = [];
  const forms = new Map<string, number>();
  for (const block of content) {
    own.push(weighBlock(estimator, block));
    const replay = replayOf(block);
    if (replay === undefined || forms.has(replay.id)) continue;
    forms.set(replay.id, countJson(estimator, replay.value));
  }
  return { own, forms };
}

/** The weight of a message from its parts. A form that is missing is one that is not sent. */
export function totalOf(content: readonly Block[], { own, forms }: MessageWeights): number {
  const sharing = new Map<string, number>();
  let total = MESSAGE_TOKENS;
  for (const [index, block] of content.entries()) {
    const tokens = own[index] ?? 0;
    const id = replayOf(block)?.id;
    if (id === undefined || !forms.has(id)) total += tokens;
    else sharing.set(id, (sharing.get(id) ?? 0) + tokens);
  }
  for (const [id, tokens] of sharing) total += Math.max(tokens, forms.get(id) ?? 0);
  return total;
}

/** The form in which a provider takes a block back, if it has one. */
export function replayOf(block: Block) {
  return block.type === 'raw' ? undefined : block.replay;
}

function weighBlock(estimator: TokenEstimator, block: Block): number {
  switch (block.type) {
    case 'text':
    case 'thinking':
      return estimator.count(block.text);
    case 'image':
      return IMAGE_TOKENS;
    case 'tool_call':
      return CALL_TOKENS + estimator.count(block.name) + countJson(estimator, block.arguments);
    case 'tool_result': {
      let total = CALL_TOKENS + countJson(estimator, block.value);
      for (const part of block.content ?? [])
        total += part.type === 'text' ? estimator.count(part.text) : IMAGE_TOKENS;
      return total;
    }
    case 'raw':
      return countJson(estimator, block.value);
  }
}

function countJson(estimator: TokenEstimator, value: unknown): number {
  return value === undefined ? 0 : estimator.count(JSON.stringify(value));
}
