import type { TestGateway } from '../support/gateway.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

/** An organization in which ana and ben share a thread, and what a test does there. */
export interface Pair {
  readonly acme: TestOrganization;
  /** A turn in the thread of ana and ben. */
  readonly start: () => Promise<TestTurn>;
  /** Puts a message with an id of its own, by ana and long after every join unless it says otherwise. */
  readonly write: (
    conversation: string,
    id: string,
    body: string,
    more?: object,
  ) => Promise<{ outcome?: string; seq?: string }>;
}

export async function pairOf(gateway: TestGateway): Promise<Pair> {
  const acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.say('thread', 'ana', 'go');
  return {
    acme,
    start: () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' }),
    write: (conversation, id, body, more = {}) =>
      acme.put(`conversations/${conversation}/messages/${id}`, {
        ...{ author: { user: 'ana' }, body, sentAt: '2050-01-01T00:00:00Z' },
        ...more,
      }),
  };
}
