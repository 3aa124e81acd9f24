import { RECOVERIES, type Recovery, type RefusalCode } from '../policy/refusal.ts';
import type { AudienceChanges } from './answer-shape.ts';

/** Why this side refuses, where the gateway said nothing that could be believed. Never a code of the gateway's. */
export type LocalCode =
  /** The caller's signal was aborted. */
  | 'aborted'
  /** No answer came in time. What the request did is not known. */
  | 'timed_out'
  /** The connection failed. What the request did is not known. */
  | 'no_answer'
  /** A success that is not of the shape that was asked for. */
  | 'malformed_answer'
  /** No success, and no problem of the gateway's: a proxy's page, a redirect. */
  | 'foreign_answer'
  /** A problem whose code this release does not know. */
  | 'unknown_code'
  /** The token provider gave none. */
  | 'no_token'
  | 'unknown_custody'
  | 'unsupported_turn'
  /** A well-formed grant for something else than was asked. */
  | 'wrong_grant'
  /** A fresh grant names another session than the one that the context was built in. */
  | 'session_moved'
  /** The lease ran out while no heartbeat was answered. */
  | 'lease_unkept';

interface Refused {
  readonly ok: false;
  readonly recovery: Recovery;
  /** Who acts, as the gateway says. */
  readonly recoveryOwner?: string;
  /** The state that the recovery leads to, as the gateway says. */
  readonly next?: string;
  /** The HTTP status; 0 where there was no answer. */
  readonly status: number;
  readonly detail?: string;
  readonly decision?: string;
  readonly changes?: AudienceChanges;
  /** How long the gateway asks to wait before the next try. */
  readonly retryAfterMs?: number;
}

/** What the gateway refused, with a code of its closed set. */
export interface GatewayRefusal extends Refused {
  readonly from: 'gateway';
  readonly code: RefusalCode;
}

/** What this side refused. */
export interface LocalRefusal extends Refused {
  readonly from: 'client';
  readonly code: LocalCode;
}

export type ClientRefusal = GatewayRefusal | LocalRefusal;

/** What a call gives: its value, or a refusal. Nothing is thrown for what a network or a gateway does. */
export type Answer<Value> = { readonly ok: true; readonly value: Value } | ClientRefusal;

/** A refusal of this side. */
export function refuseLocally(
  code: LocalCode,
  recovery: Recovery,
  more: Partial<Omit<LocalRefusal, 'ok' | 'from' | 'code' | 'recovery'>> = {},
): LocalRefusal {
  return { ok: false, from: 'client', code, recovery, status: 0, ...more };
}

/** A recovery as this release knows it; one that it does not know is `stop`. */
export function knownRecovery(text: string | undefined, otherwise: Recovery = 'stop'): Recovery {
  if (text === undefined) return otherwise;
  return Object.hasOwn(RECOVERIES, text) ? (text as Recovery) : 'stop';
}
