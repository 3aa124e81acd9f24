import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { LocalCaller, Refused } from './local-caller.ts';

const Lease = z.object({ leaseId: z.string(), owner: z.string(), fence: z.string() });
const Grant = z.object({
  token: z.string(),
  mode: z.string(),
  sessionId: z.string(),
  audienceHash: z.string(),
  readers: z.object({ people: z.int(), classes: z.int() }),
  conversations: z.int(),
});

export interface TurnRequest {
  readonly organization: string;
  readonly persona: string;
  readonly destination: string;
  readonly requester: string;
  readonly trigger:
    { readonly kind: 'thread'; readonly seq: string } | { readonly kind: 'schedule' };
  /** Which of the sessions toward the destination; its own one without. */
  readonly threadKey?: string;
}

/** A turn that this process carries, with a grant. */
export interface HeldTurn {
  readonly ok: true;
  readonly turnId: string;
  readonly organization: string;
  readonly lease: z.infer<typeof Lease>;
  readonly grant: z.infer<typeof Grant>;
}

/** Opens a turn, takes its lease and gets a grant, as a bridge does. */
export async function holdTurn(
  caller: LocalCaller,
  token: string,
  request: TurnRequest,
): Promise<HeldTurn | Refused> {
  const { organization } = request;
  const opened = await caller.call(z.object({ turnId: z.string() }), {
    method: 'POST',
    path: '/v1/turns',
    token,
    body: request,
    key: randomUUID(),
  });
  if (!opened.ok) return opened;
  const { turnId } = opened.body;
  const taken = await caller.call(Lease, {
    method: 'POST',
    path: `/v1/turns/${turnId}/lease`,
    token,
    body: { organization, owner: 'earshot' },
  });
  if (!taken.ok) return taken;
  const { leaseId, owner, fence } = taken.body;
  const lease = { leaseId, owner, fence };
  const minted = await caller.call(Grant, {
    method: 'POST',
    path: `/v1/turns/${turnId}/grants`,
    token,
    body: { organization, lease },
  });
  if (!minted.ok) return minted;
  return { ok: true, turnId, organization, lease, grant: minted.body };
}

/** Ends a turn as its worker. */
export function completeTurn(
  caller: LocalCaller,
  token: string,
  { turnId, organization, lease }: HeldTurn,
) {
  return caller.call(z.object({ status: z.literal('ok') }), {
    method: 'POST',
    path: `/v1/turns/${turnId}/complete`,
    token,
    body: { organization, lease },
  });
}
