import { sentCallIds } from './call-ids.ts';
import type { Block } from '../entry-shape.ts';
import { replayOf, type SentMessage } from '../compile/message-tokens.ts';

/** Who speaks: the model, a tool that it called, or anybody else. */
export type Side = 'agent' | 'result' | 'other';

interface Text {
  readonly kind: 'text';
  readonly text: string;
}
interface Image {
  readonly kind: 'image';
  readonly mediaType: string;
  /** Base64. */
  readonly data: string;
}

/** What a request is made of: blocks of messages, or forms in which their provider takes them back. */
export type Piece<Form> = {
  /** The index of its message. */
  readonly message: number;
  readonly role: SentMessage['role'];
  readonly participant: string;
  readonly side: Side;
} & (
  | Text
  | Image
  | {
      readonly kind: 'call';
      readonly id: string;
      readonly name: string;
      readonly arguments: unknown;
    }
  | {
      readonly kind: 'result';
      readonly id: string;
      readonly content: readonly (Text | Image)[];
      readonly isError: boolean;
    }
  | { readonly kind: 'form'; readonly form: Form }
);

/** What a provider takes. */
export interface Provider<Form> {
  readonly name: string;
  /** The call ids that it admits. */
  readonly callId: RegExp;
  /** The forms in what it gave for some blocks, or nothing if that is none that it takes back. */
  formsOfBlocks(value: unknown): readonly Form[] | undefined;
  /** The forms in what it gave for a whole message of a role, or nothing if that is none that it takes back there. */
  formsOfMessage(value: unknown, role: SentMessage['role']): readonly Form[] | undefined;
  /** The ids of the calls in a form, and of those that it answers. */
  idsOf(form: Form): { readonly calls: readonly string[]; readonly results: readonly string[] };
  sideOf(form: Form, role: SentMessage['role']): Side;
}

/**
 * Takes messages apart for a provider. Each block gives one piece, but:
 *
 * - a raw form of this provider's stands for its message. One that calls or answers others than the message's blocks do is
 *   not used, nor is one of a system message. Every other raw form is left out;
 * - a replay form of this provider's stands once, for all blocks that share it, where the first of them is. One that calls or
 *   answers others than they do is not used, nor is one of a system message, nor one that several messages share;
 * - thinking is left out where no form stands for it, since a provider takes back only what it can verify;
 * - blank text is left out, since a provider may refuse it;
 * - an image of a type that providers don't take gives way to a text that says so.
 *
 * Calls are the model's, whatever the role of their message, and its images are others', since no provider takes them from
 * the model; in one message they wait until after the calls. Ids are those of `sentCallIds`; a tool's name has `_` for each
 * character that providers refuse, and 64 characters at most.
 */
export function piecesOf<Form>(
  messages: readonly SentMessage[],
  provider: Provider<Form>,
): Piece<Form>[] {
  const ids = sentCallIds(messages, provider.callId);
  const parted = partedForms(messages);
  return messages.flatMap((message, index) => {
    const pieces = piecesOfMessage(message, index, ids[index] ?? [], parted, provider);
    const first = pieces.findIndex(({ side }) => side === 'agent');
    if (first === -1) return pieces;
    const after = pieces.slice(first);
    return [
      ...pieces.slice(0, first),
      ...after.filter(({ side }) => side === 'agent'),
      ...after.filter(({ side }) => side !== 'agent'),
    ];
  });
}

/** Pieces that come one after another and that the model said, or others did. */
export interface Turn<Form> {
  readonly isAgent: boolean;
  /** Never empty. In a turn of others results come first, straight after their calls. */
  readonly pieces: readonly Piece<Form>[];
}

/** Puts pieces together to turns: the model's and others' alternate. */
export function turnsOf<Form>(pieces: readonly Piece<Form>[]): Turn<Form>[] {
  const turns: { isAgent: boolean; pieces: Piece<Form>[] }[] = [];
  for (const piece of pieces) {
    const isAgent = piece.side === 'agent';
    const last = turns.at(-1);
    if (last?.isAgent === isAgent) last.pieces.push(piece);
    else turns.push({ isAgent, pieces: [piece] });
  }
  return turns.map((turn) => ({
    ...turn,
    pieces: [
      ...turn.pieces.filter(({ side }) => side === 'result'),
      ...turn.pieces.filter(({ side }) => side !== 'result'),
    ],
  }));
}

/** What stands before an image that the model made: providers take images from others alone. */
export const IMAGE_OF_AGENT = '[an image by the assistant]';

