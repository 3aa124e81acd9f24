import { isRefusalCode, refuse, type Refusal } from '../policy/refusal.ts';

/**
 * The code that a function in SQL answered with, as a refusal. A code that is not in the closed set
 * is a fault: it never passes for an allowance (INVARIANT 9).
 */
export function refusalOf(
  code: string,
  more: { detail?: string; decision?: string } = {},
): Refusal {
  return refuse(isRefusalCode(code) ? code : 'fault', more);
}

/** The decision that an answer is under, where it is on record. */
export function decisionOf(id: string | null): { decision?: string } {
  return id === null ? {} : { decision: id };
}
