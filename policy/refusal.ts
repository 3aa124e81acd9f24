/**
 * The closed set of refusals. A refusal is an answer (INVARIANT 11): a value with a code, an HTTP
 * status, one sentence for people, what to do next, and the page that explains it. It never says
 * anything about a row outside the scope.
 */
export type Recovery =
  | 'rebuild'
  | 'remint'
  | 'ask_owner'
  | 'reduce_audience'
  | 'stop'
  | 'reconcile'
  | 'retry'
  | 'correct';

/** Who acts on a refusal. */
export type RecoveryOwner =
  'agent' | 'bridge' | 'requester' | 'source_owner' | 'operator' | 'endpoint';

interface RecoveryEntry {
  readonly owner: RecoveryOwner;
  /** What comes next, where that is done. Never an older or broader session. */
  readonly next: string;
  readonly sentence: string;
}

/** What to do next, who does it, and the state that it leads to. */
export const RECOVERIES = {
  rebuild: {
    owner: 'agent',
    next: 'new_session',
    sentence:
      'Discard the output, retrieve the permitted sources again, and answer again in a new session.',
  },
  remint: {
    owner: 'bridge',
    next: 'new_grant',
    sentence: 'The audience is the same but the grant ended: mint another.',
  },
  ask_owner: {
    owner: 'source_owner',
    next: 'owner_release',
    sentence: 'Whoever owns the sources that stand in the way could release the text.',
  },
  reduce_audience: {
    owner: 'requester',
    next: 'smaller_destination',
    sentence: 'The same answer could go to a smaller place.',
  },
  stop: { owner: 'bridge', next: 'ended', sentence: 'End the work; it does not go on by itself.' },
  reconcile: {
    owner: 'endpoint',
    next: 'settled',
    sentence:
      'It may have happened already: settle it from what the endpoint or the platform knows.',
  },
  retry: {
    owner: 'bridge',
    next: 'same_request',
    sentence: 'Send the same request again, a little later.',
  },
  correct: {
    owner: 'bridge',
    next: 'another_request',
    sentence: 'The request as it is gets the same answer: change it.',
  },
} as const satisfies Record<Recovery, RecoveryEntry>;

interface RefusalEntry {
  readonly status: number;
  readonly sentence: string;
  readonly recovery: Recovery;
  readonly page: string;
}

