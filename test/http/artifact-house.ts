import { randomUUID } from 'node:crypto';
import type { z } from '@hono/zod-openapi';
import type { SavedArtifactShape } from '../../gateway/shapes/artifact-shape.ts';
import type { LineageShape } from '../../gateway/shapes/lineage-shape.ts';
import { ok, type Answer, type TestGateway } from '../support/gateway.ts';
import type { Artifacts, TestOrganization, TestTurn } from '../support/organization.ts';

export type Saved = z.infer<typeof SavedArtifactShape>;
export type Lineage = z.infer<typeof LineageShape>;

/** What is sent beside the kind and the text, or in their place. */
export type ArtifactBody = Readonly<Record<string, unknown>>;

/**
 * Ana and ben read `thread`, `second` and `notes`; `room` cleo reads too, who has none of the others. `board` is open to the
 * organization. In `notes` and on the board something is said about a canary.
 */
export interface ArtifactHouse {
  readonly acme: TestOrganization;
  start(destination?: string, more?: object): Promise<TestTurn>;
  /** Writes a message, or what it is edited to. */
  write(conversation: string, id: string, body: string, more?: object): Promise<unknown>;
  trySave(turn: TestTurn, body?: ArtifactBody, key?: string): Promise<Answer<Saved>>;
  save(turn: TestTurn, body?: ArtifactBody): Promise<Saved>;
  /** Reads the notes in a turn and saves what it makes of them. */
  saveNotes(body?: ArtifactBody): Promise<Saved>;
  read(turn: TestTurn, id: string): Promise<Answer<Artifacts>>;
  tryAssert(
    sources: readonly object[],
    body?: ArtifactBody,
    more?: { key?: string; token?: string },
  ): Promise<Answer<Saved>>;
  assert(sources: readonly object[], body?: ArtifactBody): Promise<Saved>;
  remove(id: string, token?: string): Promise<Answer>;
  lineage(id: string): Promise<Lineage>;
  lineageOf(conversation: string, seq: string): Promise<Lineage>;
}

export const TEXT = 'It is told that the canary sang.';

export async function artifactHouse(
  gateway: Pick<TestGateway, 'send' | 'tokens' | 'organization'>,
  name?: string,
): Promise<ArtifactHouse> {
  const acme = await gateway.organization(name);
  const { ingest, operator } = gateway.tokens;
  const within = `organization=${encodeURIComponent(acme.name)}`;
  await acme.users('ana', 'ben', 'cleo');
  for (const place of ['thread', 'second']) {
    await acme.conversation(place, ['ana', 'ben'], { aiThread: true });
  }
  await acme.conversation('room', ['ana', 'ben', 'cleo'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.conversation('board', [], { kind: 'channel', visibility: 'organization' });
  for (const place of ['thread', 'second', 'room']) await acme.say(place, 'ana', 'a question');

  const house: ArtifactHouse = {
    acme,
    start: (destination = 'thread', more = {}) =>
      acme.turn({ destination, requester: 'ana', trigger: '1', ...more }),
    write: (conversation, id, body, more = {}) =>
      acme.put(`conversations/${conversation}/messages/${id}`, {
        ...{ author: { user: 'ben' }, body, sentAt: '2026-01-01T00:00:00Z' },
        ...more,
      }),
    trySave: ({ grant }, body = {}, key = randomUUID()) =>
      gateway.send('POST', '/v1/artifacts', {
        ...{ token: grant.token, key, json: { kind: 'memory', text: TEXT, ...body } },
      }) as Promise<Answer<Saved>>,
    save: async (turn, body) => ok(await house.trySave(turn, body)),
    async saveNotes(body) {
      const turn = await house.start();
      ok(await turn.tool('read', { conversation: 'notes' }));
      return house.save(turn, body);
    },
    read: ({ grant }, id) =>
      gateway.send('GET', `/v1/artifacts/${id}`, { token: grant.token }) as Promise<
        Answer<Artifacts>
      >,
    tryAssert: (sources, body = {}, { key = randomUUID(), token = ingest } = {}) =>
      gateway.send('POST', `/v1/organizations/${encodeURIComponent(acme.name)}/artifacts`, {
        ...{ token, key, json: { kind: 'memory', text: TEXT, sources, ...body } },
      }) as Promise<Answer<Saved>>,
    assert: async (...request) => ok(await house.tryAssert(...request)),
    remove: (id, token = ingest) =>
      gateway.send('DELETE', `/v1/artifacts/${id}?${within}`, { token }),
    lineage: async (id) =>
      ok(
        await gateway.send('GET', `/v1/artifacts/${id}/lineage?${within}`, { token: operator }),
      ) as Lineage,
    lineageOf: async (conversation, seq) =>
      ok(
        await gateway.send(
          'GET',
          `/v1/lineage?${within}&conversation=${encodeURIComponent(conversation)}&seq=${seq}`,
          { token: operator },
        ),
      ) as Lineage,
  };
  await house.write('notes', 'n1', 'the canary sang');
  await house.write('notes', 'n2', 'it was loud');
  await house.write('board', 'b1', 'a canary on the board');
  return house;
}
