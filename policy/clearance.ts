import { refuse, type Refusal } from './refusal.ts';

/** The type of a clearance token, and the audience that no other token of the gateway has. */
export const CLEARANCE_TOKEN = {
  typ: 'earshot-clearance+jwt',
  audience: 'earshot/deliveries',
} as const;

/** A verdict about these bytes, this place, these readers, once (INVARIANT 14). */
export interface Clearance {
  readonly delivery: string;
  readonly organization: string;
  readonly destination: string;
  readonly audienceHash: string;
  readonly payloadSha256: string;
  /** Seconds since the epoch. */
  readonly expiresAt: number;
}

/** Admits the claims of a verified clearance token. Whether the delivery may still go is the release's question. */
export function judgeClearanceClaims(
  claims: Readonly<Record<string, unknown>>,
): ({ readonly ok: true } & Clearance) | Refusal {
  const { sub, org, dest, ah, psh, exp } = claims;
  const sound =
    isText(sub) && isText(org) && isText(dest) && isDigest(ah) && isDigest(psh) && isSeconds(exp);
  if (!sound) return refuse('malformed_token');
  return {
    ok: true,
    delivery: sub,
    organization: org,
    destination: dest,
    audienceHash: ah,
    payloadSha256: psh,
    expiresAt: exp,
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0;
}

function isDigest(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value);
}

function isSeconds(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0;
}
