import { z } from 'zod';

/** Text that is more than white space: less is refused. */
const Words = z.string().regex(/\S/);
const CallId = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/);
const ToolName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/);

const AnthropicText = z.strictObject({ type: z.literal('text'), text: Words });
const AnthropicImage = z.strictObject({
  type: z.literal('image'),
  source: z.strictObject({
    type: z.literal('base64'),
    media_type: z.enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp']),
    data: z.base64().min(1),
  }),
});

/**
 * What the Anthropic Messages API takes, by <https://platform.claude.com/docs/en/api/messages>, as far as a log gives it,
 * and a little more strictly: messages that may be refused are refused.
 */
export const AnthropicShape = z.strictObject({
  system: z.array(AnthropicText).min(1).optional(),
  messages: z.array(
    z.discriminatedUnion('role', [
      z.strictObject({
        role: z.literal('user'),
        content: z
          .array(
            z.discriminatedUnion('type', [
              AnthropicText,
              AnthropicImage,
              z.strictObject({
                type: z.literal('tool_result'),
                tool_use_id: CallId,
                content: z
                  .array(z.discriminatedUnion('type', [AnthropicText, AnthropicImage]))
                  .optional(),
                is_error: z.boolean().optional(),
              }),
            ]),
          )
          .min(1),
      }),
      z.strictObject({
        role: z.literal('assistant'),
        content: z
          .array(
            z.discriminatedUnion('type', [
              AnthropicText,
              z.strictObject({
                type: z.literal('tool_use'),
                id: CallId,
                name: ToolName,
                input: z.record(z.string(), z.unknown()),
              }),
              z.strictObject({
                ...{ type: z.literal('thinking'), thinking: z.string(), signature: z.string() },
              }),
              z.strictObject({ type: z.literal('redacted_thinking'), data: z.string() }),
            ]),
          )
          .min(1),
      }),
    ]),
  ),
});

const OpenAiText = z.strictObject({ type: z.literal('text'), text: z.string().min(1) });
const OpenAiName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/);
const OpenAiCallId = z.string().min(1).max(40);

/** What the OpenAI Chat Completions API takes, by <https://platform.openai.com/docs/api-reference/chat/create>. */
export const OpenAiShape = z.strictObject({
  messages: z.array(
    z.discriminatedUnion('role', [
      z.strictObject({
        role: z.literal('system'),
        content: z.union([z.string().min(1), z.array(OpenAiText).min(1)]),
      }),
      z.strictObject({
        role: z.literal('user'),
        name: OpenAiName.optional(),
        content: z.union([
          z.string().min(1),
          z
            .array(
              z.discriminatedUnion('type', [
                OpenAiText,
                z.strictObject({
                  type: z.literal('image_url'),
                  image_url: z.strictObject({
                    url: z.string().regex(/^data:image\/(jpeg|png|gif|webp);base64,.+$/),
                  }),
                }),
              ]),
            )
            .min(1),
        ]),
      }),
      z
        .strictObject({
          role: z.literal('assistant'),
          name: OpenAiName.optional(),
          content: z.union([z.string().min(1), z.array(OpenAiText).min(1)]).nullable(),
          tool_calls: z
            .array(
              z.strictObject({
                id: OpenAiCallId,
                type: z.literal('function'),
                function: z.strictObject({
                  name: ToolName,
                  arguments: z.string().refine((text) => JSON.parse(text) !== undefined),
                }),
              }),
            )
            .min(1)
            .optional(),
        })
        .refine(({ content, tool_calls: calls }) => content !== null || calls !== undefined),
      z.strictObject({
        role: z.literal('tool'),
        tool_call_id: OpenAiCallId,
        content: z.string(),
      }),
    ]),
  ),
});
