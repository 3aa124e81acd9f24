import { expect } from 'vitest';
import { ok } from '../support/gateway.ts';
import { text, type TestLog } from '../support/log.ts';
import {
  change,
  hides,
  mixedLog,
  placeOf,
  refuses,
  said,
  sourcesTold,
  type LogHouse,
  type Way,
} from './log-house.ts';

/** What goes along with blocks: sources, the forms of providers, and all of it into a fork. */
export const WAYS_ALONG: readonly Way[] = [
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
        '(s.block is null or is_shown(p_whole, s.block, p_readers))',
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
      const [ana, ben] = [await placeOf(log, 'ana'), await placeOf(log, 'ben')];
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
        'else -(s.block + 1) = any (slots) end',
        'else false end',
      ),
    ],
  },
  {
    way: 'the sources of an entry stay as long as something of it does that an editor did not see',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const [id = ''] = await log.append({
        ...said(text('open'), text('CANARY', 'ana')),
        sources: [{ conversation: 'notes', seq: '1' }],
      });
      ok(await log.by(writer).edit(id, '1', [text('open again')]));
      expect(await sourcesTold(log)).toEqual(['1']);
    },
    mutants: [
      change(
        'they go',
        'edit_log',
        'when s.block is null then 0 > any (slots)',
        'when s.block is null then false',
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
    way: 'nothing tells the source of a form that is not sent',
    async holds({ enter }) {
      const { log } = await enter();
      await log.append({
        ...said(text('open'), { type: 'raw', provider: 'lab', value: 1 }, text('CANARY', 'ana')),
        sources: [{ conversation: 'notes', seq: '1', block: 1 }],
      });
      expect(await sourcesTold(log)).toEqual([]);
    },
    mutants: [
      change(
        'it counts as any other block',
        'is_shown',
        "p_blocks -> p_place ->> 'type' is distinct from 'raw'",
        'true',
      ),
    ],
  },
  {
    way: 'a form of what was edited is not sent with what the editor did not see',
    async holds({ enter }) {
      const { log, writer } = await enter();
      const replay = { id: 'r', provider: 'lab', value: 'CANARY' };
      const [id = ''] = await log.append(
        said({ ...text('CANARY', 'ana'), replay }, { ...text('a word', 'ben'), replay }),
      );
      const [ana, ben] = [await placeOf(log, 'ana'), await placeOf(log, 'ben')];
      ok(await ana.by(writer).edit(id, '1', [text('another', 'ana')]));
      hides(await ben.compile());
    },
    mutants: [
      change(
        'it stays',
        'edit_log',
        "(old.whole -> -x.slot - 1) - 'replay'",
        '(old.whole -> -x.slot - 1)',
      ),
    ],
  },
  {
    way: 'a form of what is hidden is not sent with another entry',
    async holds({ enter }) {
      const { log } = await enter();
      const replay = { id: 'r', provider: 'lab', value: 'CANARY' };
      await log.append(said({ ...text('CANARY', 'ana'), replay }), said(text('a word')));
      const again = said({ ...text('a word'), replay });
      const fork = await log.fork('side');
      for (const of of [log, fork]) {
        refuses(await of.tryAppend([again]), 'conflict');
        hides(await of.compile());
      }
    },
    mutants: [
      change('it may be there twice', 'write_entry', 'and r.position <> p_position', 'and false'),
      change(
        'a fork does not know it',
        'fork_log',
        'from log_replays r where r.org_id = org and r.session_id = p_session',
        'from log_replays r where false',
      ),
    ],
  },
  {
    way: 'what an older version stored elsewhere is shown to nobody who is not named',
    async holds({ enter, gateway }) {
      const { log } = await enter();
      const ana = await placeOf(log, 'ana');
      for (const block of [
        { type: 'tool_result', call: 'c', content: [{ ...text('CANARY', 'ana') }] },
        { ...text('CANARY'), audience: ['ana', 7] },
      ]) {
        const [id = ''] = await log.append(said(text('a word'), text('replaced')));
        const call = { type: 'tool_call', id: 'c', name: 'look', arguments: {} };
        const blocks = JSON.stringify([text('a word'), call, block]);
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
        'blocks_for(v.whole, readers), (call.live).turn_id, v.written_at, e.erased\n      from log_view(',
        'v.whole, (call.live).turn_id, v.written_at, e.erased\n      from whole_view(',
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
      const ben = await placeOf(log, 'ben');
      const fork = await ben.fork('side');
      expect(await sourcesTold(fork)).toEqual(['2']);
      const cleo = await fork.open({ name: 'of cleo', reader: 'cleo' });
      expect(await sourcesTold(fork.through(cleo.handle))).toEqual([]);
    },
    mutants: [
      change(
        'the sources of all blocks are copied',
        'fork_log',
        'where s.block is null or is_shown(v.whole, s.block, readers)',
        'where true',
      ),
      change(
        'they stay where its blocks are not',
        'fork_log',
        '(select count(*) from generate_series(0, s.block - 1) as earlier where is_shown(v.whole, earlier, readers))',
        's.block',
      ),
      change(
        'they count as those of the whole entry',
        'fork_log',
        'case when s.block is not null then\n          (select',
        'case when false then\n          (select',
      ),
    ],
  },
  {
    way: 'a fork has no pin of what it does not hold',
    async holds(house) {
      const { log, writer } = await house.enter();
      const ben = await placeOf(log, 'ben');
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