/** Whether a value is an object with fields. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a provider would take a text for none: white space as Python and JavaScript know it. */
export function isBlank(text: string): boolean {
  return /^[\s\u001c-\u001f\u0085]*$/.test(text);
}

function piecesOfMessage<Form>(
  { role, participant, content }: SentMessage,
  message: number,
  ids: readonly (string | undefined)[],
  parted: ReadonlySet<string>,
  provider: Provider<Form>,
): Piece<Form>[] {
  const from = { message, role, participant };
  const own: Side = role === 'agent' ? 'agent' : 'other';
  const asForms = (forms: readonly Form[]) =>
    forms.map((form) => ({
      ...from,
      side: provider.sideOf(form, role),
      kind: 'form' as const,
      form,
    }));
  const named = content.map((block, index) => ({ block, id: ids[index] ?? '' }));

  const blocks = named.filter(({ block }) => block.type !== 'raw');
  for (const { block } of role === 'system' ? [] : named) {
    if (block.type !== 'raw' || block.provider !== provider.name) continue;
    const forms = provider.formsOfMessage(block.value, role);
    if (forms !== undefined && (blocks.length === 0 || haveSameIds(forms, blocks, provider)))
      return asForms(forms);
  }

  const standing = new Set<string>();
  return blocks.flatMap(({ block, id }): Piece<Form>[] => {
    const replay = role === 'system' ? undefined : replayOf(block);
    if (replay?.provider === provider.name && !parted.has(replay.id)) {
      if (standing.has(replay.id)) return [];
      const sharing = blocks.filter((other) => replayOf(other.block)?.id === replay.id);
      const forms = provider.formsOfBlocks(replay.value);
      if (forms !== undefined && haveSameIds(forms, sharing, provider)) {
        standing.add(replay.id);
        return asForms(forms);
      }
    }
    switch (block.type) {
      case 'text':
        return isBlank(block.text) ? [] : [{ ...from, side: own, kind: 'text', text: block.text }];
      case 'image': {
        const image = imageOf(block);
        return [{ ...from, side: image.kind === 'image' ? 'other' : own, ...image }];
      }
      case 'tool_call': {
        const name = block.name.replace(/[^a-zA-Z0-9_-]/gu, '_').slice(0, 64);
        return [{ ...from, side: 'agent', kind: 'call', id, name, arguments: block.arguments }];
      }
      case 'tool_result':
        return [
          {
            ...from,
            ...{ side: 'result', kind: 'result', id, isError: block.isError === true },
            content: contentOf(block),
          },
        ];
      case 'thinking':
      case 'raw':
        return [];
    }
  });
}

/** The ids of replay forms that blocks of several messages share: sent with each, they would be sent twice. */
function partedForms(messages: readonly SentMessage[]): Set<string> {
  const firstIn = new Map<string, number>();
  const parted = new Set<string>();
  for (const [index, { content }] of messages.entries()) {
    for (const id of content.flatMap((block) => replayOf(block)?.id ?? [])) {
      if ((firstIn.get(id) ?? index) !== index) parted.add(id);
      firstIn.set(id, index);
    }
  }
  return parted;
}

function haveSameIds<Form>(
  forms: readonly Form[],
  blocks: readonly { readonly block: Block; readonly id: string }[],
  provider: Provider<Form>,
): boolean {
  const ids = forms.map((form) => provider.idsOf(form));
  const inBlocks = (type: Block['type']) =>
    blocks.filter(({ block }) => block.type === type).map(({ id }) => id);
  const same = (some: readonly string[], others: readonly string[]) =>
    JSON.stringify(some.toSorted()) === JSON.stringify(others.toSorted());
  return (
    same(
      ids.flatMap(({ calls }) => calls),
      inBlocks('tool_call'),
    ) &&
    same(
      ids.flatMap(({ results }) => results),
      inBlocks('tool_result'),
    )
  );
}

const IMAGE_TYPES = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp']);

function imageOf({ mediaType, data }: Pick<Image, 'mediaType' | 'data'>): Text | Image {
  return IMAGE_TYPES.has(mediaType) && data !== ''
    ? { kind: 'image', mediaType, data }
    : { kind: 'text', text: `[an image of type ${mediaType} is left out]` };
}

/** The content of a result, its value as JSON after it. */
function contentOf({ content = [], value }: Block & { readonly type: 'tool_result' }) {
  const parts = content.map((part): Text | Image =>
    part.type === 'text' ? { kind: 'text', text: part.text } : imageOf(part),
  );
  if (value !== undefined) parts.push({ kind: 'text', text: JSON.stringify(value) });
  return parts.filter((part) => part.kind === 'image' || !isBlank(part.text));
}
