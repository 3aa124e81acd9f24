import { expect } from 'vitest';
import { ok } from '../support/gateway.ts';
import { messagesAmong, type TestLog, text } from '../support/log.ts';
import { change, placeOf, refuses, said, type LogHouse, type Way } from './log-house.ts';
import { declare, listed, long, note, shownIn, writtenLog } from './summary-house.ts';

const namedIn = async (log: TestLog) =>
  (await listed(log))
    .flatMap(({ sources }) => messagesAmong(sources).map((one) => one.conversation))
    .sort();
const conversationsOf = (...notes: Awaited<ReturnType<typeof note>>[]) =>
  notes.map(({ source }) => source.conversation).sort();

/** How a summary is written. */
export const SUMMARIZING: readonly Way[] = [
  {
    way: 'a summary is taken for entries as its writer saw them',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      const { state } = ok(await log.summaryInput(ids.one, ids.two));
      ok(await log.edit(ids.two, '1', [text(long('deux'))]));
      const summary = { from: ids.one, to: ids.two, state, text: 'of what was' };
      refuses(await log.trySummarize(summary), 'conflict');
      expect(await shownIn(log)).toEqual(['one', 'deux', 'three', 'four']);
    },
    mutants: [
      change(
        'any state will do',
        'write_summary',
        "is distinct from p_summary ->> 'state'",
        'is null',
      ),
      change(
        'an edit changes no state',
        'state_of',
        "v.id::text || '.' || v.revision::text",
        'v.id::text',
      ),
    ],
  },
  {
    way: 'a summary is of what its place shows, and came from no more than that',
    async holds(house) {
      const { log } = await house.enter();
      const [open, hidden, inside] = [await note(house), await note(house), await note(house)];
      const [first = '', ofAna = '', last = ''] = await log.append(
        { ...said(text(long('open'))), sources: [open.source] },
        { ...said(text(long('CANARY'), 'ana')), sources: [hidden.source] },
        {
          ...said(text(long('last')), text('CANARY', 'ana')),
          sources: [{ ...inside.source, block: 1 }],
        },
      );
      const ben = await placeOf(log, 'ben');
      await ben.summarize({ from: first, to: last }, 'in short');
      expect(await shownIn(ben)).toEqual(['S: in short']);
      expect(await namedIn(ben)).toEqual(conversationsOf(open));
      const state = '0'.repeat(64);
      const over = (from: string, to: string) => ben.trySummarize({ from, to, state, text: 'x' });
      for (const answer of [await over(ofAna, ofAna), await over(first, ofAna)])
        refuses(answer, 'not_found');
    },
    mutants: [
      change(
        'it is of what is hidden there',
        'write_summary',
        'covered := array(select v.pos from log_view(',
        'covered := array(select v.pos from whole_view(',
      ),
      change(
        'what is hidden is among its sources',
        'write_summary',
        'from log_view(org, p_session, head.change, readers, place.agent, place.name) v\n      join log_sources',
        'from whole_view(org, p_session, head.change, readers, place.agent, place.name) v\n      join log_sources',
      ),
      change(
        'hidden blocks are among its sources',
        'write_summary',
        '(s.block is null or is_shown(v.whole, s.block, readers))',
        'true',
      ),
      change('what is hidden can be named', 'ends_of', 'from log_view(', 'from whole_view('),
      change(
        'one of the ends is enough',
        'ends_of',
        'when cardinality(ends) = (case when p_from = p_to then 1 else 2 end)',
        'when cardinality(ends) > 0',
      ),
    ],
  },
  {
    way: 'a summary came from all that what is under it came from, and from what is named besides',
    async holds(house) {
      const { log } = await house.enter();
      const [under, named, above] = [await note(house), await note(house), await note(house)];
      const [id = ''] = await log.append({ ...said(text(long('one'))), sources: [under.source] });
      const { summary } = ok(await declare(log, [id, id], [named.source]));
      expect(await namedIn(log)).toEqual(conversationsOf(under, named));
      ok(await log.trySummarize({ of: [summary], text: 'above', sources: [above.source] }));
      expect(await namedIn(log)).toEqual(conversationsOf(under, named, under, named, above));
    },
    mutants: [
      change(
        'entries give none',
        'write_summary',
        'where v.pos between ends[1] and ends[2] and (s.block',
        'where false and (s.block',
      ),
      change(
        'summaries give none',
        'write_summary',
        'x.session_id = p_session and x.summary_id = any (under)',
        'false',
      ),
      change(
        'what is named is not kept',
        'write_summary',
        "from entry_sources(call.live, p_summary -> 'sources', t) f",
        "from entry_sources(call.live, p_summary -> 'sources', t) f where false",
      ),
    ],
  },
  {
    way: 'a source that the audience does not read is not there to be named',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      await house.acme.conversation('diary', ['ana']);
      await house.acme.say('diary', 'ana', 'CANARY');
      const sources = [{ conversation: 'diary', seq: '1' }];
      refuses(await declare(log, [ids.one, ids.two], sources), 'not_found');
      expect(await listed(log)).toEqual([]);
    },
    mutants: [
      change(
        'what is not there is left out',
        'write_summary',
        "stored <> jsonb_array_length(p_summary -> 'sources')",
        'false',
      ),
    ],
  },
  {
    way: 'a summary of summaries is of those of its own place that stand',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      const ana = await placeOf(log, 'ana');
      const own = await log.summarize({ from: ids.one, to: ids.one }, 'own');
      const stale = await log.summarize({ from: ids.two, to: ids.two }, 'stale');
      const ofAna = await ana.summarize({ from: ids.three, to: ids.three }, 'CANARY');
      ok(await log.edit(ids.two, '1', [text(long('deux'))]));
      for (const of of [[ofAna], [stale], [own, ofAna], [own, stale]]) {
        refuses(await log.call('POST', '/summary-input', { of }), 'not_found');
        refuses(await log.trySummarize({ of, text: 'above' }), 'not_found');
      }
    },
    mutants: [
      change(
        'any will do',
        'write_summary',
        'from standing_summaries(call.live, p_session, head.change, place, t) s where s.id',
        'from log_summaries s where s.org_id = org and s.session_id = p_session and s.id',
      ),
      change(
        'those that are not there are left out',
        'write_summary',
        'case when count(*) <> (select count(distinct x) from unnest(under) x) then',
        'case when count(*) = 0 then',
      ),
      change(
        'they are left out of what is given',
        'summary_input',
        'if result.items <> (select count(distinct x) from unnest(wanted) x) then',
        'if result.items = 0 then',
      ),
    ],
  },
  {
    way: 'a summary of summaries is sent rather than those of their level',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      await log.summarize({ from: ids.one, to: ids.two }, 'first');
      const second = await log.summarize({ from: ids.two, to: ids.three }, 'second');
      await log.summarize({ of: [second] }, 'above');
      expect(await shownIn(log)).toEqual(['one', 'S: above', 'four']);
    },
    mutants: [change('it is of their level', 'write_summary', 'max(c.level) + 1', 'max(c.level)')],
  },
  {
    way: 'a summary is written once under the key of its turn',
    async holds(house) {
      const { log, writer, ids } = await writtenLog(house);
      const { state } = ok(await log.summaryInput(ids.one, ids.two));
      const summary = { from: ids.one, to: ids.two, state, text: 'once' };
      const { summary: id } = ok(await log.trySummarize(summary, 'key'));
      expect(ok(await log.trySummarize(summary, 'key')).summary).toBe(id);
      refuses(await log.trySummarize({ ...summary, text: 'other' }, 'key'), 'conflict');
      const ofAnother = await log.by(writer).trySummarize({ ...summary, text: 'new' }, 'key');
      expect([ofAnother.code, ofAnother.body]).toEqual([
        undefined,
        expect.not.objectContaining({ summary: id }),
      ]);
    },
    mutants: [
      change(
        'another request is taken for the same',
        'write_summary',
        "case when known.request_digest <> p_request_digest then 'conflict' end",
        'null',
      ),
      change(
        'it is that of any turn',
        'write_summary',
        'a.turn_id = (call.live).turn_id and a.key',
        'a.key',
      ),
    ],
  },
];

