/** What `earshot/delivery` offers to those who run a delivery endpoint. */
export type {
  CarrierOptions,
  DeliverOutcome,
  EditResult,
  OutgoingEdit,
  OutgoingMessage,
  SendResult,
} from './carrier.ts';
export { keysAt, keysOf } from './clearance-check.ts';
export type { ClearanceKeys, EndpointCode, EndpointRefusal } from './clearance-check.ts';
export { createEndpoint } from './endpoint.ts';
export type { DeliverRequest, Endpoint, EndpointOptions } from './endpoint.ts';
export { memoryJournal, type Journal, type JournalEntry } from './journal.ts';
export { deliverCleared, type Delivered, type DeliveryVariables } from './middleware.ts';
export { createWorker } from './queue-worker.ts';
export type { Carried, QueueWorker, Round, RoundOptions, WorkerOptions } from './queue-worker.ts';
export type { Reconciled } from './settlement.ts';
