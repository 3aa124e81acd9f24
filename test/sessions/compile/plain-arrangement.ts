import type { Half } from '../../../policy/pairing.ts';
import {
  markOfCall,
  markOfResult,
  type Message,
  type Piece,
} from '../../../sessions/compile/arrangement.ts';
import type { Block } from '../../../sessions/entry-shape.ts';
import { plainPairing } from '../../policy/plain-selection.ts';

/** A block, and what decides where it goes. */
interface Placed {
  readonly piece: number;
  readonly index: number;
  readonly block: Block;
  /** By which the blocks are sorted: of a result, that of its call with more after it. */
  readonly key: readonly number[];
  /** Blocks of one piece that come one after another are one message if they share this. */
  readonly message: string;
}

export function halfOf(block: Block): Half | undefined {
  if (block.type === 'tool_call') return { kind: 'call', id: block.id };
  if (block.type === 'tool_result') return { kind: 'result', id: block.call };
  return undefined;
}

/**
 * The rules of arrangement, written down as plainly as they are said: place every block, sort, cut into messages. A block
 * is known by which object it is, so none may be in the log twice.
 */
export function plainArrangement<Origin>(pieces: readonly Piece<Origin>[]): Message<Origin>[] {
  const halves = pieces.map(({ blocks }) =>
    blocks.map(halfOf).filter((half) => half !== undefined),
  );
  const blockOf = ({ entry, half }: { readonly entry: number; readonly half: number }) => {
    const own = pieces[entry]?.blocks ?? [];
    return own.filter((block) => halfOf(block) !== undefined)[half];
  };
  const isSent = ({ entry }: { readonly entry: number }) => pieces[entry]?.sent !== false;
  const callOf = new Map<Block | undefined, Block | undefined>();
  for (const { call, result } of plainPairing(halves).pairs)
    if (isSent(call) && isSent(result)) callOf.set(blockOf(result), blockOf(call));

  const isLone = (block: Block) =>
    halfOf(block) !== undefined && !callOf.has(block) && ![...callOf.values()].includes(block);
  const replayOf = (block: Block) => (block.type === 'raw' ? undefined : block.replay?.id);
  const sent = pieces.map(({ blocks, sent = true }) => (sent ? blocks : []));
  const lost = sent.flat().filter(isLone).map(replayOf);

  const placed: Placed[] = [];
  for (const [piece, blocks] of sent.entries()) {
    for (const [index, block] of blocks.entries()) {
      const results = blocks.slice(0, index).filter((one) => callOf.has(one)).length;
      const key = [piece, results, 0, index];
      placed.push({ piece, index, block, key, message: key.slice(0, 3).join() });
    }
  }
  const moved = placed
    .filter(({ block }) => block.type !== 'raw')
    .map((one): Placed => {
      const call = callOf.get(one.block);
      const [piece = 0, results = 0, , index = 0] =
        placed.find(({ block }) => block === call)?.key ?? [];
      if (call === undefined) return one;
      return { ...one, key: [piece, results, 1, index], message: [piece, results, 1].join() };
    })
    .sort((a, b) => a.key.map((n, i) => n - (b.key[i] ?? 0)).find((n) => n !== 0) ?? 0);

  const cut: Placed[][] = sent.flatMap((blocks, piece) =>
    blocks.length > 0 && blocks.every(({ type }) => type === 'raw')
      ? [placed.filter((one) => one.piece === piece)]
      : [],
  );
  for (const [index, one] of moved.entries()) {
    const before = moved[index - 1];
    if (before?.piece === one.piece && before.message === one.message) cut.at(-1)?.push(one);
    else cut.push([one]);
  }

  const first = (message: readonly Placed[]) => message[0] ?? { piece: 0, key: [] };
  const firstKey = (message: readonly Placed[]) => first(message).key;
  cut.sort((a, b) => {
    const [keyA, keyB] = [firstKey(a), firstKey(b)];
    return keyA.map((n, i) => n - (keyB[i] ?? 0)).find((n) => n !== 0) ?? 0;
  });
  return cut.flatMap((message) => {
    const { piece } = first(message);
    const source = pieces[piece];
    if (source === undefined) return [];
    const parted = cut.filter((other) => first(other).piece === piece).length > 1;
    const turned = message.some(({ index }, n) => index < (message[n - 1]?.index ?? 0));
    const keepsRaw = !parted && !turned && !source.blocks.some(isLone);
    const blocks = keepsRaw ? source.blocks : message.map(({ block }) => block);
    const content = blocks.map((block): Block => {
      if (isLone(block) && block.type === 'tool_call')
        return { type: 'text', text: markOfCall(block.name) };
      if (isLone(block)) return { type: 'text', text: markOfResult() };
      if (block.type === 'raw' || !lost.includes(block.replay?.id)) return block;
      const { replay: _, ...rest } = block;
      return rest;
    });
    const { role, participant, origin } = source;
    return [{ role, participant, content, origin }];
  });
}
