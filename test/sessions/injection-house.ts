import type { CompiledLog } from '../../sessions/compile/compile-shape.ts';
import type { InjectionUnit } from '../../sessions/injections.ts';
import type { TestGateway } from '../support/gateway.ts';
import { logOf, text, type TestLog } from '../support/log.ts';
import type { TestOrganization, TestTurn } from '../support/organization.ts';

/** A log into which context is injected, and what a test does around it. */
export interface InjectionHouse {
  readonly acme: TestOrganization;
  readonly turn: TestTurn;
  readonly log: TestLog;
  /** One more turn of the same session. */
  readonly start: () => Promise<TestTurn>;
  /** What stands in a log as stored injections, in their order, as `source: text`. */
  readonly stored: (of?: TestLog) => Promise<string[]>;
}

/** An organization whose thread has ana and ben, with notes that both read and a page of ana's own. */
export async function injectionHouse(gateway: TestGateway): Promise<InjectionHouse> {
  const acme = await gateway.organization();
  await acme.users('ana', 'ben', 'cleo');
  await acme.conversation('thread', ['ana', 'ben'], { aiThread: true });
  await acme.conversation('notes', ['ana', 'ben']);
  await acme.conversation('private', ['ana']);
  await acme.say('thread', 'ana', 'a question');
  await acme.put('conversations/notes/messages/n1', noteOf('the canary sang'));
  await acme.say('private', 'ana', 'of ana alone');
  const start = () => acme.turn({ destination: 'thread', requester: 'ana', trigger: '1' });
  const turn = await start();
  const log = logOf(gateway, turn);
  return {
    ...{ acme, turn, log, start },
    async stored({ session } = log) {
      const rows = await gateway.owner<{ row: string }[]>`
        select e.injection || ': ' || (select string_agg(b ->> 'text', '|' order by nth)
          from jsonb_array_elements(e.blocks) with ordinality as x(b, nth)) as row
        from earshot.log_entries e
        where e.session_id = ${session} and e.injection is not null order by e.position`;
      return rows.map(({ row }) => row);
    },
  };
}

/** The message in the notes, or what it is edited to. */
export function noteOf(body: string, more: object = {}) {
  return { author: { user: 'ben' }, body, sentAt: '2026-01-01T00:00:00Z', ...more };
}

/** What a source gives, of texts. */
export function unit(source: string, ...texts: string[]): InjectionUnit {
  return { source, parts: texts.map((text) => ({ text })) };
}

/** A unit that came from the notes. */
export function noted(source: string, text: string): InjectionUnit {
  return { source, parts: [{ text, sources: [{ conversation: 'notes', seq: '1' }] }] };
}

/** What a person wrote. */
export function said(words: string, participant = 'ana') {
  return { role: 'user', participant, blocks: [text(words)] };
}

/** A request in short: of each message where it comes from, and its texts. */
export function outline({ messages, provenance }: CompiledLog): string[] {
  return messages.map(({ content }, nth) => {
    const { kind, source } = provenance[nth] ?? {};
    const words = content
      .map((block) => (typeof block.text === 'string' ? block.text : block.type))
      .join('|');
    return `${kind ?? ''}${source === undefined ? '' : ` of ${source}`}: ${words}`;
  });
}
