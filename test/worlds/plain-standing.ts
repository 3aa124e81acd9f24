import { audienceOf, fingerprint, isInAudience, type Audience } from '../../policy/audience.ts';
import type { ExternalId } from '../../policy/identity.ts';
import type { Instant } from '../../policy/instant.ts';
import { modeOf, type TriggerKind, type TurnMode } from '../../policy/mode.ts';
import { floorOf } from '../../policy/reader.ts';
import type { RefusalCode } from '../../policy/refusal.ts';
import { artifactInScope, messageInScope, scopeOf, type Scope } from '../../policy/scope.ts';
import type { WorldConversation } from '../../policy/world.ts';
import { textOf, type TestText, type TestWorld } from './world-generator.ts';

/** One question about a turn: who works for whom, toward where, and why. */
export interface TurnCase {
  readonly destination: WorldConversation;
  readonly requester: ExternalId;
  readonly trigger: TriggerKind | 'disclosure';
  /** The message that caused the turn; a schedule and a disclosure have none. */
  readonly triggerSeq?: bigint;
}

export type PlainStanding =
  | { readonly code: RefusalCode }
  | {
      readonly code: null;
      readonly audience: Audience;
      readonly audienceHash: string;
      readonly mode: TurnMode;
    };

/**
 * How a turn stands by the plain rules, in the order in which the checks are made. The persona is
 * designated, the guard is running and nothing is stopped in every world.
 */
export function plainStanding(world: TestWorld, turn: TurnCase, now: Instant): PlainStanding {
  const { destination, requester, trigger } = turn;
  if (!world.organization.active) return { code: 'organization_paused' };
  if (!acceptsTurns(world, destination)) return { code: 'destination_closed' };
  const audience = audienceOf(world, destination, now);
  if (!audience.ok) return { code: audience.code };
  if (!isInAudience(world, destination, audience, requester)) return { code: 'requester_left' };
  const caused = trigger === 'thread' || trigger === 'mention';
  if (caused && !triggerStands(world, turn, audience)) return { code: 'trigger_out_of_scope' };
  const mode = modeOf(destination, audience, requester, trigger);
  // An open turn has been valid once, so what makes it invalid now is a change.
  if (!mode.ok) return { code: mode.code === 'invalid_input' ? 'mode_changed' : mode.code };
  return { code: null, audience, audienceHash: fingerprint(audience), mode };
}

/** Whether a person reads a conversation. Asked before the organization's own state is. */
export function plainReads(
  world: TestWorld,
  user: ExternalId,
  conversation: WorldConversation,
  now: Instant,
): boolean {
  const active = { ...world, organization: { ...world.organization, active: true } };
  return floorOf(active, { kind: 'user', user }, conversation, now) !== undefined;
}

/** The scope of a turn that stands. */
export function plainScope(
  world: TestWorld,
  turn: TurnCase,
  standing: PlainStanding & { code: null },
  now: Instant,
  recipient?: ExternalId,
): Scope {
  return scopeOf(
    world,
    turn.destination,
    standing.audience,
    standing.mode,
    turn.requester,
    now,
    recipient,
  );
}

/** What may be seen in a scope, in the order of facts: messages, then artifacts. */
export function plainVisible(world: TestWorld, scope: Scope, destination: ExternalId): TestText[] {
  return [
    ...world.messages.filter((message) => messageInScope(world, scope, destination, message)),
    ...world.artifacts
      .filter((artifact) => artifactInScope(world, scope, destination, artifact))
      .map(textOf),
  ];
}

function acceptsTurns(
  world: TestWorld,
  { deleted, staged, archived, project }: WorldConversation,
): boolean {
  if (deleted || staged || archived) return false;
  return project === undefined || world.projects.get(project)?.active === true;
}

function triggerStands(
  world: TestWorld,
  { destination, requester, triggerSeq }: TurnCase,
  audience: Audience,
) {
  const message = world.messages.find(
    ({ conversation, seq }) => conversation === destination.id && seq === triggerSeq,
  );
  if (message === undefined || message.deleted || message.seq < audience.floor) return false;
  return (
    message.author !== undefined && 'user' in message.author && message.author.user === requester
  );
}
