/** What `earshot/client` offers to those who write a bridge. */
export { createClient } from './client.ts';
export type {
  AroundArguments,
  CallOptions,
  Client,
  ClientOptions,
  ListArguments,
  Proposal,
  ReadArguments,
  SearchArguments,
  TakenLease,
  ThreadArguments,
  TurnName,
  TurnRequest,
} from './client.ts';
export type {
  AudienceChanges,
  ConversationPacket,
  Delivery,
  Grant,
  Lease,
  MessageItem,
  MessagePacket,
  Proposed,
  Released,
  Turn,
  Version,
} from './answer-shape.ts';
export { recover } from './client-refusal.ts';
export type {
  Answer,
  ClientRefusal,
  GatewayRefusal,
  LocalCode,
  LocalRefusal,
} from './client-refusal.ts';
export { systemClock, type Clock } from './clock.ts';
export { memoryOfProcess, type GrantMemory } from './grant-memory.ts';
export { keepLease, type KeptLease } from './kept-lease.ts';
export type { RetryPolicy } from './retry.ts';
export { runTurn } from './run-turn.ts';
export type {
  Agent,
  Cleared,
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
export type { Recovery, RefusalCode } from '../policy/refusal.ts';
