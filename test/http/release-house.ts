import { randomUUID } from 'node:crypto';
import type { z } from '@hono/zod-openapi';
import { expect } from 'vitest';
import type { AskedReleaseShape, ReleaseListShape } from '../../gateway/shapes/release-shape.ts';
import { ok, type Answer, type TestGateway } from '../support/gateway.ts';
import type { Delivery, TestOrganization, TestTurn } from '../support/organization.ts';
import { openPeople, type People } from '../support/people.ts';

export type Asked = z.infer<typeof AskedReleaseShape>;
type Page = z.infer<typeof ReleaseListShape>;
export type Listed = Page['releases'][number];

/** What a draft says unless it is told otherwise. */
export const TEXT = 'The canary sang, and it may be told.';

export interface Draft {
  readonly id: string;
  readonly text: string;
  readonly textSha256: string;
}

/**
 * An organization in which ana drafts in a thread of her own what ana, ben and cleo are to read in a room. Her thread and
 * `notes` are hers, which she alone reads; `plans` is ben's, which both read.
 */
export interface ReleaseHouse {
  readonly acme: TestOrganization;
  /** A turn in ana's own thread. */
  start(): Promise<TestTurn>;
  /** A turn that read these conversations, and the draft that was saved in it. */
  draft(text: string, ...read: string[]): Promise<{ turn: TestTurn; draft: Draft }>;
  /** A draft of ana's from her own notes, toward the room, with her yes. */
  approved(): Promise<{ turn: TestTurn; draft: Draft; release: string }>;
  /** A turn of cleo's in the room. */
  inRoom(): Promise<TestTurn>;
  erase(draft: Pick<Draft, 'id'>): Promise<unknown>;
  /** Saves a text in a turn, with the ledger of that moment as its lineage. */
  save(turn: TestTurn, text: string): Promise<Draft>;
  tryAsk(
    turn: TestTurn,
    draft: Pick<Draft, 'id'>,
    destination?: string,
    key?: string,
  ): Promise<Answer<Asked>>;
  ask(turn: TestTurn, draft: Pick<Draft, 'id'>, destination?: string): Promise<Asked>;
  page(person: string, query: string): Promise<Page>;
  list(person: string): Promise<Listed[]>;
  approve(person: string, release: string, draft: Pick<Draft, 'textSha256'>): Promise<Answer>;
  refuse(person: string, release: string): Promise<Answer>;
  /** Says who owns a conversation now; nobody where none is named. */
  own(conversation: string, owner?: string): Promise<unknown>;
}

