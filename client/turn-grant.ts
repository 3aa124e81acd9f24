import { parseSequence } from '../policy/sequence.ts';
import { sessionIdFor, type SessionParts } from '../policy/session-id.ts';
import { GrantShape, PersonaShape, type Grant, type Lease } from './answer-shape.ts';
import type { CallOptions } from './call.ts';
import type { Client, TurnName } from './client.ts';
import { refuseLocally, type Answer, type ClientRefusal } from './client-refusal.ts';

/** For whom and for what a grant is asked: all of it has to stand in the grant that comes back. */
export interface GrantRequest extends TurnName {
  readonly persona: string;
  readonly destination: string;
  /** `thread`, `mention` or `schedule`; another one is refused, not guessed. */
  readonly trigger: string;
  readonly lease: Lease;
  readonly tools?: readonly string[];
  readonly threadKey?: string;
  readonly seconds?: number;
  /**
   * Given by a client that may fall back to the session of old, without a grant, for a persona of user
   * custody on a server that has no grants: what that session is derived from.
   */
  readonly legacy?: Pick<SessionParts, 'salt' | 'epoch'>;
  /** Tells the custody where the server has no route for it; the server is asked otherwise. */
  readonly custodyOf?: (organization: string, persona: string) => string | Promise<string>;
}

/** What a turn may go on with: a grant, or the session of old. */
export type Admission =
  | { readonly ok: true; readonly kind: 'grant'; readonly grant: Grant }
  | { readonly ok: true; readonly kind: 'legacy'; readonly sessionId: string };

const TURN_KINDS: readonly string[] = ['thread', 'mention', 'schedule'];

/**
 * Asks for the grant of a turn, once. Whatever is refused stays refused: no second mint is tried, and
 * no older way (INVARIANT 11).
 *
 * The one narrow exception: a persona of user custody, a client that is eligible (`legacy`), and a
 * server without the grant endpoint. Absent means a 404 that is not one of the gateway's, and a
 * version document of that server that says it has no grants, and an endpoint that was never seen
 * there. A persona of service custody never takes it.
 */
export async function requestTurnGrant(
  client: Client,
  request: GrantRequest,
  options: CallOptions = {},
): Promise<Admission | ClientRefusal> {
  const custody = await custodyOf(client, request, options);
  if (!custody.ok) return custody;
  if (!TURN_KINDS.includes(request.trigger)) return refuseLocally('unsupported_turn', 'correct');

  const { organization, turnId, lease, seconds } = request;
  const minted = await client.send(
    {
      method: 'POST',
      path: `/v1/turns/${encodeURIComponent(turnId)}/grants`,
      body: {
        organization,
        lease: { leaseId: lease.leaseId, owner: lease.owner, fence: lease.fence },
        ...(seconds !== undefined && { seconds }),
      },
      shape: GrantShape,
      mayRepeat: false,
    },
    options,
  );
  if (showsGrants(minted)) await client.grantMemory.remember(client.server);
  if (minted.ok) {
    const wrong = wrongPart(minted.value, request);
    return wrong === undefined
      ? { ok: true, kind: 'grant', grant: minted.value }
      : refuseLocally('wrong_grant', 'stop', { status: 200, detail: wrong });
  }
  if (custody.value !== 'user' || request.legacy === undefined) return minted;
  if (minted.code !== 'foreign_answer' || minted.status !== 404) return minted;
  if (!(await lacksGrants(client, options))) return minted;
  const threadKey = request.threadKey ?? request.destination;
  return {
    ok: true,
    kind: 'legacy',
    sessionId: legacySessionIdFor({ organization, threadKey, ...request.legacy }),
  };
}

/** The session of a client without a grant: whatever audience is given is left out. */
export function legacySessionIdFor({
  organization,
  threadKey,
  salt,
  epoch,
}: Omit<SessionParts, 'audience'>): string {
  return sessionIdFor({ organization, threadKey, salt, epoch });
}

async function custodyOf(
  client: Client,
  { organization, persona, custodyOf: told }: GrantRequest,
  options: CallOptions,
): Promise<Answer<'service' | 'user'>> {
  let custody: string;
  if (told === undefined) {
    const path = `/v1/organizations/${encodeURIComponent(organization)}/personas/${encodeURIComponent(persona)}`;
    const shown = await client.send(
      { method: 'GET', path, shape: PersonaShape, mayRepeat: true },
      options,
    );
    if (!shown.ok) return shown;
    custody = shown.value.custody;
  } else {
    custody = await told(organization, persona);
  }
  if (custody === 'service' || custody === 'user') return { ok: true, value: custody };
  return refuseLocally('unknown_custody', 'correct');
}

/** Whether an answer of the grant endpoint shows that there is one. */
function showsGrants(minted: Answer<Grant>): boolean {
  return (
    minted.ok ||
    minted.from === 'gateway' ||
    minted.code === 'unknown_code' ||
    minted.code === 'malformed_answer'
  );
}

/** Whether a server says of itself that it has no grants, and was never seen to have them. */
async function lacksGrants(client: Client, options: CallOptions): Promise<boolean> {
  const version = await client.version(options);
  if (!version.ok) return false;
  if (version.value.grants === true) await client.grantMemory.remember(client.server);
  if (version.value.name !== 'earshot' || version.value.grants !== false) return false;
  // Asked last: another request may have seen the endpoint in the meantime.
  return !(await client.grantMemory.seen(client.server));
}

/** The first part of a grant that is not what was asked for, or undefined. */
function wrongPart(grant: Grant, request: GrantRequest): string | undefined {
  const { organization, persona, lease } = request;
  const { audienceHash, mode, projectBound, threadKey, salt } = grant;
  const sameTools =
    request.tools === undefined ||
    JSON.stringify([...new Set(request.tools)].sort()) === JSON.stringify([...grant.tools].sort());
  const checks: readonly (readonly [string, boolean])[] = [
    ['turnId', grant.turnId === request.turnId],
    ['leaseOwner', grant.leaseOwner === lease.owner],
    ['leaseFence', grant.leaseFence === lease.fence],
    ['destination', grant.destination === request.destination],
    ['threadKey', threadKey === (request.threadKey ?? request.destination)],
    ['tools', sameTools],
    [
      'sessionId',
      grant.sessionId ===
        sessionIdFor({
          organization,
          threadKey,
          salt,
          epoch: parseSequence(grant.sessionEpoch) ?? 0n,
          audience: {
            persona,
            audienceHash,
            mode,
            policyRevision: parseSequence(grant.policyRevision) ?? 0n,
            ...(projectBound !== undefined && { projectBound }),
          },
        }),
    ],
  ];
  return checks.find(([, isRight]) => !isRight)?.[0];
}
