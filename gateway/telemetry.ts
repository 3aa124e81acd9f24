import { SpanKind, SpanStatusCode, trace, metrics } from '@opentelemetry/api';
import type { MiddlewareHandler } from 'hono';
import { routePath } from 'hono/route';

/**
 * A span and two measurements per request, through the OpenTelemetry API: without an SDK at the edge
 * they cost nothing. They carry the route as it is written, the method, the status and the refusal's
 * code; never a token, text, query, name or id.
 */
export function telemetry(): MiddlewareHandler {
  const tracer = trace.getTracer('earshot');
  const meter = metrics.getMeter('earshot');
  const duration = meter.createHistogram('earshot.request.duration', { unit: 's' });
  const refusals = meter.createCounter('earshot.refusals');

  return (context, next) =>
    tracer.startActiveSpan('request', { kind: SpanKind.SERVER }, async (span) => {
      const started = performance.now();
      await next();
      const { status } = context.res;
      const attributes = {
        'http.request.method': context.req.method,
        'http.route': routePath(context, -1),
        'http.response.status_code': status,
      };
      const code = context.get('refusal') as string | undefined;
      span.updateName(`${context.req.method} ${attributes['http.route']}`);
      span.setAttributes(attributes);
      if (code !== undefined) {
        span.setAttribute('earshot.code', code);
        refusals.add(1, { 'earshot.code': code });
      }
      if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      duration.record((performance.now() - started) / 1000, attributes);
      span.end();
    });
}
