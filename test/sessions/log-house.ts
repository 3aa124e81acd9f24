import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { ok, type Answer, type TestGateway } from '../support/gateway.ts';
import { logOf, messagesAmong, type TestLog, text } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';
import type { Mutant } from '../worlds/mutant.ts';

/** What holds of a log, and the changes of its functions under which it must be seen not to. */
export interface Way {
  readonly way: string;
  /** Fails an expectation where it does not hold. Anything else that it throws is a fault. */
  readonly holds: (house: LogHouse) => Promise<void>;
  readonly mutants: readonly Mutant[];
}

export function change(title: string, routine: string, from: string, to: string): Mutant {
  return { title, routine, from, to };
}

/** A session that a turn has entered. */
export interface Entered {
  readonly log: TestLog;
  readonly turn: TestTurn;
  /** A second turn, which is shown nothing unless a way has it read. */
  readonly writer: TestTurn;
  readonly another: () => Promise<TestTurn>;
}

/** An organization in which each way gets a session of its own. */
export interface LogHouse {
  readonly gateway: TestGateway;
  readonly acme: TestOrganization;
  /** A new session in one of the places. */
  readonly enter: (place?: 'thread' | 'open' | 'team') => Promise<Entered>;
}

/**
 * `thread` and `notes` are read by ana and ben, `open` by the organization, `team` by a project that bears the name
 * of nobody, and ana is its member.
 */
export async function openHouse(gateway: TestGateway): Promise<LogHouse> {
  const acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo', 'agent:zoe');
  await acme.put('projects/ana-team', { members: ['ana', 'ben'] });
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.conversation('open', [], {
    ...{ aiThread: true, visibility: 'organization', kind: 'channel' },
  });
  await acme.conversation('team', [], {
    ...{ aiThread: true, visibility: 'project', project: 'ana-team', kind: 'channel' },
  });
  for (const place of ['thread', 'open', 'team']) await acme.say(place, 'ana', 'a question');
  for (const body of ['one', 'two']) await acme.say('notes', 'ben', body);

  return {
    gateway,
    acme,
    async enter(destination = 'thread') {
      const request = { destination, requester: 'ana', trigger: '1', threadKey: randomUUID() };
      const another = () => acme.turn(request);
      const turn = await another();
      return { turn, writer: await another(), another, log: logOf(gateway, turn) };
    },
  };
}

/** What people said, which no turn is asked about. */
export const said = (...blocks: object[]) => ({ role: 'user', participant: 'ben', blocks });

/** Something for everybody, for ana, in a shared entry and in one of her own, and for ben. */
export async function mixedLog(log: TestLog) {
  const ids = await log.append(
    said(text('an open word'), text('CANARY word', 'ana')),
    said(text('CANARY word of its own', 'ana')),
    said(text('a word for ben', 'ben')),
    said(text('the last word')),
  );
  const [shared = '', ofAna = '', ofBen = '', last = ''] = ids;
  const ben = await placeOf(log, 'ben');
  return { ben, shared, ofAna, ofBen, last };
}

/** A place for one reader. */
export async function placeOf(
  log: TestLog,
  reader: string,
  name = `of ${reader}`,
): Promise<TestLog> {
  return log.through((await log.open({ name, reader })).handle);
}

/** Something came, and nothing of ana. */
export function hides(answer: Answer): void {
  const found = JSON.stringify(ok(answer));
  expect(found).toContain('word');
  expect(found).not.toContain('CANARY');
}

/** A refusal with this code. A fault is neither that nor a leak. */
export function refuses({ status, code, body }: Answer, expected: string): void {
  if (status >= 500) throw new Error(JSON.stringify(body));
  expect(code).toBe(expected);
}

const seqs = (sources: Parameters<typeof messagesAmong>[0]) =>
  messagesAmong(sources).map(({ seq }) => seq);

/** What the provenance of a compile and the entries of a page say of the only entry's sources. */
export async function sourcesTold(log: TestLog): Promise<string[]> {
  const [first] = ok(await log.compile()).provenance;
  const [same] = ok(await log.entries()).entries;
  expect(seqs(same?.sources)).toEqual(seqs(first?.sources));
  return seqs(first?.sources);
}

/** Appends an entry from a message of its own, which changes then. */
export async function changeSource({ acme }: LogHouse, log: TestLog): Promise<void> {
  const path = `conversations/notes/messages/${randomUUID()}`;
  const message = { author: { user: 'ben' }, body: 'a note', sentAt: '2026-01-01T00:00:00Z' };
  const { seq = '' } = await acme.put(path, message);
  await log.append({ ...said(text('made of it')), sources: [{ conversation: 'notes', seq }] });
  await acme.put(path, { ...message, body: 'another', editedAt: '2026-01-02T00:00:00Z' });
}
