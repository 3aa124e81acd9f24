import { logOf, type TestLog } from '../support/log.ts';
import type { Answer, TestGateway } from '../support/gateway.ts';
import type { Messages, TestTurn } from '../support/organization.ts';
import { pairOf, type Pair } from './pair.ts';

/** What is retrieved by several calls at once. */
export interface Packet {
  readonly decision: string;
  readonly results: (Omit<Messages, 'decision'> & { readonly code?: string })[];
  readonly outcome?: string;
}

/** A place where canaries are shared by ana and ben, with one of ana alone, and a turn that retrieves them. */
export interface RetrievalHouse extends Pair {
  readonly turn: TestTurn;
  readonly log: TestLog;
  readonly retrieve: (
    json: unknown,
    query?: string,
    by?: Pick<TestTurn, 'grant'>,
  ) => Promise<Answer<Packet>>;
  /** The query that names a session and its audience: the turn's own unless others are given. */
  readonly held: (session?: string, audience?: string) => string;
}

export async function retrievalHouse(gateway: TestGateway): Promise<RetrievalHouse> {
  const pair = await pairOf(gateway);
  await pair.acme.conversation('shared', ['ana', 'ben']);
  await pair.acme.conversation('private', ['ana']);
  for (const id of ['s1', 's2', 's3']) await pair.write('shared', id, `canary ${id}`);
  await pair.write('private', 'p1', 'canary of ana');
  const turn = await pair.start();
  return {
    ...pair,
    turn,
    log: logOf(gateway, turn),
    retrieve: (json, query = '', { grant } = turn) =>
      gateway.send('POST', `/v1/retrieve${query}`, { token: grant.token, json }) as Promise<
        Answer<Packet>
      >,
    held: (session = turn.grant.sessionId, audience = turn.grant.audienceHash) =>
      `?session=${session}&audience=${audience}`,
  };
}

export const search = (query: string, more: object = {}) => ({
  ...{ tool: 'search', arguments: { query, ...more } },
});
export const read = (conversation: string, more: object = {}) => ({
  ...{ tool: 'read', arguments: { conversation, ...more } },
});
