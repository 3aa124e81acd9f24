import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import type { Fact } from '../../policy/fact.ts';
import type { ExternalId } from '../../policy/identity.ts';
import { refuse, type Refusal } from '../../policy/refusal.ts';
import { writeFacts } from '../../sql/facts/fact-writer.ts';
import { proveCaller } from '../callers.ts';
import type { Gateway } from '../gateway.ts';
import { FactLine } from '../shapes/fact-shape.ts';
import { Id } from '../shapes/scalar-shape.ts';
import { answers, refused } from './answer.ts';
import { SourceQuery } from './facts.ts';
import { newRoutes } from './route-app.ts';

/** Lines that are written in one transaction. */
const BATCH_LINES = 200;

/**
 * Facts as NDJSON, in order and resumable: batches of lines are written whole, and the first line
 * that is refused ends it. The answer says how many lines are in; sending those again changes
 * nothing.
 */
export function factStreamRoutes(gateway: Gateway): OpenAPIHono {
  const app = newRoutes();
  const Applied = z
    .object({ lines: z.int(), outcomes: z.record(z.string(), z.int()) })
    .openapi('FactsApplied');
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/facts',
      tags: ['facts'],
      request: {
        query: SourceQuery.extend({ organization: Id }),
        body: { required: true, content: { 'application/x-ndjson': { schema: z.string() } } },
      },
      responses: answers('Every line was written.', Applied),
    }),
    async (context) => {
      const { organization, source } = context.req.valid('query');
      const caller = await proveCaller(context, gateway, ['ingest', 'operator'], organization);
      if (!caller.ok) return refused(context, caller);
      const lines = (await context.req.text()).split('\n').filter((line) => line.trim() !== '');
      const outcomes: Record<string, number> = {};
      for (let start = 0; start < lines.length; start += BATCH_LINES) {
        const batch = lines.slice(start, start + BATCH_LINES);
        const result = await writeLines(gateway, organization, source, batch, start, outcomes);
        if (!result.ok) return refused(context, result);
      }
      return context.json({ lines: lines.length, outcomes }, 200);
    },
  );
  return app;
}

/** Writes a batch whole, or line by line up to the one that is refused. */
async function writeLines(
  { database }: Gateway,
  organization: ExternalId,
  source: ExternalId,
  lines: readonly string[],
  before: number,
  outcomes: Record<string, number>,
): Promise<{ ok: true } | Refusal> {
  const facts = lines.map(parseLine);
  const sound = facts.filter((fact): fact is Fact => !('ok' in fact));
  if (sound.length === lines.length) {
    const whole = await writeFacts(database, organization, source, sound);
    if (whole.ok) {
      for (const { outcome } of whole.results) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      return { ok: true };
    }
  }
  for (const [index, fact] of facts.entries()) {
    const result = 'ok' in fact ? fact : await writeFacts(database, organization, source, [fact]);
    if (!result.ok) {
      const line = before + index + 1;
      const why = result.detail ?? 'It is refused.';
      return {
        ...result,
        detail: `Line ${line.toString()}, after ${(line - 1).toString()} that are in: ${why}`,
      };
    }
  }
  return { ok: true };
}

function parseLine(line: string): Fact | Refusal {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return refuse('invalid_input', { detail: 'It is not JSON.' });
  }
  const fact = FactLine.safeParse(value);
  if (fact.success) return fact.data;
  const [issue] = fact.error.issues;
  const path = issue?.path.map(String).join('.') ?? '';
  return refuse('invalid_input', { detail: `${path}: ${issue?.message ?? ''}` });
}
