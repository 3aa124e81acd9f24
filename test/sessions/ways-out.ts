import { expect } from 'vitest';
import { ok } from '../support/gateway.ts';
import { text } from '../support/log.ts';
import { change, hides, mixedLog, refuses, said, type Way } from './log-house.ts';

const whole = (routine: string, ...around: [before: string, after: string]) => {
  const [before, after] = around;
  return change(
    'every block is shown',
    routine,
    `${before}log_view(${after}`,
    `${before}whole_view(${after}`,
  );
};
/** A view with the injections of the own namespace in it. */
const OWN = 'org, p_session, p_mark, p_readers, p_place.agent, p_place.name) v';

const toAna = (what: string) =>
  change(
    'it is made for another reader',
    'look',
    `when '${what}' then compile_log(p_call.live, held.id, mark, readers,`,
    `when '${what}' then compile_log(p_call.live, held.id, mark, array['ana'],`,
  );

/** Each way in which what a log holds gets out of it, and what keeps others' blocks from coming along. */
export const WAYS_OUT: readonly Way[] = [
  {
    way: 'a compile holds no block for another reader',
    async holds({ enter }) {
      const { ben } = await mixedLog((await enter()).log);
      hides(await ben.compile());
    },
    mutants: [
      toAna('compile'),
      whole('compile_log', 'from ', `${OWN}\n  left join sourced`),
      change(
        'the view is of nobody',
        'log_view',
        'case when e.restricted then earshot.view_of(',
        'case when false then earshot.view_of(',
      ),
      change('a hidden block is a shown one', 'blocks_for', 'where shown and', 'where'),
      change(
        'no audience hides',
        'is_hidden',
        "not earshot.names_readers(p_block -> 'audience', p_readers) or",
        '',
      ),
      change('an audience is for whoever asks', 'names_readers', 'and p_audience ?& p_readers', ''),
    ],
  },
  {
    way: 'a compile for an audience holds no block for a part of it',
    async holds({ enter }) {
      const { log } = await enter();
      await mixedLog(log);
      hides(await log.compile());
    },
    mutants: [
      change('one name of several is enough', 'names_readers', '?& p_readers', '?| p_readers'),
    ],
  },
  {
    way: 'a compile holds what is for its own reader',
    async holds({ enter }) {
      const { ben } = await mixedLog((await enter()).log);
      expect(await ben.texts()).toEqual(['an open word', 'a word for ben', 'the last word']);
    },
    mutants: [
      change(
        'it is made for the audience',
        'view_readers',
        'p_namespace.reader is not null',
        'false',
      ),
      change('the last change is left out', 'log_view', 'e.change <= p_mark', 'e.change < p_mark'),
    ],
  },
  {
    way: 'a compile holds an entry in its last revision alone',
    async holds({ enter }) {
      const { log } = await enter();
      const [id = ''] = await log.append(said(text('first')));
      ok(await log.edit(id, '1', [text('second')]));
      expect(await log.texts()).toEqual(['second']);
    },
    mutants: [
      change(
        'earlier revisions come along',
        'log_view',
        '(e.superseded_by is null or e.superseded_by > p_mark)',
        'true',
      ),
    ],
  },
  {
    way: 'no view tells who a block is for',
    async holds({ enter }) {
      const { ben } = await mixedLog((await enter()).log);
      expect(JSON.stringify(ok(await ben.compile()))).not.toContain('audience');
    },
    mutants: [change('the field stays', 'view_of', "b.block - 'audience'", 'b.block')],
  },
  {
    way: 'a preview holds no block for another reader',
    async holds({ enter }) {
      const { ben } = await mixedLog((await enter()).log);
      hides(await ben.preview());
    },
    mutants: [toAna('preview'), whole('compile_log', 'from ', `${OWN}\n  left join sourced`)],
  },
  {
    way: 'what is given to be summarized holds no block for another reader',
    async holds({ enter }) {
      const { ben, shared, last } = await mixedLog((await enter()).log);
      hides(await ben.summaryInput(shared, last));
    },
    mutants: [whole('summary_input', 'from ', `${OWN}\n  left join`)],
  },
  {
    way: 'an entry for another reader is not there to be summarized',
    async holds({ enter }) {
      const { ben, ofAna, last } = await mixedLog((await enter()).log);
      refuses(await ben.summaryInput(ofAna, last), 'not_found');
      refuses(await ben.summaryInput(ofAna, ofAna), 'not_found');
    },
    mutants: [whole('ends_of', 'from ', '')],
  },
  {
    way: 'a pinned range holds no block for another reader',
    async holds({ enter }) {
      const { ben, shared } = await mixedLog((await enter()).log);
      ok(await ben.pin(shared));
      hides(await ben.pins());
    },
    mutants: [
      whole(
        'pinned_log',
        'from ',
        'p_org, p_session, p_mark, p_readers, p_place.agent, null) v\n  join',
      ),
    ],
  },
  {
    way: 'the pins of another place are not among the own',
    async holds({ enter }) {
      const { log } = await enter();
      const { ben, shared } = await mixedLog(log);
      ok(await log.pin(shared));
      expect(ok(await ben.pins()).entries).toEqual([]);
    },
    mutants: [
      change(
        'every place’s pins are shown',
        'pinned_log',
        'and p.namespace = p_place.name and p.position = v.pos\n  left join',
        'and p.position = v.pos\n  left join',
      ),
    ],
  },
  {
    way: 'an entry for another reader is not there to be pinned',
    async holds({ enter }) {
      const { ben, ofAna } = await mixedLog((await enter()).log);
      refuses(await ben.pin(ofAna), 'not_found');
      refuses(await ben.unpin(ofAna), 'not_found');
    },
    mutants: [whole('pin_log', 'from ', '')],
  },
  {
    way: 'a search finds and counts no block for another reader',
    async holds({ enter }) {
      const { ben } = await mixedLog((await enter()).log);
      hides(await ben.search('word'));
      expect(ok(await ben.search('canary')).total).toBe('0');
    },
    mutants: [whole('search_log', '(select l.* from ', '')],
  },
  {
    way: 'a page of entries holds no block for another reader',
    async holds({ enter }) {
      const { ben } = await mixedLog((await enter()).log);
      hides(await ben.entries());
    },
    mutants: [whole('list_log', 'from ', '')],
  },
  {
    way: 'reading on by a cursor gives each entry of the view once',
    async holds({ enter }) {
      const { ben, shared, ofBen, last } = await mixedLog((await enter()).log);
      const given: string[] = [];
      let after = '';
      for (let pages = 0; pages < 6; pages++) {
        const page = ok(await ben.entries(`limit=1${after}`));
        given.push(...page.entries.map(({ id }) => id));
        after = `&after=${page.cursor ?? ''}`;
        if (page.complete) break;
      }
      expect(given).toEqual([shared, ofBen, last]);
    },
    mutants: [
      whole('list_log', 'from ', ''),
      change('it begins anew', 'list_log', 'where x.change > since', 'where true'),
      change(
        'the last one comes again',
        'list_log',
        'where x.change > since',
        'where x.change >= since',
      ),
      change('a page does not know of the next', 'list_log', 'limit page + 1', 'limit page'),
    ],
  },
  {
    way: 'an entry that changed comes again',
    async holds({ enter }) {
      const { log } = await enter();
      const [id = ''] = await log.append(said(text('first')), said(text('second')));
      const { cursor = '' } = ok(await log.entries());
      ok(await log.edit(id, '1', [text('first again')]));
      const page = ok(await log.entries(`after=${cursor}`));
      expect(page.entries.map(({ id, revision }) => [id, revision])).toEqual([[id, '2']]);
    },
    mutants: [
      change(
        'it is read by its place',
        'list_log',
        'where x.change > since',
        'where x.pos > since',
      ),
    ],
  },
  {
    way: 'a description counts no block for another reader',
    async holds({ enter }) {
      const { ben } = await mixedLog((await enter()).log);
      const { entries, blocks } = ok(await ben.describe());
      expect([entries, blocks]).toEqual(['3', '3']);
    },
    mutants: [whole('describe_log', 'from ', '')],
  },
  {
    way: 'a description gives no handle of another reader',
    async holds({ enter }) {
      const { log } = await enter();
      const { ben } = await mixedLog(log);
      await log.open({ name: 'of ana', reader: 'ana' });
      expect(ok(await ben.describe()).namespaces.map(({ name }) => name)).toEqual(['of ben']);
    },
    mutants: [
      change(
        'all are given',
        'describe_log',
        'and n.reader is not distinct from p_place.reader',
        '',
      ),
    ],
  },
];
