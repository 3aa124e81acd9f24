/** What `earshot/delivery` offers to those who run a delivery endpoint. */
export { keysAt, keysOf } from './clearance-check.ts';
export type { ClearanceKeys, EndpointCode, EndpointRefusal } from './clearance-check.ts';
export { createEndpoint } from './endpoint.ts';
export type {
  DeliverOutcome,
  DeliverRequest,
  Endpoint,
  EndpointOptions,
  OutgoingMessage,
  Reconciled,
  SendResult,
} from './endpoint.ts';
export { memoryJournal, type Journal, type JournalEntry } from './journal.ts';
export { deliverCleared, type Delivered, type DeliveryVariables } from './middleware.ts';
