import { createHash } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { refuse } from '../policy/refusal.ts';
import { problem } from './problem.ts';

/**
 * Limits requests per second for each bearer token: that is, per caller and per grant. Requests
 * without one share a limit. Each process counts for itself.
 */
export function rateLimit(perSecond: number): MiddlewareHandler {
  const limiter = new RateLimiterMemory({ points: perSecond, duration: 1 });
  return async (context, next) => {
    // The scheme may be written in any case, and gives nobody another share.
    const token = (context.req.header('authorization') ?? '').replace(/^Bearer +/i, '');
    // The limiter's table holds no credential.
    const key = createHash('sha256').update(token).digest('base64url');
    try {
      await limiter.consume(key);
    } catch {
      return problem(context, refuse('rate_limited'));
    }
    return next();
  };
}
