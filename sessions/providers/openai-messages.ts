import type { SentMessage } from '../compile/message-tokens.ts';
import {
  IMAGE_OF_AGENT,
  isRecord,
  piecesOf,
  turnsOf,
  type Piece,
  type Provider,
} from './request-turns.ts';

/** The part of a request to the OpenAI Chat Completions API that comes from a log. */
export interface OpenAiRequest {
  readonly messages: OpenAiMessage[];
}

/** A message, a tool call or a content part as the provider gave it. */
type OpenAiForm = Readonly<Record<string, unknown>>;
type OpenAiPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }
  | OpenAiForm;
type OpenAiMessage =
  | { readonly role: 'system'; readonly content: string | OpenAiPart[] }
  | { readonly role: 'user'; readonly name?: string; readonly content: string | OpenAiPart[] }
  | {
      readonly role: 'assistant';
      readonly name?: string;
      readonly content: string | OpenAiPart[] | null;
      readonly tool_calls?: OpenAiForm[];
    }
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: string }
  | OpenAiForm;

/** What stands before the text of a result that is an error: the API has no field for it. */
export const ERROR = '[error]';

/** What a result says whose images are all it has: the API takes them from users alone. */
export const IMAGES_FOLLOW = '[the images follow]';

/**
 * Messages in the shape of the OpenAI Chat Completions API, <https://platform.openai.com/docs/api-reference/chat/create>. They
 * come as `arrange` gives them, with each result straight after the message with its call. What becomes of each block says
 * `piecesOf`.
 *
 * Guaranteed: the tool messages with a call's results come straight after the assistant message with the calls; the images of
 * results follow in one user message, each call's after a text with its id; no message is empty; the same messages give
 * the same bytes. The images of a system message follow it as a user's. Content that is one text is given as a string.
 *
 * A user message, or the assistant's, has the participant as its `name` where that is 1 to 64 letters, digits, `_` and `-`;
 * who another is is not said.
 *
 * Not checked: that there is a message at all; what is in a provider's own forms; how many images there are and how large;
 * that a model takes the role `system`, or an assistant's message as the last one.
 */
export function toOpenAi(messages: readonly SentMessage[]): OpenAiRequest {
  return {
    messages: turnsOf(piecesOf(messages, OPENAI)).flatMap(({ isAgent, pieces }) => {
      const results = pieces.filter(({ side }) => side === 'result');
      const rest = byMessage(pieces.filter(({ side }) => side !== 'result'));
      if (isAgent) return rest.flatMap(assistantMessages);
      return [
        ...results.flatMap(toolMessage),
        ...imagesOf(results),
        ...rest.flatMap(otherMessages),
      ];
    }),
  };
}

type OpenAiPiece = Piece<OpenAiForm>;

function byMessage(pieces: readonly OpenAiPiece[]): OpenAiPiece[][] {
  const groups = new Map<number, OpenAiPiece[]>();
  for (const piece of pieces) {
    const group = groups.get(piece.message);
    if (group === undefined) groups.set(piece.message, [piece]);
    else group.push(piece);
  }
  return [...groups.values()];
}

function assistantMessages(pieces: readonly OpenAiPiece[]): OpenAiMessage[] {
  const whole = pieces.flatMap(wholeForm);
  if (whole.length > 0) return whole;
  const calls = pieces.flatMap((piece): OpenAiForm[] => {
    if (piece.kind === 'form' && isCall(piece.form)) return [piece.form];
    if (piece.kind !== 'call') return [];
    const called = { name: piece.name, arguments: JSON.stringify(piece.arguments) };
    return [{ id: piece.id, type: 'function', function: called }];
  });
  const parts = pieces.flatMap(partsOf);
  return [
    {
      role: 'assistant',
      ...nameOf(pieces),
      content: parts.length > 0 ? asContent(parts) : null,
      ...(calls.length > 0 && { tool_calls: calls }),
    },
  ];
}

function otherMessages(pieces: readonly OpenAiPiece[]): OpenAiMessage[] {
  const whole = pieces.flatMap(wholeForm);
  if (whole.length > 0) return whole;
  if (pieces[0]?.role !== 'system')
    return [{ role: 'user', ...nameOf(pieces), content: asContent(pieces.flatMap(partsOf)) }];
  const texts = pieces.filter(({ kind }) => kind === 'text').flatMap(partsOf);
  const images = pieces.filter(({ kind }) => kind === 'image').flatMap(partsOf);
  return [
    ...(texts.length > 0 ? [{ role: 'system', content: asContent(texts) }] : []),
    ...(images.length > 0 ? [{ role: 'user', content: images }] : []),
  ];
}

