import { expect } from 'vitest';
import { ok, type Answer } from '../support/gateway.ts';
import { text, type TestLog } from '../support/log.ts';
import { change, placeOf, refuses, said, type Way } from './log-house.ts';
import { declare, listed, long, note, shownIn, writtenLog } from './summary-house.ts';
import { directly } from './ways-announced.ts';

/** Each way in which a summary is told, with what puts its sources into the ledger. */
const TOLD: readonly [
  what: string,
  tell: (log: TestLog, id: string) => Promise<Answer>,
  ...string[],
][] = [
  [
    'a compile',
    (log) => log.compile(),
    'compile_log',
    'summary_sources(org, p_session, found_ids) || placed',
    'placed',
  ],
  [
    'a preview',
    (log) => log.preview(),
    'compile_log',
    'summary_sources(org, p_session, found_ids) || placed',
    'placed',
  ],
  [
    'the list of summaries',
    (log) => log.summaries(),
    'list_summaries',
    'result.sources := summary_sources(org, p_session, found_ids)',
    'result.sources := null',
  ],
  [
    'what is given to be summarized',
    (log, id) => log.call('POST', '/summary-input', { of: [id] }),
    'summary_input',
    'result.sources := summary_sources(org, p_session, wanted)',
    'result.sources := null',
  ],
];

/** What is sent of summaries, and when it is not. */
export const SUMMARIZED: readonly Way[] = [
  {
    way: 'a place shows no summary of another one',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      const [ana, ben] = [await placeOf(log, 'ana'), await placeOf(log, 'ben')];
      await ana.summarize({ from: ids.one, to: ids.four }, 'CANARY');
      for (const at of [log, ben]) {
        expect(await shownIn(at)).toEqual(['one', 'two', 'three', 'four']);
        expect(await listed(at)).toEqual([]);
      }
      expect(await shownIn(ana)).toEqual(['S: CANARY']);
    },
    mutants: [
      change(
        'those of every place stand',
        'standing_summaries',
        's.namespace = p_place.name\n    and s.change',
        's.change',
      ),
      change(
        'it is written for the default one',
        'write_summary',
        'values (org, p_session, place.name, write_summary.summary',
        "values (org, p_session, 'default', write_summary.summary",
      ),
    ],
  },
  {
    way: 'a summary goes once an entry under it is edited',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      const first = await log.summarize({ from: ids.one, to: ids.two }, 'first');
      await log.summarize({ of: [first] }, 'above');
      ok(await log.edit(ids.two, '1', [text(long('deux'))]));
      expect(await shownIn(log)).toEqual(['one', 'deux', 'three', 'four']);
    },
    mutants: [
      change(
        'it stands all the same',
        'standing_summaries',
        '(s.stale_at is null or s.stale_at > p_mark)',
        'true',
      ),
      change('an edit does not tell', 'edit_log', 'old.pos = any (s.positions)', 'false'),
      change(
        'one above is not of its entries',
        'write_summary',
        'order by p.position)\n    into',
        'order by p.position limit 1)\n    into',
      ),
    ],
  },
  {
    way: 'what is read as of a mark has the summaries that stood then',
    async holds(house) {
      const { log, turn, ids } = await writtenLog(house);
      await log.summarize({ from: ids.one, to: ids.one }, 'before');
      const { state } = ok(await log.summaryInput(ids.two, ids.two));
      // Neither of these raises the watermark that is read to.
      ok(await log.trySummarize({ from: ids.two, to: ids.two, state, text: 'after' }));
      ok(await log.edit(ids.one, '1', [text('another')]));
      const answer = await directly(house.gateway, turn, undefined, '1');
      if (!answer.ok) throw new Error(answer.code);
      expect(answer.result.summaries.map((one) => one.text)).toEqual(['before']);
    },
    mutants: [
      change(
        'those written since come along',
        'standing_summaries',
        's.change <= p_mark and',
        'true and',
      ),
      change(
        'those that an edit has taken since are gone',
        'standing_summaries',
        's.stale_at is null or s.stale_at > p_mark',
        's.stale_at is null',
      ),
    ],
  },
  {
    way: 'a summary of which a source is gone is not sent, and no fork takes it over',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      const from = await note(house);
      ok(await declare(log, [ids.one, ids.two], [from.source]));
      // Another session was shown it.
      const elsewhere = await house.enter();
      await elsewhere.log.append({ ...said(text('made of it')), sources: [from.source] });
      const fork = await log.fork('early');
      await from.close();
      for (const at of [log, fork, await log.fork('late')]) {
        expect(await shownIn(at)).toEqual(['one', 'two', 'three', 'four']);
        expect(await listed(at)).toEqual([]);
      }
    },
    mutants: [
      change(
        'no source is asked',
        'standing_summaries',
        'if cardinality(unread) > 0 then',
        'if false then',
      ),
      change(
        'what any session was shown was asked about',
        'standing_summaries',
        'l.org_id = org and l.session_id = p_session\n        and l.conv',
        'l.org_id = org and l.conv',
      ),
      change(
        'none is found gone',
        'standing_summaries',
        'where judge_sources(org, array[x.s], extent) is not null',
        'where false',
      ),
      change(
        'a fork does not know its sources',
        'fork_log',
        's.id = x.summary_id\n      where',
        's.id = x.summary_id\n      where false and',
      ),
    ],
  },
  {
    way: 'a summary of a source as it is now is sent, and one of what it was before is not',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      const from = await note(house);
      ok(await declare(log, [ids.one, ids.one], [from.source]));
      await from.edit();
      ok(await declare(log, [ids.two, ids.two], [from.source]));
      for (let times = 0; times < 2; times++)
        expect(await shownIn(log)).toEqual(['one', 'S: short', 'three', 'four']);
    },
    mutants: [
      change(
        'the one goes with the other',
        'standing_summaries',
        'and x.seq = g.from_seq and x.source_revision = g.revision',
        'and x.seq = g.from_seq',
      ),
      change(
        'the one stays with the other',
        'standing_summaries',
        'coalesce(l.revision, 0) = x.source_revision',
        'coalesce(l.revision, 0) >= 0',
      ),
    ],
  },
  ...TOLD.map(([what, tell, routine = '', from = '', to = '']): Way => ({
    way: `what a summary came from that is told by ${what} is answered for from then on`,
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      const named = await note(house);
      const { summary } = ok(await declare(log, [ids.one, ids.two], [named.source]));
      ok(await tell(log, summary));
      await named.remove();
      refuses(await log.entries(), 'source_revoked');
    },
    mutants: [
      change('the ledger does not get it', routine, from, to),
      ...(what === 'a compile'
        ? [
            change(
              'nothing is put there',
              'read_log',
              'perform note_in_ledger((call.live).org_id, p_session, seen.sources, pending);',
              '',
            ),
          ]
        : []),
    ],
  })),
  {
    way: 'a fork has the summaries of the place that it is made through, and no others',
    async holds(house) {
      const { log, ids } = await writtenLog(house);
      const ana = await placeOf(log, 'ana');
      await log.summarize({ from: ids.one, to: ids.two }, 'own');
      await ana.summarize({ from: ids.one, to: ids.four }, 'CANARY');
      expect(await shownIn(await log.fork('side'))).toEqual(['S: own', 'three', 'four']);
    },
    mutants: [
      change(
        'it has all',
        'fork_log',
        'from standing_summaries(call.live, p_session, head.change, place, t) s',
        'from (select * from log_summaries l where l.org_id = org and l.session_id = p_session) s',
      ),
      change('it has none', 'fork_log', 'where c.positions is not null', 'where false'),
    ],
  },
];