/** A turn that was shown something for ana, what it may write, and whom that binds. */
export const SUMMARIES_BOUND: readonly Way[] = [
  {
    way: 'a turn that was shown something for some readers writes a summary for them alone',
    async holds(house) {
      const { log, ben, ana, open, writer } = await shownAna(house);
      for (const at of [log, ben]) {
        const { state } = ok(await at.by(writer).summaryInput(open, open));
        refuses(
          await at.trySummarize({ from: open, to: open, state, text: 'told' }),
          'narrowing_refused',
        );
        expect(await listed(at.by(writer))).toEqual([]);
      }
      const { state } = ok(await ana.summaryInput(open, open));
      const summary = { from: open, to: open, state, text: 'told to ana' };
      expect((await ana.trySummarize(summary)).code).toBeUndefined();
    },
    mutants: [
      change('it is not asked', 'write_summary', 'else judge_place(call.live, place) end', 'end'),
      change('every place is hers', 'judge_place', 'not readers <@ only_for', 'false'),
      change('no place is hers', 'judge_place', 'not readers <@ only_for', 'true'),
    ],
  },
  {
    way: 'who reads the summary of such a turn is bound as it was, also where another one wrote since',
    async holds(house) {
      const { second, open, another, turn } = await shownAna(house);
      const { state } = ok(await second.by(await another()).summaryInput(open, open));
      const summary = { from: open, to: open, state };
      ok(await second.by(turn).trySummarize({ ...summary, text: 'told' }));
      ok(await second.by(await another()).trySummarize({ ...summary, text: 'told again' }));
      const later = await another();
      ok(await second.by(later).summaries());
      expect(ok(await later.propose('an answer')).code).toBe('narrowing_refused');
    },
    mutants: [
      change(
        'a summary does not bind',
        'write_summary',
        'perform bind_place(call.live, place);',
        '',
      ),
      change(
        'the place is left as it was',
        'bind_place',
        'meet(n.only_for, t.only_for)',
        'n.only_for',
      ),
      change(
        'the last one to write counts',
        'bind_place',
        'meet(n.only_for, t.only_for)',
        't.only_for',
      ),
    ],
  },
  {
    way: 'a place that a summary was written for is claimed',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      const { handle } = await log.open({ name: 'desk' });
      const { state } = ok(await log.summaryInput(ids.one, ids.two));
      const summary = { from: ids.one, to: ids.two, state, text: 'for all' };
      ok(await log.through(handle).trySummarize(summary));
      refuses(await log.tryOpen({ name: 'desk', reader: 'ana' }), 'conflict');
    },
    mutants: [
      change('it may still be', 'bind_place', 'set claimed = true, only_for', 'set only_for'),
    ],
  },
];

async function shownAna({ enter }: LogHouse) {
  const entered = await enter();
  const { log } = entered;
  const [ana, ben] = [await placeOf(log, 'ana'), await placeOf(log, 'ben')];
  const second = await placeOf(log, 'ana', 'second');
  const [open = ''] = await log.append(said(text(long('open'))), said(text('of ana', 'ana')));
  ok(await ana.compile());
  return { ...entered, ana, ben, second, open };
}
