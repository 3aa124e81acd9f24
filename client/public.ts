/** What `earshot/client` offers to those who write a bridge. */
export { createClient } from './client.ts';
export type { ArtifactDraft, ReleaseQuestion } from './artifact-calls.ts';
export type { CallOptions } from './call.ts';
export type {
  AroundArguments,
  Client,
  ClientOptions,
  ListArguments,
  ReadArguments,
  SearchArguments,
  TakenLease,
  ThreadArguments,
  TurnName,
  TurnRequest,
} from './client.ts';
export type {
  ArtifactItem,
  AskedRelease,
  AudienceChanges,
  ClaimedDelivery,
  Cleared,
  ConversationPacket,
  Delivery,
  DeliveryPage,
  DeliveryStatus,
  Grant,
  Lease,
  MessageItem,
  MessagePacket,
  Proposed,
  Queued,
  Released,
  SavedArtifact,
  Turn,
  Version,
} from './answer-shape.ts';
export type {
  Answer,
  ClientRefusal,
  GatewayRefusal,
  LocalCode,
  LocalRefusal,
} from './client-refusal.ts';
export { systemClock, type Clock } from './clock.ts';
export type {
  AcknowledgeArguments,
  ClaimArguments,
  DeliveryName,
  ListDeliveriesArguments,
  Proposal,
  ReleaseArguments,
} from './delivery-calls.ts';
export { memoryOfProcess, type GrantMemory } from './grant-memory.ts';
export { keepLease, type KeptLease } from './kept-lease.ts';
export { recover, recoveryOf } from './recovery.ts';
export type {
  Recovered,
  RecoveryMeans,
  RecoveryStep,
  ReduceAudience,
  Stopped,
} from './recovery.ts';
export type { RetryPolicy } from './retry.ts';
export { runTurn } from './run-turn.ts';
export type {
  Agent,
  DeliveryRefusal,
  HeldAnswer,
  RunOptions,
  TurnOutcome,
  WorkResult,
} from './run-turn.ts';
export {
  legacySessionIdFor,
  requestTurnGrant,
  type Admission,
  type GrantRequest,
} from './turn-grant.ts';
export { sessionIdFor, type SessionParts } from '../policy/session-id.ts';
export type { Recovery, RecoveryOwner, RefusalCode } from '../policy/refusal.ts';
