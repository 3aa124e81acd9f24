import { expect } from 'vitest';
import { ok, type Answer } from '../support/gateway.ts';
import { text, type TestLog } from '../support/log.ts';
import { change, type LogHouse, type Way } from './log-house.ts';

/** What people said, which no turn is asked about. */
export const said = (...blocks: object[]) => ({ role: 'user', participant: 'ben', blocks });

/** Something for everybody, for ana, in a shared entry and in one of her own, and for ben. */
async function mixedLog(log: TestLog) {
  const ids = await log.append(
    said(text('an open word'), text('CANARY word', 'ana')),
    said(text('CANARY word of its own', 'ana')),
    said(text('a word for ben', 'ben')),
    said(text('the last word')),
  );
  const [shared = '', ofAna = '', ofBen = '', last = ''] = ids;
  const ben = log.through((await log.open({ name: 'of ben', reader: 'ben' })).handle);
  return { ben, shared, ofAna, ofBen, last };
}

/** Something came, and nothing of ana. */
function hides(answer: Answer): void {
  const found = JSON.stringify(ok(answer));
  expect(found).toContain('word');
  expect(found).not.toContain('CANARY');
}

/** A refusal with this code. A fault is neither that nor a leak. */
export function refuses({ status, code, body }: Answer, expected: string): void {
  if (status >= 500) throw new Error(JSON.stringify(body));
  expect(code).toBe(expected);
}

const seqs = (sources: readonly { seq: string }[] | undefined) =>
  sources?.map(({ seq }) => seq) ?? [];

/** What the provenance of a compile and the entries of a page say of the only entry's sources. */
async function sourcesTold(log: TestLog): Promise<string[]> {
  const [first] = ok(await log.compile()).provenance;
  const [same] = ok(await log.entries()).entries;
  expect(seqs(same?.sources)).toEqual(seqs(first?.sources));
  return seqs(first?.sources);
}

