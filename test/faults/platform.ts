import type { CarrierOptions, OutgoingMessage } from '../../delivery/carrier.ts';

/** A place where messages are shown, which remembers each showing and forgets none: it outlives every process of a test. */
export interface Platform {
  /** Shows a message; gives the id that it has there. */
  show(message: Pick<OutgoingMessage, 'deliveryId' | 'payload'>): string;
  /** The texts that were shown for a delivery, in order. */
  shownFor(deliveryId: string): readonly string[];
  /** Its own record, as an endpoint asks for it. */
  readonly find: NonNullable<CarrierOptions['find']>;
}

export function openPlatform(): Platform {
  const shown: { readonly deliveryId: string; readonly payload: string }[] = [];
  const shownFor = (id: string) =>
    shown.filter(({ deliveryId }) => deliveryId === id).map(({ payload }) => payload);
  return {
    shownFor,
    show({ deliveryId, payload }) {
      shown.push({ deliveryId, payload });
      return messageOf(deliveryId);
    },
    find: ({ deliveryId }) =>
      Promise.resolve(
        shownFor(deliveryId).length > 0 ? { message: messageOf(deliveryId) } : 'absent',
      ),
  };
}

/** The id of the message that a delivery becomes there. */
export function messageOf(deliveryId: string): string {
  return `m-${deliveryId}`;
}
