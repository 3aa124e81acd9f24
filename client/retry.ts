import { refuseLocally, type Answer, type ClientRefusal } from './client-refusal.ts';
import type { Clock } from './clock.ts';

/** How often and how patiently a call that may be repeated is repeated. */
export interface RetryPolicy {
  /** Tries in all, the first one counted. */
  readonly tries: number;
  /** The longest first wait; each further one is twice as long. */
  readonly baseMs: number;
  /** No wait is longer than this, but for what the gateway asks for. */
  readonly capMs: number;
  /** A gateway that asks for more than this gets no further try from here: the refusal is the answer. */
  readonly patienceMs: number;
}

export const RETRIES: RetryPolicy = { tries: 3, baseMs: 200, capMs: 5_000, patienceMs: 30_000 };

/**
 * Tries again while the refusal says so, after a random wait between nothing and a bound that doubles
 * (full jitter), which comes on top of the time that the gateway asks to wait.
 *
 * The caller vouches that the call may be repeated.
 */
export async function retried<Value>(
  call: () => Promise<Answer<Value>>,
  policy: RetryPolicy,
  clock: Clock,
  random: () => number,
  signal?: AbortSignal,
): Promise<Answer<Value>> {
  for (let tried = 1; ; tried++) {
    const answer = await call();
    if (answer.ok || tried >= policy.tries) return answer;
    const wait = waitAfter(answer, tried, policy, random);
    if (wait === undefined) return answer;
    await clock.wait(wait, signal);
    if (signal?.aborted) return refuseLocally('aborted', 'stop');
  }
}

/** How long to wait after a refusal, or undefined where another try is of no use. */
export function waitAfter(
  refusal: ClientRefusal,
  tried: number,
  { baseMs, capMs, patienceMs }: RetryPolicy,
  random: () => number,
): number | undefined {
  const asked = refusal.retryAfterMs ?? 0;
  if (refusal.recovery !== 'retry' || asked > patienceMs) return undefined;
  return asked + random() * Math.min(capMs, baseMs * 2 ** (tried - 1));
}
