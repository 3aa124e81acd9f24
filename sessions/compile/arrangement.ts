import { pairCalls, type Half, type HalfPlace } from '../../policy/pairing.ts';
import type { Block, LogEntry } from '../entry-shape.ts';

/** An entry of a log, or a text that stands for some. */
export interface Piece<Origin> {
  readonly role: LogEntry['role'];
  readonly participant: string;
  readonly blocks: readonly Block[];
  /** Where it is from: carried through as it is. */
  readonly origin: Origin;
  /**
   * Whether it is sent, as it is if this is absent. One that is not gives no message and still takes part in the pairing:
   * where ids are reused, what is sent could pair otherwise without it.
   */
  readonly sent?: boolean;
}

/** A message for a model: a piece, or a part of one. */
export interface Message<Origin> {
  readonly role: LogEntry['role'];
  readonly participant: string;
  /** Never empty. Results are never in one message with anything else but the piece's own raw form. */
  readonly content: readonly Block[];
  readonly origin: Origin;
}

/** What stands in the place of a call whose result is not sent. */
export function markOfCall(name: string): string {
  return `[a call of ${name} is left out: its result is not here]`;
}

/** What stands in the place of a result whose call is not sent. */
export function markOfResult(): string {
  return '[a result is left out: its call is not here]';
}

/**
 * Arranges pieces, given in log order, as messages in which each result comes straight after the message with its call.
 *
 * The results of one message's calls follow it in the order of these calls; those of one piece that follow each other are
 * one message. Everything else keeps its order. A piece is parted only between results and other blocks, and between
 * results that go to different places. A call or result whose other half, as `pairCalls` finds it, is not sent gives way
 * to a text, be it the newest; its replay form goes with it, and from the blocks that share the form's id. A raw form is
 * dropped from a piece that is parted, put in another order or given such a text, since it would show what is elsewhere;
 * by itself it parts nothing. No other block is lost, changed or sent twice.
 *
 * A piece without blocks gives no message. Takes time linear in the blocks.
 */
export function arrange<Origin>(pieces: readonly Piece<Origin>[]): Message<Origin>[] {
  const prepared = withMarks(pieces);
  const parts = partsOf(prepared);
  const partCounts = new Map<number, number>();
  for (const { piece } of parts) partCounts.set(piece, (partCounts.get(piece) ?? 0) + 1);

  const messages: Message<Origin>[] = [];
  for (const { piece, blocks } of parts) {
    const source = pieces[piece];
    const ready = prepared[piece];
    if (source === undefined || ready === undefined) continue;
    const whole = partCounts.get(piece) === 1 && !ready.marked && isAscending(blocks);
    const content = whole ? ready.blocks : blocks.flatMap((block) => ready.blocks[block] ?? []);
    const { role, participant, origin } = source;
    messages.push({ role, participant, content, origin });
  }
  return messages;
}

/** What is sent of a piece: of each half in it, the other one is sent too. */
interface Prepared {
  readonly blocks: readonly Block[];
  /** Whether a text stands for a half in it. */
  readonly marked: boolean;
  /** For each call among the blocks, the block with its result. Absent where there is none. */
  readonly results: ReadonlyMap<number, BlockPlace> | undefined;
}

interface BlockPlace {
  readonly piece: number;
  readonly block: number;
}

function withMarks(pieces: readonly Piece<unknown>[]): Prepared[] {
  const halves = pieces.map(({ blocks }) => [...blocks.entries()].flatMap(halfOf));
  const { pairs, unpaired } = pairCalls(halves);
  const placeOf = ({ entry, half }: HalfPlace): BlockPlace => ({
    piece: entry,
    block: halves[entry]?.[half]?.block ?? -1,
  });
  const isSent = ({ entry }: HalfPlace) => pieces[entry]?.sent !== false;

  const lone = [...unpaired];
  const results = new Map<number, Map<number, BlockPlace>>();
  for (const { call, result } of pairs) {
    if (isSent(call) && isSent(result)) {
      const { piece, block } = placeOf(call);
      const own = results.get(piece) ?? new Map<number, BlockPlace>();
      results.set(piece, own.set(block, placeOf(result)));
    } else {
      lone.push(call, result);
    }
  }
  const marked = new Map<number, Set<number>>();
  const spoilt = new Set<string>();
  for (const { piece, block } of lone.map(placeOf)) {
    marked.set(piece, (marked.get(piece) ?? new Set()).add(block));
    const replay = replayOf(pieces[piece]?.blocks[block]);
    if (replay !== undefined) spoilt.add(replay.id);
  }

  return pieces.map(({ blocks, sent = true }, piece) => {
    const own = marked.get(piece);
    const ready = (sent ? blocks : []).map((block, index) => {
      if (own?.has(index)) return markFor(block);
      const replay = replayOf(block);
      return replay !== undefined && spoilt.has(replay.id) ? withoutReplay(block) : block;
    });
    return { blocks: ready, marked: own !== undefined, results: results.get(piece) };
  });
}

function halfOf([index, block]: [number, Block]): (Half & { readonly block: number })[] {
  switch (block.type) {
    case 'tool_call':
      return [{ kind: 'call', id: block.id, block: index }];
    case 'tool_result':
      return [{ kind: 'result', id: block.call, block: index }];
    case 'text':
    case 'image':
    case 'thinking':
    case 'raw':
      return [];
  }
}

function markFor(block: Block): Block {
  return {
    type: 'text',
    text: block.type === 'tool_call' ? markOfCall(block.name) : markOfResult(),
  };
}

function replayOf(block: Block | undefined) {
  return block?.type === 'raw' ? undefined : block?.replay;
}

function withoutReplay(block: Block): Block {
  if (block.type === 'raw') return block;
  const { replay: _, ...rest } = block;
  return rest;
}

/** Blocks of one piece that make one message, raw forms left aside: results alone, or none. */
interface Part {
  readonly piece: number;
  readonly blocks: number[];
}

/** The parts in the order of their messages. */
function partsOf(pieces: readonly Prepared[]): Part[] {
  const parts: Part[] = [];
  for (const [piece, { blocks, results }] of pieces.entries()) {
    for (const run of runsOf(blocks)) {
      parts.push({ piece, blocks: run });
      let last: Part | undefined;
      for (const block of run) {
        const result = results?.get(block);
        if (result === undefined) continue;
        if (last?.piece !== result.piece) {
          last = { piece: result.piece, blocks: [] };
          parts.push(last);
        }
        last.blocks.push(result.block);
      }
    }
  }
  return parts;
}

/** The runs of blocks between results, raw forms left aside. Blocks that are nothing but raw forms are an empty run. */
function runsOf(blocks: readonly Block[]): number[][] {
  const runs: number[][] = [];
  let run: number[] | undefined;
  for (const [index, block] of blocks.entries()) {
    if (block.type === 'raw') continue;
    if (block.type === 'tool_result') {
      run = undefined;
    } else if (run === undefined) {
      run = [index];
      runs.push(run);
    } else {
      run.push(index);
    }
  }
  if (blocks.length > 0 && blocks.every(({ type }) => type === 'raw')) runs.push([]);
  return runs;
}

function isAscending(indices: readonly number[]): boolean {
  return indices.every((index, place) => index > (indices[place - 1] ?? -1));
}
