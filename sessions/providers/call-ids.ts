import { hexDigestParts } from '../../policy/canonical.ts';
import type { SentMessage } from '../compile/message-tokens.ts';

/**
 * The ids under which calls and their results are sent to a provider: for each message one for each block, none for a block
 * that is neither.
 *
 * Guaranteed: a result has the id of its call; no two calls have one id, though the log may use an id again; an id that
 * `usable` admits is kept where it is first used, any other is made from its text and how often it was used before, with
 * letters, digits and `_`, 37 characters. The same messages give the same ids, and what follows them changes none.
 *
 * Not checked: that each result comes after the message with its call, and before another message with calls.
 */
export function sentCallIds(
  messages: readonly Pick<SentMessage, 'content'>[],
  usable: RegExp,
): (string | undefined)[][] {
  const uses = new Map<string, number>();
  let unanswered = new Map<string, string[]>();
  return messages.map(({ content }) => {
    if (content.some(({ type }) => type === 'tool_call')) unanswered = new Map();
    return content.map((block) => {
      if (block.type === 'tool_call') {
        const use = uses.get(block.id) ?? 0;
        uses.set(block.id, use + 1);
        const sent = sentId(block.id, use, usable);
        const waiting = unanswered.get(block.id);
        if (waiting === undefined) unanswered.set(block.id, [sent]);
        else waiting.push(sent);
        return sent;
      }
      if (block.type !== 'tool_result') return undefined;
      const last = Math.max(0, (uses.get(block.call) ?? 1) - 1);
      return unanswered.get(block.call)?.shift() ?? sentId(block.call, last, usable);
    });
  });
}

/** What an id is made to look like. One that looks so by itself is made anew, so that none can be taken for another. */
const MADE = /^call_[0-9a-f]{32}$/;

function sentId(id: string, use: number, usable: RegExp): string {
  if (use === 0 && usable.test(id) && !MADE.test(id)) return id;
  return `call_${hexDigestParts(['earshot/call-id/1', id, BigInt(use)]).slice(0, 32)}`;
}
