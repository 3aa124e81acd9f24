import { createRoute, z, type OpenAPIHono } from '@hono/zod-openapi';
import { CompiledLog, CompileOptions } from '../../sessions/compile/compile-shape.ts';
import { InjectionUnits } from '../../sessions/injections.ts';
import { SummarizedRange, WrittenSummary } from '../../sessions/summary-shape.ts';
import { SummaryInput, SummaryList } from '../../sessions/view-shape.ts';
import type { Gateway } from '../gateway.ts';
import { IdempotencyHeaders } from '../shapes/scalar-shape.ts';
import { answers, jsonBody } from './answer.ts';
import { newRoutes } from './route-app.ts';
import { answerFromLog, Placed, SessionParams } from './session-call.ts';

const decision = z.string();

/** What a model is sent of a session's log: its compile, the context injected into it, and its summaries. */
export function sessionContextRoutes(gateway: Gateway): OpenAPIHono {
  const app = newRoutes();
  const tags = ['sessions'];
  const at = '/v1/sessions/{session}';
  const placed = { params: SessionParams, query: Placed };

  for (const reading of ['compile', 'preview'] as const) {
    app.openapi(
      createRoute({
        method: 'post',
        path: `${at}/${reading}`,
        tags,
        request: {
          ...placed,
          // Without one everything is as it is without options.
          body: { content: { 'application/json': { schema: CompileOptions } } },
        },
        responses: answers(
          reading === 'compile' ? 'What the model is sent.' : 'What a compile would give.',
          CompiledLog.extend({ decision }).openapi('CompiledLog'),
        ),
      }),
      (context) =>
        answerFromLog(
          gateway,
          context,
          context.req.valid('param'),
          context.req.valid('query'),
          (log, place) => log[reading](context.req.valid('json'), place),
          ({ result }) => result,
        ),
    );
  }

  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/injections`,
      tags,
      request: {
        ...placed,
        body: jsonBody(z.strictObject({ injections: InjectionUnits.min(1) })),
      },
      responses: answers(
        'What became of each unit, in their order.',
        z
          .object({
            decision,
            outcomes: z.array(z.enum(['stored', 'unchanged', 'held', 'bound', 'placed'])),
          })
          .openapi('Injected'),
      ),
    }),
    (context) =>
      answerFromLog(
        gateway,
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log, place) => log.inject(context.req.valid('json').injections, place),
        ({ outcomes }) => ({ outcomes }),
      ),
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/summary-input`,
      tags,
      request: { ...placed, body: jsonBody(SummarizedRange) },
      responses: answers(
        'What a model is given to summarize.',
        SummaryInput.extend({ decision }).openapi('SummaryInput'),
      ),
    }),
    (context) =>
      answerFromLog(
        gateway,
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log, place) => log.summaryInput(context.req.valid('json'), place),
        ({ result }) => result,
      ),
  );

  app.openapi(
    createRoute({
      method: 'post',
      path: `${at}/summaries`,
      tags,
      request: { ...placed, headers: IdempotencyHeaders, body: jsonBody(WrittenSummary) },
      responses: answers(
        'The summary, taken for this view.',
        z.object({ decision, summary: z.string() }).openapi('Summarized'),
      ),
    }),
    (context) =>
      answerFromLog(
        gateway,
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log, place) =>
          log.summarize(
            ...([
              context.req.valid('header')['idempotency-key'],
              context.req.valid('json'),
              place,
            ] as const),
          ),
        ({ summary }) => ({ summary }),
      ),
  );

  app.openapi(
    createRoute({
      method: 'get',
      path: `${at}/summaries`,
      tags,
      request: placed,
      responses: answers(
        'The summaries of this view that stand.',
        SummaryList.extend({ decision }).openapi('SummaryList'),
      ),
    }),
    (context) =>
      answerFromLog(
        gateway,
        context,
        context.req.valid('param'),
        context.req.valid('query'),
        (log, place) => log.summaries(place),
        ({ result }) => result,
      ),
  );
  return app;
}
