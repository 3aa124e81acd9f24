import { expect } from 'vitest';
import { ok } from '../support/gateway.ts';
import { text } from '../support/log.ts';
import { change, placeOf, refuses, said, type Way } from './log-house.ts';

const forAna = [text('a secret', 'ana')];

/** What an edit may take, and from whom. */
export const NARROWING: readonly Way[] = [
  {
    way: 'what an agent’s own reader may have read is not taken from it',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append(said(text('a secret')));
      ok(await log.compile());
      refuses(await log.by(writer).edit(id, '1', forAna), 'narrowing_refused');
    },
    mutants: [
      change(
        'the watermark is not asked',
        'edit_log',
        ' or n.watermark >= kept.first_change)',
        ')',
      ),
      change(
        'no block is taken',
        'narrows',
        "and not earshot.names_readers(a.block -> 'audience', p_readers)",
        'and false',
      ),
    ],
  },
  {
    way: 'what it may have read in an earlier revision is not taken from it',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append(said(text('a secret')));
      ok(await log.compile());
      ok(await log.by(writer).edit(id, '1', [text('the same secret')]));
      refuses(await log.by(writer).edit(id, '2', forAna), 'narrowing_refused');
    },
    mutants: [
      change(
        'the last revision alone is asked',
        'edit_log',
        'select e.first_change, e.addressee,',
        'select e.change as first_change, e.addressee,',
      ),
    ],
  },
  {
    way: 'nothing is taken from the reader of another namespace, whatever was read',
    async holds({ enter }) {
      const { log } = await enter();
      await placeOf(log, 'ben');
      const [id = ''] = await log.append(said(text('a secret')));
      refuses(await log.edit(id, '1', forAna), 'narrowing_refused');
    },
    mutants: [
      change(
        'its watermark alone is asked',
        'edit_log',
        '(n.reader is distinct from place.reader or n.watermark >= kept.first_change)',
        'n.watermark >= kept.first_change',
      ),
    ],
  },
  {
    way: 'a fork refuses what it inherited a watermark for',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append(said(text('a secret')));
      ok(await log.compile());
      const fork = await log.fork('side');
      refuses(await fork.by(writer).edit(id, '1', forAna), 'narrowing_refused');
    },
    mutants: [
      change(
        'it begins with none',
        'fork_log',
        'place.reader, place.watermark,',
        'place.reader, 0,',
      ),
    ],
  },
  {
    way: 'a fork refuses what its parent refuses, though it has the last revision alone',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append(said(text('a secret')));
      ok(await log.compile());
      ok(await log.by(writer).edit(id, '1', [text('the same secret')]));
      const fork = await log.fork('side');
      refuses(await fork.by(writer).edit(id, '2', forAna), 'narrowing_refused');
    },
    mutants: [
      change(
        'its entries begin anew',
        'fork_log',
        'v.change, e.first_change,',
        'v.change, v.change,',
      ),
    ],
  },
  {
    way: 'an entry for another reader is not there to be edited',
    async holds({ enter }) {
      const { log } = await enter();
      const [id = ''] = await log.append(said(text('CANARY', 'ana')));
      const ben = await placeOf(log, 'ben');
      refuses(await ben.edit(id, '1', [text('x')]), 'not_found');
    },
    mutants: [change('it is', 'edit_log', 'from log_view(', 'from whole_view(')],
  },
  {
    way: 'an edit leaves what it does not see where it was',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append(said(text('one'), text('of ana', 'ana'), text('two')));
      const [ana, ben] = [await placeOf(log, 'ana'), await placeOf(log, 'ben')];
      ok(await ben.by(writer).edit(id, '1', [text('uno'), text('due')]));
      expect(await ana.texts()).toEqual(['uno', 'of ana', 'due']);
    },
    mutants: [
      change(
        'what is hidden goes',
        'edit_slots',
        'where is_hidden(b.block, p_readers)',
        'where false',
      ),
      change(
        'what is hidden goes to the end',
        'edit_slots',
        'slots[: least(kept.nth - 1, cardinality(slots))] || -kept.place::integer\n      || slots[least(kept.nth, cardinality(slots) + 1) :]',
        'slots || -kept.place::integer',
      ),
    ],
  },
  {
    way: 'an edit of a revision that is no longer the last is a conflict',
    async holds({ enter }) {
      const { log } = await enter();
      const [id = ''] = await log.append(said(text('first')));
      ok(await log.edit(id, '1', [text('second')]));
      refuses(await log.edit(id, '1', [text('third')]), 'conflict');
    },
    mutants: [
      change('any is taken', 'edit_log', "when old.revision <> p_revision then 'conflict'", ''),
    ],
  },
  {
    way: 'an edit puts no audience on a system entry',
    async holds({ enter }) {
      const { log } = await enter();
      const [id = ''] = await log.append({ ...said(text('a rule')), role: 'system' });
      refuses(await log.edit(id, '1', [text('a rule', 'ana', 'ben')]), 'invalid_input');
    },
    mutants: [change('it is not looked at', 'edit_log', "old.role = 'system' and", 'false and')],
  },
];