function toolMessage(piece: OpenAiPiece): OpenAiMessage[] {
  if (piece.kind !== 'result') return wholeForm(piece);
  const texts = piece.content.flatMap((part) => (part.kind === 'text' ? [part.text] : []));
  const text = texts.length === 0 && piece.content.length > 0 ? IMAGES_FOLLOW : texts.join('\n');
  const content = piece.isError ? `${ERROR} ${text}` : text;
  return [{ role: 'tool', tool_call_id: piece.id, content }];
}

/** The images of results. */
function imagesOf(results: readonly OpenAiPiece[]): OpenAiMessage[] {
  const content = results.flatMap((piece): OpenAiPart[] => {
    if (piece.kind !== 'result') return [];
    const images = piece.content.flatMap((part) =>
      part.kind === 'image' ? [imagePart(part)] : [],
    );
    if (images.length === 0) return [];
    return [{ type: 'text', text: `[images of the result of ${piece.id}]` }, ...images];
  });
  return content.length > 0 ? [{ role: 'user', content }] : [];
}

function partsOf(piece: OpenAiPiece): OpenAiPart[] {
  switch (piece.kind) {
    case 'text':
      return [{ type: 'text', text: piece.text }];
    case 'image':
      return piece.role === 'agent'
        ? [{ type: 'text', text: IMAGE_OF_AGENT }, imagePart(piece)]
        : [imagePart(piece)];
    case 'form':
      return isPart(piece.form) ? [piece.form] : [];
    case 'call':
    case 'result':
      return [];
  }
}

function imagePart({ mediaType, data }: { readonly mediaType: string; readonly data: string }) {
  return { type: 'image_url' as const, image_url: { url: `data:${mediaType};base64,${data}` } };
}

function asContent(parts: OpenAiPart[]): string | OpenAiPart[] {
  const [first] = parts;
  const isOneText = parts.length === 1 && first?.type === 'text' && typeof first.text === 'string';
  return isOneText ? first.text : parts;
}

function nameOf([piece]: readonly OpenAiPiece[]): { name?: string } {
  const name = piece?.participant ?? '';
  return /^[a-zA-Z0-9_-]{1,64}$/.test(name) ? { name } : {};
}

function wholeForm(piece: OpenAiPiece): OpenAiForm[] {
  return piece.kind === 'form' && 'role' in piece.form ? [piece.form] : [];
}

const OPENAI: Provider<OpenAiForm> = {
  name: 'openai',
  callId: /^[a-zA-Z0-9_-]{1,40}$/,
  formsOfBlocks: (value) =>
    formsIn(value, (form) => form.role === 'tool' || isCall(form) || isPart(form)),
  // A form makes no other role of its message, nor several.
  formsOfMessage: (value, role) =>
    formsIn(value, (form) => form.role === (role === 'agent' ? 'assistant' : 'user')) ??
    formsIn(value, (form) => form.role === 'tool'),
  idsOf(form) {
    const calls: unknown[] = Array.isArray(form.tool_calls) ? form.tool_calls : [form];
    return {
      calls: calls.filter(isCall).map(({ id }) => id),
      results: typeof form.tool_call_id === 'string' ? [form.tool_call_id] : [],
    };
  },
  sideOf(form, role) {
    if (form.role === 'tool') return 'result';
    if (form.role === 'assistant' || form.type === 'refusal' || isCall(form)) return 'agent';
    return role === 'agent' && form.type === 'text' ? 'agent' : 'other';
  },
};

function formsIn(value: unknown, admits: (form: OpenAiForm) => boolean): OpenAiForm[] | undefined {
  const values: unknown[] = Array.isArray(value) ? value : [value];
  const forms = values.filter(isRecord).filter(admits);
  return forms.length > 0 && forms.length === values.length ? forms : undefined;
}

function isCall(form: unknown): form is OpenAiForm & { readonly id: string } {
  return (
    isRecord(form) &&
    (form.type === 'function' || form.type === 'custom') &&
    typeof form.id === 'string'
  );
}

const PARTS = new Set<unknown>(['text', 'refusal', 'image_url', 'input_audio', 'file']);

function isPart({ role, type }: OpenAiForm): boolean {
  return role === undefined && PARTS.has(type);
}