export const REFUSALS = {
  malformed_token: entry(
    401,
    'The token is missing, malformed or not verifiable.',
    'correct',
    'grants',
  ),
  unknown_grant: entry(401, 'No grant belongs to this token.', 'remint', 'grants'),
  grant_expired: entry(401, 'The grant has ended.', 'remint', 'grants'),
  grant_revoked: entry(403, 'The grant was revoked and stays revoked.', 'rebuild', 'grants'),
  audience_changed: entry(
    409,
    'The people who would read the answer are not the people it was made for.',
    'rebuild',
    'delivery',
  ),
  requester_left: entry(403, 'The requester no longer reads the destination.', 'stop', 'grants'),
  turn_not_running: entry(409, 'The turn is not running.', 'stop', 'turns'),
  lease_lost: entry(409, 'The lease is not held by this worker, or has expired.', 'stop', 'turns'),
  fenced: entry(
    409,
    'A newer worker has taken this, or the claim on it has run out.',
    'stop',
    'turns',
  ),
  persona_not_designated: entry(
    403,
    'The persona is not active and designated for this organization.',
    'stop',
    'turns',
  ),
  trigger_out_of_scope: entry(
    409,
    'The message that started the turn is not readable by everyone who would read the answer.',
    'stop',
    'turns',
  ),
  mode_changed: entry(
    409,
    'The mode or the project bound of the destination changed.',
    'rebuild',
    'grants',
  ),
  organization_paused: entry(
    403,
    'The organization is suspended or its execution guard is not running.',
    'stop',
    'turns',
  ),
  stopped: entry(403, 'A stop condition holds.', 'stop', 'turns'),
  empty_audience: entry(409, 'Nobody can be shown to read the destination.', 'stop', 'audience'),
  unlistable_audience: entry(
    409,
    'The readers of the destination cannot all be listed.',
    'stop',
    'audience',
  ),
  destination_closed: entry(
    409,
    'The destination takes no turns and no deliveries.',
    'stop',
    'turns',
  ),
  not_found: entry(
    404,
    'There is no such thing here, or it is not yours to see.',
    'correct',
    'retrieval',
  ),
  policy_changed: entry(409, 'The policy revision of the organization moved.', 'rebuild', 'grants'),
  source_revoked: entry(
    409,
    'A source of this text is not readable by everyone who would receive it.',
    'rebuild',
    'delivery',
  ),
  source_changed: entry(
    409,
    'A source of this text was edited after it was read.',
    'rebuild',
    'delivery',
  ),
  payload_mismatch: entry(409, 'These are not the bytes that were judged.', 'rebuild', 'delivery'),
  already_released: entry(409, 'The delivery was already released.', 'reconcile', 'delivery'),
  delivery_expired: entry(409, 'The delivery waited longer than it may.', 'rebuild', 'delivery'),
  session_not_yours: entry(
    404,
    'There is no such session for this grant and this audience.',
    'rebuild',
    'sessions',
  ),
  session_quarantined: entry(
    409,
    'The session is closed, or holds a source that was revoked or changed.',
    'rebuild',
    'sessions',
  ),
  narrowing_refused: entry(
    409,
    'What is for some readers only would reach others, or what was read would be hidden.',
    'correct',
    'sessions',
  ),
  over_budget: entry(422, 'The context does not fit the budget.', 'correct', 'compile'),
  backend_incomplete: entry(
    503,
    'A backend could not give a complete answer.',
    'retry',
    'retrieval',
  ),
  facts_stale: entry(
    503,
    'A source of facts has not been confirmed for too long.',
    'retry',
    'facts',
  ),
  tool_not_allowed: entry(403, 'This turn does not allow the tool.', 'correct', 'turns'),
  not_permitted: entry(
    403,
    'The caller lacks the scope, organization or persona for this.',
    'correct',
    'callers',
  ),
  conflict: entry(409, 'The request conflicts with what is stored.', 'correct', 'http'),
  invalid_input: entry(400, 'The request is not well formed.', 'correct', 'http'),
  too_large: entry(413, 'The request is larger than the limit.', 'correct', 'http'),
  rate_limited: entry(429, 'Too many requests.', 'retry', 'http'),
  unavailable: entry(503, 'The gateway cannot answer now.', 'retry', 'operations'),
  fault: entry(500, 'The gateway failed; nothing was allowed.', 'retry', 'operations'),
} as const satisfies Record<string, RefusalEntry>;

export type RefusalCode = keyof typeof REFUSALS;

/** A refusal as a value. `detail` is for people and names nothing that the caller did not send. */
export interface Refusal {
  readonly ok: false;
  readonly code: RefusalCode;
  readonly recovery: Recovery;
  readonly detail?: string;
  readonly decision?: string;
}

export function refuse(
  code: RefusalCode,
  more: { detail?: string; recovery?: Recovery; decision?: string } = {},
): Refusal {
  return { ok: false, code, recovery: REFUSALS[code].recovery, ...more };
}

/** A recovery as it is told: what to do, who does it, and what comes next. */
export function recoveryBody(recovery: Recovery) {
  const { owner, next } = RECOVERIES[recovery];
  return { recovery, recoveryOwner: owner, next };
}

/** Whether a text from the database names a refusal; an unknown one is a fault, never an allowance. */
export function isRefusalCode(text: string): text is RefusalCode {
  return Object.hasOwn(REFUSALS, text);
}

function entry(status: number, sentence: string, recovery: Recovery, page: string): RefusalEntry {
  return { status, sentence, recovery, page };
}
