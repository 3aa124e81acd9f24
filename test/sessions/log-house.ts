import { randomUUID } from 'node:crypto';
import type { TestGateway } from '../support/gateway.ts';
import { logOf, type TestLog } from '../support/log.ts';
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
  await acme.users('ana', 'ben', 'cleo');
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
