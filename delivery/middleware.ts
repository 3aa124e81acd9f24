import { z } from 'zod';
import { REFUSALS } from '../policy/refusal.ts';
import type { DeliverOutcome } from './carrier.ts';
import type { Endpoint } from './endpoint.ts';
import { refuseHere } from './clearance-check.ts';

/** What the middleware needs of a Hono context, whichever release of Hono it is from. */
interface DeliveryContext {
  readonly req: { text(): Promise<string> };
  set(key: 'delivered', value: Delivered): void;
}

export type Delivered = Extract<DeliverOutcome, { ok: true }>;

/** The variables that the middleware sets, for the type of a Hono app. */
export interface DeliveryVariables {
  delivered: Delivered;
}

const Body = z.strictObject({ clearance: z.string(), payload: z.string().optional() });

/**
 * Hono middleware for the route at which bridges deliver: takes `{ clearance, payload? }`, delivers,
 * and goes on with the variable `delivered`. A refusal is answered as problem details (RFC 9457), and
 * what comes after it does not run.
 *
 * Who calls is not checked: a clearance permits its one delivery to whoever holds it.
 */
export function deliverCleared(
  endpoint: Endpoint,
): (context: DeliveryContext, next: () => Promise<void>) => Promise<Response | undefined> {
  return async (context, next) => {
    const body = Body.safeParse(readJson(await context.req.text()));
    if (!body.success) return problem(refuseHere('invalid_input'));
    const { clearance, payload } = body.data;
    const outcome = await endpoint.deliver({
      clearance,
      ...(payload !== undefined && { payload }),
    });
    if (!outcome.ok) return problem(outcome);
    context.set('delivered', outcome);
    await next();
    return undefined;
  };
}

function problem(refusal: Exclude<DeliverOutcome, { ok: true }>): Response {
  const { code, recovery } = refusal;
  const detail = 'detail' in refusal ? refusal.detail : undefined;
  const known = Object.hasOwn(REFUSALS, code) ? REFUSALS[code as keyof typeof REFUSALS] : undefined;
  // What stands between this endpoint and the gateway or the platform is a bad gateway to the caller.
  const status = known?.status ?? (code === 'not_served' ? 404 : 502);
  const body = {
    type: 'about:blank',
    title: known?.sentence ?? code,
    status,
    code,
    recovery,
    detail,
  };
  return new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/problem+json', 'cache-control': 'no-store' },
  });
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
