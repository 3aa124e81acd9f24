import { randomUUID } from 'node:crypto';
import { decodeJwt } from 'jose';
import { expect } from 'vitest';
import { digestOf } from '../../gateway/tokens/grant-token.ts';
import { CompileMaterial } from '../../sessions/compile/compile-material.ts';
import { readLog } from '../../sql/context-log.ts';
import { ok, type Answer } from '../support/gateway.ts';
import { text, type TestLog } from '../support/log.ts';
import type { TestTurn } from '../support/organization.ts';
import { change, changeSource, refuses, said, type LogHouse, type Way } from './log-house.ts';

const reads: readonly ((log: TestLog, id: string) => Promise<Answer>)[] = [
  (log) => log.compile(),
  (log) => log.preview(),
  (log) => log.entries(),
  (log) => log.search('word'),
  (log, id) => log.summaryInput(id, id),
  (log) => log.pins(),
  (log) => log.describe(),
];

/** What a session was shown is asked before anything is read from it, and a read is announced before it happens. */
export const ANNOUNCED: readonly Way[] = [
  {
    way: 'nothing is read once a source has changed',
    async holds(house) {
      for (const read of reads) {
        const { log } = await house.enter();
        const [id = ''] = await log.append(said(text('a word')));
        await changeSource(house, log);
        refuses(await read(log, id), 'source_changed');
      }
    },
    mutants: [
      change(
        'the ledger is not asked',
        'look',
        'judge_ledger(p_call.live, held.id, p_now)',
        'null',
      ),
      change(
        'an entry’s sources are not in it',
        'note_sources',
        'where s.org_id = p_org and',
        'where false and',
      ),
    ],
  },
  {
    way: 'nothing is forked once a source has changed',
    async holds(house) {
      const { log } = await house.enter();
      await changeSource(house, log);
      refuses(await log.tryFork('late'), 'source_changed');
    },
    mutants: [
      change(
        'the ledger is not asked',
        'fork_log',
        'judge_ledger(call.live, p_session, t)',
        'null',
      ),
    ],
  },
  {
    way: 'a fork answers for what its parent was shown',
    async holds(house) {
      const { log } = await house.enter();
      const path = `conversations/notes/messages/${randomUUID()}`;
      const message = { author: { user: 'ben' }, body: 'a note', sentAt: '2026-01-01T00:00:00Z' };
      const { seq = '' } = await house.acme.put(path, message);
      await log.append({ ...said(text('made of it')), sources: [{ conversation: 'notes', seq }] });
      const fork = await log.fork('side');
      await house.acme.remove(path);
      refuses(await fork.compile(), 'source_revoked');
    },
    mutants: [
      change(
        'its ledger is empty',
        'fork_log',
        'order by l.conversation_id, l.from_seq',
        'limit 1',
      ),
    ],
  },
  {
    way: 'what a turn makes of a fork answers for what the fork was shown',
    async holds(house) {
      const { log, turn } = await house.enter();
      await changeSource(house, await log.fork('side'));
      const held = ok(await turn.propose('made of the fork'));
      expect([held.status, held.code]).toEqual(['held', 'source_changed']);
    },
    mutants: [
      change(
        'its forks are not kept with a turn',
        'record_session_call',
        'if (p_call.session).parent_id is not null then',
        'if false then',
      ),
    ],
  },
  {
    way: 'a source that the audience does not read is not there',
    async holds({ enter, acme }) {
      const { log } = await enter();
      await acme.conversation('diary', ['ana']);
      await acme.say('diary', 'ana', 'CANARY');
      const sources = [{ conversation: 'diary', seq: '1' }];
      refuses(await log.tryAppend([{ ...said(text('made of it')), sources }]), 'not_found');
    },
    mutants: [
      change(
        'what is not there is left out',
        'write_entry',
        'stored <> jsonb_array_length(p_sources)',
        'false',
      ),
    ],
  },
  {
    way: 'a read that was not announced does not happen',
    async holds({ enter, gateway }) {
      const { log, turn } = await enter();
      await log.append(said(text('a word')));
      const desk = (await log.open({ name: 'desk' })).handle;
      for (const [namespace, mark] of [
        [undefined, '1'],
        [desk, '0'],
      ] as const) {
        const answer = await directly(gateway, turn, namespace, mark);
        expect(answer.ok ? undefined : answer.code).toBe('conflict');
      }
    },
    mutants: [
      change('the watermark is not asked', 'look', 'place.watermark < p_mark', 'false'),
      change('the claim is not asked', 'look', 'when not place.claimed or', 'when'),
    ],
  },
  {
    way: 'no caller picks an earlier state of a log',
    async holds({ enter, gateway }) {
      const { log, turn } = await enter();
      const [id = ''] = await log.append(said(text('first')));
      ok(await log.edit(id, '1', [text('second')]));
      ok(await log.compile());
      const answer = await directly(gateway, turn, undefined, '1');
      if (!answer.ok) throw new Error(answer.code);
      expect(answer.result.entries.map(({ blocks }) => blocks)).toEqual([[text('second')]]);
    },
    mutants: [
      change('it is read as of the mark', 'look', 'mark := place.watermark', 'mark := p_mark'),
    ],
  },
];

/** Reads by the door itself, with a mark of choice. */
export function directly(
  { gateway }: LogHouse['gateway'],
  { grant }: TestTurn,
  namespace: string | undefined,
  mark: string,
) {
  const caller = {
    digest: digestOf(decodeJwt(grant.token).jti ?? ''),
    session: grant.sessionId,
    audienceHash: grant.audienceHash,
  };
  return readLog(gateway.database, caller, namespace, 'compile', {}, mark, CompileMaterial);
}
