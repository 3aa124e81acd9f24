import { randomUUID } from 'node:crypto';
import { ok, type Answer } from '../support/gateway.ts';
import { text, type TestLog } from '../support/log.ts';
import type { TestOrganization } from '../support/organization.ts';
import { said, type Entered, type LogHouse } from './log-house.ts';

/** A text that no short summary is dearer than. */
export const long = (word: string) => `${word} ${'and so on '.repeat(40)}`.trim();

/** A log of four long entries. */
export async function writtenLog({ enter }: LogHouse) {
  const entered: Entered = await enter();
  const words = ['one', 'two', 'three', 'four'].map(long);
  const ids = await entered.log.append(...words.map((word) => said(text(word))));
  const [one = '', two = '', three = '', four = ''] = ids;
  return { ...entered, words, ids: { one, two, three, four } };
}

/** How the texts of a compile begin, those of summaries after `S: `. */
export async function shownIn(log: TestLog): Promise<(string | undefined)[]> {
  const texts = await log.texts();
  return texts.map(
    (body) => body.replace(/^\[a summary of \d+ earlier entries\]\n/u, 'S: ').split(' and')[0],
  );
}

/** The summaries that a place lists. */
export async function listed(log: TestLog) {
  return ok(await log.summaries()).summaries;
}

/** All that a summary could leave behind. */
export async function leftIn({ gateway }: LogHouse, { session }: TestLog) {
  const [row] = await gateway.owner`
    select (select count(*) from earshot.log_summaries where session_id = ${session}) as summaries,
      (select count(*) from earshot.log_summary_sources where session_id = ${session}) as sources,
      (select count(*) from earshot.log_appends where session_id = ${session}) as keys,
      (select change from earshot.log_heads where session_id = ${session}) as change`;
  return row;
}

/** A message in a conversation of its own, which ana and ben read, and what can happen to it. */
export async function note({ acme }: { readonly acme: TestOrganization }) {
  const conversation = `notes ${randomUUID()}`;
  const at = `conversations/${encodeURIComponent(conversation)}`;
  const message = { author: { user: 'ben' }, body: 'a note', sentAt: '2026-01-01T00:00:00Z' };
  await acme.conversation(conversation, ['ana', 'ben']);
  const { seq = '' } = await acme.put(`${at}/messages/m`, message);
  return {
    source: { conversation, seq },
    remove: () => acme.remove(`${at}/messages/m`),
    close: () => acme.remove(`${at}/members/ben`),
    async edit() {
      const edited = { ...message, body: 'another', editedAt: '2026-01-02T00:00:00Z' };
      await acme.put(`${at}/messages/m`, edited);
    },
  };
}

/** Whether a session's ledger has anything of a conversation. */
export async function isInLedger(
  { gateway }: LogHouse,
  { session }: TestLog,
  { conversation }: { readonly conversation: string },
): Promise<boolean> {
  const rows = await gateway.owner`
    select from earshot.ledger_entries l
    join earshot.conversations c on c.org_id = l.org_id and c.id = l.conversation_id
    where l.session_id = ${session} and c.external_id = ${conversation}`;
  return rows.length > 0;
}

/** Summarizes entries as a host does, and names sources beside what is under the summary. */
export async function declare(
  log: TestLog,
  [from, to]: readonly [from: string, to: string],
  sources: readonly object[],
  key?: string,
): Promise<Answer<{ summary: string }>> {
  const { state } = ok(await log.summaryInput(from, to));
  return log.trySummarize({ from, to, state, text: 'short', sources }, key);
}
