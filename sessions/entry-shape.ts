import { z } from 'zod';
import { parseExternalId } from '../policy/identity.ts';
import { parseSequence } from '../policy/sequence.ts';

/** An id from outside: 1 to 128 characters, NFC, no control characters, no lone surrogates. */
export const LogName = z
  .string()
  .max(512)
  .refine((text) => parseExternalId(text).ok, {
    error: 'is not an id',
  });

const MOST_TEXT = 100_000;

const MOST_LEVELS = 64;

/**
 * Any JSON value: a tool's or a provider's own data. It comes back as it is stored, its fields in an order of their own
 * and its fractions as the nearest double; an integer that would come back as another one is refused, as is what is nested
 * too deeply.
 */
const Data = z.unknown().superRefine((value, context) => {
  const fault = faultOfData(value);
  if (fault !== undefined) context.addIssue({ code: 'custom', message: fault });
});

function faultOfData(value: unknown): string | undefined {
  if (value === undefined) return 'is missing';
  for (let level: unknown[] = [value], depth = 1; level.length > 0; depth++) {
    if (depth > MOST_LEVELS) return `is nested more than ${MOST_LEVELS.toString()} levels deep`;
    for (const one of level) {
      if (typeof one !== 'number') continue;
      if (!Number.isFinite(one) || (Number.isInteger(one) && !Number.isSafeInteger(one))) {
        return 'holds a number that cannot be kept exactly: send it as a text';
      }
    }
    level = level.flatMap((one) =>
      typeof one === 'object' && one !== null ? (Object.values(one) as unknown[]) : [],
    );
  }
  return undefined;
}

/** Text that a database can hold as it is: no NUL and no lone surrogate. */
export const StorableText = z
  .string()
  .max(MOST_TEXT)
  .refine((text) => !text.includes('\0'), 'holds a NUL character')
  .refine((text) => !/\p{Cs}/u.test(text), 'holds a lone surrogate');

const Sequence = z
  .string()
  .regex(/^[1-9][0-9]{0,18}$/)
  .refine((text) => parseSequence(text) !== undefined, 'is not a canonical decimal up to 2^63 - 1');

/**
 * A form that a provider takes back. Blocks of one entry with one `id` share it: where one of them is hidden in a view,
 * it is sent on none of them. Another entry with the same id is refused.
 */
const Replay = z.strictObject({ id: LogName, provider: LogName, value: Data });
const Common = { replay: Replay.optional() };

/** Text, for everybody, or for the readers that are named. Naming nobody keeps it from every view. */
const TextBlock = z.strictObject({
  type: z.literal('text'),
  text: StorableText,
  audience: z.array(LogName).max(1000).optional(),
  ...Common,
});

const ImageBlock = z.strictObject({
  type: z.literal('image'),
  mediaType: z.string().regex(/^image\/[a-z0-9.+-]{1,60}$/),
  /** Base64. */
  data: z.base64().max(MOST_TEXT * 10),
  ...Common,
});

const ToolCallBlock = z.strictObject({
  type: z.literal('tool_call'),
  id: LogName,
  name: LogName,
  /** The tool's own data; a field of any name in it stays. */
  arguments: Data,
  ...Common,
});

const ToolResultBlock = z.strictObject({
  type: z.literal('tool_result'),
  call: LogName,
  /** What the tool gave for people and models to read. */
  content: z
    .array(
      z.discriminatedUnion('type', [
        z.strictObject({ type: z.literal('text'), text: StorableText }),
        ImageBlock.omit({ replay: true }),
      ]),
    )
    .max(100)
    .optional(),
  /** The tool's own data; a field of any name in it stays. */
  value: Data.optional(),
  isError: z.boolean().optional(),
  ...Common,
});

const ThinkingBlock = z.strictObject({
  type: z.literal('thinking'),
  text: StorableText,
  ...Common,
});

/** The provider's own form of the whole entry: not sent in a view from which any of it is hidden. */
const RawBlock = z.strictObject({ type: z.literal('raw'), provider: LogName, value: Data });

export const Block = z.discriminatedUnion('type', [
  TextBlock,
  ImageBlock,
  ToolCallBlock,
  ToolResultBlock,
  ThinkingBlock,
  RawBlock,
]);
export type Block = z.infer<typeof Block>;

const MessageSource = z.strictObject({ conversation: LogName, seq: Sequence });
const ArtifactSource = z.strictObject({ artifact: z.uuid() });

const UNKNOWN_SOURCE = 'is neither a message, by conversation and seq, nor an artifact';

/** A message or an artifact that a text came from. */
export const TextSource = z.union([MessageSource, ArtifactSource], { error: UNKNOWN_SOURCE });
export type TextSource = z.infer<typeof TextSource>;

const ofBlock = { block: z.int().min(0).optional() };
/** One of the whole entry, or of one block of it. */
const LogSource = z.union([MessageSource.extend(ofBlock), ArtifactSource.extend(ofBlock)], {
  error: UNKNOWN_SOURCE,
});

/** Of one source, whatever else is said with it. */
export function nameOfSource(source: TextSource): string {
  return 'artifact' in source
    ? JSON.stringify([source.artifact])
    : JSON.stringify([source.conversation, source.seq]);
}

const Blocks = z.array(Block).min(1).max(200);
const Sources = z.array(LogSource).max(200);

interface Sourced {
  readonly blocks: readonly Block[];
  readonly sources?: readonly z.infer<typeof LogSource>[] | undefined;
}

/** Whether each source that names a block names one that is there, and none is named twice. */
function judgeSources({ blocks, sources = [] }: Sourced, context: z.RefinementCtx): void {
  const seen = new Set<string>();
  for (const [index, source] of sources.entries()) {
    const { block } = source;
    const name = JSON.stringify([nameOfSource(source), block]);
    if (seen.has(name) || (block ?? 0) >= blocks.length) {
      context.addIssue({
        code: 'custom',
        path: ['sources', index],
        message: seen.has(name) ? 'is named twice' : 'names a block that is not there',
      });
    }
    seen.add(name);
  }
}

/** An entry as it is appended. Without sources it counts as the destination's own. */
export const LogEntry = z
  .strictObject({
    role: z.enum(['user', 'agent', 'system']),
    participant: LogName,
    blocks: Blocks,
    sources: Sources.optional(),
  })
  .superRefine((entry, context) => {
    judgeSources(entry, context);
    if (entry.role !== 'system') return;
    for (const [index, block] of entry.blocks.entries()) {
      if (block.type !== 'text' || block.audience === undefined) continue;
      context.addIssue({
        code: 'custom',
        path: ['blocks', index, 'audience'],
        message: 'a system entry is for everybody',
      });
    }
  });
export type LogEntry = z.infer<typeof LogEntry>;

/** What an edit puts in the place of what its namespace shows of an entry. */
export const LogEdit = z
  .strictObject({ blocks: Blocks, sources: Sources.optional() })
  .superRefine(judgeSources);
export type LogEdit = z.infer<typeof LogEdit>;
