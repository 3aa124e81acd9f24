import { z } from 'zod';
import { isRefusalCode, REFUSALS } from '../policy/refusal.ts';
import { AudienceChangesShape } from './answer-shape.ts';
import { recoveryOf, refuseLocally, type Answer, type ClientRefusal } from './client-refusal.ts';

/** One request to the gateway, and the shape that its answer has to have. */
export interface Exchange<Value> {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly token?: string | undefined;
  readonly body?: object;
  readonly idempotencyKey?: string;
  readonly shape: z.ZodType<Value>;
}

const Problem = z.object({
  code: z.string(),
  recovery: z.string().optional(),
  detail: z.string().optional(),
  decision: z.string().optional(),
  changes: AudienceChangesShape.optional(),
});

/**
 * Sends a request once and reads its answer whole. Whatever goes wrong is a refusal.
 *
 * Redirects are not followed: the gateway sends none, and a token follows no other server's wish.
 */
export async function exchange<Value>(
  fetch: typeof globalThis.fetch,
  server: string,
  { method, path, token, body, idempotencyKey, shape }: Exchange<Value>,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<Answer<Value>> {
  const deadline = AbortSignal.timeout(timeoutMs);
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${server}${path}`, {
      method,
      redirect: 'manual',
      headers: {
        accept: 'application/json',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: signal === undefined ? deadline : AbortSignal.any([deadline, signal]),
    });
    text = await response.text();
  } catch {
    if (signal?.aborted) return refuseLocally('aborted', 'stop');
    return refuseLocally(deadline.aborted ? 'timed_out' : 'no_answer', 'retry');
  }
  const answer = readJson(text);
  if (!response.ok) return refusalOf(response, answer);
  const parsed = shape.safeParse(answer);
  if (parsed.success) return { ok: true, value: parsed.data };
  const where = parsed.error.issues[0]?.path.map(String).join('.') ?? '';
  return refuseLocally('malformed_answer', 'stop', {
    status: response.status,
    detail: where === '' ? 'the answer as a whole' : `the answer's ${where}`,
  });
}

function refusalOf(response: Response, answer: unknown): ClientRefusal {
  const { status } = response;
  const retryAfterMs = retryAfterOf(response.headers.get('retry-after'));
  const more = { status, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  const problem = Problem.safeParse(answer);
  if (!problem.success) {
    const passes = status === 429 || status >= 500;
    return refuseLocally('foreign_answer', passes ? 'retry' : 'stop', more);
  }
  const { code, recovery, detail, decision, changes } = problem.data;
  if (!isRefusalCode(code)) {
    return refuseLocally('unknown_code', recoveryOf(recovery), { ...more, detail: code });
  }
  return {
    ok: false,
    from: 'gateway',
    code,
    recovery: recoveryOf(recovery, REFUSALS[code].recovery),
    ...more,
    ...(detail !== undefined && { detail }),
    ...(decision !== undefined && { decision }),
    ...(changes !== undefined && { changes }),
  };
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** `Retry-After` (RFC 9110), in seconds or as a date, in milliseconds from now. */
function retryAfterOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}
