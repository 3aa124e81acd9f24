import type { Block } from '../entry-shape.ts';

/** What stands in the place of a result's content. */
export const PRUNED = '[the content of an earlier result is left out]';

/**
 * The same blocks with the content of tool results left out, the newest `kept` of them apart. A result stays a result of
 * its call. What it has no more is in no replay form either, nor in the raw form of its entry. An entry without such a
 * result is given back as it is.
 */
export function pruneResults(
  entries: readonly (readonly Block[])[],
  kept: number,
): (readonly Block[])[] {
  let left = kept;
  return entries
    .toReversed()
    .map((blocks) => {
      const results = blocks.filter(({ type }) => type === 'tool_result').length;
      if (results <= left) {
        left -= results;
        return blocks;
      }
      let whole = results - left;
      left = 0;
      const spoilt = new Set<string>();
      const pruned = blocks.map((block): Block => {
        if (block.type !== 'tool_result' || whole-- <= 0) return block;
        if (block.replay !== undefined) spoilt.add(block.replay.id);
        return {
          type: 'tool_result',
          call: block.call,
          content: [{ type: 'text', text: PRUNED }],
          ...(block.isError !== undefined && { isError: block.isError }),
        };
      });
      return pruned.flatMap((block): Block[] => {
        if (block.type === 'raw') return [];
        if (block.replay === undefined || !spoilt.has(block.replay.id)) return [block];
        const { replay: _, ...rest } = block;
        return [rest];
      });
    })
    .toReversed();
}
