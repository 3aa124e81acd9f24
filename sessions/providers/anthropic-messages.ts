import type { SentMessage } from '../compile/message-tokens.ts';
import {
  IMAGE_OF_AGENT,
  isBlank,
  isRecord,
  piecesOf,
  turnsOf,
  type Piece,
  type Provider,
} from './request-turns.ts';

/** The parts of a request to the Anthropic Messages API that come from a log. */
export interface AnthropicRequest {
  readonly system?: AnthropicText[];
  readonly messages: { readonly role: 'user' | 'assistant'; readonly content: AnthropicBlock[] }[];
}

interface AnthropicText {
  readonly type: 'text';
  readonly text: string;
}
interface AnthropicImage {
  readonly type: 'image';
  readonly source: { readonly type: 'base64'; readonly media_type: string; readonly data: string };
}
/** A content block as the provider gave it. */
interface AnthropicForm {
  readonly type: string;
  readonly [field: string]: unknown;
}
type AnthropicBlock =
  | AnthropicText
  | AnthropicImage
  | {
      readonly type: 'tool_use';
      readonly id: string;
      readonly name: string;
      readonly input: object;
    }
  | {
      readonly type: 'tool_result';
      readonly tool_use_id: string;
      readonly content?: (AnthropicText | AnthropicImage)[];
      readonly is_error?: true;
    }
  | AnthropicForm;

/** What stands first where the agent would speak first, which the API may refuse. */
export const OPENING = '[the conversation begins]';

/**
 * Messages in the shape of the Anthropic Messages API, <https://platform.claude.com/docs/en/api/messages>. They come as
 * `arrange` gives them, with each result straight after the message with its call. What becomes of each block says `piecesOf`.
 *
 * Guaranteed: roles alternate, beginning with the user's; no message is empty; results come first in the message after
 * their calls; ids, names and inputs have the form that the API asks for; the same messages give the same bytes. Arguments
 * that are no object become one, with the one field `arguments`. White space at the end of what the agent said last is left out,
 * since it is refused there.
 *
 * Texts of the system messages that lead go to `system`. The later ones become text of the user's in `<system>` tags, which
 * every model takes where it stands, and which leaves the cached prefix as it is. It then has the authority of a user's
 * text and no more, and a user can write the same. Who of several people speaks is not said: the shape has no place for it.
 *
 * Not checked: that there is a message at all; what is in a provider's own forms; how many images there are and how large;
 * that a model continues what the assistant said where it spoke last.
 */
export function toAnthropic(messages: readonly SentMessage[]): AnthropicRequest {
  const firstOther = messages.findIndex(({ role }) => role !== 'system');
  const leading = firstOther === -1 ? messages.length : firstOther;
  const pieces = piecesOf(messages, ANTHROPIC);
  const leads = ({ message, kind }: Piece<AnthropicForm>) => kind === 'text' && message < leading;

  const sent = turnsOf(pieces.filter((piece) => !leads(piece))).map(({ isAgent, pieces }) => ({
    role: isAgent ? ('assistant' as const) : ('user' as const),
    content: pieces.flatMap(blocksOf),
  }));
  if (sent[0]?.role === 'assistant') {
    sent.unshift({ role: 'user', content: [{ type: 'text', text: OPENING }] });
  }
  const last = sent.at(-1);
  if (last?.role === 'assistant') last.content.push(...last.content.splice(-1).map(trimmed));

  const system = pieces
    .filter(leads)
    .flatMap((piece) => (piece.kind === 'text' ? [textOf(piece)] : []));
  return { ...(system.length > 0 && { system }), messages: sent };
}

function blocksOf(piece: Piece<AnthropicForm>): AnthropicBlock[] {
  switch (piece.kind) {
    case 'text':
      return [
        piece.role === 'system'
          ? { type: 'text', text: `<system>\n${piece.text}\n</system>` }
          : textOf(piece),
      ];
    case 'image':
      return piece.role === 'agent'
        ? [{ type: 'text', text: IMAGE_OF_AGENT }, imageOf(piece)]
        : [imageOf(piece)];
    case 'call':
      return [
        {
          type: 'tool_use',
          id: piece.id,
          name: piece.name,
          input: isRecord(piece.arguments) ? piece.arguments : { arguments: piece.arguments },
        },
      ];
    case 'result': {
      const content = piece.content.map((part) =>
        part.kind === 'text' ? textOf(part) : imageOf(part),
      );
      return [
        {
          type: 'tool_result',
          tool_use_id: piece.id,
          ...(content.length > 0 && { content }),
          ...(piece.isError && { is_error: true }),
        },
      ];
    }
    case 'form':
      return [piece.form];
  }
}

function textOf({ text }: { readonly text: string }): AnthropicText {
  return { type: 'text', text };
}

function imageOf({ mediaType, data }: { readonly mediaType: string; readonly data: string }) {
  const source = { type: 'base64' as const, media_type: mediaType, data };
  return { type: 'image' as const, source };
}

function trimmed(block: AnthropicBlock): AnthropicBlock {
  return block.type === 'text' && typeof block.text === 'string'
    ? { ...block, text: block.text.trimEnd() }
    : block;
}

const ANTHROPIC: Provider<AnthropicForm> = {
  name: 'anthropic',
  callId: /^[a-zA-Z0-9_-]{1,64}$/,
  formsOfBlocks: (value) => formsIn(Array.isArray(value) ? value : [value]),
  formsOfMessage(value, role) {
    if (Array.isArray(value)) return formsIn(value);
    const speaker = role === 'agent' ? 'assistant' : 'user';
    const isMessage = isRecord(value) && value.role === speaker && Array.isArray(value.content);
    return isMessage ? formsIn(value.content as unknown[]) : undefined;
  },
  idsOf: ({ type, id, tool_use_id: answered }) => ({
    calls: type.endsWith('tool_use') && typeof id === 'string' ? [id] : [],
    results: typeof answered === 'string' ? [answered] : [],
  }),
  // What the provider's own tools were asked and gave is part of what the assistant said.
  sideOf({ type }, role) {
    if (type === 'tool_result') return 'result';
    return type === 'tool_use' || role === 'agent' ? 'agent' : 'other';
  },
};

/** Content blocks, blank texts apart; nothing if a value is none, or if there are none. */
function formsIn(values: readonly unknown[]): AnthropicForm[] | undefined {
  const forms = values.filter(isForm);
  if (forms.length === 0 || forms.length < values.length) return undefined;
  return forms.filter(
    ({ type, text }) => !(type === 'text' && typeof text === 'string' && isBlank(text)),
  );
}

function isForm(value: unknown): value is AnthropicForm {
  return isRecord(value) && typeof value.type === 'string';
}
