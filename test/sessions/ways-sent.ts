import { decodeJwt } from 'jose';
import { expect } from 'vitest';
import { digestOf } from '../../gateway/tokens/grant-token.ts';
import { sendLog } from '../../sql/log-compile.ts';
import { ok } from '../support/gateway.ts';
import { text } from '../support/log.ts';
import type { TestTurn } from '../support/organization.ts';
import { change, placeOf, refuses, said, type LogHouse, type Way } from './log-house.ts';
import { long, note, shownIn, writtenLog } from './summary-house.ts';

/** What a compile is made from beside entries and summaries, and what is put on record of it. */
export const SENT: readonly Way[] = [
  {
    way: 'what was sent last is each place’s own',
    async holds({ enter }) {
      const { log } = await enter();
      await log.append(said(text('a word')), said(text('another')));
      const ana = await placeOf(log, 'ana');
      ok(await ana.compile());
      expect(ok(await log.preview()).stats.shared.messages).toBe(0);
      expect(ok(await ana.preview()).stats.shared.messages).toBe(2);
    },
    mutants: [
      change(
        'it is put down for the default one',
        'send_log',
        'values (org, p_session, place.name, p_mark',
        "values (org, p_session, 'default', p_mark",
      ),
      change(
        'that of the default one is compared with',
        'compile_log',
        'l.session_id = p_session and l.namespace = p_place.name)',
        "l.session_id = p_session and l.namespace = 'default')",
      ),
    ],
  },
  {
    way: 'what was refused was not sent',
    async holds(house) {
      const { log, turn } = await house.enter();
      await log.append(said(text('a word')));
      refuses(await log.compile({ budget: 0 }), 'over_budget');
      expect(await putDown(house, turn, '1', 'over_budget')).toBe('over_budget');
      expect(ok(await log.preview()).stats.shared.messages).toBe(0);
      expect(await sendsOf(house, turn)).toBe(0);
    },
    mutants: [
      change(
        'it counts as sent',
        'send_log',
        'if code is null then\n    insert into log_sends',
        'if code is null or p_refused is not null then\n    insert into log_sends',
      ),
    ],
  },
  {
    way: 'nothing is put on record as sent that was not announced',
    async holds(house) {
      const { log, turn } = await house.enter();
      await log.append(said(text('a word')));
      const desk = (await log.open({ name: 'desk' })).handle;
      expect(await putDown(house, turn, '1')).toBe('conflict');
      expect(await putDown(house, turn, '0', undefined, desk)).toBe('conflict');
      ok(await log.preview());
      expect(await putDown(house, turn, '1')).toBeUndefined();
    },
    mutants: [
      change('the watermark is not asked', 'send_log', 'or place.watermark < p_mark', ''),
      change('the claim is not asked', 'send_log', 'not place.claimed or', ''),
    ],
  },
  {
    way: 'nothing is put on record as sent for a grant that has ended',
    async holds(house) {
      const { log, turn } = await house.enter();
      ok(await log.preview());
      await turn.end('stop');
      expect(await putDown(house, turn, '0')).toBe('turn_not_running');
      expect(await sendsOf(house, turn)).toBe(0);
    },
    mutants: [change('it is not asked', 'send_log', 'code := call.code', 'code := null')],
  },
  {
    way: 'the pins of another place pin nothing here',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      const ben = await placeOf(log, 'ben');
      await ben.summarize({ from: ids.one, to: ids.four }, 'in short');
      ok(await log.pin(ids.two));
      expect(await shownIn(ben)).toEqual(['S: in short']);
      ok(await ben.pin(ids.three));
      expect(await shownIn(ben)).toEqual(['S: in short', 'three']);
    },
    mutants: [
      change(
        'every place’s pins do',
        'compile_log',
        'p.session_id = p_session and p.namespace = p_place.name',
        'p.session_id = p_session',
      ),
    ],
  },
  {
    way: 'what is placed came from what the audience reads, and is answered for',
    async holds(house) {
      const { log } = await house.enter();
      await log.append(said(text(long('a question'))));
      await house.acme.conversation('diary', ['ana']);
      await house.acme.say('diary', 'ana', 'CANARY');
      const from = (...sources: { conversation: string; seq: string }[]) => [
        { source: 'wiki', placement: 'each_compile' as const, parts: [{ text: 'words', sources }] },
      ];
      const own = await note(house);
      const foreign = { conversation: 'diary', seq: '1' };
      for (const injections of [from(foreign), from(own.source, foreign)])
        refuses(await log.compile({ injections }), 'not_found');
      ok(await log.compile({ injections: from(own.source) }));
      await own.remove();
      refuses(await log.compile(), 'source_revoked');
    },
    mutants: [
      change(
        'what is not there is left out',
        'compile_log',
        "cardinality(placed) <> jsonb_array_length(coalesce(p_arguments -> 'sources', '[]'))",
        'false',
      ),
      change(
        'the ledger does not get it',
        'compile_log',
        'summary_sources(org, p_session, found_ids) || placed',
        'summary_sources(org, p_session, found_ids)',
      ),
    ],
  },
];

/** Puts an empty compile on record as sent by the door itself, and gives the code of its refusal. */
async function putDown(
  { gateway }: LogHouse,
  { grant }: TestTurn,
  mark: string,
  refused?: 'over_budget',
  namespace?: string,
): Promise<string | undefined> {
  const caller = {
    digest: digestOf(decodeJwt(grant.token).jti ?? ''),
    session: grant.sessionId,
    audienceHash: grant.audienceHash,
  };
  const sent = { mark, held: [], chain: new Uint8Array(0), items: 0 };
  const answer = await sendLog(gateway.gateway.database, caller, namespace, sent, refused);
  return answer.ok ? undefined : answer.code;
}

async function sendsOf({ gateway }: LogHouse, { grant }: TestTurn): Promise<number> {
  const rows = await gateway.owner`
    select from earshot.log_sends where session_id = ${grant.sessionId}`;
  return rows.length;
}
