import { isUtf8 } from 'node:buffer';
import type { OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { HTTPException } from 'hono/http-exception';
import { timeout } from 'hono/timeout';
import { refuse, type Refusal } from '../policy/refusal.ts';
import { faultOf } from '../sql/faults.ts';
import type { Gateway } from './gateway.ts';
import { problem } from './problem.ts';
import { rateLimit } from './rate-limit.ts';
import { artifactReleaseRoutes } from './routes/artifact-releases.ts';
import { artifactRoutes } from './routes/artifacts.ts';
import { deliveryRoutes } from './routes/deliveries.ts';
import { deliveryEndpointRoutes } from './routes/delivery-endpoint.ts';
import { docsRoutes } from './routes/docs.ts';
import { explainRoutes } from './routes/explain.ts';
import { factRoutes } from './routes/facts.ts';
import { factStreamRoutes } from './routes/fact-stream.ts';
import { grantRoutes } from './routes/grants.ts';
import { lineageRoutes } from './routes/lineage.ts';
import { operationRoutes } from './routes/operation.ts';
import { organizationRoutes } from './routes/organizations.ts';
import { personaRoutes } from './routes/personas.ts';
import { newRoutes } from './routes/route-app.ts';
import { replayRoutes } from './routes/replay.ts';
import { retrieveRoutes } from './routes/retrieve.ts';
import { sessionContextRoutes } from './routes/session-context.ts';
import { sessionRoutes } from './routes/sessions.ts';
import { toolRoutes } from './routes/tools.ts';
import { turnRoutes } from './routes/turns.ts';
import { telemetry } from './telemetry.ts';
import { VERSION } from './version.ts';

const DOCUMENT = {
  openapi: '3.1.0',
  info: {
    title: 'Earshot',
    version: VERSION,
    description: 'An audience-gated retrieval gateway for AI assistants.',
  },
  security: [{ bearer: [] }],
};

/** The gateway as one Hono app. */
export function createApp(gateway: Gateway): OpenAPIHono {
  const { config } = gateway;
  const app = newRoutes();

  app.use(telemetry());
  app.use(async (context, next) => {
    await next();
    // What may be kept says so itself: the public keys.
    if (!context.res.headers.has('cache-control')) context.header('cache-control', 'no-store');
    context.header('x-content-type-options', 'nosniff');
  });
  app.use(async (context, next) => {
    if (isDecodable(context.req.url)) return next();
    return problem(context, refuse('invalid_input', { detail: 'The address is not UTF-8.' }));
  });
  app.use('/v1/*', rateLimit(config.requestsPerSecond));
  app.use(timeout(config.requestTimeoutMs, () => new HTTPException(503)));
  const limit = bodyLimit({
    maxSize: config.maxBodyBytes,
    onError: (context) => problem(context, refuse('too_large')),
  });
  app.use((context, next) =>
    saysItFits(context, config.maxBodyBytes) ? next() : limit(context, next),
  );
  app.use(async (context, next) => {
    // Read once here; what reads it later gets these bytes. A decoder would repair them instead.
    const isSound = !hasBody(context) || isUtf8(await context.req.arrayBuffer());
    if (isSound) return next();
    return problem(context, refuse('invalid_input', { detail: 'The body is not UTF-8.' }));
  });

  app.notFound((context) =>
    problem(context, refuse('not_found', { detail: 'There is no such route.' })),
  );
  app.onError((error, context) => problem(context, refusalOfError(error)));

  app.route('/', operationRoutes(gateway));
  app.route('/', organizationRoutes(gateway));
  app.route('/', factRoutes(gateway));
  app.route('/', factStreamRoutes(gateway));
  app.route('/', personaRoutes(gateway));
  app.route('/', turnRoutes(gateway));
  app.route('/', grantRoutes(gateway));
  app.route('/', toolRoutes(gateway));
  app.route('/', retrieveRoutes(gateway));
  app.route('/', sessionRoutes(gateway));
  app.route('/', sessionContextRoutes(gateway));
  app.route('/', deliveryRoutes(gateway));
  app.route('/', deliveryEndpointRoutes(gateway));
  app.route('/', artifactRoutes(gateway));
  app.route('/', artifactReleaseRoutes(gateway));
  app.route('/', lineageRoutes(gateway));
  app.route('/', explainRoutes(gateway));
  app.route('/', replayRoutes(gateway));
  app.openAPIRegistry.registerComponent('securitySchemes', 'bearer', {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
  });
  app.doc31('/openapi.json', DOCUMENT);
  app.route(
    '/',
    docsRoutes(() => app.getOpenAPI31Document(DOCUMENT)),
  );
  return app;
}

const hasBody = ({ req }: Context) => req.method !== 'GET' && req.method !== 'HEAD';

/**
 * Whether a request says how long its body is, and that is within the limit: the server holds it to that. The
 * limit's own middleware would build a whole request of the platform first, which costs as much as all routing.
 */
function saysItFits({ req }: Context, most: number): boolean {
  const length = req.header('content-length');
  return (
    length !== undefined && req.header('transfer-encoding') === undefined && Number(length) <= most
  );
}

/**
 * Whether every escape in an address is UTF-8. One that is not would be taken as it stands, and two
 * addresses would name one id.
 */
function isDecodable(url: string): boolean {
  try {
    decodeURIComponent(url);
    return true;
  } catch {
    return false;
  }
}

/** What went wrong, as a refusal. A fault says nothing of itself to the outside (INVARIANT 9). */
function refusalOfError(error: Error): Refusal {
  if (error instanceof HTTPException) {
    if (error.status === 503) return refuse('unavailable', { detail: 'The deadline passed.' });
    return refuse('invalid_input', { detail: 'The request cannot be read.' });
  }
  const fault = faultOf(error);
  switch (fault.kind) {
    case 'unavailable':
    case 'timeout':
    case 'retryable':
      return refuse('unavailable');
    case 'conflict':
      return refuse('conflict');
    case 'invalid':
      return refuse('invalid_input', { detail: 'A value is outside what can be stored.' });
    case 'fault':
      console.error(
        JSON.stringify({ level: 'error', fault: error.name, at: stackOf(error), code: fault.code }),
      );
      return refuse('fault');
  }
}

/** Where an error was thrown, without its message, which may quote content. */
function stackOf(error: Error): string[] {
  return (error.stack ?? '')
    .split('\n')
    .filter((line) => line.trimStart().startsWith('at '))
    .slice(0, 8);
}
