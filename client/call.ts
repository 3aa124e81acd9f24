import type { Answer } from './client-refusal.ts';
import type { Exchange } from './exchange.ts';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Instead of the client's, for each try. */
  readonly timeoutMs?: number;
  /** `false` for one try only, also where the call may be repeated. */
  readonly retry?: boolean;
}

/** A call of a registered client. */
export type Call<Arguments, Value> = (
  args: Arguments,
  options?: CallOptions,
) => Promise<Answer<Value>>;

/** A call of an agent, under a grant. */
export type GrantedCall<Arguments, Value> = (
  grantToken: string,
  args: Arguments,
  options?: CallOptions,
) => Promise<Answer<Value>>;

/** Sends one request with a token that is settled. Repeated only if it `mayRepeat`. */
export type Send = <Value>(
  request: Omit<Exchange<Value>, 'token'> & { readonly mayRepeat: boolean },
  options?: CallOptions,
) => Promise<Answer<Value>>;