const whole = (routine: string, ...around: [before: string, after: string]) => {
  const [before, after] = around;
  return change(
    'every block is shown',
    routine,
    `${before}log_view(${after}`,
    `${before}whole_view(${after}`,
  );
};
const toAna = (what: string) =>
  change(
    'it is made for another reader',
    'look',
    `when '${what}' then compile_log(org, held.id, mark, readers)`,
    `when '${what}' then compile_log(org, held.id, mark, array['ana'])`,
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
      whole('compile_log', 'from ', ''),
      change(
        'the view is of nobody',
        'log_view',
        'case when e.restricted then',
        'case when false then',
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
    mutants: [toAna('preview'), whole('compile_log', 'from ', '')],
  },
  {
    way: 'what is given to be summarized holds no block for another reader',
    async holds({ enter }) {
      const { ben, shared, last } = await mixedLog((await enter()).log);
      hides(await ben.summaryInput(shared, last));
    },
    mutants: [
      whole('summary_input', 'from ', 'p_org, p_session, p_mark, p_readers) v\n  left join'),
    ],
  },
  {
    way: 'an entry for another reader is not there to be summarized',
    async holds({ enter }) {
      const { ben, ofAna, last } = await mixedLog((await enter()).log);
      refuses(await ben.summaryInput(ofAna, ofAna), 'not_found');
      refuses(await ben.summaryInput(ofAna, last), 'not_found');
    },
    mutants: [
      whole('summary_input', 'from ', 'p_org, p_session, p_mark, p_readers) v\n  where v.id'),
    ],
  },
  {
    way: 'a pinned range holds no block for another reader',
    async holds({ enter }) {
      const { ben, shared } = await mixedLog((await enter()).log);
      ok(await ben.pin(shared));
      hides(await ben.pins());
    },
    mutants: [whole('pinned_log', 'from ', '')],
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
      change('every place’s pins are shown', 'pinned_log', 'and p.namespace = p_namespace', ''),
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
    mutants: [whole('search_log', 'from ', '')],
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
      change('it begins anew', 'list_log', 'where l.change > since', 'where true'),
      change(
        'the last one comes again',
        'list_log',
        'where l.change > since',
        'where l.change >= since',
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
        'where l.change > since',
        'where l.pos > since',
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
      change('all are given', 'describe_log', 'and n.reader is not distinct from p_reader', ''),
    ],
  },
  {
    way: 'nothing tells the source of a block for another reader',
    async holds({ enter }) {
      const { log } = await enter();
      await log.append({
        ...said(text('an open word'), text('CANARY', 'ana')),
        sources: [
          { conversation: 'notes', seq: '1', block: 0 },
          { conversation: 'notes', seq: '2', block: 1 },
        ],
      });
      expect(await sourcesTold(log)).toEqual(['1']);
    },
    mutants: [
      change(
        'the sources of all blocks are told',
        'sources_of',
        '(s.block is null or not is_hidden(p_whole -> s.block, p_readers))',
        'true',
      ),
    ],
  },
  {
    way: 'the sources of an edit stay with its blocks, and those of what it did not see with theirs',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append({
        ...said(text('open'), text('CANARY', 'ana')),
        sources: [{ conversation: 'notes', seq: '1', block: 1 }],
      });
      const place = async (name: string) =>
        log.through((await log.open({ name, reader: name })).handle);
      const [ana, ben] = [await place('ana'), await place('ben')];
      const edit = {
        blocks: [text('open'), text('for ben', 'ben')],
        sources: [{ conversation: 'notes', seq: '2', block: 1 }],
      };
      ok(await ben.by(writer).call('PATCH', `/entries/${id}`, { revision: '1', edit }));
      expect(await sourcesTold(ana)).toEqual(['1']);
      expect(await sourcesTold(ben)).toEqual(['2']);
    },
    mutants: [
      change(
        'an edit counts its blocks where they are not',
        'edit_log',
        "array_position(slots, (e.source ->> 'block')::integer) - 1)",
        "(e.source ->> 'block')::integer)",
      ),
      change(
        'the sources of what was not seen go',
        'edit_log',
        'and -(s.block + 1) = any (slots)',
        'and false',
      ),
    ],
  },
  {
    way: 'the provider’s form of an entry is not sent where any of it is hidden',
    async holds({ enter }) {
      const { log } = await enter();
      await log.append(
        said(text('a word'), text('CANARY', 'ana'), {
          type: 'raw',
          provider: 'lab',
          value: 'CANARY',
        }),
      );
      hides(await log.compile());
    },
    mutants: [
      change(
        'it is sent as any other block',
        'blocks_for',
        "(whole or block ->> 'type' is distinct from 'raw')",
        'true',
      ),
    ],
  },
  {
    way: 'a form that blocks share is not sent where one of them is hidden',
    async holds({ enter }) {
      const { log } = await enter();
      const replay = { id: 'r', provider: 'lab', value: 'CANARY' };
      await log.append(said({ ...text('a word'), replay }, { ...text('CANARY', 'ana'), replay }));
      hides(await log.compile());
    },
    mutants: [
      change(
        'it is sent with what is shown',
        'blocks_for',
        "case when replayable then block else block - 'replay' end",
        'block',
      ),
    ],
  },
  {
    way: 'what an older version stored elsewhere is shown to nobody who is not named',
    async holds({ enter, gateway }) {
      const { log } = await enter();
      const ana = log.through((await log.open({ name: 'of ana', reader: 'ana' })).handle);
      for (const block of [
        { type: 'tool_result', call: 'c', content: [{ ...text('CANARY', 'ana') }] },
        { ...text('CANARY'), audience: ['ana', 7] },
      ]) {
        const [id = ''] = await log.append(said(text('a word'), text('replaced')));
        const blocks = JSON.stringify([text('a word'), block]);
        await gateway.owner`
          update earshot.log_entries set blocks = ${blocks}::text::jsonb where id = ${id}`;
        hides(await ana.compile());
      }
    },
    mutants: [
      change(
        'a block within a block hides nothing',
        'is_hidden',
        "or jsonb_path_exists(p_block, '$.content.**.audience')",
        '',
      ),
      change(
        'a list of something else names readers',
        'names_readers',
        `and not jsonb_path_exists(p_audience, 'strict $[*] ? (@.type() != "string")')`,
        '',
      ),
    ],
  },
  {
    way: 'a class among the readers is named by nobody',
    async holds(house) {
      for (const place of ['open', 'team'] as const) {
        const { log } = await house.enter(place);
        await log.append(
          said(text('a word')),
          said(text('CANARY', 'ana', 'ben', 'cleo', 'ana-team')),
        );
        hides(await log.compile());
      }
    },
    mutants: [
      change(
        'a class is left out of the count',
        'names_readers',
        'and array_position(p_readers, null) is null',
        '',
      ),
      change(
        'a class has a name',
        'view_readers',
        "case when r.kind = 'user' then r.external_id end",
        'r.external_id',
      ),
    ],
  },
  {
    way: 'a fork holds nothing that its namespace does not show',
    async holds({ enter, gateway }) {
      const { ben } = await mixedLog((await enter()).log);
      const fork = await ben.fork('side');
      hides(await fork.compile());
      const ana = await fork.open({ name: 'of ana', reader: 'ana' });
      hides(await fork.through(ana.handle).entries());
      const stored = await gateway.owner`
        select blocks from earshot.log_entries where session_id = ${fork.session}`;
      expect(stored).toHaveLength(3);
      expect(JSON.stringify(stored)).not.toContain('CANARY');
    },
    mutants: [
      change(
        'all of it is copied',
        'fork_log',
        'blocks_for(v.whole, readers), (call.live).turn_id, v.written_at\n      from log_view(',
        'v.whole, (call.live).turn_id, v.written_at\n      from whole_view(',
      ),
      change('entries are copied whole', 'fork_log', 'blocks_for(v.whole, readers),', 'v.whole,'),
    ],
  },
  {
    way: 'a fork is for the reader of the namespace that it was made through',
    async holds({ enter }) {
      const { log } = await enter();
      const { ben } = await mixedLog(log);
      const fork = await ben.fork('side');
      expect(ok(await fork.describe()).reader).toBe('ben');
      refuses(await log.tryFork('side'), 'conflict');
      refuses(await fork.tryOpen({ reader: 'ana' }), 'conflict');
    },
    mutants: [
      change(
        'it is for the audience',
        'fork_log',
        'p_name, place.reader, place.watermark',
        'p_name, null, place.watermark',
      ),
      change(
        'another reader gets it too',
        'fork_log',
        'when known.reader is distinct from place.reader',
        'when false',
      ),
    ],
  },
  {
    way: 'a fork tells no source of what it was not shown, and later readers none of what they are not',
    async holds({ enter }) {
      const { log } = await enter();
      await log.append({
        ...said(text('CANARY', 'ana'), text('an open word'), text('for ben', 'ben')),
        sources: [
          { conversation: 'notes', seq: '1', block: 0 },
          { conversation: 'notes', seq: '2', block: 2 },
        ],
      });
      const ben = log.through((await log.open({ name: 'of ben', reader: 'ben' })).handle);
      const fork = await ben.fork('side');
      expect(await sourcesTold(fork)).toEqual(['2']);
      const cleo = await fork.open({ name: 'of cleo', reader: 'cleo' });
      expect(await sourcesTold(fork.through(cleo.handle))).toEqual([]);
    },
    mutants: [
      change(
        'the sources of all blocks are copied',
        'fork_log',
        'where s.block is null or not is_hidden(v.whole -> s.block, readers)',
        'where true',
      ),
      change(
        'they count as those of the whole entry',
        'fork_log',
        'case when s.block is not null then 1 end',
        'null::integer',
      ),
    ],
  },
  {
    way: 'a fork has no pin of what it does not hold',
    async holds(house) {
      const { log, writer } = await house.enter();
      const ben = log.through((await log.open({ name: 'of ben', reader: 'ben' })).handle);
      const [id = ''] = await log.append(said(text('for ben', 'ben')));
      ok(await ben.pin(id));
      ok(await ben.by(writer).edit(id, '1', [text('not for ben', 'eve')]));
      const fork = await ben.fork('side');
      expect(await pinsOf(house, fork)).toBe(0);
    },
    mutants: [
      change(
        'every pin is copied',
        'fork_log',
        "'default', v.pos\n      from log_view(",
        "'default', v.pos\n      from whole_view(",
      ),
    ],
  },
];

async function pinsOf({ gateway }: LogHouse, { session }: TestLog): Promise<number> {
  const pins =
    await gateway.owner`select position from earshot.log_pins where session_id = ${session}`;
  return pins.length;
}