export async function enterReleaseHouse(
  gateway: TestGateway,
  people: People,
): Promise<ReleaseHouse> {
  const acme = await gateway.organization();
  people.admit(acme.name);
  await acme.users('ana', 'ben', 'cleo', 'dan');
  const thread = { kind: 'private', aiThread: true, owner: 'ana' };
  await acme.conversation('desk', ['ana'], thread);
  await acme.conversation('notes', ['ana'], { owner: 'ana' });
  await acme.conversation('plans', ['ana', 'ben'], { owner: 'ben' });
  await acme.conversation('room', ['ana', 'ben', 'cleo'], { aiThread: true });
  await acme.say('notes', 'ana', 'the canary of the notes');
  await acme.say('plans', 'ben', 'the canary of the plans');
  await acme.say('desk', 'ana', 'draft it');
  await acme.say('room', 'ana', 'what is it');

  const asPerson = async (person: string, method: string, path: string, json?: object) =>
    gateway.send(method, path, {
      token: await people.tokenOf(person),
      ...(json !== undefined && { json: { organization: acme.name, ...json } }),
    });
  const house: ReleaseHouse = {
    acme,
    start: () => acme.turn({ destination: 'desk', requester: 'ana', trigger: '1' }),
    async draft(text, ...read) {
      const turn = await house.start();
      for (const conversation of read) ok(await turn.tool('read', { conversation }));
      return { turn, draft: await house.save(turn, text) };
    },
    async approved() {
      const { turn, draft } = await house.draft(TEXT, 'notes');
      const { id: release } = await house.ask(turn, draft);
      const status = ok(await house.approve('ana', release, draft));
      expect(status).toEqual({ id: release, status: 'approved' });
      return { turn, draft, release };
    },
    inRoom: () =>
      acme.turn({ destination: 'room', requester: 'cleo', trigger: { kind: 'schedule' } }),
    async erase({ id }) {
      const path = `/v1/artifacts/${id}?organization=${acme.name}`;
      return ok(await gateway.send('DELETE', path, { token: gateway.tokens.ingest }));
    },
    save: (turn, text) => saveDraft(gateway, turn, text),
    tryAsk: (turn, { id }, destination = 'room', key = randomUUID()) =>
      gateway.send('POST', `/v1/artifacts/${id}/releases`, {
        ...{ token: turn.grant.token, key, json: { destination } },
      }) as Promise<Answer<Asked>>,
    ask: async (...request) => ok(await house.tryAsk(...request)),
    async page(person, query) {
      const path = `/v1/releases?organization=${acme.name}&${query}`;
      return ok(await asPerson(person, 'GET', path)) as Page;
    },
    list: async (person) => (await house.page(person, 'limit=100')).releases,
    approve: (person, release, { textSha256 }) =>
      asPerson(person, 'POST', `/v1/releases/${release}/approve`, { textSha256 }),
    refuse: (person, release) => asPerson(person, 'POST', `/v1/releases/${release}/refuse`, {}),
    own: (conversation, owner) =>
      acme.put(`conversations/${conversation}`, {
        ...{ kind: 'group', visibility: 'members' },
        ...(conversation === 'desk' && thread),
        owner,
      }),
  };
  return house;
}

/** A release that ana is asked for, toward a hall that eve reads too, of a draft saved in this turn; and ana's token. */
export async function askAna(gateway: TestGateway, acme: TestOrganization, turn: TestTurn) {
  const people = await openPeople(gateway);
  people.admit(acme.name);
  await acme.users('eve');
  await acme.conversation('hall', ['ana', 'eve']);
  const draft = await saveDraft(gateway, turn, 'the canary is told of');
  const asked = (await gateway.send('POST', `/v1/artifacts/${draft.id}/releases`, {
    ...{ token: turn.grant.token, key: 'asked', json: { destination: 'hall' } },
  })) as Answer<Asked>;
  return { draft, release: ok(asked).id, person: await people.tokenOf('ana') };
}

/** Saves a text in a turn, with the ledger of that moment as its lineage. */
export async function saveDraft(
  { send }: Pick<TestGateway, 'send'>,
  turn: TestTurn,
  text: string,
): Promise<Draft> {
  const json = { kind: 'draft', title: 'A title', text };
  const saved = ok(
    await send('POST', '/v1/artifacts', { token: turn.grant.token, key: randomUUID(), json }),
  ) as { id: string; textSha256: string };
  return { id: saved.id, text, textSha256: saved.textSha256 };
}

/** Proposes a text toward the room, unless another place is named. */
export function post(turn: TestTurn, text = TEXT, destination = 'room'): Promise<Answer<Delivery>> {
  return turn.propose(text, { destination });
}

export async function isHeld(
  answer: Promise<Answer<Delivery>>,
  code = 'source_revoked',
): Promise<void> {
  const { status, code: held, clearance } = ok(await answer);
  expect({ status, held, clearance }).toEqual({ status: 'held', held: code, clearance: undefined });
}

export async function isCleared(answer: Promise<Answer<Delivery>>): Promise<Delivery> {
  const delivery = ok(await answer);
  const { status, code } = delivery;
  expect({ status, code }).toEqual({ status: 'cleared', code: undefined });
  return delivery;
}
