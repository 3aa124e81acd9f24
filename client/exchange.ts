import { z } from 'zod';
import { isRefusalCode, REFUSALS } from '../policy/refusal.ts';
import { AudienceChangesShape, RecoveryFields } from './answer-shape.ts';
import { knownRecovery, refuseLocally, type Answer, type ClientRefusal } from './client-refusal.ts';

/** A bearer token, or what gives a fresh one. */
export type TokenSource = string | (() => string | Promise<string>);

/** The longest answer that is read: more than a page of a hundred long messages. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** One request to the gateway, and the shape that its answer has to have. */
export interface Exchange<Value> {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** The bearer token, or what gives it for each try. */
  readonly token?: TokenSource;
  readonly body?: object;
  readonly idempotencyKey?: string;
  readonly shape: z.ZodType<Value>;
}

const Problem = z.object({
  ...RecoveryFields,
  code: z.string(),
  detail: z.string().optional(),
  decision: z.string().optional(),
  changes: AudienceChangesShape.optional(),
});

/**
 * Sends a request once and reads its answer whole. Whatever goes wrong is a refusal, and it comes in
 * time: a token provider or a `fetch` that does not look at a signal is left behind.
 *
 * Redirects are not followed: the gateway sends none, and a token follows no other server's wish.
 */
export async function exchange<Value>(
  fetch: typeof globalThis.fetch,
  server: string,
  request: Exchange<Value>,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<Answer<Value>> {
  const deadline = AbortSignal.timeout(timeoutMs);
  const ended = signal === undefined ? deadline : AbortSignal.any([deadline, signal]);
  try {
    return await within(ended, ask(fetch, server, request, ended));
  } catch {
    if (signal?.aborted) return refuseLocally('aborted', 'stop');
    return refuseLocally(deadline.aborted ? 'timed_out' : 'no_answer', 'retry');
  }
}

/** Throws where there is no answer. */
async function ask<Value>(
  fetch: typeof globalThis.fetch,
  server: string,
  { method, path, token, body, idempotencyKey, shape }: Exchange<Value>,
  signal: AbortSignal,
): Promise<Answer<Value>> {
  signal.throwIfAborted();
  let authorization = {};
  if (token !== undefined) {
    const bearer = await bearerOf(token);
    if (bearer === undefined) return refuseLocally('no_token', 'retry');
    authorization = { authorization: `Bearer ${bearer}` };
    signal.throwIfAborted();
  }
  const response = await fetch(`${server}${path}`, {
    method,
    redirect: 'manual',
    headers: {
      accept: 'application/json',
      ...authorization,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal,
  });
  const answer = readJson(await textOf(response));
  if (!response.ok) return refusalOf(response, answer);
  const parsed = shape.safeParse(answer);
  if (parsed.success) return { ok: true, value: parsed.data };
  const where = parsed.error.issues[0]?.path.map(String).join('.') ?? '';
  return refuseLocally('malformed_answer', 'stop', {
    status: response.status,
    detail: where === '' ? 'the answer as a whole' : `the answer's ${where}`,
  });
}

/** The token, or undefined where there is none that a header can carry. */
async function bearerOf(token: TokenSource): Promise<string | undefined> {
  try {
    const text = (typeof token === 'string' ? token : await token()).trim();
    return /^[!-~]+$/.test(text) ? text : undefined;
  } catch {
    return undefined;
  }
}

/** The body as text, or nothing of one that is longer than any answer of the gateway's. */
async function textOf({ body }: Response): Promise<string> {
  if (body === null) return '';
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    length += value.byteLength;
    if (length > MAX_ANSWER_BYTES) {
      await reader.cancel();
      return '';
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** What the work comes to, or a rejection as soon as the signal is aborted. */
function within<Result>(signal: AbortSignal, work: Promise<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      reject(new Error('aborted'));
    };
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    void work.then(resolve, reject).finally(() => {
      signal.removeEventListener('abort', abort);
    });
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
  const { code, recovery, recoveryOwner, next, detail, decision, changes } = problem.data;
  const on = {
    ...(recoveryOwner !== undefined && { recoveryOwner }),
    ...(next !== undefined && { next }),
  };
  if (!isRefusalCode(code)) {
    return refuseLocally('unknown_code', knownRecovery(recovery), { ...more, ...on, detail: code });
  }
  return {
    ok: false,
    from: 'gateway',
    code,
    recovery: knownRecovery(recovery, REFUSALS[code].recovery),
    ...on,
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
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
